import pytest
import torch
import typer
from typer.testing import CliRunner

from seminar.cli import doctor, machine
from seminar.cli.machine import Fact, extras, graphics, hub, kept
from seminar.errors import RunError
from seminar.rewards.sandbox import Setup


def test_doctor_names_every_part_of_the_machine_once(monkeypatch, tmp_path):
    monkeypatch.setattr(machine.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(machine.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("SEMINAR_CACHE", str(tmp_path / "ours"))
    app = typer.Typer()
    app.command()(doctor.doctor)
    result = CliRunner().invoke(app)
    assert result.exit_code == 0
    names = [line.split("  ")[0] for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert [name for name in names if not name.startswith(("[", "gpu"))] == [
        *("seminar", "processor", "torch", "hub", "sandbox", "smollm2", "tiny", "our cache", "hub's cache")
    ]
    assert {"[embedded]", "[plot]", "[track]"} <= set(names)
    assert torch.__version__ in result.stdout


def test_a_missing_package_is_named_with_the_command_that_brings_it():
    needs = ["numpy>=2.0", "matplotlib>=3.9; extra == 'plot'", "gguf>=0.17; extra == 'embedded'"]
    assert extras(needs, installed={"gguf": "0.19.0", "numpy": "2.4.6"}) == [
        Fact("[plot]", "nothing installed; missing matplotlib", "pip install 'seminar[plot]'"),
        Fact("[embedded]", "gguf 0.19.0"),
    ]


def test_a_package_that_is_too_old_counts_as_missing_and_shows_its_version():
    needs = ["wandb>=0.22; extra == 'track'", "Trackio_x>=0.5; extra == 'track'"]
    assert extras(needs, installed={"wandb": "0.9", "trackio-x": "0.6"}) == [
        Fact("[track]", "Trackio_x 0.6; missing wandb 0.9", "pip install 'seminar[track]'")
    ]


def test_a_gpu_that_torch_cannot_use_is_named_with_the_build_that_can(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    fact = graphics("2.13.0+cpu", driver=True)[1]
    assert fact.advice == "pip install --force-reinstall torch==2.13.0"


def test_without_a_gpu_nothing_is_advised(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert graphics("2.13.0", driver=False)[1] == Fact("gpu", "none; everything runs on the processor")


def test_a_hub_that_is_switched_off_is_told_from_one_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(machine.constants, "HF_HUB_OFFLINE", True)
    assert hub() == Fact("hub", "off", "unset HF_HUB_OFFLINE")
    monkeypatch.setattr(machine.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(machine, "hub_reachable", lambda: False)
    assert "does not answer" in hub().value


def test_a_machine_without_a_sandbox_is_told_what_the_sandbox_says(monkeypatch):
    def refuse():
        raise RunError(
            "sandbox: no kind works on this machine. Install the packages bubblewrap and libseccomp2."
        )

    monkeypatch.setattr(machine, "working_setup", refuse)
    assert machine.sandbox().value.endswith("Install the packages bubblewrap and libseccomp2.")


@pytest.mark.parametrize(
    ("kind", "filtered", "advice"),
    [
        ("bubblewrap", True, ""),
        ("bubblewrap", False, "apt-get install libseccomp2"),
        ("rlimits", False, "apt-get install bubblewrap libseccomp2"),
    ],
)
def test_a_weaker_sandbox_is_told_what_makes_it_stronger(monkeypatch, kind, filtered, advice):
    monkeypatch.setattr(machine, "working_setup", lambda: Setup(kind, filtered))
    assert machine.sandbox().advice == advice


def test_a_cache_is_shown_with_its_size(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "weights").write_bytes(bytes(2_600_000))
    assert kept("our cache", tmp_path) == Fact("our cache", f"{tmp_path} (3 MB)")
    assert kept("our cache", tmp_path / "b").value.endswith("(nothing there)")
