"""docs/config.md says what the configuration's models say."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(ROOT / "scripts/config_reference.py"))


def test_the_page_is_up_to_date(script):
    page = (ROOT / "docs/config.md").read_text(encoding="utf-8")
    assert page == script["reference"](), "run: python scripts/config_reference.py"


def test_a_key_stands_with_its_bounds_its_default_and_its_line(script):
    page = script["reference"]()
    assert "| `steps` | whole number or null, at least 1 | null | Optimizer steps of each agent;" in page
    share = "Share of the steps over which the rate rises from 0 (paper)."
    assert f"| `lr_warmup` | number, at least 0, at most 1 | 0.1 | {share} |" in page
