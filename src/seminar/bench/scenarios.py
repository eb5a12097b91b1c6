"""Named workloads of `seminar bench` -> the job every side gets: same prompts, counts, settings. No torch."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from seminar.errors import ConfigError

Kind = Literal["step", "sample", "score"]
RANK = 16
ALPHA = 32
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
LR = 1e-5
CLIP = 0.2

WORDS = (
    "the of and in to a is was for on as with by at from his an were which are this that be had it he not "
    "have their one two has who new first time more all other been about there most would some after when"
)
"""What prompts are made of: frequent words, one token each in most vocabularies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One workload; every completion has exactly `new_tokens` tokens."""

    name: str
    kind: Kind
    """step: sample, grade, update; sample: completions alone; score: log-probabilities of given ids."""
    prompts: int
    prompt_tokens: int
    new_tokens: int
    agents: int = 1
    """Adapters that all answer every prompt."""
    group: int = 1
    """Completions of one agent to one prompt."""
    beta: float = 0.0
    peer_rows: int = 0
    """Rows of one micro-batch of TRL; 0: all at once."""

    @property
    def rows(self) -> int:
        """Completions in all."""
        return self.agents * self.prompts * self.group

    @property
    def written(self) -> int:
        """Tokens of all completions."""
        return self.rows * self.new_tokens

    @property
    def inputs(self) -> int:
        """Tokens to read to score all completions: a prompt once a group, no completion's last token."""
        return self.agents * self.prompts * (self.prompt_tokens + self.group * (self.new_tokens - 1))

    def title(self) -> str:
        """The workload in a line."""
        parts = [f"{self.prompts} prompts of {self.prompt_tokens}"]
        parts += [f"{self.agents} agents"] if self.agents > 1 else []
        parts += [f"G {self.group}"] if self.group > 1 else []
        parts += [f"{self.new_tokens} new" if self.kind != "score" else f"{self.new_tokens} scored"]
        parts += [f"beta {self.beta:g}"] if self.beta else []
        return f"{self.name}: {', '.join(parts)}"


SCENARIOS = {
    s.name: s
    for s in (
        Scenario(
            name="generator", kind="step", prompts=4, group=4, prompt_tokens=73, new_tokens=64, beta=0.04
        ),
        Scenario(
            name="critic",
            kind="step",
            prompts=2,
            group=8,
            prompt_tokens=770,
            new_tokens=64,
            beta=0.04,
            peer_rows=2,
        ),
        Scenario(
            name="drafts",
            kind="step",
            prompts=4,
            agents=3,
            group=5,
            prompt_tokens=73,
            new_tokens=64,
            beta=0.04,
        ),
        Scenario(name="decode", kind="sample", prompts=64, prompt_tokens=48, new_tokens=64),
        Scenario(name="logprobs", kind="score", prompts=16, prompt_tokens=1, new_tokens=512),
    )
}


class Prompt(NamedTuple):
    """One prompt, for sides that take text and for sides that take ids."""

    text: str
    ids: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one side is to do; crosses to its process as JSON."""

    scenario: Scenario
    model: str
    """Folder or hub id."""
    dtype: str
    device: str
    prompts: list[Prompt]
    adapter: str
    """Folder where our side leaves its adapter in PEFT's format, for sides that can load one."""

    def row(self) -> dict[str, Any]:
        """The job as JSON."""
        return asdict(self)

    @classmethod
    def of(cls, row: dict[str, Any]) -> "Job":
        """The job of a row."""
        prompts = [Prompt(*prompt) for prompt in row["prompts"]]
        return cls(**{**row, "scenario": Scenario(**row["scenario"]), "prompts": prompts})


def make_prompts(
    encode: Callable[[str], Sequence[int]], *, count: int, tokens: int, seed: int = 0
) -> list[Prompt]:
    """`count` distinct texts of exactly `tokens` tokens each, as `encode` counts them."""
    rng = np.random.default_rng(seed)
    return [_prompt(encode, tokens, rng) for _ in range(count)]


def reward(text: str) -> float:
    """Number of distinct characters of a completion: cheap, never constant, the same on every side."""
    return float(len(set(text)))


def given_ids(vocabulary: int, *, rows: int, tokens: int) -> list[list[int]]:
    """Ids to score where nothing is sampled, the same on every side."""
    drawn = np.random.default_rng(0).integers(0, vocabulary, size=(rows, tokens))
    return [[int(i) for i in row] for row in drawn]


def _prompt(encode: Callable[[str], Sequence[int]], tokens: int, rng: np.random.Generator) -> Prompt:
    words = WORDS.split()
    text, ids = "", list(encode(""))
    for _ in range(20 * tokens):
        longer = f"{text} {words[rng.integers(len(words))]}"
        longer_ids = list(encode(longer))
        if len(longer_ids) <= tokens:
            text, ids = longer, longer_ids
        if len(ids) == tokens:
            return Prompt(text, ids)
    raise ConfigError(
        f"bench: no text of exactly {tokens} tokens was found with this tokenizer (nearest: {len(ids)}). "
        "Use a model whose tokenizer knows English words, such as smollm2."
    )
