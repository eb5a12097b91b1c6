"""Text of a draft -> steps, answer, and whether it keeps the Chain-of-Draft form. Pure text, linear time.

The form (DRAFT-RL, arXiv 2511.20468, eq. 2 and 3; word rule ours, for the paper names none): one step a line,
at most five words a step, then a line `#### answer`. A word is a maximal run of letters, digits, `.`, `,` and
`/` that holds a letter or a digit; operators and `=` are free; a LaTeX command is one word, and its argument
counts on its own.
"""

import re
from dataclasses import dataclass
from typing import Literal

from seminar.types import StopReason

MAX_WORDS = 5
"""Most words of a step (paper)."""
MARK = "####"
"""Opens the answer (Xu et al. 2025, Chain of Draft)."""

Fault = Literal["truncated", "no_answer", "no_steps", "long_step", "text_after_answer"]

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_MARKED = re.compile(rf"^[ \t]*{MARK}", re.MULTILINE)
_WORD = re.compile(r"\\[A-Za-z]+|(?:[^\W_]|[.,/])+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A draft as it was read."""

    steps: tuple[str, ...]
    """Lines before the answer, stripped; empty lines are no steps."""
    answer: str | None
    """Text behind the mark; None where there is no mark or nothing behind it."""
    fault: Fault | None
    """The first way in which the form is broken; None: the draft is valid."""

    @property
    def valid(self) -> bool:
        """Whether every rule holds; there is no partial credit (eq. 3)."""
        return self.fault is None


def parse_draft(
    text: str, *, stop: StopReason = "eos", max_words: int | None = MAX_WORDS, answer_lines: bool = False
) -> Draft:
    """Read a draft. Never raises for what the text holds.

    `stop` tells a draft cut by the token limit, whose answer may be half an answer. `max_words` None: steps
    of any length (the ablation without Chain of Draft). `answer_lines`: the answer runs to the end of the
    text (code) and not to the end of its line. A draft without a step is no chain of drafts and invalid
    (ours; eq. 3 leaves it open).
    """
    before, mark, behind = _split(text)
    steps = tuple(line.strip() for line in before.split("\n") if line.strip())
    head, _, rest = (behind, "", "") if answer_lines else behind.strip(" \t").partition("\n")
    answer = head.strip() or None
    fault: Fault | None = None
    if stop == "length":
        fault = "truncated"
    elif not mark or answer is None:
        fault = "no_answer"
    elif not steps:
        fault = "no_steps"
    elif max_words is not None and any(count_words(step) > max_words for step in steps):
        fault = "long_step"
    elif rest.strip():
        fault = "text_after_answer"
    return Draft(steps=steps, answer=answer, fault=fault)


def count_words(step: str) -> int:
    r"""Words of a step by the rule above: `20 - 12 = 8` has 3, `\frac{1}{2} + 1/2 = 1` has 5."""
    return sum(any(c.isalnum() for c in run) for run in _WORD.findall(step))


def step_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Character spans of the steps and, last, of the answer: contiguous, in order, together the whole text.

    A span runs from the end of the one before to the end of its line, line break included; empty lines belong
    to the step that follows them, and what follows the last step belongs to the last span. The answer with
    all behind it is one span: in eq. 2 it is the last action of the draft. Empty text has no spans.
    """
    before, mark, _ = _split(text)
    spans: list[tuple[int, int]] = []
    start = end = 0
    for line in _LINE.findall(before):
        end += len(line)
        if line.strip():
            spans.append((start, end))
            start = end
    if mark or (not spans and text):
        spans.append((start, len(text)))
    elif spans:
        spans[-1] = (spans[-1][0], len(text))
    return tuple(spans)


def _split(text: str) -> tuple[str, str, str]:
    """Text before the first line that opens with the mark, the mark (empty where missing), text behind it."""
    found = _MARKED.search(text)
    return (text, "", "") if found is None else (text[: found.start()], MARK, text[found.end() :])
