import json
from pathlib import Path
from typing import Any

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from seminar.cli import grade
from seminar.errors import ConfigError, DataError

APP = typer.Typer()
APP.command()(grade.grade)


def run(tmp_path: Path, lines: list[Any], *options: str) -> tuple[Result, list[dict[str, Any]]]:
    """Grade lines (objects, or text as it is) from file to file; what was written."""
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    (tmp_path / "in.jsonl").write_text(text)
    files = ["--in", str(tmp_path / "in.jsonl"), "--out", str(tmp_path / "out.jsonl")]
    result = CliRunner().invoke(APP, [*files, "--workers", "1", *options])
    out = (tmp_path / "out.jsonl").read_text().splitlines()
    return result, [json.loads(line) for line in out]


def test_rows_keep_order_and_fields_and_gain_a_verdict(tmp_path):
    result, rows = run(
        tmp_path,
        [
            {"id": 9, "gold": "7", "prediction": r"so \boxed{7}"},
            {"id": 4, "gold": 27.0, "prediction": 28},
            {"id": 5, "gold": r"\sqrt{8}", "prediction": r"\boxed{2\sqrt2}"},
            {"gold": "7", "prediction": None, "stop": "length"},
        ],
    )
    assert result.exit_code == 0
    assert rows == [
        {"id": 9, "gold": "7", "prediction": r"so \boxed{7}"}
        | {"correct": True, "reason": "correct", "extracted": "7"},
        {"id": 4, "gold": 27.0, "prediction": 28} | {"correct": False, "reason": "wrong", "extracted": "28"},
        {"id": 5, "gold": r"\sqrt{8}", "prediction": r"\boxed{2\sqrt2}"}
        | {"correct": True, "reason": "correct", "extracted": r"2\sqrt2"},
        {"gold": "7", "prediction": None, "stop": "length"}
        | {"correct": False, "reason": "truncated", "extracted": None},
    ]


def test_the_summary_has_n_rate_interval_and_reasons(tmp_path):
    lines = [{"gold": "7", "prediction": "7" if k < 8 else "8"} for k in range(10)]
    result, _ = run(tmp_path, lines)
    # Wilson, 8 of 10: centre (0.8 + 3.8415/20) / 1.38415 = 0.7167, half width 0.2266
    assert result.stderr.splitlines() == [
        "10 graded, 8 correct: 80.0%, 95 % interval 49.0% to 94.3% (Wilson)",
        "reasons: correct 8, wrong 2",
    ]


def test_a_bad_line_is_named_and_the_rest_goes_on(tmp_path):
    lines = [
        *(
            "no json",
            {"gold": "7", "prediction": "7"},
            "[1]",
            "",
            {"gold": "7"},
            {"gold": ["7"], "prediction": "7"},
        ),
        *("[" * 100_000, {"gold": "8", "prediction": "8"}),
    ]
    result, rows = run(tmp_path, lines)
    assert result.exit_code == 1
    assert [row["gold"] for row in rows] == ["7", "8"]
    named = [line.split(":")[0] for line in result.stderr.splitlines()]
    assert named == [
        "line 1",
        "line 3",
        "line 5",
        "line 6",
        "line 7",
        "2 graded, 2 correct",
        "reasons",
        "bad lines",
    ]
    assert "it has no field `prediction`; its fields are gold" in result.stderr


def test_bytes_that_are_no_text_are_a_bad_line(tmp_path):
    no_text, lone_surrogate = (
        b'{"gold": "\xff"}\n',
        b'{"gold": "7", "prediction": "\\ud800 The answer is 7"}\n',
    )
    (tmp_path / "in").write_bytes(no_text + lone_surrogate)
    result = CliRunner().invoke(APP, ["--in", str(tmp_path / "in"), "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert json.loads((tmp_path / "out").read_text())["correct"] is True


def test_questions_gain_em_and_f1(tmp_path):
    result, rows = run(
        tmp_path,
        [{"gold": "Barack Obama", "prediction": "Barack Obama"}, {"gold": "yes", "prediction": "no"}],
        *("--domain", "qa"),
    )
    assert [(row["correct"], row["em"], row["f1"]) for row in rows] == [(True, 1.0, 1.0), (False, 0.0, 0.0)]
    assert "mean f1: 0.500" in result.stderr


def test_a_choice_gold_may_be_a_letter_a_number_or_a_text(tmp_path):
    options = ["Paris", "Rome", "Bonn", "York"]
    _, rows = run(
        tmp_path,
        [
            {"gold": 1, "prediction": "(B)", "choices": options},
            {"gold": "Bonn", "prediction": "The answer is C.", "choices": options},
            {"gold": "D", "prediction": "D"},
            {"gold": "D", "prediction": "A or D"},
        ],
        *("--domain", "choice"),
    )
    assert [row["reason"] for row in rows] == ["correct", "correct", "correct", "ambiguous"]


def test_fields_may_have_other_names(tmp_path):
    _, rows = run(
        tmp_path, [{"answer": "7", "text": "7"}], *("--gold-field", "answer", "--prediction-field", "text")
    )
    assert rows[0]["correct"] is True


def test_code_is_run_against_its_tests(tmp_path):
    program = "def double(x):\n    return 2 * x\n"
    _, rows = run(
        tmp_path,
        [
            {"tests": "assert double(2) == 4", "completion": program},
            {"tests": ["assert double(2) == 4", "assert double(3) == 7"], "completion": program},
            {
                "prompt": 'def double(x):\n    """Twice x."""\n',
                "tests": "def check(f):\n    assert f(2) == 4\n",
                "entry_point": "double",
                "completion": "    return x + x\n",
            },
        ],
        *("--domain", "code"),
    )
    assert [row["correct"] for row in rows] == [True, False, True]


def test_dashes_are_standard_input_and_output():
    result = CliRunner().invoke(APP, ["--in", "-", "--out", "-"], input='{"gold": "7", "prediction": "7"}\n')
    assert json.loads(result.stdout)["correct"] is True


def test_more_rows_than_a_window_holds_stay_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(grade, "WINDOW", 4)
    _, rows = run(tmp_path, [{"gold": str(k), "prediction": str(k)} for k in range(11)])
    assert [row["gold"] for row in rows] == [str(k) for k in range(11)]


def test_the_file_that_is_read_is_not_written_over(tmp_path):
    path = tmp_path / "a"
    path.write_text("{}")
    result = CliRunner().invoke(APP, ["--in", str(path), "--out", str(path)])
    assert isinstance(result.exception, ConfigError)
    assert path.read_text() == "{}"


def test_a_file_that_is_absent_is_one_error(tmp_path):
    result = CliRunner().invoke(APP, ["--in", str(tmp_path / "no"), "--out", "-"])
    assert isinstance(result.exception, DataError)


@pytest.mark.parametrize("option", ["--tolerance=-1", "--deadline=0", "--workers=0", "--domain=poems"])
def test_values_that_cannot_work_are_refused(option):
    assert CliRunner().invoke(APP, ["--in", "-", "--out", "-", option]).exit_code == 2
