"""Question, draft and reviews -> R_phi in (0, 1): what the reward model sees, and what it says of it.

DRAFT-RL (arXiv 2511.20468, eq. 6). Gold is no part of the evidence: there is no field that could hold it.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoTokenizer

from seminar.errors import ModelError
from seminar.models.reward_encoder import Inputs, RewardEncoder, from_config
from seminar.protocols.drafts import public
from seminar.tasks.review_form import CRITERIA, Review
from seminar.tasks.statement import statement
from seminar.types import Task

Tokenize = Callable[[str], Sequence[int]]
"""Text -> token ids without special tokens (`agents.chat.Chat.encode_text`)."""

NUMBERS = 2 * (len(CRITERIA) + 1)
"""Numbers a review brings: six scores, and for each whether it was given."""
PREDICT_TOKENS = 16_384
"""Most padded tokens of one forward pass without gradients."""

_PROBE = 'Ann has 12 apples, x_1 = \\frac{3}{4}.\n#### 12,5% Ünï 数 {"overall": 0.9}\tdef f(x):\n    return x'
_WEIGHTS, _FACTS = "reward_model.safetensors", "reward_model.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What R_phi sees of one draft."""

    question: str
    draft: str
    reviews: tuple[Review | None, ...] = ()
    """One a reviewer; None where it is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """One draft's evidence as numbers, T positions."""

    ids_T: tuple[int, ...]
    """Token ids; -1 where a position holds a review's numbers."""
    segment_T: tuple[int, ...]
    """0 question, 1 draft, 2 reviews."""
    numbers_T: tuple[tuple[float, ...], ...]
    """A review's numbers at its position, empty elsewhere."""
    cut: int
    """Tokens left out to keep within the limit."""


class RewardModel:
    """R_phi: an encoder and the tokenizer it reads with."""

    def __init__(self, encoder: RewardEncoder, tokenize: Tokenize, *, max_tokens: int) -> None:
        """Join encoder and tokenizer; inputs longer than `max_tokens` are cut, and what is cut is counted."""
        self.encoder = encoder.eval()  # no dropout in updates either: nothing here draws random numbers
        self.tokenize = tokenize
        self.max_tokens = max_tokens
        if (highest := max(tokenize(_PROBE), default=0)) >= encoder.vocab:
            raise ModelError(
                f"reward_model knows {encoder.vocab} token ids and its tokenizer gave id {highest}; ids must "
                "lie below. Use the tokenizer that belongs to the encoder."
            )

    def predict(self, shown: Sequence[Evidence]) -> list[float]:
        """R_phi of each draft, in order; similar lengths travel together."""
        encoded = [self.encode(one) for one in shown]
        scores = [0.0] * len(encoded)
        with torch.no_grad():
            for batch in batches(encoded, max_tokens=PREDICT_TOKENS):
                logits = self.encoder(self.inputs([encoded[i] for i in batch]))
                for i, score in zip(batch, torch.sigmoid(logits).tolist(), strict=True):
                    scores[i] = score
        return scores

    def encode(self, shown: Evidence) -> Encoded:
        """Question, draft, then each review as one position of numbers and its feedback.

        Where it is too long the reviews keep their heads within a quarter of the limit, the draft its tail
        within a half, and the question its tail within the rest.
        """
        share = max(0, self.max_tokens // (4 * max(1, len(shown.reviews))) - 1)
        texts = [self.tokenize(review.feedback) if review else () for review in shown.reviews]
        cut = sum(max(0, len(ids) - share) for ids in texts)
        reviews = [
            (id_, 2, numbers)
            for ids, review in zip(texts, shown.reviews, strict=True)
            for id_, numbers in [(-1, _numbers(review)), *((id_, ()) for id_ in ids[:share])]
        ]
        draft, question = self.tokenize(shown.draft), self.tokenize(shown.question)
        kept = draft[-(self.max_tokens // 2) :]
        room = self.max_tokens - len(reviews) - len(kept)
        asked = question[max(0, len(question) - room) :]
        cut += len(draft) - len(kept) + len(question) - len(asked)
        rows = [*((id_, 0, ()) for id_ in asked), *((id_, 1, ()) for id_ in kept), *reviews]
        ids_T, segment_T, numbers_T = zip(*rows, strict=True) if rows else ((), (), ())
        return Encoded(ids_T=ids_T, segment_T=segment_T, numbers_T=numbers_T, cut=cut)

    def inputs(self, encoded: Sequence[Encoded]) -> Inputs:
        """A padded batch on the encoder's device."""
        B, T = len(encoded), max(1, max(len(one.ids_T) for one in encoded))
        ids_BT = torch.full((B, T), -1)
        segment_BT = torch.full((B, T), -1)
        numbers_BTF = torch.zeros(B, T, NUMBERS)
        for b, one in enumerate(encoded):
            length = len(one.ids_T)
            ids_BT[b, :length] = torch.tensor(one.ids_T, dtype=torch.int64)
            segment_BT[b, :length] = torch.tensor(one.segment_T, dtype=torch.int64)
            for t, numbers in enumerate(one.numbers_T):
                if numbers:
                    numbers_BTF[b, t] = torch.tensor(numbers)
        device = self.encoder.out.weight.device
        return Inputs(ids_BT.to(device), segment_BT.to(device), numbers_BTF.to(device))

    def save(self, folder: Path) -> None:
        """Write weights, the encoder's config and what the tokenizer looks like into an existing folder."""
        self.encoder.encoder.config.save_pretrained(str(folder))
        tensors = {name: t.contiguous().cpu() for name, t in self.encoder.state_dict().items()}
        save_file(tensors, folder / _WEIGHTS)
        facts = {"max_tokens": self.max_tokens, "tokenizer": fingerprint(self.tokenize)}
        (folder / _FACTS).write_text(json.dumps(facts))


def load_reward_model(folder: Path, tokenize: Tokenize) -> RewardModel:
    """Read what `RewardModel.save` wrote.

    Raises ModelError: unreadable, or made for another tokenizer.
    """
    try:
        facts = json.loads((folder / _FACTS).read_text())
        config = AutoConfig.from_pretrained(str(folder))
        tensors = load_file(folder / _WEIGHTS)
        encoder = from_config(config, numbers=NUMBERS, seed=0)
        encoder.load_state_dict(tensors)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelError(
            f"reward model {folder} cannot be read: {reason} Give a folder that a DRAFT-RL run wrote."
        ) from error
    check_fingerprint(facts["tokenizer"], tokenize, where=f"reward model {folder}")
    return RewardModel(encoder, tokenize, max_tokens=facts["max_tokens"])


def load_tokenize(path: str) -> Tokenize:
    """The tokenizer of a pretrained encoder, by folder or hub id. Raises ModelError."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"reward_model.pretrained {path} has no tokenizer: {str(error).strip().splitlines()[0]} Give an "
            "encoder's folder or hub id, its tokenizer beside it."
        ) from error
    return lambda text: tokenizer.encode(text, add_special_tokens=False)


def evidence(task: Task, draft: str, reviews: Sequence[Review | None]) -> Evidence:
    """The evidence on a draft of `task`, made from the public task alone, worked examples left out."""
    task = replace(public(task), meta={})
    assert not any((task.gold, task.tests, task.meta)), "R_phi was about to see a task's gold"
    return Evidence(question=statement(task), draft=draft.strip(), reviews=tuple(reviews))


def fingerprint(tokenize: Tokenize) -> str:
    """What tells one tokenizer from another: a hash of the ids it gives a fixed text."""
    return hashlib.sha256(str(list(tokenize(_PROBE))).encode()).hexdigest()[:16]


def check_fingerprint(expected: str, tokenize: Tokenize, *, where: str) -> None:
    """Raise ModelError where `tokenize` is not the tokenizer a reward model was trained with."""
    if (met := fingerprint(tokenize)) != expected:
        raise ModelError(
            f"{where} was trained with another tokenizer (fingerprint {expected}, met {met}); its token ids "
            "would mean other words. Use the base model of its run, or train a new reward model."
        )


def batches(encoded: Sequence[Encoded], *, max_tokens: int) -> list[list[int]]:
    """Indices in batches of similar length, each of at most `max_tokens` padded tokens or of one draft."""
    found: list[list[int]] = [[]]
    for i in sorted(range(len(encoded)), key=lambda i: len(encoded[i].ids_T)):
        if found[-1] and (len(found[-1]) + 1) * len(encoded[i].ids_T) > max_tokens:
            found.append([])
        found[-1].append(i)
    return found if encoded else []


def _numbers(review: Review | None) -> tuple[float, ...]:
    scores = (
        [None] * (NUMBERS // 2) if review is None else [*(review.scores[c] for c in CRITERIA), review.overall]
    )
    return tuple(value for score in scores for value in ((0.0, 0.0) if score is None else (score, 1.0)))
