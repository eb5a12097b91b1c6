"""The door for Python: votes of the final round, and recipes it does not know."""

from pathlib import Path

import pytest

from seminar import team
from seminar.errors import ConfigError
from seminar.types import Turn


def turn(text, *, stop="eos"):
    return Turn(
        agent="a", role="critic", round=1, adapter=None, adapter_version=0, prompt_ids=(), completion_ids=(),
        engine_logprobs=(), temperature=1.0, text=text, stop=stop,
    )  # fmt: skip


def test_equal_values_are_one_vote_and_no_answer_is_none():
    turns = (
        turn(r"\boxed{0.5}"),
        turn(r"so \boxed{1/2}"),
        turn(r"\boxed{3}"),
        turn("it is 7", stop="length"),
    )
    assert team.tally(turns) == {"1/2": 2, "3": 1}


def test_a_recipe_of_drafts_is_refused_with_the_way_out(tmp_path):
    recipe = Path(__file__).parents[1] / "recipes/draft_rl/quickstart.yaml"
    with pytest.raises(ConfigError, match="seminar train"):
        team.train(recipe, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
