"""A stage of a run and what it does -> done once, its adapters on disk, in the policy and in the engine."""

from collections.abc import Callable, Sequence
from typing import Any

from seminar import build
from seminar.agents.agent import stable_hash
from seminar.atomic import atomic_dir
from seminar.config import Config
from seminar.console import Console
from seminar.runlog import RunFolder
from seminar.stopping import StopRequest
from seminar.tasks.taskset import TaskSet
from seminar.train.imitation import imitate_all
from seminar.train.update import Learner, Schedule
from seminar.types import Sample

WARMUP = "warmup"
"""Adapter that imitation makes and that agents then start from, and its stage."""

Work = Callable[[], dict[str, Any] | None]
"""Does a stage and returns facts of it; None when a stop was asked for."""


def stage(
    run: RunFolder,
    world: build.World,
    name: str,
    work: Work,
    *,
    stop: StopRequest,
    adapters: Sequence[str] = (),
) -> bool:
    """Do a stage unless it is done, and save the `adapters` it makes; False when a stop was asked for.

    After it, in this process or a later one, its adapters speak under the versions they had at its end.
    """
    if run.stage_done(name):
        build.load_adapters(run, world, name)
        return True
    facts = None if stop.requested else work()
    if facts is None:
        return False
    for adapter in adapters:
        with atomic_dir(run.adapter(adapter)) as folder:
            world.policy.save(adapter, folder)
        world.engine.load_adapter(adapter, version=world.policy.versions[adapter])
    run.mark_done(name, {**facts, "adapters": {a: world.policy.versions[a] for a in adapters}})
    return True


def warm_up(
    config: Config,
    world: build.World,
    examples: Sequence[Sample],
    *,
    run: RunFolder,
    console: Console,
    stop: StopRequest,
) -> dict[str, Any] | None:
    """The work of the stage that makes the adapter `warmup` by imitating `examples`."""
    warmup = config.warmup
    assert warmup is not None, "without warmup there is no such stage"
    run.rewind(WARMUP)
    build.add_adapter(world.policy, WARMUP, config.lora, seed=(config.seed, stable_hash(WARMUP)))
    schedule = Schedule(lr=warmup.lr, steps=warmup.steps, warmup=0.1, floor=0.1)
    finished = imitate_all(
        world.policy,
        Learner(world.policy, WARMUP, schedule=schedule, max_grad_norm=1.0),
        examples,
        stage=WARMUP,
        steps=warmup.steps,
        batch=warmup.batch,
        seed=config.seed,
        max_tokens=config.update.max_tokens,
        run=run,
        console=console,
        stop=stop,
    )
    return {} if finished else None


def training_tasks(config: Config, console: Console) -> TaskSet:
    """The training tasks; how many were left out, and why the first, is said."""
    tasks = build.training_tasks(config)
    if tasks.dropped:
        id, reason = tasks.dropped[0]
        console.note(f"{len(tasks.dropped)} training tasks are left out, the first: {id}, {reason}.")
    return tasks
