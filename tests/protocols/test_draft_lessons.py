from seminar.protocols.draft_lessons import demonstrations
from seminar.protocols.drafts import Drafts
from seminar.tasks.draft_form import parse_draft
from seminar.tasks.generated import problems
from seminar.tasks.review_form import CRITERIA, parse_review

TASKS = problems("words", count=40, seed=0, split="warmup")
TEAM = Drafts(agents=("a", "b"))
LESSONS = list(demonstrations(TEAM, TASKS, seed=0))


def test_each_task_teaches_two_drafts_and_two_reviews() -> None:
    assert len(LESSONS) == 4 * len(TASKS)
    for task, (plain, draft, good, bad) in zip(TASKS, zip(*[iter(LESSONS)] * 4, strict=True), strict=True):
        assert plain.messages == TEAM.plain_prompt(task)
        assert parse_draft(plain.text).answer == parse_draft(draft.text).answer == task.gold
        assert parse_review(good.text).overall == 1.0
        assert parse_review(bad.text).overall == 0.0


def test_the_drafts_prompts_are_those_of_every_draft_number() -> None:
    prompts = [lesson.messages[0]["content"] for lesson in LESSONS[1::4]]
    for k in range(5):
        assert any(f"Write draft {k + 1}." in prompt and prompt.count("####") == k + 1 for prompt in prompts)


def test_a_review_is_taught_under_the_prompt_that_shows_its_draft() -> None:
    shown = LESSONS[2].messages[0]["content"].rpartition("Draft:\n")[2]
    assert parse_draft(shown).answer == TASKS[0].gold


def test_parts_of_the_review_can_be_left_out() -> None:
    *_, bad = demonstrations(TEAM, TASKS[:1], seed=0, criteria=("coherence",), feedback=False)
    assert bad.text == '{"overall":0,"coherence":1}'
    assert parse_review(bad.text).scores == {**dict.fromkeys(CRITERIA), "coherence": 1.0}


def test_a_team_without_peers_learns_no_reviews() -> None:
    alone = Drafts(agents=("a",), peers=False)
    assert len(list(demonstrations(alone, TASKS, seed=0))) == 2 * len(TASKS)


def test_no_prompt_shows_the_solution() -> None:
    assert not any("\\boxed" in lesson.messages[0]["content"] for lesson in LESSONS)
