"""All stages of MADA-RL on a model of a few thousand parameters: artefacts, wiring, stop, kill and resume."""

import json

import pytest
import yaml
from run_files import contents, train_through_kills
from small_run import recipe, write_model

from seminar import config as configuration
from seminar.console import Console
from seminar.errors import RunError
from seminar.jsonl import read_rows
from seminar.methods import mada
from seminar.runlog import RunFolder
from seminar.stopping import StopRequest


def run(folder, tree, *, stop_after=None):
    """Train in this process; `stop_after`: ask for a stop once that many metric rows are written."""
    config = configuration.parse(tree)
    with (
        RunFolder.create(folder, config=configuration.dump(config), facts={}) as made,
        StopRequest(say=print) as stop,
    ):
        if stop_after is not None:
            log = made.log_metrics

            def counted(row):
                log(row)
                stop.requested = stop.requested or (
                    row["stage"] == "generator-0" and row["step"] == stop_after
                )

            made.log_metrics = counted
        return mada.train(config, run=made, console=Console(quiet=True), stop=stop)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    write_model(folder)
    return folder


@pytest.fixture(scope="module")
def finished(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert run(folder, recipe(model))
    return folder


def test_a_run_leaves_every_artefact(finished):
    names = {
        "config.yaml",
        "versions.json",
        "metrics.jsonl",
        "episodes.jsonl",
        "debate_set.jsonl",
        "report.md",
    }
    assert names <= {p.name for p in finished.iterdir()}
    adapters = {p.name for p in (finished / "adapters").iterdir()}
    assert adapters == {"warmup", "generator-0", "generator-1", "critic-0", "critic-1"}
    for name in adapters:
        assert (finished / "adapters" / name / "adapter_model.safetensors").is_file()


def test_the_debate_set_holds_one_row_a_question_with_acc_g(finished):
    rows = list(read_rows(finished / "debate_set.jsonl"))
    assert len(rows) == 40
    assert len({row["question"] for row in rows}) == 40
    assert sum(row["split"] == "validation" for row in rows) == 6
    for row in rows:
        assert row["acc_g"] == pytest.approx(sum(row["correct"]) / 2)
        assert len(row["answers"]) == len(row["tokens"]) == 2
        assert set(row["adapters"]) == {"generator-0", "generator-1"}


def test_evaluation_questions_are_in_no_training_part(finished):
    trained = {row["question"] for row in read_rows(finished / "debate_set.jsonl")}
    evaluated = {row["task"] for row in read_rows(finished / "evaluation-trained-T1-p1.jsonl")}
    ids = {row["id"] for row in read_rows(finished / "debate_set.jsonl")}
    assert len(evaluated) == 6
    assert not evaluated & ids
    assert len(trained) == 40


def test_engine_and_trainer_agree_at_every_step_and_the_penalty_starts_at_zero(finished):
    rows = [row for row in read_rows(finished / "metrics.jsonl") if "gap" in row]
    assert len(rows) == 4 * 3
    assert max(row["gap_max"] for row in rows) < 1e-4
    assert [row["kl"] for row in rows if row["step"] == 0] == [0.0] * 4


def test_episodes_record_adapter_version_reward_and_advantage(finished):
    rows = list(read_rows(finished / "episodes.jsonl"))
    assert {(row["adapter"], row["step"], row["adapter_version"]) for row in rows} == {
        (name, step, step)
        for name in ("generator-0", "generator-1", "critic-0", "critic-1")
        for step in (0, 2)
    }
    critic = next(row for row in rows if row["role"] == "critic")
    for sample in critic["samples"]:
        # the counterfactual: reward minus twice the share of quoted answers that are right
        assert sample["advantage"] == pytest.approx(sample["reward"] - 2 * critic["baseline"])


def test_critics_learn_by_what_the_config_says(model, tmp_path, finished):
    tree = recipe(model)
    tree["critic"] = {**tree["critic"], "advantage": "group"}
    assert run(tmp_path / "run", tree)
    for folder, scheme in ((tmp_path / "run", "group"), (finished, "counterfactual")):
        assert json.loads((folder / "stages" / "critic-0.json").read_text())["advantage"] == scheme
        assert f"critics learn by | {scheme}" in (folder / "report.md").read_text()


def test_a_stop_saves_and_a_resumed_run_ends_as_the_undisturbed_one(model, tmp_path, finished):
    folder = tmp_path / "run"
    tree = recipe(model)
    assert not run(folder, tree, stop_after=1)
    config = configuration.parse(tree)
    with RunFolder.open(folder, write=True) as opened, StopRequest(say=print) as stop:
        assert mada.train(config, run=opened, console=Console(quiet=True), stop=stop)
    assert contents(folder) == contents(finished)


def test_a_used_folder_is_not_overwritten(model, finished):
    with pytest.raises(RunError, match="--resume"):
        run(finished, recipe(model))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_any_moment_and_resumed_the_end_is_bit_identical(model, tmp_path, finished, seed):
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(recipe(model)))
    train_through_kills(path, tmp_path / "run", seed=seed)
    assert contents(tmp_path / "run") == contents(finished)
