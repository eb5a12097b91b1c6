"""Exercises from tasks, complexity, pass@k."""

import itertools
import math

import pytest

from seminar.errors import ConfigError
from seminar.tasks.code import complexity, deadline_s, exercise, pass_at_k
from seminar.types import Task


def task(question: str = "", tests: str = "", **meta: object) -> Task:
    return Task(id="t", question=question, tests=tests, domain="code", meta=meta)


# --- exercises

PROMPT = (
    "import math\n\n\ndef area(r):\n    return math.pi * r * r\n\n\n"
    'def ring(a, b):\n    """Area between two circles."""\n'
)
CHECK = "def check(candidate):\n    assert candidate(2, 1) == area(2) - area(1)\n"


def test_a_check_that_nobody_calls_is_called_with_the_entry_point() -> None:
    asked = exercise(task(PROMPT, CHECK, entry_point="ring"))
    assert asked is not None
    assert asked.tests.endswith("\ncheck(ring)\n")


def test_a_check_that_is_called_is_not_called_again() -> None:
    asked = exercise(task(PROMPT, CHECK + "\ncheck(ring)\n", entry_point="ring"))
    assert asked is not None
    assert asked.tests.count("check(ring)") == 1


def test_helpers_of_the_question_are_the_tests_own_and_not_the_programs() -> None:
    asked = exercise(task(PROMPT, CHECK, entry_point="ring"))
    assert asked is not None
    assert asked.tests.startswith("import math\n\ndef area(r):\n    return math.pi * r * r\n")
    assert "def ring" not in asked.tests
    assert asked.names == ("ring",)


def test_a_question_in_python_is_a_prefix() -> None:
    asked = exercise(task(PROMPT, CHECK, entry_point="ring"))
    assert asked is not None
    assert asked.prefix == PROMPT


def test_a_question_in_words_is_no_prefix() -> None:
    asked = exercise(task("Write ring(a, b).", "assert ring(1, 1) == 0", entry_point="ring"))
    assert asked is not None
    assert asked.prefix == ""


def test_without_a_solution_a_program_defines_all_that_tests_use_and_python_lacks() -> None:
    tests = "import math\nfor x in range(3):\n    assert f(Pair(x, 1)) == math.pi, [y for y in 'ab']\n"
    asked = exercise(task("words", tests))
    assert asked is not None
    assert asked.names == ("Pair", "f")


def test_with_a_solution_a_builtin_name_can_be_the_programs() -> None:
    solution = "def sum(a, b):\n    return a + b\n"  # MBPP 126
    asked = exercise(task("words", "assert sum(1, 2) == 3", solution=solution))
    assert asked is not None
    assert asked.names == ("sum",)


def test_modules_that_tests_take_from_the_solution_are_imported_for_them() -> None:
    solution = "import sys, os\ndef size(x):\n    return sys.getsizeof(x)\n"  # MBPP 596
    asked = exercise(task("words", "assert size(()) == sys.getsizeof(())", solution=solution))
    assert asked is not None
    assert asked.names == ("size",)
    assert asked.tests.startswith("\nimport sys, os\n")


def test_names_the_tests_assign_are_not_the_programs() -> None:
    solution = "class Node: pass\nroot = Node()\ndef height(node): return 0\n"  # like MBPP 927
    asked = exercise(task("words", "root = Node()\nassert height(root) == 0", solution=solution))
    assert asked is not None
    assert asked.names == ("Node", "height")


def test_line_ends_are_those_of_unix() -> None:
    asked = exercise(task("words", "assert f(1)\r\nassert f(2)\r\n"))
    assert asked is not None
    assert "\r" not in asked.tests


@pytest.mark.parametrize("tests", ["", "assert f(", "assert len('a') == 1", "assert True", "\0"])
def test_tests_that_judge_nothing_make_a_task_unusable(tests: str) -> None:
    assert exercise(task("words", tests)) is None


def test_a_deadline_comes_from_the_task_or_its_set() -> None:
    mbpp = Task(id="t", question="q", domain="code", source="mbpp")
    assert [deadline_s(task()), deadline_s(mbpp), deadline_s(task(deadline_s=7))] == [3.0, 10.0, 7.0]


# --- complexity


@pytest.mark.parametrize(
    ("program", "decisions"),
    [
        ("def f(x): return x", 0),
        ("if a: b\nelif c: d\nelse: e", 2),
        ("x = a if b else c", 1),
        ("for x in y:\n    while x: pass", 2),
        ("try: a\nexcept E: b\nexcept F: c\nelse: d\nfinally: e", 2),
        ("x = a and b and c or d", 3),  # `and` joins three operands, `or` two
        ("[x for x in y for z in x if z if x]", 4),
        ("assert x", 1),
        ("match x:\n    case 1: a\n    case 2: b\n    case _: c", 2),
        ("match x:\n    case 1: a\n    case 2: b", 2),
        ("match x:\n    case 1: a\n    case _ if b: c", 2),
        ("def f():\n    def g():\n        if a: b\n    if a: b", 2),
        ("with a: b = lambda: c", 0),
    ],
)
def test_complexity_is_one_more_than_the_decisions(program: str, decisions: int) -> None:
    assert complexity(program) == 1 + decisions


@pytest.mark.parametrize("text", ["def f(:", "x = " + "(" * 100_000, "x = " + "-" * 100_000 + "1", "\0"])
def test_what_is_no_python_has_no_complexity(text: str) -> None:
    assert complexity(text) is None


# --- pass@k


def test_pass_at_one_is_the_share_of_passes() -> None:
    assert pass_at_k(n=8, correct=3, k=1) == pytest.approx(3 / 8, rel=1e-12)


def test_pass_at_k_is_the_share_of_subsets_with_a_pass() -> None:
    # Of the subsets of size 2 of {pass, pass, fail, fail, fail}, 3 of 10 hold no pass.
    samples = [True, True, False, False, False]
    subsets = list(itertools.combinations(samples, 2))
    assert pass_at_k(n=5, correct=2, k=2) == pytest.approx(sum(map(any, subsets)) / len(subsets), rel=1e-12)


def test_pass_at_k_is_exact_for_many_samples() -> None:
    # The product form of Chen et al.: 1 - prod over i in n-c+1..n of (1 - k / i).
    n, correct, k = 200, 17, 100
    product = math.prod(1 - k / i for i in range(n - correct + 1, n + 1))
    assert pass_at_k(n=n, correct=correct, k=k) == pytest.approx(1 - product, rel=1e-12)


def test_more_passes_than_misses_leave_no_subset_without() -> None:
    assert pass_at_k(n=5, correct=3, k=3) == 1.0


@pytest.mark.parametrize("k", [0, 6])
def test_a_k_outside_the_samples_is_refused(k: int) -> None:
    with pytest.raises(ConfigError, match=r"pass@k: k is \d; with 5 samples a task it can be 1 to 5"):
        pass_at_k(n=5, correct=1, k=k)


def test_more_passes_than_samples_are_refused() -> None:
    with pytest.raises(ConfigError, match="6 of 5 samples passed"):
        pass_at_k(n=5, correct=6, k=1)
