"""GRPO on own parts: rewards weigh as told, every agent gets its own adapter, a used folder is refused."""

import pytest
from small_run import write_model

from seminar.config_mada import Training
from seminar.errors import RunError
from seminar.jsonl import read_rows
from seminar.methods import grpo
from seminar.settings import Base, Lora
from seminar.types import Ask, Task

TRAINING = Training(steps=2, batch=8, group=4, temperature=1.0, lr=1e-2, beta=0.0, validate_every=1)


class Pair:
    def play(self, task, *, seed):
        message = {"role": "user", "content": task.question}
        [[first]] = yield [Ask(agent="first", role="first", round=0, messages=(message,))]
        yield [Ask(agent="second", role="second", round=1, messages=(message,), samples=4, saw=(first.key,))]


def always_half(task, turns, verdicts):
    return [0.5] * len(turns)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    write_model(folder)
    return Base(model=str(folder), threads=1)


def train(base, out, **changes):
    tasks = (Task(id=f"t{i}", question=f"{i}+{i}", gold=str(2 * i)) for i in range(12))
    return grpo.train(
        tasks,
        out=out,
        base=base,
        training=TRAINING,
        lora=Lora(rank=4, alpha=8, dropout=0.0),
        validation=4,
        max_tokens=6,
        **changes,
    )


def test_a_reward_counts_by_its_weight(base, tmp_path):
    trained = train(base, tmp_path / "run", rewards={"half": (3.0, always_half)})
    rows = list(read_rows(tmp_path / "run" / "metrics.jsonl"))
    assert [row["reward"] for row in rows] == [1.5, 1.5]  # 3 * 0.5
    assert [row["reward/half"] for row in rows] == [0.5, 0.5]
    assert trained.best == (0, 1.5)  # nothing to gain: what training started from is kept


def test_every_agent_learns_under_its_own_name(base, tmp_path):
    train(base, tmp_path / "run", protocol=Pair(), agents=("first", "second"))
    row = next(iter(read_rows(tmp_path / "run" / "metrics.jsonl")))
    assert row["first/samples"] == 2  # two tasks, one answer each
    assert row["second/samples"] == 8  # two tasks, four answers each
    saved = {path.name for path in (tmp_path / "run" / "adapters").iterdir()}
    assert saved == {"first", "second"}


def test_a_used_folder_is_refused(base, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="not empty"):
        train(base, tmp_path)
