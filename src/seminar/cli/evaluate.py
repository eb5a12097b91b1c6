"""`seminar eval` and `seminar report`: a finished run in, a report on other tasks, or its own once
more, out."""

from copy import deepcopy
from pathlib import Path
from typing import Annotated

import typer

from seminar import config as configuration
from seminar.config_mada import MadaConfig
from seminar.console import Console
from seminar.errors import ConfigError
from seminar.runlog import RunFolder
from seminar.stopping import EXIT_CODE, StopRequest
from seminar.tasks.rows import is_file

Saved = Annotated[Path, typer.Option("--team", help="Run folder of a trained team.")]


def evaluate(
    team: Saved,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="key=value of the recipe, for instance evaluation.repeats=10."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Named set (`seminar data list`) or a file; default: the recipe's.")
    ] = None,
    path: Annotated[str | None, typer.Option(help="Local file of the named set.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the evaluation; default TEAM/evaluations/DATA.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the evaluation in the folder.")
    ] = False,
) -> None:
    """Evaluate a trained team, on its recipe's tasks or others, beside the team before training and a
    vote."""
    from seminar.methods import draft_rl_evaluation, mada_evaluation  # loads torch

    saved = RunFolder.open(team, write=False)
    tree = deepcopy(dict(saved.config))
    if data is not None:
        own = is_file(data)
        source = {"type": "file", "path": data} if own else {"type": "named", "name": data, "path": path}
        tree["data"] = {**tree["data"], "evaluation": [source]}
    for override in overrides or []:
        configuration.apply_override(tree, override)
    config = configuration.parse(tree, where=str(team))
    folder = out or team / "evaluations" / (Path(data).stem if data else "recipe")
    plain = configuration.dump(config)
    run = (
        RunFolder.open(folder, write=True)
        if resume
        else RunFolder.create(folder, config=plain, facts={"team": str(team)})
    )
    if resume:
        run.require_config(plain)
    with run, Console() as console, StopRequest(say=console.note) as stop:
        if isinstance(config, MadaConfig):
            finished = mada_evaluation.evaluate_saved(saved, config, run=run, console=console, stop=stop)
        else:
            finished = draft_rl_evaluation.evaluate_saved(saved, config, run=run, console=console, stop=stop)
    if not finished:
        typer.echo("Stopped; the same command with --resume goes on.")
        raise typer.Exit(EXIT_CODE)


def show_report(team: Annotated[Path, typer.Argument(help="Run folder.")]) -> None:
    """Print the report of a run."""
    RunFolder.open(team, write=False)
    report = team / "report.md"
    if not report.is_file():
        raise ConfigError(
            f"{team} has no report yet; the run is not finished. Go on with seminar train ... --resume."
        )
    typer.echo(report.read_text(encoding="utf-8"))
