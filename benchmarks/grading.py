"""Verdicts a second of the maths grader, pool and deadlines on: `python benchmarks/grading.py [DATA_FOLDER]`.

Each row is the best of three runs after a warm-up:
- plain numbers: 20,000 answers, a sentence and a box, against an integer;
- MATH-500, itself: every gold in a box against itself, ten times over;
- MATH-500, crossed: every gold against ten other golds; most pairs are decided by their text, the rest needs
  algebra in the pool (how many is printed);
- math-verify alone on the first two, one process and no deadline.
Then 1,000 crossed rows with 10 that never end: seconds, against deadline x count / workers.
"""

import json
import logging
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from math_verify import parse, verify

from seminar.rewards.verify import Answer, Graders
from seminar.types import Task

WORKERS = 2
ENDLESS = [
    *(rf"10^{{10^{{10^{{{k}}}}}}}" for k in range(2, 6)),
    *(rf"9^{{9^{{9^{{9^{{{k}}}}}}}}}" for k in range(2, 6)),
    r"\sum_{n=1}^{10^{12}} \frac{1}{n^2+\sin n}",
    "(10^9)!",
]


def main() -> None:
    """Print the table."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "../shared/data"
    with (folder / "math500.jsonl").open() as lines:
        golds = [json.loads(line)["answer"] for line in lines]
    rng = random.Random(0)
    plain = [answer(str(k), str(k + k % 2)) for k in range(20_000)]
    itself = [answer(gold, gold) for gold in golds] * 10
    crossed = [answer(gold, rng.choice(golds)) for gold in golds * 10]
    with Graders(num_workers=WORKERS) as graders:
        rate("plain numbers", plain, graders)
        rate("MATH-500, each gold against itself", itself, graders)
        rate("MATH-500, against other golds", crossed, graders)
        before = graders.counts["done"]
        graders.grade(crossed)
        distinct = len({(task.gold, text) for task, text, _ in crossed})
        needed = graders.counts["done"] - before
        print(f"{'':44} {needed} of {distinct} distinct pairs need algebra")
    logging.disable(logging.WARNING)  # math-verify warns of the timeouts that are off here
    alone("plain numbers, math-verify alone", plain[:2000])
    alone("MATH-500 against itself, math-verify alone", itself[:500])
    endless(crossed)


def answer(gold: str, given: str) -> Answer:
    """A task and an answer as a model writes it."""
    return Task(id="b", question="q", gold=gold), rf"We add up and get $\boxed{{{given}}}$ in all.", "eos"


def rate(name: str, answers: list[Answer], graders: Graders) -> None:
    """Print verdicts a second, best of three after a warm-up."""
    graders.grade(answers)
    report(name, len(answers), min(seconds(lambda: graders.grade(answers)) for _ in range(3)))


def alone(name: str, answers: list[Answer]) -> None:
    """Print verdicts a second of the library without pool, deadline and rules."""

    def judge() -> None:
        for task, text, _ in answers:
            verify(
                parse(f"${task.gold}$", parsing_timeout=None),
                parse(text, parsing_timeout=None),
                timeout_seconds=None,
            )

    judge()
    report(name, len(answers), min(seconds(judge) for _ in range(3)))


def endless(answers: list[Answer], *, deadline_s: float = 5.0) -> None:
    """Print how long 1,000 rows take with ten that never end."""
    rows = answers[:1000]
    for place, text in enumerate(ENDLESS):
        rows.insert(97 * place, answer(r"\sqrt{2}", text))
    with Graders(num_workers=WORKERS, deadline_s=deadline_s) as graders:
        graders.grade(answers[:100])
        took = seconds(lambda: graders.grade(rows))
        counts, bound = graders.counts, deadline_s * len(ENDLESS) / WORKERS
        print(f"{len(rows)} rows, {counts['timeout']} of them endless: {took:.1f} s")
        print(f"{'':44} deadline x count / workers is {bound:.1f} s")


def seconds(work: Callable[[], object]) -> float:
    """Wall clock of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def report(name: str, count: int, took: float) -> None:
    """Print one row."""
    print(f"{name:44} {count / took:10,.0f} a second")


if __name__ == "__main__":
    main()
