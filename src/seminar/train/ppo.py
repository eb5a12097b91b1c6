"""Rewarded drafts of one agent -> one update of its adapter and value head: PPO, value loss and imitation.

L = L_PPO + value * L_value + alpha * L_imitation (DRAFT-RL, arXiv 2511.20468, eq. 8 to 10). Every term is a
sum divided by a denominator that is fixed for the whole update, so any split into micro-batches gives the
same gradient.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seminar.learn import losses
from seminar.learn.gae import gae
from seminar.learn.samples import origins, pack
from seminar.models.policy import Policy
from seminar.train.update import Learner, add, check_gap, engine_gap, reference_logprobs, tensors
from seminar.types import Batch, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewarded:
    """One draft and the reward that came with its last token."""

    sample: Sample
    """Its prompt, tokens and temperature; its advantages are made here."""
    reward: float
    units_T: NDArray[np.int64]
    """Number of the Chain-of-Draft step of each token, or of the token itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PpoLoss:
    """Settings of the update (see config_draft.DraftTraining)."""

    clip: float
    value: float
    value_clip: float
    beta: float
    reference: str | None
    """Adapter that plays the reference; None: the bare base."""
    gamma: float
    lam: float
    epochs: int
    imitation: float
    """alpha."""
    max_tokens: int
    """Most input tokens of one packed batch."""
    max_gap: float
    """Largest mean |engine - trainer| log-probability, nats a token."""


class Updated(NamedTuple):
    """What an update did."""

    metrics: dict[str, float]
    advantages: list[float]
    """Mean advantage over the tokens of each rewarded draft, in order: for people to read."""


class _Frozen(NamedTuple):
    """What stays as it was when the drafts were sampled, by token of one batch."""

    logprobs_C: Tensor
    values_C: Tensor
    advantages_C: Tensor
    targets_C: Tensor


def update_agent(
    policy: Policy,
    learner: Learner,
    drafts: Sequence[Rewarded],
    imitated: Sequence[Sample],
    *,
    step: int,
    seed: int,
    settings: PpoLoss,
) -> Updated:
    """`settings.epochs` optimizer steps of one agent on its own drafts and on what it should imitate.

    In the first epoch the old log-probabilities and values are the new ones, detached: the ratio is exactly 1
    at every temperature and no pass is spent on them. They and the advantages stay for the epochs that
    follow, which run under the same dropout masks, so that a ratio moves by what was learned alone. Without a
    draft and without anything to imitate nothing changes. Raises DivergenceError.
    """
    if not drafts and not imitated:
        return Updated({"tokens": 0.0}, [])
    samples = [draft.sample for draft in drafts]
    batches = pack(samples, max_tokens=settings.max_tokens)
    order = origins(samples, max_tokens=settings.max_tokens)
    gap: dict[str, float] = {}
    gaps: list[Tensor] = []
    frozen: list[_Frozen] = []
    sums: dict[str, float] = {}
    steps: dict[str, float] = {}
    for epoch in range(settings.epochs):
        for number, batch in enumerate(batches):
            logprobs_C, values_C = _forward(policy, learner, batch, seed=seed + number)
            if epoch == 0 and (number == 0 or not policy.drops(learner.adapter)):
                gaps.append(engine_gap(policy, batch, logprobs_C.detach(), adapter=learner.adapter))
            if number == len(frozen):
                frozen.append(
                    _freeze(
                        batch, [drafts[i] for i in order[number]], logprobs_C, values_C, settings=settings
                    )
                )
            reference = reference_logprobs(
                policy, batch, beta=settings.beta, reference=settings.reference, seed=seed + number
            )
            loss, found = _terms(
                batch, logprobs_C, values_C, frozen[number], reference, count=len(drafts), settings=settings
            )
            loss.backward()
            add(sums, found)
        if settings.imitation > 0:
            nll = _imitate(policy, learner, imitated, seed=seed + len(batches), settings=settings)
            add(sums, {"nll": nll})
        if epoch == 0:
            gap = check_gap(gaps, adapter=learner.adapter, limit=settings.max_gap)
        steps = learner.step(step)
    tokens = float(sum(len(s.completion_ids) for s in samples))
    passes = settings.epochs
    metrics = {
        "clipped": sums.get("clipped", 0.0) / max(tokens * passes, 1.0),
        "value_error": sums.get("error", 0.0) / max(sums.get("units", 0.0), 1.0),
        "nll": sums.get("nll", 0.0) / max(passes * sum(len(s.completion_ids) for s in imitated), 1),
        "entropy": sum(float(-old.logprobs_C.sum()) for old in frozen) / max(tokens, 1.0),
        **({"kl": sums["kl"] / max(tokens * passes, 1.0)} if "kl" in sums else {}),
    }
    return Updated(
        {**metrics, **steps, **gap, "tokens": tokens, "samples": float(len(samples))},
        _by_draft(batches, order, frozen, count=len(drafts)),
    )


def _forward(policy: Policy, learner: Learner, batch: Batch, *, seed: int) -> tuple[Tensor, Tensor]:
    """Log-probabilities [C] and values [C] of a batch, with gradients, from one pass."""
    assert learner.head is not None, "an agent that learns by PPO has a value head"
    with policy.active(learner.adapter), policy.dropout(learner.adapter, seed=seed):
        hidden_NH = policy.hidden(batch)
        logprobs_C = policy.logprobs(batch, hidden=hidden_NH)
    source_C = torch.from_numpy(batch.source_C).to(policy.device)
    return logprobs_C, learner.head(hidden_NH[source_C])


def _freeze(
    batch: Batch, drafts: Sequence[Rewarded], logprobs_C: Tensor, values_C: Tensor, *, settings: PpoLoss
) -> _Frozen:
    """Generalised advantages of each draft from its values as they are now."""
    old = values_C.detach()
    pieces = np.split(old.cpu().numpy(), np.cumsum(batch.length_S)[:-1])
    credit = [
        gae(values, reward=draft.reward, units_T=draft.units_T, gamma=settings.gamma, lam=settings.lam)
        for values, draft in zip(pieces, drafts, strict=True)
    ]
    return _Frozen(
        logprobs_C.detach(),
        old,
        old.new_tensor(np.concatenate([c.advantages_T for c in credit])),
        old.new_tensor(np.concatenate([c.targets_T for c in credit])),
    )


def _terms(
    batch: Batch,
    logprobs_C: Tensor,
    values_C: Tensor,
    old: _Frozen,
    reference_C: Tensor | None,
    *,
    count: int,
    settings: PpoLoss,
) -> tuple[Tensor, dict[str, float]]:
    """L_PPO + value * L_value of one batch: mean over tokens (units) of a draft, mean over `count` drafts."""
    shapes = tensors(batch, device=logprobs_C.device)
    ppo = losses.policy_loss(
        logprobs_C,
        old_logprobs_C=old.logprobs_C,
        ref_logprobs_C=reference_C,
        **{**shapes, "advantages_C": old.advantages_C},
        loss="grpo",
        denominator=count,
        clip_low=settings.clip,
        clip_high=settings.clip,
        beta=settings.beta,
    )
    value = losses.value_loss(
        values_C,
        old_values_C=old.values_C,
        targets_C=old.targets_C,
        sample_C=shapes["sample_C"],
        weight_S=shapes["weight_S"],
        clip=settings.value_clip,
        denominator=count,
    )
    return ppo.loss + settings.value * value.loss, {**ppo.sums, **value.sums}


def _imitate(
    policy: Policy, learner: Learner, samples: Sequence[Sample], *, seed: int, settings: PpoLoss
) -> float:
    """Gradient of alpha * L_imitation: mean token negative log-likelihood, mean over samples."""
    nll = 0.0
    for number, batch in enumerate(pack(samples, max_tokens=settings.max_tokens)):
        with policy.active(learner.adapter), policy.dropout(learner.adapter, seed=seed + number):
            logprobs_C = policy.logprobs(batch)
        shapes = tensors(batch, device=logprobs_C.device)
        result = losses.imitation_loss(
            logprobs_C,
            sample_C=shapes["sample_C"],
            length_S=shapes["length_S"],
            weight_S=shapes["weight_S"],
            denominator=len(samples),
        )
        (settings.imitation * result.loss).backward()
        nll += result.sums["nll"]
    return nll


def _by_draft(
    batches: Sequence[Batch], order: Sequence[NDArray[np.int64]], frozen: Sequence[_Frozen], *, count: int
) -> list[float]:
    means = [0.0] * count
    for batch, places, old in zip(batches, order, frozen, strict=True):
        pieces = np.split(old.advantages_C.cpu().numpy(), np.cumsum(batch.length_S)[:-1])
        for place, piece in zip(places, pieces, strict=True):
            means[place] = float(piece.mean())
    return means
