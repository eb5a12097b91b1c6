"""A job -> runs of it by vLLM with our adapter; a script for vLLM's own Python that imports nothing of ours.

PYTHON seminar/bench/peer_vllm.py, with a job on standard input; the lines are those of pipe.py.
"""

import json
import os
import sys
import time
from pathlib import Path

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # one process, so that its peak is the whole of it
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB; these jobs need a fraction of it
OUT = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def main() -> None:
    """Serve the bench's parent."""
    from vllm import LLM, SamplingParams
    from vllm.lora.request import LoRARequest

    job = json.loads(sys.stdin.readline())
    s = job["scenario"]
    engine = LLM(
        model=job["model"],
        dtype=job["dtype"],
        enable_lora=True,
        max_lora_rank=16,
        max_loras=1,
        max_model_len=s["prompt_tokens"] + s["new_tokens"],
        max_num_seqs=s["prompts"],
        enforce_eager=job["device"] == "cpu",
        enable_prefix_caching=False,
        disable_log_stats=True,
    )
    adapter = LoRARequest("agent", 1, job["adapter"])
    sampling = SamplingParams(temperature=1.0, max_tokens=s["new_tokens"], ignore_eos=True, detokenize=False)
    prompts = [{"prompt_token_ids": ids} for _, ids in job["prompts"]]

    def run() -> float:
        began = time.perf_counter()
        out = engine.generate(prompts, sampling, lora_request=adapter, use_tqdm=False)
        assert all(len(answer.outputs[0].token_ids) == s["new_tokens"] for answer in out)
        return time.perf_counter() - began

    run()
    say({"ready": True})
    while sys.stdin.readline():
        seconds = run()
        sample = {"seconds": seconds, "tokens": s["prompts"] * s["new_tokens"]}
        say({"seconds": seconds, "phases": {"sample": sample}, "peak_bytes": peak_bytes()})


def say(row: dict[str, object]) -> None:
    """One line to the parent."""
    print(json.dumps(row), file=OUT, flush=True)


def peak_bytes() -> int:
    """High-water mark of the resident set."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if "VmHWM" in line) * 1024


if __name__ == "__main__":
    main()
