import threading
from collections.abc import Iterator, Sequence

import psutil
import pytest

from seminar.errors import ConfigError
from seminar.rewards.verify import Graders
from seminar.types import StopReason, Task, Verdict

STUCK = r"\boxed{10^{10^{10^{10}}}}"


@pytest.fixture
def graders() -> Iterator[Graders]:
    with Graders(num_workers=2, deadline_s=2.0) as graders:
        yield graders


def maths(gold: str, text: str, stop: StopReason = "eos") -> tuple[Task, str, StopReason]:
    return Task(id="t", question="q", gold=gold), text, stop


def reasons(verdicts: Sequence[Verdict]) -> list[str]:
    return [verdict.reason for verdict in verdicts]


def test_plain_numbers_are_judged_without_a_process(graders):
    before = psutil.Process().children()
    assert graders.grade(
        [maths("7", r"\boxed{7}"), maths("1/2", "#### 0.5"), maths("7", "The answer is 8.")]
    ) == [
        Verdict(correct=True, reason="correct", extracted="7"),
        Verdict(correct=True, reason="correct", extracted="0.5"),
        Verdict(correct=False, reason="wrong", extracted="8"),
    ]
    assert not graders.counts
    assert psutil.Process().children() == before


def test_algebra_is_judged_in_order_among_plain_numbers(graders):
    answers = [maths(r"\sqrt{8}", rf"\boxed{{{k}\sqrt2}}") for k in (1, 2, 3)]
    answers.insert(1, maths("7", r"\boxed{7}"))
    assert reasons(graders.grade(answers)) == ["wrong", "correct", "correct", "wrong"]


def test_a_missing_answer_is_told_from_a_cut_one(graders):
    verdicts = graders.grade(
        [maths("7", "no idea"), maths("7", "I am still", "length"), maths("7", "<think>7")]
    )
    assert reasons(verdicts) == ["no_answer", "truncated", "no_answer"]
    assert {verdict.extracted for verdict in verdicts} == {None}


def test_a_gold_that_cannot_be_graded_makes_nothing_correct(graders):
    assert reasons(graders.grade([maths("", ""), maths("", r"\boxed{}"), maths("{", r"\boxed{7}")])) == [
        *["unusable_gold"] * 3
    ]


def test_a_gold_that_sympy_cannot_read_is_right_for_its_own_text_alone(graders):
    gold = r"\frac{dM}{dt}=\frac{10^{5} L_{\odot}}{0.007 c^{2} M_{\odot}^{6}} M^{6}"
    assert reasons(graders.grade([maths(gold, gold), maths(gold, "6"), maths(gold, r"\boxed{x}")])) == [
        *("correct", "wrong", "wrong")
    ]


def test_an_endless_answer_times_out_and_the_next_is_judged(graders):
    answers = [maths(r"\sqrt{8}", STUCK), *(maths(r"\sqrt{8}", rf"\boxed{{{k}\sqrt2}}") for k in range(1, 9))]
    assert reasons(graders.grade(answers)) == ["timeout", "wrong", "correct", *["wrong"] * 6]
    assert graders.counts["timeout"] == 1


def test_equal_answers_share_one_job_and_one_deadline(graders):
    assert reasons(graders.grade([maths(r"\sqrt{8}", STUCK)] * 8)) == ["timeout"] * 8
    assert graders.counts["timeout"] == 1


def test_any_thread_may_grade(graders):
    verdicts: dict[int, list[Verdict]] = {}

    def ask(k: int) -> None:
        verdicts[k] = graders.grade(
            [maths(r"\sqrt{8}", rf"\boxed{{{k}\sqrt2}}"), maths("x+1", r"\boxed{1+x}")]
        )

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {k: reasons(v) for k, v in verdicts.items()} == {
        k: ["correct" if k == 2 else "wrong", "correct"] for k in range(1, 7)
    }


def test_the_tolerance_holds_in_both_paths():
    with Graders(num_workers=1, tolerance=1e-2) as loose:
        assert (
            reasons(loose.grade([maths("20.39", "20.4"), maths(r"\pi", r"\boxed{3.14}")])) == ["correct"] * 2
        )


def test_a_question_is_judged_by_exact_match_with_f1_beside_it(graders):
    task = Task(id="q", question="q", gold="Barack Obama", domain="qa")
    answers = [(task, "Answer: barack obama.", "eos"), (task, "President Barack Hussein Obama", "eos")]
    first, second = graders.grade(answers)
    assert (first.reason, first.parts) == ("correct", {"em": 1.0, "f1": 1.0})
    assert second.reason == "wrong"
    assert second.parts == {"em": 0.0, "f1": pytest.approx(2 / 3)}  # P = 2/4, R = 2/2
    assert graders.grade([(task, "", "eos")])[0].parts == {"em": 0.0, "f1": 0.0}


def test_a_choice_is_judged_by_its_letter(graders):
    task = Task(id="c", question="q", gold="B", domain="choice", choices=("Paris", "Rome"))
    texts = ["(B)", "The answer is A.", "A or B", "no idea", "Rome"]
    assert graders.grade([(task, text, "eos") for text in texts]) == [
        Verdict(correct=True, reason="correct", extracted="B"),
        Verdict(correct=False, reason="wrong", extracted="A"),
        Verdict(correct=False, reason="ambiguous", extracted="A, B"),
        Verdict(correct=False, reason="no_answer"),
        Verdict(correct=True, reason="correct", extracted="B"),
    ]
    beyond = Task(id="c", question="q", gold="C", domain="choice", choices=("Paris", "Rome"))
    assert reasons(graders.grade([(beyond, "C", "eos")])) == ["unusable_gold"]


class _AllRight:
    """A grader that finds every program right."""

    def grade(self, answers: Sequence[tuple[Task, str, StopReason]]) -> list[Verdict]:
        return [Verdict(correct=True, reason="correct", extracted=text) for _, text, _ in answers]


def test_code_goes_to_the_grader_that_was_given_and_keeps_its_place():
    task = Task(id="p", question="q", domain="code", tests="assert f() == 1")
    with Graders(code=_AllRight()) as graders:
        verdicts = graders.grade([(task, "one", "eos"), maths("7", "8"), (task, "two", "eos")])
    assert [verdict.extracted for verdict in verdicts] == ["one", "8", "two"]


def test_code_without_a_grader_for_it_is_refused(graders):
    task = Task(id="p", question="q", domain="code", tests="assert f() == 1")
    with pytest.raises(ConfigError, match="task p is a code task"):
        graders.grade([(task, "one", "eos")])
