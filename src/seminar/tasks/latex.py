r"""LaTeX of an answer -> one plain way of writing it, and its parts. Pure text, linear time.

`clean` undoes what typesetting adds (`\left`, `\dfrac`, `\!`, dollar signs, degree signs, trailing units),
`squeeze` drops spaces that mean nothing; `split_list`, `brackets`, `matrix`, `union` take an answer apart.
"""

import re

MAX_DEPTH = 32
"""Deepest nesting of brackets that is taken apart or given to sympy."""

_SPACING = re.compile(
    r"(?P<keep>\\\\)"  # a row break; first, so that its second backslash opens nothing
    r"|(?P<thousands>,\s*\\!\s*|\{,\})"
    r"|(?P<space>\\q?quad(?![a-zA-Z])|\\\s|~|\s+)"
    r"|\\(?:left|right)\.?(?![a-zA-Z])|\\(?:displaystyle|textstyle)(?![a-zA-Z])|\\[!,;:>]|\\[()\[\]]"
    r"|\\phantom\s*(?:\{[^{}]*\}|.)|\\?\$",
)
_DEGREES = re.compile(r"\^\s*\{\s*\\circ\s*\}|\^\s*\\circ(?![a-zA-Z])|\\degrees?(?![a-zA-Z])|°")
_ANGLE = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-zA-Z])")
_NAMES = (
    (re.compile(r"\\[dtc]frac(?![a-zA-Z])"), r"\\frac"),
    (re.compile(r"\\(?:mbox|hbox|textnormal|textbf|textit|textrm|textsf)\s*\{"), r"\\text{"),
    (re.compile(r"\\text\s+\{"), r"\\text{"),
    (re.compile(r"(\\(?:begin|end))\s*\{[bB]?matrix\}"), r"\1{pmatrix}"),
    (re.compile(r"\b(?:np|numpy|math)\.([a-z]+)\b"), r"\\\1 "),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"\\?%|\s*\bpercent\b|\\text\{\s*percent\s*\}"), "%"),
    (re.compile(r"(?<=[a-zA-Z)])'"), r"^{\\prime}"),
)
_SIGNS = str.maketrans(
    {
        "\N{MINUS SIGN}": "-",
        "\N{EN DASH}": "-",
        "\N{MULTIPLICATION SIGN}": r"\times ",
        "\N{MIDDLE DOT}": r"\cdot ",
        "\N{DIVISION SIGN}": r"\div ",
        "\N{GREEK SMALL LETTER PI}": r"\pi ",
        "\N{INFINITY}": r"\infty ",
        "\N{SQUARE ROOT}": r"\sqrt ",
        "\N{LESS-THAN OR EQUAL TO}": r"\le ",
        "\N{GREATER-THAN OR EQUAL TO}": r"\ge ",
        "\N{NOT EQUAL TO}": r"\ne ",
        "\N{SUPERSCRIPT TWO}": "^2",
        "\N{SUPERSCRIPT THREE}": "^3",
        "\N{UNION}": r"\cup ",
        "\N{ELEMENT OF}": r"\in ",
        "\N{POUND SIGN}": "",
        "\N{EURO SIGN}": "",
    }
)
_ARGUMENT = r"(\{[^{}]*\}|\\[a-zA-Z]+|[0-9a-zA-Z])"
_FRAC = re.compile(rf"\\frac\s*{_ARGUMENT}\s*{_ARGUMENT}")
_SQRT = re.compile(r"\\sqrt\s*(\\[a-zA-Z]+|[0-9a-zA-Z])")
_SCRIPT = re.compile(r"([\^_])\s*\{\s*([0-9a-zA-Z])\s*\}")
_IDLE_SPACE = re.compile(r"(?<![0-9A-Za-z])\s+|\s+(?![0-9A-Za-z])")
_UNIT = re.compile(r"\s*\\(?:text|mathrm)\s*\{([^{}]*)\}\s*(?:\^\s*\{?\s*[0-9]\s*\}?)?$")
_NOT_UNITS = re.compile(r"\b(?:and|or|hundred|thousand|million|billion|trillion|dozen)\b")
_JOIN = re.compile(
    r"\s*(?:,?\s*\\text\{\s*(?:and|or)\s*\}|(?<![a-zA-Z\\]),?\s*\b(?:and|or)\b(?![a-zA-Z])|;)\s*"
)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?%?")
_COMMA, _SPACED_COMMA = re.compile(","), re.compile(r",\s+")
_CUP = re.compile(r"\\cup(?![a-zA-Z])")
_OPEN, _CLOSE = "([{", ")]}"
_MATRIX = re.compile(r"\\begin\{pmatrix\}((?:[^\\]|\\(?!begin|end))*)\\end\{pmatrix\}")


def clean(text: str) -> str:
    r"""One way of writing for the same formula; the value stays. `\dfrac12\text{ cm}` -> `\frac{1}{2}`."""
    text = _SPACING.sub(_spacing, text.translate(_SIGNS)).strip()
    text = _DEGREES.sub(r"^\\circ " if _ANGLE.search(text) else "", text).strip()
    text = text.removesuffix(".").rstrip()
    for pattern, name in _NAMES:
        text = pattern.sub(name, text)
    text = _SQRT.sub(lambda m: rf"\sqrt{{{m[1]}}}", text)
    text = _FRAC.sub(lambda m: rf"\frac{_braced(m[1])}{_braced(m[2])}", text)
    return without_unit(_SCRIPT.sub(r"\1\2", text)).strip()


def squeeze(text: str) -> str:
    """Cleaned text without the spaces that carry no meaning; those between letters or digits stay."""
    return _IDLE_SPACE.sub("", text)


def without_unit(text: str) -> str:
    r"""`5.4 \text{ cents}` -> `5.4`; text that stands alone, joins two answers or scales a number stays."""
    found = _UNIT.search(text[-80:])
    if found is None or _NOT_UNITS.search(found[1]):
        return text
    before = text[: len(text) - len(found[0])]
    return before if before and before[-1] not in ",;=+-*/^_({[&" else text


def split_list(text: str) -> list[str]:
    r"""The answers of a cleaned text: `1, 2 \text{ and } 3` -> three, `\{1,2\}` -> two, `(1,2)` -> one.

    `a \pm b` is two answers. Set braces hold a list; round and square brackets hold one point or interval.
    """
    if len(pieces := _JOIN.split(text)) > 1:
        return [answer for piece in pieces if piece for answer in split_list(piece)]
    text = text.strip()
    if text.startswith(r"\{") and text.endswith(r"\}") and _pairs(text, 1):
        return split_list(text[2:-2]) or [text]
    if _THOUSANDS.fullmatch(text):
        return [text]
    spaced = split_top(text, _SPACED_COMMA)
    pieces = spaced if len(spaced) > 1 else split_top(text, _COMMA)
    if len(pieces) > 1:
        return [answer for piece in pieces if piece for answer in split_list(piece)]
    if text.count(r"\pm") == 1:
        return [text.replace(r"\pm", sign).strip().removeprefix("+").strip() for sign in ("+", "-")]
    return [text] if text else []


def split_top(text: str, separator: re.Pattern[str]) -> list[str]:
    """Pieces of a text between the separators that stand outside all brackets."""
    pieces, depth, start = [], 0, 0
    cuts = {found.start(): found.end() for found in separator.finditer(text)}
    for place, sign in enumerate(text):
        depth += (sign in _OPEN) - (sign in _CLOSE)
        if depth == 0 and place in cuts and place >= start:
            pieces.append(text[start:place].strip())
            start = cuts[place]
    return [*pieces, text[start:].strip()]


def brackets(text: str) -> tuple[str, list[str]] | None:
    """`(a, b]` -> (`(]`, [a, b]); None for a text that is not one bracket throughout, or holds one part."""
    text = text.strip()
    if len(text) < 2 or text[0] not in "([" or text[-1] not in ")]" or not _pairs(text, 0):
        return None
    parts = split_top(text[1:-1], _COMMA)
    return (text[0] + text[-1], parts) if len(parts) > 1 else None


def matrix(text: str) -> list[list[str]] | None:
    """Rows of cells of a text that is one matrix; None otherwise."""
    found = _MATRIX.fullmatch(text.strip())
    if found is None:
        return None
    rows = [row for row in found[1].split(r"\\") if row.strip()]
    return [[cell.strip() for cell in row.split("&")] for row in rows]


def union(text: str) -> list[str]:
    r"""Parts of a text between `\cup`; one part where there is none."""
    return split_top(text, _CUP)


def unwrap(text: str) -> str:
    """A text without round brackets or braces around the whole of it: `((x+1))` -> `x+1`; `(1,2)` stays."""
    text = text.strip()
    while len(text) > 2 and text[0] in "({" and _pairs(text, 0) and brackets(text) is None:
        text = text[1:-1].strip()
    return text


def nesting_too_deep(text: str) -> bool:
    """Whether brackets stand more than `MAX_DEPTH` deep."""
    depth = deepest = 0
    for sign in text:
        depth += (sign in _OPEN) - (sign in _CLOSE)
        deepest = max(deepest, depth)
    return deepest > MAX_DEPTH


def balanced(text: str) -> bool:
    r"""Whether braces pair up, escaped ones (`\{`) left aside."""
    depth = 0
    for sign in re.findall(r"\\.|[{}]", text, re.DOTALL):
        depth += (sign == "{") - (sign == "}")
        if depth < 0:
            return False
    return depth == 0


def _spacing(found: re.Match[str]) -> str:
    if found["thousands"]:
        return ","
    return found["keep"] or (" " if found["space"] else "")


def _braced(argument: str) -> str:
    return argument if argument.startswith("{") else f"{{{argument}}}"


def _pairs(text: str, first: int) -> bool:
    """Whether the bracket at `first` closes only at the end of the text."""
    depth = 0
    for place in range(first, len(text)):
        depth += (text[place] in _OPEN) - (text[place] in _CLOSE)
        if depth <= 0:
            return depth == 0 and place == len(text) - 1
    return False
