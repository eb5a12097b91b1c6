"""Bad input through the whole command line: one line that says what is wrong, exit code 2, nothing left."""

import errno
import io
import json
import os
import re
import shutil
import signal
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from conftest import MODELS
from seminar import config as configuration
from seminar.cli.main import main
from seminar.errors import RunError
from seminar.manifest import RUN_FOLDER
from seminar.models.embedded import TINY
from seminar.runlog import RunFolder
from seminar.stopping import EXIT_CODE
from seminar.train import imitation

TRAINING = {"steps": 2, "batch": 8, "group": 4, "temperature": 1.0, "lr": 1e-3, "beta": 0.0}
RECIPE = {
    "name": "small",
    "base": {"model": "tiny", "threads": 1},
    "data": {
        "train": {"type": "generated", "kind": "arithmetic", "count": 20},
        "validation": 4,
        "evaluation": [{"type": "generated", "kind": "arithmetic", "count": 4}],
    },
    "lora": {"rank": 4, "alpha": 8, "dropout": 0.0},
    "limits": {"completion": 12, "prompt": 64, "visible": 8},
    "debate": {
        "generators": 1,
        "critics": 1,
        "prompts": {
            "question": "{question}",
            "opening": "",
            "answer": "\nA{number}: {answer}",
            "closing": "",
        },
    },
    "warmup": {"steps": 4, "batch": 2},
    "generator": TRAINING,
    "critic": {**TRAINING, "advantage": "counterfactual"},
    "evaluation": {"samplings": [{"temperature": 1.0}], "repeats": 1, "completion": 12},
    "logging": {"checkpoint_every": 1},
}
DRAFTS = {
    "name": "drafts",
    "method": "draft_rl",
    "base": RECIPE["base"],
    "data": RECIPE["data"],
    "training": {"steps": 1, "tasks": 2},
}


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    error: str
    warnings: list[str]
    """What Python would show beside them."""


def seminar(*words: object) -> Ended:
    """Run a command in this process."""
    out, error = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(error),
        warnings.catch_warnings(record=True, action="always") as heard,
    ):
        warnings.simplefilter("ignore", DeprecationWarning)
        patch.setattr(sys, "argv", ["seminar", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
    said = [str(warning.message) for warning in heard]
    return Ended(int(end.value.code or 0), out.getvalue(), error.getvalue(), said)


def refusal(ended: Ended) -> str:
    """The one line of a refused command."""
    assert ended.code == 2, ended
    assert ended.error.startswith("seminar: ")
    assert ended.error.count("\n") == 1
    return ended.error


def write(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Path:
    """A folder with a recipe and with everything that is wrong."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "recipe.yaml").write_text(yaml.safe_dump(RECIPE))
    (folder / "latin.yaml").write_bytes("name: Zürich".encode("latin-1"))
    good = [{"question": f"{n}+1?", "answer": n + 1, "id": n} for n in range(20)]
    write(folder / "empty.jsonl")
    write(folder / "twice.jsonl", *good, good[3])
    write(folder / "gold.jsonl", *good, {"question": "1+1?", "answer": r"\frac{1}{2"})
    shutil.copytree(TINY, folder / "mute")
    for part in folder.glob("mute/*template*"):
        part.unlink()
    settings = json.loads((folder / "mute" / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (folder / "mute" / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


FILE = "data.train={type: file, path: BENCH/%s}"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("generator.temprature=1", r"temprature is not a known key; did you mean temperature\?"),
        ("generator.steps=many", "generator.steps is 'many': input should be a valid integer"),
        ("generator.temperature=-1", "temperature is -1: above 0.0 is allowed"),
        ("generator.group=1", "group is 1 and advantage is group; .* Use group 2 or more"),
        ("data.train.count=0", r"data.train.count is 0: at least 1 is allowed"),
        ("data.train.kind=sums", "kinds is 'sums'; allowed are"),
        ("lora.targets=[q_proj", "the value is not YAML"),
        ("lora.targets=[query]", "query"),
        ("name.sub=1", "name is a value, not a section"),
        ("generator", "must read key=value"),
        (FILE % "none.jsonl", "none.jsonl is not a file here"),
        (FILE % "empty.jsonl", "empty.jsonl holds no rows"),
        (
            "data.train={type: file, path: BENCH/twice.jsonl, columns: {id: id}}",
            "twice: the id `3` stands for two tasks",
        ),
        (
            FILE % "gold.jsonl",
            r"1 of 21 rows cannot be graded, the first is 20: .* braces do not pair up",
        ),
        ("data.train={type: named, name: gsm9k}", "nearest is `gsm8k`"),
        ("data.validation=20", "has 20 questions; parts 1 and validation 20 do not fit"),
        ("generator.batch=80", "a step takes 20 questions, but each generator has 16"),
        ("critic.batch=80", "a step takes 20 questions, but each critic has 16"),
        ("limits.prompt=501", "sum may be at most 512 tokens, the context"),
        ("evaluation.completion=500", "evaluation.completion is 500; their sum may be at most 512"),
        ("limits.prompt=3", "prompt of agent generator-0 in round 0 has .* at most 3 are allowed"),
        ("base.model=BENCH/nothing", "nothing is not a folder here .* Give the folder of a model"),
        ("base.model=BENCH/mute", "no chat template"),
        ("base.device=cuda:99", "base.device is 'cuda:99'"),
        ("method=ppo", "method is 'ppo'; known are mada, draft_rl"),
    ],
)
def test_a_faulty_recipe_is_refused_in_one_line_and_leaves_nothing(bench, tmp_path, change, says):
    change = change.replace("BENCH", str(bench))
    ended = seminar("train", bench / "recipe.yaml", "warmup=null", change, "--out", tmp_path / "run")
    assert re.search(says, refusal(ended))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("recipe", "says"),
    [("none.yaml", "No such file or directory. Give the path"), ("latin.yaml", "is not YAML")],
)
def test_a_recipe_that_cannot_be_read_is_refused(bench, recipe, says):
    assert says in refusal(seminar("train", bench / recipe))


def test_a_folder_that_may_not_be_written_is_refused(bench, tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    said = refusal(seminar("train", bench / "recipe.yaml", "--out", tmp_path / "run"))
    assert (
        "run cannot be written (Permission denied): writing is not permitted there; choose a folder" in said
    )
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_the_traceback(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["seminar", "--debug", "report", "none"])
    with pytest.raises(RunError):
        main()


# -- folders that are no finished run ------------------------------------------------------------------------


def commands(folder: Path, recipe: Path) -> dict[str, tuple[object, ...]]:
    return {
        "ask": ("ask", "1+1?", "--team", folder),
        "eval": ("eval", "--team", folder),
        "report": ("report", folder),
        "resume": ("train", recipe, "--out", folder, "--resume"),
    }


def unfinished(folder: Path, settings: dict[str, object]) -> Path:
    config = configuration.dump(configuration.parse(settings))
    RunFolder.create(folder, config=config, facts={}).close()
    return folder


@pytest.mark.parametrize("command", ["ask", "eval", "report", "resume"])
def test_a_folder_that_is_no_run_is_refused(bench, tmp_path, command):
    said = refusal(seminar(*commands(tmp_path, bench / "recipe.yaml")[command]))
    assert f"{tmp_path} is not a run folder (no versions.json in it); give the path" in said


@pytest.mark.parametrize("command", ["ask", "eval", "report", "resume"])
def test_a_run_folder_of_another_version_is_refused(bench, tmp_path, command):
    folder = unfinished(tmp_path / "run", RECIPE)
    (folder / "versions.json").write_text(json.dumps({"run_folder": RUN_FOLDER + 1, "seminar": "9.0"}))
    said = refusal(seminar(*commands(folder, bench / "recipe.yaml")[command]))
    assert f"of version {RUN_FOLDER + 1}; this seminar reads version {RUN_FOLDER}. Use the seminar" in said


@pytest.mark.parametrize(("settings", "stage"), [(RECIPE, "generator-0"), (DRAFTS, "team")])
@pytest.mark.parametrize("command", ["ask", "eval"])
def test_an_unfinished_run_is_refused_and_stays_as_it_is(bench, tmp_path, command, settings, stage):
    folder = unfinished(tmp_path / "run", {**settings, "warmup": None})
    said = refusal(seminar(*commands(folder, bench / "recipe.yaml")[command]))
    assert f"has not finished stage {stage}; finished stages: none. Go on with: seminar train" in said
    assert not [*folder.glob("evaluations/*")]


def test_the_report_of_an_unfinished_run_is_refused(tmp_path):
    said = refusal(seminar("report", unfinished(tmp_path / "run", RECIPE)))
    assert "has no report yet; the run is not finished. Go on with" in said


def test_a_run_of_another_method_is_not_resumed(bench, tmp_path):
    folder = unfinished(tmp_path / "run", DRAFTS)
    said = refusal(seminar(*commands(folder, bench / "recipe.yaml")["resume"]))
    assert re.search("name was 'drafts' when the run began and is 'small' now", said)


# -- one run, stopped in its warm-up, then out of disk, then finished ----------------------------------------


class Story(NamedTuple):
    """A run that was disturbed and one that was not."""

    stopped: Ended
    full: Ended
    finished: Ended
    disturbed: Path
    undisturbed: Path


@pytest.fixture(scope="module")
def story(bench, tmp_path_factory) -> Story:
    folder = tmp_path_factory.mktemp("story")
    disturbed, undisturbed = folder / "disturbed", folder / "undisturbed"
    command = ("train", bench / "recipe.yaml", "--out", disturbed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(imitation, "imitate", _interrupted(imitation.imitate))
        stopped = seminar(*command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", _full(os.write))
        full = seminar(*command, "--resume")
    finished = seminar(*command, "--resume")
    assert seminar("train", bench / "recipe.yaml", "--out", undisturbed).code == 0
    return Story(stopped, full, finished, disturbed, undisturbed)


def _interrupted(imitate):
    def one(*args, step, **settings):
        if step == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return imitate(*args, step=step, **settings)

    return one


def _full(write):
    def one(handle, data):
        if b'"stage": "generator-0", "step": 1' in bytes(data):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, data)

    return one


def test_a_stop_in_the_warm_up_ends_after_its_step_and_says_how_to_go_on(bench, story):
    assert story.stopped.code == EXIT_CODE
    assert "warmup 2/4" in story.stopped.out
    assert "warmup 3/4" not in story.stopped.out
    assert "warmup has no checkpoints: a resumed run plays it again, to the same end." in story.stopped.out
    recipe = bench / "recipe.yaml"
    assert story.stopped.out.endswith(f"seminar train {recipe} --out {story.disturbed} --resume\n")


def test_a_full_disk_is_one_line(story):
    said = refusal(story.full)
    assert "metrics.jsonl cannot be written (No space left on device): the disk is full; free some" in said
    assert "then run the same command again, with --resume" in said


def test_a_resumed_run_says_where_it_goes_on(story):
    assert f"{story.disturbed}: finished stages: none\n" in story.full.out
    said = f"{story.disturbed}: finished stages: warmup; generator-0 goes on after step 1\n"
    assert said in story.finished.out


def test_what_a_full_disk_left_ends_as_the_undisturbed_run(story):
    assert story.finished.code == 0
    for name in ("metrics.jsonl", "adapters/critic-0/adapter_model.safetensors", "results.json"):
        assert (story.disturbed / name).read_bytes() == (story.undisturbed / name).read_bytes()


def test_no_warning_of_a_library_reaches_the_user(story):
    assert (story.full.error.count("\n"), story.finished.error) == (1, "")
    assert story.full.warnings == story.finished.warnings == []


@pytest.mark.parametrize("command", ["ask", "eval"])
def test_adapters_of_another_base_are_refused(bench, byte_tokenizer, story, tmp_path, command):
    byte_tokenizer.save_pretrained(tmp_path / "base")
    MODELS["llama"]().save_pretrained(tmp_path / "base")
    folder = tmp_path / "run"
    shutil.copytree(story.undisturbed, folder)
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["base"]["model"] = str(tmp_path / "base")
    config["limits"]["prompt"] = 32
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    said = refusal(seminar(*commands(folder, bench / "recipe.yaml")[command]))
    assert re.search(f"adapter folder {folder}.* does not fit base {tmp_path}/base: .* Use the base", said)
    assert not [*folder.glob("evaluations/*")]


def test_a_question_longer_than_the_limit_is_refused(story):
    said = refusal(seminar("ask", "1+1? " * 99, "--team", story.undisturbed))
    assert "tokens; at most 136 are allowed. Shorten the question" in said  # 64 + 1 answer x (8 + 64)


def test_an_override_of_an_evaluation_is_checked_as_a_recipe_is(story):
    said = refusal(seminar("eval", "--team", story.undisturbed, "evaluation.repeat=2"))
    assert "evaluation.repeat is not a known key; did you mean repeats?" in said


def test_an_evaluation_on_a_missing_file_is_refused(story):
    said = refusal(seminar("eval", "--team", story.undisturbed, "--data", "none.jsonl"))
    assert "none.jsonl is not a file here" in said
    assert not [*story.undisturbed.glob("evaluations/*")]


def test_an_evaluation_on_an_unknown_name_is_refused(story):
    assert "nearest is `gsm8k`" in refusal(seminar("eval", "--team", story.undisturbed, "--data", "gsm9k"))


def test_a_run_that_is_there_is_not_overwritten(bench, story):
    said = refusal(seminar("train", bench / "recipe.yaml", "--out", story.undisturbed))
    assert "is not empty; a new run needs a folder that is empty or absent. To go on" in said
