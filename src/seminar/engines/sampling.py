"""Logits and one uniform number a row in, one token a row and its log-probability out."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

BLOCK = 256
"""Tokens of the vocabulary summed together: the draw looks for its block first, then within the block."""
CHUNK_BYTES = 1 << 20
"""Probabilities computed at a time on a CPU; fits the cache of one core."""
NUCLEUS = 512
"""Most likely tokens among which top-p looks first; only rows that need more are sorted as a whole."""


class Drawn(NamedTuple):
    """One token a row."""

    ids: Tensor
    """int64 [N]"""
    logprobs: Tensor
    """float32 [N]: of the distribution that was drawn from."""


def uniforms(seed: tuple[int, ...], *, count: int) -> np.ndarray:
    """`count` numbers in [0, 1), float64, that depend on the key `seed` alone."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed))).random(count)


def draw(logits_NV: Tensor, *, temperature_N: Tensor, top_p_N: Tensor, uniform_N: Tensor) -> Drawn:
    """Draw from softmax(logits / temperature), within the nucleus of top_p where that is below 1.

    The token is the inverse of the cumulative distribution at `uniform_N` (float64): one number decides it. A
    nucleus is the smallest set of likeliest tokens whose mass reaches top_p (Holtzman et al. 2020), equally
    likely ones together; log-probabilities are then those within it. Temperature 0 takes the likeliest token
    and gives its log-probability at temperature 1. Logits that are not finite give log-probabilities that are
    not.
    """
    greedy = temperature_N == 0
    share = _softmax(logits_NV, torch.where(greedy, 1.0, temperature_N))
    cut = (top_p_N < 1) & ~greedy
    if cut.any():
        rows = cut.nonzero().squeeze(1)
        share[rows] = _nucleus(share[rows], top_p_N[rows])
    ids = _invert(share, uniform_N)
    if greedy.any():
        ids = torch.where(greedy, logits_NV.argmax(dim=-1), ids)
    return Drawn(ids, share.gather(1, ids[:, None]).squeeze(1).log())


def _softmax(logits_NV: Tensor, temperature_N: Tensor) -> Tensor:
    """float32 [N, V], a few rows at a time on a CPU."""
    count, vocabulary = logits_NV.shape
    share = torch.empty(count, vocabulary, dtype=torch.float32, device=logits_NV.device)
    inverse = temperature_N.float().reciprocal()[:, None]
    rows = max(1, CHUNK_BYTES // (4 * vocabulary)) if share.device.type == "cpu" else count
    for first in range(0, count, rows):
        part = slice(first, first + rows)
        torch.mul(logits_NV[part], inverse[part], out=share[part])
        torch.softmax(share[part], dim=-1, out=share[part])
    return share


def _nucleus(share_NV: Tensor, top_p_N: Tensor) -> Tensor:
    """Set what lies outside the nucleus to 0 and bring the rest to a sum of 1."""
    likely, _ = share_NV.topk(min(NUCLEUS, share_NV.shape[1]), dim=-1)
    wider = likely.sum(dim=-1) < top_p_N
    least = _least(likely, top_p_N)
    if wider.any():
        least[wider] = _least(share_NV[wider].sort(dim=-1, descending=True).values, top_p_N[wider])
    kept = share_NV.masked_fill(share_NV < least, 0.0)
    return kept / kept.sum(dim=-1, keepdim=True)


def _least(sorted_NX: Tensor, top_p_N: Tensor) -> Tensor:
    """Probability [N, 1] of the least likely token of the nucleus."""
    before = sorted_NX.cumsum(dim=-1) - sorted_NX
    last = (before < top_p_N[:, None]).sum(dim=-1, keepdim=True) - 1
    return sorted_NX.gather(1, last)


def _invert(share_NV: Tensor, uniform_N: Tensor) -> Tensor:
    """Token [N] at which the cumulative distribution passes `uniform_N`."""
    vocabulary = share_NV.shape[1]
    whole = vocabulary // BLOCK
    sums = share_NV[:, : whole * BLOCK].unflatten(1, (whole, BLOCK)).sum(dim=-1)
    if vocabulary % BLOCK:
        sums = torch.cat((sums, share_NV[:, whole * BLOCK :].sum(dim=-1, keepdim=True)), dim=1)
    block, inside = _find(sums.double(), uniform_N[:, None])
    index = block * BLOCK + torch.arange(BLOCK, device=share_NV.device)
    mass = share_NV.gather(1, index.clamp(max=vocabulary - 1)).double().masked_fill(index >= vocabulary, 0.0)
    place, _ = _find(mass, inside)
    return (block * BLOCK + place).squeeze(1).clamp_(max=vocabulary - 1)


def _find(mass_NX: Tensor, uniform_N1: Tensor) -> tuple[Tensor, Tensor]:
    """Place [N, 1] where the cumulative mass passes `uniform` of its total, and how far inside, in [0, 1]."""
    edges = mass_NX.cumsum(dim=-1)
    total = edges[:, -1:]
    target = torch.minimum(uniform_N1 * total, torch.nextafter(total, torch.zeros_like(total)))
    place = torch.searchsorted(edges, target, right=True).clamp_(
        max=mass_NX.shape[1] - 1
    )  # NaN finds no place
    here = mass_NX.gather(1, place)
    return place, ((target - edges.gather(1, place) + here) / here).clamp(0.0, 1.0)
