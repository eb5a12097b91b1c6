"""One step of a workload of `seminar bench` -> operations by the time they take themselves, and their shapes.

python benchmarks/where_time_goes.py [--scenario generator] [--model smollm2] [--dtype bfloat16] [--rows 30]

The first table sums over shapes, the second tells them apart. Shares are of all, sampling included.
"""

import argparse

from setting import bench
from torch.autograd.profiler_util import EventList
from torch.profiler import ProfilerActivity, profile

from seminar.bench.pipe import Clock
from seminar.bench.scenarios import SCENARIOS


def main() -> None:
    """Warm up, then watch one step."""
    options = argparse.ArgumentParser()
    options.add_argument("--scenario", default="generator", choices=[*SCENARIOS])
    options.add_argument("--model", default="smollm2")
    options.add_argument("--dtype", default="bfloat16")
    options.add_argument("--rows", type=int, default=30)
    chosen = options.parse_args()
    scenario = SCENARIOS[chosen.scenario]
    with bench(scenario, model=chosen.model, dtype=chosen.dtype) as ours:
        run = {"step": ours.step, "sample": ours.sample, "score": ours.score}[scenario.kind]
        run(Clock(ours.policy.device))
        clock = Clock(ours.policy.device)
        with profile(
            activities=[ProfilerActivity.CPU, *cuda(ours.policy.device.type)], record_shapes=True
        ) as seen:
            seconds = run(clock)
    parts = ", ".join(f"{name} {s:.2f} s" for name, s in clock.seconds.items())
    print(f"{scenario.title()}\n{seconds:.2f} s under the profiler: {parts}\n")
    show(seen.key_averages(), rows=chosen.rows)
    show(seen.key_averages(group_by_input_shape=True), rows=chosen.rows)


def cuda(kind: str) -> list[ProfilerActivity]:
    """What to watch beside the processor."""
    return [ProfilerActivity.CUDA] if kind == "cuda" else []


def show(events: EventList, *, rows: int) -> None:
    """The operations that take most time themselves."""
    events = sorted(events, key=lambda event: -(event.self_cpu_time_total + event.self_device_time_total))
    whole = sum(event.self_cpu_time_total + event.self_device_time_total for event in events)
    print(f"{'operation':52} {'ms':>9} {'share':>6} {'calls':>6}  shapes")
    for event in events[:rows]:
        own = event.self_cpu_time_total + event.self_device_time_total
        shapes = " ".join(str(shape) for shape in event.input_shapes or () if shape)
        print(f"{event.key[:52]:52} {own / 1e3:9.1f} {own / whole:6.1%} {event.count:6}  {shapes[:90]}")
    print()


if __name__ == "__main__":
    main()
