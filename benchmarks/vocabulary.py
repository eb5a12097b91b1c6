"""A random model with a vocabulary of 32k and of 152k -> peak memory of one update, embeddings left out.

python benchmarks/vocabulary.py [--samples 16] [--tokens 512] [--hidden 576] [--layers 4]

Each vocabulary runs in a process of its own: 16 completions of 512 tokens, one update with a penalty. The
weights of the embedding (tied to the head) are taken off the peak of the process; beside it stands what the
update alone added to what was there before. A trainer that holds logits needs 16 x 512 x 152,000 x 4 bytes =
4.6 GiB for them.
"""

import argparse
import subprocess
import sys

import numpy as np
import torch
from agents import resident_bytes
from transformers import LlamaConfig, LlamaForCausalLM

from seminar.bench.ours import SCHEDULE, add_adapter, loss
from seminar.bench.pipe import memory
from seminar.models.policy import Policy
from seminar.train.update import Learner, update
from seminar.types import Sample

SMALL, LARGE = 32_000, 152_000
PROMPT = 16


class NoTokenizer:
    """Stands where a tokenizer belongs; nothing is encoded here."""

    eos_token_id = 0


def main() -> None:
    """Compare the two."""
    options = argparse.ArgumentParser()
    options.add_argument("--samples", type=int, default=16)
    options.add_argument("--tokens", type=int, default=512)
    options.add_argument("--hidden", type=int, default=576)
    options.add_argument("--layers", type=int, default=4)
    options.add_argument("--vocabulary", type=int, help="run this one in this process and print its bytes")
    chosen = options.parse_args()
    if chosen.vocabulary is not None:
        print(*peak(chosen))
        return
    found: dict[int, list[int]] = {}
    for vocabulary in (SMALL, LARGE):
        command = [sys.executable, __file__, *sys.argv[1:], "--vocabulary", str(vocabulary)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found[vocabulary] = [int(number) for number in out.split()]
        whole, added = (number / 2**20 for number in found[vocabulary])
        print(f"{vocabulary:,}: {whole:,.0f} MiB without embeddings, {added:,.0f} by the update", flush=True)
    ratios = [large / small for large, small in zip(found[LARGE], found[SMALL], strict=True)]
    print(f"ratio {ratios[0]:.2f}, of the update alone {ratios[1]:.2f}")


def peak(chosen: argparse.Namespace) -> tuple[int, int]:
    """Bytes at the peak of one update without the embedding's own, and bytes that the update added."""
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=chosen.vocabulary,
            hidden_size=chosen.hidden,
            intermediate_size=8 * chosen.hidden // 3,
            num_hidden_layers=chosen.layers,
            num_attention_heads=9,
            num_key_value_heads=3,
            tie_word_embeddings=True,
            eos_token_id=0,
        )
    )
    policy = Policy(model, NoTokenizer())  # type: ignore[arg-type]
    add_adapter(policy, "agent", seed=0)
    learner = Learner(policy, "agent", schedule=SCHEDULE, max_grad_norm=1.0)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, chosen.vocabulary, size=(chosen.samples, PROMPT + chosen.tokens)).tolist()
    rows = [
        Sample(
            agent="agent",
            prompt_ids=tuple(row[:PROMPT]),
            completion_ids=tuple(row[PROMPT:]),
            temperature=1.0,
            advantages=(1.0,) * chosen.tokens,
            engine_logprobs=(-10.0,) * chosen.tokens,
        )
        for row in ids
    ]
    before = resident_bytes()
    update(policy, learner, rows, step=0, seed=0, settings=loss(0.04, chosen.tokens))
    embedding = model.get_input_embeddings().weight
    found = memory(torch.device("cpu"))["peak_bytes"]
    return found - embedding.nbytes, found - before


if __name__ == "__main__":
    main()
