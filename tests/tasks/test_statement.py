"""The text of a task in a prompt."""

from seminar.tasks.statement import statement
from seminar.types import Task


def test_a_plain_question_is_its_own_statement() -> None:
    assert statement(Task(id="1", question="What is 1+1?", gold="2")) == "What is 1+1?"


def test_options_stand_behind_the_question_with_their_letters() -> None:
    task = Task(id="1", question="Which?", gold="B", domain="choice", choices=("one", "two"))
    assert statement(task) == "Which?\nA. one\nB. two"


def test_paragraphs_stand_before_the_question_with_their_titles() -> None:
    task = Task(id="1", question="Who?", gold="x", domain="qa", context=(("T", "One."), ("", "Two.")))
    assert statement(task) == "T\nOne.\n\nTwo.\n\nWho?"


def test_shots_come_first_and_show_their_answers_only() -> None:
    shot = {"question": "First?", "choices": ["p", "q"], "gold": "A"}
    task = Task(
        id="1", question="Which?", gold="B", domain="choice", choices=("r", "s"), meta={"shots": [shot]}
    )
    assert statement(task) == "First?\nA. p\nB. q\nAnswer: A\n\nWhich?\nA. r\nB. s"
