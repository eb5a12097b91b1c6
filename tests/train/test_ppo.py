"""The update of one drafter: ratio 1 at every temperature, gradients of any split, imitation on d* alone."""

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from seminar.learn.losses import value_loss
from seminar.learn.samples import origins, pack
from seminar.models.heads import ValueHead
from seminar.models.policy import Policy
from seminar.train.ppo import PpoLoss, Rewarded, update_agent
from seminar.train.update import Learner, Schedule
from seminar.types import Sample

TEMPERATURES = (0.2, 0.35, 0.5, 0.65, 0.8)
TARGETS = ("q_proj", "v_proj", "down_proj")


class Tokenizer:
    name_or_path, eos_token_id = "none", 2


def agent(*, dropout=0.0):
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, bos_token_id=1, eos_token_id=2,
        )
    )  # fmt: skip
    policy = Policy(model, Tokenizer())
    policy.add("a", rank=4, alpha=8, dropout=dropout, targets=TARGETS, seed=(0,))
    numbers = torch.Generator().manual_seed(1)
    for pair in policy.adapter("a").values():
        pair.B.data = 0.3 * torch.randn(pair.B.shape, generator=numbers)
    head = ValueHead(32)
    head.out.weight.data = torch.randn(1, 32, generator=numbers)
    schedule = Schedule(lr=1e-3, steps=10, warmup=0.0, floor=1.0)
    learner = Learner(policy, "a", schedule=schedule, max_grad_norm=1e9, head=head, head_lr=1e-2)
    return policy, learner


def sample(number, *, temperature=1.0, length=6, prompt=None):
    numbers = np.random.default_rng(number)
    return Sample(
        agent="a",
        prompt_ids=tuple(numbers.integers(3, 97, 5)) if prompt is None else prompt,
        completion_ids=tuple(numbers.integers(3, 97, length)),
        temperature=temperature,
        advantages=(0.0,) * length,
    )


def drafts(policy, *, score=True):
    """Five drafts at the five temperatures, with what an engine in agreement would have said of them."""
    made = []
    for k, temperature in enumerate(TEMPERATURES):
        one = sample(k, temperature=temperature, length=4 + k)
        with policy.active("a"), torch.no_grad():
            logprobs = policy.logprobs(pack([one], max_tokens=10**6)[0])
        said = Sample(
            **{**{n: getattr(one, n) for n in one.__slots__}, "engine_logprobs": tuple(logprobs.tolist())}
        )
        made.append(Rewarded(sample=said, reward=0.1 * k, units_T=np.arange(4 + k) // 2))
    return made


def settings(**changes):
    plain = {
        "clip": 0.2, "value": 0.1, "value_clip": 0.2, "beta": 0.0, "reference": None, "gamma": 0.99,
        "lam": 0.95,
        "epochs": 1, "imitation": 0.5, "max_tokens": 10**6, "max_gap": 1e-3,
    }  # fmt: skip
    return PpoLoss(**{**plain, **changes})


def gradients(learner):
    """Catch the gradients an update gathers, in place of its step."""
    caught = {}

    def step(_):
        caught.update({n: t.grad.clone() for n, t in learner.named.items() if t.grad is not None})
        return {}

    learner.step = step
    return caught


def test_the_ratio_is_one_at_the_first_inner_step_for_all_temperatures_in_one_batch():
    policy, learner = agent()
    done = update_agent(policy, learner, drafts(policy), [], step=0, seed=0, settings=settings())
    # trainer against engine: a ratio of 1 within 1e-5 is a gap of at most 1e-5 nats
    assert done.metrics["gap_max"] < 1e-5
    assert done.metrics["clipped"] == 0


def test_a_wrong_temperature_would_be_noticed():
    policy, learner = agent()
    made = drafts(policy)
    wrong = [
        Rewarded(
            sample=Sample(**{**{n: getattr(d.sample, n) for n in d.sample.__slots__}, "temperature": 1.0}),
            reward=d.reward,
            units_T=d.units_T,
        )
        for d in made
    ]
    done = update_agent(policy, learner, wrong, [], step=0, seed=0, settings=settings(max_gap=1e3))
    assert done.metrics["gap_max"] > 0.1


def test_any_split_into_micro_batches_gives_the_same_gradient():
    found = []
    for max_tokens in (10**6, 24, 14):
        policy, learner = agent()
        caught = gradients(learner)
        made = drafts(policy)
        update_agent(
            policy,
            learner,
            made,
            [sample(9), sample(10)],
            step=0,
            seed=0,
            settings=settings(max_tokens=max_tokens),
        )
        assert (
            len(pack([d.sample for d in made], max_tokens=max_tokens)) == {10**6: 1, 24: 3, 14: 5}[max_tokens]
        )
        found.append(caught)
    for other in found[1:]:
        for name, gradient in found[0].items():
            torch.testing.assert_close(other[name], gradient, rtol=1e-5, atol=1e-6)


def test_imitation_is_half_the_mean_token_nll_of_the_selected_draft_and_nothing_else():
    policy, learner = agent()
    caught = gradients(learner)
    star = sample(3)
    update_agent(policy, learner, [], [star], step=0, seed=0, settings=settings())
    other, plain = agent()
    with other.active("a"):
        (-0.5 * other.logprobs(pack([star], max_tokens=10**6)[0]).mean()).backward()
    for name, tensor in plain.named.items():
        if tensor.grad is None:
            assert name not in caught  # the value head takes no part
        else:
            torch.testing.assert_close(caught[name], tensor.grad, rtol=1e-5, atol=1e-8)


def test_without_drafts_and_imitation_nothing_changes():
    policy, learner = agent()
    before = {n: t.detach().clone() for n, t in learner.named.items()}
    update_agent(policy, learner, [], [], step=0, seed=0, settings=settings())
    assert all(torch.equal(before[n], t) for n, t in learner.named.items())


def test_later_epochs_keep_the_advantages_and_move_the_ratio():
    policy, learner = agent(dropout=0.2)
    made = drafts(policy)
    once = update_agent(policy, agent(dropout=0.2)[1], made, [], step=0, seed=5, settings=settings())
    policy, learner = agent(dropout=0.2)
    often = update_agent(policy, learner, made, [], step=0, seed=5, settings=settings(epochs=4, clip=1e-4))
    assert often.advantages == pytest.approx(once.advantages, rel=1e-5)
    assert 0 < often.metrics["clipped"] <= 0.75 + 1e-9  # in the first of four epochs nothing is clipped


def test_packed_samples_are_traced_back_to_where_they_came_from():
    shared = (5, 6, 7)
    samples = [sample(0, prompt=shared), sample(1), sample(2, prompt=shared)]
    assert [list(o) for o in origins(samples, max_tokens=10**6)] == [[0, 2, 1]]


def test_the_value_loss_clips_as_a_slow_loop_does():
    numbers = np.random.default_rng(0)
    values, old, targets = (numbers.normal(size=12) for _ in range(3))
    targets[[1, 4, 5, 9]] = np.nan  # inside a unit
    owner = np.repeat([0, 1, 2], [3, 5, 4])
    weight = np.array([1.0, 0.5, 2.0])
    slow = 0.0
    for s in range(3):
        asked = [c for c in range(12) if owner[c] == s and not np.isnan(targets[c])]
        terms = [
            max(
                (values[c] - targets[c]) ** 2,
                (old[c] + min(0.2, max(-0.2, values[c] - old[c])) - targets[c]) ** 2,
            )
            for c in asked
        ]
        slow += weight[s] * sum(terms) / 2 / len(asked) / 3
    found = value_loss(
        torch.tensor(values, requires_grad=True), old_values_C=torch.tensor(old),
        targets_C=torch.tensor(targets), sample_C=torch.tensor(owner), weight_S=torch.tensor(weight),
        clip=0.2, denominator=3,
    )  # fmt: skip
    assert float(found.loss) == pytest.approx(slow, rel=1e-6)


def test_a_value_that_moved_too_far_towards_its_target_gets_no_gradient():
    # old 0, target 1, clip .2: at .5 the clipped error (1 - .2)^2 is the larger one, and it is flat
    value = torch.tensor([0.5], requires_grad=True)
    one = {"sample_C": torch.tensor([0]), "weight_S": torch.ones(1), "clip": 0.2, "denominator": 1}
    value_loss(value, old_values_C=torch.zeros(1), targets_C=torch.ones(1), **one).loss.backward()
    assert float(value.grad) == 0
