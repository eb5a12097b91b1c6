"""Code tasks -> what judging takes; programs -> complexity; counts -> pass@k. Text and syntax trees alone.

`tasks.programs` reads programs from completions, `rewards.execution` runs them.
"""

import ast
import builtins
import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from seminar.errors import ConfigError
from seminar.types import Task

DEADLINE_S = 3.0
"""As in HumanEval's own harness."""
DEADLINES_S = {"mbpp": 10.0, "mbpp_sanitized": 10.0}
"""By data set, where that is too short: the reference solution of MBPP 123 alone takes three seconds."""

_DECISIONS = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.Assert)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """What it takes to judge programs for one code task."""

    tests: str
    """Python source that runs to its end when a program is right."""
    names: tuple[str, ...]
    """What a program must define for the tests; the function that is asked for comes first."""
    prefix: str
    """Code that a completion may go on from; "" where the question is no code."""


def exercise(task: Task) -> Exercise | None:
    """The exercise of a code task; None where the task is unusable.

    Read are `tests`, the question, and of `meta` `entry_point` and `solution` (a reference, which is never
    run).
    - Tests that define `check` and do not call it (HumanEval's form) get the call `check(entry_point)`.
    - What a question in Python defines and imports beside the entry point goes before the tests.
    - With a solution, a program must define what the solution defines and the tests use, and those imports of
      the solution that the tests use go before them. Without, it must define every name that the tests
      neither bind nor find in Python. Unusable are tests that are no Python, and tests that use nothing a
      program defines: these would judge all programs alike.
    """
    return _exercise(
        unix_lines(task.question),
        unix_lines(task.tests),
        str(task.meta.get("entry_point", "")),
        unix_lines(str(task.meta.get("solution", ""))),
    )


def deadline_s(task: Task) -> float:
    """Wall clock of one run, the program and all tests: `meta["deadline_s"]`, or what its data set needs."""
    return float(task.meta.get("deadline_s", DEADLINES_S.get(task.source, DEADLINE_S)))


def helpers(code: str, *, beside: str) -> str | None:
    """What a module defines and imports beside one function; None where it is no Python or lacks that one."""
    body = _statements(code)
    others = [node for node in body if beside not in _bound(node)]
    return _source(others) if len(others) < len(body) else None


def complexity(program: str) -> int | None:
    """Cyclomatic complexity of a program taken as one unit: 1 + its decisions; None where it is no Python.

    Decisions: if, elif, conditional expression, for, while, except, assert, each further operand of `and` and
    `or`, each `for` and `if` of a comprehension, each case of a match but a last one that takes anything. Our
    reading of DRAFT-RL's "complexity", which the paper leaves undefined (the measure: McCabe, 1976).
    """
    body = _statements(program)
    return 1 + sum(map(_decisions, ast.walk(_module(body)))) if body else None


def pass_at_k(*, n: int, correct: int, k: int) -> float:
    """Unbiased estimate that one of k samples passes, from `correct` passes among the n samples of a task.

    1 - C(n - correct, k) / C(n, k) (Chen et al. 2021, equation 1). Raises ConfigError unless 1 <= k <= n.
    """
    if not 1 <= k <= n:
        raise ConfigError(
            f"pass@k: k is {k}; with {n} samples a task it can be 1 to {n}. Draw more samples or lower k."
        )
    if not 0 <= correct <= n:
        raise ConfigError(f"pass@k: {correct} of {n} samples passed; 0 to {n} can. Count every sample once.")
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


def unix_lines(text: str) -> str:
    """The text with every line ended by a line feed alone."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


@lru_cache(maxsize=1024)
def _exercise(question: str, tests: str, entry_point: str, solution: str) -> Exercise | None:
    body = _statements(tests)
    if entry_point and any("check" in _bound(node) for node in body) and not any(map(_calls_check, body)):
        tests += f"\n\ncheck({entry_point})\n"
        body = _statements(tests)
    beside = helpers(question, beside=entry_point) if entry_point else None
    before = beside or ""
    wanted = _free_names(body) - _all_bound(_statements(before))
    if solution:
        reference = _statements(solution)
        imports = [node for node in reference if isinstance(node, ast.Import | ast.ImportFrom)]
        needed = [node for node in imports if _bound(node) & wanted]
        before += "\n" + _source(needed)
        wanted &= _all_bound(reference) - _all_bound(imports)
    else:
        wanted -= set(dir(builtins)) - {entry_point}
    if not wanted:
        return None
    return Exercise(
        tests=f"{before}\n{tests}",
        names=tuple(sorted(wanted, key=lambda name: (name != entry_point, name))),
        prefix="" if beside is None else question,
    )


def _decisions(node: ast.AST) -> int:
    if isinstance(node, _DECISIONS):
        return 1
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    if isinstance(node, ast.Match):
        last = node.cases[-1]
        takes_all = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and not last.guard
        return len(node.cases) - takes_all
    return 0


def _statements(code: str) -> list[ast.stmt]:
    """Top-level statements; none where the text is no Python."""
    try:
        with warnings.catch_warnings(action="ignore"):  # an odd escape in a string is nobody's concern here
            return ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _module(body: list[ast.stmt]) -> ast.Module:
    return ast.Module(body=body, type_ignores=[])


def _source(body: Sequence[ast.stmt]) -> str:
    return ast.unparse(_module(list(body)))


def _calls_check(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "check"


def _free_names(body: list[ast.stmt]) -> set[str]:
    """Names that statements use and nowhere bind."""
    used, bound = set[str](), set[str]()
    for node in ast.walk(_module(body)):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
        else:
            bound |= _bound(node)
    return used - bound


def _all_bound(body: Iterable[ast.AST]) -> set[str]:
    return {name for node in body for name in _bound(node)}


def _bound(node: ast.AST) -> set[str]:
    """Names that a statement binds by defining, importing or assigning."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    return set()
