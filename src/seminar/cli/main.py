"""The command line: one typer application; each command lives in its own module of this room."""

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def main() -> None:
    """Run the command line; an error of ours is one line and exit code 2, a traceback only with `--debug`."""
    app()
