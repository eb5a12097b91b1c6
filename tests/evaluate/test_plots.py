"""The picture of a training: what is drawn, and what happens without anything to draw."""

import sys
from math import isnan

import pytest
from PIL import Image

from seminar.errors import ConfigError, RunError
from seminar.evaluate import plots

ROWS = [
    {"stage": "warmup", "step": 0, "nll": 2.0},
    {"stage": "generator-0", "step": 0, "reward": 0.5, "accuracy": 0.25, "kl": 0.0},
    {"stage": "generator-0", "step": 1, "reward": None, "accuracy": 0.5, "kl": 0.1, "validation": 0.4},
    {"stage": "critics", "agent": "critic-0", "step": 0, "reward": 0.1, "accuracy": 0.2},
]


def test_a_picture_of_three_panels_and_two_columns_is_written(tmp_path):
    picture = plots.plot_training(ROWS, folder=tmp_path)
    assert picture is not None
    assert picture.path == "training.png"
    # (1 + 3.8 * 2) x (.5 + 1.9 * 3) inches at 130 dots an inch
    assert Image.open(tmp_path / "training.png").size == (1118, 806)


def test_a_measure_that_no_row_has_gets_no_panel(tmp_path):
    plots.plot_training([{"stage": "solver", "step": 0, "reward": 1.0}], folder=tmp_path)
    assert Image.open(tmp_path / "training.png").size == (624, 312)  # 1 column, 1 panel: 4.8 x 2.4 inches


def test_rows_without_anything_to_draw_give_no_picture(tmp_path):
    assert plots.plot_training(ROWS[:1], folder=tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_row_counts_for_its_agent_or_else_its_stage():
    curves = plots._curves(ROWS)
    assert curves["critic-0"]["reward"] == [(0, 0.1)]
    assert curves["generator-0"]["validation"] == [(1, 0.4)]


def test_a_missing_value_is_a_gap_and_not_0():
    assert isnan(plots._curves(ROWS)["generator-0"]["reward"][1][1])


def test_agents_that_differ_only_in_their_number_share_a_column():
    columns = plots._columns(["generator-0", "generator-1", "critic-0", "solver", "7"])
    assert columns == {
        "generator": ["generator-0", "generator-1"],
        "critic": ["critic-0"],
        "solver": ["solver"],
        "7": ["7"],
    }


def test_the_trailing_mean_covers_five_steps_and_skips_gaps():
    nan = float("nan")
    # last window 2, 3, gap, 5, 6 -> 16/4
    assert plots._trailing_mean([1, 2, 3, nan, 5, 6]) == pytest.approx([1, 1.5, 2, 2, 2.75, 4])
    assert isnan(plots._trailing_mean([nan])[0])


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match=r"pip install 'seminar\[plot\]'"):
        plots.plot_training(ROWS, folder=tmp_path)


def test_a_folder_that_does_not_exist_is_a_run_error(tmp_path):
    with pytest.raises(RunError, match="cannot be written"):
        plots.plot_training(ROWS, folder=tmp_path / "absent")
