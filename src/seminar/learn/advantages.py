"""Groups of scored turns -> one advantage a turn. Pure numpy; like is compared with like (agent, prompt).

| scheme | advantage of sample i | source |
|---|---|---|
| group | (R_i - mean R) / (std R + 1e-4) | Shao et al. 2024, GRPO |
| group_no_std | R_i - mean R | Liu et al. 2025, Dr. GRPO |
| leave_one_out | R_i - mean of the others | Ahmadian et al. 2024, RLOO |
| counterfactual | R_i - w * acc_G | MADA-RL (arXiv 2607.18006), section 3.3 |
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from seminar.types import Group

Scheme = Literal["group", "group_no_std", "leave_one_out", "counterfactual"]
STD_FLOOR = 1e-4
"""Added to the group's standard deviation (methods.md 1.2)."""


def assign(
    groups: Sequence[Group], *, schemes: Mapping[str, Scheme], accuracy_weight: float = 2.0
) -> list[NDArray[np.float64]]:
    """One array a group, one number a turn; NaN where the turn has no score.

    `schemes` maps a role to its scheme; `accuracy_weight` is the weight of the accuracy part in the reward,
    so that the counterfactual baseline is on its scale: A_C = R - 2 * acc_G = 2 (R_acc - acc_G) + R_len.
    """
    return [
        advantages(
            [np.nan if score is None else score.total for score in group.scores],
            scheme=schemes[group.role],
            baseline=None if group.baseline is None else accuracy_weight * group.baseline,
        )
        for group in groups
    ]


def advantages(
    rewards: Sequence[float] | NDArray[np.float64], *, scheme: Scheme, baseline: float | None = None
) -> NDArray[np.float64]:
    """Advantages of one group. NaN rewards (no score) stay NaN and take no part in mean or deviation.

    The standard deviation has N - 1 in the denominator and is taken in two passes, so equal rewards give
    exactly 0; a group with fewer than two scores has no group baseline and gives 0.
    """
    R: NDArray[np.float64] = np.asarray(rewards, dtype=np.float64)
    known = ~np.isnan(R)
    count = int(known.sum())
    if scheme == "counterfactual":
        if baseline is None:
            raise ValueError("a counterfactual advantage needs the group's baseline (acc_G)")
        return R - baseline
    if count < 2:
        return np.where(known, 0.0, np.nan)
    mean = float(R[known].mean())
    if R[known].max() == R[known].min():
        return np.where(known, 0.0, np.nan)
    if scheme == "leave_one_out":
        return R - (float(R[known].sum()) - R) / (count - 1)
    if scheme == "group_no_std":
        return R - mean
    return (R - mean) / (float(R[known].std(ddof=1)) + STD_FLOOR)
