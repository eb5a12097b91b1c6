"""Values and one terminal reward of a draft -> advantages and value targets by token. Pure numpy, float64.

Generalised advantage estimation (Schulman et al. 2016, arXiv 1506.02438, eq. 16) over a completion's units:

    delta_u = r_u + gamma * V_(u+1) - V_u      r_u is the reward at the last unit, 0 before; V behind it is 0
    A_u     = delta_u + gamma * lam * A_(u+1)
    target  = A_u + V_u

A unit is a token or a Chain-of-Draft step (DRAFT-RL leaves it open). Over tokens, gamma .99 shrinks a reward
80 tokens away to .45; over steps it hardly shrinks.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Credit(NamedTuple):
    """What one completion of T tokens learns from."""

    advantages_T: NDArray[np.float64]
    """The advantage of a unit, on each of its tokens."""
    targets_T: NDArray[np.float64]
    """What the value head should say before the token; NaN where it is not asked: inside a unit."""


def gae(
    values_T: Sequence[float] | NDArray[np.floating],
    *,
    reward: float,
    units_T: Sequence[int] | NDArray[np.integer] | None = None,
    gamma: float = 0.99,
    lam: float = 0.95,
) -> Credit:
    """Credit of one completion whose only reward comes with its last token.

    `values_T[t]` is the value head's estimate of the state before token t is written (the hidden state that
    predicts token t). `units_T` numbers the unit of each token, never falling; None: every token is a unit. A
    unit acts in the state before its first token, so that token's value counts and no other. A draft cut by
    the token limit ends as any other: the limit is part of the task and its reward is final, so nothing is
    estimated beyond the cut. The unit under way at the cut is its last one. No tokens give no credit.
    """
    values = np.asarray(values_T, dtype=np.float64)
    units = np.arange(len(values)) if units_T is None else np.asarray(units_T)
    assert units.shape == values.shape, f"{units.shape} units for {values.shape} values"
    steps = np.diff(units)
    assert (steps >= 0).all(), "units must not fall along the tokens"
    first_U = np.flatnonzero(np.concatenate(([True], steps > 0)))[: len(values)]
    V = np.append(values[first_U], 0.0)
    rewards = np.zeros(len(first_U))
    rewards[-1:] = reward
    deltas = rewards + gamma * V[1:] - V[:-1]
    advantages = np.zeros(len(first_U))
    carry = 0.0
    for u in range(len(first_U) - 1, -1, -1):
        carry = deltas[u] + gamma * lam * carry
        advantages[u] = carry
    targets = np.full(len(values), np.nan)
    targets[first_U] = advantages + V[:-1]
    return Credit(np.repeat(advantages, np.diff(np.append(first_U, len(values)))), targets)


def units_of(
    token_spans: Sequence[tuple[int, int]], step_spans: Sequence[tuple[int, int]]
) -> NDArray[np.int64]:
    """The number of the step in which each token begins, never falling.

    Both are spans of characters in one text; `step_spans` tile it (`tasks.draft_form.step_spans`). A token
    without text of its own (end of sequence, part of a character) begins where it stands; behind the text it
    belongs to the last step. Without steps there is one unit.
    """
    starts = np.array([start for start, _ in step_spans[1:]], dtype=np.int64)
    begins = np.array([start for start, _ in token_spans], dtype=np.int64)
    return np.maximum.accumulate(np.searchsorted(starts, begins, side="right").astype(np.int64))
