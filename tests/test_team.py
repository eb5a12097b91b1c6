"""The door for Python: votes in the domain of the question."""

from seminar import team
from seminar.types import Task, Turn


def turn(text, *, stop="eos"):
    return Turn(
        agent="a", role="critic", round=1, adapter=None, adapter_version=0, prompt_ids=(), completion_ids=(),
        engine_logprobs=(), temperature=1.0, text=text, stop=stop,
    )  # fmt: skip


def test_equal_values_are_one_vote_and_no_answer_is_none():
    turns = (
        turn(r"\boxed{0.5}"),
        turn(r"so \boxed{1/2}"),
        turn(r"\boxed{3}"),
        turn("it is 7", stop="length"),
    )
    assert team.tally(Task(id="t", question="?"), turns) == {"1/2": 2, "3": 1}


def test_answers_in_words_are_one_vote_up_to_case_and_articles():
    turns = (turn("#### The Eiffel Tower"), turn("#### eiffel tower"), turn("#### Rome"))
    assert team.tally(Task(id="t", question="?", domain="qa"), turns) == {"eiffel tower": 2, "rome": 1}


def test_letters_are_votes_where_the_question_has_options():
    turns = (turn("#### B"), turn("The answer is (B)."), turn("#### A or B"))
    task = Task(id="t", question="?", domain="choice", choices=("Rome", "Paris"))
    assert team.tally(task, turns) == {"B": 2}
