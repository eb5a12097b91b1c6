"""The loop of every method: tasks -> episodes -> what they teach -> new adapter versions, resumable."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np
from torch import Tensor

from seminar import rollout
from seminar.agents.agent import Team, stable_hash
from seminar.console import Console
from seminar.errors import DivergenceError
from seminar.models.policy import Policy
from seminar.protocols.base import Protocol as TeamProtocol
from seminar.runlog import RunFolder
from seminar.stopping import StopRequest
from seminar.tasks.taskset import TaskSet
from seminar.train import checkpoint
from seminar.train.update import Learner
from seminar.types import Episode, Group


class Learned(NamedTuple):
    """What one step taught."""

    metrics: dict[str, float]
    """`tokens` among them: trained tokens."""
    rows: list[dict[str, Any]]
    """The step's episodes as rows that a person can read."""


class Companion(Protocol):
    """What learns beside the adapters (value heads, a reward model) and must come back after a kill."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and JSON-able facts."""
        ...

    def restore(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Go on where `state` left off, bit for bit."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything one stage of learning needs; its learners are the agents that learn in it."""

    stage: str
    """Name of the stage, unique in the run: generator-0, critic-1, team."""
    team: Team
    policy: Policy
    learners: Sequence[Learner]
    protocol: TeamProtocol
    tasks: TaskSet
    learn: Callable[[int, Sequence[Episode]], Learned]
    """(step, episodes) -> scores, credit and one update of every learner: the part in which methods differ.
    """
    prompts: int
    """Tasks of one step."""
    steps: int
    seed: int
    validate: Callable[[], float]
    """Accuracy of the current adapters on the validation part."""
    validate_every: int
    max_failed_fraction: float
    episodes_every: int
    checkpoint_every: int
    companion: Companion | None = None


class Best(NamedTuple):
    """What is kept."""

    step: int
    """Steps after which it was taken; 0: what training started from."""
    accuracy: float


def train(job: Job, *, run: RunFolder, console: Console, stop: StopRequest) -> Best | None:
    """Train a stage and leave its best adapters in the policy; None when a stop was asked for (state is
    saved)."""
    keeper = _Keeper(job, run=run)
    console.stage(job.stage, total=job.steps, done=keeper.step)
    for step in range(keeper.step, job.steps):
        began = perf_counter()
        tasks = job.tasks.batch(step, size=job.prompts, seed=job.seed)
        seed = (job.seed, stable_hash(job.stage), step)
        episodes = rollout.play(tasks, job.protocol, job.team, seed=seed)
        check_failures(episodes, limit=job.max_failed_fraction, where=f"stage {job.stage}, step {step}")
        sampled = perf_counter()
        metrics, rows = job.learn(step, episodes)
        learned = perf_counter()
        keeper.serve(step + 1)
        row = {"stage": job.stage, "step": step, **metrics}
        if (step + 1) % job.validate_every == 0 or step + 1 == job.steps:
            row["validation"] = keeper.consider(step + 1)
        run.log_metrics(row)
        rate = sum(len(turn.completion_ids) for e in episodes for turn in e.turns) / (sampled - began)
        times = {"sample_s": sampled - began, "learn_s": learned - sampled, "tokens_s": rate}
        run.log_timings({"stage": job.stage, "step": step, **times})
        console.step(step + 1, row, tokens_s=rate)
        if step % job.episodes_every == 0:
            run.log_episodes(rows)
            console.episode(rows[0])
        keeper.save_if_due(step + 1, force=stop.requested)
        if stop.requested:
            return None
    return keeper.finish()


def summary(groups: Sequence[Group]) -> dict[str, float]:
    """Means over the scored turns of a step: reward, its parts, accuracy, length; counts of what was left
    out."""
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
    """One readable row a group: question, gold, baseline, and each sample with its parts, total and
    advantage."""
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
    """The state of one job: step, best adapters, checkpoints."""

    def __init__(self, job: Job, *, run: RunFolder) -> None:
        self.job = job
        self.run = run
        self.weights = {learner.adapter: learner.named for learner in job.learners}
        state = checkpoint.resume(run, stage=job.stage, expect=self.weights)
        if state is None:
            self.step = 0
            self.serve(0)
            self.best = Best(step=0, accuracy=job.validate())
            self.best_state = self._snapshot()
            return
        self.step = state.step
        self._put(state.adapters)
        for learner in job.learners:
            learner.restore(state.optimizer[learner.adapter])
        self.best = Best(**state.facts["best"])
        best, companion = _unflatten(state.extra_tensors)
        self.best_state = best, state.facts["best_companion"]
        if job.companion is not None:
            job.companion.restore(companion, state.facts["companion"])
        self.serve(self.step)

    def serve(self, version: int) -> None:
        """Let the engine speak with the adapters as they are now."""
        for name in self.weights:
            self.job.policy.versions[name] = version
            self.job.team.engine.load_adapter(name, version=version)

    def consider(self, step: int) -> float:
        """Validate; keep the adapters if they are better than the best so far (ties keep the earlier
        ones)."""
        accuracy = self.job.validate()
        if accuracy > self.best.accuracy:
            self.best = Best(step=step, accuracy=accuracy)
            self.best_state = self._snapshot()
        return accuracy

    def save_if_due(self, step: int, *, force: bool) -> None:
        """Write a checkpoint every so many steps, or now."""
        if not force and step % self.job.checkpoint_every:
            return
        tensors, facts = ({}, {}) if self.job.companion is None else self.job.companion.state()
        best, best_facts = self.best_state
        state = checkpoint.TrainState(
            step=step,
            adapters=self.weights,
            optimizer={learner.adapter: learner.state() for learner in self.job.learners},
            extra_tensors=_flatten(best, tensors),
            facts={"best": self.best._asdict(), "best_companion": best_facts, "companion": facts},
        )
        checkpoint.save(self.run, stage=self.job.stage, state=state)

    def finish(self) -> Best:
        """Put the best adapters, and what learned beside them, in place."""
        tensors, facts = self.best_state
        self._put({name: _under(tensors, f"{name}/") for name in self.weights})
        if self.job.companion is not None:
            self.job.companion.restore(_under(tensors, "companion/"), facts)
        self.serve(self.best.step)
        return self.best

    def _snapshot(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {f"{name}/{key}": t for name, named in self.weights.items() for key, t in named.items()}
        facts: dict[str, Any] = {}
        if self.job.companion is not None:
            more, facts = self.job.companion.state()
            tensors |= {f"companion/{key}": tensor for key, tensor in more.items()}
        return {key: tensor.detach().clone() for key, tensor in tensors.items()}, facts

    def _put(self, adapters: Mapping[str, Mapping[str, Tensor]]) -> None:
        for name, named in self.weights.items():
            for key, tensor in named.items():
                tensor.data.copy_(adapters[name][key])


def _flatten(best: Mapping[str, Tensor], companion: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"best/{k}": t for k, t in best.items()} | {f"now/{k}": t for k, t in companion.items()}


def _unflatten(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    return _under(tensors, "best/"), _under(tensors, "now/")


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): t for key, t in tensors.items() if key.startswith(prefix)}


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")
