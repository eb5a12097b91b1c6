"""kill -9 at any moment of any stage, then resume: the files equal those of the undisturbed run."""

import subprocess
import sys
from pathlib import Path

DRIVER = Path(__file__).with_name("killed_run.py")


def kills(mode: str, folder: Path) -> int:
    """Number of kills the run survived; fails where its files differ afterwards."""
    done = subprocess.run([sys.executable, DRIVER, mode, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[0])


def test_a_run_killed_at_each_touch_of_the_disk_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    assert kills("every", tmp_path) > 100


def test_a_run_killed_from_outside_again_and_again_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    assert kills("random", tmp_path) > 10
