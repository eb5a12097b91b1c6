"""`seminar bench`: our step, decoding and scoring beside their peers and the floor, on this machine."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from seminar.atomic import write_atomic
from seminar.bench.scenarios import SCENARIOS


class Workload(StrEnum):
    """Names of the scenarios; typer knows no list of literals."""

    generator = "generator"
    critic = "critic"
    drafts = "drafts"
    decode = "decode"
    logprobs = "logprobs"


def bench(
    against: Annotated[
        Literal["trl"] | None, typer.Option(help="Run TRL's GRPOTrainer beside ours (extra: bench).")
    ] = None,
    scenario: Annotated[
        list[Workload] | None, typer.Option(help="May be given several times. Default: all.")
    ] = None,
    target: Annotated[Path | None, typer.Option("--json", help="Write all that was measured here.")] = None,
    pairs: Annotated[int, typer.Option(min=1, help="Runs of each side, in turn, after a warm-up.")] = 3,
    dtype: Annotated[Literal["bfloat16", "float32"], typer.Option(help="Of the frozen base.")] = "bfloat16",
    model: Annotated[str, typer.Option(help="Embedded base, hub id or folder.")] = "smollm2",
    vllm_python: Annotated[
        str | None, typer.Option(help="A Python that has vLLM; it then takes part in `decode`.")
    ] = None,
) -> None:
    """Measure speed and memory, side by side in one run: A B A B ..., each side in its own process.

    Ours always runs; in `decode` transformers' own generate runs beside it. The floor is the arithmetic of
    the workload at the rates of a matrix product and a copy measured between the runs.
    """
    import torch

    from seminar.bench.pairs import check_trl, compare, sides
    from seminar.bench.report import heading, lines, machine
    from seminar.models.embedded import resolve

    if against == "trl":
        check_trl()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    folder = resolve(model)
    here = machine()
    typer.echo(heading(here, model=model, dtype=dtype, device=device))
    results = {}
    for name in scenario or Workload:
        chosen = SCENARIOS[name.value]
        results[name.value] = compare(
            chosen,
            model=folder,
            dtype=dtype,
            device=device,
            pairs=pairs,
            sides=sides(chosen, trl=against == "trl", vllm_python=vllm_python),
            progress=lambda line: typer.echo(line, err=True),
        )
        typer.echo(lines(chosen.title(), results[name.value]))
    if target is not None:
        facts = {"machine": here, "model": model, "dtype": dtype, "device": device, "pairs": pairs}
        write_atomic(target, json.dumps({**facts, "scenarios": results}, indent=1).encode() + b"\n")
