"""`seminar train` and `seminar plan`: a recipe in, a run folder or a table of derived numbers out."""

import shlex
from pathlib import Path
from typing import Annotated

import torch
import typer

from seminar import config as configuration
from seminar.config_mada import MadaConfig
from seminar.console import Console
from seminar.methods import draft_rl, mada
from seminar.plan import plan as make_plan
from seminar.runlog import RunFolder
from seminar.stopping import EXIT_CODE, StopRequest

Recipe = Annotated[str, typer.Argument(help="YAML recipe, for instance recipes/mada/tiny.yaml.")]
Overrides = Annotated[list[str] | None, typer.Argument(help="key=value, for instance generator.lr=1e-4.")]
Out = Annotated[Path | None, typer.Option(help="Run folder; default runs/NAME.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show nothing but errors.")]


def train(
    recipe: Recipe, overrides: Overrides = None, out: Out = None, resume: Resume = False, quiet: Quiet = False
) -> None:
    """Train a team as a recipe says; Ctrl-C stops after the current step and saves."""
    config = configuration.load(recipe, overrides or [])
    plan = make_plan(config)
    folder = out or Path("runs") / config.name
    run = _reopen(folder, config) if resume else _create(folder, config)
    with run, Console(quiet=quiet) as console, StopRequest(say=console.note) as stop:
        run.track(config.logging.track)
        run.write("plan.md", plan.markdown())
        console.note(f"{folder}: {run.progress()}" if resume else plan.summary())
        if isinstance(config, MadaConfig):
            finished = mada.train(config, run=run, console=console, stop=stop)
        else:
            finished = draft_rl.train(config, run=run, console=console, stop=stop)
    if not finished:
        again = shlex.join(["seminar", "train", recipe, *(overrides or []), "--out", str(folder), "--resume"])
        typer.echo(f"Stopped; everything so far is saved. Go on with:\n  {again}")
        raise typer.Exit(EXIT_CODE)


def show_plan(
    recipe: Recipe,
    overrides: Overrides = None,
    device: Annotated[
        str | None, typer.Option(help="Device of the estimate: h200, h100, a100, 4090, cpu.")
    ] = None,
) -> None:
    """Print the numbers a recipe implies before anything runs."""
    config = configuration.load(recipe, overrides or [])
    typer.echo(make_plan(config, device=device).markdown())


def _create(folder: Path, config: configuration.Config) -> RunFolder:
    threads = config.base.threads or torch.get_num_threads()
    facts = {"seed": config.seed, "threads": threads}
    return RunFolder.create(folder, config=configuration.dump(config), facts=facts)


def _reopen(folder: Path, config: configuration.Config) -> RunFolder:
    run = RunFolder.open(folder, write=True)
    run.require_config(configuration.dump(config))
    for name, (then, now) in run.changed_versions().items():
        note = f"{folder} began with {name} {then}, this is {now}: the end may differ in the last bits."
        typer.echo(note, err=True)
    return run
