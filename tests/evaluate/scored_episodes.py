"""Builds scored episodes from a short notation, for the tests of this folder."""

from seminar.evaluate.metrics import Scored, scored
from seminar.types import Episode, Failure, Task, Turn, Verdict


def turn(
    agent: str, round_: int, text: str = "", *, num_tokens: int = 10, sample: int = 0, **notes: str
) -> Turn:
    return Turn(
        agent=agent,
        role="generator" if round_ == 0 else "critic",
        round=round_,
        sample=sample,
        adapter=agent,
        adapter_version=1,
        prompt_ids=(1,),
        completion_ids=tuple(range(num_tokens)),
        engine_logprobs=(0.0,) * num_tokens,
        temperature=1.0,
        text=text,
        stop="eos",
        notes=notes,
    )


def debate(
    *rounds: str,
    gold: str = "7",
    task: str = "t0",
    seed: int = 0,
    source: str = "made-up",
    failed: bool = False,
) -> Scored:
    """One debate: a string of answers a round, `-` where there is none; `debate("7 5 5", "7 7 -")`.

    Ten tokens a turn; agents are named by their place.
    """
    turns, verdicts = [], {}
    for number, answers in enumerate(rounds):
        for place, answer in enumerate(answers.split()):
            made = turn(f"agent-{place}", number, f"the answer is {answer}")
            found = None if answer == "-" else answer
            reason = "no_answer" if found is None else "correct" if found == gold else "wrong"
            verdicts[made.key] = Verdict(correct=found == gold, reason=reason, extracted=found)
            turns.append(made)
    failure = Failure(stage="protocol", type="DataError", text="broken") if failed else None
    episode = Episode(
        task=Task(id=task, question="3 + 4 = ?", gold=gold, source=source),
        turns=tuple(turns),
        failure=failure,
    )
    return scored(episode, verdicts, seed=seed)
