"""Rows of metrics in, points of TensorBoard, W&B or trackio out, each through its own library."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from seminar.errors import ConfigError


class Tracker(Protocol):
    """Whatever shows metrics beside metrics.jsonl, which stays the truth."""

    def log(self, row: Mapping[str, Any], *, index: int) -> None:
        """Show the numbers of one row, line `index` (0-based) of metrics.jsonl whether resumed or not."""
        ...

    def close(self) -> None:
        """Send or write what is pending."""
        ...


class TensorBoard:
    """Event files under tensorboard/STAGE, one TensorBoard run a stage; `step` is the stage's own step."""

    def __init__(self, folder: Path) -> None:
        """Raises ImportError where tensorboard is missing."""
        from torch.utils.tensorboard import SummaryWriter

        self._folder = folder / "tensorboard"
        self._make = SummaryWriter
        self._writers: dict[str, SummaryWriter] = {}

    def log(self, row: Mapping[str, Any], *, index: int) -> None:
        """Write the numbers; TensorBoard hides what a killed run left at this step and later."""
        stage, step = row["stage"], row["step"]
        if stage not in self._writers:
            self._writers[stage] = self._make(str(self._folder / stage), purge_step=step)
        for name, value in _numbers(row).items():
            self._writers[stage].add_scalar(name, value, global_step=step)

    def close(self) -> None:
        """Flush and close the event files."""
        for writer in self._writers.values():
            writer.close()


class WandB:
    """A W&B run named after the folder; resumed, it goes on under its id and W&B skips lines it has."""

    def __init__(self, folder: Path, *, run_id: str, config: Mapping[str, Any]) -> None:
        """Raises ImportError where wandb is missing."""
        import wandb

        self._run: Any = wandb.init(
            project="seminar",
            id=run_id,
            name=folder.name,
            dir=str(folder),
            config=dict(config),
            resume="allow",
        )

    def log(self, row: Mapping[str, Any], *, index: int) -> None:
        """Send the numbers as STAGE/NAME at step `index`."""
        self._run.log({f"{row['stage']}/{name}": value for name, value in _numbers(row).items()}, step=index)

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


class Trackio:
    """A trackio run named after folder and id; steps played again after a kill appear twice, equal."""

    def __init__(self, folder: Path, *, run_id: str, config: Mapping[str, Any]) -> None:
        """Raises ImportError where trackio is missing."""
        import trackio

        self._run: Any = trackio.init(
            project="seminar",
            name=f"{folder.name}-{run_id}",
            config=dict(config),
            resume="allow",
            embed=False,
            auto_log_cpu=False,
            auto_log_gpu=False,
        )

    def log(self, row: Mapping[str, Any], *, index: int) -> None:
        """Send the numbers as STAGE/NAME at step `index`."""
        self._run.log({f"{row['stage']}/{name}": value for name, value in _numbers(row).items()}, step=index)

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


def open_trackers(
    names: Sequence[str], *, folder: Path, run_id: str, config: Mapping[str, Any]
) -> list[Tracker]:
    """One tracker a name, in order. Raises ConfigError for an unknown name or a missing library."""
    makers: dict[str, Callable[[], Tracker]] = {
        "tensorboard": lambda: TensorBoard(folder),
        "wandb": lambda: WandB(folder, run_id=run_id, config=config),
        "trackio": lambda: Trackio(folder, run_id=run_id, config=config),
    }
    trackers: list[Tracker] = []
    for name in names:
        if name not in makers:
            raise ConfigError(
                f"track: {name!r} is not a tracker; allowed are {', '.join(makers)}. Correct or drop it."
            )
        try:
            trackers.append(makers[name]())
        except ImportError as error:
            raise ConfigError(
                f"track: {name} is asked for, but its library cannot be imported ({error}); it is part of "
                "the extra `track`. Install it with: pip install 'seminar[track]'"
            ) from error
    return trackers


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in row.items()
        if name != "step" and isinstance(value, int | float) and not isinstance(value, bool)
    }
