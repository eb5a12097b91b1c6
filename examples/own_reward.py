"""A reward of your own: a function (task, turns, verdicts) -> a number a turn; None: cannot tell."""

import tempfile
from collections.abc import Sequence

from seminar.config_mada import Training
from seminar.methods import grpo
from seminar.rewards.length import accuracy
from seminar.settings import Base
from seminar.tasks import generated
from seminar.types import Task, Turn, Verdict


def brevity(task: Task, turns: Sequence[Turn], verdicts: Sequence[Verdict]) -> list[float | None]:
    """1 for an empty answer, 0 for one of 40 tokens."""
    return [1 - len(turn.completion_ids) / 40 for turn in turns]


trained = grpo.train(
    generated.problems("arithmetic", count=100, seed=0, split="train"),
    out=tempfile.mkdtemp(),
    base=Base(model="tiny", threads=1),
    training=Training(steps=4, batch=32, group=8, temperature=1.0, lr=3e-3, beta=0.0, validate_every=2),
    rewards={"accuracy": (1.0, accuracy), "brevity": (0.5, brevity)},
    max_tokens=40,
)
print(f"kept step {trained.best.step}: mean reward {trained.best.accuracy:.3f} on held-out tasks")
