"""Rows from files, and own sets by a mapping of their columns."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from seminar.errors import DataError
from seminar.tasks.code import exercise
from seminar.tasks.mapping import as_letter, as_text, load_mapped
from seminar.tasks.rows import read_rows

ROWS = [
    {"id": "p", "question": "What is 1+1?", "answer": "2"},
    {"id": "q", "question": "And 2+2?", "answer": "4"},
]


def jsonl(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def test_jsonl_csv_and_parquet_of_the_same_rows_give_the_same_tasks(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    jsonl(tmp_path / "own.jsonl", ROWS)
    with (tmp_path / "own.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ROWS[0])
        writer.writeheader()
        writer.writerows(ROWS)
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "own.parquet")
    sets = [load_mapped(tmp_path / f"own.{kind}", id="id") for kind in ("jsonl", "csv", "parquet")]
    assert sets[0] == sets[1] == sets[2]
    assert [(task.id, task.question, task.gold) for task in sets[0].tasks] == [
        ("p", "What is 1+1?", "2"),
        ("q", "And 2+2?", "4"),
    ]


def test_a_hub_id_is_read_by_the_hub_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # `datasets` reads a local folder by the same call as a hub id: the hub path without a network.
    folder = tmp_path / "owner-set"
    folder.mkdir()
    jsonl(folder / "train.jsonl", ROWS)
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    loaded = load_mapped(str(folder), split="train", id="id")
    assert [task.gold for task in loaded.tasks] == ["2", "4"]


def test_a_hub_id_that_does_not_load_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"could not be loaded from the hub .* or give a local file"):
        read_rows(str(tmp_path / "nothing-here"), split="train")


def test_a_hub_id_without_a_split_is_refused() -> None:
    with pytest.raises(DataError, match="no split is named"):
        read_rows("owner/set")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.jsonl is not a file here"):
        read_rows(tmp_path / "gone.jsonl")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no rows"):
        read_rows(jsonl(tmp_path / "empty.jsonl", []))


def test_a_broken_line_is_named_by_its_number(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "broken.jsonl", ROWS)
    path.write_text(path.read_text() + "\n{'id': 3}\n")  # an empty line counts, but is no row
    with pytest.raises(DataError, match=r"broken\.jsonl line 4 is not JSON"):
        read_rows(path)


def test_a_line_that_is_no_object_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 1 is a JSON list"):
        read_rows(jsonl(tmp_path / "lists.jsonl", [[1, 2]]))


def test_a_csv_row_with_too_many_cells_is_named(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("question,answer\nHow many, all in all?,3\n")
    with pytest.raises(DataError, match=r"own\.csv line 2 has another number of cells than the header"):
        read_rows(tmp_path / "own.csv")


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.parquet").write_text("no parquet")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        read_rows(tmp_path / "own.parquet")


def test_a_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_bytes('{"question": "\u00e9"}'.encode("latin-1"))
    with pytest.raises(DataError, match=r"own\.jsonl cannot be read .* text must be UTF-8"):
        read_rows(tmp_path / "own.jsonl")


def test_a_cell_too_long_for_csv_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("question,answer\n" + "x" * 200_000 + ",1\n")
    with pytest.raises(DataError, match=r"own\.csv cannot be read \(field larger than field limit"):
        read_rows(tmp_path / "own.csv")


def test_a_missing_column_is_named_with_the_nearest(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "own.jsonl", [{"problem": "1?", "Answers": "1"}])
    with pytest.raises(
        DataError,
        match=r"line 1 has no column `answer`; its columns are problem, Answers\. .*the nearest is `Answers`",
    ):
        load_mapped(path, question="problem")


def test_ids_that_repeat_are_refused(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "own.jsonl", [ROWS[0], ROWS[0]])
    with pytest.raises(DataError, match="own: the id `p` stands for two tasks"):
        load_mapped(path, id="id")


def test_rows_without_gold_or_question_are_dropped_and_named(tmp_path: Path) -> None:
    rows = [
        *ROWS,
        {"id": "r", "question": "3?", "answer": None},
        {"id": "s", "question": "  ", "answer": "1"},
    ]
    own = load_mapped(jsonl(tmp_path / "own.jsonl", rows), id="id")
    assert len(own.tasks) == 2
    assert own.dropped == (("r", "there is no gold answer"), ("s", "the question is empty"))


def test_a_set_without_one_usable_row_is_refused(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "own.jsonl", [{"question": "3?", "answer": ""}])
    with pytest.raises(DataError, match="own holds no usable task; 1 were dropped"):
        load_mapped(path)


@pytest.mark.parametrize(
    ("cell", "text"),
    [(27.0, "27"), (-1.0, "-1"), (0.5, "0.5"), (7, "7"), (" 3\n", "3"), (None, ""), (1e300, "1e+300")],
)
def test_cells_become_text_and_whole_floats_whole_numbers(cell: Any, text: str) -> None:
    assert as_text(cell) == text


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        (0, "A"),
        (3, "D"),
        ("C", "C"),
        (" C ", "C"),
        ("seven", "B"),
        ("nine", "nine"),
        (4, "4"),
        (-1, "-1"),
        ("B", "B"),
    ],
)
def test_a_gold_of_a_choice_is_a_letter_a_number_or_a_text(answer: Any, letter: str) -> None:
    assert as_letter(answer, ("one", "seven", "B", "two")) == letter


def test_the_text_of_two_options_is_no_gold() -> None:
    assert as_letter("same", ("same", "same")) == "same"


def test_options_come_from_a_list_or_from_a_column_each(tmp_path: Path) -> None:
    rows = [{"question": "?", "a": "x", "b": "y", "both": ["x", "y"], "answer": "y"}]
    path = jsonl(tmp_path / "own.jsonl", rows)
    one = load_mapped(path, domain="choice", choices="both")
    two = load_mapped(path, domain="choice", choices=("a", "b"))
    assert one == two
    assert (one.tasks[0].choices, one.tasks[0].gold) == (("x", "y"), "B")


def test_a_gold_beside_the_options_is_dropped(tmp_path: Path) -> None:
    rows = [{"question": "?", "c": ["x", "y"], "answer": gold} for gold in ("A", 2, "z")]
    own = load_mapped(jsonl(tmp_path / "own.jsonl", rows), domain="choice", choices="c")
    assert [id for id, _ in own.dropped] == ["1", "2"]
    assert own.dropped[1][1] == "gold `z` is no letter, number or text of the 2 options"


def test_options_that_are_no_list_are_refused(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "own.jsonl", [{"question": "?", "c": "x,y", "answer": "A"}])
    with pytest.raises(DataError, match="`c` is 'x,y'; a list of up to 26 is needed"):
        load_mapped(path, domain="choice", choices="c")


def test_context_is_a_text_or_titled_paragraphs(tmp_path: Path) -> None:
    rows = [
        {"question": "?", "answer": "1", "c": "plain"},
        {"question": "!", "answer": "1", "c": [["T", "titled"]]},
    ]
    own = load_mapped(jsonl(tmp_path / "own.jsonl", rows), domain="qa", context="c")
    assert [task.context for task in own.tasks] == [(("", "plain"),), (("T", "titled"),)]


def test_context_of_another_shape_is_refused(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "own.jsonl", [{"question": "?", "answer": "1", "c": 5}])
    with pytest.raises(DataError, match="line 1: a column does not hold what own needs"):
        load_mapped(path, domain="qa", context="c")


def test_tests_of_code_are_joined_and_need_no_gold(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "own.jsonl", [{"question": "?", "tests": ["assert f(1)\r\n", "assert f(2)"]}])
    (task,) = load_mapped(path, domain="code").tasks
    assert (task.tests, task.gold, task.domain) == ("assert f(1)\n\nassert f(2)", "", "code")


def test_a_check_of_code_is_called_on_the_entry_point(tmp_path: Path) -> None:
    row = {"question": "?", "tests": "def check(candidate):\n    assert candidate(1)", "start": "f"}
    (task,) = load_mapped(jsonl(tmp_path / "own.jsonl", [row]), domain="code", entry_point="start").tasks
    assert (made := exercise(task)) is not None
    assert (made.names, made.tests.endswith("\n\ncheck(f)\n")) == (("f",), True)


def test_code_rows_with_unusable_tests_are_dropped_and_named(tmp_path: Path) -> None:
    rows = [{"question": "?", "tests": tests} for tests in ("assert f(1)", "assert (", "", "assert 1 == 1")]
    own = load_mapped(jsonl(tmp_path / "own.jsonl", rows), domain="code")
    assert [id for id, _ in own.dropped] == ["1", "2", "3"]
    assert own.dropped[0][1] == "the tests are no Python, or use nothing that a program defines"
