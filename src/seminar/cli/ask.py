"""`seminar ask`: a question and a run folder in, the debate on the screen turn by turn, the vote at the end."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from seminar import build, rollout
from seminar import config as configuration
from seminar.config_mada import Sampling
from seminar.console import Console
from seminar.runlog import RunFolder
from seminar.tasks.maths import extract_answer, normalise_answer
from seminar.types import Task, Turn


def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    team: Annotated[Path, typer.Option(help="Run folder of a trained team.")],
    temperature: Annotated[
        float, typer.Option(min=0, max=2, help="Sampling temperature; 0 is greedy.")
    ] = 0.7,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sampling.")] = 0,
) -> None:
    """Put a question to a trained team and watch it debate."""
    run = RunFolder.open(team, write=False)
    config = configuration.parse(run.config, where=str(team))
    world = build.world(config.base)
    agents = build.load_team(run, config, world, sampling=Sampling(temperature=temperature))
    protocol = build.debate(config, build.debate_form(config, world.chat))
    console = Console()
    turns: list[Turn] = []
    for turns in rollout.watch(Task(id="asked", question=question), protocol, agents, seed=(seed,)):
        console.note(f"── round {turns[0].round + 1}")
        for turn in turns:
            console.note(f"{turn.agent} ({len(turn.completion_ids)} tokens): {turn.text.strip()}")
    answers = Counter(
        normalise_answer(a) for t in turns if (a := extract_answer(t.text, cut=t.stop == "length"))
    )
    tally = ", ".join(f"{answer} x {count}" for answer, count in answers.most_common()) or "no answer"
    console.note(f"── final round says: {tally}")
