"""A trained debate team and tasks -> what the paper measures and what it lacks, as rows of a report
(methods.md 1.4)."""

from collections.abc import Mapping, Sequence
from math import ceil, nan

from seminar import build
from seminar.config_mada import MadaConfig, Sampling
from seminar.console import Console
from seminar.evaluate import estimates, metrics, stats
from seminar.evaluate.metrics import Measure, Scored
from seminar.evaluate.report import Row, Section, facts, terminal, write
from seminar.evaluate.run import Entry, play_all
from seminar.evaluate.stats import Estimate
from seminar.methods.stages import WARMUP
from seminar.protocols.base import Protocol
from seminar.protocols.debate import DebateForm, Question
from seminar.runlog import RunFolder
from seminar.stopping import StopRequest
from seminar.types import Task

SPARE = 1.5
"""Samples of the equal-token vote: this many times the calls of a debate, so that few pools fall short."""


def evaluate(
    config: MadaConfig,
    world: build.World,
    form: DebateForm,
    *,
    start: str | None,
    best: str,
    tasks: Sequence[Task],
    run: RunFolder,
    console: Console,
    stop: StopRequest,
) -> list[Section] | None:
    """Play the trained team, the team it started from and a single agent's samples, at every sampling of the
    recipe.

    `start` is the adapter all agents began with (None: the bare base), `best` the generator that votes alone.
    All play the same tasks under the same seeds. None when a stop was asked for.
    """
    names = (*build.generator_names(config), *build.critic_names(config))
    debate = build.debate(config, form)
    calls = len(debate.generators) + (debate.rounds - 1) * len(debate.critics)
    alone = Question(form=form, agent=best, samples=ceil(SPARE * calls))
    plays: dict[str, tuple[Mapping[str, str | None], Protocol]] = {
        "trained": ({name: name for name in names}, debate),
        "start": (dict.fromkeys(names, start), debate),
        "alone": ({best: best}, alone),
    }
    sections: list[Section] = []
    for sampling in config.evaluation.samplings:
        found: dict[str, list[Scored]] = {}
        for name, (adapters, protocol) in plays.items():
            label = f"{name}-T{sampling.temperature:g}-p{sampling.top_p:g}"
            team = build.team(
                world,
                dict(adapters),
                sampling=sampling,
                max_tokens=config.evaluation.completion,
                max_prompt=build.max_debate_prompt(config),
            )
            played = play_all(
                Entry(name=label, team=team, protocol=protocol),
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
        sections += report_sections(config, sampling, found, parameters=_trainable(world, names))
    return sections


def evaluate_saved(
    saved: RunFolder, config: MadaConfig, *, run: RunFolder, console: Console, stop: StopRequest
) -> bool:
    """Evaluate the finished team of `saved` under `config` (other tasks, samplings or repeats) into the
    folder `run`."""
    tasks = [task for chosen in build.evaluation_tasks(config) for task in chosen.tasks]
    known = len(build.training_tasks(config).dropped)
    world = build.world(config.base)
    build.check_context(
        world,
        prompt=config.limits.prompt,
        completions={"evaluation.completion": config.evaluation.completion},
    )
    form = build.debate_form(config, world.chat)
    start = WARMUP if config.warmup else None
    names = build.generator_names(config)
    for name in (*names, *build.critic_names(config), *([start] if start else [])):
        build.load_adapters(saved, world, name)
    best = max(names, key=lambda name: float(saved.stage_facts(name)["validation"]))
    with world.grader:
        sections = evaluate(
            config, world, form, start=start, best=best, tasks=tasks, run=run, console=console, stop=stop
        )
    if sections is None:
        return False
    setting = facts(
        "What ran",
        {
            "team": str(saved.path),
            "base": f"{config.base.model}, {config.base.dtype}",
            "tasks": len(tasks),
            "training tasks among them": known,
        },
    )
    write(run.path, title=f"Evaluation of {saved.path.name}", sections=[setting, *sections])
    console.note(terminal(sections))
    return True


def report_sections(
    config: MadaConfig, sampling: Sampling, found: Mapping[str, list[Scored]], *, parameters: int
) -> list[Section]:
    """Rows of one sampling: accuracies, the paired difference, the baselines, changes, costs."""
    trained, start, pool = found["trained"], found["start"], found["alone"]
    ours = estimates.values(trained, metrics.debate_accuracy)
    theirs = estimates.values(start, metrics.debate_accuracy)
    equal, short = estimates.at_equal_tokens(pool, trained)
    vote_alone = estimates.values(equal, metrics.vote)
    gain = estimates.macro_difference(ours, theirs)
    edge = estimates.macro_difference(ours, vote_alone)
    holm = stats.holm([nan if e.p is None else e.p for e in (gain, edge)])
    welch = stats.welch(*([*estimates.seed_means(found_).values()] for found_ in (ours, theirs)))
    changes = estimates.changes(trained)
    title = f"temperature {sampling.temperature:g}, top-p {sampling.top_p:g}"
    rates = {
        "trained team, debate (mean of the final round)": ours,
        "team before training, debate": theirs,
        "trained team, vote of the final round": _of_final(trained, metrics.vote),
        "single trained generator (mean of round 1)": _of_first(trained, metrics.accuracy),
        "single agent before training (mean of round 1)": _of_first(start, metrics.accuracy),
        "one trained generator, vote at the debate's tokens": vote_alone,
    }
    by_set = estimates.by_set(ours)
    accuracy = [
        *(Row(label, estimates.macro_rate(found_), "%") for label, found_ in rates.items()),
        Row("trained - before", gain, "points", f"paired by task; p by Holm {holm[0]:.3g}"),
        Row("trained - before", _bootstrap(ours, theirs, seed=config.seed), "points", "bootstrap over tasks"),
        Row("trained - before", welch, "points", "Welch over seeds, as the paper tests"),
        Row("debate - vote at equal tokens", edge, "points", f"paired by task; p by Holm {holm[1]:.3g}"),
        Row("votes that had too few tokens", str(short)),
        *(Row(f"trained team on {n}", estimates.rate(v), "%") for n, v in by_set.items() if len(by_set) > 1),
    ]
    behaviour = [
        Row("improved", changes.improved, "%", "consensus wrong -> right, of all"),
        Row("improved", changes.improved_of_wrong, "%", "of those with a wrong consensus"),
        Row("worsened", changes.worsened, "%", "consensus right -> wrong, of all"),
        Row("worsened", changes.worsened_of_right, "%", "of those with a right consensus"),
        Row("critics agree", estimates.rate(_of_final(trained, metrics.agreement)), "%", "pairs"),
        Row("unanimous but wrong", estimates.rate(_of_final(trained, metrics.unanimous_wrong)), "%"),
        Row("answers cut to fit a prompt", str(_cut_answers(trained))),
    ]
    cost = [
        Row(
            "generated tokens a question, trained", estimates.mean(estimates.values(trained, metrics.tokens))
        ),
        Row("generated tokens a question, before", estimates.mean(estimates.values(start, metrics.tokens))),
        Row("trainable parameters of the team", f"{parameters:,}"),
        Row("gain per trainable parameter x 1e12", metrics.gain_per_parameter(gain, parameters=parameters)),
    ]
    return [
        Section(title=f"Accuracy at {title}", rows=tuple(accuracy)),
        Section(title=f"What the critics change at {title}", rows=tuple(behaviour)),
        Section(title=f"Cost at {title}", rows=tuple(cost)),
    ]


def _bootstrap(first: estimates.Values, second: estimates.Values, *, seed: int) -> Estimate:
    both = {
        play: (a, b) for play, a in first.items() if a is not None and (b := second.get(play)) is not None
    }
    clusters = [(play.source, play.task) for play in both]
    return stats.bootstrap_difference(*zip(*both.values(), strict=True), clusters=clusters, seed=seed)


def _of_final(episodes: Sequence[Scored], measure: Measure) -> estimates.Values:
    return estimates.values(episodes, lambda one: measure(metrics.final_round(one)))


def _of_first(episodes: Sequence[Scored], measure: Measure) -> estimates.Values:
    return estimates.values(episodes, lambda one: measure(metrics.first_round(one)))


def _cut_answers(episodes: Sequence[Scored]) -> int:
    return sum(int(turn.notes.get("cut_answers", 0)) for one in episodes for turn in one.episode.turns)


def _trainable(world: build.World, names: Sequence[str]) -> int:
    return sum(t.numel() for name in names for t in world.policy.parameters(name).values())
