"""Drafts and peer reviews of DRAFT-RL (arXiv 2511.20468, eq. 4 and 5): a task in, rounds of asks out.

Each agent writes K drafts, one after another, the agents side by side; then every agent reviews every draft
of the others, all reviews in one round. N = 3 agents and K = 5 give 15 drafts and 30 reviews a task.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from seminar.errors import ConfigError
from seminar.protocols.base import Play
from seminar.protocols.draft_prompts import ANSWERS, STRATEGIES, Prompts
from seminar.tasks.draft_form import MAX_WORDS, Draft, parse_draft
from seminar.tasks.statement import statement
from seminar.types import Ask, Message, Task, Turn

History = Literal["full", "summary", "none"]

DRAFTER = "drafter"
REVIEWER = "reviewer"

_SHOWN = ("shots",)
"""Facts of a task's meta that belong in a prompt (`tasks.statement`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafts:
    """Sequential drafts of each agent, then reviews by all the others."""

    agents: tuple[str, ...]
    drafts: int = 5
    """K, drafts an agent writes on a task (paper)."""
    history: History = "full"
    """What draft k sees of the agent's drafts 1..k-1: full text (eq. 4), summary (answers), or nothing."""
    strategies: Mapping[str, str] = field(default_factory=lambda: STRATEGIES)
    """Hints by name; empty: no hints."""
    temperatures: tuple[float, float] = (0.2, 0.8)
    """Of the first and the last draft (paper); linear between them (ours)."""
    cod: bool = True
    """False: steps of any length (the ablation without Chain of Draft)."""
    max_words: int = MAX_WORDS
    """Most words of a step (paper)."""
    retries: int = 0
    """Times an invalid draft is asked for again; the last attempt is the draft. 0 keeps the policy's own
    distribution (ours)."""
    draft_tokens: int | None = None
    """Most tokens of a draft; None: the agent's own."""
    peers: bool = True
    """False: no reviews (the ablation without peers)."""
    review_temperature: float = 0.2
    """Ours; the paper names none."""
    review_tokens: int | None = None
    """Most tokens of a review; None: the agent's own."""
    prompts: Prompts = field(default_factory=Prompts)

    def __post_init__(self) -> None:
        """Refuse what cannot be played."""
        for name, least in (("drafts", 1), ("max_words", 1), ("retries", 0)):
            if getattr(self, name) < least:
                raise ConfigError(
                    f"protocol.{name} is {getattr(self, name)}; at least {least} is allowed. Raise it."
                )
        needed = 2 if self.peers else 1
        if len(self.agents) < needed or len(set(self.agents)) < len(self.agents):
            raise ConfigError(
                f"protocol.agents is {', '.join(self.agents) or 'empty'}; at least {needed} with different "
                "names are needed, for nobody reviews its own. Add agents, or set protocol.peers: false."
            )
        low, high = self.temperatures
        if not (0 < low <= 2 and 0 < high <= 2):
            raise ConfigError(
                f"protocol.temperatures is {low} to {high}; above 0 and at most 2 is allowed, for PPO needs "
                "sampled drafts. The paper has 0.2 to 0.8."
            )
        if not 0 <= self.review_temperature <= 2:
            raise ConfigError(
                f"protocol.review_temperature is {self.review_temperature}; 0 to 2 is allowed. 0 is greedy."
            )

    def play(self, task: Task, *, seed: tuple[int, ...]) -> Play:
        """Play one task: round k asks all agents for draft k, round K asks for all reviews."""
        del seed  # nothing here is drawn at random
        written: dict[str, list[Turn]] = {agent: [] for agent in self.agents}
        for _ in range(self.drafts):
            waiting: Sequence[str] = self.agents
            latest: dict[str, Turn] = {}
            for attempt in range(1 + self.retries):
                answers = yield [
                    self._draft(task, agent, written[agent], attempt=attempt) for agent in waiting
                ]
                latest |= {turn.agent: turn for turns in answers for turn in turns}
                waiting = [agent for agent in waiting if not self.read(task, latest[agent]).valid]
                if not waiting:
                    break
            for agent, turn in latest.items():
                written[agent].append(turn)
        if self.peers:
            yield [ask for agent in self.agents for ask in self._reviews(task, agent, written)]

    def temperature(self, k: int) -> float:
        """Sampling temperature of draft `k`, from 0: .20 .35 .50 .65 .80 for K = 5; the first for K = 1."""
        low, high = self.temperatures
        return round(low + (high - low) * k / max(1, self.drafts - 1), 6)

    def strategy(self, k: int) -> str | None:
        """Name of the hint for draft `k`."""
        names = tuple(self.strategies)
        return names[k % len(names)] if names else None

    def plain_prompt(self, task: Task) -> tuple[Message, ...]:
        """The question without history and hint: the prompt under which an agent imitates a draft."""
        return self._messages(public(task))

    def draft_prompt(self, task: Task, earlier: Sequence[str]) -> tuple[Message, ...]:
        """Prompt of the draft that follows the texts `earlier` of the same agent."""
        task = public(task)
        k, p = len(earlier), self.prompts
        shown = {"full": earlier, "summary": [self._answer(task, text) for text in earlier], "none": ()}[
            self.history
        ]
        quoted = "".join(p.draft.format(number=n + 1, draft=text.strip()) for n, text in enumerate(shown))
        name = self.strategy(k)
        return self._messages(
            task,
            p.earlier.format(drafts=quoted) if quoted else "",
            "" if name is None else p.hint.format(number=k + 1, strategy=self.strategies[name]),
        )

    def review_prompt(self, task: Task, draft: str) -> tuple[Message, ...]:
        """Prompt of a review of the text `draft`."""
        task = public(task)
        return _user(task, self.prompts.review.format(question=statement(task), draft=draft.strip()))

    def read(self, task: Task, turn: Turn) -> Draft:
        """A drafter's turn read in the form this protocol asks for."""
        limit = self.max_words if self.cod else None
        return parse_draft(turn.text, stop=turn.stop, max_words=limit, answer_lines=task.domain == "code")

    def final(self, turns: Sequence[Turn]) -> dict[tuple[str, int], Turn]:
        """The drafts among an episode's turns by (agent, k); of several attempts the last."""
        found = [turn for turn in turns if turn.role == DRAFTER]
        return {(turn.agent, turn.draft % self.drafts): turn for turn in sorted(found, key=lambda t: t.draft)}

    def _draft(self, task: Task, agent: str, earlier: Sequence[Turn], *, attempt: int) -> Ask:
        k = len(earlier)
        return Ask(
            agent=agent,
            role=DRAFTER,
            round=k,
            messages=self.draft_prompt(task, [turn.text for turn in earlier]),
            temperature=self.temperature(k),
            max_tokens=self.draft_tokens,
            draft=k + attempt * self.drafts,
            saw=() if self.history == "none" else tuple(turn.key for turn in earlier),
            notes={"strategy": self.strategy(k), "attempt": attempt},
        )

    def _reviews(self, task: Task, reviewer: str, written: Mapping[str, Sequence[Turn]]) -> list[Ask]:
        targets = [turn for agent, turns in written.items() if agent != reviewer for turn in turns]
        return [
            Ask(
                agent=reviewer,
                role=REVIEWER,
                round=self.drafts,
                messages=self.review_prompt(task, turn.text),
                temperature=self.review_temperature,
                max_tokens=self.review_tokens,
                draft=index,
                saw=(turn.key,),
                notes={"target": turn.key},
            )
            for index, turn in enumerate(targets)
        ]

    def _answer(self, task: Task, text: str) -> str:
        return parse_draft(text, max_words=None, answer_lines=task.domain == "code").answer or "no answer"

    def _messages(self, task: Task, *behind: str) -> tuple[Message, ...]:
        p, answer = self.prompts, ANSWERS[task.domain]
        form = (
            p.form.format(words=self.max_words, answer=answer)
            if self.cod
            else p.free_form.format(answer=answer)
        )
        return _user(task, "".join((p.question.format(form=form, question=statement(task)), *behind)))


def public(task: Task) -> Task:
    """The task without gold, tests and meta (it may hold a solution); worked examples of other tasks stay."""
    shown = {name: task.meta[name] for name in _SHOWN if name in task.meta}
    return replace(task, gold="", tests="", meta=shown)


def _user(task: Task, content: str) -> tuple[Message, ...]:
    assert task == public(task), "a prompt was made from a task that still holds its gold"
    return ({"role": "user", "content": content},)
