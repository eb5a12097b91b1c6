"""The loop: tasks -> episodes -> scores -> credit -> update -> new adapter version, for one agent, resumable."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from seminar import rollout
from seminar.agents.agent import Team, stable_hash
from seminar.console import Console
from seminar.errors import DivergenceError
from seminar.learn import advantages
from seminar.learn.samples import from_groups
from seminar.models.policy import Policy
from seminar.protocols.base import Protocol
from seminar.rewards.base import Grader, Reward
from seminar.runlog import RunFolder
from seminar.stopping import StopRequest
from seminar.tasks.taskset import TaskSet
from seminar.train import checkpoint
from seminar.train.update import Learner, PolicyLoss, update
from seminar.types import Episode, Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything one agent needs to learn."""

    stage: str
    """Name of the stage, unique in the run: generator-0, critic-1."""
    team: Team
    """Holds the agent; speaks through the engine."""
    policy: Policy
    learner: Learner
    protocol: Protocol
    tasks: TaskSet
    rewards: Mapping[str, tuple[float, Reward]]
    """Part name -> (weight, reward)."""
    grader: Grader
    schemes: Mapping[str, advantages.Scheme]
    """Role -> credit scheme."""
    accuracy_weight: float
    loss: PolicyLoss
    prompts: int
    """Prompts of one step."""
    steps: int
    seed: int
    validate: Callable[[], float]
    """Accuracy of the agent's current adapter on the validation part."""
    validate_every: int
    max_failed_fraction: float
    episodes_every: int
    checkpoint_every: int


class Best(NamedTuple):
    """The adapter that is kept."""

    step: int
    """Steps after which it was taken; 0: the adapter training started from."""
    accuracy: float


def train(job: Job, *, run: RunFolder, console: Console, stop: StopRequest) -> Best | None:
    """Train one agent and leave its best adapter in the policy; None when a stop was asked for (state is saved)."""
    keeper = _Keeper(job, run=run)
    adapter = job.learner.adapter
    console.stage(job.stage, total=job.steps, done=keeper.step)
    for step in range(keeper.step, job.steps):
        began = perf_counter()
        tasks = job.tasks.batch(step, size=job.prompts, seed=job.seed)
        episodes = rollout.play(tasks, job.protocol, job.team, seed=(job.seed, stable_hash(job.stage), step))
        check_failures(episodes, limit=job.max_failed_fraction, where=f"stage {job.stage}, step {step}")
        sampled = perf_counter()
        groups = rollout.groups(episodes, rollout.verdicts(episodes, job.grader), job.rewards)
        credit = advantages.assign(groups, schemes=job.schemes, accuracy_weight=job.accuracy_weight)
        graded = perf_counter()
        metrics = update(
            job.policy,
            job.learner,
            from_groups(groups, credit),
            step=step,
            seed=stable_hash(f"{job.seed}/{job.stage}/{step}/dropout"),
            settings=job.loss,
        )
        job.policy.versions[adapter] = step + 1
        job.team.engine.load_adapter(adapter, version=step + 1)
        row = {"stage": job.stage, "step": step, **summary(groups), **metrics}
        if (step + 1) % job.validate_every == 0 or step + 1 == job.steps:
            row["validation"] = keeper.consider(step + 1)
        run.log_metrics(row)
        times = {
            "sample_s": sampled - began,
            "grade_s": graded - sampled,
            "update_s": perf_counter() - graded,
        }
        run.log_timings(
            {"stage": job.stage, "step": step, **times, "tokens_s": metrics["tokens"] / times["sample_s"]}
        )
        console.step(step + 1, row, tokens_s=metrics["tokens"] / times["sample_s"])
        if step % job.episodes_every == 0:
            rows = episode_rows(job.stage, step, groups, credit)
            run.log_episodes(rows)
            console.episode(rows[0])
        keeper.save_if_due(step + 1, force=stop.requested)
        if stop.requested:
            return None
    return keeper.finish()


def summary(groups: Sequence[Group]) -> dict[str, float]:
    """Means over the scored turns of a step: reward, its parts, accuracy, length; counts of what was left out."""
    scores = [score for group in groups for score in group.scores if score is not None]
    turns = [turn for group in groups for turn in group.turns]
    parts = {
        name: float(np.mean([s.parts[name] for s in scores])) for name in (scores[0].parts if scores else ())
    }
    flat = [len({score.total for score in group.scores if score is not None}) <= 1 for group in groups]
    return {
        "reward": _mean([s.total for s in scores]),
        "accuracy": _mean([float(s.verdict.correct) for s in scores if s.verdict is not None]),
        **{f"reward/{name}": value for name, value in parts.items()},
        "completion_tokens": _mean([len(turn.completion_ids) for turn in turns]),
        "truncated": _mean([float(turn.stop == "length") for turn in turns]),
        "flat_groups": _mean([float(f) for f in flat]),
        "unscored": float(len(turns) - len(scores)),
    }


def check_failures(episodes: Sequence[Episode], *, limit: float, where: str) -> None:
    """Stop when more than `limit` of the episodes failed; the first reason is in the message."""
    failed = [episode.failure for episode in episodes if episode.failure is not None]
    if failed and len(failed) > limit * len(episodes):
        raise DivergenceError(
            f"{where}: {len(failed)} of {len(episodes)} episodes failed, the first with {failed[0].type}: "
            f"{failed[0].text} max_failed_fraction allows {limit}."
        )


def episode_rows(
    stage: str, step: int, groups: Sequence[Group], credit: Sequence[np.ndarray]
) -> list[dict[str, Any]]:
    """One readable row a group: question, gold, baseline, and each sample with its parts, total and advantage."""
    return [
        {
            "stage": stage,
            "step": step,
            "task": group.task.id,
            "question": group.task.question,
            "gold": group.task.gold,
            "agent": group.agent,
            "role": group.role,
            "round": group.round,
            "adapter": group.turns[0].adapter,
            "adapter_version": group.turns[0].adapter_version,
            "baseline": group.baseline,
            "saw": group.turns[0].saw,
            "samples": [
                {
                    "text": turn.text,
                    "stop": turn.stop,
                    "tokens": len(turn.completion_ids),
                    "reason": score.verdict.reason if score and score.verdict else None,
                    "parts": dict(score.parts) if score else None,
                    "reward": score.total if score else None,
                    "advantage": None if np.isnan(value) else float(value),
                }
                for turn, score, value in zip(group.turns, group.scores, values, strict=True)
            ],
        }
        for group, values in zip(groups, credit, strict=True)
    ]


class _Keeper:
    """The state of one job: step, best adapter, checkpoints."""

    def __init__(self, job: Job, *, run: RunFolder) -> None:
        self.job = job
        self.run = run
        self.weights = job.learner.named
        state = checkpoint.resume(run, stage=job.stage, expect={job.learner.adapter: self.weights})
        if state is None:
            self.step = 0
            job.team.engine.load_adapter(job.learner.adapter, version=0)
            self.best = Best(step=0, accuracy=job.validate())
            self.best_weights = self._clone()
            return
        self.step = state.step
        self._put(state.adapters[job.learner.adapter])
        job.learner.restore(state.optimizer[job.learner.adapter])
        self.best = Best(**state.facts["best"])
        self.best_weights = dict(state.extra_tensors)
        job.policy.versions[job.learner.adapter] = self.step
        job.team.engine.load_adapter(job.learner.adapter, version=self.step)

    def consider(self, step: int) -> float:
        """Validate; keep the adapter if it is better than the best so far (ties keep the earlier one)."""
        accuracy = self.job.validate()
        if accuracy > self.best.accuracy:
            self.best = Best(step=step, accuracy=accuracy)
            self.best_weights = self._clone()
        return accuracy

    def save_if_due(self, step: int, *, force: bool) -> None:
        """Write a checkpoint every so many steps, or now."""
        if not force and step % self.job.checkpoint_every:
            return
        adapter = self.job.learner.adapter
        checkpoint.save(
            self.run,
            stage=self.job.stage,
            state=checkpoint.TrainState(
                step=step,
                adapters={adapter: self.weights},
                optimizer={adapter: self.job.learner.state()},
                extra_tensors=self.best_weights,
                facts={"best": self.best._asdict()},
            ),
        )

    def finish(self) -> Best:
        """Put the best adapter in place."""
        self._put(self.best_weights)
        self.job.policy.versions[self.job.learner.adapter] = self.best.step
        self.job.team.engine.load_adapter(self.job.learner.adapter, version=self.best.step)
        return self.best

    def _clone(self) -> dict[str, Any]:
        return {name: tensor.detach().clone() for name, tensor in self.weights.items()}

    def _put(self, weights: Mapping[str, Any]) -> None:
        for name, tensor in self.weights.items():
            tensor.data.copy_(weights[name])


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")
