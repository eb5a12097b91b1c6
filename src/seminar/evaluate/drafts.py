"""Readings of draft episodes, scores of a judge and verdicts -> what DRAFT-RL reports (methods.md 2.5).

A question without a valid draft has no winner: its selected answer counts as wrong, and it is counted.
"""

from collections.abc import Callable, Mapping, Sequence
from math import isnan
from statistics import fmean

from seminar.evaluate import metrics
from seminar.evaluate.judges import trust
from seminar.evaluate.metrics import Scored, scored
from seminar.protocols.drafts import Drafts
from seminar.rewards.reading import Reading
from seminar.types import Episode, Turn, Verdict

Verdicts = Mapping[str, Verdict]
"""Turn key -> verdict of one question."""


def drafts_only(one: Scored, protocol: Drafts) -> Scored:
    """The final drafts of an episode, agent by agent: the answers that measures of a draft team look at."""
    final = protocol.final(one.episode.turns)
    turns = tuple(final[a, k] for a in protocol.agents for k in range(protocol.drafts) if (a, k) in final)
    return Scored(
        episode=Episode(task=one.episode.task, turns=turns, failure=one.episode.failure),
        verdicts=one.verdicts,
        answers=one.answers,
        seed=one.seed,
    )


def oracle(one: Scored) -> float | None:
    """1 if any turn is right: the most that choosing among the drafts can reach."""
    found = metrics.accuracy(one)
    return None if found is None else float(found > 0)


def measures(
    readings: Sequence[Reading],
    scores: Sequence[Sequence[float]],
    verdicts: Sequence[Verdicts],
    winners: Sequence[int | None],
) -> dict[str, float]:
    """Numbers of one step or of a whole evaluation; NaN where there is nothing to tell from."""
    ones = [_scored(reading, found) for reading, found in zip(readings, verdicts, strict=True)]
    won = [
        None if at is None else reading.candidates[at].turn
        for reading, at in zip(readings, winners, strict=True)
    ]
    right = [
        float(turn is not None and turn.key in found and found[turn.key].correct)
        for turn, found in zip(won, verdicts, strict=True)
    ]
    shown: dict[str, Callable[[Scored], float | None]] = {
        "accuracy": metrics.accuracy,
        "vote": metrics.vote,
        "oracle": oracle,
        "distinct_answers": metrics.distinct_answers,
        "word_distance": metrics.word_distance,
        "agreement": metrics.agreement,
        "unanimous_wrong": metrics.unanimous_wrong,
    }
    candidates = [c for reading in readings for c in reading.candidates]
    reviews = [review for c in candidates for review in c.reviews]
    return {
        "selected": _mean(right),
        **{name: _mean([measure(one) for one in ones]) for name, measure in shown.items()},
        "valid": _mean([float(c.draft.valid) for c in candidates]),
        "no_winner": float(sum(turn is None for turn in won)),
        "missing_reviews": _mean([float(review is None) for review in reviews]),
        "steps": _mean([float(len(c.draft.steps)) for c in candidates]),
        "completion_tokens": _mean([float(len(c.turn.completion_ids)) for c in candidates]),
        **_judge(readings, scores, verdicts),
        **_wins(readings, [turn for turn in won if turn is not None]),
    }


def _judge(
    readings: Sequence[Reading], scores: Sequence[Sequence[float]], verdicts: Sequence[Verdicts]
) -> dict[str, float]:
    """How far the judge, and the peers beside it, can be trusted; over the drafts with a verdict."""
    kept = [
        [(s, c) for s, c in zip(row, reading.candidates, strict=True) if c.turn.key in found]
        for row, reading, found in zip(scores, readings, verdicts, strict=True)
    ]
    right = [[found[c.turn.key].correct for _, c in row] for row, found in zip(kept, verdicts, strict=True)]
    peers = [[None if c.peer is None else c.peer.overall for _, c in row] for row in kept]
    model = trust([[s for s, _ in row] for row in kept], right=right, peers=peers)
    crowd = trust(peers, right=right, peers=peers)
    return {
        "judge/auc": model.auc,
        "judge/truth": model.truth,
        "judge/peers": model.peers,
        "judge/calibration": model.calibration,
        "peers/auc": crowd.auc,
        "peers/truth": crowd.truth,
        "peers/calibration": crowd.calibration,
    }


def _wins(readings: Sequence[Reading], won: Sequence[Turn]) -> dict[str, float]:
    """Share of the winners by agent and by strategy: names that never won stand there with 0."""
    turns = [c.turn for reading in readings for c in reading.candidates]
    agents = dict.fromkeys(turn.agent for turn in turns)
    strategies = dict.fromkeys(str(turn.notes["strategy"]) for turn in turns)
    total = max(1, len(won))
    return {
        **{f"wins/{name}": sum(turn.agent == name for turn in won) / total for name in agents},
        **{
            f"wins/strategy/{name}": sum(str(turn.notes["strategy"]) == name for turn in won) / total
            for name in strategies
        },
    }


def _scored(reading: Reading, verdicts: Verdicts) -> Scored:
    turns = tuple(candidate.turn for candidate in reading.candidates)
    return scored(Episode(task=reading.task, turns=turns), verdicts, seed=0)


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None and not isnan(value)]
    return fmean(known) if known else float("nan")
