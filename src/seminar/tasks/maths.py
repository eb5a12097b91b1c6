r"""Text of a model -> its answer; answer -> its form for votes; gold -> what is wrong with it. Pure text.

Where an answer stands, first found wins:
1. the last box (`\boxed{7}`, `\fbox{7}`); an empty one is no answer;
2. the last line `#### 7`;
3. behind the last "answer is" or "answer:", up to the end of the sentence;
4. the whole text, if it is one line and no prose;
5. the last formula in the text or the last number, whichever stands later.
Of a text cut by the token limit only boxes and whole lines count, and rules 4 and 5 do not hold. Everything
up to `</think>` is cut first; a `<think>` that never closes leaves no answer.
"""

import re
from collections import deque

from seminar.tasks.equality import MAX_ANSWER_CHARS, named_value, words_of
from seminar.tasks.latex import balanced, brackets, clean, nesting_too_deep, split_list, squeeze
from seminar.tasks.numbers import read_number

_BOX = re.compile(r"\\f?box(?:ed)?\s*\{|\\f?box(?:ed)?\s+(?P<bare>[^\s{}$\\]+)|\\.|[{}]", re.DOTALL)
_HASHES = re.compile(r"^[ \t]*####[ \t]*(\S.*)$", re.MULTILINE)
_MARK = re.compile(r"\banswer\b[*_ \t]{0,4}(?:(?:is|would be|equals)\b[ \t]*:?|:|=)", re.IGNORECASE)
_FORMULA = (
    r"(?:(?<!\\)\$\$(?:\\.|[^$\\])+\$\$|(?<!\\)\$(?:\\.|[^$\\\n])+\$"
    r"|\\\((?:\\[^()]|[^\\\n])+\\\)|\\\[(?:\\[^\[\]]|[^\\])+\\\])"
)
_FORMULA_LIST = rf"{_FORMULA}(?:[ \t]{{0,3}}(?:,|and|or|, and|, or)?[ \t]{{0,3}}{_FORMULA})*%?"
_FORMULAS = re.compile(_FORMULA_LIST, re.DOTALL)
_FORMULAS_OR_NUMBER = re.compile(
    rf"{_FORMULA_LIST}|(?<![\w.])[+-]?\$?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+|/\d+)?%?", re.DOTALL
)
_SENTENCE_END = re.compile(r"[.!?;]$|(?:(?<=[\d)}\]$%*])|(?<=[a-z][a-z]))[.!?;]\s+(?=[A-Z(*])")
_NAMED = re.compile(r"\\(?:text[a-z]*|[mh]box|mathrm)\s?\{[^{}]*\}|\\[a-zA-Z]+")
_PROSE = re.compile(r"[A-Za-z]{2}[,:;]?\s+[A-Za-z]{2}")


def after_think(text: str) -> str:
    """Text behind the last `</think>`; empty where thinking was opened and never closed."""
    _, closed, rest = text.rpartition("</think>")
    return "" if not closed and "<think>" in text else rest


def last_box(text: str) -> str | None:
    """Content of the last box that closes; None without one. One pass, however the braces are nested."""
    opened: list[int] = []  # where the content of each open brace starts; -1 for a brace that is no box
    box: tuple[int, int] | None = None
    for token in _BOX.finditer(text):
        if token[0] == "}":
            start = opened.pop() if opened else -1
            if start >= 0 and (box is None or start > box[0]):
                box = (start, token.start())
        elif token["bare"] is not None:
            box = token.span("bare")
        elif token[0] == "{":
            opened.append(-1)
        elif token[0].endswith("{") and token[0] != r"\{":
            opened.append(token.end())
    return None if box is None else text[box[0] : box[1]].strip()


def extract_answer(text: str, *, cut: bool = False) -> str | None:
    """The answer a text gives, as written; None without one. `cut`: the token limit ended the text."""
    text = after_think(text)
    if (box := last_box(text)) is not None:
        return box or None
    if marked := marked_answers(text, cut=cut):
        return marked[-1] or None
    text = text.strip()
    if cut or not text:
        return None
    if "\n" not in text and len(text) <= MAX_ANSWER_CHARS and not _PROSE.search(_NAMED.sub("", text)):
        return text
    found = _last(_FORMULAS_OR_NUMBER, text, 1)
    return found[0][0] if found else None


def marked_answers(text: str, *, cut: bool = False) -> list[str]:
    """What stands behind `####` or, in a text without it, behind "answer is"; the last 20 at most."""
    if cut:
        text = text[: text.rfind("\n") + 1]
    if hashes := _last(_HASHES, text, 20):
        return [found[1].strip() for found in hashes]
    ends = [found.end() for found in _last(_MARK, text, 20)]
    return [_sentence(text[end : end + MAX_ANSWER_CHARS].lstrip("*_ \t\r\n")) for end in ends]


def check_gold(gold: str) -> str | None:
    """Why nothing could be graded against this gold; None for a usable one.

    Beyond this, a gold that sympy cannot read is still usable: only an answer of the same text is then right.
    """
    if len(gold) > MAX_ANSWER_CHARS:
        return f"it has {len(gold)} characters; at most {MAX_ANSWER_CHARS} are compared"
    if not squeeze(clean(gold)):
        return "it is empty"
    if not balanced(gold):
        return "its braces do not pair up"
    return None


def normalise_answer(answer: str) -> str:
    r"""A form in which answers that say the same are mostly the same text: for votes, never for grading.

    Numbers become exact (`0.50`, `\frac12` and `1/2` agree), lists are sorted, words lower case; `x=`, spaces
    and typesetting go. Formulas that need algebra to compare stay apart.
    """
    answer = answer[:MAX_ANSWER_CHARS]
    if (number := read_number(answer)) is not None:
        return f"{number.value}%" if number.percent else f"{number.value}"
    text = clean(answer)
    if nesting_too_deep(text):
        return squeeze(text)
    if (words := words_of(text)) is not None:
        return ",".join(words)
    if len(answers := split_list(text)) > 1:
        return ",".join(sorted(normalise_answer(part) for part in answers))
    text = answers[0] if answers else text
    if (named := named_value(text)) is not None:
        return normalise_answer(named[1])
    if (bracketed := brackets(text)) is not None:
        ends, parts = bracketed
        return ends[0] + ",".join(normalise_answer(part) for part in parts) + ends[1]
    return squeeze(text)


def _last(pattern: re.Pattern[str], text: str, count: int) -> list[re.Match[str]]:
    return list(deque(pattern.finditer(text), maxlen=count))


def _sentence(text: str) -> str:
    """The start of a text up to the end of its first sentence; formulas that open it are taken alone."""
    if (formulas := _FORMULAS.match(text)) is not None:
        return formulas[0]
    line = text.partition("\n")[0].strip()
    end = _SENTENCE_END.search(line)
    return (line[: end.start()] if end else line).strip("*_ \t")
