"""A workload -> our side of `seminar bench` for it, in this process."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers import AutoTokenizer

from seminar.bench.ours import Bench
from seminar.bench.scenarios import Job, Scenario, make_prompts
from seminar.models.embedded import resolve


@contextmanager
def bench(scenario: Scenario, *, model: str, dtype: str) -> Iterator[Bench]:
    """The library set up for `scenario`; ends its graders afterwards."""
    folder = resolve(model)
    encode = AutoTokenizer.from_pretrained(folder)
    with tempfile.TemporaryDirectory() as scratch:
        ours = Bench(
            Job(
                scenario=scenario,
                model=folder,
                dtype=dtype,
                device="cuda" if torch.cuda.is_available() else "cpu",
                prompts=make_prompts(
                    lambda text: encode(text)["input_ids"],
                    count=scenario.prompts,
                    tokens=scenario.prompt_tokens,
                ),
                adapter=str(Path(scratch) / "adapter"),
            )
        )
        try:
            yield ours
        finally:
            ours.graders.close()
