"""Completions -> programs: fences, prose, continuations of a prompt. Pure text, linear, nothing is run."""

import re
import textwrap
from collections.abc import Iterable, Iterator

from seminar.tasks.code import Exercise, helpers, unix_lines

_PYTHON = ("", "python", "python3", "py")
"""Labels of a fence that may hold the program."""
_INDENT = "    "
_STATEMENT = re.compile(
    r"(?:async\s+def|def|class)\s+\w|@\w|import\s+\w[\w., ]*$|from\s+[\w.]+\s+import\b"
    r"|[A-Za-z_]\w*\s*(?::[^=]*)?=(?!=)"
)
"""What a line of bare code starts with and prose does not."""
_BETWEEN = re.compile(r"[#)\]}]|if\s+__name__\b")
"""What goes on with code once there is some."""
_BODY = re.compile(
    r"(?:return|raise|yield|assert|pass|for|while|if|try|with|def|import|from|global|nonlocal)\b"
    r"(?:.*[\w:)\]}\"'])?$|[\w.\[\], ]+[-+*/%&|^<>]*=(?!=)|[\w.]+\(.*\)$|[\"'#]"
)
"""What the rest of a function starts with where its first indentation was stripped."""


def extract_program(text: str, exercise: Exercise) -> str | None:
    """The program that a completion stands for, ready to run; None where it holds no code.

    Read is what stands after the last `</think>`; nothing is, while a `<think>` is open. The choice, in
    order: the last fenced Python block that defines a name the tests want; the last stretch of bare code that
    does; for an exercise with a prefix, the last block or the bare text as the rest of its function; the last
    block. A whole function gets the prefix's imports and helpers before it. A continuation ends before its
    first line that is not indented.
    """
    _, closed, answer = text.rpartition("</think>")
    if not closed and "<think>" in answer:
        return None
    answer = unix_lines(answer)
    blocks = list(_fenced_blocks(answer))
    for code in [*reversed(blocks), *reversed(list(_bare_code(answer)))]:
        if _defines(code, exercise.names):
            return _with_helpers(code, exercise)
    if exercise.prefix:
        body = _rest(blocks[-1], fenced=True) if blocks else _rest(answer, fenced=False)
        return f"{exercise.prefix}\n{body}" if body else None
    return blocks[-1] if blocks else None


def _fenced_blocks(text: str) -> Iterator[str]:
    """Blocks within ``` or ~~~ that are Python or unlabelled; one that nothing closes runs to the end."""
    fence, label, lines = "", "", list[str]()
    for line in [*text.split("\n"), None]:
        mark = "" if line is None else line.strip()
        if fence and (line is None or mark == fence):
            if label in _PYTHON and any(map(str.strip, lines)):
                yield textwrap.dedent("\n".join(lines)) + "\n"
            fence, lines = "", []
        elif fence and line is not None:
            lines.append(line)
        elif mark.startswith(("```", "~~~")):
            fence, label = mark[:3], mark[3:].strip("`~ ").lower().partition(" ")[0]


def _bare_code(text: str) -> Iterator[str]:
    """Stretches of lines that look like code: statements at the margin and all that is indented below."""
    lines = list[str]()
    for line in text.split("\n"):
        goes_on = bool(lines) and (not line.strip() or line[0].isspace() or _BETWEEN.match(line))
        if goes_on or _STATEMENT.match(line):
            lines.append(line)
        elif lines:
            yield "\n".join(lines) + "\n"
            lines = []
    if lines:
        yield "\n".join(lines) + "\n"


def _defines(code: str, names: Iterable[str]) -> bool:
    name = "|".join(map(re.escape, names))
    definition = rf"^(?:(?:async +def|def|class) +(?:{name})\b|(?:{name}) *(?::[^=\n]*)?=(?!=))"
    return re.search(definition, code, re.MULTILINE) is not None


def _with_helpers(code: str, exercise: Exercise) -> str:
    """The code with what the prefix brings along before it, and its `from __future__` lines first of all."""
    before = helpers(exercise.prefix, beside=exercise.names[0])
    if not before:
        return code
    future = re.compile(r"^from __future__ import .*\n", re.MULTILINE)
    return f"{''.join(future.findall(code))}{before}\n\n{future.sub('', code)}"


def _rest(text: str, *, fenced: bool) -> str:
    """A function's body, indented, up to the first line at the margin; "" where the text is not like one."""
    lines = text.strip("\n").rstrip().split("\n")
    first, below = lines[0], next((line for line in lines[1:] if line.strip()), "")
    if first[:1].strip():
        if not fenced and not _BODY.match(first.rstrip()):
            return ""
        step = _INDENT if first.rstrip().endswith(":") else ""
        if fenced and not below.startswith(_INDENT + step):  # the whole block lost its indentation
            return textwrap.indent("\n".join(lines), _INDENT) + "\n"
        lines[0] = _INDENT + first
    end = next((number for number, line in enumerate(lines) if line[:1].strip()), len(lines))
    return "\n".join(lines[:end]) + "\n" if any(map(str.strip, lines[:end])) else ""
