"""Rows as they appear in report.md, results.json and on the terminal."""

import json
from dataclasses import replace
from math import nan

import pytest

from seminar.errors import RunError
from seminar.evaluate import report
from seminar.evaluate.report import Picture, Row, Section
from seminar.evaluate.stats import Estimate

RATE = Estimate(
    value=0.125,
    low=0.0825,
    high=0.1843,
    se=0.02,
    n=200,
    clusters=100,
    method="Wilson, clustered",
    seeds=(0, 1, 2, 7),
)
GAIN = replace(RATE, value=0.0704, low=-0.01, high=0.15, method="paired t, clustered", p=0.0004, missing=3)


def line(markdown: str, label: str) -> list[str]:
    return next(
        [c.strip() for c in row.split("|")[1:-1]] for row in markdown.splitlines() if f"| {label} |" in row
    )


def test_a_row_shows_value_interval_counts_seeds_and_method():
    text = report.markdown("Team", [Section(title="Result", rows=(Row("improved", RATE, "%"),))])
    assert line(text, "improved") == [
        "improved", "12.5 %", "[8.2, 18.4]", "25 of 200", "100", "0-2, 7", "Wilson, clustered",
    ]  # fmt: skip


def test_a_difference_has_its_sign_its_p_value_and_what_was_left_out():
    rows = (Row("improved", RATE, "%"), Row("gain", GAIN, "points"))
    text = report.markdown("Team", [Section(title="Result", rows=rows)])
    assert line(text, "gain")[1:7] == ["+7.0 points", "[-1.0, +15.0]", "200", "100", "3", "<0.001"]


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (RATE, "%", "12.5 %"),
        (RATE, "", "0.125"),
        (RATE.times(10_000), "", "1,250.0"),
        (replace(RATE, value=nan), "%", "unknown"),
        (0.0003, "", "0.0003"),
        (12345, "", "12345"),
        ("greedy", "", "greedy"),
        (0.5, "%", "50.0 %"),
    ],
)
def test_values_are_shown_in_their_unit(value, unit, expected):
    assert report.shown(value, unit) == expected


def test_an_interval_that_cannot_be_told_says_so():
    assert report.interval(replace(RATE, low=nan, high=nan), "%") == "unknown"


def test_a_numerator_that_is_no_whole_number_keeps_one_decimal():
    text = report.markdown("T", [Section(title="R", rows=(Row("a", replace(RATE, value=1 / 3), "%"),))])
    assert line(text, "a")[3] == "66.7 of 200"


def test_columns_in_which_no_row_has_anything_are_left_out():
    text = report.markdown("T", [report.facts("Sampling", {"temperature": 1.0, "visible": "after_think"})])
    assert line(text, "temperature") == ["temperature", "1.0"]
    assert "95 % interval |" not in text


def test_a_cell_can_neither_break_the_table_nor_start_a_tag():
    text = report.markdown("T", [report.facts("F", {"a": "x|y\n<script>"})])
    assert "| a | x\\|y &lt;script> |" in text


def test_lists_of_facts_are_joined():
    text = report.markdown("T", [report.facts("F", {"seeds": [0, 1], "resume": True})])
    assert line(text, "seeds") == ["seeds", "0, 1"]
    assert line(text, "resume") == ["resume", "True"]


def test_a_picture_is_linked_relative_to_the_report():
    text = report.markdown(
        "T", [Section(title="P", text="How it went.", pictures=(Picture("Reward", "a.png"),))]
    )
    assert "## P\n\nHow it went.\n\n![Reward](a.png)" in text


def test_the_folder_gets_a_report_and_strict_json_with_the_same_numbers(tmp_path):
    sections = [Section(title="R", rows=(Row("gain", replace(GAIN, low=nan), "points", note="by task"),))]
    report.write(tmp_path, title="Team", sections=sections)
    assert (tmp_path / "report.md").read_text() == report.markdown("Team", sections)
    found = json.loads((tmp_path / "results.json").read_text(), parse_constant=pytest.fail)
    row = found["sections"][0]["rows"][0]
    assert (row["label"], row["unit"], row["note"]) == ("gain", "points", "by task")
    assert (row["value"]["value"], row["value"]["low"], row["value"]["p"]) == (0.0704, None, 0.0004)


def test_a_folder_that_does_not_exist_is_a_run_error(tmp_path):
    with pytest.raises(RunError, match="cannot be written"):
        report.write(tmp_path / "absent", title="T", sections=[])


def test_the_terminal_shows_the_same_values_within_its_width():
    rows = (Row("improved: consensus wrong -> right, of those with a wrong consensus", RATE, "%"),)
    text = report.terminal([Section(title="Result", rows=rows), Section(title="Empty")], width=72)
    assert max(map(len, text.splitlines())) <= 72
    assert all(part in text for part in ("Result", "12.5 %", "[8.2, 18.4]", "25 of 200", "100"))
    assert "Empty" not in text


def test_the_terminal_leaves_methods_and_seeds_to_the_report():
    text = report.terminal([Section(title="R", rows=(Row("a", RATE, "%"),))], width=200)
    assert text.splitlines()[-1].split() == ["a", "12.5", "%", "[8.2,", "18.4]", "25", "of", "200", "100"]


def test_a_test_that_could_not_be_made_has_an_unknown_p_value():
    text = report.markdown("T", [Section(title="R", rows=(Row("gain", replace(GAIN, p=nan), "points"),))])
    assert line(text, "gain")[6] == "unknown"


def test_the_terminal_takes_no_markup_from_labels():
    assert "[bold]x[/bold]" in report.terminal([report.facts("F", {"[bold]x[/bold]": 1})])
