"""200 steps of a tiny random model -> resident memory every ten; flat: the last hundred stay within 2 %.

python benchmarks/long_run.py [--steps 200]

Every step samples, grades, learns and serves the new weights, as training does.
"""

import argparse
import tempfile
from pathlib import Path

from agents import resident_bytes
from setting import bench
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from seminar.bench.pipe import Clock
from seminar.bench.scenarios import WORDS, Scenario

STEP = Scenario(name="tiny", kind="step", prompts=4, group=4, prompt_tokens=20, new_tokens=16, beta=0.04)


def main() -> None:
    """Train, watch."""
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=200)
    steps = options.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder))
        with bench(STEP, model=folder, dtype="float32") as ours:
            resident = []
            for step in range(1, steps + 1):
                ours.step(Clock(ours.policy.device))
                resident.append(resident_bytes())
                if step % 10 == 0:
                    print(f"step {step}: {resident[-1] / 2**20:.1f} MiB", flush=True)
    last = resident[-steps // 2 :]
    print(f"last {len(last)} steps: largest / smallest - 1 = {max(last) / min(last) - 1:.2%}")


def write_model(folder: Path) -> None:
    """A random Llama of two layers whose tokens are words."""
    words = ["<unk>", "<eos>", *dict.fromkeys(WORDS.split())]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<eos>").save_pretrained(
        folder
    )
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        eos_token_id=1,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


if __name__ == "__main__":
    main()
