"""Tasks -> episodes -> groups of scored turns. Batching, seeds and recorded failures live here."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from seminar.agents.agent import Team, stable_hash
from seminar.errors import DataError, SeminarError
from seminar.protocols.base import Play, Protocol
from seminar.protocols.drafts import REVIEWER
from seminar.rewards.base import Grader, Reward
from seminar.types import Ask, Episode, Failure, Group, Score, Task, Turn, Verdict


def play(tasks: Sequence[Task], protocol: Protocol, team: Team, *, seed: tuple[int, ...]) -> list[Episode]:
    """Play `protocol` on every task, all tasks side by side, one engine call a round.

    An episode that fails keeps the turns it had and the reason; its siblings go on. Errors of the engine
    itself (a missing adapter, no memory) are not an episode's failure and are raised.
    """
    games = [_Game(task=task, play=protocol.play(task, seed=(*seed, stable_hash(task.id)))) for task in tasks]
    for game in games:
        game.advance(None, team=team)
    while active := [game for game in games if game.asks]:
        asks = [(game.task, ask) for game in active for ask in game.asks]
        answers = iter(team.answer(asks, seed=seed))
        for game in active:
            game.advance([next(answers) for _ in game.asks], team=team)
    return [Episode(task=g.task, turns=tuple(g.turns), failure=g.failure) for g in games]


def watch(task: Task, protocol: Protocol, team: Team, *, seed: tuple[int, ...]) -> Iterator[list[Turn]]:
    """Play one task and yield the turns of each round as they come; a failure is raised."""
    game = protocol.play(task, seed=(*seed, stable_hash(task.id)))
    answers: list[list[Turn]] | None = None
    while True:
        try:
            asks = next(game) if answers is None else game.send(answers)
        except StopIteration:
            return
        for ask in asks:
            team.check(ask)
        answers = team.answer([(task, ask) for ask in asks], seed=seed)
        yield [turn for turns in answers for turn in turns]


def verdicts(episodes: Sequence[Episode], grader: Grader) -> list[dict[str, Verdict]]:
    """Grade every answer of every episode in one call; a map from turn key to verdict for each episode.

    Reviews are no answers and have no verdict.
    """
    answers = [[turn for turn in e.turns if turn.role != REVIEWER] for e in episodes]
    pairs = [(e.task, turn) for e, turns in zip(episodes, answers, strict=True) for turn in turns]
    graded = iter(grader.grade([(task, turn.text, turn.stop) for task, turn in pairs]))
    return [{turn.key: next(graded) for turn in turns} for turns in answers]


def groups(
    episodes: Sequence[Episode],
    graded: Sequence[Mapping[str, Verdict]],
    rewards: Mapping[str, tuple[float, Reward]],
) -> list[Group]:
    """Turns that answer the same prompt by the same agent, scored: total = sum of weight * part.

    `rewards` maps a part's name to (weight, reward). A turn for which any part is None has no score. Turns of
    failed episodes are left out: their prompts may not have been answered by everybody.
    """
    found: list[Group] = []
    for episode, by_key in zip(episodes, graded, strict=True):
        if episode.failure is not None:
            continue
        prompts: dict[tuple[str, int, int], list[Turn]] = defaultdict(list)
        for turn in episode.turns:
            prompts[turn.agent, turn.round, turn.draft].append(turn)
        for (agent, round_, _), turns in prompts.items():
            found.append(
                Group(
                    task=episode.task,
                    agent=agent,
                    role=turns[0].role,
                    round=round_,
                    turns=tuple(turns),
                    scores=_scores(episode.task, turns, [by_key[t.key] for t in turns], rewards),
                    baseline=episode.task.meta.get("acc_g"),
                )
            )
    return found


def _scores(
    task: Task, turns: Sequence[Turn], graded: Sequence[Verdict], rewards: Mapping[str, tuple[float, Reward]]
) -> tuple[Score | None, ...]:
    columns = {name: reward(task, turns, graded) for name, (_, reward) in rewards.items()}
    for name, column in columns.items():
        if len(column) != len(turns):
            raise DataError(
                f"reward {name} gave {len(column)} values for {len(turns)} turns; it must give one a turn, "
                f"None where "
                "it cannot tell."
            )
    scores: list[Score | None] = []
    for index, verdict in enumerate(graded):
        parts = {name: column[index] for name, column in columns.items()}
        known = {name: value for name, value in parts.items() if value is not None}
        total = sum(rewards[name][0] * value for name, value in known.items())
        scores.append(Score(parts=known, total=total, verdict=verdict) if len(known) == len(parts) else None)
    return tuple(scores)


@dataclass(slots=True)
class _Game:
    """One task under way: its generator, what it waits for, what it has."""

    task: Task
    play: Play
    asks: Sequence[Ask] = ()
    turns: list[Turn] = field(default_factory=list)
    failure: Failure | None = None

    def advance(self, answers: list[list[Turn]] | None, *, team: Team) -> None:
        """Hand the answers in and take the next asks; a failure ends this game alone."""
        if answers is not None:
            self.turns.extend(turn for turns in answers for turn in turns)
        try:
            self.asks = next(self.play) if answers is None else self.play.send(answers)
            for ask in self.asks:
                team.check(ask)
        except StopIteration:
            self.asks = ()
        except (SeminarError, ValueError, KeyError, IndexError) as error:
            self.asks = ()
            self.failure = Failure(stage="protocol", type=type(error).__name__, text=str(error))
