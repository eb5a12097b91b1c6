"""Every value that stages hand to one another. No torch, no behaviour beyond small derived properties."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

import numpy as np

Domain = Literal["maths", "qa", "choice", "code"]
StopReason = Literal["eos", "length"]


class Message(TypedDict):
    """One chat message, in the form every transformers chat template takes."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A question and its gold answer."""

    id: str
    """Unique within its task set."""
    question: str
    gold: str = ""
    """The right answer in the domain's own form; never part of a prompt. Empty for code, where `tests`
    decide."""
    domain: Domain = "maths"
    source: str = "local"
    """Name of the data set the task comes from."""
    choices: tuple[str, ...] = ()
    """Options of a multiple-choice task in order; gold is then a letter."""
    context: tuple[tuple[str, str], ...] = ()
    """(title, text) paragraphs of a QA task."""
    tests: str = ""
    """Python source that checks a solution (code tasks)."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able facts of the row (level, subject, entry_point, supporting titles, ...)."""


Reason = Literal[
    "correct", "wrong", "no_answer", "truncated", "ambiguous", "timeout", "crashed", "unusable_gold"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a grader says about one answer."""

    correct: bool
    reason: Reason
    extracted: str | None = None
    """The answer as it was read from the text; None where none was found."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Graded measures beside the verdict, each in [0, 1] (QA: em, f1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a protocol asks of one agent: a prompt, and how many samples of it."""

    agent: str
    role: str
    round: int
    """0-based step of the protocol."""
    messages: tuple[Message, ...]
    samples: int = 1
    """Completions wanted of this same prompt; the prompt is encoded and prefilled once for all of them."""
    temperature: float | None = None
    """None: the agent's own."""
    max_tokens: int | None = None
    """None: the agent's own."""
    draft: int = 0
    """0-based index of a draft among an agent's drafts on one task."""
    saw: tuple[str, ...] = ()
    """Keys of the turns quoted in the prompt, in the order in which they are quoted."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able facts worth a line in the log (strategy, characters cut, target of a review, ...)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an engine is asked: `samples` completions of one prompt under one adapter."""

    adapter: str | None
    """None: the bare base model."""
    prompt_ids: tuple[int, ...]
    samples: int
    temperature: float
    """0 means greedy; log-probabilities are then those at temperature 1."""
    top_p: float
    max_tokens: int
    seeds: tuple[tuple[int, ...], ...]
    """One seed key a sample; a sample's random numbers depend on its key alone, never on its batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What an engine answers: one sampled completion."""

    ids: tuple[int, ...]
    """Sampled token ids, the end-of-sequence id included when it was sampled."""
    logprobs: tuple[float, ...]
    """logprobs[t] belongs to ids[t]: natural log of its probability at the sampling temperature."""
    stop: StopReason
    adapter_version: int
    """Version of the adapter that wrote it; 0 for the bare base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One completion of one agent within an episode."""

    agent: str
    role: str
    round: int
    sample: int = 0
    """0-based index among the samples of one prompt."""
    draft: int = 0
    adapter: str | None
    adapter_version: int
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    engine_logprobs: tuple[float, ...]
    temperature: float
    text: str
    """The completion decoded, special tokens left out."""
    stop: StopReason
    saw: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name of the turn within its episode: agent, round, draft and sample."""
        return f"{self.agent}/r{self.round}/d{self.draft}/s{self.sample}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an episode is not complete. A failure is data: counted, shown, left out of advantages."""

    stage: str
    type: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """All turns on one task under one protocol, in the order they were written; unscored."""

    task: Task
    turns: tuple[Turn, ...]
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The reward of one turn: named parts, kept apart, and their weighted total."""

    parts: Mapping[str, float]
    total: float
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The samples of one prompt by one agent: the unit within which advantages compare like with like.

    Worked example: agent `generator-0` answers task `t7` four times -> four turns, four scores. Two agents on
    one task are two groups.
    """

    task: Task
    agent: str
    role: str
    round: int
    turns: tuple[Turn, ...]
    scores: tuple[Score | None, ...]
    """One a turn; None where no reward could be had (grader failure): no advantage, no share in the mean."""
    baseline: float | None = None
    """Share in [0, 1] of the answers quoted in the prompt that are right (acc_G); None outside a debate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One completion ready to learn from."""

    agent: str
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    temperature: float
    advantages: tuple[float, ...]
    """advantages[t] belongs to completion_ids[t]."""
    engine_logprobs: tuple[float, ...] | None = None
    """None for samples no engine wrote (imitation)."""
    weight: float = 1.0
    """Factor on this sample's share of the loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Where the beginning of some prompts and the sequences that share it lie in a packed batch.

    Mostly the beginning is a whole prompt and the sequences are its completions; prompts that only begin
    alike have the rest of theirs in front of their completions. Worked example: a prompt of 5 tokens and
    completions of 2 and 3 at start 0 -> lengths (2, 3), 10 tokens, positions 0 1 2 3 4 | 5 6 | 5 6 7. Every
    sequence sees the beginning and itself, never a sibling.
    """

    start: int
    prompt: int
    """Tokens of the beginning; 0 where nothing is shared."""
    lengths: tuple[int, ...]
    """Tokens of each sequence behind it."""

    @property
    def tokens(self) -> int:
        """Tokens of the whole row."""
        return self.prompt + sum(self.lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows of one agent, packed without padding: N input tokens, C trained tokens, S samples."""

    agent: str
    rows: tuple[Row, ...]
    ids_N: np.ndarray
    """Input ids, int64."""
    positions_N: np.ndarray
    """Position ids, restarting behind the prompt for every completion."""
    source_C: np.ndarray
    """Index in N of the position whose output predicts each completion token: the shift by one, done once."""
    target_C: np.ndarray
    """The completion tokens, int64."""
    sample_C: np.ndarray
    """Index in S of the sample each token belongs to."""
    temperature_C: np.ndarray
    """Sampling temperature, float32; 1 where sampling was greedy."""
    advantage_C: np.ndarray
    """Credit of each token, float32."""
    engine_logprob_C: np.ndarray
    """What the engine said when it sampled, float32; NaN where no engine sampled."""
    length_S: np.ndarray
    """Tokens of each sample, int64."""
    weight_S: np.ndarray
    """Weight of each sample, float32."""
