"""A draft protocol and generated tasks -> prompts and the answers they deserve: a warm-up in both forms."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from seminar.protocols.drafts import Drafts
from seminar.tasks.generated_drafts import WrittenDraft, write_drafts
from seminar.tasks.review_form import CRITERIA, write_review
from seminar.types import Message, Task

RIGHT_BEFORE = 0.25
"""Share of right ones among the drafts shown before the one to imitate: few, so that copying does not pay."""


class Demonstration(NamedTuple):
    """One prompt of the protocol and what an agent should answer."""

    messages: tuple[Message, ...]
    text: str


def demonstrations(
    protocol: Drafts,
    tasks: Sequence[Task],
    *,
    seed: int,
    criteria: Sequence[str] = CRITERIA,
    feedback: bool = True,
) -> Iterator[Demonstration]:
    """Of each task: two drafts and, in a team with peers, the reviews of a right and of a wrong draft.

    One draft is asked for under the plain prompt, one under the prompt of draft k: k is drawn, and so is
    which of the drafts before it are right. Every draft to imitate is right and valid. `criteria` and
    `feedback` leave parts of the review out, for a base too small for whole ones; the overall score is always
    there. Raises DataError for a task without a worked solution.
    """
    for task in tasks:
        rng = random.Random(f"{seed}/{task.id}/lessons")
        k = rng.randrange(protocol.drafts)
        *earlier, good, bad = write_drafts(
            task, right=[*(rng.random() < RIGHT_BEFORE for _ in range(k)), True, False], seed=seed
        )
        yield Demonstration(protocol.plain_prompt(task), good.text)
        yield Demonstration(protocol.draft_prompt(task, [draft.text for draft in earlier]), good.text)
        if protocol.peers:
            for draft in (good, bad):
                text = _review(draft, criteria=criteria, feedback=feedback)
                yield Demonstration(protocol.review_prompt(task, draft.text), text)


def _review(draft: WrittenDraft, *, criteria: Sequence[str], feedback: bool) -> str:
    scores = {name: score if name in criteria else None for name, score in draft.review.scores.items()}
    said = draft.review.feedback if feedback else ""
    return write_review(replace(draft.review, scores=scores, feedback=said))
