"""Samples of one agent -> forward, loss, backward, step; one adapter changes, everything else stays
bit-identical."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi

import torch
from torch import Tensor

from seminar.errors import DivergenceError
from seminar.learn import losses
from seminar.learn.samples import pack
from seminar.models.heads import ValueHead
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
    """The optimizer of one adapter: AdamW .9/.999, eps 1e-8, no decay (paper, table 6), one rate a step.

    An agent that learns values has a head beside its adapter; both are stepped, kept and restored together.
    """

    def __init__(
        self,
        policy: Policy,
        adapter: str,
        *,
        schedule: Schedule,
        max_grad_norm: float,
        head: ValueHead | None = None,
        head_lr: float = 0.0,
    ) -> None:
        """Make an optimizer over the adapter's own tensors and those of `head`, which has `head_lr` at the
        peak."""
        self.adapter = adapter
        self.schedule = schedule
        self.max_grad_norm = max_grad_norm
        self.head = head
        weights = policy.parameters(adapter)
        values = {} if head is None else {f"value.{name}": t for name, t in head.named_parameters()}
        self.named: dict[str, Tensor] = {**weights, **values}
        groups = [{"params": list(weights.values()), "scale": 1.0}]
        if values:
            groups.append({"params": list(values.values()), "scale": head_lr / schedule.lr})
        self.optimizer = torch.optim.AdamW(
            groups, lr=schedule.lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0
        )

    def step(self, step: int) -> dict[str, float]:
        """Apply the gathered gradients at the rate of `step` and clear them."""
        rate = self.schedule.rate(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["scale"]
        norm = float(torch.nn.utils.clip_grad_norm_(self.named.values(), self.max_grad_norm))
        if norm != norm or norm == float("inf"):
            raise DivergenceError(
                f"step {step} of adapter {self.adapter}: the gradient norm is {norm}; nothing was changed. "
                f"Lower lr, "
                "or look at the episodes of the last steps."
            )
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return {"lr": rate, "grad_norm": norm}

    def state(self) -> dict[str, Tensor]:
        """Optimizer tensors by `parameter.moment`; empty before the first step."""
        return optimizer_state(self.optimizer, self.named)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take up where `state` left off."""
        restore_optimizer(self.optimizer, self.named, state)


def optimizer_state(optimizer: torch.optim.Optimizer, named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Moments and step counts by `parameter.moment`; empty before the first step."""
    return {
        f"{name}.{key}": value
        for name, tensor in named.items()
        for key, value in optimizer.state.get(tensor, {}).items()
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, named: Mapping[str, Tensor], state: Mapping[str, Tensor]
) -> None:
    """Take up where `optimizer_state` left off; moments lie beside their parameter, steps on the CPU."""
    optimizer.state.clear()
    for name, tensor in named.items():
        if f"{name}.step" in state:
            optimizer.state[tensor] = {
                key: state[f"{name}.{key}"].clone().to("cpu" if key == "step" else tensor.device)
                for key in ("step", "exp_avg", "exp_avg_sq")
            }


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

    On policy with one inner update the old log-probabilities are the new ones, detached: no pass for them.
    Without a penalty, samples of advantage 0 have no gradient and are not run; means count them all the same.
    The reference runs under the same dropout masks, so that the penalty is exactly 0 while the adapter has
    not moved.
    """
    run, flat = (samples, []) if settings.beta else _without_flat(samples)
    batches = pack(run, max_tokens=settings.max_tokens)
    count = sum(s.weight for s in samples)
    tokens = sum(s.weight * len(s.completion_ids) for s in samples)
    denominator = losses.denominator(
        settings.loss, samples=count, tokens=tokens, max_tokens=settings.max_completion
    )
    sums: dict[str, float] = {"entropy": -sum(sum(s.engine_logprobs or ()) for s in flat)}
    gaps: list[Tensor] = []
    for number, batch in enumerate(batches):
        reference = reference_logprobs(
            policy, batch, beta=settings.beta, reference=settings.reference, seed=seed + number
        )
        with policy.active(learner.adapter), policy.dropout(learner.adapter, seed=seed + number):
            logprobs_C = policy.logprobs(batch)
        old_C = logprobs_C.detach()
        if number == 0 or not policy.drops(learner.adapter):
            gaps.append(engine_gap(policy, batch, old_C, adapter=learner.adapter))
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
        add(
            sums,
            {**result.sums, "loss": float(result.loss.detach()) * tokens, "entropy": float(-old_C.sum())},
        )
    gap = check_gap(gaps, adapter=learner.adapter, limit=settings.max_gap)
    metrics = {name: value / max(tokens, 1.0) for name, value in sums.items()}
    return {**metrics, **learner.step(step), **gap, "tokens": tokens, "samples": count}


def _without_flat(samples: Sequence[Sample]) -> tuple[list[Sample], list[Sample]]:
    """Samples to run, at least one so that the engine is compared in every step; those that need not be."""
    run = [s for s in samples if any(s.advantages) or s.engine_logprobs is None] or list(samples[:1])
    kept = {id(s) for s in run}
    return run, [s for s in samples if id(s) not in kept]


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


def engine_gap(policy: Policy, batch: Batch, logprobs_C: Tensor, *, adapter: str) -> Tensor:
    """|engine - trainer| log-probability of each token, dropout off.

    Without dropout the training forward's own `logprobs_C` are compared, for free; with it the batch is
    scored again.
    """
    if policy.drops(adapter):
        with policy.active(adapter), torch.no_grad():
            logprobs_C = policy.logprobs(batch)
    return (logprobs_C.cpu() - torch.from_numpy(batch.engine_logprob_C)).abs()


def check_gap(gaps: Sequence[Tensor], *, adapter: str, limit: float) -> dict[str, float]:
    """Mean and largest gap between engine and trainer.

    A mean above `limit` means that the engine spoke with other weights than the trainer scores with: the run
    stops before anything is changed.
    """
    if not gaps:
        return {}
    gap_C = torch.cat(list(gaps))
    mean, largest = float(gap_C.mean()), float(gap_C.max())
    if not mean <= limit:
        raise DivergenceError(
            f"adapter {adapter}: engine and trainer differ by {mean:.3g} nats a token (largest "
            f"{largest:.3g}) on the "
            f"same ids; update.max_gap allows {limit}. The engine serves other weights or another dtype; if "
            f"the dtype "
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


def reference_logprobs(
    policy: Policy, batch: Batch, *, beta: float, reference: str | None, seed: int
) -> Tensor | None:
    """Log-probabilities under the reference (None: the bare base) and the same dropout; None where beta
    is 0."""
    if beta == 0:
        return None
    with torch.no_grad(), policy.active(reference):
        if reference is None:
            return policy.logprobs(batch)
        with policy.dropout(reference, seed=seed):
            return policy.logprobs(batch)


def add(sums: dict[str, float], more: Mapping[str, float]) -> None:
    """Add `more` to the sums of the same names."""
    for name, value in more.items():
        sums[name] = sums.get(name, 0.0) + value
