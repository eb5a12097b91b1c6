"""Task sets: batches, parts, overlap."""

import pytest

from seminar.errors import ConfigError, DataError
from seminar.tasks.taskset import TaskSet, decontaminate, normalise_question, overlap, question_key
from seminar.types import Task


def numbered(count: int, *, name: str = "sums") -> TaskSet:
    return TaskSet(
        name=name,
        tasks=tuple(Task(id=str(i), question=f"What is {i} + {i}?", gold=str(2 * i)) for i in range(count)),
    )


def ids(tasks: tuple[Task, ...]) -> list[str]:
    return [task.id for task in tasks]


def asked(*questions: str, name: str = "asked") -> TaskSet:
    return TaskSet(
        name=name, tasks=tuple(Task(id=str(i), question=q, gold="1") for i, q in enumerate(questions))
    )


def test_an_id_that_stands_for_two_tasks_is_refused_and_named() -> None:
    with pytest.raises(DataError, match="id `a7` stands for two tasks"):
        TaskSet(
            name="x",
            tasks=(Task(id="a7", question="1?"), Task(id="b", question="2?"), Task(id="a7", question="3?")),
        )


def test_an_empty_set_is_refused_and_says_what_was_dropped() -> None:
    with pytest.raises(
        DataError, match=r"no usable task; 1 were dropped, the first, r3, for this: there is no gold"
    ):
        TaskSet(name="x", tasks=(), dropped=(("r3", "there is no gold answer"),))


def test_a_step_gives_the_same_tasks_whenever_it_is_asked() -> None:
    # Faults Z1, Z3: a resumed run asks for step 20 first, a straight one has asked for 0 to 19 before.
    straight = [numbered(10).batch(step, size=4, seed=7) for step in range(40)]
    assert numbered(10).batch(20, size=4, seed=7) == straight[20]
    assert [numbered(10).batch(step, size=4, seed=7) for step in range(39, 19, -1)] == straight[:19:-1]


@pytest.mark.parametrize(
    ("count", "size"), [(10, 4), (10, 3), (10, 10), (10, 9), (7, 5), (1, 1), (12, 8), (30, 1)]
)
def test_an_epoch_holds_every_task_once_and_a_batch_no_task_twice(count: int, size: int) -> None:
    steps = 12 * count  # a whole number of epochs for every size
    batches = [ids(numbered(count).batch(step, size=size, seed=1)) for step in range(steps)]
    assert all(len(set(batch)) == size for batch in batches)
    walked = [id for batch in batches for id in batch]
    epochs = [walked[start : start + count] for start in range(0, len(walked), count)]
    assert all(sorted(epoch, key=int) == ids(numbered(count).tasks) for epoch in epochs)


def test_epochs_and_seeds_give_different_orders() -> None:
    whole = [tuple(ids(numbered(50).batch(step, size=50, seed=seed))) for seed in (0, 1) for step in (0, 1)]
    assert len(set(whole)) == 4


def test_the_first_batches_of_a_seed_never_change() -> None:
    # Recorded once; another order would make a resumed run see other tasks.
    first = ["".join(ids(numbered(6).batch(step, size=4, seed=0))) for step in range(3)]
    assert first == ["1430", "2504", "5132"]


def test_a_batch_larger_than_the_set_is_refused() -> None:
    with pytest.raises(ConfigError, match="batch size is 11 tasks, but sums has 10"):
        numbered(10).batch(0, size=11, seed=0)


def test_parts_and_validation_have_the_sizes_asked_and_share_nothing() -> None:
    # 29,925 -> 3 x 7,500 + 750 is the partition of the paper; the same shape at a hundredth.
    split = numbered(299).split([75, 75, 75], validation=8, seed=3)
    assert split.validation is not None
    sets = [*split.parts, split.validation]
    assert [len(part.tasks) for part in sets] == [75, 75, 75, 8]
    assert len({id for part in sets for id in ids(part.tasks)}) == 233


def test_a_number_of_parts_deals_out_every_task() -> None:
    split = numbered(11).split(3, validation=1, seed=0)
    assert [len(part.tasks) for part in split.parts] == [4, 3, 3]  # 10 left after validation


def test_a_split_depends_on_its_seed_only() -> None:
    assert numbered(40).split(2, seed=5) == numbered(40).split(2, seed=5)
    assert numbered(40).split(2, seed=5) != numbered(40).split(2, seed=6)


def test_without_validation_there_is_no_validation_set() -> None:
    assert numbered(4).split(2, seed=0).validation is None


def test_a_question_that_stands_twice_in_other_layout_lands_in_one_part_only() -> None:
    # Fault E3: the copy would be in the training and in the validation part for some seeds.
    twins = asked("Find $x$ if $\\left(x+1\\right)=2$.", "find   $x$, if ( x+1 )=2", "Find $x$ if $x-1=2$.")
    for seed in range(10):
        split = twins.split([1], validation=1, seed=seed)
        assert split.dropped == (("1", "same question as 0"),)


@pytest.mark.parametrize(
    ("parts", "validation"), [(0, 0), ([], 0), ([0, 2], 0), ([5, 5], 1), (10, 1), (2, -1), (2, 9)]
)
def test_parts_that_do_not_fit_are_refused(parts: int | list[int], validation: int) -> None:
    with pytest.raises(DataError, match="do not fit"):
        numbered(10).split(parts, validation=validation, seed=0)


def test_layout_case_and_punctuation_do_not_make_a_new_question() -> None:
    one = "Find  the value of \\(\\dfrac{1}{2} x^{2}\\), if $x \\leq 3$\u2019s half\u2026"
    two = "find the value of $$\\tfrac12 x^2$$ if $x\\le3$'s half..."
    assert normalise_question(one) == r"find the value of \frac 1 2 x ^ 2 if x \le 3 s half"
    assert normalise_question(two) == r"find the value of \frac 12 x ^ 2 if x \le 3 s half"


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("2+3", "2-3"),
        ("5!", "5"),
        ("1.5", "15"),
        ("1.5", "1, 5"),
        ("x<3", "x>3"),
        (r"\sin x", r"\cos x"),
        ("3 - 4", "34"),
        ("a/b", "ab"),
    ],
)
def test_another_sign_or_number_makes_another_question(one: str, two: str) -> None:
    assert normalise_question(f"Compute ${one}$") != normalise_question(f"Compute ${two}$")


def test_options_belong_to_the_question() -> None:
    one = Task(id="1", question="Which is true?", gold="A", domain="choice", choices=("x", "y"))
    two = Task(id="2", question="Which is true?", gold="A", domain="choice", choices=("x", "z"))
    assert question_key(one) != question_key(two)


RUN = "a train leaves the old station at noon and rides with sixty miles"  # 13 words


def test_a_run_of_thirteen_words_is_found_and_one_of_twelve_is_not() -> None:
    train = asked(f"Once {RUN} an hour.", "Once " + RUN.rsplit(" ", 1)[0] + " kilometres an hour.", "Other.")
    evaluation = asked("Nothing here.", f"Long ago {RUN}; how far?", name="test")
    assert overlap(train, evaluation) == ((), (("0", "1"),))
    assert overlap(train, evaluation, words=12) == ((), (("0", "1"), ("1", "1")))


def test_a_run_of_more_than_ten_training_tasks_is_a_turn_of_phrase() -> None:
    evaluation = asked(f"Then {RUN}.", name="test")
    ten = asked(*(f"Number {i}: {RUN} an hour." for i in range(10)))
    eleven = asked(*(f"Number {i}: {RUN} an hour." for i in range(11)))
    assert len(overlap(ten, evaluation).shared) == 10
    assert overlap(eleven, evaluation).shared == ()


def test_equal_questions_are_reported_as_equal_however_short() -> None:
    assert overlap(asked("What is $1+1$?"), asked("what is 1 + 1")) == ((("0", "0"),), ())


def test_code_of_a_drawing_is_no_shared_run() -> None:
    drawing = "[asy] draw((0,0)--(3,0)--(3,3)--(0,3)--cycle); label(1); [/asy]"
    assert overlap(asked("Find the area. " + drawing), asked("How long is it? " + drawing)) == ((), ())


def test_decontamination_names_every_task_it_takes_out() -> None:
    train = asked("What is $1+1$?", f"Once {RUN} an hour.", "What is left?")
    clean = decontaminate(train, [asked("What is 1 + 1?", name="A"), asked(f"Then {RUN}.", name="B")])
    assert ids(clean.tasks) == ["2"]
    assert clean.dropped == (("0", "same question as A 0"), ("1", "13 words in a row in common with B 0"))


def test_a_set_within_its_evaluation_set_is_refused_after_decontamination() -> None:
    with pytest.raises(DataError, match="no usable task"):
        decontaminate(asked("What is 1?"), [asked("What is 1?")])
