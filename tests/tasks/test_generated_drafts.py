import re
from collections import Counter

import pytest

from seminar.errors import DataError
from seminar.tasks.draft_form import parse_draft
from seminar.tasks.generated import MIXES, problems
from seminar.tasks.generated_drafts import write_drafts
from seminar.types import Task

TASKS = [task for mix in MIXES for task in problems(mix, count=60, seed=1, split="warmup")]
PATTERN = (True, False, False, True, False)
WRITTEN = [(task, draft) for task in TASKS for draft in write_drafts(task, right=PATTERN, seed=0)]


def holds(step: str) -> bool:
    left, right = step.split("=")
    return eval(left) == int(right)  # digits and signs of our own making


def formulas(task: Task) -> list[str]:
    return [word.split("=")[0] for word in task.meta["solution"].split()]


def test_every_kind_of_problem_is_covered() -> None:
    assert {task.meta["kind"] for task in TASKS} == {kind for mix in MIXES.values() for kind in mix}


def test_all_drafts_keep_the_form_and_are_right_or_wrong_as_asked() -> None:
    for task, written in WRITTEN:
        draft = parse_draft(written.text)
        assert draft.valid
        assert (draft.answer == task.gold) == written.right
    assert [draft.right for _, draft in WRITTEN[:5]] == list(PATTERN)


def test_a_right_draft_has_only_steps_that_hold_and_full_marks() -> None:
    for _, written in WRITTEN:
        if written.right:
            assert all(map(holds, parse_draft(written.text).steps))
            assert all(map(holds, written.review.feedback.rstrip(".").split(", ")))
            assert (written.review.overall, set(written.review.scores.values())) == (1.0, {1.0})


def test_a_wrong_draft_has_one_fault_and_its_review_names_it() -> None:
    kinds = Counter()
    for task, written in WRITTEN:
        if written.right:
            continue
        broken = [step for step in parse_draft(written.text).steps if not holds(step)]
        assert written.review.overall == written.review.scores["correctness"] == 0.0
        if broken:
            assert len(broken) == 1
            found = re.fullmatch(r"(.+=\d+), not (\d+)\.", written.review.feedback)
            assert holds(found[1])
            assert f"{found[1].split('=')[0]}={found[2]}" == broken[0]
            assert written.review.scores["step_validity"] == 0.0
        else:
            found = re.fullmatch(r"It is (.+), not (.+)\.", written.review.feedback)
            assert {found[1], "".join(re.split(r"(\D)", found[1])[::-1])} & set(formulas(task))
            assert found[2] in written.text
            assert (written.review.scores["step_validity"], written.review.scores["relevance"]) == (1.0, 0.0)
        kinds["slip" if broken else "sign"] += 1
    assert min(kinds["slip"], kinds["sign"]) > 100


def test_the_order_of_the_sides_does_not_tell_right_from_wrong() -> None:
    task = Task(id="t", question="q", gold="42", meta={"solution": "12+30=42 \\boxed{42}"})
    for right in (True, False):
        texts = [draft.text for draft in write_drafts(task, right=[right] * 200, seed=0)]
        kept = sum(text.startswith("12") for text in texts)
        assert 60 < kept < 140  # half of 200; a fair coin leaves this range once in 10^8 draws


def test_drafts_depend_on_seed_and_task_alone() -> None:
    again = [draft.text for draft in write_drafts(TASKS[7], right=PATTERN, seed=0)]
    assert again == [draft.text for task, draft in WRITTEN if task is TASKS[7]]
    texts = [[d.text for d in write_drafts(task, right=PATTERN, seed=1)] for task in TASKS]
    assert texts != [[d.text for d in write_drafts(task, right=PATTERN, seed=2)] for task in TASKS]


def test_a_fault_in_the_first_step_is_carried_on() -> None:
    task = Task(id="t", question="2+3*4", gold="14", meta={"solution": "3*4=12 2+12=14 \\boxed{14}"})
    texts = {draft.text for draft in write_drafts(task, right=[False] * 200, seed=0)}
    assert "3+4=7\n2+7=9\n#### 9" in texts
    assert "3*4=13\n2+13=15\n#### 15" in texts
    assert "3*4=12\n2+12=15\n#### 15" in texts
    assert not any(text.endswith("#### 14") for text in texts)


@pytest.mark.parametrize("solution", ["", "first add", "1+1=2 so it is \\boxed{2}", "1+1=3 \\boxed{3}"])
def test_a_task_without_a_solution_in_equations_is_refused(solution: str) -> None:
    with pytest.raises(DataError, match=r"task t: meta\.solution"):
        write_drafts(Task(id="t", question="q", gold="2", meta={"solution": solution}), right=[True], seed=0)
