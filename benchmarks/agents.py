"""Six agents and one, same tokens in all -> what the update of each costs, and the memory of one agent more.

python benchmarks/agents.py [--model smollm2] [--dtype bfloat16] [--pairs 3]

Both teams learn from the same twelve groups: six agents from two each, one agent from all. Runs alternate.
Then the growth of this process's resident memory by a further agent (adapter, optimizer state, one served
copy), beside what its tensors hold.
"""

import argparse
import statistics
from pathlib import Path

import numpy as np
from setting import bench

from seminar.bench.ours import SCHEDULE, Bench, add_adapter, loss
from seminar.bench.pipe import Clock
from seminar.bench.scenarios import Scenario
from seminar.train.update import Learner, update
from seminar.types import Sample

AGENTS, PROMPTS, GROUP, PROMPT, NEW, BETA = 6, 12, 4, 73, 64, 0.04


def main() -> None:
    """Time the updates, then weigh an agent."""
    options = argparse.ArgumentParser()
    options.add_argument("--model", default="smollm2")
    options.add_argument("--dtype", default="bfloat16")
    options.add_argument("--pairs", type=int, default=3)
    chosen = options.parse_args()
    scenario = Scenario(
        name="agents", kind="step", prompts=1, agents=AGENTS, group=1, prompt_tokens=PROMPT, new_tokens=NEW
    )
    with bench(scenario, model=chosen.model, dtype=chosen.dtype) as ours:
        many, one = samples(ours, agents=AGENTS), samples(ours, agents=1)
        seconds(ours, many), seconds(ours, one)
        runs = [(seconds(ours, many), seconds(ours, one)) for _ in range(chosen.pairs)]
        for six, alone in runs:
            print(f"{AGENTS} agents {six:.2f} s, 1 agent {alone:.2f} s, ratio {six / alone:.3f}", flush=True)
        print(f"median ratio {statistics.median(six / alone for six, alone in runs):.3f}")
        weigh(ours)


def samples(ours: Bench, *, agents: int) -> list[list[Sample]]:
    """The same prompts and completions, dealt out to so many agents; one list an agent."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, ours.policy.config.vocab_size, size=(PROMPTS, PROMPT + GROUP * NEW))
    dealt: list[list[Sample]] = [[] for _ in range(agents)]
    for place, row in enumerate(words.tolist()):
        name = ours.names[place % agents]
        dealt[place % agents] += [
            Sample(
                agent=name,
                prompt_ids=tuple(row[:PROMPT]),
                completion_ids=tuple(row[PROMPT + k * NEW : PROMPT + (k + 1) * NEW]),
                temperature=1.0,
                advantages=(float(rng.normal()),) * NEW,
                engine_logprobs=(-10.0,) * NEW,
            )
            for k in range(GROUP)
        ]
    return dealt


def seconds(ours: Bench, dealt: list[list[Sample]]) -> float:
    """One update of each agent."""
    clock = Clock(ours.policy.device)
    with clock.phase("update"):
        for learner, mine in zip(ours.learners, dealt, strict=False):
            update(ours.policy, learner, mine, step=0, seed=0, settings=loss(BETA, NEW))
    return clock.seconds["update"]


def weigh(ours: Bench) -> None:
    """Memory of one agent more, after it has spoken and learned."""
    before = resident_bytes()
    add_adapter(ours.policy, "one-more", seed=99)
    learner = Learner(ours.policy, "one-more", schedule=SCHEDULE, max_grad_norm=1.0)
    mine = [
        Sample(
            agent="one-more",
            prompt_ids=tuple(ours.job.prompts[0].ids),
            completion_ids=tuple(ours.job.prompts[0].ids),
            temperature=1.0,
            advantages=(1.0,) * PROMPT,
            engine_logprobs=(-10.0,) * PROMPT,
        )
    ]
    update(ours.policy, learner, mine, step=0, seed=0, settings=loss(BETA, PROMPT))
    ours.engine.load_adapter("one-more", version=1)
    weights = sum(tensor.nbytes for tensor in learner.named.values())
    state = sum(tensor.nbytes for tensor in learner.state().values())
    grown = resident_bytes() - before
    print(
        f"one agent more: resident memory grew by {grown / 2**20:.0f} MiB; its adapter has "
        f"{weights / 2**20:.0f}, its optimizer state {state / 2**20:.0f} MiB, and the engine serves a copy"
    )


def resident_bytes() -> int:
    """Resident set of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


if __name__ == "__main__":
    main()
