"""What is known of a draft -> its observed reward; scores of a question's drafts -> the winner. Pure Python.

DRAFT-RL (arXiv 2511.20468) names four parts of the reward (table A3) and no weights: equal ones for task,
peer and coherence and none for diversity fit that table (ours).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from seminar.errors import ConfigError
from seminar.types import Score, Verdict

MIX = "mix"
"""Part of a score: the weighted mean in [0, 1], before the format penalty. What R_phi learns to foretell."""
FORMAT = "format"
"""Part of a score: 0 for a valid draft, else minus the penalty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """The observed reward: a weighted mean of parts in [0, 1], less a penalty for a broken form."""

    task: float = 1 / 3
    """Weight of the verified outcome (ours). Only proportions of the weights count."""
    peer: float = 1 / 3
    """Weight of the reviewers' mean overall score (ours)."""
    coherence: float = 1 / 3
    """Weight of the reviewers' mean coherence score (ours)."""
    diversity: float = 0.0
    """Weight of the distance to the agent's other drafts (ours)."""
    format_penalty: float = 0.5
    """Taken off an invalid draft (ours): a right answer in a broken form ends below one in good form."""

    def __post_init__(self) -> None:
        """Refuse weights that make no mean and a penalty that is a prize."""
        weights = {name: getattr(self, name) for name in ("task", "peer", "coherence", "diversity")}
        if min(weights.values()) < 0 or sum(weights.values()) <= 0 or self.format_penalty < 0:
            said = ", ".join(f"{name} {weight:g}" for name, weight in weights.items())
            raise ConfigError(
                f"reward is {said}, format_penalty {self.format_penalty:g}; numbers from 0 up and weights "
                "with a sum above 0 are allowed. Give a part weight, or leave the defaults."
            )

    def score(
        self,
        verdict: Verdict,
        *,
        task: float | None,
        peer: float | None,
        coherence: float | None,
        diversity: float | None,
        valid: bool,
    ) -> Score | None:
        """Score of one draft with its parts kept apart; None where the outcome has weight and is not known.

        Another part that is missing (no readable review, a team without peers, a single draft) gives its
        weight to those that are known: it is neither 0 nor a change of scale. None also where nothing with
        weight is known.
        """
        parts = {"task": task, "peer": peer, "coherence": coherence, "diversity": diversity}
        known = {name: part for name, part in parts.items() if part is not None}
        weight = sum(getattr(self, name) for name in known)
        if weight == 0 or (self.task > 0 and task is None):
            return None
        mix = sum(getattr(self, name) * part for name, part in known.items()) / weight
        penalty = 0.0 if valid else -self.format_penalty
        return Score(parts={**known, MIX: mix, FORMAT: penalty}, total=mix + penalty, verdict=verdict)


def diversity(texts: Sequence[str]) -> list[float | None]:
    """Distance of each of an agent's drafts to its others: the mean of 1 - |A & B|/|A | B|.

    A and B are sets of lower-case words. None for a single draft; two drafts without words are alike.
    """
    words = [frozenset(text.lower().split()) for text in texts]
    others = len(words) - 1
    return [
        sum(_distance(a, b) for j, b in enumerate(words) if j != i) / others if others else None
        for i, a in enumerate(words)
    ]


def select(scores: Sequence[float], valid: Sequence[bool]) -> int | None:
    """Index of the best valid draft (eq. 7), the lowest of equal ones; None where no draft is valid."""
    allowed = [index for index, ok in enumerate(valid) if ok]
    return max(allowed, key=lambda index: scores[index], default=None)


def _distance(a: frozenset[str], b: frozenset[str]) -> float:
    return 1 - len(a & b) / len(a | b) if a | b else 0.0
