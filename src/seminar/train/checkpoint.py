"""The state of a stage in, a checkpoint out that is complete or absent, and back bit for bit. No pickle."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from seminar.atomic import atomic_dir, remove_dir
from seminar.errors import RunError
from seminar.manifest import read_json, to_json
from seminar.runlog import RunFolder

Tensors = Mapping[str, Tensor]

_FOLDER = re.compile(r"step-(\d{8})")
_KEPT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainState:
    """All that a stage needs to go on. Random numbers are absent: they derive from (run seed, step, ...)."""

    step: int
    """Completed steps; the next step has this 0-based index."""
    adapters: dict[str, dict[str, Tensor]]
    """Adapter name -> its trained tensors by parameter name."""
    optimizer: dict[str, dict[str, Tensor]]
    """Adapter name -> its optimizer's tensors (moments, step count) by name; empty before the first step."""
    extra_tensors: dict[str, Tensor]
    """Other tensors by name (the best adapter so far, a value head, ...)."""
    facts: dict[str, Any]
    """JSON-able counters and best-so-far values; floats come back exactly."""


def save(run: RunFolder, *, stage: str, state: TrainState) -> Path:
    """Write a checkpoint with the logs' positions, then drop all but the last two.

    Raises RunError: full disk, no permission; nothing of the new checkpoint is then left.
    """
    path = _folder(run, stage, state.step)
    facts = {
        "stage": stage,
        "step": state.step,
        "positions": run.positions(),
        "adapters": list(state.adapters),
        "optimizer": list(state.optimizer),
        "facts": state.facts,
    }
    with atomic_dir(path) as folder:
        save_file(_flatten(state), folder / "tensors.safetensors")
        (folder / "state.json").write_bytes(to_json(facts))
    for step in _steps(run, stage)[:-_KEPT]:
        remove_dir(_folder(run, stage, step))
    return path


def latest(run: RunFolder, stage: str) -> int | None:
    """Step of the newest complete checkpoint of a stage; None where there is none."""
    return max(_steps(run, stage), default=None)


def load(run: RunFolder, *, stage: str, step: int, expect: Mapping[str, Mapping[str, Tensor]]) -> TrainState:
    """Read a checkpoint, its tensors on the CPU.

    `expect`: the adapters of the present config, name -> tensors of the shapes and dtypes they must have.
    Raises RunError: absent, damaged, other adapters, other shapes.
    """
    path = _folder(run, stage, step)
    state, _ = _read(path)
    _check_fit(path, found=state.adapters, expect=expect)
    return state


def resume(run: RunFolder, *, stage: str, expect: Mapping[str, Mapping[str, Tensor]]) -> TrainState | None:
    """The newest checkpoint of a stage, the logs cut back to it; None: start anew, the logs cut accordingly.

    Raises RunError as `load` does; the logs are then untouched.
    """
    step = latest(run, stage)
    if step is None:
        run.rewind(stage)
        return None
    path = _folder(run, stage, step)
    state, positions = _read(path)
    _check_fit(path, found=state.adapters, expect=expect)
    run.rewind(stage, positions)
    return state


def _folder(run: RunFolder, stage: str, step: int) -> Path:
    return run.checkpoints(stage) / f"step-{step:08d}"


def _steps(run: RunFolder, stage: str) -> list[int]:
    folder = run.checkpoints(stage)
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(match[1]) for name in names if (match := _FOLDER.fullmatch(name)))


def _flatten(state: TrainState) -> dict[str, Tensor]:
    """One flat mapping `kind/owner/name`, every tensor with memory of its own, as safetensors asks."""
    flat = {f"extra//{name}": tensor for name, tensor in state.extra_tensors.items()}
    for kind, owners in (("adapters", state.adapters), ("optimizer", state.optimizer)):
        for owner, tensors in owners.items():
            assert "/" not in owner, f"adapter name {owner!r} holds a slash"
            flat |= {f"{kind}/{owner}/{name}": tensor for name, tensor in tensors.items()}
    return {key: tensor.detach().cpu().contiguous().clone() for key, tensor in flat.items()}


def _read(path: Path) -> tuple[TrainState, dict[str, int]]:
    if not path.is_dir():
        raise RunError(
            f"{path} does not exist; give a step that has a checkpoint, or start a new run folder."
        )
    facts = read_json(path / "state.json")
    try:
        flat = load_file(path / "tensors.safetensors")
        state = TrainState(
            step=facts["step"],
            adapters={owner: _part(flat, f"adapters/{owner}/") for owner in facts["adapters"]},
            optimizer={owner: _part(flat, f"optimizer/{owner}/") for owner in facts["optimizer"]},
            extra_tensors=_part(flat, "extra//"),
            facts=facts["facts"],
        )
        return state, facts["positions"]
    except (OSError, SafetensorError, KeyError) as error:
        raise RunError(
            f"{path} is damaged ({error}); remove this folder to go on from the checkpoint before it."
        ) from error


def _part(flat: Tensors, prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): tensor for key, tensor in flat.items() if key.startswith(prefix)}


def _check_fit(
    path: Path, *, found: Mapping[str, Tensors], expect: Mapping[str, Mapping[str, Tensor]]
) -> None:
    if found.keys() != expect.keys():
        raise RunError(
            f"{path} holds adapters {', '.join(sorted(found)) or 'none'}; the config asks for "
            f"{', '.join(sorted(expect)) or 'none'}. Resume with the config the run began with."
        )
    for adapter, tensors in expect.items():
        met, allowed = _shapes(found[adapter]), _shapes(tensors)
        for name in sorted(met.keys() | allowed.keys()):
            if met.get(name) != allowed.get(name):
                raise RunError(
                    f"{path}: {name} of adapter {adapter} is {met.get(name, 'absent')}; the config makes it "
                    f"{allowed.get(name, 'absent')}. Resume with the config and base the run began with."
                )


def _shapes(tensors: Tensors) -> dict[str, str]:
    return {name: f"{list(tensor.shape)} {tensor.dtype}" for name, tensor in tensors.items()}
