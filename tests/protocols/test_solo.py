"""One agent asked once."""

from seminar.protocols.base import Solo
from seminar.types import Task


def test_the_prompt_holds_prefix_question_and_options() -> None:
    task = Task(id="1", question="Which?", gold="B", domain="choice", choices=("one", "two"))
    (ask,) = next(Solo(agent="a", prefix="Think. ").play(task, seed=(0,)))
    assert ask.messages == ({"role": "user", "content": "Think. Which?\nA. one\nB. two"},)
