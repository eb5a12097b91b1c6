"""The debate of MADA-RL (arXiv 2607.18006, Algorithm 1): generators answer, critics read all answers and
revise."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from seminar.agents.agent import stable_hash
from seminar.agents.chat import Chat
from seminar.errors import ConfigError
from seminar.protocols.base import Play
from seminar.tasks.answers import read_answer, vote_key
from seminar.tasks.statement import statement
from seminar.types import Ask, Message, Task, Turn

Visible = Literal["full", "after_think", "answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """Wording of a debate; every field is a `str.format` template and replaceable from the recipe."""

    question: str = (
        "Work out the following problem carefully and explain each step briefly. End with one line of the "
        "form "
        "'The final answer is: $\\boxed{{ANSWER}}$' where ANSWER is only the number or expression asked "
        "for.\n\n"
        "{question}"
    )
    opening: str = "\n\nOther agents answered the same problem as follows.\n"
    answer: str = "\nAgent {number}:\n```\n{answer}\n```\n"
    closing: str = (
        "\nTake these answers as advice, check them, and write your own updated answer in the same form."
    )


class Shown(NamedTuple):
    """A debate prompt and what was done to make it fit."""

    messages: tuple[Message, ...]
    order: tuple[int, ...]
    """order[k] is the index of the answer quoted at place k."""
    cut: int
    """Number of answers whose head was cut to keep within the token budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateForm:
    """How answers are shown to critics: wording, visible part, token budget."""

    chat: Chat
    prompts: Prompts = field(default_factory=Prompts)
    visible: Visible = "after_think"
    """full: the whole answer; after_think: the text behind the last `</think>`, or its tail where the mark is
    missing; answer: the extracted answer alone. The paper does not say; the largest cost lever."""
    visible_tokens: int = 1024
    """Most tokens of one answer that are shown; the tail is kept."""
    max_prompt_tokens: int = 4096

    def question(self, task: Task) -> tuple[Message, ...]:
        """Prompt of round 0."""
        return (_user(self.prompts.question.format(question=statement(task))),)

    def show(self, task: Task, answers: Sequence[str], *, seed: tuple[int, ...]) -> Shown:
        """Prompt x_r: the question, then every answer of the round before, in seeded order.

        Should it exceed `max_prompt_tokens`, the head of each answer is cut, never the question and never a
        tail.
        """
        order = tuple(int(i) for i in np.random.default_rng(seed).permutation(len(answers)))
        visible = [self._visible(task, answers[i]) for i in order]
        texts = [self.chat.tail(text, tokens=self.visible_tokens) for text in visible]
        messages = self._debate(task, texts)
        excess = len(self.chat.encode(messages)) - self.max_prompt_tokens
        limit = max((len(self.chat.encode_text(text)) for text in texts), default=0)
        while excess > 0 and limit > 0:
            limit = max(0, limit - max(1, excess // len(texts)))
            texts = [self.chat.tail(text, tokens=limit) for text in texts]
            messages = self._debate(task, texts)
            excess = len(self.chat.encode(messages)) - self.max_prompt_tokens
        cut = sum(short != text for short, text in zip(texts, visible, strict=True))
        return Shown(messages=messages, order=order, cut=cut)

    def _visible(self, task: Task, answer: str) -> str:
        if self.visible == "full":
            return answer.strip()
        if self.visible == "answer":
            return read_answer(task, answer) or ""
        return answer.rpartition("</think>")[2].strip()

    def _debate(self, task: Task, texts: Sequence[str]) -> tuple[Message, ...]:
        p = self.prompts
        quoted = "".join(p.answer.format(number=k + 1, answer=text) for k, text in enumerate(texts))
        return (_user(p.question.format(question=statement(task)) + p.opening + quoted + p.closing),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Debate:
    """Round 0: each generator answers once. Rounds 1..R-1: each critic reads all answers of the round before.

    Calls per question: N + (R - 1) * M. Earlier rounds are not shown (paper, section 2). Rounds are counted
    from 0 here and from 1 in the paper.
    """

    form: DebateForm
    generators: tuple[str, ...]
    critics: tuple[str, ...]
    rounds: int = 2
    stop: Literal["never", "consensus"] = "never"
    """consensus (ours): end when all answers of a round agree; saves tokens, reported as its own row."""

    def __post_init__(self) -> None:
        """Refuse a debate that cannot be played."""
        if self.rounds < 1 or not self.generators or (self.rounds > 1 and not self.critics):
            raise ConfigError(
                f"protocol: {len(self.generators)} generators, {len(self.critics)} critics, rounds "
                f"{self.rounds}; a "
                "debate needs at least 1 generator and 1 round, and 1 critic when rounds > 1."
            )

    def play(self, task: Task, *, seed: tuple[int, ...]) -> Play:
        """Play the debate on one task."""
        question = self.form.question(task)
        asks = [Ask(agent=g, role="generator", round=0, messages=question) for g in self.generators]
        turns = [turn for answers in (yield asks) for turn in answers]
        for round_ in range(1, self.rounds):
            if self.stop == "consensus" and _agree(task, turns):
                return
            asks = [self._critique(task, critic, turns, round_=round_, seed=seed) for critic in self.critics]
            turns = [turn for answers in (yield asks) for turn in answers]

    def _critique(
        self, task: Task, critic: str, turns: Sequence[Turn], *, round_: int, seed: tuple[int, ...]
    ) -> Ask:
        key = (*seed, round_, stable_hash(critic))
        shown = self.form.show(task, [turn.text for turn in turns], seed=key)
        return Ask(
            agent=critic,
            role="critic",
            round=round_,
            messages=shown.messages,
            saw=tuple(turns[i].key for i in shown.order),
            notes={"cut_answers": shown.cut} if shown.cut else {},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One agent answers the question `samples` times: round 0 of a debate alone, under which a generator
    trains."""

    form: DebateForm
    agent: str
    samples: int = 1

    def play(self, task: Task, *, seed: tuple[int, ...]) -> Play:
        """Ask for all samples of the question's prompt."""
        messages = self.form.question(task)
        yield [Ask(agent=self.agent, role="generator", round=0, messages=messages, samples=self.samples)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Critique:
    """One critic answers a stored debate prompt `samples` times: the protocol under which a critic trains.

    Tasks come from a debate set (methods/mada.py): `task.meta["answers"]` holds the generators' frozen
    answers.
    """

    form: DebateForm
    critic: str
    samples: int

    def play(self, task: Task, *, seed: tuple[int, ...]) -> Play:
        """Ask the critic for all samples of one prompt; the order of answers is drawn once for all of
        them."""
        shown = self.form.show(task, task.meta["answers"], seed=(*seed, 1, stable_hash(self.critic)))
        yield [
            Ask(
                agent=self.critic,
                role="critic",
                round=1,
                messages=shown.messages,
                samples=self.samples,
                saw=tuple(f"answer-{i}" for i in shown.order),
                notes={"cut_answers": shown.cut} if shown.cut else {},
            )
        ]


def _agree(task: Task, turns: Sequence[Turn]) -> bool:
    answers = [read_answer(task, turn.text, cut=turn.stop == "length") for turn in turns]
    return None not in answers and len({vote_key(task, a) for a in answers if a is not None}) == 1


def _user(content: str) -> Message:
    return {"role": "user", "content": content}
