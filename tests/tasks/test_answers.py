from seminar.tasks.answers import read_answer, vote_key
from seminar.types import Task


def test_each_domain_reads_an_answer_in_its_own_way():
    text = "We see 3 of them.\nThe Beatles"
    assert read_answer(Task(id="m", question="q"), text) == "3"
    assert read_answer(Task(id="q", question="q", domain="qa"), text) == "The Beatles"
    choice = Task(id="c", question="q", domain="choice", choices=("Queen", "The Beatles"))
    assert read_answer(choice, text) == "B"
    assert read_answer(choice, "A or B") is None
    code = Task(id="p", question="q", domain="code", tests="assert f(1) == 2")
    assert read_answer(code, "```python\ndef f(x):\n    return x + 1\n```") == "def f(x):\n    return x + 1\n"
    assert read_answer(code, text) is None


def test_a_cut_text_gives_no_answer_in_any_domain_that_has_no_mark():
    for domain in ("maths", "qa", "choice"):
        task = Task(id="t", question="q", domain=domain, choices=("3", "4"))
        assert read_answer(task, "We see 3 of", cut=True) is None


def test_votes_are_counted_by_value_and_not_by_spelling():
    maths, question = Task(id="m", question="q"), Task(id="q", question="q", domain="qa")
    assert vote_key(maths, "0.50") == vote_key(maths, r"\frac12")
    assert vote_key(question, "The Beatles.") == vote_key(question, "beatles")
    assert vote_key(Task(id="p", question="q", domain="code"), "f = 1\n") == "f = 1"
