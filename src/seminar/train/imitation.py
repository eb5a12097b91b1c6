"""Worked examples -> a warmed-up adapter: a few steps of supervised imitation before reinforcement
learning."""

from collections.abc import Sequence

import numpy as np

from seminar.agents.chat import Chat
from seminar.console import Console
from seminar.errors import ConfigError
from seminar.models.policy import Policy
from seminar.runlog import RunFolder
from seminar.stopping import StopRequest
from seminar.train.update import Learner, imitate
from seminar.types import Message, Sample


def example(chat: Chat, messages: Sequence[Message], text: str, *, eos: int, agent: str) -> Sample:
    """One example: the prompt as the agent will see it, and the answer it should give, ended by `eos`."""
    ids = (*chat.encode_text(text), eos)
    return Sample(
        agent=agent,
        prompt_ids=chat.encode(messages),
        completion_ids=ids,
        temperature=1.0,
        advantages=(0.0,) * len(ids),
    )


def imitate_all(
    policy: Policy,
    learner: Learner,
    examples: Sequence[Sample],
    *,
    stage: str,
    steps: int,
    batch: int,
    seed: int,
    max_tokens: int,
    run: RunFolder,
    console: Console,
    stop: StopRequest,
) -> bool:
    """Run `steps` steps of `batch` examples each, in seeded order, every example at most once.

    False when a stop was asked for before the end. It is short, so it has no checkpoints: it is then played
    again from its first step.
    """
    if steps * batch > len(examples):
        raise ConfigError(
            f"{stage}: {steps} steps of {batch} examples need {steps * batch}, and there are "
            f"{len(examples)}. Lower "
            "steps or batch, or give more examples."
        )
    order = np.random.default_rng(seed).permutation(len(examples))
    console.stage(stage, total=steps, done=0)
    for step in range(steps):
        chosen = [examples[i] for i in order[step * batch : (step + 1) * batch]]
        metrics = imitate(policy, learner, chosen, step=step, seed=seed + step, max_tokens=max_tokens)
        row = {"stage": stage, "step": step, **metrics}
        run.log_metrics(row)
        console.step(step + 1, row)
        if stop.requested and step + 1 < steps:
            console.note(f"{stage} has no checkpoints: a resumed run plays it again, to the same end.")
            return False
    return True
