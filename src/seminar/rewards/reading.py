"""An episode of drafts and reviews -> candidates in order, what a judge says of them, their observed rewards.

What training, evaluation and `seminar ask` all do with an episode of DRAFT-RL (arXiv 2511.20468, eq. 5 to 7).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from seminar.protocols.drafts import REVIEWER, Drafts
from seminar.rewards.drafts import Mix, diversity, select
from seminar.rewards.model import Evidence, RewardModel, evidence
from seminar.rewards.peer import Peer, center_reviewers, opinions, peer_scores
from seminar.tasks.answers import vote_key
from seminar.tasks.draft_form import Draft
from seminar.tasks.review_form import Review
from seminar.types import Episode, Score, Task, Turn, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One draft and what is known of it without the gold."""

    turn: Turn
    draft: Draft
    reviews: tuple[Review | None, ...]
    """One a reviewer, in the order of agents; None: unreadable."""
    peer: Peer | None
    """None in a team without peers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The drafts of one question: agent by agent, and of each agent in the order they were written."""

    task: Task
    candidates: tuple[Candidate, ...]
    reviews: tuple[Turn, ...] = ()
    """The reviewers' turns as they were written, in order."""

    @property
    def valid(self) -> list[bool]:
        """Whether each draft keeps the form."""
        return [candidate.draft.valid for candidate in self.candidates]

    def of(self, agent: str) -> list[int]:
        """Indices of one agent's drafts."""
        return [i for i, candidate in enumerate(self.candidates) if candidate.turn.agent == agent]

    def best(self, scores: Sequence[float], among: Sequence[int] | None = None) -> int | None:
        """The selected draft (eq. 7), of all or of those at `among`; None where none of them is valid."""
        places = range(len(self.candidates)) if among is None else among
        found = select([scores[i] for i in places], [self.candidates[i].draft.valid for i in places])
        return None if found is None else places[found]


Judge = Callable[[Sequence[Reading]], list[list[float]]]
"""Readings -> one score a draft, by which the winner is chosen."""


def read(episode: Episode, protocol: Drafts, *, center: bool = False) -> Reading:
    """Read a whole episode; `center` takes each reviewer's leniency off its scores first."""
    found = opinions(episode.turns)
    if center:
        found = center_reviewers(found)
    peers = peer_scores(found)
    by_target: dict[str, list[Review | None]] = {}
    for opinion in found:
        by_target.setdefault(opinion.target, []).append(opinion.review)
    final = protocol.final(episode.turns)
    candidates = tuple(
        Candidate(
            turn=turn,
            draft=protocol.read(episode.task, turn),
            reviews=tuple(by_target.get(turn.key, ())),
            peer=peers.get(turn.key),
        )
        for agent in protocol.agents
        for k in range(protocol.drafts)
        if (turn := final.get((agent, k))) is not None
    )
    reviews = tuple(turn for turn in episode.turns if turn.role == REVIEWER)
    return Reading(task=episode.task, candidates=candidates, reviews=reviews)


def shown(reading: Reading) -> list[Evidence]:
    """What R_phi sees of each draft: question, draft, reviews; never the gold."""
    return [evidence(reading.task, c.turn.text, c.reviews) for c in reading.candidates]


def judge(model: RewardModel | None) -> Judge:
    """R_phi as the judge; without one the peers' mean score or, without peers, agreement among the drafts."""
    return _by_agreement if model is None else partial(_by_model, model)


def observed(reading: Reading, verdicts: Mapping[str, Verdict], *, mix: Mix) -> list[Score | None]:
    """Observed reward of each draft; None where its outcome has weight and is not known.

    `verdicts` maps keys of turns; a draft without one was not executed. The task part is F1 where the grader
    gives it (QA), else 0 or 1. A gold that cannot be used is no outcome.
    """
    distances: dict[str, float | None] = {}
    for agent in dict.fromkeys(c.turn.agent for c in reading.candidates):
        turns = [reading.candidates[i].turn for i in reading.of(agent)]
        parts = diversity([turn.text for turn in turns])
        distances |= {turn.key: part for turn, part in zip(turns, parts, strict=True)}
    scores: list[Score | None] = []
    for candidate in reading.candidates:
        verdict = verdicts.get(candidate.turn.key)
        if verdict is None:
            scores.append(None)
            continue
        peer = candidate.peer
        scores.append(
            mix.score(
                verdict,
                task=None
                if verdict.reason == "unusable_gold"
                else verdict.parts.get("f1", float(verdict.correct)),
                peer=None if peer is None else peer.overall,
                coherence=None if peer is None else peer.scores["coherence"],
                diversity=distances[candidate.turn.key],
                valid=candidate.draft.valid,
            )
        )
    return scores


def _by_model(model: RewardModel, readings: Sequence[Reading]) -> list[list[float]]:
    scores = iter(model.predict([one for reading in readings for one in shown(reading)]))
    return [[next(scores) for _ in reading.candidates] for reading in readings]


def _by_agreement(readings: Sequence[Reading]) -> list[list[float]]:
    return [_by_peers(r) if any(c.peer for c in r.candidates) else _by_vote(r) for r in readings]


def _by_peers(reading: Reading) -> list[float]:
    """The reviewers' mean overall score; a draft without a readable review ranks last."""
    overall = [None if c.peer is None else c.peer.overall for c in reading.candidates]
    return [0.0 if score is None else score for score in overall]


def _by_vote(reading: Reading) -> list[float]:
    """Share of the question's drafts that give the same answer."""
    answers = [
        None if c.draft.answer is None else vote_key(reading.task, c.draft.answer) for c in reading.candidates
    ]
    votes = Counter(answer for answer in answers if answer is not None)
    return [0.0 if answer is None else votes[answer] / len(answers) for answer in answers]
