"""What the command line loads before it knows which command is meant."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("heavy", ["torch", "transformers"])
def test_help_loads_neither_torch_nor_transformers(heavy):
    code = f"import sys, seminar.cli.main; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
