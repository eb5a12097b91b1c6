"""A scored episode -> measures of it, a number or None where it has none; winners -> specialisation.

A measure looks at all turns of the episode it is given; views cut an episode down to the turns one means:
`vote(final_round(one))` is the vote of the last round. `estimates.py` makes rates with intervals of measures.
Definitions marked "ours" are decided here because no paper gives them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import nan

import numpy as np
from scipy.spatial.distance import jensenshannon

from seminar.evaluate.stats import Estimate
from seminar.tasks.answers import vote_key
from seminar.types import Episode, Turn, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """An episode and what its turns came to."""

    episode: Episode
    verdicts: Mapping[str, Verdict]
    """Turn key -> verdict. A turn without one makes every measure of correctness None."""
    answers: Mapping[str, str | None]
    """Turn key -> normalised answer, None where none was found; the same keys as `verdicts`."""
    seed: int
    """Sampling seed of the episode, different for each time its task is played."""


Measure = Callable[[Scored], float | None]


def scored(
    episode: Episode,
    verdicts: Mapping[str, Verdict],
    *,
    seed: int,
    normalise: Callable[[str], str] | None = None,
) -> Scored:
    """An episode with its verdicts and the answers in them; `normalise` makes equal answers equal text.

    None: the normal form of the task's own domain.
    """
    form = normalise or partial(vote_key, episode.task)
    answers = {
        key: None if verdict.extracted is None else form(verdict.extracted)
        for key, verdict in verdicts.items()
    }
    return Scored(episode=episode, verdicts=verdicts, answers=answers, seed=seed)


# -- views ---------------------------------------------------------------------------------------------------


def first_round(one: Scored) -> Scored:
    """Only the turns of round 0: each generator alone."""
    return _keep(one, [turn for turn in one.episode.turns if turn.round == 0])


def final_round(one: Scored) -> Scored:
    """Only the turns of the last round that was played."""
    last = max((turn.round for turn in one.episode.turns), default=0)
    return _keep(one, [turn for turn in one.episode.turns if turn.round == last])


def of_role(one: Scored, role: str) -> Scored:
    """Only the turns of one role."""
    return _keep(one, [turn for turn in one.episode.turns if turn.role == role])


def cut(one: Scored, *, budget: float) -> Scored:
    """The first turns that together reach `budget` generated tokens, or all of them.

    The turn that reaches it stays, so a baseline cut to a team's tokens gets at least as many as the team and
    never fewer by rounding. Whether the turns sufficed: `tokens(cut(one, budget=b)) >= b`.
    """
    kept: list[Turn] = []
    spent = 0
    for turn in one.episode.turns:
        if spent >= budget:
            break
        kept.append(turn)
        spent += len(turn.completion_ids)
    return _keep(one, kept)


# -- measures ------------------------------------------------------------------------------------------------


def accuracy(one: Scored) -> float | None:
    """Share of the turns that are right."""
    verdicts = _verdicts(one)
    return None if verdicts is None else sum(verdict.correct for verdict in verdicts) / len(verdicts)


def vote(one: Scored) -> float | None:
    """1 if the most frequent answer is right, else 0; of equally frequent ones the earliest counts.

    Turns without an answer do not vote; no votes is wrong. An answer is as right as the first turn with it.
    """
    if _verdicts(one) is None:
        return None
    votes = Counter(answer for answer in _answers(one) if answer is not None)
    return _right(one, max(votes, key=votes.__getitem__)) if votes else 0.0


def consensus(one: Scored) -> float | None:
    """1 if more than half of the turns give the same answer and it is right; tie or no majority is wrong."""
    if _verdicts(one) is None:
        return None
    answers = _answers(one)
    held = [answer for answer in answers if answer is not None and answers.count(answer) * 2 > len(answers)]
    return _right(one, held[0]) if held else 0.0


def debate_accuracy(one: Scored) -> float | None:
    """Share of the final round's answers that are right: the score of a debate (MADA-RL, section 2)."""
    return accuracy(final_round(one))


def improved(one: Scored) -> float | None:
    """1 if the first round's consensus is wrong and the final round's is right, else 0 (ours)."""
    before, after = consensus(first_round(one)), consensus(final_round(one))
    return None if before is None or after is None else float(before == 0 and after == 1)


def worsened(one: Scored) -> float | None:
    """1 if the first round's consensus is right and the final round's is wrong, else 0 (ours)."""
    before, after = consensus(first_round(one)), consensus(final_round(one))
    return None if before is None or after is None else float(before == 1 and after == 0)


def tokens(one: Scored) -> float:
    """Generated tokens of all turns."""
    return float(sum(len(turn.completion_ids) for turn in one.episode.turns))


def agreement(one: Scored) -> float | None:
    """Share of the pairs of turns with the same answer (ours); two missing answers do not agree."""
    pairs = list(combinations(_answers(one), 2))
    return sum(a is not None and a == b for a, b in pairs) / len(pairs) if pairs else None


def unanimous(one: Scored) -> float | None:
    """1 if all turns give the same answer, else 0 (ours); a single turn has no value."""
    answers = _answers(one)
    return None if len(answers) < 2 else float(None not in answers and len(set(answers)) == 1)


def unanimous_wrong(one: Scored) -> float | None:
    """1 if all turns give the same wrong answer, else 0 (ours): a blind spot that no debate can see."""
    agreed, right = unanimous(one), vote(one)
    return None if agreed is None or right is None else float(agreed == 1 and right == 0)


def distinct_answers(one: Scored) -> float | None:
    """(distinct answers - 1)/(answers - 1) (ours): 0 all the same, 1 all different; one has no value."""
    found = [answer for answer in _answers(one) if answer is not None]
    return (len(set(found)) - 1) / (len(found) - 1) if len(found) > 1 else None


def word_distance(one: Scored) -> float | None:
    """Mean over pairs of turns of 1 - |A & B|/|A | B|, A and B their sets of lower-case words (ours)."""
    words = [set(turn.text.lower().split()) for turn in one.episode.turns]
    distances = [1 - len(a & b) / len(a | b) if a | b else 0.0 for a, b in combinations(words, 2)]
    return sum(distances) / len(distances) if distances else None


# -- beyond one episode --------------------------------------------------------------------------------------


def reasons(episodes: Iterable[Scored]) -> dict[str, Counter[str]]:
    """Role -> how often the grader gave each reason; `ungraded` where there is no verdict."""
    counts: dict[str, Counter[str]] = {}
    for one in episodes:
        for turn in one.episode.turns:
            verdict = one.verdicts.get(turn.key)
            counts.setdefault(turn.role, Counter())[verdict.reason if verdict else "ungraded"] += 1
    return counts


def winning_strategies(winners: Iterable[Turn]) -> dict[str, Counter[str]]:
    """Agent -> how often each strategy led to the draft that was selected (`turn.notes["strategy"]`)."""
    counts: dict[str, Counter[str]] = {}
    for turn in winners:
        counts.setdefault(turn.agent, Counter())[str(turn.notes["strategy"])] += 1
    return counts


def specialisation(counts: Mapping[str, Mapping[str, int]]) -> float:
    """Mean Jensen-Shannon distance (base 2, in [0, 1]) between agents' distributions of strategies (ours).

    Agents without a winner have no distribution and are left out; NaN below two agents.
    """
    names = sorted({name for row in counts.values() for name in row})
    rows = [[row.get(name, 0) for name in names] for row in counts.values() if sum(row.values()) > 0]
    distances = [jensenshannon(a, b, base=2) for a, b in combinations(rows, 2)]
    return float(np.mean(distances)) if distances else nan


def gain_per_parameter(gain: Estimate, *, parameters: int) -> Estimate:
    """Accuracy gained, as a fraction, per trainable parameter, times 1e12 (MADA-RL, table 3)."""
    return gain.times(1e12 / parameters)


def steps_to_converge(curve: Sequence[tuple[int, float]]) -> int | None:
    """First step with at least 95 % of the last value (ours); None where the last value is not above 0."""
    if not curve or curve[-1][1] <= 0:
        return None
    return next(step for step, value in curve if value >= 0.95 * curve[-1][1])


def _keep(one: Scored, turns: Iterable[Turn]) -> Scored:
    return replace(one, episode=replace(one.episode, turns=tuple(turns)))


def _verdicts(one: Scored) -> list[Verdict] | None:
    """The turns' verdicts; None where there is no turn, or one without a verdict."""
    keys = [turn.key for turn in one.episode.turns]
    return [one.verdicts[key] for key in keys] if keys and all(key in one.verdicts for key in keys) else None


def _answers(one: Scored) -> list[str | None]:
    return [one.answers.get(turn.key) for turn in one.episode.turns]


def _right(one: Scored, answer: str) -> float:
    first = next(turn for turn in one.episode.turns if one.answers[turn.key] == answer)
    return float(one.verdicts[first.key].correct)
