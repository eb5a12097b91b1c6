"""Agents and teams: asks of a protocol -> requests of the engine -> turns."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seminar.agents.chat import Chat
from seminar.engines.base import Engine
from seminar.errors import ConfigError, DataError
from seminar.types import Ask, Completion, Request, Task, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A role with its adapter and its sampling."""

    name: str
    adapter: str | None
    """Adapter that speaks for this agent; None: the bare base model."""
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 512
    """Most tokens a completion may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """Named agents behind one engine."""

    agents: Mapping[str, Agent]
    engine: Engine
    chat: Chat
    max_prompt_tokens: int
    """Longest prompt any agent is asked with; a longer one is a failure of its episode, never cut in silence.
    """

    def answer(self, asks: Sequence[tuple[Task, Ask]], *, seed: tuple[int, ...]) -> list[list[Turn]]:
        """Ask the agents, all in one call of the engine; one list of turns an ask.

        A sample's seed key is (seed, task, agent, round, draft, sample), so that it draws the same random
        numbers in whatever batch it travels.
        """
        requests = [self._request(task, ask, seed=seed) for task, ask in asks]
        answers = self.engine.generate(requests)
        return [
            [self._turn(ask, request, completion, index) for index, completion in enumerate(completions)]
            for (_, ask), request, completions in zip(asks, requests, answers, strict=True)
        ]

    def check(self, ask: Ask) -> None:
        """Raise DataError when the prompt of `ask` is longer than allowed."""
        length = len(self.chat.encode(ask.messages))
        if length > self.max_prompt_tokens:
            raise DataError(
                f"prompt of agent {ask.agent} in round {ask.round} has {length} tokens; at most "
                f"{self.max_prompt_tokens} are allowed. Shorten the question, raise limits.prompt, or show "
                "less of the answers (limits.visible)."
            )

    def _request(self, task: Task, ask: Ask, *, seed: tuple[int, ...]) -> Request:
        agent = self.agents.get(ask.agent)
        if agent is None:
            raise ConfigError(f"protocol asks agent {ask.agent!r}; the team has {', '.join(self.agents)}.")
        key = (*seed, stable_hash(task.id), stable_hash(ask.agent), ask.round, ask.draft)
        return Request(
            adapter=agent.adapter,
            prompt_ids=self.chat.encode(ask.messages),
            samples=ask.samples,
            temperature=agent.temperature if ask.temperature is None else ask.temperature,
            top_p=agent.top_p,
            max_tokens=agent.max_tokens if ask.max_tokens is None else ask.max_tokens,
            seeds=tuple((*key, sample) for sample in range(ask.samples)),
        )

    def _turn(self, ask: Ask, request: Request, completion: Completion, sample: int) -> Turn:
        return Turn(
            agent=ask.agent,
            role=ask.role,
            round=ask.round,
            sample=sample,
            draft=ask.draft,
            adapter=request.adapter,
            adapter_version=completion.adapter_version,
            prompt_ids=request.prompt_ids,
            completion_ids=completion.ids,
            engine_logprobs=completion.logprobs,
            temperature=request.temperature,
            text=self.chat.decode(completion.ids),
            stop=completion.stop,
            saw=ask.saw,
            notes=ask.notes,
        )


def stable_hash(text: str) -> int:
    """A 32-bit number that stands for `text` in a seed key; the same on every machine and in every
    process."""
    return zlib.crc32(text.encode())
