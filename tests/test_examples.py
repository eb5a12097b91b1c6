"""Every example runs to its end, in a process of its own, as a reader would run it."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SMALL = (
    "data.train.count=80", "data.validation=8",
    "data.evaluation=[{type: generated, kind: arithmetic, count: 8}]",
    "generator.steps=2", "generator.batch=16", "critic.steps=2", "critic.batch=16", "evaluation.repeats=1",
)  # fmt: skip
RUNS = {
    "own_data.py": ((), "share of right answers"),
    "own_model.py": ((), "qwen3 with 1 agent"),
    "own_protocol.py": ((), "mean reward"),
    "own_reward.py": ((), "mean reward"),
    "train_and_ask.py": (SMALL, "The team says"),
}


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_an_example_runs(name, tmp_path):
    arguments, said = RUNS[name]
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1", "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert said in done.stdout.splitlines()[-1]


def test_train_and_ask_has_at_most_fifteen_lines_of_code():
    text = (EXAMPLES / "train_and_ask.py").read_text().split('"""', 2)[2]
    assert len([line for line in text.splitlines() if line.strip()]) <= 15
