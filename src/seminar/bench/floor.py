"""A workload, a model's sizes and two measured rates -> the least time its arithmetic can take.

Counted are matrix products alone; norms, softmax, sampling and Python are not. With W weights in the linear
layers, L in the adapter, a head of V x H, attention width A (layers x heads x head width), n tokens of which
c are scored, and s pairs of a query and a key it may see:

| phase | floating-point operations |
|---|---|
| forward | 2 (W + L) n + 4 A s + 2 V H c |
| backward | 2 (W + 2 L) n + 8 A s + 2 V H c: gradients of inputs and of the adapter; the base is frozen |
| reference | 2 W n + 4 A s + 2 V H c; absent where beta is 0 |
| prefill | 2 W n + 4 A s + 2 V H c, each prompt once an agent, c = 1 a prompt |
| decode, one step | 2 (W + V H) rows + 4 A s; the first new token comes from the prefill |

Tokens n of an update count a prompt once for its whole group and leave out the last token of each completion,
which predicts nothing; pairs s are counted as if nothing masked were computed. The adapter is left out in
sampling, since it can be merged. A decode step takes the longer of two: its products at the measured matrix
rate; and reading the weights, the prompts' keys and values once and each row's own once at the measured copy
rate. Every other phase takes its products at the matrix rate.
"""

import time
from typing import NamedTuple

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from seminar.bench.scenarios import Scenario

PRODUCT = 2048
"""Side of the square matrices of the measured product."""
COPY_BYTES = 256 << 20
REPEATS = 5


class Rates(NamedTuple):
    """What the machine can do, measured beside the runs."""

    flops_s: float
    """Floating-point operations a second in a large square product in the run's dtype."""
    bytes_s: float
    """Bytes read plus bytes written a second in a large copy."""


class Sizes(NamedTuple):
    """Sizes of a model that its arithmetic follows from."""

    linear: int
    """Weights of all linear layers but the head (W)."""
    adapter: int
    """Weights of a LoRA on every linear layer (L)."""
    head: int
    """Vocabulary x hidden width (V H)."""
    attention: int
    """Layers x query heads x head width (A)."""
    kv: int
    """Numbers in the keys and values of one token, all layers."""


def measure_rates(*, dtype: torch.dtype, device: torch.device) -> Rates:
    """Best of five large products and five large copies; about half a second."""
    a = torch.ones(PRODUCT, PRODUCT, dtype=dtype, device=device)
    product, source = torch.empty_like(a), torch.ones(COPY_BYTES // 4, device=device)
    target = torch.empty_like(source)
    product_s = min(_seconds(lambda: torch.mm(a, a, out=product), device) for _ in range(REPEATS))
    copy_s = min(_seconds(lambda: target.copy_(source), device) for _ in range(REPEATS))
    return Rates(2 * PRODUCT**3 / product_s, 2 * COPY_BYTES / copy_s)


def sizes(model: str, *, rank: int) -> Sizes:
    """Count a model (folder or hub id) on the meta device, without its weights."""
    config = AutoConfig.from_pretrained(model)
    with torch.device("meta"):
        built = AutoModelForCausalLM.from_config(config)
    head = built.get_output_embeddings()
    linears = [m for m in built.modules() if isinstance(m, nn.Linear) and m is not head]
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    return Sizes(
        linear=sum(linear.weight.numel() for linear in linears),
        adapter=sum(rank * (linear.in_features + linear.out_features) for linear in linears),
        head=head.weight.numel(),
        attention=config.num_hidden_layers * config.num_attention_heads * width,
        kv=2 * config.num_hidden_layers * kv_heads * width,
    )


def floor(scenario: Scenario, size: Sizes, rates: Rates, *, bytes_each: int) -> dict[str, float]:
    """Least seconds of each phase of a workload; `bytes_each` is the width of a number in the run's dtype."""
    s = scenario
    pairs = s.agents * s.prompts * _packed_pairs(s.prompt_tokens, s.new_tokens - 1, s.group)
    score = 4 * size.attention * pairs + 2 * size.head * s.written
    forward = 2 * (size.linear + size.adapter) * s.inputs + score
    if s.kind == "score":
        return {"forward": forward / rates.flops_s}
    sampling = {
        "prefill": _prefill(s, size) / rates.flops_s,
        "decode": _decode(s, size, rates, bytes_each=bytes_each),
    }
    if s.kind == "sample":
        return sampling
    backward = forward + 2 * size.adapter * s.inputs + 4 * size.attention * pairs
    reference = {"reference": (2 * size.linear * s.inputs + score) / rates.flops_s} if s.beta else {}
    return {
        **sampling,
        **reference,
        "forward": forward / rates.flops_s,
        "backward": backward / rates.flops_s,
    }


def _prefill(s: Scenario, size: Sizes) -> float:
    prompts = s.agents * s.prompts
    pairs = prompts * _causal_pairs(s.prompt_tokens)
    return 2 * size.linear * prompts * s.prompt_tokens + 4 * size.attention * pairs + 2 * size.head * prompts


def _decode(s: Scenario, size: Sizes, rates: Rates, *, bytes_each: int) -> float:
    seconds = 0.0
    for own in range(1, s.new_tokens):  # tokens of its own that a row sees in the step, the one fed included
        seen = s.rows * (s.prompt_tokens + own)
        flops = 2 * (size.linear + size.head) * s.rows + 4 * size.attention * seen
        kept = s.agents * s.prompts * s.prompt_tokens + s.rows * own
        read = bytes_each * (size.linear + size.head + size.kv * kept)
        seconds += max(flops / rates.flops_s, read / rates.bytes_s)
    return seconds


def _packed_pairs(prompt: int, new: int, group: int) -> int:
    """Pairs of a query and a key it sees in one prompt with `group` completions of `new` tokens."""
    return _causal_pairs(prompt) + group * (new * prompt + _causal_pairs(new))


def _causal_pairs(tokens: int) -> int:
    return tokens * (tokens + 1) // 2


def _seconds(work: object, device: torch.device) -> float:
    began = time.perf_counter()
    work()  # type: ignore[operator]
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began
