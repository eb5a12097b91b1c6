"""Token ids, segments and review scores of one draft -> one logit: the transformer encoder behind R_phi.

DRAFT-RL (arXiv 2511.20468, section 4) names a 12-layer transformer of 100 M parameters and no more. Ours is
transformers' ModernBERT (Warner et al. 2024), built from its config and trained from scratch: pre-norm, so
that 12 layers learn without a warm-up ritual; rotary positions, so that no length is wired in; sdpa on every
device. Any pretrained encoder of transformers can stand in its place.
"""

import os
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, ModernBertConfig, PreTrainedConfig, PreTrainedModel

from seminar.errors import ConfigError, ModelError

SEGMENTS = 3
"""0 question, 1 draft, 2 reviews."""
TOLERANCE = 0.05
"""Largest relative distance between the budget and the parameters of the solved width."""
_GRAIN = 16
"""Widths are multiples of this."""


class Inputs(NamedTuple):
    """A padded batch: B drafts, T tokens, F numbers a review."""

    ids_BT: Tensor
    """Token ids, int64; -1 where a position holds a review's numbers and no token."""
    segment_BT: Tensor
    """Segment of each position, int64; -1 is padding."""
    numbers_BTF: Tensor
    """A review's numbers at its own position, float32; 0 elsewhere."""


class RewardEncoder(nn.Module):
    """An encoder over question, draft and reviews with a one-logit head; sigmoid of the logit is R_phi."""

    def __init__(self, encoder: PreTrainedModel, *, numbers: int) -> None:
        """Put a head on `encoder`; `numbers` is F, the numbers a review brings."""
        super().__init__()
        width = encoder.config.hidden_size
        self.encoder = encoder
        self.segments = nn.Embedding(SEGMENTS, width)
        self.numbers = nn.Linear(numbers, width, bias=False)
        self.out = nn.Linear(width, 1)
        for weight in (self.segments.weight, self.out.weight, self.out.bias):
            nn.init.zeros_(weight)

    @property
    def vocab(self) -> int:
        """Number of token ids it knows."""
        return int(self.encoder.config.vocab_size)

    def forward(self, inputs: Inputs) -> Tensor:
        """Logits [B]: the mean of the last hidden states over draft and reviews, through the head.

        A review's numbers enter as one position of their own in front of its feedback: exact, any number of
        reviewers, and no digits to learn. The question is read by attention and left out of the mean, so that
        what differs between drafts of a question is what counts.
        """
        ids, segment, numbers = inputs
        words = self.encoder.get_input_embeddings()(ids.clamp(min=0)) * (ids >= 0)[..., None]
        embedded = words + self.segments(segment.clamp(min=0)) + self.numbers(numbers)
        mask = segment >= 0
        hidden = self.encoder(inputs_embeds=embedded, attention_mask=mask.long()).last_hidden_state
        shown = (segment > 0)[..., None]
        pooled = torch.where(shown, hidden, 0.0).sum(1) / shown.sum(1).clamp(min=1)
        logits: Tensor = self.out(pooled).squeeze(-1)
        return logits


def build_encoder(*, layers: int, vocab: int, width: int, numbers: int, seed: int) -> RewardEncoder:
    """A blank encoder whose weights depend on `seed` alone."""
    return from_config(encoder_config(layers=layers, vocab=vocab, width=width), numbers=numbers, seed=seed)


def from_config(config: PreTrainedConfig, *, numbers: int, seed: int) -> RewardEncoder:
    """A blank encoder of any architecture of transformers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # the fork keeps it private
        encoder = AutoModel.from_config(config, dtype=torch.float32)
        return RewardEncoder(encoder, numbers=numbers)


def from_pretrained(path: str | os.PathLike[str], *, numbers: int, seed: int) -> RewardEncoder:
    """An encoder that starts from pretrained weights, by folder or hub id; its own tokenizer goes with it."""
    try:
        encoder = AutoModel.from_pretrained(path, dtype=torch.float32)
    except (OSError, ValueError) as error:
        raise _unloadable(path, error) from error
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # the fork keeps it private
        return RewardEncoder(encoder, numbers=numbers)


def check_positions(encoder: RewardEncoder, *, max_tokens: int) -> None:
    """Raise ConfigError where inputs of `max_tokens` would run past the positions an encoder learned."""
    known = getattr(encoder.encoder.config, "max_position_embeddings", None)
    if known is not None and known < max_tokens:
        raise ConfigError(
            f"reward_model.max_tokens is {max_tokens}; reward_model.pretrained knows {known} positions. Use "
            f"max_tokens: {known} or fewer."
        )


def pretrained_size(path: str | os.PathLike[str]) -> tuple[int, int, int]:
    """Parameters, layers and width of a pretrained encoder, without its weights. Raises ModelError."""
    try:
        config = AutoConfig.from_pretrained(path)
        with torch.device("meta"):
            count = sum(t.numel() for t in AutoModel.from_config(config).parameters())
    except (OSError, ValueError) as error:
        raise _unloadable(path, error) from error
    return count, config.num_hidden_layers, config.hidden_size


def encoder_config(*, layers: int, vocab: int, width: int) -> ModernBertConfig:
    """ModernBERT's config at this size: gated feed-forward of 2.5 widths, full attention in every layer."""
    return ModernBertConfig(
        vocab_size=vocab,
        hidden_size=width,
        intermediate_size=width * 5 // 2,
        num_hidden_layers=layers,
        num_attention_heads=_heads(width),
        layer_types=["full_attention"] * layers,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
        cls_token_id=None,
        sep_token_id=None,
    )


def count_parameters(*, layers: int, vocab: int, width: int, numbers: int) -> int:
    """Parameters of `build_encoder`'s model, without building it.

    A layer has 4 d^2 in attention, 3 * 2.5 d^2 in the feed-forward and two norms (the first layer has one);
    beside the layers stand the embedding and its norm, the last norm, the segments, a review's numbers and
    the head.
    """
    d = width
    layer = 4 * d * d + 3 * d * (d * 5 // 2) + 2 * d
    return layers * layer - d + vocab * d + 2 * d + SEGMENTS * d + numbers * d + d + 1


def solve_width(*, layers: int, vocab: int, budget: int, numbers: int) -> int:
    """The width whose model has nearest to `budget` parameters: 100 M and 12 layers are the paper's.

    Raises ConfigError where no width comes within 5 % (a vocabulary too large for the budget).
    """

    def miss(width: int) -> float:
        return abs(count_parameters(layers=layers, vocab=vocab, width=width, numbers=numbers) / budget - 1)

    widest = max(1, budget // (vocab * _GRAIN)) + 1
    best = min(range(_GRAIN, _GRAIN * (widest + 1), _GRAIN), key=miss)
    if layers < 1 or miss(best) > TOLERANCE:
        have = count_parameters(layers=layers, vocab=vocab, width=best, numbers=numbers)
        raise ConfigError(
            f"reward_model: {layers} layers over a vocabulary of {vocab} have {have:,} parameters at the "
            f"nearest width {best}; the budget of {budget:,} must be met within {TOLERANCE:.0%}. Change the "
            "budget or the number of layers."
        )
    return best


def _unloadable(path: str | os.PathLike[str], error: Exception) -> ModelError:
    reason = str(error).strip().splitlines()[0]
    return ModelError(
        f"reward_model.pretrained {path} cannot be loaded: {reason} Give an encoder's folder or hub id."
    )


def _heads(width: int) -> int:
    """Eight heads, fewer where they would be narrower than 16; always an even size (rotary positions)."""
    return min(8, width // _GRAIN)
