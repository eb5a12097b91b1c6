"""Two-layer models of several families with random weights, a byte-level tokenizer, policies made of them."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from seminar.models.policy import Policy

SPECIAL = ("<pad>", "<eos>", "<user>", "<agent>")
"""Ids 0 to 3; the 256 bytes follow."""
TEMPLATE = (
    "{% for m in messages %}<user>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<agent>{% endif %}"
)
SIZES = {
    "vocab_size": 260, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
    "pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1,
}  # fmt: skip
MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "llama-biased": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True)),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=None)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=True)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=16)),
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(
            vocab_size=260, n_embd=32, n_layer=2, n_head=4, n_positions=128, bos_token_id=1, eos_token_id=1
        )
    ),
}
"""GPT-2 has absolute positions and no rotation."""
TARGETS = {"gpt2": ("c_attn", "c_proj", "c_fc")}
LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@pytest.fixture(scope="session")
def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, and a chat template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE({token: i for i, token in enumerate((*SPECIAL, *alphabet))}, []))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="<pad>",
        eos_token="<eos>",
        additional_special_tokens=["<user>", "<agent>"],
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


@pytest.fixture(scope="session")
def tiny_policy(byte_tokenizer: PreTrainedTokenizerFast) -> Callable[..., Policy]:
    """A function (family, adapters, dtype) -> policy with random weights and loud adapters (B far from 0).

    Ranks are 4, 5, ... in the order of the adapters.
    """

    def make(
        family: str = "llama",
        *,
        adapters: tuple[str, ...] = ("first", "second"),
        targets: tuple[str, ...] | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Policy:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = MODELS[family]()
            for name, parameter in model.named_parameters():
                scale, shift = (0.2, 0.0) if parameter.ndim > 1 or name.endswith("bias") else (0.2, 1.0)
                torch.nn.init.normal_(parameter, mean=shift, std=scale)
        policy = Policy(model.to(dtype), byte_tokenizer)
        for index, adapter in enumerate(adapters):
            layers = targets or TARGETS.get(family, LINEAR)
            policy.add(adapter, rank=4 + index, alpha=8, dropout=0.1, targets=layers, seed=(index,))
            shake(policy, adapter, seed=index)
        return policy

    return make


def shake(policy: Policy, adapter: str, *, seed: int, scale: float = 0.2) -> None:
    """Give every B of an adapter random values."""
    numbers = np.random.default_rng(seed)
    with torch.no_grad():
        for pair in policy.adapter(adapter).values():
            pair.B.copy_(torch.from_numpy(numbers.normal(scale=scale, size=tuple(pair.B.shape))))
