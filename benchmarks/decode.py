"""Row counts and dtypes -> tokens a second beside transformers' `generate`, pair by pair in this one process.

python benchmarks/decode.py [--model smollm2] [--dtype bfloat16 float32] [--pairs 3] [--threads 2] [--rows 64
16]

`seminar bench --scenario decode` compares one workload, each side in a process of its own; this script is for
work on the decoder: few and many rows, prompts shared or not, one LoRA of rank 16 active on both sides,
exactly 64 new tokens. The floor is that of `seminar.bench.floor` at the rates measured here. CPU seconds
stand beside the clock's, since they bear a busy machine better.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from peft import PeftModel
from setting import bench
from transformers import AutoModelForCausalLM, GenerationConfig

from seminar.bench.floor import floor, measure_rates, sizes
from seminar.bench.ours import Bench
from seminar.bench.pipe import Clock
from seminar.bench.scenarios import RANK, Scenario

ROWS = {
    64: {"prompts": 64, "group": 1, "prompt_tokens": 48},
    96: {"prompts": 16, "group": 6, "prompt_tokens": 48},
    16: {"prompts": 4, "group": 4, "prompt_tokens": 72},
}


class Run(NamedTuple):
    """What one run took, in seconds."""

    wall: float
    cpu: float


def main() -> None:
    """Print a line for each dtype and row count."""
    options = argparse.ArgumentParser()
    options.add_argument("--model", default="smollm2")
    options.add_argument("--dtype", nargs="+", default=["bfloat16", "float32"])
    options.add_argument("--pairs", type=int, default=3)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--rows", type=int, nargs="+", choices=list(ROWS), default=list(ROWS))
    options.add_argument("--new", type=int, default=64, help="tokens a completion")
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    for dtype in chosen.dtype:
        for rows in chosen.rows:
            scenario = Scenario(name="decode", kind="sample", new_tokens=chosen.new, **ROWS[rows])
            with bench(scenario, model=chosen.model, dtype=dtype) as ours:
                print(f"{dtype}, {scenario.title()}: {compare(ours, chosen.pairs)}", flush=True)


def compare(ours: Bench, pairs: int) -> str:
    """Run both sides in turn."""
    s, job = ours.scenario, ours.job
    theirs = peer(ours)
    ours._sample(2)
    theirs(2)
    runs = [
        (timed(lambda: ours._sample(s.new_tokens)), timed(lambda: theirs(s.new_tokens))) for _ in range(pairs)
    ]
    device, width = ours.policy.device, ours.policy.dtype.itemsize
    rates = measure_rates(dtype=ours.policy.dtype, device=device)
    least = sum(floor(s, sizes(job.model, rank=RANK), rates, bytes_each=width).values())
    mine, other = (statistics.median(run[side].wall for run in runs) for side in (0, 1))
    wall, cpu = (statistics.median(getattr(b, k) / getattr(a, k) for a, b in runs) for k in ("wall", "cpu"))
    return (
        f"ours {s.written / mine:.0f} tokens/s, generate {s.written / other:.0f}; ratio {wall:.2f} by the "
        f"clock, "
        f"{cpu:.2f} in CPU time; {mine / least:.2f} x the floor; {ours.engine.decoder_name}"
    )


def peer(ours: Bench) -> Callable[[int], torch.Tensor]:
    """`generate` on a model of its own with the same adapter, every prompt repeated for its group."""
    s, job = ours.scenario, ours.job
    base = AutoModelForCausalLM.from_pretrained(job.model, dtype=ours.policy.dtype).to(job.device)
    model = PeftModel.from_pretrained(base, job.adapter).eval()
    ids = torch.tensor([p.ids for p in job.prompts for _ in range(s.group)], device=job.device)

    def run(new: int) -> torch.Tensor:
        settings = GenerationConfig(
            do_sample=True, top_k=0, min_new_tokens=new, max_new_tokens=new, pad_token_id=0,
            eos_token_id=base.generation_config.eos_token_id,
        )  # fmt: skip
        with torch.no_grad():
            return model.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=settings
            )

    return run


def timed(work: Callable[[], object]) -> Run:
    """Run once."""
    clock = Clock(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    began, cpu = clock.now(), time.process_time()
    work()
    return Run(clock.now() - began, time.process_time() - cpu)


if __name__ == "__main__":
    main()
