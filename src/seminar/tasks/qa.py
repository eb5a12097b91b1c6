"""Text -> answer, letter, supporting titles used; gold and answer -> EM and F1. Pure text.

EM and F1 follow HotpotQA's own definitions (Yang et al. 2018, built on Rajpurkar et al. 2016): lower case, no
punctuation, no articles, single spaces; F1 over the words as a multiset, and 0 if one side is yes, no or
noanswer and the sides differ.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from seminar.tasks.maths import after_think, last_box, marked_answers

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ALONE = re.compile(r"(?:\\text)?[\W_]*([A-Za-z])[\W_]*")
_FIRST = re.compile(r"[\W_]*([A-Z])[).:,](.*)", re.DOTALL)
_LETTER = re.compile(
    r"\(([A-Z])\)|(?<![\w'])([A-Z])(?=[.):,]|\*\*|[ \t]*$| or\b| and\b)|(?<![\w'])([B-HJ-Z])(?![\w'])",
    re.MULTILINE,
)
_CLOSED = ("yes", "no", "noanswer")


class Match(NamedTuple):
    """How well an answer matches the gold: exact match and F1, each in [0, 1]."""

    em: float
    f1: float


def extract_answer(text: str, *, cut: bool = False) -> str | None:
    """The answer a text gives: box, `####`, "answer is" as in `maths.extract_answer`, else its last line."""
    text = after_think(text)
    if (box := last_box(text)) is not None:
        return box or None
    if marked := marked_answers(text, cut=cut):
        return marked[-1] or None
    return None if cut else text.strip().rpartition("\n")[2].strip() or None


def normalise_answer(answer: str) -> str:
    """The form in which answers are compared (HotpotQA)."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split())


def match(gold: str, answer: str) -> Match:
    """EM and F1 of an answer. F1 = 2PR/(P+R), P and R the shares of common words in answer and gold."""
    wanted, given = normalise_answer(gold), normalise_answer(answer)
    em = float(wanted == given)
    if wanted != given and (wanted in _CLOSED or given in _CLOSED):
        return Match(em, 0.0)
    wanted_words, given_words = wanted.split(), given.split()
    common = (Counter(wanted_words) & Counter(given_words)).total()
    return Match(em, 2 * common / (len(wanted_words) + len(given_words)) if common else 0.0)


def supporting_hops(text: str, titles: Sequence[str]) -> int:
    """Number of distinct supporting titles a text names, case and punctuation aside (hops; ours)."""
    words = f" {normalise_answer(text)} "
    wanted = {normalise_answer(title) for title in titles} - {""}
    return sum(f" {title} " in words for title in wanted)


def read_letters(text: str, choices: Sequence[str], *, cut: bool = False) -> tuple[str, ...]:
    """The letters of the options a text chooses: none, one, or several, which is no answer.

    Read in: the last box, else everything behind a mark (`####`, "answer is"), else the whole text. There,
    the text of an option counts if it is all there is, then letters written as such (`B`, `(B)`, `B.`,
    `B) Paris`), and only without any the texts of options among other words.
    """
    text = after_think(text)
    box = last_box(text)
    spans = [box] if box is not None else marked_answers(text, cut=cut) or ([] if cut else [text])
    chosen = [_chosen(span.strip("*_ \t\n"), choices) for span in spans]
    if not any(chosen):
        chosen = [_held(span, choices) for span in spans]
    return tuple(sorted({LETTERS[k] for places in chosen for k in places}))


def _chosen(span: str, choices: Sequence[str]) -> set[int]:
    """Options that a text names by letter, or is the very text of; a lone `A` or `I` in prose is a word."""
    letters = LETTERS[: len(choices)]
    if (alone := _ALONE.fullmatch(span)) is not None:
        return {letters.find(alone[1].upper())} - {-1}
    if (first := _FIRST.match(span)) and (place := letters.find(first[1])) in _equal(first[2], choices):
        return {place}  # `D. both A and B`
    if exact := _equal(span, choices):
        return exact
    return {letters.find(found[1] or found[2] or found[3]) for found in _LETTER.finditer(span)} - {-1}


def _equal(span: str, choices: Sequence[str]) -> set[int]:
    """Options with the text of a span, to the letter if there is one, else after normalising."""
    span = span.strip().removesuffix(".")
    if literal := {k for k, choice in enumerate(choices) if choice.strip().removesuffix(".") == span != ""}:
        return literal
    words = normalise_answer(span)
    return {k for k, choice in enumerate(choices) if normalise_answer(choice) == words != ""}


def _held(span: str, choices: Sequence[str]) -> set[int]:
    """Options whose text stands in a span; one within a longer one that stands there does not count."""
    words = f" {normalise_answer(span)} "
    texts = [f" {normalise_answer(choice)} " for choice in choices]
    held = {k for k, text in enumerate(texts) if text.strip() and text in words}
    return {k for k in held if not any(texts[k] != texts[j] and texts[k] in texts[j] for j in held)}
