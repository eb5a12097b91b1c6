"""A step of growing size -> does its time grow in a straight line, and is a prompt paid once a group?

python benchmarks/growth.py [--model smollm2] [--dtype bfloat16] [--repeats 3] [--largest 1024]

Four sweeps, each with all else fixed: prompts, G, completion length, and G at a long prompt. Printed are
seconds a step (the least of the repeats), the straight line fitted by least squares and the largest deviation
from it in percent of the line. At a long prompt a further completion must cost no more than its own tokens:
the slope over the time of a step with one completion says how much of the prompt is paid again (all: 1).
"""

import argparse

import numpy as np
from setting import bench

from seminar.bench.pipe import Clock
from seminar.bench.scenarios import Scenario


def main() -> None:
    """Run the sweeps."""
    options = argparse.ArgumentParser()
    options.add_argument("--model", default="smollm2")
    options.add_argument("--dtype", default="bfloat16")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--largest", type=int, default=1024, help="longest completion, tokens")
    chosen = options.parse_args()

    def seconds(*, prompts: int = 4, group: int = 4, prompt: int = 73, new: int = 64) -> float:
        scenario = Scenario(
            name="growth",
            kind="step",
            prompts=prompts,
            group=group,
            prompt_tokens=prompt,
            new_tokens=new,
            beta=0.04,
        )
        with bench(scenario, model=chosen.model, dtype=chosen.dtype) as ours:
            ours.step(Clock(ours.policy.device))
            return min(ours.step(Clock(ours.policy.device)) for _ in range(chosen.repeats))

    lengths = [chosen.largest * k // 4 for k in (1, 2, 3, 4)]
    show("prompts", {n: seconds(prompts=n) for n in (2, 4, 6, 8)})
    show("G", {n: seconds(group=n) for n in (2, 4, 6, 8)})
    show("completion tokens", {n: seconds(prompts=2, group=2, new=n) for n in lengths})
    slope = show(
        "G at a 770-token prompt", {n: seconds(prompts=2, group=n, prompt=770) for n in (2, 4, 6, 8)}
    )
    alone = seconds(prompts=2, group=1, prompt=770)
    print(f"one more completion a prompt: {slope / alone:.2f} of the step with one completion")


def show(name: str, measured: dict[int, float]) -> float:
    """Print a sweep; returns the slope in seconds."""
    sizes, times = np.array(list(measured)), np.array(list(measured.values()))
    slope, start = np.polyfit(sizes, times, 1)
    line = slope * sizes + start
    off = float(np.max(np.abs(times / line - 1)))
    points = ", ".join(f"{n}: {t:.2f} s" for n, t in measured.items())
    print(f"{name}: {points}; line {start:.2f} + {slope:.4f} n, largest deviation {off:.1%}", flush=True)
    return float(slope)


if __name__ == "__main__":
    main()
