"""Published sets: real rows of each, and what is odd in them."""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seminar.errors import ConfigError, DataError
from seminar.tasks import named_maths, named_text
from seminar.tasks.code import exercise
from seminar.tasks.named import NAMED, load
from seminar.tasks.rows import Published, read_rows
from seminar.tasks.taskset import TaskSet, overlap, question_key

DATA = Path(__file__).resolve().parents[2] / "../shared/data"
real = pytest.mark.data


def rows(name: str) -> Path:
    path = DATA / f"{name}.jsonl"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    return path


def written(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def golds(tasks: TaskSet) -> list[str]:
    return [task.gold for task in tasks.tasks]


@real
@pytest.mark.parametrize(
    ("name", "file", "count"),
    [
        ("math500", "math500", 500),
        ("aime24", "aime24", 30),
        ("aime25", "aime25", 30),
        ("amc23", "amc23", 40),
        ("minerva", "minerva_math", 272),
        ("gsm8k", "gsm8k_test", 1319),
        ("gsm8k", "gsm8k_train_2000", 2000),
        ("math", "math_train_sample", 1508),
        ("still3", "still3_or_deepscaler_sample", 1000),
        ("humaneval", "humaneval", 164),
        ("mbpp", "mbpp", 500),  # of 974: those of the default split, test
        ("mbpp_sanitized", "mbpp_sanitized", 257),  # of 427
        ("hotpotqa", "hotpotqa_dev_sample", 200),
        ("mmlu", "mmlu_sample", 456),  # of 741: the 285 others are dev
    ],
)
def test_every_row_of_the_real_files_is_usable(name: str, file: str, count: int) -> None:
    tasks = load(name, path=rows(file))
    assert (len(tasks.tasks), tasks.dropped) == (count, ())
    assert {(task.source, task.domain) for task in tasks.tasks} == {(name, NAMED[name].domain)}


# --- mathematics


@real
def test_golds_of_math500_are_the_boxes_of_its_solutions() -> None:
    tasks = load("math500", path=rows("math500")).tasks
    assert tasks[0].id == "test/precalculus/807.json"
    assert (tasks[0].gold, tasks[0].meta["level"]) == (r"\left( 3, \frac{\pi}{2} \right)", 2)
    assert all(named_maths.last_box(task.meta["solution"]) == task.gold for task in tasks)


@real
def test_golds_of_aime24_lose_their_padding_and_do_not_come_from_the_solution() -> None:
    tasks = {task.id: task for task in load("aime24", path=rows("aime24")).tasks}
    assert (tasks["60"].gold, tasks["61"].gold) == ("204", "113")  # 60 has no box at all
    assert all(re.fullmatch(r"0|[1-9]\d{0,2}", task.gold) for task in tasks.values())
    assert Counter(row["answer"][0] == "0" for row in read_rows(rows("aime24")))[True] > 0
    assert not any(task.meta for task in tasks.values())


@real
def test_golds_of_aime25_are_whole_numbers() -> None:
    assert golds(load("aime25", path=rows("aime25")))[:3] == ["70", "588", "16"]


@real
def test_floats_of_amc23_are_whole_numbers_and_minus_one_is_right() -> None:
    tasks = {task.id: task.gold for task in load("amc23", path=rows("amc23")).tasks}
    assert (tasks["0"], tasks["17"]) == ("27", "-1")
    assert not any("." in gold for gold in tasks.values())


@real
def test_golds_of_minerva_are_boxed_in_the_solution() -> None:
    tasks = golds(load("minerva", path=rows("minerva_math")))
    assert tasks[0] == "1.6"
    assert sum(bool(re.fullmatch(r"-?\d+(\.\d+)?e-?\d+", gold)) for gold in tasks) == 58  # papers.md 4.2
    assert {"np.arcsin(10/13)", "-1./3", "+2", "SRAC=LRAC", "E_{1},E_{2}"} <= {
        g.replace(r"\mathrm", "") for g in tasks
    }
    assert not any(gold != gold.strip() for gold in tasks)  # one has a newline behind it in the row


@real
def test_golds_of_gsm8k_stand_behind_the_hashes_without_commas() -> None:
    tasks = load("gsm8k", path=rows("gsm8k_test")).tasks
    raw = [row["answer"].split("#### ")[1] for row in read_rows(rows("gsm8k_test"))]
    assert [task.gold for task in tasks] == [gold.replace(",", "") for gold in raw]
    assert (sum("," in gold for gold in raw), sum(task.gold.startswith("-") for task in tasks)) == (14, 2)
    assert all(re.fullmatch(r"-?\d+", task.gold) for task in tasks)


def test_a_row_of_gsm8k_without_the_hashes_is_dropped(tmp_path: Path) -> None:
    rows = [{"question": "1+1?", "answer": "It is 2.\n#### 2"}, {"question": "1+2?", "answer": "It is 3."}]
    assert load("gsm8k", path=written(tmp_path / "g.jsonl", *rows)).dropped == (
        ("1", "there is no gold answer"),
    )


@real
def test_solutions_of_gsm8k_have_no_calculator_marks() -> None:
    first = load("gsm8k", path=rows("gsm8k_test")).tasks[0]
    assert first.meta["solution"].startswith("Janet sells 16 - 3 - 4 = 9 duck eggs a day.\n")
    assert first.meta["solution"].endswith("9 * 2 = $18 every day at the farmer\u2019s market.")


@real
def test_gsm8k_train_and_test_share_no_question() -> None:
    found = overlap(load("gsm8k", path=rows("gsm8k_train_2000")), load("gsm8k", path=rows("gsm8k_test")))
    assert found.equal == ()


@real
def test_math_is_chosen_by_subject_and_level() -> None:
    path = rows("math_train_sample")
    chosen = load("math", path=path, subjects=["precalculus", "counting_and_probability"], levels=[4, 5])
    raw = [
        row
        for row in read_rows(path)
        if row["type"] in ("Precalculus", "Counting & Probability") and row["level"] in ("Level 4", "Level 5")
    ]
    assert [task.question for task in chosen.tasks] == [row["problem"].strip() for row in raw]
    assert {task.meta["subject"] for task in chosen.tasks} == {"precalculus", "counting_and_probability"}


@real
def test_ids_of_math_do_not_depend_on_what_is_chosen() -> None:
    path = rows("math_train_sample")
    every = {task.question: task.id for task in load("math", path=path).tasks}
    some = load("math", path=path, subjects=["geometry"], levels=[1]).tasks
    assert all(every[task.question] == task.id for task in some)


@real
def test_the_two_rows_of_math_without_a_level_have_none() -> None:
    tasks = load("math", path=rows("math_train_sample"), subjects=["geometry"]).tasks
    assert sum(task.meta["level"] is None for task in tasks) == 2


def test_math_has_no_calculus() -> None:
    with pytest.raises(ConfigError, match=r"`calculus`.*The nearest is `precalculus`"):
        load("math", subjects=["calculus"])


def test_math_has_no_sixth_level() -> None:
    with pytest.raises(ConfigError, match="`6`; known are 1, 2, 3, 4, 5"):
        load("math", levels=[6])


def test_the_parts_of_math_add_up_to_its_known_size() -> None:
    assert NAMED["math"].sizes == {"test": 5000, "train": 7500}


@real
def test_bare_golds_of_the_training_sample_lose_their_outer_blanks() -> None:
    tasks = golds(load("still3", path=rows("still3_or_deepscaler_sample")))
    assert r"\frac{1}{5}" in tasks
    assert sum(bool(re.fullmatch(r"-?\d+", gold)) for gold in tasks) == 606
    assert {r"51\%", r"\$2.75", r"90^\circ", "2104_5", "B"} <= set(tasks)


@real
def test_the_training_sample_is_clean_of_the_benchmarks_and_knows_58_problems_of_math() -> None:
    train = load("still3", path=rows("still3_or_deepscaler_sample"))
    for name, file in (
        ("math500", "math500"),
        ("aime24", "aime24"),
        ("aime25", "aime25"),
        ("amc23", "amc23"),
    ):
        assert overlap(train, load(name, path=rows(file))).equal == ()
    assert len(overlap(train, load("math", path=rows("math_train_sample"))).equal) == 58


@real
def test_a_problem_copied_into_a_training_set_is_found_whatever_its_layout(tmp_path: Path) -> None:
    known = read_rows(rows("math500"))[7]
    copied = known["problem"].replace("$", "").replace(" ", "  ").upper()
    train = load("still3", path=written(tmp_path / "t.jsonl", {"question": copied, "answer": "1"}))
    assert overlap(train, load("math500", path=rows("math500"))).equal == (("0", known["unique_id"]),)


def test_deepscaler_rows_without_an_answer_are_dropped_and_named(tmp_path: Path) -> None:
    path = written(
        tmp_path / "d.jsonl",
        {"problem": "1+1?", "answer": "2", "solution": "Two."},
        {"problem": "1+2?", "answer": "", "solution": ""},
    )
    tasks = load("deepscaler", path=path)
    assert tasks.dropped == (("1", "there is no gold answer"),)
    assert tasks.tasks[0].meta == {"solution": "Two."}


def test_a_gold_that_cannot_be_read_is_dropped_and_named(tmp_path: Path) -> None:
    path = written(
        tmp_path / "o.jsonl",
        {"problem": "1+1?", "answer": "2", "solution": "", "level": "Easy"},
        {"problem": "1/2?", "answer": r"\frac{1}{2", "solution": "", "level": "Hard"},
    )
    (dropped,) = load("openrs", path=path).dropped
    assert dropped[0] == "1"
    assert dropped[1].startswith(r"gold `\frac{1}{2`: ")


# --- code


@real
def test_tests_of_humaneval_call_the_entry_point() -> None:
    first = load("humaneval", path=rows("humaneval")).tasks[0]
    assert (first.id, first.meta["entry_point"], first.gold) == ("HumanEval/0", "has_close_elements", "")
    assert (made := exercise(first)) is not None
    assert made.tests.endswith("\ncheck(has_close_elements)\n")
    assert first.question.startswith("from typing import List\n\n\ndef has_close_elements(")


@real
@pytest.mark.parametrize(
    ("name", "file"), [("humaneval", "humaneval"), ("mbpp", "mbpp"), ("mbpp_sanitized", "mbpp_sanitized")]
)
def test_solutions_of_code_sets_define_their_entry_point(name: str, file: str) -> None:
    for task in load(name, path=rows(file)).tasks:
        assert re.search(
            rf"^def {task.meta['entry_point']}\(", task.meta["solution"].replace(" (", "("), re.MULTILINE
        )


@real
@pytest.mark.parametrize(
    ("split", "count"), [("train", 374), ("test", 500), ("validation", 90), ("prompt", 10)]
)
def test_mbpp_is_split_by_task_number(split: str, count: int) -> None:
    assert len(load("mbpp", path=rows("mbpp"), split=split).tasks) == count


@real
@pytest.mark.parametrize(
    ("split", "count"), [("train", 120), ("test", 257), ("validation", 43), ("prompt", 7)]
)
def test_sanitized_mbpp_is_split_by_task_number(split: str, count: int) -> None:
    assert len(load("mbpp_sanitized", path=rows("mbpp_sanitized"), split=split).tasks) == count


@real
def test_mbpp_shows_its_tests_and_has_unix_line_ends() -> None:
    raw = {str(row["task_id"]): row for row in read_rows(rows("mbpp"))}
    for task in load("mbpp", path=rows("mbpp")).tasks:
        assert all(test in task.question for test in raw[task.id]["test_list"])
        assert "\r" not in task.question + task.tests + task.meta["solution"]


@real
def test_set_up_code_and_imports_stand_before_the_tests_of_mbpp() -> None:
    full = load("mbpp", path=rows("mbpp"), split="train").tasks + load("mbpp", path=rows("mbpp")).tasks
    trees = [task for task in full if task.tests.startswith("root = Node(1)")]
    assert len(trees) == 2
    assert not any("root = Node(1)" in task.question for task in trees)
    by_hand = [
        task
        for split in ("train", "test", "validation", "prompt")
        for task in load("mbpp_sanitized", path=rows("mbpp_sanitized"), split=split).tasks
    ]
    wanting = [str(row["task_id"]) for row in read_rows(rows("mbpp_sanitized")) if row["test_imports"]]
    assert len(wanting) == 13
    assert all(task.tests.startswith("import math\nassert") for task in by_hand if task.id in wanting)


@real
def test_texts_of_mbpp_that_repeat_are_told_apart_by_their_tests() -> None:
    tasks = [
        task
        for split in ("train", "test", "validation", "prompt")
        for task in load("mbpp", path=rows("mbpp"), split=split).tasks
    ]
    assert len(tasks) == 974
    assert len({task.question.partition("\n")[0] for task in tasks}) == 970
    assert len({question_key(task) for task in tasks}) == 974


# --- reading and choice


@real
def test_hotpotqa_has_ten_paragraphs_and_its_supporting_titles() -> None:
    tasks = load("hotpotqa", path=rows("hotpotqa_dev_sample")).tasks
    assert {len(task.context) for task in tasks} == {10}
    assert all(set(task.meta["supporting_titles"]) <= {title for title, _ in task.context} for task in tasks)
    assert Counter(task.gold in ("yes", "no") for task in tasks)[True] == 10
    assert tasks[0].context[1] == ("VIVA Poland", tasks[0].context[1][1])
    assert (
        tasks[0].context[1][1].startswith('VIVA Polska (earlier "VIVApolska!") is a Polish 24h music and ent')
    )


@real
def test_every_other_answer_of_hotpotqa_stands_in_its_context() -> None:
    for task in load("hotpotqa", path=rows("hotpotqa_dev_sample")).tasks:
        assert task.gold in ("yes", "no") or any(task.gold in text for _, text in task.context)


@real
def test_golds_of_mmlu_are_letters_of_their_options() -> None:
    raw = [row for row in read_rows(rows("mmlu_sample")) if row["split"] == "test"]
    tasks = load("mmlu", path=rows("mmlu_sample")).tasks
    assert [task.gold for task in tasks] == ["ABCD"[row["answer"]] for row in raw]
    assert tasks[0].choices == tuple(raw[0]["choices"])


@real
def test_five_shots_of_mmlu_are_the_dev_rows_of_the_subject_in_order() -> None:
    raw = [row for row in read_rows(rows("mmlu_sample")) if row["split"] == "dev"]
    for task in load("mmlu", path=rows("mmlu_sample"), shots=5).tasks:
        own = [row for row in raw if row["subject"] == task.meta["subject"]]
        assert [shot["question"] for shot in task.meta["shots"]] == [row["question"].strip() for row in own]
        assert [shot["gold"] for shot in task.meta["shots"]] == ["ABCD"[row["answer"]] for row in own]


@real
def test_fewer_shots_are_the_first_ones() -> None:
    path = rows("mmlu_sample")
    five, two = (load("mmlu", path=path, shots=shots, subjects=["virology"]).tasks[0] for shots in (5, 2))
    assert two.meta["shots"] == five.meta["shots"][:2]


@real
def test_twice_the_same_option_is_no_fault_of_a_gold_given_by_number() -> None:
    dev = load("mmlu", path=rows("mmlu_sample"), split="dev", subjects=["high_school_biology"]).tasks
    assert len(set(dev[2].choices)) == 3
    assert dev[2].gold in "ABCD"


@real
def test_questions_of_mmlu_that_repeat_are_found() -> None:
    # README: two pairs in the file; both have a row in dev and one in test, or two in dev.
    every = [
        task
        for split in ("dev", "test")
        for task in load("mmlu", path=rows("mmlu_sample"), split=split).tasks
    ]
    repeated = [key for key, uses in Counter(question_key(task) for task in every).items() if uses > 1]
    assert len(repeated) == 2


@real
def test_more_shots_than_dev_has_are_refused() -> None:
    with pytest.raises(DataError, match="shots is 6, but `dev` holds 5 examples"):
        load("mmlu", path=rows("mmlu_sample"), shots=6)


def test_shots_from_a_file_without_dev_rows_are_refused(tmp_path: Path) -> None:
    row = {"question": "?", "subject": "virology", "choices": ["a", "b", "c", "d"], "answer": 1}
    with pytest.raises(DataError, match="`dev` holds 0 examples of virology"):
        load("mmlu", path=written(tmp_path / "m.jsonl", row), shots=5)


def test_shots_are_not_asked_of_dev_itself() -> None:
    with pytest.raises(ConfigError, match="those come from `dev`"):
        load("mmlu", split="dev", shots=5)


def test_redux_keeps_what_is_ok_and_names_the_rest(tmp_path: Path) -> None:
    row = {"question": "Which?", "subject": "virology", "choices": ["a", "b", "c", "d"], "answer": 1}
    path = written(
        tmp_path / "r.jsonl", {**row, "error_type": "ok"}, {**row, "error_type": "wrong_groundtruth"}
    )
    tasks = load("mmlu_redux", path=path)
    assert golds(tasks) == ["B"]
    assert tasks.dropped == (("virology/1", "its label is known to be bad: wrong_groundtruth"),)


# --- names, options and sizes


def test_every_named_set_has_a_line_and_a_hub_id() -> None:
    for name, entry in NAMED.items():
        assert entry.load.__name__ == name
        assert len(entry.about) > 20
        assert re.fullmatch(r"[\w-]+/[\w.-]+", entry.published[0].hub)


def test_names_load_neither_torch_nor_the_hub_library() -> None:
    code = "import sys, seminar.tasks.named; print({'torch', 'datasets', 'pyarrow'} & sys.modules.keys())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="The nearest is `math500`"):
        load("math-500")


@pytest.mark.parametrize(
    ("name", "options", "having"),
    [
        ("gsm8k", {"subjects": ["algebra"]}, "math, mmlu, mmlu_redux"),
        ("mmlu", {"levels": [1]}, "math"),
        ("mmlu_redux", {"shots": 5}, "mmlu"),
    ],
)
def test_an_option_that_a_set_does_not_have_is_refused(
    name: str, options: dict[str, Any], having: str
) -> None:
    with pytest.raises(ConfigError, match=f"to choose; only {having} have"):
        load(name, **options)


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"openai/gsm8k has no split `dev`; choose one of test, train"):
        load("gsm8k", split="dev")


def test_a_split_of_a_file_that_is_one_split_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "g.jsonl", {"question": "?", "answer": "#### 1"})
    with pytest.raises(ConfigError, match="is one split"):
        load("gsm8k", path=path, split="test")


def test_a_path_that_is_no_data_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a file ending in \.jsonl, \.csv, \.parquet is needed"):
        load("gsm8k", path=tmp_path / "g.txt")


def test_a_column_of_another_kind_is_one_clear_error(tmp_path: Path) -> None:
    path = written(tmp_path / "h.jsonl", {"id": "1", "question": "?", "answer": "x", "context": "text"})
    with pytest.raises(DataError, match=r"h\.jsonl line 1: a column does not hold what hotpotqa needs"):
        load("hotpotqa", path=path)


@pytest.mark.parametrize("reader", [named_maths.aime25, named_maths.math, named_text.mmlu_redux])
def test_a_size_on_the_hub_that_is_not_the_known_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, reader: Callable[..., TaskSet]
) -> None:
    datasets = pytest.importorskip("datasets")
    row = {"problem": "?", "solution": r"\boxed{1}", "answer": 1, "type": "Algebra", "level": "Level 1"}
    monkeypatch.setattr(datasets, "load_dataset", lambda hub, config, split: [row] * 3)
    with pytest.raises(DataError, match=r"holds 3 rows, not \d+: it has changed"):
        reader()


def test_a_set_on_the_hub_is_asked_by_id_config_and_default_split(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load_dataset(hub: str, config: str | None, *, split: str) -> list[dict[str, str]]:
        asked.append((hub, config, split))
        return [{"question": f"{number}?", "answer": f"#### {number}"} for number in range(1319)]

    monkeypatch.setattr(pytest.importorskip("datasets"), "load_dataset", load_dataset)
    assert len(load("gsm8k").tasks) == 1319
    assert asked == [("openai/gsm8k", "main", "test")]


def test_subjects_of_redux_are_configs_on_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(hub: str, config: str | None, *, split: str) -> list[dict[str, Any]]:
        return [{"question": config, "choices": list("abcd"), "answer": 0, "error_type": "ok"}] * 100

    monkeypatch.setattr(pytest.importorskip("datasets"), "load_dataset", load_dataset)
    tasks = load("mmlu_redux", subjects=["virology", "anatomy"]).tasks
    assert Counter(task.meta["subject"] for task in tasks) == {"virology": 100, "anatomy": 100}
    assert tasks[199].id == "anatomy/99"


def test_a_known_size_that_holds_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        pytest.importorskip("datasets"), "load_dataset", lambda *_, split: [{"a": 1}, {"a": 2}]
    )
    assert [row["a"] for row in Published(hub="o/s", sizes={"train": 2}).rows(None)] == [1, 2]
