"""Whatever a model writes, the grader answers with a verdict."""

from collections.abc import Iterator
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seminar.rewards.verify import Graders
from seminar.types import Reason, StopReason, Task

PIECES = [
    *(
        r"\boxed{",
        "}",
        "{",
        "$",
        r"\frac",
        r"\frac{1}{2}",
        r"\sqrt",
        "^",
        "_",
        "(",
        ")",
        "[",
        "]",
        ",",
        r"\{",
        r"\}",
    ),
    *(
        "1",
        "25",
        "0",
        ".5",
        "1e9",
        "e",
        "i",
        "x",
        "\\",
        r"\text{",
        " and ",
        r"\pm",
        "%",
        "=",
        r"\infty",
        r"\cup",
    ),
    *(
        "####",
        "The answer is ",
        "</think>",
        "<think>",
        "\n",
        r"\begin{pmatrix}",
        r"\end{pmatrix}",
        "&",
        r"\\",
        "!",
    ),
    *(
        "A",
        "(B)",
        "yes",
        "\N{MINUS SIGN}",
        "\x00",
        "\ud800",
        "\N{INFINITY}",
        r"\int_0^1 ",
        r"\sin ",
        "<",
        r"\in ",
    ),
]
TEXTS = (
    st.binary(max_size=300).map(lambda data: data.decode("utf-8", "surrogateescape"))
    | st.text(max_size=200)
    | st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
    | st.lists(st.sampled_from(PIECES), max_size=12).map(lambda pieces: rf"\boxed{{{''.join(pieces)}}}")
)
TASKS = [
    *(
        Task(id=gold, question="q", gold=gold)
        for gold in ("7", r"\sqrt{2}", "x = 5", "(1, 2]", r"\text{east}")
    ),
    Task(id="qa", question="q", gold="yes", domain="qa"),
    Task(id="choice", question="q", gold="B", domain="choice", choices=("one", "two", "three", "four")),
]


@pytest.fixture(scope="module")
def graders() -> Iterator[Graders]:
    with Graders(num_workers=2, deadline_s=5.0) as graders:
        yield graders


def check(graders: Graders, text: str, stop: StopReason) -> None:
    verdicts = graders.grade([(task, text, stop) for task in TASKS])
    assert len(verdicts) == len(TASKS)
    for verdict in verdicts:
        assert verdict.reason in get_args(Reason)
        assert verdict.correct == (verdict.reason == "correct")


HEALTH = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@given(text=TEXTS, stop=st.sampled_from(["eos", "length"]))
@settings(max_examples=200, deadline=None, suppress_health_check=HEALTH)
def test_any_text_gets_a_verdict(graders, text, stop):
    check(graders, text, stop)


@pytest.mark.slow
@given(text=TEXTS, stop=st.sampled_from(["eos", "length"]))
@settings(max_examples=10_000, deadline=None, suppress_health_check=HEALTH)
def test_ten_thousand_texts_get_a_verdict_each(graders, text, stop):
    check(graders, text, stop)
