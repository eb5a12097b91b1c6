"""Sequences of token ids -> what they begin with alike, so that it is run once."""

from collections.abc import Sequence
from itertools import pairwise, takewhile


def shared_prefix(prompts: Sequence[Sequence[int]]) -> int:
    """Length of the prefix that spares most tokens if it is run once for all sorted `prompts` that have it.

    It leaves every prompt at least one token of its own.
    """
    shortest = max(1, min(map(len, prompts)))
    common = [
        sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
        for one, other in pairwise(prompts)
    ]
    lengths = sorted((min(length, shortest - 1) for length in common), reverse=True)
    spared = {length: length * count for count, length in enumerate(lengths, start=1)}
    return max(spared, key=spared.__getitem__, default=0)
