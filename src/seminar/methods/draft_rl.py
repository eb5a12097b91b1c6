"""DRAFT-RL (arXiv 2511.20468), Algorithm 1 in order: configuration and run folder -> a trained draft team.

Each iteration: every agent drafts, every agent reviews the others, R_phi scores, the verifier rewards, d* is
selected, every agent learns by PPO and imitates d*, R_phi learns from the observed rewards. Stages leave
their artefacts in the run folder (`adapters/`, `reward_model/`, `results.json`); a killed run goes on with
the last checkpoint.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from seminar import build, rollout
from seminar.agents.agent import Team, stable_hash
from seminar.atomic import atomic_dir
from seminar.config_draft import DraftRlConfig
from seminar.console import Console
from seminar.evaluate.drafts import measures
from seminar.methods.draft_rl_evaluation import evaluate, write_report
from seminar.methods.draft_rows import rows, summary
from seminar.methods.draft_samples import imitated, reviews, rewarded
from seminar.methods.stages import WARMUP, Work, stage, training_tasks, warm_up
from seminar.protocols.draft_lessons import demonstrations
from seminar.protocols.drafts import Drafts
from seminar.rewards.drafts import MIX
from seminar.rewards.model import RewardModel, load_reward_model
from seminar.rewards.reading import Reading, judge, observed, read, shown
from seminar.runlog import RunFolder
from seminar.settings import Generated
from seminar.stopping import StopRequest
from seminar.tasks import generated
from seminar.tasks.taskset import TaskSet
from seminar.train import trainer
from seminar.train.imitation import example
from seminar.train.ppo import Rewarded, update_agent
from seminar.train.reward_model import Lesson, RewardLearner
from seminar.types import Episode, Sample, Score, Verdict


def train(config: DraftRlConfig, *, run: RunFolder, console: Console, stop: StopRequest) -> bool:
    """Run every stage that is not finished; False when a stop was asked for (what was done is saved)."""
    sets = [training_tasks(config, console), *build.evaluation_tasks(config)]
    world = build.world(config.base, code=any(t.domain == "code" for tasks in sets for t in tasks.tasks))
    build.check_context(
        world,
        prompt=config.limits.prompt,
        completions={"limits.draft": config.limits.draft, "limits.review": config.limits.review},
    )
    protocol = build.drafts(config)
    if 0 < len(protocol.strategies) < protocol.drafts:
        console.note(f"{len(protocol.strategies)} strategy hints for {protocol.drafts} drafts: they cycle.")
    model = build.reward_model(config, world)
    with world.grader:
        job = DraftRl(
            config=config, world=world, protocol=protocol, model=model, run=run, console=console, stop=stop
        )
        return job.train()


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRl:
    """A run under way: its settings and everything the stages share."""

    config: DraftRlConfig
    world: build.World
    protocol: Drafts
    model: RewardModel | None
    """R_phi; None in the ablation without it."""
    run: RunFolder
    console: Console
    stop: StopRequest

    def train(self) -> bool:
        """Run every stage that is not finished; False when a stop was asked for (what was done is saved)."""
        if self.config.warmup is not None and not self._stage(WARMUP, self._warm_up, adapters=[WARMUP]):
            return False
        if not self._stage(build.TEAM, self._train_team, adapters=self.protocol.agents):
            return False
        return self._stage("evaluation", self._evaluate)

    def _stage(self, name: str, work: Work, *, adapters: Sequence[str] = ()) -> bool:
        return stage(self.run, self.world, name, work, stop=self.stop, adapters=adapters)

    # -- warm-up --------------------------------------------------------------------------------------------

    def _warm_up(self) -> dict[str, Any] | None:
        """Imitate right drafts, alone and behind earlier ones, and reviews of right and wrong drafts."""
        return warm_up(
            self.config, self.world, self._examples(), run=self.run, console=self.console, stop=self.stop
        )

    def _examples(self) -> list[Sample]:
        """As many demonstrations as the warm-up needs, of generated tasks that no other part of the run
        sees."""
        source, warmup = self.config.data.train, self.config.warmup
        assert warmup is not None
        assert isinstance(source, Generated)
        seed = self.config.seed
        count, each = warmup.steps * warmup.batch, 4 if self.protocol.peers else 2
        tasks = generated.problems(source.kind, count=-(-count // each), seed=seed, split="warmup")
        lessons = demonstrations(
            self.protocol, tasks, seed=seed, criteria=warmup.criteria, feedback=warmup.feedback
        )
        eos = self.world.policy.tokenizer.eos_token_id
        return [example(self.world.chat, one.messages, one.text, eos=eos, agent=WARMUP) for one in lessons]

    # -- Algorithm 1 ----------------------------------------------------------------------------------------

    def _train_team(self) -> dict[str, Any] | None:
        """Train all agents and R_phi side by side; the best of all of them by the selected answer is kept."""
        config, policy, t = self.config, self.world.policy, self.config.training
        parts = build.training_tasks(config).split(
            1 if config.data.part is None else [config.data.part],
            validation=config.data.validation,
            seed=config.seed,
        )
        reference = WARMUP if config.warmup else None
        for name in self.protocol.agents:
            if reference is None:
                build.add_adapter(policy, name, config.lora, seed=(config.seed, stable_hash(name)))
            else:
                policy.copy(reference, name)
        learners = [build.drafter(policy, name, config) for name in self.protocol.agents]
        pupil = None if self.model is None else build.reward_learner(config, self.model)
        loss = build.ppo_loss(config, reference=reference)
        team = build.draft_team(self.world, config, {name: name for name in self.protocol.agents})

        def learn(step: int, episodes: Sequence[Episode]) -> trainer.Learned:
            readings = self._read(episodes)  # drafts d_i^k and reviews (eq. 4, 5)
            judged = judge(self.model)(readings)  # R_phi (eq. 6), as it was before this step
            winners = [r.best(s) for r, s in zip(readings, judged, strict=True)]  # d* (eq. 7)
            own = [self._own(r, s) for r, s in zip(readings, judged, strict=True)]
            verdicts = self._verify(readings, own)
            rewards = [observed(r, v, mix=build.mix(config)) for r, v in zip(readings, verdicts, strict=True)]
            metrics = measures(readings, judged, verdicts, winners) | summary(rewards)
            credit: dict[tuple[int, int], float] = {}
            for learner in learners:  # PPO with imitation, agent by agent (eq. 8 to 10)
                name = learner.adapter
                places = self._learns_from(name, readings, own, rewards)
                acts = [self._rewarded(readings[q], i, rewards[q], judged[q]) for q, i in places]
                if t.train_reviews:  # ours: reviews learn to foretell the verified outcome
                    acts += reviews(name, readings, verdicts, chat=self.world.chat, unit=t.unit)
                copied = self._imitated(name, readings, winners, own)
                seed = stable_hash(f"{config.seed}/{name}/{step}/dropout")
                done = update_agent(policy, learner, acts, copied, step=step, seed=seed, settings=loss)
                metrics |= {f"{name}/{key}": value for key, value in done.metrics.items()}
                credit |= dict(zip(places, done.advantages[: len(places)], strict=True))
            if pupil is not None:  # R_phi learns from what was observed
                for lesson in self._lessons(readings, rewards, own):
                    pupil.remember(lesson)
                taught = pupil.update(
                    steps=config.reward_model.steps, questions=config.reward_model.questions
                )
                metrics |= {f"reward_model/{key}": value for key, value in taught.items()}
            metrics["tokens"] = sum(metrics[f"{learner.adapter}/tokens"] for learner in learners)
            played = rows(build.TEAM, step, readings, rewards, judged, credit, winners)
            return trainer.Learned(metrics, played)

        job = trainer.Job(
            stage=build.TEAM,
            team=team,
            policy=policy,
            learners=learners,
            protocol=self.protocol,
            tasks=parts.parts[0],
            learn=learn,
            prompts=t.tasks,
            steps=t.steps,
            seed=config.seed,
            validate=lambda: self._validate(team, parts.validation),
            validate_every=t.validate_every,
            max_failed_fraction=config.max_failed_fraction,
            episodes_every=config.logging.episodes_every,
            checkpoint_every=config.logging.checkpoint_every,
            companion=None if pupil is None else RewardState(pupil),
        )
        best = trainer.train(job, run=self.run, console=self.console, stop=self.stop)
        if best is None:
            return None
        if self.model is not None:
            with atomic_dir(self.run.path / "reward_model") as folder:
                self.model.save(folder)
        return {"best_step": best.step, "validation": best.accuracy, "steps": t.steps}

    # -- what an iteration is made of -----------------------------------------------------------------------

    def _read(self, episodes: Sequence[Episode]) -> list[Reading]:
        center = self.config.drafts.center_reviewers
        return [read(e, self.protocol, center=center) for e in episodes if e.failure is None]

    def _own(self, reading: Reading, scores: Sequence[float]) -> dict[str, int]:
        """Each agent's own best valid draft (Algorithm 1); agents without a valid draft are left out."""
        found = {name: reading.best(scores, reading.of(name)) for name in self.protocol.agents}
        return {name: at for name, at in found.items() if at is not None}

    def _verify(self, readings: Sequence[Reading], own: Sequence[dict[str, int]]) -> list[dict[str, Verdict]]:
        """Grade every draft or, where the verifier is dear, each agent's selected one."""
        every = self.config.reward_model.score_all
        asked = [
            [c for i, c in enumerate(reading.candidates) if every or i in chosen.values()]
            for reading, chosen in zip(readings, own, strict=True)
        ]
        answers = [
            (reading.task, c.turn.text, c.turn.stop)
            for reading, row in zip(readings, asked, strict=True)
            for c in row
        ]
        graded = iter(self.world.grader.grade(answers))
        return [{c.turn.key: next(graded) for c in row} for row in asked]

    def _learns_from(
        self,
        agent: str,
        readings: Sequence[Reading],
        own: Sequence[dict[str, int]],
        rewards: Sequence[Sequence[Score | None]],
    ) -> list[tuple[int, int]]:
        """(question, draft) of the drafts PPO learns from; none of a question without a valid draft."""
        t = self.config.training
        if not t.rl:
            return []
        found: list[tuple[int, int]] = []
        for q, (reading, chosen, row) in enumerate(zip(readings, own, rewards, strict=True)):
            if not any(reading.valid):
                continue
            allowed = {
                "all": [i for i in reading.of(agent) if reading.candidates[i].draft.valid],
                "with_invalid": reading.of(agent),
                "selected": [chosen[agent]] if agent in chosen else [],
            }[t.ppo_on]
            found += [
                (q, i)
                for i in allowed
                if reading.candidates[i].turn.completion_ids
                and (row[i] is not None or self.config.reward.reward == "learned")
            ]
        return found

    def _rewarded(
        self, reading: Reading, at: int, rewards: Sequence[Score | None], judged: Sequence[float]
    ) -> Rewarded:
        """One draft with its reward and the units over which credit flows back."""
        candidate, score, settings = reading.candidates[at], rewards[at], self.config.reward
        if settings.reward == "learned":
            reward = judged[at] - (0.0 if candidate.draft.valid else settings.format_penalty)
        else:
            assert score is not None, "drafts without a reward are no part of the update"
            reward = score.total
        return rewarded(candidate.turn, reward, chat=self.world.chat, unit=self.config.training.unit)

    def _imitated(
        self,
        agent: str,
        readings: Sequence[Reading],
        winners: Sequence[int | None],
        own: Sequence[dict[str, int]],
    ) -> list[Sample]:
        """d* of each question under the agent's plain prompt: no history, no hint (eq. 9)."""
        if self.config.training.imitation == 0:
            return []
        team = self.config.training.imitate == "team"
        chosen = [winner if team else row.get(agent) for winner, row in zip(winners, own, strict=True)]
        return [
            imitated(agent, r.candidates[at].turn, self.world.chat.encode(self.protocol.plain_prompt(r.task)))
            for r, at in zip(readings, chosen, strict=True)
            if at is not None
        ]

    def _lessons(
        self,
        readings: Sequence[Reading],
        rewards: Sequence[Sequence[Score | None]],
        own: Sequence[dict[str, int]],
    ) -> list[Lesson]:
        """What the questions with a winner teach R_phi: their drafts with an observed reward."""
        lessons: list[Lesson] = []
        for reading, row, chosen in zip(readings, rewards, own, strict=True):
            kept = [
                (evidence, score)
                for evidence, score in zip(shown(reading), row, strict=True)
                if score is not None
            ]
            if chosen and kept:
                lessons.append(
                    Lesson(
                        question=reading.task.id,
                        shown=tuple(evidence for evidence, _ in kept),
                        targets=tuple(min(1.0, max(0.0, score.parts[MIX])) for _, score in kept),
                    )
                )
        return lessons

    def _validate(self, team: Team, validation: TaskSet | None) -> float:
        """Share of validation questions with a right selected answer; the same random numbers every time."""
        assert validation is not None, "data.validation is at least 1"
        seed = (self.config.seed, stable_hash("validation"))
        episodes = rollout.play(validation.tasks, self.protocol, team, seed=seed)
        trainer.check_failures(episodes, limit=self.config.max_failed_fraction, where="validation")
        readings = self._read(episodes)
        winners = [r.best(s) for r, s in zip(readings, judge(self.model)(readings), strict=True)]
        picked = [
            (r.task, r.candidates[at].turn) for r, at in zip(readings, winners, strict=True) if at is not None
        ]
        graded = self.world.grader.grade([(task, turn.text, turn.stop) for task, turn in picked])
        return sum(verdict.correct for verdict in graded) / max(1, len(readings))

    # -- evaluation -----------------------------------------------------------------------------------------

    def _evaluate(self) -> dict[str, Any] | None:
        """The trained team against the team it started from; then the report."""
        model = self.model
        if model is not None:
            trained = load_reward_model(self.run.path / "reward_model", model.tokenize)
            model.encoder.load_state_dict(trained.encoder.state_dict())
        sections = evaluate(
            self.config,
            self.world,
            self.protocol,
            model=model,
            blank=build.reward_model(self.config, self.world),
            start=WARMUP if self.config.warmup else None,
            tasks=[task for tasks in build.evaluation_tasks(self.config) for task in tasks.tasks],
            run=self.run,
            console=self.console,
            stop=self.stop,
        )
        if sections is None:
            return None
        write_report(self.run, self.config, sections)
        return {"decontaminated": len(build.training_tasks(self.config).dropped)}


@dataclass(frozen=True, slots=True)
class RewardState:
    """What learns beside the adapters: R_phi, its optimizer and its replay buffer (a `trainer.Companion`)."""

    pupil: RewardLearner

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Weights and moments; steps taken and the buffer."""
        return self.pupil.state(), self.pupil.facts()

    def restore(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Go on where `state` left off, bit for bit."""
        self.pupil.restore(tensors, facts)
