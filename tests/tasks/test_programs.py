"""Programs read from completions."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seminar.tasks.code import Exercise
from seminar.tasks.programs import extract_program

PREFIX = 'from typing import List\n\n\ndef double(xs: List[int]) -> List[int]:\n    """Twice each."""\n'
WORDS = Exercise(tests="assert f(1) == 2", names=("f",), prefix="")
CODE = Exercise(tests="assert double([1]) == [2]", names=("double",), prefix=PREFIX)
F = "def f(x):\n    return 2 * x\n"
DOUBLE = "def double(xs):\n    return [2 * x for x in xs]\n"


def doubles(program: str | None) -> bool:
    """Whether the program, run here, doubles: these texts are our own."""
    assert program is not None
    space: dict[str, object] = {}
    exec(compile(program, "program", "exec"), space)
    result: object = space["double"]([1, 2])  # type: ignore[operator]
    return result == [2, 4]


# --- fences


@pytest.mark.parametrize(
    "text",
    [
        f"```python\n{F}```",
        f"```\n{F}```",
        f"``` Python\n{F}```",
        f"~~~py\n{F}~~~",
        f"Sure! Here it is:\n\n```python\n{F}```\nIt doubles.",
        f"```python\n{F}",
        f"```python\n{F}".replace("\n", "\r\n"),
        f"1. Like so:\n    ```python\n    {F.replace(chr(10), chr(10) + '    ').rstrip()}\n    ```",
        f"<think>```python\ndef f(x): return 0\n```</think>```python\n{F}```",
        f"I think aloud, def f(x): return 0</think>\n{F}",
    ],
)
def test_a_fenced_block_is_the_program(text: str) -> None:
    assert (extract_program(text, WORDS) or "").strip() == F.strip()


def test_the_last_block_that_defines_the_function_wins() -> None:
    text = f"```python\ndef f(x): return 0\n```\nNo:\n```python\n{F}```\nUse:\n```python\nprint(f(2))\n```"
    assert extract_program(text, WORDS) == F


def test_blocks_in_other_languages_are_passed_over() -> None:
    assert extract_program(f"```python\n{F}```\n```bash\nf=1\n```", WORDS) == F


def test_a_block_without_the_function_is_still_the_program_where_nothing_else_is() -> None:
    assert extract_program("```python\ndef g(x):\n    return x\n```", WORDS) == "def g(x):\n    return x\n"


def test_a_lambda_defines_too() -> None:
    assert extract_program("```\nf = lambda x: 2 * x\n```", WORDS) == "f = lambda x: 2 * x\n"


# --- prose


def test_bare_code_within_prose_is_cut_out() -> None:
    text = f"Here is my answer.\n\nimport math\n\n{F}\nThis doubles, as x = x holds.\n"
    assert extract_program(text, WORDS) == f"import math\n\n{F}\n"


def test_prose_that_opens_like_code_is_no_code() -> None:
    assert extract_program("from what I see, class matters\nimport is hard: def f is unclear", WORDS) is None


@pytest.mark.parametrize("text", ["", "I do not know.", "<think>```\ndef f(x): return 2 * x\n```", "\n \n"])
def test_no_code_is_no_program(text: str) -> None:
    assert extract_program(text, WORDS) is None
    assert extract_program(text, CODE) is None


# --- a prompt that goes on


@pytest.mark.parametrize(
    "text",
    [
        "    return [2 * x for x in xs]\n",
        "\n    return [2 * x for x in xs]",
        "return [2 * x for x in xs]",
        "ys = []\n    for x in xs:\n        ys.append(2 * x)\n    return ys\n",
        "for i, x in enumerate(xs):\n        xs[i] = 2 * x\n    return xs\n",
        "```python\nys = []\nfor x in xs:\n    ys.append(2 * x)\nreturn ys\n```",
        "```python\n    ys = [2 * x for x in xs]\n    return ys\n```",
        "```\nreturn [2 * x for x in xs]\n```",
        "    ys = []\n    for x in xs:\n\n        ys.append(2 * x)\n    return ys\n\nprint(1)\nAs",
        "    return [2 * x for x in xs]\n\n\ndef main(",
        "    return [2 * x for x in xs]\n".replace("\n", "\r\n"),
        f"```python\n{DOUBLE}```",
        f"{PREFIX}    return [2 * x for x in xs]\n",
        f"Here:\n{DOUBLE}It works.",
        "```python\ndef double(xs: List[int]) -> List[int]:\n    return [2 * x for x in xs]\n```",
        "```\nfrom __future__ import annotations\ndef double(xs: Q):\n    return [2 * x for x in xs]\n```",
    ],
)
def test_a_continuation_or_a_whole_function_becomes_one_program(text: str) -> None:
    assert doubles(extract_program(text, CODE))


def test_a_whole_function_gets_the_helpers_of_its_prompt() -> None:
    prefix = "def half(x):\n    return x / 2\n\n\ndef f(x):\n    '''Doc.'''\n"
    exercise = Exercise(tests="", names=("f",), prefix=prefix)
    program = extract_program("```\ndef f(x):\n    return half(x)\n```", exercise)
    assert program == "def half(x):\n    return x / 2\n\ndef f(x):\n    return half(x)\n"


def test_prose_does_not_go_on_with_a_prompt() -> None:
    assert extract_program("The function doubles its values.", CODE) is None


PIECES = [*"`~ \n\r\tdef():=#x1\"'\\", "```", "    ", "def f", "return ", "<think>", "</think>"]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_any_text_gives_a_program_or_none(text: str) -> None:
    for exercise in (WORDS, CODE):
        program = extract_program(text, exercise)
        assert program is None or program.strip()


def test_continuations_keep_the_prompt_parsable() -> None:
    program = extract_program("    return xs", CODE)
    assert program is not None
    assert [type(node).__name__ for node in ast.parse(program).body] == ["ImportFrom", "FunctionDef"]
