"""Turns of draft episodes and what they earned -> samples for PPO and for imitation."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from seminar.agents.chat import Chat
from seminar.learn.gae import units_of
from seminar.protocols.drafts import DRAFTER
from seminar.rewards.peer import review_rewards
from seminar.rewards.reading import Reading
from seminar.tasks.draft_form import step_spans
from seminar.train.ppo import Rewarded
from seminar.types import Sample, Turn, Verdict

Unit = Literal["step", "token"]


def rewarded(turn: Turn, reward: float, *, chat: Chat, unit: Unit) -> Rewarded:
    """A turn with its reward and the units over which credit flows back; a review is one step."""
    ids = turn.completion_ids
    if unit == "token":
        units_T = np.arange(len(ids), dtype=np.int64)
    elif turn.role == DRAFTER:
        units_T = units_of(chat.spans(ids), step_spans(turn.text))
    else:
        units_T = np.zeros(len(ids), dtype=np.int64)
    sample = Sample(
        agent=turn.agent,
        prompt_ids=turn.prompt_ids,
        completion_ids=ids,
        temperature=turn.temperature,
        advantages=(0.0,) * len(ids),
        engine_logprobs=turn.engine_logprobs,
    )
    return Rewarded(sample=sample, reward=reward, units_T=units_T)


def reviews(
    agent: str,
    readings: Sequence[Reading],
    verdicts: Sequence[Mapping[str, Verdict]],
    *,
    chat: Chat,
    unit: Unit,
) -> list[Rewarded]:
    """One agent's reviews of drafts whose outcome is known, rewarded for agreement with it.

    As everywhere, a question without a valid draft teaches nothing.
    """
    found: list[Rewarded] = []
    for reading, graded in zip(readings, verdicts, strict=True):
        if not any(reading.valid):
            continue
        right = {key: v.correct for key, v in graded.items() if v.reason != "unusable_gold"}
        turns = [turn for turn in reading.reviews if turn.agent == agent and turn.completion_ids]
        rewards = review_rewards(turns, right=right)
        found += [rewarded(t, rewards[t.key], chat=chat, unit=unit) for t in turns if t.key in rewards]
    return found


def imitated(agent: str, turn: Turn, prompt_ids: tuple[int, ...]) -> Sample:
    """What a turn wrote, as the agent's own answer to `prompt_ids`."""
    return Sample(
        agent=agent,
        prompt_ids=prompt_ids,
        completion_ids=turn.completion_ids,
        temperature=1.0,
        advantages=(0.0,) * len(turn.completion_ids),
    )
