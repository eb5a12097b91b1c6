"""MADA-RL (arXiv 2607.18006), its stages in order: a configuration and a run folder -> a trained debate team.

Algorithm 2 of the paper from top to bottom: generators, debate set, critics; then Algorithm 1 as the
evaluation. Every stage is resumable and leaves its artefacts in the run folder (`adapters/`,
`debate_set.jsonl`, `results.json`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from seminar import build, rollout
from seminar.agents.agent import Team, stable_hash
from seminar.config_mada import MadaConfig, Sampling, Training
from seminar.console import Console
from seminar.errors import ConfigError
from seminar.evaluate import plots, report
from seminar.evaluate.transcripts import write_transcripts
from seminar.jsonl import read_rows
from seminar.learn import advantages
from seminar.learn.samples import from_groups
from seminar.methods.mada_evaluation import evaluate
from seminar.methods.stages import WARMUP, Work, stage, training_tasks, warm_up
from seminar.protocols.base import Protocol
from seminar.protocols.debate import Critique, DebateForm, Question
from seminar.rewards.base import Reward
from seminar.rewards.length import accuracy, length
from seminar.runlog import RunFolder
from seminar.settings import Generated
from seminar.stopping import StopRequest
from seminar.tasks import generated
from seminar.tasks.taskset import Split, TaskSet
from seminar.train import trainer
from seminar.train.imitation import example
from seminar.train.update import update
from seminar.types import Episode, Sample, Task


def train(config: MadaConfig, *, run: RunFolder, console: Console, stop: StopRequest) -> bool:
    """Run every stage that is not finished; False when a stop was asked for (what was done is saved)."""
    world = build.world(config.base)
    form = build.debate_form(config, world.chat)
    with world.grader:
        return Mada(config=config, world=world, form=form, run=run, console=console, stop=stop).train()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mada:
    """A run under way: its settings and everything the stages share."""

    config: MadaConfig
    world: build.World
    form: DebateForm
    run: RunFolder
    console: Console
    stop: StopRequest

    def train(self) -> bool:
        """Run every stage that is not finished; False when a stop was asked for (what was done is saved)."""
        config = self.config
        parts = training_tasks(config, self.console).split(
            config.debate.generators
            if config.data.part is None
            else [config.data.part] * config.debate.generators,
            validation=config.data.validation,
            seed=config.seed,
        )
        check_fit(config, self.world, parts)
        if config.warmup is not None and not self._stage(WARMUP, self._warm_up, adapters=[WARMUP]):
            return False
        for name, part in zip(build.generator_names(config), parts.parts, strict=True):
            work = partial(self._train_generator, name, part, _validation(parts))
            if not self._stage(name, work, adapters=[name]):
                return False
        if not self._stage("debate_set", partial(self._build_debate_set, parts)):
            return False
        debates = self._debate_tasks()
        for name in build.generator_names(config):
            self.world.policy.remove(name)
        for name, part in zip(build.critic_names(config), debates.parts, strict=bool(config.debate.critics)):
            work = partial(self._train_critic, name, part, _validation(debates))
            if not self._stage(name, work, adapters=[name]):
                return False
        for name in build.generator_names(config):
            build.load_adapters(self.run, self.world, name)
        return self._stage("evaluation", self._evaluate)

    # -- stages
    # -------------------------------------------------------------------------------------------------

    def _warm_up(self) -> dict[str, Any] | None:
        """Imitate worked solutions, alone and behind debate prompts that quote right and wrong answers."""
        return warm_up(
            self.config, self.world, self._examples(), run=self.run, console=self.console, stop=self.stop
        )

    def _train_generator(self, name: str, part: TaskSet, validation: TaskSet) -> dict[str, Any] | None:
        """GRPO on the agent's own part, alone (paper, section 3.1)."""
        protocol = partial(Question, form=self.form, agent=name)
        return self._train(name, self.config.generator, "generator", protocol, part, validation)

    def _train_critic(self, name: str, part: TaskSet, validation: TaskSet) -> dict[str, Any] | None:
        """The same objective on debate prompts, with A_C = R - 2 acc_G in place of A_G (paper, section
        3.3)."""
        protocol = partial(Critique, form=self.form, critic=name)
        return self._train(name, self.config.critic, "critic", protocol, part, validation)

    def _build_debate_set(self, parts: Split) -> dict[str, Any] | None:
        """Every best generator answers every training and validation question once (paper, section 3.1,
        D')."""
        config = self.config
        names = build.generator_names(config)
        team = self._team(
            {n: n for n in names}, config.generator.temperature, max_prompt=config.limits.prompt
        )
        tasks = [("train", t) for part in parts.parts for t in part.tasks]
        tasks += [("validation", t) for t in _validation(parts).tasks]
        size = config.evaluation.chunk
        with self.run.table("debate_set") as table:
            done = table.num_chunks
            self.console.stage("debate_set", total=-(-len(tasks) // size), done=done)
            for chunk in range(done, -(-len(tasks) // size)):
                rows = tasks[chunk * size : (chunk + 1) * size]
                table.append(self._answers(rows, names, team, chunk=chunk))
                self.console.step(chunk + 1, {})
                if self.stop.requested:
                    return None
        return {"questions": len(tasks)}

    def _evaluate(self) -> dict[str, Any] | None:
        """Algorithm 1 with the trained team, the team it started from, and a single agent; then the
        report."""
        config = self.config
        names = build.generator_names(config)
        sections = evaluate(
            config,
            self.world,
            self.form,
            start=WARMUP if config.warmup else None,
            best=max(names, key=lambda name: float(self.run.stage_facts(name)["validation"])),
            tasks=[task for tasks in build.evaluation_tasks(config) for task in tasks.tasks],
            run=self.run,
            console=self.console,
            stop=self.stop,
        )
        if sections is None:
            return None
        write_report(self.run, config, sections)
        self.console.note(report.terminal(sections))
        return {"decontaminated": len(build.training_tasks(config).dropped)}

    # -- what the stages are made of
    # ----------------------------------------------------------------------------

    def _stage(self, name: str, work: Work, *, adapters: Sequence[str] = ()) -> bool:
        return stage(self.run, self.world, name, work, stop=self.stop, adapters=adapters)

    def _train(
        self,
        name: str,
        training: Training,
        role: str,
        protocol: Callable[..., Protocol],
        part: TaskSet,
        validation: TaskSet,
    ) -> dict[str, Any] | None:
        config, policy = self.config, self.world.policy
        reference = WARMUP if config.warmup else None
        if reference is None:
            build.add_adapter(policy, name, config.lora, seed=(config.seed, stable_hash(name)))
        else:
            policy.copy(reference, name)
        steps = training.steps or round(training.epochs * len(part.tasks) / training.prompts)
        longest = config.limits.prompt if role == "generator" else build.max_debate_prompt(config)
        team = self._team({name: name}, training.temperature, max_prompt=longest)
        learner = build.learner(policy, name, training, steps=steps)
        loss = build.policy_loss(config, training, reference=reference)

        def learn(step: int, episodes: Sequence[Episode]) -> trainer.Learned:
            groups = rollout.groups(episodes, rollout.verdicts(episodes, self.world.grader), rewards(config))
            credit = advantages.assign(
                groups, schemes={role: training.advantage}, accuracy_weight=config.reward.accuracy
            )
            seed = stable_hash(f"{config.seed}/{name}/{step}/dropout")
            metrics = update(
                policy, learner, from_groups(groups, credit), step=step, seed=seed, settings=loss
            )
            rows = trainer.episode_rows(name, step, groups, credit)
            return trainer.Learned({**trainer.summary(groups), **metrics}, rows)

        job = trainer.Job(
            stage=name,
            team=team,
            policy=policy,
            learners=[learner],
            protocol=protocol(samples=training.group),
            tasks=part,
            learn=learn,
            prompts=training.prompts,
            steps=steps,
            seed=config.seed,
            validate=lambda: self._validate(protocol(samples=1), team, validation),
            validate_every=training.validate_every,
            max_failed_fraction=config.max_failed_fraction,
            episodes_every=config.logging.episodes_every,
            checkpoint_every=config.logging.checkpoint_every,
        )
        best = trainer.train(job, run=self.run, console=self.console, stop=self.stop)
        if best is None:
            return None
        return {
            "best_step": best.step,
            "validation": best.accuracy,
            "advantage": training.advantage,
            "steps": steps,
        }

    def _validate(self, protocol: Protocol, team: Team, validation: TaskSet) -> float:
        """Share of right answers on the validation part, one sample each, with the same random numbers every
        time."""
        seed = (self.config.seed, stable_hash("validation"))
        episodes = rollout.play(validation.tasks, protocol, team, seed=seed)
        trainer.check_failures(episodes, limit=self.config.max_failed_fraction, where="validation")
        graded = rollout.verdicts(episodes, self.world.grader)
        return float(np.mean([v.correct for by_key in graded for v in by_key.values()]))

    def _answers(
        self, rows: Sequence[tuple[str, Task]], names: Sequence[str], team: Team, *, chunk: int
    ) -> list[dict[str, Any]]:
        """Rows of the debate set: texts, tokens, correctness and acc_G of one chunk of questions."""
        columns = []
        for name in names:
            seed = (self.config.seed, stable_hash("debate_set"))
            episodes = rollout.play(
                [task for _, task in rows], Question(form=self.form, agent=name), team, seed=seed
            )
            trainer.check_failures(episodes, limit=0.0, where=f"debate_set, chunk {chunk}")
            columns.append(zip(episodes, rollout.verdicts(episodes, self.world.grader), strict=True))
        made = []
        for (split, task), *column in zip(rows, *columns, strict=True):
            turns = [episode.turns[0] for episode, _ in column]
            correct = [by_key[turn.key].correct for turn, (_, by_key) in zip(turns, column, strict=True)]
            made.append(
                {
                    "id": task.id,
                    "split": split,
                    "question": task.question,
                    "gold": task.gold,
                    "domain": task.domain,
                    "answers": [turn.text for turn in turns],
                    "tokens": [len(turn.completion_ids) for turn in turns],
                    "correct": correct,
                    "acc_g": float(np.mean(correct)),
                    "temperature": turns[0].temperature,
                    "adapters": {turn.adapter: turn.adapter_version for turn in turns},
                }
            )
        return made

    def _debate_tasks(self) -> Split:
        """The debate set as tasks: a fresh seeded partition among the critics, validation apart."""
        tasks: dict[str, list[Task]] = {"train": [], "validation": []}
        with self.run.table("debate_set") as table:
            for row in table.rows():
                meta = {"answers": row["answers"], "acc_g": row["acc_g"]}
                task = Task(
                    id=row["id"], question=row["question"], gold=row["gold"], domain=row["domain"], meta=meta
                )
                tasks[row["split"]].append(task)
        train_set = TaskSet(name="debates", tasks=tuple(tasks["train"]))
        parts = train_set.split(max(1, self.config.debate.critics), seed=self.config.seed + 1)
        return parts._replace(validation=TaskSet(name="debates/validation", tasks=tuple(tasks["validation"])))

    def _team(self, adapters: dict[str, str | None], temperature: float, *, max_prompt: int) -> Team:
        return build.team(
            self.world,
            adapters,
            sampling=Sampling(temperature=temperature),
            max_tokens=self.config.limits.completion,
            max_prompt=max_prompt,
        )

    def _examples(self) -> list[Sample]:
        """Half of the examples are bare questions, half are debate prompts; all end in the worked
        solution."""
        source, warmup = self.config.data.train, self.config.warmup
        assert warmup is not None
        if not isinstance(source, Generated):
            raise ConfigError(
                f"warmup: data.train.type is {source.type}; imitation needs worked solutions, which "
                f"generated tasks "
                "have. Use data.train.type: generated, or no warmup."
            )
        rng = np.random.default_rng((self.config.seed, stable_hash(WARMUP)))
        eos = self.world.policy.tokenizer.eos_token_id
        samples = []
        for index, task in enumerate(
            generated.problems(
                source.kind, count=warmup.steps * warmup.batch, seed=self.config.seed, split="warmup"
            )
        ):
            messages = self.form.question(task)
            if index % 2:
                answers = [corrupted(task, rng) for _ in build.generator_names(self.config)]
                messages = self.form.show(task, answers, seed=(self.config.seed, index)).messages
            samples.append(example(self.world.chat, messages, task.meta["solution"], eos=eos, agent=WARMUP))
        return samples


def _validation(parts: Split) -> TaskSet:
    assert parts.validation is not None, "data.validation is at least 1"
    return parts.validation


def check_fit(config: MadaConfig, world: build.World, parts: Split) -> None:
    """Refuse before any training what would end the run late: limits above the context, parts below a
    batch."""
    build.check_context(
        world,
        prompt=config.limits.prompt,
        completions={
            "limits.completion": config.limits.completion,
            "evaluation.completion": config.evaluation.completion,
        },
    )
    sizes = [len(part.tasks) for part in parts.parts]
    roles = [("generator", config.generator, min(sizes))]
    if config.debate.critics:
        roles.append(("critic", config.critic, sum(sizes) // config.debate.critics))
    for role, training, questions in roles:
        if training.prompts > questions:
            raise ConfigError(
                f"{role}.batch is {training.batch}, so a step takes {training.prompts} questions, but each "
                f"{role} has {questions}. Lower {role}.batch, raise {role}.group, or give more tasks."
            )


def rewards(config: MadaConfig) -> dict[str, tuple[float, Reward]]:
    """R = 2 R_acc + R_len (paper, section 3.2)."""
    return {"accuracy": (config.reward.accuracy, accuracy), "length": (config.reward.length, length)}


def corrupted(task: Task, rng: np.random.Generator) -> str:
    """A worked solution to quote in a warm-up prompt: right half of the time, else off by a little at its
    end."""
    solution, gold = str(task.meta["solution"]), int(task.gold)
    wrong = gold + int(rng.integers(1, 10)) * (1 if rng.random() < 0.5 else -1)
    if rng.random() < 0.5:
        return solution
    return solution.replace(f"\\boxed{{{gold}}}", f"\\boxed{{{wrong}}}").replace(f"= {gold} ", f"= {wrong} ")


def write_report(run: RunFolder, config: MadaConfig, results: Sequence[report.Section]) -> None:
    """report.md and results.json: what ran, what came out, how training went."""
    stages = [*build.generator_names(config), *build.critic_names(config)]
    kept = {name: run.stage_facts(name) for name in stages}
    setting = report.facts(
        "What ran",
        {
            "method": "MADA-RL, arXiv 2607.18006",
            "base": f"{config.base.model}, {config.base.dtype}",
            "laboratory animal": "yes: results on `tiny` say nothing about real models"
            if config.base.model == "tiny"
            else "no",
            "generators learn by": config.generator.advantage,
            "critics learn by": config.critic.advantage,
            "critics see": f"{config.debate.visible}, at most {config.limits.visible} tokens an answer",
            "training tasks left out (known to an evaluation set, or without a usable gold)": len(
                build.training_tasks(config).dropped
            ),
            "seed": config.seed,
            **{
                f"kept adapter of {name}": f"step {f['best_step']} of {f['steps']}"
                for name, f in kept.items()
            },
        },
    )
    picture = plots.plot_training(read_rows(run.path / "metrics.jsonl"), folder=run.path)
    training = report.Section(title="Training", pictures=(picture,) if picture else ())
    write_transcripts(
        read_rows(run.path / "episodes.jsonl"), run.path / "transcripts.html", title=config.name
    )
    report.write(run.path, title=f"Run {config.name}", sections=[setting, *results, training])
