"""A model of your own: any causal LM of transformers with a chat template. Here one of random weights."""

import tempfile

import torch
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from seminar.config_mada import Training
from seminar.methods import grpo
from seminar.models.embedded import TINY
from seminar.settings import Base
from seminar.tasks import generated

folder = tempfile.mkdtemp()
tokenizer = AutoTokenizer.from_pretrained(TINY)
config = Qwen3Config(
    vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, head_dim=8, eos_token_id=tokenizer.eos_token_id,
    pad_token_id=tokenizer.pad_token_id,
)  # fmt: skip
torch.manual_seed(0)
Qwen3ForCausalLM(config).save_pretrained(folder)
tokenizer.save_pretrained(folder)

trained = grpo.train(
    generated.problems("arithmetic", count=50, seed=0, split="train"),
    out=tempfile.mkdtemp(),
    base=Base(model=folder, threads=1),
    training=Training(steps=2, batch=16, group=4, temperature=1.0, lr=1e-3, beta=0.0, validate_every=2),
    max_tokens=20,
)
score = f"{trained.best.accuracy:.0%}"
print(f"{config.model_type} with {len(trained.team.agents)} agent: random weights are right {score}")
