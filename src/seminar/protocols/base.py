"""The door of the protocols: a task in, requests to agents out and their turns back in, until the episode
ends."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol as Interface

from seminar.tasks.statement import statement
from seminar.types import Ask, Message, Task, Turn

Play = Generator[Sequence[Ask], list[list[Turn]], None]
"""Yields what it asks in this round; receives, one list an ask, the turns that answer it."""


class Protocol(Interface):
    """How a team works on one task: a generator with plain loops.

    The rollout drives many tasks' generators side by side and joins what they ask into one call of the
    engine, so a protocol never sees a batch and never calls a model. Every turn it receives is kept in the
    episode.
    """

    def play(self, task: Task, *, seed: tuple[int, ...]) -> Play:
        """Play one task. `seed` is the key from which all of the protocol's own randomness derives."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Solo:
    """One agent answers a prompt, `samples` times: the protocol under which a single agent trains (GRPO)."""

    agent: str
    role: str = "solver"
    samples: int = 1
    prefix: str = ""
    """Instruction put before the question."""

    def play(self, task: Task, *, seed: tuple[int, ...]) -> Play:
        """Ask the agent once for `samples` completions."""
        message: Message = {"role": "user", "content": self.prefix + statement(task)}
        yield [Ask(agent=self.agent, role=self.role, round=0, messages=(message,), samples=self.samples)]
