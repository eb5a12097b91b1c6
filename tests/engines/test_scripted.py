"""The scripted engine writes what its script says."""

import pytest

from seminar.engines.scripted import ScriptedEngine
from seminar.errors import ConfigError
from seminar.types import Request


def ask(*, adapter=None, prompt=(7, 8), samples=2, max_tokens=10):
    return Request(
        adapter=adapter,
        prompt_ids=prompt,
        samples=samples,
        temperature=1.0,
        top_p=1.0,
        max_tokens=max_tokens,
        seeds=tuple((i,) for i in range(samples)),
    )


def test_text_becomes_ids_with_an_end_behind_it(byte_tokenizer):
    engine = ScriptedEngine(lambda request, sample: f"a{sample}", tokenizer=byte_tokenizer)
    first, second = engine.generate([ask()])[0]
    assert byte_tokenizer.decode(first.ids) == "a0<eos>"
    assert byte_tokenizer.decode(second.ids) == "a1<eos>"
    assert (first.stop, first.logprobs) == ("eos", (0.0, 0.0, 0.0))


def test_what_exceeds_max_tokens_is_cut_and_says_so():
    engine = ScriptedEngine(lambda request, sample: range(5))
    ((cut,),) = engine.generate([ask(samples=1, max_tokens=4)])
    assert (cut.ids, cut.stop) == ((0, 1, 2, 3), "length")


def test_text_without_a_tokenizer_is_refused():
    with pytest.raises(ConfigError, match="no tokenizer"):
        ScriptedEngine(lambda request, sample: "a").generate([ask()])


def test_the_script_sees_the_request_and_calls_are_kept():
    engine = ScriptedEngine(lambda request, sample: [*request.prompt_ids, sample])
    requests = [ask(), ask(prompt=(9,), samples=1)]
    assert [[c.ids for c in g] for g in engine.generate(requests)] == [[(7, 8, 0), (7, 8, 1)], [(9, 0)]]
    assert engine.calls == [tuple(requests)]
