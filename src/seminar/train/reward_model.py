"""Scored drafts -> a better R_phi: a bounded replay buffer, an optimizer, and their state for the checkpoint.

DRAFT-RL (arXiv 2511.20468, Algorithm 1): R_phi is updated in every iteration from the observed rewards.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from seminar.errors import DivergenceError, RunError
from seminar.rewards.model import Encoded, Evidence, RewardModel, batches, check_fingerprint, fingerprint
from seminar.tasks.review_form import Review
from seminar.train.update import optimizer_state, restore_optimizer

MICRO_TOKENS = 4_096
"""Most padded tokens of one forward pass with gradients; any split gives the same gradient."""
MAX_GRAD_NORM = 1.0
WEIGHT_DECAY = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What one question taught: its drafts, and what they turned out to be worth."""

    question: str
    """Id of the task."""
    shown: tuple[Evidence, ...]
    targets: tuple[float, ...]
    """Observed reward of each draft, in [0, 1]."""

    def __post_init__(self) -> None:
        """Hold our own callers to the ranges."""
        assert len(self.shown) == len(self.targets) > 0, "one target a draft"
        assert all(0 <= target <= 1 for target in self.targets), "targets lie in [0, 1]"


class RewardLearner:
    """Trains R_phi on the last questions, whole questions at a time."""

    def __init__(self, model: RewardModel, *, lr: float, graded: bool, capacity: int, seed: int) -> None:
        """Make an AdamW optimizer over `model`.

        `graded`: squared error, for targets that are degrees; else cross-entropy, for targets 0 and 1.
        `capacity`: questions kept; the oldest go first. `seed`: what a step sees depends on it and on the
        step's number alone; there is no random state to keep.
        """
        self.model = model
        self.graded = graded
        self.seed = seed
        self.steps = 0
        self._lessons: deque[Lesson] = deque(maxlen=capacity)
        self._encoded: deque[list[Encoded]] = deque(maxlen=capacity)
        self._named = dict(model.encoder.named_parameters())
        self._optimizer = torch.optim.AdamW(self._named.values(), lr=lr, weight_decay=WEIGHT_DECAY)

    def remember(self, lesson: Lesson) -> None:
        """Add what a question taught."""
        self._lessons.append(lesson)
        self._encoded.append([self.model.encode(one) for one in lesson.shown])

    def update(self, *, steps: int, questions: int) -> dict[str, float]:
        """Take `steps` steps on `questions` questions each; metrics are means over the steps.

        Metrics: loss, grad_norm, drafts, cut_tokens; and what the buffer
        holds. Without a question to learn from nothing changes and the loss is absent. Raises
        DivergenceError.
        """
        taken = [self._step(questions) for _ in range(steps)]
        means = {
            name: float(np.mean([metrics[name] for metrics in taken if name in metrics]))
            for name in dict.fromkeys(name for metrics in taken for name in metrics)
        }
        return {**means, "buffer": float(len(self._lessons))}

    def state(self) -> dict[str, Tensor]:
        """Weights and optimizer moments by name."""
        weights = {f"weights.{name}": tensor.detach() for name, tensor in self._named.items()}
        moments = optimizer_state(self._optimizer, self._named)
        return {**weights, **{f"optimizer.{name}": value for name, value in moments.items()}}

    def facts(self) -> dict[str, Any]:
        """The rest of the state, JSON-able: steps taken, the buffer, the tokenizer's fingerprint."""
        return {
            "steps": self.steps,
            "lessons": [asdict(lesson) for lesson in self._lessons],
            "tokenizer": fingerprint(self.model.tokenize),
        }

    def restore(self, state: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Go on where `state` and `facts` left off, bit for bit.

        Raises ModelError (another tokenizer), RunError (another size of encoder).
        """
        check_fingerprint(facts["tokenizer"], self.model.tokenize, where="the checkpoint's reward model")
        for name, tensor in self._named.items():
            saved = state.get(f"weights.{name}")
            if saved is None or saved.shape != tensor.shape:
                raise RunError(
                    f"the checkpoint's reward model has {name} of shape "
                    f"{None if saved is None else tuple(saved.shape)}; this run needs {tuple(tensor.shape)}. "
                    "Resume with the reward_model settings the run was started with."
                )
            with torch.no_grad():
                tensor.copy_(saved)
        prefix = "optimizer."
        moments = {name.removeprefix(prefix): t for name, t in state.items() if name.startswith(prefix)}
        restore_optimizer(self._optimizer, self._named, moments)
        self.steps = facts["steps"]
        self._lessons.clear()
        self._encoded.clear()
        for lesson in facts["lessons"]:
            self.remember(_lesson(lesson))

    def _step(self, questions: int) -> dict[str, float]:
        numbers = np.random.default_rng((self.seed, self.steps))
        self.steps += 1
        if not self._lessons:
            return {}
        chosen = numbers.permutation(len(self._lessons))[:questions]
        encoded = [one for q in chosen for one in self._encoded[q]]
        target_D = np.concatenate([self._lessons[q].targets for q in chosen])
        sizes = [len(self._lessons[q].shown) for q in chosen]
        weight_D = np.repeat([1 / (size * len(chosen)) for size in sizes], sizes)
        loss = sum(
            self._backward([encoded[i] for i in batch], target_D[batch], weight_D[batch])
            for batch in batches(encoded, max_tokens=MICRO_TOKENS)
        )
        norm = float(torch.nn.utils.clip_grad_norm_(self._named.values(), MAX_GRAD_NORM))
        if not np.isfinite([loss, norm]).all():
            raise DivergenceError(
                f"step {self.steps - 1} of the reward model: loss {loss}, gradient norm {norm}; its weights "
                "were not changed. Lower reward_model.lr."
            )
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        cut = float(sum(one.cut for one in encoded))
        return {"loss": loss, "grad_norm": norm, "drafts": float(len(encoded)), "cut_tokens": cut}

    def _backward(
        self, encoded: Sequence[Encoded], target_B: NDArray[np.float64], weight_B: NDArray[np.float64]
    ) -> float:
        """Gradient of the weighted sum of the losses; returns that sum."""
        logits = self.model.encoder(self.model.inputs(encoded))
        target = logits.new_tensor(target_B)
        if self.graded:
            losses = (torch.sigmoid(logits) - target) ** 2
        else:
            losses = binary_cross_entropy_with_logits(logits, target, reduction="none")
        loss = (losses * logits.new_tensor(weight_B)).sum()
        loss.backward()
        return float(loss.detach())


def _lesson(facts: Mapping[str, Any]) -> Lesson:
    """The lesson that `asdict` and JSON made `facts` of."""
    shown = tuple(
        Evidence(
            question=one["question"],
            draft=one["draft"],
            reviews=tuple(None if review is None else Review(**review) for review in one["reviews"]),
        )
        for one in facts["shown"]
    )
    return Lesson(question=facts["question"], shown=shown, targets=tuple(facts["targets"]))
