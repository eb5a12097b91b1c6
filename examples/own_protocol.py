"""A protocol of your own: a class whose method `play` yields what it asks and receives the turns."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from seminar.config_mada import Training
from seminar.methods import grpo
from seminar.protocols.base import Play
from seminar.settings import Base
from seminar.tasks import generated
from seminar.types import Ask, Message, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """The first agent answers once; the second sees that answer and replies `samples` times."""

    agents: Sequence[str]
    samples: int

    def play(self, task: Task, *, seed: tuple[int, ...]) -> Play:
        """Play one task."""
        first, second = self.agents
        question: Message = {"role": "user", "content": task.question}
        [[draft]] = yield [Ask(agent=first, role="drafter", round=0, messages=(question,))]
        shown: Message = {"role": "user", "content": f"{task.question}\nA1: {draft.text[-8:]}"}
        yield [
            Ask(
                agent=second,
                role="editor",
                round=1,
                messages=(shown,),
                samples=self.samples,
                saw=(draft.key,),
            )
        ]


pair = ("drafter", "editor")
trained = grpo.train(
    generated.problems("arithmetic", count=100, seed=0, split="train"),
    out=tempfile.mkdtemp(),
    base=Base(model="tiny", threads=1),
    training=Training(steps=3, batch=32, group=8, temperature=1.0, lr=3e-3, beta=0.0, validate_every=3),
    protocol=Relay(agents=pair, samples=8),
    agents=pair,
    max_tokens=40,
)
print(f"kept step {trained.best.step}: mean reward {trained.best.accuracy:.3f} on held-out tasks")
