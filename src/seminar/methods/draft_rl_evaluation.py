"""A trained team of drafters and tasks -> winner, vote, agents alone, oracle, trust in R_phi: a report."""

from collections.abc import Callable, Mapping, Sequence
from math import isnan
from typing import NamedTuple

from seminar import build
from seminar.config_draft import DraftRlConfig
from seminar.console import Console
from seminar.evaluate import estimates, metrics, plots, report, stats
from seminar.evaluate.drafts import drafts_only, measures, oracle
from seminar.evaluate.metrics import Scored
from seminar.evaluate.report import Row, Section
from seminar.evaluate.run import Entry, play_all
from seminar.evaluate.transcripts import write_transcripts
from seminar.jsonl import read_rows
from seminar.methods.stages import WARMUP
from seminar.protocols.drafts import DRAFTER, REVIEWER, Drafts
from seminar.rewards.model import RewardModel
from seminar.rewards.reading import Reading, judge, read
from seminar.runlog import RunFolder
from seminar.stopping import StopRequest
from seminar.tasks.code import complexity
from seminar.tasks.qa import supporting_hops
from seminar.types import Task, Turn


class Judged(NamedTuple):
    """Played questions as a judge sees them."""

    ones: list[Scored]
    """Whole episodes, failed ones too."""
    readings: list[Reading]
    """Of the episodes that did not fail, in order."""
    scores: list[list[float]]
    winners: list[int | None]
    selected: estimates.Values
    """1 where the selected answer is right, 0 where it is wrong or no draft is valid."""


def evaluate(
    config: DraftRlConfig,
    world: build.World,
    protocol: Drafts,
    *,
    model: RewardModel | None,
    blank: RewardModel | None,
    start: str | None,
    tasks: Sequence[Task],
    run: RunFolder,
    console: Console,
    stop: StopRequest,
) -> list[Section] | None:
    """Play the trained team and the one it started from on the same tasks under the same seeds.

    `model` is the trained R_phi, `blank` the one training began with, `start` the adapter all agents began
    with (None: the bare base). None when a stop was asked for.
    """
    found: dict[str, list[Scored]] = {}
    for name, adapters in {
        "trained": {name: name for name in protocol.agents},
        "start": dict.fromkeys(protocol.agents, start),
    }.items():
        played = play_all(
            Entry(name=name, team=build.draft_team(world, config, dict(adapters)), protocol=protocol),
            tasks,
            repeats=config.evaluation.repeats,
            seed=config.seed,
            chunk=config.evaluation.chunk,
            grader=world.grader,
            run=run,
            console=console,
            stop=stop,
        )
        if played is None:
            return None
        found[name] = played
    center = config.drafts.center_reviewers
    trained = judged(found["trained"], protocol, model, center=center)
    before = judged(found["start"], protocol, blank, center=center)
    same_judge = judged(found["start"], protocol, model, center=center)
    sections = [
        _accuracy(trained, before, same_judge, protocol),
        *_selected(trained, before),
        _behaviour("trained team", trained),
        _behaviour("team before training", before),
        _cost(config, world, protocol, trained, before, model),
    ]
    console.note(report.terminal(sections))
    return sections


def evaluate_saved(
    saved: RunFolder, config: DraftRlConfig, *, run: RunFolder, console: Console, stop: StopRequest
) -> bool:
    """Evaluate the finished team of `saved` under `config` (other tasks or repeats) into the folder `run`."""
    tasks = [task for chosen in build.evaluation_tasks(config) for task in chosen.tasks]
    known = len(build.training_tasks(config).dropped)
    world = build.world(config.base, code=any(task.domain == "code" for task in tasks))
    start = WARMUP if config.warmup else None
    for stage in (build.TEAM, *([start] if start else [])):
        build.load_adapters(saved, world, stage)
    with world.grader:
        sections = evaluate(
            config,
            world,
            build.drafts(config),
            model=build.saved_reward_model(saved, config, world),
            blank=build.reward_model(config, world),
            start=start,
            tasks=tasks,
            run=run,
            console=console,
            stop=stop,
        )
    if sections is None:
        return False
    setting = report.facts(
        "What ran",
        {
            "team": str(saved.path),
            "base": f"{config.base.model}, {config.base.dtype}",
            "tasks": len(tasks),
            "training tasks among them": known,
        },
    )
    report.write(run.path, title=f"Evaluation of {saved.path.name}", sections=[setting, *sections])
    return True


def judged(ones: list[Scored], protocol: Drafts, model: RewardModel | None, *, center: bool) -> Judged:
    """Read the episodes, score their drafts and select; nothing is played."""
    kept = [one for one in ones if one.episode.failure is None]
    readings = [read(one.episode, protocol, center=center) for one in kept]
    scores = judge(model)(readings)
    winners = [reading.best(row) for reading, row in zip(readings, scores, strict=True)]
    return Judged(ones, readings, scores, winners, _of_picks(ones, readings, winners, _right))


Measured = Callable[[Scored, Turn | None], float | None]
"""An episode and the draft that was picked of it, None where no draft is valid -> a number."""


def _of_picks(
    ones: Sequence[Scored], readings: Sequence[Reading], picks: Sequence[int | None], measure: Measured
) -> estimates.Values:
    """A measure of one draft of every question; readings and picks are those of the whole episodes."""
    kept = (one for one in ones if one.episode.failure is None)
    chosen = {
        id(one): None if at is None else reading.candidates[at].turn
        for one, reading, at in zip(kept, readings, picks, strict=True)
    }
    return estimates.values(ones, lambda one: measure(one, chosen[id(one)]))


def _right(one: Scored, turn: Turn | None) -> float:
    return 0.0 if turn is None else float(one.verdicts[turn.key].correct)


def _part(name: str) -> Measured:
    """A graded measure of the answer: 0 without one, None in domains that do not have it."""

    def value(one: Scored, turn: Turn | None) -> float | None:
        if turn is None:
            return 0.0 if one.episode.task.domain == "qa" else None
        return one.verdicts[turn.key].parts.get(name)

    return value


def _hops(one: Scored, turn: Turn | None) -> float | None:
    titles = one.episode.task.meta.get("supporting_titles", ())
    return float(supporting_hops(turn.text, titles)) if titles and turn is not None else None


def _complexity(one: Scored, turn: Turn | None) -> float | None:
    program = None if turn is None else one.verdicts[turn.key].extracted
    return complexity(program) if program and one.episode.task.domain == "code" else None


def _selected(trained: Judged, before: Judged) -> list[Section]:
    """What else the selected answers are worth, where their domain tells: QA and code."""
    measured = {
        "exact match": _part("em"),
        "F1": _part("f1"),
        "supporting titles named (hops, ours)": _hops,
        "cyclomatic complexity of the program (ours)": _complexity,
    }
    found = {
        f"{label}, {name}": estimates.mean(_of_picks(team.ones, team.readings, team.winners, measure))
        for label, measure in measured.items()
        for name, team in (("trained", trained), ("before", before))
    }
    rows = tuple(Row(label, estimate) for label, estimate in found.items() if estimate.n)
    return [Section(title="Selected answers", rows=rows)] if rows else []


def _accuracy(trained: Judged, before: Judged, same_judge: Judged, protocol: Drafts) -> Section:
    ours, theirs = _rates(trained, protocol), _rates(before, protocol)
    gains = {
        "trained - before, selected": estimates.macro_difference(trained.selected, before.selected),
        "trained - before, selected, both by the trained R_phi": estimates.macro_difference(
            trained.selected, same_judge.selected
        ),
        "trained - before, mean draft": estimates.macro_difference(ours["mean draft"], theirs["mean draft"]),
        "selected - vote, trained": estimates.macro_difference(trained.selected, ours["majority vote"]),
    }
    holm = stats.holm([float("nan") if e.p is None else e.p for e in gains.values()])
    by_set = estimates.by_set(trained.selected)
    rows = [
        Row("selected answer, trained", estimates.macro_rate(trained.selected), "%"),
        Row("selected answer, before training", estimates.macro_rate(before.selected), "%"),
        Row("selected answer, before, by the trained R_phi", estimates.macro_rate(same_judge.selected), "%"),
        *(Row(f"{label}, trained", estimates.macro_rate(values), "%") for label, values in ours.items()),
        *(Row(f"{label}, before", estimates.macro_rate(values), "%") for label, values in theirs.items()),
        *(
            Row(label, gain, "points", f"paired by task; p by Holm {_number(p)}")
            for (label, gain), p in zip(gains.items(), holm, strict=True)
        ),
        *(Row(f"selected on {n}", estimates.rate(v), "%") for n, v in by_set.items() if len(by_set) > 1),
    ]
    return Section(title="Accuracy", rows=tuple(rows))


def _rates(found: Judged, protocol: Drafts) -> dict[str, estimates.Values]:
    """Ways to answer with the same drafts: vote, the best agent's selection, the mean draft, the oracle."""
    drafts = [drafts_only(one, protocol) for one in found.ones]
    agents = {name: _own(found, name) for name in protocol.agents}
    best = max(agents, key=lambda name: estimates.macro_rate(agents[name]).value)
    size = len(protocol.agents) * protocol.drafts
    return {
        "majority vote": estimates.values(drafts, metrics.vote),
        f"best single agent ({best}, known afterwards)": agents[best],
        "mean draft": estimates.values(drafts, metrics.accuracy),
        f"oracle of {size}": estimates.values(drafts, oracle),
    }


def _own(found: Judged, agent: str) -> estimates.Values:
    """What one agent alone would answer: its own draft with the highest score."""
    picks = [r.best(row, r.of(agent)) for r, row in zip(found.readings, found.scores, strict=True)]
    return _of_picks(found.ones, found.readings, picks, _right)


def _behaviour(title: str, found: Judged) -> Section:
    """Validity, diversity, blind spots, trust in the judge, who wins and by which strategy."""
    kept = [one for one in found.ones if one.episode.failure is None]
    facts = measures(found.readings, found.scores, [one.verdicts for one in kept], found.winners)
    won = [
        reading.candidates[at].turn
        for reading, at in zip(found.readings, found.winners, strict=True)
        if at is not None
    ]
    labels = {
        "valid": "drafts in valid form",
        "no_winner": "questions without a valid draft",
        "missing_reviews": "share of reviews that cannot be read",
        "distinct_answers": "distinct answers (ours)",
        "word_distance": "word distance between drafts, 1 - Jaccard (ours)",
        "agreement": "pairs of drafts that agree",
        "unanimous_wrong": "unanimous but wrong",
        "steps": "steps a draft",
        "completion_tokens": "tokens a draft",
        "judge/auc": "judge: AUC within a question",
        "judge/truth": "judge: correlation with truth",
        "judge/peers": "judge: correlation with peers",
        "judge/calibration": "judge: calibration error",
        "peers/auc": "peers: AUC within a question",
        "peers/truth": "peers: correlation with truth",
    }
    rows = [Row(label, _number(facts[name])) for name, label in labels.items()]
    rows += [
        Row(f"winners of {name.removeprefix('wins/')}", _number(value))
        for name, value in facts.items()
        if name.startswith("wins/")
    ]
    apart = metrics.specialisation(metrics.winning_strategies(won))
    rows.append(Row("specialisation, Jensen-Shannon between agents (ours)", _number(apart)))
    return Section(title=f"Drafts of the {title}", rows=tuple(rows))


def _cost(
    config: DraftRlConfig,
    world: build.World,
    protocol: Drafts,
    trained: Judged,
    before: Judged,
    model: RewardModel | None,
) -> Section:
    parameters = sum(t.numel() for a in protocol.agents for t in world.policy.parameters(a).values())
    phi = 0 if model is None else sum(t.numel() for t in model.encoder.parameters())
    rows = [
        Row(f"generated tokens of {phase} a question, {name}", estimates.mean(_tokens(found, role)))
        for name, found in (("trained", trained), ("before", before))
        for phase, role in (("drafts", DRAFTER), ("reviews", REVIEWER))
    ]
    rows += [
        Row("trainable parameters of the agents", f"{parameters:,}"),
        Row("parameters of R_phi", f"{phi:,}"),
        Row("PPO learns from", config.training.ppo_on),
    ]
    return Section(title="Cost", rows=tuple(rows))


def _tokens(found: Judged, role: str) -> estimates.Values:
    return estimates.values(found.ones, lambda one: metrics.tokens(metrics.of_role(one, role)))


def write_report(run: RunFolder, config: DraftRlConfig, results: Sequence[Section]) -> None:
    """report.md and results.json: what ran, what came out, how training went."""
    kept = run.stage_facts("team")
    logged = [row for row in read_rows(run.path / "metrics.jsonl") if row["stage"] == "team"]
    curve = [(row["step"] + 1, row["validation"]) for row in logged if "validation" in row]
    d, t = config.drafts, config.training
    setting = report.facts(
        "What ran",
        {
            "method": "DRAFT-RL, arXiv 2511.20468; definitions marked (ours) are not the paper's",
            "base": f"{config.base.model}, {config.base.dtype}",
            "laboratory animal": "yes: results on `tiny` say nothing about real models"
            if config.base.model == "tiny"
            else "no",
            "team": f"{d.agents} agents, {d.drafts} drafts each, history {d.history}",
            **_ablations(config),
            "PPO": f"on {t.ppo_on}, unit {t.unit}, alpha {t.imitation:g}, {t.ppo_epochs} epochs"
            if t.rl
            else "off",
            "reward": config.reward.reward,
            "seed": config.seed,
            "kept": f"step {kept['best_step']} of {kept['steps']}, validation {kept['validation']:.3f}",
            "steps to 95 % of the last validation (ours)": metrics.steps_to_converge(curve) or "none",
        },
    )
    picture = plots.plot_training(read_rows(run.path / "metrics.jsonl"), folder=run.path)
    training = Section(title="Training", pictures=(picture,) if picture else ())
    write_transcripts(
        read_rows(run.path / "episodes.jsonl"), run.path / "transcripts.html", title=config.name
    )
    report.write(run.path, title=f"Run {config.name}", sections=[setting, *results, training])


def _ablations(config: DraftRlConfig) -> Mapping[str, str]:
    """The parts of the method that a recipe may switch off, each with its state."""
    parts = {
        "drafts": config.drafts.drafts > 1,
        "peers": config.drafts.peers,
        "Chain of Draft": config.drafts.cod,
        "reward model": config.reward_model.on,
        "PPO": config.training.rl,
        "imitation": config.training.imitation > 0,
    }
    off = [name for name, on in parts.items() if not on]
    return {"switched off": ", ".join(off) or "nothing"}


def _number(value: float) -> str:
    return "unknown" if isnan(value) else f"{value:.3g}"
