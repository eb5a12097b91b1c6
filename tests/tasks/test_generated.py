import re
from itertools import product

import pytest

from seminar.errors import ConfigError, DataError
from seminar.tasks.generated import MIXES, SHARES, problems
from seminar.tasks.taskset import TaskSet, overlap

KNOWN = (
    "Ines has 4 apples and finds 10 more. How many apples is that in all?",
    "14",
    "4+10=14. \\boxed{14}",
)


@pytest.mark.parametrize("mix", ["words", "arithmetic"])
def test_no_question_appears_twice_within_or_across_splits_whatever_the_seed(mix):
    questions = {
        (split, seed): [t.question for t in problems(mix, count=300, seed=seed, split=split)]
        for split, seed in product(SHARES, (0, 1))
    }
    for texts in questions.values():
        assert len(set(texts)) == 300
    for (split_a, _), texts in questions.items():
        for (split_b, _), others in questions.items():
            if split_a != split_b:
                assert not set(texts) & set(others)


@pytest.mark.parametrize("mix", ["words", "arithmetic"])
def test_decontamination_finds_nothing_shared_not_even_thirteen_words_in_a_row(mix):
    train = TaskSet(name="train", tasks=tuple(problems(mix, count=600, seed=0, split="train")))
    evaluation = TaskSet(name="evaluation", tasks=tuple(problems(mix, count=300, seed=0, split="evaluation")))
    found = overlap(train, evaluation)
    assert (found.equal, found.shared) == ((), ())


def test_a_sum_told_about_other_things_stays_in_its_split():
    def sums(split):
        return {
            tuple(re.findall(r"\d+", t.question)) for t in problems("boxes", count=400, seed=3, split=split)
        }

    assert not sums("train") & sums("evaluation")


def test_the_same_seed_gives_the_same_tasks_and_another_seed_gives_others():
    first = problems("words", count=20, seed=5, split="train")
    assert first == problems("words", count=20, seed=5, split="train")
    assert first != problems("words", count=20, seed=6, split="train")


def test_a_longer_draw_starts_with_the_shorter_one():
    longer = problems("words", count=50, seed=5, split="train")
    assert longer[:20] == problems("words", count=20, seed=5, split="train")


def test_the_first_word_problem_of_seed_0_is_the_known_one():
    task = problems("words", count=1, seed=0, split="evaluation")[0]
    assert (task.question, task.gold, task.meta["solution"]) == KNOWN


@pytest.mark.parametrize("kind", [*MIXES["words"], *MIXES["arithmetic"]])
def test_every_step_of_every_solution_is_true_and_the_box_holds_the_gold(kind):
    for task in problems(kind, count=200, seed=1, split="train"):
        *steps, box = task.meta["solution"].split(" \\boxed")
        equations = re.findall(r"([\d+*/ -]+)=\s*(\d+)", steps[0])
        assert equations
        for left, right in equations:
            assert eval(left) == int(right)
        assert int(equations[-1][1]) == int(task.gold)
        assert box == "{" + task.gold + "}"


@pytest.mark.parametrize("kind", MIXES["arithmetic"])
def test_the_gold_of_a_bare_sum_is_its_value(kind):
    for task in problems(kind, count=200, seed=2, split="evaluation"):
        assert eval(task.question) == int(task.gold)


def test_the_kinds_of_a_mix_take_turns():
    kinds = [t.meta["kind"] for t in problems("words", count=10, seed=0, split="train")]
    assert tuple(kinds) == MIXES["words"] * 2


def test_ids_name_a_question_and_not_its_place():
    by_question = {t.question: t.id for t in problems("boxes", count=1500, seed=0, split="train")}
    again = problems("boxes", count=1500, seed=9, split="train")
    shared = [t for t in again if t.question in by_question]
    assert shared
    assert all(by_question[t.question] == t.id for t in shared)


def test_an_unknown_kind_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"'wordz'.*words, arithmetic.*gain"):
        problems("wordz", count=1, seed=0, split="train")


def test_an_unknown_split_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"'test'.*warmup, train, validation, evaluation"):
        problems("words", count=1, seed=0, split="test")


def test_a_count_of_zero_is_refused():
    with pytest.raises(ConfigError, match=r"count is 0"):
        problems("words", count=0, seed=0, split="train")


def test_more_problems_than_a_split_holds_are_refused():
    with pytest.raises(DataError, match=r"'product_minus' in split 'validation'"):
        problems("product_minus", count=100_000, seed=0, split="validation")
