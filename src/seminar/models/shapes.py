"""A base model's config -> exact parameter counts, without weights: the model is built on the meta device and
counted."""

from pathlib import Path
from typing import NamedTuple

import torch
from peft import LoraConfig
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig

from seminar.errors import ModelError
from seminar.models.embedded import resolve
from seminar.models.lora import adapted

FOLDER = Path(__file__).parent / "shapes"
"""Config files of base models that recipes name, so that a plan needs no hub."""

KNOWN = {
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": "r1-distill-qwen-1.5b",
    "Qwen/Qwen2.5-1.5B-Instruct": "qwen2.5-1.5b-instruct",
}


class Shapes(NamedTuple):
    """Sizes that memory and arithmetic follow from."""

    base: int
    """Parameters of the base."""
    trainable: int
    """Parameters of one adapter."""
    layers: int
    hidden: int
    inner: int
    """Width of the feed-forward layers."""
    kv: int
    """Width of keys (and of values) of one layer."""
    vocabulary: int


def shapes(model: str, *, rank: int, targets: tuple[str, ...]) -> Shapes:
    """Count `model` (hub id, folder or embedded name) with one adapter of `rank` on `targets`."""
    source = str(FOLDER / KNOWN[model]) if model in KNOWN else resolve(model)
    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(source)
        with torch.device("meta"):
            built = AutoModelForCausalLM.from_config(config)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelError(
            f"base.model {model}: its config cannot be read: {reason} Give a hub id or a folder."
        ) from error
    base = sum(p.numel() for p in built.parameters())
    try:
        peft = adapted(built, LoraConfig(r=rank, target_modules=list(targets)), low_cpu_mem_usage=True)
    except ValueError as error:
        raise ModelError(
            f"lora.targets {', '.join(targets)} do not fit {model}: {str(error).splitlines()[0]}"
        ) from error
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return Shapes(
        base=base,
        trainable=peft.get_nb_trainable_parameters()[0],
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        inner=getattr(config, "intermediate_size", None) or 4 * config.hidden_size,
        kv=heads * width,
        vocabulary=config.vocab_size,
    )
