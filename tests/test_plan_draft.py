"""Recipes of DRAFT-RL are planned without a hub, with the paper's numbers."""

from pathlib import Path

import pytest

from seminar import config as configuration
from seminar.plan import plan

RECIPES = Path(__file__).parents[1] / "recipes" / "draft_rl"


def rows(name: str) -> dict[str, str]:
    return dict(plan(configuration.load(RECIPES / f"{name}.yaml")).rows)


@pytest.mark.parametrize("name", ["maths", "code", "qa"])
def test_a_recipe_with_the_papers_numbers_plans_15_drafts_30_reviews_and_a_judge_of_100_m(name: str) -> None:
    found = rows(name)
    assert found["drafts a question"] == "15 (3 x 5), temperatures 0.2 to 0.8"
    assert found["reviews a question"] == "30"
    parameters = int(found["reward model"].split()[0].replace(",", ""))
    assert abs(parameters / 100e6 - 1) <= 0.05
    # Qwen2.5-1.5B's published 1.54 B parameters; rank 16 on its seven projections as on the distilled model
    assert "1,543,714,304 parameters" in found["base model"]
    assert found["trainable parameters an agent"].startswith("18,464,768 adapter")


@pytest.mark.slow
def test_the_quickstart_plans_within_six_gigabytes() -> None:
    found = rows("quickstart")
    assert found["drafts a question"].startswith("15")
    assert float(found["memory on cpu, estimate"].split()[0]) < 6
