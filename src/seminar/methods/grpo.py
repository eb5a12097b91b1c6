"""Tasks, protocol, rewards and base -> agents trained by GRPO, an adapter each: the door for own parts."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from seminar import build, rollout
from seminar.agents.agent import Team, stable_hash
from seminar.atomic import atomic_dir
from seminar.config_mada import Sampling, Training
from seminar.console import Console
from seminar.errors import RunError
from seminar.learn import advantages
from seminar.learn.samples import from_groups
from seminar.models.policy import Policy
from seminar.protocols.base import Protocol, Solo
from seminar.rewards.base import Reward
from seminar.rewards.length import accuracy
from seminar.runlog import RunFolder
from seminar.settings import Base, Lora, Update
from seminar.stopping import StopRequest
from seminar.tasks.taskset import TaskSet
from seminar.train import trainer
from seminar.train.update import Learner, PolicyLoss, update
from seminar.types import Episode, Group, Task

STAGE = "grpo"

Rewards = Mapping[str, tuple[float, Reward]]
"""Name of a part -> (weight, reward)."""


class Trained(NamedTuple):
    """What training leaves; adapters, metrics and episodes lie in the run folder too."""

    team: Team
    best: trainer.Best
    """The step that was kept and its mean reward on the validation tasks."""


def train(
    tasks: Iterable[Task],
    *,
    out: str | Path,
    base: Base,
    training: Training,
    rewards: Rewards | None = None,
    protocol: Protocol | None = None,
    agents: Sequence[str] = ("solver",),
    lora: Lora | None = None,
    validation: int = 16,
    max_tokens: int = 256,
    max_prompt_tokens: int = 1024,
    seed: int = 0,
    quiet: bool = True,
) -> Trained:
    """Train `agents` together under `protocol`; turns of one agent on one prompt are a group.

    Without `protocol` the first agent answers `training.group` times; without `rewards` right answers earn 1.
    The adapters with the best mean reward on `validation` held-out tasks are kept. Credit is
    `training.advantage`, the same for every role. Raises ConfigError, DataError, ModelError; RunError: `out`
    is in use, or Ctrl-C asked for a stop (this door cannot go on with a stopped run).
    """
    parts = TaskSet(name="tasks", tasks=tuple(tasks)).split(1, validation=validation, seed=seed)
    held_out = parts.validation
    assert held_out is not None, "validation is at least 1"
    world = build.world(base, code=any(task.domain == "code" for task in parts.parts[0].tasks))
    lora = lora or Lora()
    for name in agents:
        build.add_adapter(world.policy, name, lora, seed=(seed, stable_hash(name)))
    steps = training.steps or round(training.epochs * len(parts.parts[0].tasks) / training.prompts)
    learners = [build.learner(world.policy, name, training, steps=steps) for name in agents]
    team = build.team(
        world,
        {name: name for name in agents},
        sampling=Sampling(temperature=training.temperature),
        max_tokens=max_tokens,
        max_prompt=max_prompt_tokens,
    )
    protocol = protocol or Solo(agent=agents[0], samples=training.group)
    score = partial(_score, world=world, rewards=rewards or {"accuracy": (1.0, accuracy)})
    loss = _loss(training, max_tokens)

    def learn(step: int, episodes: Sequence[Episode]) -> trainer.Learned:
        groups = score(episodes)
        credit = advantages.assign(groups, schemes={g.role: training.advantage for g in groups})
        metrics = trainer.summary(groups)
        for learner in learners:
            mine = [(g, c) for g, c in zip(groups, credit, strict=True) if g.agent == learner.adapter]
            metrics |= _update(
                world.policy, learner, mine, step=step, seed=seed, loss=loss, alone=len(learners) == 1
            )
        return trainer.Learned(metrics, trainer.episode_rows(STAGE, step, groups, credit))

    def validate() -> float:
        episodes = rollout.play(held_out.tasks, protocol, team, seed=(seed, stable_hash("validation")))
        totals = [s.total for group in score(episodes) for s in group.scores if s is not None]
        return float(np.mean(totals)) if totals else float("-inf")

    job = trainer.Job(
        stage=STAGE,
        team=team,
        policy=world.policy,
        learners=learners,
        protocol=protocol,
        tasks=parts.parts[0],
        learn=learn,
        prompts=training.prompts,
        steps=steps,
        seed=seed,
        validate=validate,
        validate_every=training.validate_every,
        max_failed_fraction=0.1,
        episodes_every=10,
        checkpoint_every=25,
    )
    config = {
        "method": STAGE,
        "base": base.model_dump(),
        "training": training.model_dump(),
        "lora": lora.model_dump(),
    }
    with (
        world.grader,
        RunFolder.create(Path(out), config=config, facts={"seed": seed}) as run,
        Console(quiet=quiet) as console,
        StopRequest(say=console.note) as stop,
    ):
        best = trainer.train(job, run=run, console=console, stop=stop)
        if best is None:
            raise RunError(
                f"{out}: stopped before the end. Its checkpoints are there; start again in another folder."
            )
        for name in agents:
            with atomic_dir(run.adapter(name)) as folder:
                world.policy.save(name, folder)
        run.mark_done(STAGE, best._asdict())
    return Trained(team=team, best=best)


def _score(episodes: Sequence[Episode], *, world: build.World, rewards: Rewards) -> list[Group]:
    return rollout.groups(episodes, rollout.verdicts(episodes, world.grader), rewards)


def _loss(training: Training, max_tokens: int) -> PolicyLoss:
    settings = Update()
    return PolicyLoss(
        loss=training.loss,
        clip_low=training.clip,
        clip_high=training.clip if training.clip_high is None else training.clip_high,
        beta=training.beta,
        reference=None,
        max_completion=max_tokens,
        max_tokens=settings.max_tokens,
        max_gap=settings.max_gap,
    )


def _update(
    policy: Policy,
    learner: Learner,
    mine: Sequence[tuple[Group, np.ndarray]],
    *,
    step: int,
    seed: int,
    loss: PolicyLoss,
    alone: bool,
) -> dict[str, float]:
    """One step of one agent on its own turns; metrics carry its name unless it is the only one."""
    samples = from_groups([group for group, _ in mine], [credit for _, credit in mine])
    if not samples:
        return {} if alone else {f"{learner.adapter}/samples": 0.0}
    key = stable_hash(f"{seed}/{learner.adapter}/{step}/dropout")
    metrics = update(policy, learner, samples, step=step, seed=key, settings=loss)
    return metrics if alone else {f"{learner.adapter}/{name}": value for name, value in metrics.items()}
