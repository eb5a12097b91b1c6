"""`seminar data`: what it prints, and its one-line errors."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from seminar.cli.data import app
from seminar.errors import ConfigError

RUN = "a train leaves the old station at noon and rides with sixty miles"  # 13 words


def seminar(*words: str | Path) -> str:
    result = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def file(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_list_names_hub_id_and_sizes_of_each_set() -> None:
    lines = seminar("list").splitlines()
    assert len(lines) == 16
    assert lines[5].split() == ["gsm8k", "openai/gsm8k", "test", "1,319,", "train", "7,473"]


def test_show_prints_a_task_as_it_is_asked_with_its_gold(tmp_path: Path) -> None:
    row = {"question": "Which?", "subject": "virology", "choices": ["p", "q", "r", "s"], "answer": 2}
    shown = seminar("show", "mmlu", "--path", file(tmp_path / "m.jsonl", row))
    assert (
        "Which?\nA. p\nB. q\nC. r\nD. s\n\nid: virology/0\ndomain: choice\ngold: C\nsubject: virology\n"
        in shown
    )


def test_show_finds_a_task_by_its_id(tmp_path: Path) -> None:
    path = file(tmp_path / "o.jsonl", {"problem": "1+1?", "answer": 2}, {"problem": "2+2?", "answer": 4})
    assert seminar("show", path, "--column", "question=problem", "--id", "1").startswith("2+2?\n\nid: 1\n")


def test_show_of_an_unknown_id_says_which_there_are(tmp_path: Path) -> None:
    path = file(tmp_path / "o.jsonl", {"question": "1+1?", "answer": 2})
    with pytest.raises(ConfigError, match=r"id is 7; o has no such task. The first is 0"):
        seminar("show", path, "--id", "7")


def test_check_names_dropped_rows_repeats_and_what_benchmarks_know(tmp_path: Path) -> None:
    train = file(
        tmp_path / "train.jsonl",
        {"question": "What is $1+1$?", "answer": 2},
        {"question": "what is 1 + 1", "answer": 3},
        {"question": f"Once {RUN} an hour.", "answer": 1},
        {"question": "Nothing?", "answer": None},
        {"question": "Only here.", "answer": 1},
    )
    evaluation = file(
        tmp_path / "gsm.jsonl",
        {"question": "What is 1+1?", "answer": "#### 2"},
        {"question": f"Then {RUN}.", "answer": "#### 1"},
    )
    assert seminar("check", train, "--against", f"gsm8k={evaluation}").splitlines() == [
        "train: 4 tasks of 5 rows",
        "dropped: 1",
        "  3: there is no gold answer",
        "repeated questions: 1",
        "  1: same question as 0, but gold `3` and not `2`",
        "known to gsm8k (2 tasks): 3",
        "  0: same question as 0",
        "  1: same question as 0",
        "  2: 13 words in a row in common with 1",
    ]


def test_another_run_length_can_be_asked(tmp_path: Path) -> None:
    path = file(tmp_path / "a.jsonl", {"question": f"Once {RUN} an hour.", "answer": 1})
    other = file(tmp_path / "b.jsonl", {"question": f"Then {RUN}.", "answer": 1})
    assert "known to b (1 tasks): 0" in seminar("check", path, "--against", other, "--words", "14")


@pytest.mark.parametrize("column", ["question", "frage=problem", "gold="])
def test_a_column_that_is_no_pair_is_refused(tmp_path: Path, column: str) -> None:
    path = file(tmp_path / "o.jsonl", {"question": "1+1?", "answer": 2})
    with pytest.raises(ConfigError, match="FIELD=COLUMN is needed"):
        seminar("check", path, "--column", column)


def test_options_of_names_are_refused_for_a_file_of_ones_own(tmp_path: Path) -> None:
    path = file(tmp_path / "o.jsonl", {"question": "1+1?", "answer": 2})
    with pytest.raises(ConfigError, match="is a file of your own"):
        seminar("check", path, "--split", "train")


def test_columns_are_refused_for_a_name() -> None:
    with pytest.raises(ConfigError, match="column and domain are for files of your own"):
        seminar("check", "gsm8k", "--column", "question=problem")
