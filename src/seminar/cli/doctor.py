"""`seminar doctor`: what this machine has, and for what is missing the command that brings it."""

import typer


def doctor() -> None:
    """Show what this machine has: torch, cores, GPU, hub, optional packages, sandbox, base model, caches."""
    from seminar.cli.machine import facts  # loads torch

    found = facts()
    width = max(len(fact.name) for fact in found)
    for fact in found:
        typer.echo(f"{fact.name:{width}}  {fact.value}")
        if fact.advice:
            typer.echo(f"{'':{width}}  -> {fact.advice}")
