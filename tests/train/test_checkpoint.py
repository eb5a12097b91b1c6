"""Checkpoints: bit-exact, complete or absent, the last two kept, no other shape let in."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from seminar.errors import RunError
from seminar.runlog import RunFolder
from seminar.train.checkpoint import TrainState, latest, load, resume, save


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunFolder]:
    with RunFolder.create(tmp_path / "run", config={}, facts={}) as folder:
        yield folder


def weights(*, rank: int = 2) -> dict[str, Tensor]:
    return {"q.A": torch.arange(rank * 3.0).reshape(rank, 3) / 7, "q.B": torch.zeros(4, rank)}


def state(step: int, *, adapter: str = "g", rank: int = 2) -> TrainState:
    return TrainState(
        step=step, adapters={adapter: weights(rank=rank)}, optimizer={adapter: {}}, extra_tensors={}, facts={}
    )


def bits(tensor: Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.ndim else bits(tensor[None])


def test_every_bit_of_every_dtype_comes_back(run: RunFolder) -> None:
    odd = torch.tensor([float("nan"), -0.0, float("inf"), 1e-45, 0.1])
    adapters = {"g": {"a": odd, "b": odd.to(torch.bfloat16), "c": odd.double()}, "h": {"a": -odd}}
    optimizer = {"g": {"a.step": torch.tensor(3.0), "a.exp_avg": odd * 2}, "h": {}}
    extra = {"best": torch.arange(6).reshape(2, 3).T, "same": odd, "flag": torch.tensor([True, False])}
    facts = {"best": {"step": 4, "accuracy": 0.1 + 0.2}, "names": ["ü"], "none": None}
    before = TrainState(step=5, adapters=adapters, optimizer=optimizer, extra_tensors=extra, facts=facts)
    save(run, stage="s", state=before)
    after = load(run, stage="s", step=5, expect=adapters)
    assert (after.step, after.facts) == (5, facts)
    for mine, theirs in (
        *((adapters[name], after.adapters[name]) for name in ("g", "h")),
        *((optimizer[name], after.optimizer[name]) for name in ("g", "h")),
        (extra, after.extra_tensors),
    ):
        assert mine.keys() == theirs.keys()
        for name, tensor in mine.items():
            assert theirs[name].dtype == tensor.dtype
            assert theirs[name].shape == tensor.shape
            assert bits(theirs[name]) == bits(tensor)


def test_two_steps_of_adamw_after_loading_equal_two_steps_without(run: RunFolder) -> None:
    def steps(tensor: Tensor, optimizer: torch.optim.AdamW, numbers: range) -> None:
        for number in numbers:
            tensor.grad = torch.sin(tensor.detach() + number)
            optimizer.step()

    straight = torch.linspace(-1, 1, 7, requires_grad=True)
    optimizer = torch.optim.AdamW([straight], lr=0.1)
    steps(straight, optimizer, range(2))
    moments = optimizer.state[straight]
    save(
        run,
        stage="s",
        state=TrainState(
            step=2, adapters={"g": {"w": straight}}, optimizer={"g": moments}, extra_tensors={}, facts={}
        ),
    )
    steps(straight, optimizer, range(2, 4))
    found = load(run, stage="s", step=2, expect={"g": {"w": straight}})
    resumed = found.adapters["g"]["w"].requires_grad_()
    again = torch.optim.AdamW([resumed], lr=0.1)
    again.state[resumed] = found.optimizer["g"]
    steps(resumed, again, range(2, 4))
    assert torch.equal(resumed, straight)


def test_the_last_two_checkpoints_stay(run: RunFolder) -> None:
    for step in (1, 2, 10, 11):
        save(run, stage="s", state=state(step))
    assert sorted(path.name for path in run.checkpoints("s").iterdir()) == ["step-00000010", "step-00000011"]
    assert latest(run, "s") == 11
    assert latest(run, "t") is None


def test_saving_a_step_again_replaces_it(run: RunFolder) -> None:
    save(run, stage="s", state=state(1))
    save(
        run,
        stage="s",
        state=TrainState(step=1, adapters={}, optimizer={}, extra_tensors={}, facts={"new": 1}),
    )
    assert load(run, stage="s", step=1, expect={}).facts == {"new": 1}


def test_resume_without_a_checkpoint_starts_the_stage_anew(run: RunFolder) -> None:
    run.log_metrics({"stage": "earlier", "step": 0})
    run.log_metrics({"stage": "s", "step": 0})
    assert resume(run, stage="s", expect={"g": weights()}) is None
    assert (run.path / "metrics.jsonl").read_text() == '{"stage": "earlier", "step": 0}\n'


def test_resume_cuts_the_logs_to_the_moment_of_the_checkpoint(run: RunFolder) -> None:
    run.log_metrics({"stage": "s", "step": 0})
    save(run, stage="s", state=state(1))
    run.log_metrics({"stage": "s", "step": 1})
    run.log_episodes([{"stage": "s", "step": 1}])
    found = resume(run, stage="s", expect={"g": weights()})
    assert found is not None
    assert found.step == 1
    assert (run.path / "metrics.jsonl").read_text() == '{"stage": "s", "step": 0}\n'
    assert (run.path / "episodes.jsonl").read_text() == ""


def test_an_adapter_of_another_rank_is_refused_and_the_logs_stay(run: RunFolder) -> None:
    save(run, stage="s", state=state(1))
    run.log_metrics({"stage": "s", "step": 1})
    with pytest.raises(
        RunError, match=r"q\.A of adapter g is \[2, 3\] torch.float32; the config makes it \[8, 3\]"
    ):
        resume(run, stage="s", expect={"g": weights(rank=8)})
    assert (run.path / "metrics.jsonl").read_text() == '{"stage": "s", "step": 1}\n'


def test_another_adapter_is_refused(run: RunFolder) -> None:
    save(run, stage="s", state=state(1, adapter="h"))
    with pytest.raises(RunError, match="holds adapters h; the config asks for g"):
        load(run, stage="s", step=1, expect={"g": weights()})


def test_an_adapter_with_other_layers_is_refused(run: RunFolder) -> None:
    save(run, stage="s", state=state(1))
    with pytest.raises(RunError, match=r"v\.A of adapter g is absent; the config makes it \[1\]"):
        load(run, stage="s", step=1, expect={"g": {**weights(), "v.A": torch.zeros(1)}})


def test_an_absent_checkpoint_is_refused(run: RunFolder) -> None:
    with pytest.raises(RunError, match="step-00000007 does not exist"):
        load(run, stage="s", step=7, expect={})


@pytest.mark.parametrize("damage", ["cut", "gone", "facts"])
def test_a_damaged_checkpoint_is_named_in_one_line(run: RunFolder, damage: str) -> None:
    path = save(run, stage="s", state=state(1))
    tensors = path / "tensors.safetensors"
    if damage == "cut":
        tensors.write_bytes(tensors.read_bytes()[:-5])
    elif damage == "gone":
        tensors.unlink()
    else:
        (path / "state.json").write_text(json.dumps({"step": 1}))
    with pytest.raises(RunError, match="step-00000001 is damaged") as caught:
        load(run, stage="s", step=1, expect={"g": weights()})
    assert "\n" not in str(caught.value)


def test_a_full_disk_leaves_the_checkpoint_before_and_whole_logs(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system needs root")
    try:
        big = {"g": {"w": torch.arange(40_000.0)}}  # 160 kB of the 512 kB
        with RunFolder.create(disk / "run", config={}, facts={}) as run:
            for step in (1, 2):
                filled = TrainState(step=step, adapters=big, optimizer={}, extra_tensors={}, facts={})
                run.log_metrics({"stage": "s", "step": step - 1})
                save(run, stage="s", state=filled)
            third = TrainState(
                step=3, adapters={"g": {"w": torch.zeros(90_000)}}, optimizer={}, extra_tensors={}, facts={}
            )
            with pytest.raises(RunError, match="the disk is full; free some space"):
                save(run, stage="s", state=third)
            assert sorted(p.name for p in run.checkpoints("s").iterdir()) == [
                "step-00000001",
                "step-00000002",
            ]
            with pytest.raises(
                RunError, match=r"metrics\.jsonl cannot be written \(No space left on device\)"
            ):
                run.log_metrics({"stage": "s", "step": 2, "text": "x" * 400_000})
            assert (run.path / "metrics.jsonl").read_text().count("\n") == 2
            shutil.rmtree(run.checkpoints("s") / "step-00000001")  # the user frees some space
            found = resume(run, stage="s", expect=big)
            assert found is not None
            assert torch.equal(found.adapters["g"]["w"], big["g"]["w"])
            save(run, stage="s", state=filled)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
