"""Verdicts on programs that mean no harm."""

import subprocess
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from seminar.errors import ConfigError, RunError
from seminar.rewards import sandbox
from seminar.rewards.execution import CodeGrader
from seminar.rewards.sandbox import Setup, working_setup
from seminar.types import Reason, StopReason, Task, Verdict


def task(tests: str, **meta: object) -> Task:
    return Task(id="t", question="", domain="code", tests=textwrap.dedent(tests), meta=meta)


def grade(answers: Sequence[tuple[Task, str, StopReason]], workers: int = 1) -> list[Verdict]:
    return CodeGrader(workers=workers).grade(answers)


def verdict(program: str, tests: str, stop: StopReason = "eos", **meta: object) -> Verdict:
    (found,) = grade([(task(tests, **meta), f"```python\n{textwrap.dedent(program)}\n```", stop)])
    return found


DOUBLE = "def f(x):\n    return 2 * x\n"


# --- reasons


def test_a_right_program_is_correct_and_is_the_answer() -> None:
    assert verdict(DOUBLE, "assert f(2) == 4") == Verdict(
        correct=True, reason="correct", extracted=f"{DOUBLE}\n"
    )


@pytest.mark.parametrize(
    ("text", "stop", "reason"),
    [
        ("```\ndef f(x): return x\n```", "eos", "wrong"),
        ("```\ndef f(x): return 1 / 0\n```", "eos", "wrong"),
        ("```\ndef f(x): return 2 *\n```", "eos", "wrong"),
        ("```\ndef f(x): return 2 *\n", "length", "truncated"),
        ("```\ndef g(x): return 2 * x\n```", "eos", "wrong"),
        ("```\nraise ValueError\ndef f(x): return 2 * x\n```", "eos", "wrong"),
        ("```\ndef f(x): return 2 * x\nassert False\n```", "eos", "wrong"),
        ("```\ndef f(x): return 2 * x\n```\nThis is", "length", "correct"),
        ("I do not know.", "eos", "no_answer"),
        ("<think>Let me", "length", "truncated"),
    ],
)
def test_a_reason_tells_why(text: str, stop: StopReason, reason: Reason) -> None:
    (found,) = grade([(task("assert f(2) == 4"), text, stop)])
    assert found.reason == reason


@pytest.mark.parametrize("tests", ["", "assert f(", "assert True"])
def test_tests_that_judge_nothing_are_named_and_not_run(tests: str) -> None:
    assert verdict(DOUBLE, tests).reason == "unusable_gold"


@pytest.mark.parametrize("value", ["lambda x: x", "object()", "print", "type('A', (), {})()"])
def test_tests_that_hand_over_objects_of_their_own_cannot_be_carried_out(value: str) -> None:
    assert verdict("def f(x): return x", f"try:\n    f({value})\nexcept:\n    pass").reason == "unusable_gold"


def test_verdicts_keep_the_order_of_answers() -> None:
    # Eight programs that return their number, all asked for 3: the fourth alone is right.
    answers: list[tuple[Task, str, StopReason]] = [
        (task("assert f() == 3"), f"```\ndef f(): return {number}\n```", "eos") for number in range(8)
    ]
    assert [found.correct for found in grade(answers, workers=2)] == [number == 3 for number in range(8)]


def test_no_answers_have_no_verdicts() -> None:
    assert grade([]) == []


def test_one_grader_serves_several_threads() -> None:
    grader = CodeGrader(workers=1)
    answers: list[list[tuple[Task, str, StopReason]]] = [
        [(task(f"assert f() == {wanted}"), "```\ndef f(): return 1\n```", "eos")] * 3 for wanted in (1, 2)
    ]
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(grader.grade, answers))
    assert [[verdict.correct for verdict in verdicts] for verdicts in found] == [[True] * 3, [False] * 3]


def test_every_program_starts_afresh() -> None:
    program = "import math\ndef f():\n    math.seen = getattr(math, 'seen', 0) + 1\n    return math.seen"
    answers: list[tuple[Task, str, StopReason]] = [
        (task("assert f() == 1"), f"```\n{program}\n```", "eos")
    ] * 3
    assert [found.correct for found in grade(answers)] == [True] * 3


# --- what tests can do


@pytest.mark.parametrize(
    ("program", "tests"),
    [
        ("def f(xs): xs.sort()", "xs = [3, 1, 2]\nf(xs)\nassert xs == [1, 2, 3]"),
        ("def f(d): d['a'] = 1; del d['b']", "d = {'b': 2}\nf(d)\nassert d == {'a': 1}"),
        ("def f(s): s.add(1)", "s = set()\nf(s)\nassert s == {1}"),
        ("def f(n):\n    for i in range(n): yield i", "assert list(f(2)) == [0, 1]\nassert sum(f(3)) == 3"),
        ("def f(x): return map(str, x)", "assert f([1]) != ['1']\nassert list(f([1])) == ['1']"),
        ("import re\ndef f(s): return re.match('a', s)", "assert f('ab').end() == 1\nassert not f('b')"),
        ("def f(x): raise KeyError('no')", "try: f(1)\nexcept KeyError: pass\nelse: assert False"),
        ("class Odd(Exception): pass\ndef f(): raise Odd", "try: f()\nexcept Exception: pass\nelse: 1/0"),
        ("def f(*a, **k): return [a, k]", "assert f(1, b=2) == [(1,), {'b': 2}]"),
        ("def f(**k): return k", "assert f(self=1, operation=2, function=3)['operation'] == 2"),
        ("def f(x): print('noise'); return x", "print('more noise')\nassert f(1) == 1"),
        ("def f(x): return x is True", "assert f(True) is True\nassert f(1) is False"),
        ("import numpy as np\ndef f(x): return np.mean(x)", "assert f([1, 2, 6]) == 3.0"),
        ("import random\ndef f(): return random.random()", "import random\nassert f() == random.random()"),
        ("def f(): return list({'a', 'b', 'c'})", "assert f() == list({'a', 'b', 'c'})"),
    ],
)  # fmt: skip
def test_tests_see_what_plain_python_would_show_them(program: str, tests: str) -> None:
    assert verdict(program, tests).correct


def test_tests_can_use_a_class_of_the_program() -> None:
    program = """
    class Stack:
        def __init__(self, *items): self.items = list(items)
        def push(self, item): self.items.append(item); return self
        def __len__(self): return len(self.items)
        def __getitem__(self, index): return self.items[index]
        def __setitem__(self, index, item): self.items[index] = item
        def __contains__(self, item): return item in self.items
        def __eq__(self, other): return self.items == other.items
        def __repr__(self): return f'Stack{tuple(self.items)}'
    def merge(one, other): return Stack(*one.items, *other.items)
    """
    tests = """
    stack = Stack(1)
    stack.push(2).push((3,))
    assert len(stack) == 3 and stack[2] == (3,) and 2 in stack and 9 not in stack
    stack[0] = 5
    stack.name = 'x'
    assert (stack.name, stack.items[0], str(stack)) == ('x', 5, 'Stack(5, 2, (3,))')
    assert stack == Stack(5, 2, (3,)) and stack != Stack() and not Stack()
    assert merge(Stack(1), stack).items == [1, 5, 2, (3,)]
    assert {stack: 1}[stack] == 1
    """
    assert verdict(program, tests).correct


def test_a_program_is_not_the_main_module() -> None:
    assert verdict(
        "x = [1]\nif __name__ == '__main__': x.append(2)\ndef f(): return x", "assert f() == [1]"
    ).correct


# --- configuration


def test_no_workers_are_refused() -> None:
    with pytest.raises(ConfigError, match="workers is 0; it must be at least 1"):
        CodeGrader(workers=0)


def test_memory_that_python_cannot_live_in_is_refused() -> None:
    with pytest.raises(ConfigError, match="memory_mb is 127; it must be at least 128"):
        CodeGrader(memory_mb=127)


def test_a_sandbox_that_is_not_installed_leaves_nothing_on_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(RunError, match="bubblewrap fails on this machine"):
        working_setup.__wrapped__("bubblewrap")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore:sandbox")
def test_a_sandbox_that_does_not_start_any_more_is_an_error_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grader = CodeGrader(sandbox="rlimits")
    monkeypatch.setattr(sandbox, "_python", lambda options: ["sh", "-c", "echo no room >&2"])
    with pytest.raises(RunError, match="rlimits says 'no room' where it should be ready"):
        grader.grade([(task("assert f(2) == 4"), f"```\n{DOUBLE}```", "eos")])


def test_root_without_a_list_of_system_calls_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_works", lambda setup: not setup.filtered)
    monkeypatch.setattr(sandbox.os, "geteuid", lambda: 0)
    with pytest.raises(RunError, match="fails on this machine for root"):
        working_setup.__wrapped__()


def test_weaker_sandboxes_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_works", lambda setup: setup == Setup("rlimits", filtered=False))
    monkeypatch.setattr(sandbox.os, "geteuid", lambda: 1000)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert working_setup.__wrapped__() == Setup("rlimits", filtered=False)
    assert ["bubblewrap" in str(warning.message) for warning in caught] == [True, False]
    assert ["libseccomp" in str(warning.message) for warning in caught] == [False, True]


def test_the_sandboxed_side_loads_nothing_but_the_standard_library() -> None:
    # -S leaves out the installed packages, as the sandbox does.
    source = str(Path(sandbox.__file__).parents[2])
    script = f"import sys; sys.path.append({source!r}); import seminar.rewards.zygote"
    subprocess.run([sys.executable, "-S", "-c", script], check=True)
