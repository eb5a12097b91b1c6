from dataclasses import replace

import numpy as np
import pytest

from seminar.rewards.peer import (
    Opinion,
    center_reviewers,
    leniency,
    missing_share,
    opinions,
    peer_scores,
    review_reward,
    review_rewards,
)
from seminar.tasks.review_form import CRITERIA, Review
from seminar.types import Turn


def review(overall: float, **scores: float) -> Review:
    return Review(scores={**dict.fromkeys(CRITERIA), **scores}, overall=overall)


def turn(agent: str, text: str, *, role: str = "reviewer", target: str = "b/r0/d0/s0") -> Turn:
    return Turn(
        agent=agent,
        role=role,
        round=5,
        adapter=None,
        adapter_version=0,
        prompt_ids=(),
        completion_ids=(),
        engine_logprobs=(),
        temperature=1.0,
        text=text,
        stop="eos",
        notes={"target": target},
    )


def test_reviews_are_read_from_the_turns_of_reviewers_alone() -> None:
    turns = [turn("b", '{"overall": 1}', role="drafter"), turn("a", '{"overall": 0.5}'), turn("c", "fine")]
    assert opinions(turns) == [
        Opinion(reviewer="a", target="b/r0/d0/s0", review=review(0.5)),
        Opinion(reviewer="c", target="b/r0/d0/s0", review=None),
    ]


def test_the_peer_score_is_the_mean_over_the_readable_reviews() -> None:
    found = [
        Opinion(reviewer="a", target="x", review=review(0.5, coherence=1.0)),
        Opinion(reviewer="b", target="x", review=review(0.75)),
        Opinion(reviewer="c", target="x", review=None),
        Opinion(reviewer="a", target="y", review=None),
    ]
    peers = peer_scores(found)
    assert (peers["x"].overall, peers["x"].given, peers["x"].missing) == (0.625, 2, 1)
    assert (peers["x"].scores["coherence"], peers["x"].scores["relevance"]) == (1.0, None)
    assert (peers["y"].overall, peers["y"].given, peers["y"].missing) == (None, 0, 1)
    assert missing_share(found) == {"a": (1, 2), "b": (0, 1), "c": (1, 1)}


def test_leniency_of_two_reviewers_by_hand() -> None:
    scores = [("a", "x", 0.9), ("a", "y", 0.7), ("b", "x", 0.5), ("b", "y", 0.3)]
    assert leniency(scores) == pytest.approx({"a": 0.2, "b": -0.2}, rel=1e-12)


def team(quality: dict[str, list[float]], lenient: dict[str, float]) -> list[tuple[str, str, float | None]]:
    """Every agent scores every draft of the others: quality of the draft + leniency of the reviewer."""
    return [
        (reviewer, f"{author}{k}", value + lenient[reviewer])
        for reviewer in quality
        for author, values in quality.items()
        if author != reviewer
        for k, value in enumerate(values)
    ]


def test_planted_leniency_is_recovered_though_agents_differ_in_quality() -> None:
    # c writes far better drafts and reviews none of them: a plain mean of what c says would call c strict
    quality = {"a": [0.2, 0.3], "b": [0.4, 0.3], "c": [0.8, 0.9]}
    lenient = {"a": 0.1, "b": -0.15, "c": 0.05}
    scores = team(quality, lenient)
    scores[3] = (*scores[3][:2], None)
    assert leniency(scores) == pytest.approx(lenient, abs=1e-12)


def test_leniency_agrees_with_a_plain_least_squares_fit_of_both_effects() -> None:
    rng = np.random.default_rng(0)
    quality = {name: list(rng.uniform(0.2, 0.8, 5)) for name in "abcd"}
    scores = [(r, t, s + rng.normal() * 0.1) for r, t, s in team(quality, dict.fromkeys("abcd", 0.0))]
    reviewers = sorted({r for r, _, _ in scores})
    targets = sorted({t for _, t, _ in scores})
    design = np.zeros((len(scores) + 1, len(reviewers) + len(targets)))
    for row, (r, t, _) in enumerate(scores):
        design[row, reviewers.index(r)] = design[row, len(reviewers) + targets.index(t)] = 1
    design[-1, : len(reviewers)] = 1  # leniencies sum to 0
    fit = np.linalg.lstsq(design, np.array([*(s for _, _, s in scores), 0.0]), rcond=None)[0]
    assert leniency(scores) == pytest.approx(dict(zip(reviewers, fit, strict=False)), abs=1e-10)


def test_in_a_team_of_two_leniency_cannot_be_told_and_nothing_is_removed() -> None:
    scores = team({"a": [0.2, 0.3], "b": [0.6, 0.7]}, {"a": 0.2, "b": 0.0})
    assert leniency(scores) == pytest.approx({"a": 0.0, "b": 0.0}, abs=1e-12)


def test_centered_reviews_agree_where_only_leniency_divided_them() -> None:
    found = [
        Opinion(reviewer="a", target="x", review=review(0.9, coherence=0.8)),
        Opinion(reviewer="b", target="x", review=review(0.5, coherence=0.8)),
        Opinion(reviewer="a", target="y", review=review(0.6)),
        Opinion(reviewer="b", target="y", review=review(0.2)),
        Opinion(reviewer="b", target="z", review=None),
    ]
    centered = center_reviewers(found)
    values = [o.review and round(o.review.overall, 12) for o in centered]
    assert values == [0.7, 0.7, 0.4, 0.4, None]
    assert centered[0].review.scores == {**dict.fromkeys(CRITERIA), "coherence": 0.8}


def test_centered_scores_stay_in_range() -> None:
    found = [
        Opinion(reviewer=reviewer, target=target, review=review(score))
        for reviewer, target, score in [
            ("a", "x", 1.0),
            ("b", "x", 0.0),
            ("a", "y", 1.0),
            ("b", "y", 0.0),
            ("a", "z", 0.2),
        ]
    ]
    # a is .5 too lenient: .2 - .5 would be -.3
    assert center_reviewers(found)[-1].review.overall == 0.0


def test_a_review_is_rewarded_for_agreeing_with_the_outcome() -> None:
    assert review_reward(review(0.75), right=True) == 0.9375  # 1 - .25^2
    assert review_reward(review(0.75), right=False) == 0.4375  # 1 - .75^2
    assert review_reward(None, right=True) == 0.0


def test_a_reviewers_rewards_on_a_question_are_centred_and_drafts_without_outcome_left_out() -> None:
    said = ((0, "x"), (1, "y"), (2, "z"))
    turns = [replace(turn("a", '{"overall": 0.9}', target=target), draft=k) for k, target in said]
    # 1 - .1^2 = .99 and 1 - .9^2 = .19, mean .59
    rewards = review_rewards(turns, right={"x": True, "y": False})
    assert rewards == pytest.approx({"a/r5/d0/s0": 0.4, "a/r5/d1/s0": -0.4})


def test_saying_the_true_probability_pays_best() -> None:
    def expected(said: float) -> float:
        return 0.7 * review_reward(review(said), right=True) + 0.3 * review_reward(review(said), right=False)

    assert max(np.linspace(0, 1, 101), key=expected) == pytest.approx(0.7)
