"""`seminar train` and `seminar plan`: a recipe in, a run folder or a table of derived numbers out."""

from pathlib import Path
from typing import Annotated

import typer

from seminar import config as configuration
from seminar.stopping import EXIT_CODE

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
    from seminar import team  # loads torch

    folder = out or Path("runs") / config.name
    if not team.carry_out(config, folder, resume=resume, quiet=quiet):
        again = team.again(recipe, overrides or [], folder)
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
    from seminar.plan import plan  # loads torch

    typer.echo(plan(config, device=device).markdown())
