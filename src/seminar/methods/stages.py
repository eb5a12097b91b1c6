"""A stage of a run and what it does -> done once, its adapters on disk, in the policy and in the engine."""

from collections.abc import Callable, Sequence
from typing import Any

from seminar import build
from seminar.atomic import atomic_dir
from seminar.runlog import RunFolder

Work = Callable[[], dict[str, Any] | None]
"""Does a stage and returns facts of it; None when a stop was asked for."""


def stage(run: RunFolder, world: build.World, name: str, work: Work, *, adapters: Sequence[str] = ()) -> bool:
    """Do a stage unless it is done, and save the `adapters` it makes; False when a stop was asked for.

    After it, in this process or a later one, its adapters speak under the versions they had at its end.
    """
    if run.stage_done(name):
        load_adapters(run, world, name)
        return True
    facts = work()
    if facts is None:
        return False
    for adapter in adapters:
        with atomic_dir(run.adapter(adapter)) as folder:
            world.policy.save(adapter, folder)
        world.engine.load_adapter(adapter, version=world.policy.versions[adapter])
    run.mark_done(name, {**facts, "adapters": {a: world.policy.versions[a] for a in adapters}})
    return True


def load_adapters(run: RunFolder, world: build.World, name: str) -> None:
    """Put the adapters of a finished stage into the policy and the engine."""
    for adapter, version in run.stage_facts(name)["adapters"].items():
        world.policy.load(adapter, run.adapter(adapter))
        world.policy.versions[adapter] = version
        world.engine.load_adapter(adapter, version=version)
