"""Adapters on a frozen base: packed scoring = one row alone, PEFT reads what we save, nobody touches a
neighbour."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from peft import PeftModel
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from seminar.errors import DivergenceError, ModelError
from seminar.learn.samples import origins, pack
from seminar.models.logprobs import chosen_logprobs
from seminar.models.policy import Policy
from seminar.train.update import Learner, PolicyLoss, Schedule, update
from seminar.types import Sample

LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
SIZES = {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


class Tokenizer:
    name_or_path, eos_token_id = "none", 2


def llama():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES))


def qwen():
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(**SIZES))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.data.normal_()
    return model


def gpt2():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=97, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2)
    return GPT2LMHeadModel(config)


def make(model=None, names=("a", "b"), *, dropout=0.0, targets=LINEAR, loud=True):
    policy = Policy(llama() if model is None else model, Tokenizer())
    for index, name in enumerate(names):
        policy.add(name, rank=4, alpha=8, dropout=dropout, targets=targets, seed=(index,))
        if loud:
            rng = np.random.default_rng(index)
            for pair in policy.adapter(name).values():
                pair.B.data.copy_(torch.from_numpy(rng.normal(scale=0.2, size=pair.B.shape)))
    return policy


def samples(agent="a", *, seed=0, engine=None):
    """Two prompts with 3 and 2 completions of 1 to 6 tokens, at five temperatures."""
    rng = np.random.default_rng(seed)
    prompts = [tuple(rng.integers(3, 97, n).tolist()) for n in (5, 1)]
    made = []
    for index, (prompt, length) in enumerate([(0, 3), (0, 1), (0, 6), (1, 4), (1, 2)]):
        made.append(
            Sample(
                agent=agent,
                prompt_ids=prompts[prompt],
                completion_ids=tuple(rng.integers(3, 97, length).tolist()),
                temperature=(1.0, 0.2, 0.7, 0.5, 0.35)[index],
                advantages=(float(rng.normal()),) * length,
                engine_logprobs=None if engine is None else engine[index],
            )
        )
    return made


def alone(policy, adapter, sample):
    """Log-probabilities of one sample by the model's own forward of its ids alone."""
    ids = torch.tensor(sample.prompt_ids + sample.completion_ids)[None]
    with policy.active(adapter), torch.no_grad():
        logits = policy.base(ids).logits[0].float() / sample.temperature
    first = len(sample.prompt_ids)
    return logits.log_softmax(-1)[first - 1 : -1].gather(1, ids[0, first:, None]).squeeze(1)


def with_engine(policy, adapter, made):
    """The same samples with the log-probabilities an exact engine would report."""
    return [
        Sample(
            agent=s.agent, prompt_ids=s.prompt_ids, completion_ids=s.completion_ids,
            temperature=s.temperature, advantages=s.advantages, engine_logprobs=tuple(alone(policy, adapter,
            s).tolist()),
        )
        for s in made
    ]  # fmt: skip


def settings(**fields):
    given = {
        "loss": "grpo", "clip_low": 0.2, "clip_high": 0.2, "beta": 0.04, "reference": None, "max_completion":
        8, "max_tokens": 1000, "max_gap": 1e-3, **fields,
    }  # fmt: skip
    return PolicyLoss(**given)


def learner(policy, adapter="a", lr=1e-3):
    return Learner(policy, adapter, schedule=Schedule(lr=lr, steps=10, warmup=0, floor=1), max_grad_norm=1e9)


@pytest.mark.parametrize("build", [llama, qwen, gpt2])
@pytest.mark.parametrize("adapter", ["a", "b", None])
def test_a_packed_forward_equals_each_row_alone(build, adapter):
    policy = make(build(), targets=("c_attn", "c_proj", "c_fc") if build is gpt2 else LINEAR)
    made = samples()
    (batch,) = pack(made, max_tokens=1000)
    with policy.active(adapter), torch.no_grad():
        found = policy.logprobs(batch)
    torch.testing.assert_close(found, torch.cat([alone(policy, adapter, s) for s in made]), rtol=0, atol=1e-5)


def test_a_packed_gradient_equals_the_sum_over_rows_alone():
    policy = make()
    made = samples()
    (batch,) = pack(made, max_tokens=1000)
    with policy.active("a"):
        policy.logprobs(batch).sum().backward()
        packed = {name: t.grad.clone() for name, t in policy.parameters("a").items()}
        for t in policy.parameters("a").values():
            t.grad = None
        for s in made:
            (one,) = pack([s], max_tokens=1000)
            policy.logprobs(one).sum().backward()
    for name, t in policy.parameters("a").items():
        torch.testing.assert_close(t.grad, packed[name], rtol=1e-4, atol=1e-5)


def test_chosen_logprobs_match_autograd_through_the_whole_softmax():
    g = torch.Generator().manual_seed(0)
    hidden = torch.randn(300, 8, generator=g, requires_grad=True)  # more than one chunk
    weight = torch.randn(50, 8, generator=g)
    target = torch.randint(50, (300,), generator=g)
    temperature = torch.rand(300, generator=g) + 0.2
    upstream = torch.randn(300, generator=g)
    (chosen_logprobs(hidden, weight, target, temperature) * upstream).sum().backward()
    ours, hidden.grad = hidden.grad, None
    logprobs = (
        (hidden @ weight.T / temperature[:, None]).log_softmax(-1).gather(1, target[:, None]).squeeze(1)
    )
    (logprobs * upstream).sum().backward()
    torch.testing.assert_close(ours, hidden.grad, rtol=1e-5, atol=1e-5)


def test_saved_adapters_load_in_plain_peft_on_the_plain_base(tmp_path):
    policy = make()
    policy.save("b", tmp_path)
    plain = PeftModel.from_pretrained(llama(), tmp_path).eval()
    for s in samples():
        ids = torch.tensor(s.prompt_ids + s.completion_ids)[None]
        first = len(s.prompt_ids)
        with torch.no_grad():
            logprobs = (plain(ids).logits[0] / s.temperature).log_softmax(-1)[first - 1 : -1]
        theirs = logprobs.gather(1, ids[0, first:, None]).squeeze(1)
        torch.testing.assert_close(alone(policy, "b", s), theirs, rtol=0, atol=1e-5)


def test_the_layers_of_a_saved_adapter_stand_in_an_order_of_their_own(tmp_path):
    make().save("a", tmp_path)
    layers = json.loads((tmp_path / "adapter_config.json").read_text())["target_modules"]
    assert layers == sorted(layers)


def test_a_loaded_adapter_equals_the_saved_one_bit_for_bit(tmp_path):
    policy = make()
    policy.save("a", tmp_path)
    policy.load("again", tmp_path)
    for name, tensor in policy.parameters("a").items():
        assert torch.equal(tensor, policy.parameters("again")[name])


def test_an_adapter_for_another_base_is_refused_and_leaves_nothing_behind(tmp_path):
    make().save("a", tmp_path)
    sizes = {**SIZES, "hidden_size": 64}
    torch.manual_seed(0)
    other = make(LlamaForCausalLM(LlamaConfig(**sizes)))
    with pytest.raises(ModelError, match="does not fit base"):
        other.load("wrong", tmp_path)
    assert "wrong" not in other.versions


def test_a_missing_adapter_folder_is_one_clear_error(tmp_path):
    with pytest.raises(ModelError, match="cannot be read"):
        make().load("x", tmp_path / "nowhere")


@pytest.mark.parametrize(("option", "words"), [("use_dora", "DoRA"), ("lora_bias", "LoRA biases")])
def test_an_adapter_that_is_more_than_plain_lora_is_refused(option, words, tmp_path):
    policy = make()
    policy.save("a", tmp_path)
    config = tmp_path / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), option: True}))
    with pytest.raises(ModelError, match=words):
        make().load("x", tmp_path)


def test_a_blank_adapter_changes_nothing_and_its_init_depends_on_its_seed_alone():
    first, second = make(names=("a",), loud=False), make(names=("z", "a"), loud=False)
    second.remove("z")
    second.add("again", rank=4, alpha=8, dropout=0.0, targets=LINEAR, seed=(0,))
    for name, tensor in first.parameters("a").items():
        assert torch.equal(tensor, second.parameters("again")[name])
    s = samples()[0]
    assert torch.equal(alone(first, "a", s), alone(first, None, s))


def test_a_large_b_changes_outputs():
    policy = make(loud=False)
    s = samples()[0]
    before = alone(policy, "a", s)
    for pair in policy.adapter("a").values():
        pair.B.data.fill_(0.5)
    assert (alone(policy, "a", s) - before).abs().max() > 0.1


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("reference", [None, "start"])
def test_the_penalty_is_exactly_zero_before_the_first_step(reference, dropout):
    policy = make(names=("start",), dropout=dropout, loud=reference is not None)
    policy.copy("start", "a")
    made = with_engine(policy, "a", samples())
    found = update(policy, learner(policy), made, step=0, seed=3, settings=settings(reference=reference))
    assert found["kl"] == 0.0


def test_stepping_one_agent_leaves_the_other_and_its_optimizer_bit_identical():
    policy = make()
    one, two = learner(policy, "a"), learner(policy, "b")
    update(policy, two, with_engine(policy, "b", samples("b")), step=0, seed=0, settings=settings())
    weights = {name: t.detach().clone() for name, t in two.named.items()}
    moments = {name: t.clone() for name, t in two.state().items()}
    base = {name: t.clone() for name, t in policy.base.named_parameters() if "lora" not in name}
    before = {name: t.detach().clone() for name, t in one.named.items()}
    update(policy, one, with_engine(policy, "a", samples("a")), step=0, seed=0, settings=settings())
    assert any(not torch.equal(t, before[name]) for name, t in one.named.items())
    assert all(torch.equal(t, weights[name]) for name, t in two.named.items())
    assert all(torch.equal(t, moments[name]) for name, t in two.state().items())
    assert all(torch.equal(t, base[name]) for name, t in policy.base.named_parameters() if "lora" not in name)


@pytest.mark.parametrize("build", [llama, gpt2])
def test_prompts_that_begin_alike_share_what_they_begin_with(build):
    policy = make(build(), targets=("c_attn",) if build is gpt2 else LINEAR)
    rng = np.random.default_rng(1)
    begin, other = (tuple(rng.integers(3, 97, n).tolist()) for n in (9, 11))
    made = [
        replace(s, prompt_ids=start + tuple(rng.integers(3, 97, 1 + k).tolist()))
        for k, (start, s) in enumerate(zip((begin, other, begin, other, begin), samples(), strict=True))
    ]
    (batch,) = pack(made, max_tokens=1000)
    assert sorted((row.prompt, len(row.lengths)) for row in batch.rows) == [(9, 2), (9, 3)]
    order = [int(i) for i in origins(made, max_tokens=1000)[0]]
    assert [made[i].completion_ids for i in order] == [
        tuple(batch.target_C[batch.sample_C == k].tolist()) for k in range(len(made))
    ]
    with policy.active("a"), torch.no_grad():
        found = policy.logprobs(batch)
    expected = torch.cat([alone(policy, "a", made[i]) for i in order])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    for limit in (20, 30):
        assert all(len(part.ids_N) <= limit for part in pack(made, max_tokens=limit))


@pytest.mark.parametrize("loss", ["grpo", "dr_grpo", "dapo", "gspo"])
def test_any_split_into_micro_batches_gives_the_same_gradient(loss):
    grads = []
    for limit in (11, 14, 1000):
        policy = make()
        one = learner(policy)
        one.step = lambda step: {}  # keep the gathered gradient
        made = with_engine(policy, "a", samples())
        update(policy, one, made, step=0, seed=0, settings=settings(loss=loss, max_tokens=limit))
        grads.append({name: t.grad.clone() for name, t in one.named.items()})
    for other in grads[1:]:
        for name, grad in grads[0].items():
            torch.testing.assert_close(other[name], grad, rtol=0, atol=1e-6)


def test_metrics_do_not_depend_on_the_split():
    rows = []
    for limit in (11, 1000):
        policy = make()
        made = with_engine(policy, "a", samples())
        rows.append(
            update(policy, learner(policy), made, step=0, seed=0, settings=settings(max_tokens=limit))
        )
    for name in ("kl", "loss", "entropy", "clipped", "grad_norm", "tokens", "samples"):
        assert rows[0][name] == pytest.approx(rows[1][name], rel=1e-4, abs=1e-7), name


@pytest.mark.parametrize("loss", ["grpo", "dr_grpo", "dapo", "gspo"])
@pytest.mark.parametrize("flat", [(0, 1, 2), (0, 1, 2, 3, 4)])
def test_samples_without_advantage_are_counted_but_not_run(loss, flat, monkeypatch):
    seen = []
    for run_all in (True, False):
        policy = make()
        one = learner(policy)
        made = [
            replace(s, advantages=(0.0,) * len(s.completion_ids)) if index in flat else s
            for index, s in enumerate(with_engine(policy, "a", samples()))
        ]
        with monkeypatch.context() as patch:
            ran = []
            logprobs = policy.logprobs
            patch.setattr(policy, "logprobs", lambda batch, f=logprobs, r=ran: r.append(batch) or f(batch))
            if run_all:
                patch.setattr("seminar.train.update._without_flat", lambda samples: (samples, []))
            found = update(policy, one, made, step=0, seed=0, settings=settings(loss=loss, beta=0.0))
        seen.append((found, one.state(), {name: t.detach() for name, t in one.named.items()}, ran))
    (whole, moments, weights, _), (less, fewer_moments, same_weights, ran) = seen
    assert sum(len(batch.length_S) for batch in ran) == max(1, 5 - len(flat))
    for name in ("loss", "entropy", "clipped", "grad_norm", "tokens", "samples"):
        assert less[name] == pytest.approx(whole[name], rel=1e-4, abs=1e-7), name
    assert "gap" in less
    for name, tensor in weights.items():
        torch.testing.assert_close(same_weights[name], tensor, rtol=0, atol=1e-6)
    assert moments.keys() == fewer_moments.keys()


def test_an_engine_that_speaks_with_other_weights_stops_the_run_and_names_the_adapter():
    policy = make()
    made = with_engine(policy, "b", samples("a"))
    before = {name: t.detach().clone() for name, t in policy.parameters("a").items()}
    with pytest.raises(DivergenceError, match="adapter a: engine and trainer differ"):
        update(policy, learner(policy), made, step=0, seed=0, settings=settings())
    assert all(torch.equal(t, before[name]) for name, t in policy.parameters("a").items())


def test_dropout_depends_on_its_seed_alone_and_is_off_outside():
    policy = make(dropout=0.5)
    (batch,) = pack(samples(), max_tokens=1000)

    def noisy(seed):
        with torch.no_grad(), policy.active("a"), policy.dropout("a", seed=seed):
            return policy.logprobs(batch)

    with torch.no_grad(), policy.active("a"):
        clean = policy.logprobs(batch)
    assert torch.equal(noisy(1), noisy(1))
    assert not torch.equal(noisy(1), noisy(2))
    with torch.no_grad(), policy.active("a"):
        assert torch.equal(clean, policy.logprobs(batch))


def test_one_step_moves_log_probabilities_the_way_the_advantage_points():
    policy = make(loud=False, names=("a",))
    made = [s for s in with_engine(policy, "a", samples()) if s.advantages[0] > 0]
    before = sum(float(alone(policy, "a", s).sum()) for s in made)
    update(policy, learner(policy, lr=1e-2), made, step=0, seed=0, settings=settings(beta=0.0))
    assert sum(float(alone(policy, "a", s).sum()) for s in made) > before


def test_the_rate_rises_linearly_and_falls_along_a_cosine_to_its_floor():
    schedule = Schedule(lr=1.0, steps=10, warmup=0.2, floor=0.1)
    rates = [schedule.rate(step) for step in range(10)]
    assert rates[:2] == pytest.approx([1 / 3, 2 / 3])
    assert rates[2] == 1.0
    assert rates[6] == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi / 2)) / 2)
    assert rates[9] == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi * 7 / 8)) / 2)
