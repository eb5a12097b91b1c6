"""Text of a model, in any domain -> the answer it gives; an answer -> its form for votes."""

from seminar.tasks import maths, qa
from seminar.tasks.code import exercise
from seminar.tasks.programs import extract_program
from seminar.types import Task


def read_answer(task: Task, text: str, *, cut: bool = False) -> str | None:
    """The answer as written; None without one or with several letters. `cut`: the token limit ended it."""
    if task.domain == "maths":
        return maths.extract_answer(text, cut=cut)
    if task.domain == "qa":
        return qa.extract_answer(text, cut=cut)
    if task.domain == "choice":
        letters = qa.read_letters(text, task.choices, cut=cut)
        return letters[0] if len(letters) == 1 else None
    asked = exercise(task)
    return None if asked is None else extract_program(text, asked)


def vote_key(task: Task, answer: str) -> str:
    """Equal for answers that say the same, as far as text can tell; programs by their text alone."""
    if task.domain == "maths":
        return maths.normalise_answer(answer)
    return qa.normalise_answer(answer) if task.domain == "qa" else answer.strip()
