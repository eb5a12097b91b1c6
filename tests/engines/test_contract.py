"""What every engine must do, whatever model stands behind it: the same tests for all."""

import math

import numpy as np
import pytest
import torch

from conftest import shake
from seminar.engines.hf import HfEngine
from seminar.engines.scripted import ScriptedEngine
from seminar.errors import ConfigError, ModelError
from seminar.learn.samples import pack
from seminar.models import fused
from seminar.models.decoder import FusedRows
from seminar.models.generic import GenericRows
from seminar.types import Request, Sample

ADAPTERS = ("first", "second")
FAST = {
    "llama": "fused (llama, oneDNN order)",
    "llama-biased": "fused (llama, oneDNN order)",
    "mistral": "fused (mistral, oneDNN order)",
    "qwen2": "fused (qwen2, oneDNN order)",
    "qwen3": "fused (qwen3, oneDNN order)",
    "llama, shared": "fused (llama, shared weights)",
    "qwen2, shared": "fused (qwen2, shared weights)",
}
SLOW = {"gpt2": "generic (model_type gpt2 is not of the Llama family)", "llama, generic": "generic (test)"}
KINDS = {**FAST, **SLOW}


def build(kind, tiny_policy, **settings):
    """Engine of a kind over a policy of its own, both adapters loaded as version 7."""
    family, _, variant = kind.partition(", ")
    with pytest.MonkeyPatch.context() as patch:
        if variant == "shared":
            patch.setattr(fused, "PACK_LIMIT_BYTES", 0)
        if variant == "generic":
            patch.setattr("seminar.models.policy.misfit", lambda model: "test")
        engine = HfEngine(tiny_policy(family), **settings)
    for name in ADAPTERS:
        engine.load_adapter(name, version=7)
    return engine


@pytest.fixture(scope="module", params=[*KINDS])
def model_engine(request, tiny_policy):
    """Every engine with a model behind it."""
    return build(request.param, tiny_policy)


@pytest.fixture(scope="module", params=[*KINDS, "scripted"])
def engine(request, tiny_policy):
    """Every engine."""
    if request.param != "scripted":
        return build(request.param, tiny_policy)
    made = ScriptedEngine(lambda asked, sample: [*asked.prompt_ids, sample, 99][: asked.max_tokens + 1])
    for name in ADAPTERS:
        made.load_adapter(name, version=7)
    return made


def ask(
    adapter=None, *, prompt=(5, 6, 7), samples=1, temperature=1.0, top_p=1.0, max_tokens=8, seed=0
) -> Request:
    return Request(
        adapter=adapter,
        prompt_ids=tuple(prompt),
        samples=samples,
        temperature=temperature,
        top_p=top_p,
        max_tokens=max_tokens,
        seeds=tuple((seed, sample) for sample in range(samples)),
    )


def mixed(*, temperature=1.0, max_tokens=8) -> list[Request]:
    """Prompts of 1 to 20 tokens, under the base and both adapters, one to four samples each."""
    numbers = np.random.default_rng(5)
    return [
        ask(
            (None, *ADAPTERS)[i % 3],
            prompt=numbers.integers(4, 260, 1 + (7 * i) % 20).tolist(),
            samples=1 + i % 4,
            temperature=temperature,
            max_tokens=max_tokens - i % 2,
            seed=i,
        )
        for i in range(9)
    ]


def ids(groups) -> list[list[tuple[int, ...]]]:
    return [[completion.ids for completion in group] for group in groups]


def alone(engine, request, completion) -> torch.Tensor:
    """Log-probabilities [T, V] at the request's temperature, by one plain forward of one row without a
    cache."""
    ids = [*request.prompt_ids, *completion.ids]
    with torch.no_grad(), engine.policy.active(request.adapter):
        logits = engine.policy.base(torch.tensor([ids]), use_cache=False).logits[0]
    first = len(request.prompt_ids) - 1
    return (logits[first:-1].double() / (request.temperature or 1.0)).log_softmax(-1)


def chosen(logprobs_TV, completion) -> np.ndarray:
    return logprobs_TV.gather(1, torch.tensor(completion.ids)[:, None]).squeeze(1).numpy()


# -- every engine ---


def test_each_request_gets_its_samples_in_the_order_of_the_requests(engine):
    requests = mixed()
    together = engine.generate(requests)
    assert [len(group) for group in together] == [r.samples for r in requests]
    assert ids(together) == ids([engine.generate([request])[0] for request in requests])


def test_every_id_has_one_logprob(engine):
    for group in engine.generate(mixed()):
        for completion in group:
            assert len(completion.ids) == len(completion.logprobs) > 0


def test_no_requests_give_no_completions(engine):
    assert engine.generate([]) == []


def test_a_completion_that_reaches_max_tokens_stops_by_length(engine):
    (group,) = engine.generate([ask(samples=8, max_tokens=3)])
    cut = [completion for completion in group if completion.stop == "length"]
    assert {len(completion.ids) for completion in cut} == {3}


def test_a_completion_carries_the_version_of_its_adapter_and_the_base_carries_0(engine):
    groups = engine.generate([ask("second"), ask(), ask("first")])
    assert [group[0].adapter_version for group in groups] == [7, 0, 7]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"adapter": "third"}, ModelError, "request 1: adapter 'third' was never loaded"),
        ({"temperature": -0.5}, ConfigError, "temperature is -0.5"),
        ({"temperature": math.inf}, ConfigError, "temperature is inf"),
        ({"top_p": 0.0}, ConfigError, "top_p is 0.0"),
        ({"top_p": 1.5}, ConfigError, "top_p is 1.5"),
        ({"max_tokens": 0}, ConfigError, "max_tokens is 0"),
        ({"samples": 0}, ConfigError, "0 samples with 0 seeds"),
    ],
)
def test_sampling_that_makes_no_sense_is_refused(engine, changes, error, words):
    with pytest.raises(error, match=words):
        engine.generate([ask(), ask(**changes)])


# -- engines with a model behind them ---


def test_the_decoder_says_which_it_is(tiny_policy):
    assert {kind: build(kind, tiny_policy).decoder_name for kind in KINDS} == KINDS


@pytest.mark.parametrize("temperature", [0.2, 0.7, 1.0])
def test_logprobs_are_those_of_a_plain_forward_of_one_row_alone(model_engine, temperature):
    requests = mixed(temperature=temperature)
    for request, group in zip(requests, model_engine.generate(requests), strict=True):
        for completion in group:
            expected = chosen(alone(model_engine, request, completion), completion)
            np.testing.assert_allclose(completion.logprobs, expected, rtol=0, atol=1e-4)


def test_logprobs_are_those_the_trainer_computes(model_engine):
    requests = mixed(temperature=0.7)
    for adapter in (None, *ADAPTERS):
        mine = [r for r in requests if r.adapter == adapter]
        samples = [
            Sample(
                agent="",
                prompt_ids=request.prompt_ids,
                completion_ids=completion.ids,
                temperature=0.7,
                advantages=(0.0,) * len(completion.ids),
                engine_logprobs=completion.logprobs,
            )
            for request, group in zip(mine, model_engine.generate(mine), strict=True)
            for completion in group
        ]
        (batch,) = pack(samples, max_tokens=4096)
        with torch.no_grad(), model_engine.policy.active(adapter):
            ours = model_engine.policy.logprobs(batch)
        np.testing.assert_allclose(ours, batch.engine_logprob_C, rtol=0, atol=1e-4)


def test_greedy_takes_the_likeliest_token_and_gives_its_logprob_at_temperature_1(model_engine):
    request = ask("first", temperature=0.0, max_tokens=12)
    ((one,),) = model_engine.generate([request])
    expected = alone(model_engine, request, one)
    assert list(one.ids) == expected.argmax(-1).tolist()
    np.testing.assert_allclose(one.logprobs, expected.max(-1).values, rtol=0, atol=1e-4)


def test_top_p_draws_within_the_nucleus_and_gives_logprobs_within_it(model_engine):
    request = ask("first", samples=6, temperature=0.7, top_p=0.5, max_tokens=10)
    for completion in model_engine.generate([request])[0]:
        for token, logprob, full in zip(
            completion.ids, completion.logprobs, alone(model_engine, request, completion).exp(), strict=True
        ):
            likely, order = full.sort(descending=True)
            size = 1 + int((likely.cumsum(0) < 0.5).sum())
            assert token in order[:size]
            assert logprob == pytest.approx(math.log(full[token] / likely[:size].sum()), abs=1e-4)


def test_a_sample_does_not_depend_on_what_travels_with_it(model_engine):
    request = ask("first", samples=4, seed=3)
    (expected,) = model_engine.generate([request])
    (*_, among, _) = model_engine.generate([*mixed(), request, ask("first", seed=4)])
    (single,) = model_engine.generate([ask("first", samples=1, seed=3)])
    assert ids([among, single]) == ids([expected, expected[:1]])


def test_seeds_decide(model_engine):
    same, again, other = ids(model_engine.generate([ask(seed=1), ask(seed=1), ask(seed=2)]))
    assert same == again != other


def test_more_samples_than_rows_wait_for_their_turn(request, model_engine, tiny_policy):
    kind = request.node.callspec.params["model_engine"]
    few = build(kind, tiny_policy, max_rows=3)
    requests = [*mixed(max_tokens=30), ask("first", samples=8, max_tokens=20, seed=8)]
    assert ids(few.generate(requests)) == ids(model_engine.generate(requests))


def test_a_small_budget_of_keys_and_values_changes_nothing_but_the_pace(request, model_engine, tiny_policy):
    few = build(request.node.callspec.params["model_engine"], tiny_policy, kv_bytes=1)
    assert ids(few.generate(mixed())) == ids(model_engine.generate(mixed()))


def test_each_distinct_prompt_is_prefilled_once(model_engine, monkeypatch):
    seen = []

    def watch(admit):
        return lambda rows, prompts, samples: seen.extend(prompts) or admit(rows, prompts, samples)

    for kind in (FusedRows, GenericRows):
        monkeypatch.setattr(kind, "admit", watch(kind.admit))
    pair = ask(prompt=(5, 6), samples=3)
    model_engine.generate([pair, ask(prompt=(9,), samples=2), ask(prompt=(5, 6), seed=9)])
    assert sorted(seen) == [(5, 6), (9,)]


def test_every_eos_id_ends_a_completion_and_stays_in_its_ids(model_engine, monkeypatch):
    ends = frozenset(range(4, 40))
    monkeypatch.setattr(model_engine.policy, "eos_ids", ends)
    stopped = [c for g in model_engine.generate(mixed(max_tokens=60)) for c in g]
    for completion in stopped:
        assert not ends & set(completion.ids[:-1])
        assert completion.stop == ("eos" if completion.ids[-1] in ends else "length")
    assert len({c.ids[-1] for c in stopped if c.stop == "eos"}) > 3


def test_a_large_lora_b_changes_what_is_written(model_engine):
    base, first, second = model_engine.generate(
        [ask(temperature=0.0), ask("first", temperature=0.0), ask("second", temperature=0.0)]
    )
    assert len({base[0].ids, first[0].ids, second[0].ids}) == 3


@pytest.mark.parametrize("kind", ["qwen3", "llama, shared", "gpt2"])
def test_weights_are_served_from_one_load_to_the_next(kind, tiny_policy):
    engine, cold = build(kind, tiny_policy), build(kind, tiny_policy)
    requests = [ask("first", samples=3), ask("second", samples=3)]
    before = engine.generate(requests)
    for policy in (engine.policy, cold.policy):
        shake(policy, "first", seed=11)
    live = {key: weights.detach().clone() for key, weights in engine.policy.parameters("first").items()}
    assert engine.generate(requests) == before
    assert all(torch.equal(live[key], now) for key, now in engine.policy.parameters("first").items())
    for each in (engine, cold):
        each.load_adapter("first", version=8)
    after = engine.generate(requests)
    assert after == cold.generate(requests)
    assert after[0] != before[0]
    assert after[1] == before[1]
    assert [c.adapter_version for group in after for c in group] == [8, 8, 8, 7, 7, 7]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompt": ()}, "the prompt is empty"),
        ({"prompt": (5,) * 125}, "a prompt of 125 tokens and 8 new ones exceed the model's context of 128"),
        ({"prompt": (5, 260)}, "ids from 5 to 260; the model knows 0 to 259"),
    ],
)
def test_a_prompt_the_model_cannot_read_is_refused(model_engine, changes, words):
    with pytest.raises(ModelError, match=words):
        model_engine.generate([ask(**changes)])


def test_the_whole_context_can_be_used(model_engine):
    request = ask("first", prompt=(5,) * 100, max_tokens=28)
    ((one,),) = model_engine.generate([request])
    np.testing.assert_allclose(
        one.logprobs, chosen(alone(model_engine, request, one), one), rtol=0, atol=1e-4
    )


def test_an_adapter_of_some_layers_only_is_served(tiny_policy):
    policy = tiny_policy("llama", targets=("v_proj", "gate_proj", "down_proj"))
    engine = HfEngine(policy)
    engine.load_adapter("first", version=1)
    request = ask("first", samples=3)
    for completion in engine.generate([request])[0]:
        expected = chosen(alone(engine, request, completion), completion)
        np.testing.assert_allclose(completion.logprobs, expected, rtol=0, atol=1e-4)
