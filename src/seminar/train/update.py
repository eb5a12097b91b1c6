"""Samples of one agent -> forward, loss, backward, step; one adapter changes, everything else stays bit-identical."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi

import torch
from torch import Tensor

from seminar.errors import DivergenceError
from seminar.learn import losses
from seminar.learn.samples import pack
from seminar.models.policy import Policy
from seminar.types import Batch, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Learning rate over the steps of one agent: linear rise, then a cosine down to a floor."""

    lr: float
    """Peak rate."""
    steps: int
    warmup: float
    """Share of the steps over which the rate rises."""
    floor: float
    """Last rate as a share of the peak."""

    def rate(self, step: int) -> float:
        """Rate of the 0-based `step`; never 0, so that no step is wasted."""
        rise = round(self.warmup * self.steps)
        if step < rise:
            return self.lr * (step + 1) / (rise + 1)
        done = (step - rise) / max(1, self.steps - rise)
        return self.lr * (self.floor + (1 - self.floor) * (1 + cos(pi * done)) / 2)


class Learner:
    """The optimizer of one adapter: AdamW .9/.999, eps 1e-8, no decay (paper, table 6), one rate a step."""

    def __init__(self, policy: Policy, adapter: str, *, schedule: Schedule, max_grad_norm: float) -> None:
        """Make an optimizer over the adapter's own tensors."""
        self.adapter = adapter
        self.schedule = schedule
        self.max_grad_norm = max_grad_norm
        self.named = policy.parameters(adapter)
        self.optimizer = torch.optim.AdamW(
            self.named.values(), lr=schedule.lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0
        )

    def step(self, step: int) -> dict[str, float]:
        """Apply the gathered gradients at the rate of `step` and clear them."""
        rate = self.schedule.rate(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        norm = float(torch.nn.utils.clip_grad_norm_(self.named.values(), self.max_grad_norm))
        if norm != norm or norm == float("inf"):
            raise DivergenceError(
                f"step {step} of adapter {self.adapter}: the gradient norm is {norm}; nothing was changed. Lower lr, "
                "or look at the episodes of the last steps."
            )
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return {"lr": rate, "grad_norm": norm}

    def state(self) -> dict[str, Tensor]:
        """Optimizer tensors by `parameter.moment`; empty before the first step."""
        return {
            f"{name}.{key}": value
            for name, tensor in self.named.items()
            for key, value in self.optimizer.state.get(tensor, {}).items()
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take up where `state` left off."""
        for name, tensor in self.named.items():
            entries = {
                key: state[f"{name}.{key}"].clone()
                for key in ("step", "exp_avg", "exp_avg_sq")
                if f"{name}.{key}" in state
            }
            if entries:
                self.optimizer.state[tensor] = entries


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLoss:
    """Which loss, and its settings (see learn/losses.py)."""

    loss: losses.LossType
    clip_low: float
    clip_high: float
    beta: float
    reference: str | None
    """Adapter that plays the reference; None: the bare base."""
    max_completion: int
    """Completion limit in tokens: the constant of dr_grpo."""
    max_tokens: int
    """Most input tokens of one packed batch."""
    max_gap: float
    """Largest mean |engine - trainer| log-probability, nats a token."""


def update(
    policy: Policy, learner: Learner, samples: Sequence[Sample], *, step: int, seed: int, settings: PolicyLoss
) -> dict[str, float]:
    """One policy step of `learner`'s adapter on its own samples; metrics are means over trained tokens.

    On policy with one inner update the old log-probabilities are the new ones, detached: no pass for them. The
    reference runs under the same dropout masks, so that the penalty is exactly 0 while the adapter has not moved.
    """
    batches = pack(samples, max_tokens=settings.max_tokens)
    count = sum(s.weight for s in samples)
    tokens = sum(s.weight * len(s.completion_ids) for s in samples)
    denominator = losses.denominator(
        settings.loss, samples=count, tokens=tokens, max_tokens=settings.max_completion
    )
    sums: dict[str, float] = {}
    gap = check_gap(policy, batches, adapter=learner.adapter, limit=settings.max_gap)
    for number, batch in enumerate(batches):
        reference = _reference(policy, batch, settings=settings, seed=seed + number)
        with policy.active(learner.adapter), policy.dropout(learner.adapter, seed=seed + number):
            logprobs_C = policy.logprobs(batch)
        old_C = logprobs_C.detach()
        result = losses.policy_loss(
            logprobs_C,
            old_logprobs_C=old_C,
            ref_logprobs_C=reference,
            **tensors(batch, device=policy.device),
            loss=settings.loss,
            denominator=denominator,
            clip_low=settings.clip_low,
            clip_high=settings.clip_high,
            beta=settings.beta,
        )
        result.loss.backward()
        _add(
            sums,
            {**result.sums, "loss": float(result.loss.detach()) * tokens, "entropy": float(-old_C.sum())},
        )
    metrics = {name: value / max(tokens, 1.0) for name, value in sums.items()}
    return {**metrics, **learner.step(step), **gap, "tokens": tokens, "samples": count}


def imitate(
    policy: Policy, learner: Learner, samples: Sequence[Sample], *, step: int, seed: int, max_tokens: int
) -> dict[str, float]:
    """One step of imitation: mean token negative log-likelihood, mean over samples."""
    count = sum(s.weight for s in samples)
    tokens = sum(len(s.completion_ids) for s in samples)
    nll = 0.0
    for number, batch in enumerate(pack(samples, max_tokens=max_tokens)):
        with policy.active(learner.adapter), policy.dropout(learner.adapter, seed=seed + number):
            logprobs_C = policy.logprobs(batch)
        device = policy.device
        result = losses.imitation_loss(
            logprobs_C,
            sample_C=torch.from_numpy(batch.sample_C).to(device),
            length_S=torch.from_numpy(batch.length_S).to(device),
            weight_S=torch.from_numpy(batch.weight_S).to(device),
            denominator=count,
        )
        result.loss.backward()
        nll += result.sums["nll"]
    return {"nll": nll / tokens, **learner.step(step)}


def check_gap(policy: Policy, batches: Sequence[Batch], *, adapter: str, limit: float) -> dict[str, float]:
    """Mean and largest |engine - trainer| log-probability, measured without dropout on the first batch.

    A mean above `limit` means that the engine spoke with other weights than the trainer scores with: the run stops
    before anything is changed.
    """
    if not batches:
        return {}
    with policy.active(adapter), torch.no_grad():
        ours = policy.logprobs(batches[0]).cpu()
    gaps = (ours - torch.from_numpy(batches[0].engine_logprob_C)).abs()
    mean, largest = float(gaps.mean()), float(gaps.max())
    if not mean <= limit:
        raise DivergenceError(
            f"adapter {adapter}: engine and trainer differ by {mean:.3g} nats a token (largest {largest:.3g}) on the "
            f"same ids; update.max_gap allows {limit}. The engine serves other weights or another dtype; if the dtype "
            "is meant to differ, raise update.max_gap."
        )
    return {"gap": mean, "gap_max": largest}


def tensors(batch: Batch, *, device: torch.device) -> dict[str, Tensor]:
    """What the policy loss takes of a batch."""
    return {
        "advantages_C": torch.from_numpy(batch.advantage_C).to(device),
        "sample_C": torch.from_numpy(batch.sample_C).to(device),
        "length_S": torch.from_numpy(batch.length_S).to(device),
        "weight_S": torch.from_numpy(batch.weight_S).to(device),
    }


def _reference(policy: Policy, batch: Batch, *, settings: PolicyLoss, seed: int) -> Tensor | None:
    if settings.beta == 0:
        return None
    with torch.no_grad(), policy.active(settings.reference):
        if settings.reference is None:
            return policy.logprobs(batch)
        with policy.dropout(settings.reference, seed=seed):
            return policy.logprobs(batch)


def _add(sums: dict[str, float], more: dict[str, float]) -> None:
    for name, value in more.items():
        sums[name] = sums.get(name, 0.0) + value
