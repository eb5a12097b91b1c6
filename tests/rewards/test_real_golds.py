"""Every gold of every maths set, graded against itself in six forms, and against other golds."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seminar.rewards import algebra
from seminar.rewards.verify import Graders
from seminar.tasks.equality import compare
from seminar.tasks.latex import clean, split_list
from seminar.tasks.maths import check_gold, extract_answer, last_box, normalise_answer
from seminar.tasks.numbers import read_number
from seminar.types import Task

DATA = Path(__file__).resolve().parents[2] / "../shared/data"
pytestmark = pytest.mark.data


def _boxed(row: dict[str, Any]) -> str:
    return last_box(row["solution"]) or ""


GOLD: dict[str, Callable[[dict[str, Any]], str]] = {
    "math500": lambda row: row["answer"],
    "aime24": lambda row: row["answer"],
    "aime25": lambda row: row["answer"],
    "amc23": lambda row: str(row["answer"]),
    "minerva_math": _boxed,
    "gsm8k_test": lambda row: extract_answer(row["answer"]) or "",
    "gsm8k_train_2000": lambda row: extract_answer(row["answer"]) or "",
    "math_train_sample": _boxed,
    "still3_or_deepscaler_sample": lambda row: row["answer"],
}
ROWS = {
    "math500": 500,
    "aime24": 30,
    "aime25": 30,
    "amc23": 40,
    "minerva_math": 272,
    "gsm8k_test": 1319,
    "gsm8k_train_2000": 2000,
    "math_train_sample": 1508,
    "still3_or_deepscaler_sample": 1000,
}
FORMS: dict[str, Callable[[str], str]] = {
    "boxed": lambda gold: rf"We find $1 + 1 = 2$ first. So it is $\boxed{{{gold}}}$.",
    "bare": lambda gold: gold,
    "marked": lambda gold: f"1 + 1 = 2\n#### {gold}",
    "sentence": lambda gold: f"We find 2 first. The answer is {gold}.",
    "formula": lambda gold: f"We find 2 first. Therefore the answer is ${gold}$, as was to be shown.",
    "last": lambda gold: f"We find $1 + 1 = 2$ first and then see that it equals ${gold}$ in all.",
}


def golds(name: str) -> list[str]:
    path = DATA / f"{name}.jsonl"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    with path.open(encoding="utf-8") as lines:
        return [GOLD[name](json.loads(line)) for line in lines]


def task(gold: str) -> Task:
    return Task(id="t", question="q", gold=gold)


@pytest.fixture(scope="module")
def graders() -> Iterator[Graders]:
    with Graders(num_workers=2, deadline_s=20.0) as graders:
        yield graders


@pytest.mark.parametrize("name", GOLD)
def test_no_gold_of_the_set_is_unusable(name):
    found = golds(name)
    assert len(found) == ROWS[name]
    assert [(gold, problem) for gold in found if (problem := check_gold(gold)) is not None] == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", GOLD)
def test_every_gold_is_correct_against_itself(name, form, graders):
    answers = [(task(gold), FORMS[form](gold), "eos") for gold in golds(name)]
    verdicts = graders.grade(answers)
    assert [(a[1], v) for a, v in zip(answers, verdicts, strict=True) if not v.correct] == []


def test_sympy_reads_every_gold_but_two():
    # Where sympy cannot read a gold, only its own text, or its parts, are right.
    distinct = sorted({gold for name in GOLD for gold in golds(name)})
    parts = [
        (gold, part) for gold in distinct if read_number(gold) is None for part in split_list(clean(gold))
    ]
    unreadable = {gold for gold, part in parts if algebra._parse(part) is None and len(part) > 1}
    assert unreadable == {
        "6:00",
        r"\frac{dM}{dt}=\frac{10^{5} L_{\odot}}{0.007 c^{2} M_{\odot}^{6}} M^{6}",
    }


def test_a_gold_is_correct_against_another_only_with_the_same_value(graders):
    distinct = sorted({gold for name in GOLD for gold in golds(name)})
    plain = [gold for gold in distinct if read_number(gold) is not None]
    formulas = [gold for gold in distinct if read_number(gold) is None]
    rng = random.Random(0)
    pairs = [(rng.choice(formulas), rng.choice(distinct)) for _ in range(800)]
    pairs += [(rng.choice(plain), rng.choice(distinct)) for _ in range(3000)]
    verdicts = graders.grade([(task(gold), rf"\boxed{{{other}}}", "eos") for gold, other in pairs])
    same = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict.correct]
    assert [(a, b) for a, b in same if normalise_answer(a) != normalise_answer(b)] == []


def test_golds_that_are_one_value_written_twice_are_correct_against_each_other():
    distinct = sorted({gold for name in GOLD for gold in golds(name)})
    groups: dict[str, list[str]] = {}
    for gold in distinct:
        groups.setdefault(normalise_answer(gold), []).append(gold)
    pairs = [(a, b) for group in groups.values() for a in group for b in group if a != b]
    wrong = [pair for pair in pairs if not compare(*pair, leaf=lambda gold, answer: False)]
    assert len(pairs) > 300
    assert {frozenset(pair) for pair in wrong} == {frozenset(("a = -1", "y = -1"))}  # other names


EMPTY_WORDS = [
    *(
        "0=0",
        "0=1",
        "x=x",
        "x",
        r"\infty",
        r"\frac{0}{0}",
        r"\emptyset",
        r"\{\}",
        "()",
        ",",
        "e",
        "i",
        r"\mathbb{R}",
    ),
    *(
        r"(-\infty,\infty)",
        r"x \ge x",
        "None",
        "nan",
        "?",
        r"\text{answer}",
        r"\ldots",
        "1 or 2 or 3",
        "A, B, C, D",
    ),
]


@pytest.mark.slow
def test_nothing_that_says_nothing_is_correct_against_any_formula(graders):
    distinct = {gold for name in GOLD for gold in golds(name)}
    formulas = [gold for gold in sorted(distinct) if read_number(gold) is None]
    pairs = [(gold, text) for gold in formulas for text in EMPTY_WORDS]
    verdicts = graders.grade([(task(gold), rf"\boxed{{{text}}}", "eos") for gold, text in pairs])
    assert [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict.reason != "wrong"] == []


PATHOLOGICAL = [
    r"10^{10^{10}}",
    r"9^{9^{9^{9}}}",
    "(" * 500 + "1" + ")" * 500,
    "{" * 50_000 + "}" * 50_000,
    r"\frac{1}{1+" * 30 + "x" + "}" * 30,
    r"\int_0^{\infty}\int_0^{\infty}\int_0^{\infty} e^{-x^2y^2z^2}\sin(xyz)\,dx\,dy\,dz",
    r"\sum_{n=1}^{10^{12}} \frac{1}{n^2+\sin n}",
    "(10^9)!",
]


@pytest.mark.slow
def test_pathological_answers_among_a_thousand_rows_cost_nobody_else(graders):
    found = golds("math500") + golds("minerva_math")
    rng = random.Random(0)
    answers = [(task(rng.choice(found)), rf"\boxed{{{rng.choice(found)}}}", "eos") for _ in range(500)]
    answers += [(task(gold), rf"\boxed{{{gold}}}", "eos") for gold in rng.choices(found, k=500)]
    expected = graders.grade(answers)
    mixed, places = list(answers), sorted(rng.sample(range(1000), len(PATHOLOGICAL)), reverse=True)
    for place, answer in zip(places, PATHOLOGICAL, strict=True):
        mixed.insert(place, (task(r"\sqrt{2}"), rf"\boxed{{{answer}}}", "eos"))
    with Graders(num_workers=2, deadline_s=5.0) as strict:
        verdicts = strict.grade(mixed)
    hostile = [verdicts[place + k].reason for k, place in enumerate(reversed(places))]
    rest = [v for k, v in enumerate(verdicts) if k not in {p + n for n, p in enumerate(reversed(places))}]
    assert set(hostile) == {"timeout", "wrong"}
    assert strict.counts["timeout"] == hostile.count("timeout")
    assert rest == expected
