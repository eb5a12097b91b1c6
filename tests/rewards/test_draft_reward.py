import pytest

from seminar.errors import ConfigError
from seminar.rewards.drafts import Mix, diversity, select
from seminar.types import Score, Verdict

RIGHT = Verdict(correct=True, reason="correct")
NOTHING = {"task": None, "peer": None, "coherence": None, "diversity": None}


def score(mix: Mix, *, valid: bool = True, **parts: float) -> Score | None:
    return mix.score(RIGHT, **{**NOTHING, **parts}, valid=valid)


def test_the_default_is_the_mean_of_task_peer_and_coherence() -> None:
    found = score(Mix(), task=1.0, peer=0.5, coherence=0.25, diversity=0.9)
    assert found.total == pytest.approx(1.75 / 3, rel=1e-12)
    assert found.parts == {
        "task": 1.0,
        "peer": 0.5,
        "coherence": 0.25,
        "diversity": 0.9,
        "mix": found.total,
        "format": 0.0,
    }
    assert found.verdict is RIGHT


def test_weights_count_by_their_proportions() -> None:
    # (2 * 1 + 1 * .4 + 1 * .8) / 4 = .8
    assert score(
        Mix(task=2, peer=1, coherence=0, diversity=1), task=1.0, peer=0.4, coherence=0.0, diversity=0.8
    ).total == pytest.approx(0.8)


def test_a_missing_part_gives_its_weight_to_the_others() -> None:
    assert score(Mix(), task=1.0).total == pytest.approx(1.0)  # a team without peers
    assert score(Mix(), task=0.0, peer=0.5).total == pytest.approx(0.25)  # nobody said how coherent


def test_an_unknown_outcome_leaves_no_score() -> None:
    assert score(Mix(), peer=0.5, coherence=0.5) is None
    assert score(Mix(task=0), peer=0.5, coherence=0.7).total == pytest.approx(0.6)
    assert score(Mix(task=0)) is None


def test_an_invalid_draft_pays_the_penalty_and_keeps_its_mix() -> None:
    found = score(Mix(format_penalty=0.4), valid=False, task=1.0)
    assert (found.parts["mix"], found.parts["format"]) == (1.0, -0.4)
    assert found.total == pytest.approx(0.6)


@pytest.mark.parametrize(
    "weights", [{"task": 0, "peer": 0, "coherence": 0}, {"task": -1}, {"format_penalty": -0.1}]
)
def test_weights_that_make_no_mean_are_refused(weights: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="reward is task"):
        Mix(**weights)


def test_the_winner_is_the_best_valid_draft() -> None:
    assert select([0.9, 0.3, 0.8, 0.1], [False, True, True, True]) == 2


def test_of_equal_drafts_the_first_wins() -> None:
    assert select([0.5, 0.7, 0.7], [True, True, True]) == 1


@pytest.mark.parametrize("scores", [[], [0.9, 0.1]])
def test_without_a_valid_draft_nobody_wins(scores: list[float]) -> None:
    assert select(scores, [False] * len(scores)) is None


def test_diversity_is_the_mean_distance_to_the_other_drafts() -> None:
    # {a b} {a b} {b c d}: distances 0, 3/4, 3/4
    assert diversity(["a b", "B A", "b c d"]) == [0.375, 0.375, 0.75]


def test_one_draft_has_no_diversity_and_empty_drafts_are_alike() -> None:
    assert diversity(["a"]) == [None]
    assert diversity(["", ""]) == [0.0, 0.0]
