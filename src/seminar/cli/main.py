"""The command line: one typer application; each command lives in its own module of this room.

Those modules load torch, which takes seconds, only within the commands that need it.
"""

import sys
from typing import Annotated

import typer

from seminar.cli.ask import ask
from seminar.cli.bench import bench
from seminar.cli.data import app as data_app
from seminar.cli.doctor import doctor
from seminar.cli.evaluate import evaluate, show_report
from seminar.cli.grade import grade
from seminar.cli.train import show_plan, train
from seminar.errors import SeminarError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(data_app, name="data")
app.command("train")(train)
app.command("plan")(show_plan)
app.command("ask")(ask)
app.command("eval")(evaluate)
app.command("report")(show_report)
app.command("doctor")(doctor)
app.command("grade")(grade)
app.command("bench")(bench)


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Train, evaluate and ask teams of LoRA agents on one frozen language model."""


def main() -> None:
    """Run the command line; an error of ours is one line and exit code 2, a traceback only with `--debug`."""
    try:
        app()
    except SeminarError as error:
        if "--debug" in sys.argv:
            raise
        typer.echo(f"seminar: {' '.join(str(error).split())}", err=True)
        sys.exit(2)
