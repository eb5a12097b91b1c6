"""A job -> our own runs of it: engine, grader, advantages and update as training uses them.

python -m seminar.bench.ours, with a job on standard input (see pipe.py).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from seminar.bench import scenarios
from seminar.bench.pipe import Clock, Pipe
from seminar.bench.scenarios import Job
from seminar.engines.hf import HfEngine
from seminar.learn.advantages import advantages
from seminar.learn.samples import pack
from seminar.models.policy import Policy, load_policy
from seminar.rewards.verify import Graders
from seminar.train.update import Learner, PolicyLoss, Schedule, update
from seminar.types import Batch, Completion, Request, Sample, Task

MAX_TOKENS = 16_384
"""Most tokens of one packed batch: the default of recipes."""


class Bench:
    """The library set up for one job."""

    def __init__(self, job: Job) -> None:
        """Load the model and give each agent an adapter that already changes the output a little."""
        self.job = job
        s = self.scenario = job.scenario
        self.policy = load_policy(job.model, dtype=getattr(torch, job.dtype), device=job.device)
        self.policy.eos_ids = frozenset()  # every completion gets all its tokens
        self.names = [f"agent-{index}" for index in range(s.agents)]
        for index, name in enumerate(self.names):
            add_adapter(self.policy, name, seed=index)
        Path(job.adapter).mkdir(exist_ok=True)
        self.policy.save(self.names[0], Path(job.adapter))
        self.engine = HfEngine(self.policy)
        self.learners = [Learner(self.policy, n, schedule=SCHEDULE, max_grad_norm=1.0) for n in self.names]
        self.graders = Graders()
        self.tasks = [
            Task(id=str(i), question=prompt.text, gold=str(i)) for i, prompt in enumerate(job.prompts)
        ]
        self.version = 0
        self._serve()

    def step(self, clock: Clock) -> float:
        """One optimizer step of each agent, sampling included; its seconds."""
        s = self.scenario
        self._time_prefill(clock)
        began = clock.now()
        completions = self._sample(s.new_tokens)
        sampled = clock.now()
        clock.add("decode", sampled - began - clock.seconds["prefill"], tokens=s.written)
        with clock.phase("grading", tokens=s.written):
            samples = self._learn_from(completions)
        graded = clock.now()
        with _watching(self.policy, clock):
            for learner in self.learners:
                mine = [sample for sample in samples if sample.agent == learner.adapter]
                update(
                    self.policy, learner, mine, step=0, seed=self.version, settings=loss(s.beta, s.new_tokens)
                )
        self.version += 1
        self._serve()
        ended = clock.now()
        passes = clock.seconds["forward"] + clock.seconds.get("reference", 0.0)
        clock.add("backward", ended - graded - passes, tokens=clock.tokens["forward"])
        return ended - began

    def sample(self, clock: Clock) -> float:
        """All completions, nothing else; seconds."""
        s = self.scenario
        self._time_prefill(clock)
        began = clock.now()
        self._sample(s.new_tokens)
        seconds = clock.now() - began
        clock.add("decode", seconds - clock.seconds["prefill"], tokens=s.written)
        return seconds

    def score(self, clock: Clock) -> float:
        """Log-probabilities of given completions, without gradients; seconds."""
        batches = pack(self._given(), max_tokens=MAX_TOKENS)
        with torch.no_grad(), self.policy.active(self.names[0]):
            for batch in batches:
                with clock.phase("forward", tokens=len(batch.ids_N)):
                    self.policy.logprobs(batch)
        return clock.seconds["forward"]

    def _serve(self) -> None:
        for name in self.names:
            self.policy.versions[name] = self.version
            self.engine.load_adapter(name, version=self.version)

    def _time_prefill(self, clock: Clock) -> None:
        """Ask for one token: what that takes is the prefill. Stands outside the run's own time."""
        s = self.scenario
        with clock.phase("prefill", tokens=s.agents * s.prompts * s.prompt_tokens):
            self._sample(1)

    def _sample(self, new_tokens: int) -> list[list[Completion]]:
        """One list a (prompt, agent), prompts outermost."""
        s = self.scenario
        return self.engine.generate(
            [
                Request(
                    adapter=name,
                    prompt_ids=tuple(prompt.ids),
                    samples=s.group,
                    temperature=1.0,
                    top_p=1.0,
                    max_tokens=new_tokens,
                    seeds=tuple((self.version, place, agent, k) for k in range(s.group)),
                )
                for place, prompt in enumerate(self.job.prompts)
                for agent, name in enumerate(self.names)
            ]
        )

    def _learn_from(self, completions: Sequence[Sequence[Completion]]) -> list[Sample]:
        """Grade as training does; rewards are the bench's own, so that no group is flat."""
        asked = [(task, name) for task in self.tasks for name in self.names]
        texts = [self.policy.tokenizer.batch_decode([list(c.ids) for c in group]) for group in completions]
        self.graders.grade(
            [
                (task, text, completion.stop)
                for (task, _), group, row in zip(asked, completions, texts, strict=True)
                for completion, text in zip(group, row, strict=True)
            ]
        )
        samples = []
        for (task, name), group, row in zip(asked, completions, texts, strict=True):
            credit = advantages([scenarios.reward(text) for text in row], scheme="group")
            prompt = tuple(self.job.prompts[int(task.id)].ids)
            samples += [
                Sample(
                    agent=name,
                    prompt_ids=prompt,
                    completion_ids=completion.ids,
                    temperature=1.0,
                    advantages=(float(value),) * len(completion.ids),
                    engine_logprobs=completion.logprobs,
                )
                for completion, value in zip(group, credit, strict=True)
            ]
        return samples

    def _given(self) -> list[Sample]:
        s = self.scenario
        ids = scenarios.given_ids(self.policy.config.vocab_size, rows=s.rows, tokens=s.new_tokens)
        return [
            Sample(
                agent=self.names[0],
                prompt_ids=tuple(prompt.ids),
                completion_ids=tuple(row),
                temperature=1.0,
                advantages=(0.0,) * s.new_tokens,
            )
            for prompt, row in zip(self.job.prompts, ids, strict=True)
        ]


SCHEDULE = Schedule(lr=scenarios.LR, steps=1_000_000, warmup=0.0, floor=1.0)


def add_adapter(policy: Policy, name: str, *, seed: int) -> None:
    """Put an adapter on the base whose B is small but not 0, so that no shortcut for blank ones can help."""
    policy.add(
        name,
        rank=scenarios.RANK,
        alpha=scenarios.ALPHA,
        dropout=0.0,
        targets=scenarios.TARGETS,
        seed=(seed,),
    )
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for pair in policy.adapter(name).values():
            pair.B.copy_(torch.from_numpy(rng.normal(scale=1e-3, size=pair.B.shape)))


def loss(beta: float, new_tokens: int) -> PolicyLoss:
    """GRPO as TRL's side runs it; no limit on the gap, which the dtype decides."""
    return PolicyLoss(
        loss="grpo",
        clip_low=scenarios.CLIP,
        clip_high=scenarios.CLIP,
        beta=beta,
        reference=None,
        max_completion=new_tokens,
        max_tokens=MAX_TOKENS,
        max_gap=float("inf"),
    )


@contextmanager
def _watching(policy: Policy, clock: Clock) -> Iterator[None]:
    """Time scoring from outside: `forward` with gradients, `reference` without (the gap's pass too)."""
    plain: Callable[..., torch.Tensor] = policy.logprobs

    def timed(batch: Batch, **options: Any) -> torch.Tensor:
        name = "forward" if torch.is_grad_enabled() else "reference"
        with clock.phase(name, tokens=len(batch.ids_N)):
            return plain(batch, **options)

    policy.logprobs = timed  # type: ignore[method-assign]
    try:
        yield
    finally:
        del policy.logprobs


def main() -> None:
    """Serve the bench's parent."""
    pipe = Pipe()
    bench = Bench(pipe.job)
    runs = {"step": bench.step, "sample": bench.sample, "score": bench.score}
    pipe.serve(runs[pipe.job.scenario.kind])
    bench.graders.close()


if __name__ == "__main__":
    main()
