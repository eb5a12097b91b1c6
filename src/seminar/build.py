"""A configuration -> live objects: the one place where the rooms are wired together."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from seminar.agents.agent import Agent, Team
from seminar.agents.chat import Chat
from seminar.config_draft import DraftRlConfig
from seminar.config_mada import MadaConfig, Sampling, Training
from seminar.engines.hf import HfEngine
from seminar.errors import ConfigError, DataError
from seminar.models.embedded import resolve
from seminar.models.heads import ValueHead
from seminar.models.policy import Policy, load_policy
from seminar.models.reward_encoder import build_encoder, check_positions, from_pretrained, solve_width
from seminar.protocols import draft_prompts
from seminar.protocols.debate import Debate, DebateForm, Prompts
from seminar.protocols.drafts import Drafts
from seminar.rewards.drafts import Mix
from seminar.rewards.execution import CodeGrader
from seminar.rewards.model import NUMBERS, RewardModel, Tokenize, load_reward_model, load_tokenize
from seminar.rewards.verify import Graders
from seminar.runlog import RunFolder
from seminar.settings import Base, Common, File, Generated, Lora, Source
from seminar.tasks import generated, named
from seminar.tasks.mapping import load_mapped
from seminar.tasks.rows import is_file
from seminar.tasks.taskset import TaskSet, decontaminate
from seminar.train.ppo import PpoLoss
from seminar.train.reward_model import RewardLearner
from seminar.train.update import Learner, PolicyLoss, Schedule
from seminar.types import Domain

MARGIN = 64
"""Tokens a debate prompt needs beside the question and the answers: opening, closing, one line an agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What every method works with."""

    policy: Policy
    chat: Chat
    engine: HfEngine
    grader: Graders


def world(base: Base, *, code: bool = False) -> World:
    """Load the base model and put an engine and a grader beside it; `code`: one that executes programs
    too."""
    if base.threads is not None:
        torch.set_num_threads(base.threads)
    policy = load_policy(resolve(base.model), dtype=getattr(torch, base.dtype), device=base.device)
    return World(
        policy=policy,
        chat=Chat(policy.tokenizer),
        engine=HfEngine(policy),
        grader=Graders(code=CodeGrader() if code else None),
    )


def check_context(world: World, *, prompt: int, completions: Mapping[str, int]) -> None:
    """Refuse limits that the base's context cannot hold; `completions` are named by their keys."""
    for key, tokens in completions.items():
        if prompt + tokens > world.policy.context:
            raise ConfigError(
                f"limits.prompt is {prompt} and {key} is {tokens}; their sum may be at most "
                f"{world.policy.context} tokens, the context of the base model. Lower one of them."
            )


def tasks(source: Source, *, seed: int, split: generated.Split) -> TaskSet:
    """Load one source; `split` picks the share of generated tasks, which is disjoint from every other.

    A row that nobody could grade is an error in a file of one's own, and left out of a published set.
    """
    if isinstance(source, Generated):
        made = generated.problems(source.kind, count=source.count, seed=seed, split=split)
        return TaskSet(name=f"{source.kind}-{split}", tasks=tuple(made))
    if isinstance(source, File):
        found = load_mapped(
            source.path, domain=source.domain, config=source.config, split=source.split, **source.columns
        )
        if found.dropped and is_file(source.path):
            id, reason = found.dropped[0]
            raise DataError(
                f"{source.path}: {len(found.dropped)} of {len(found.dropped) + len(found.tasks)} rows cannot "
                f"be graded, the first is {id}: {reason}. Correct or remove them; "
                f"`seminar data check {source.path}` lists all."
            )
        return found
    return named.load(
        source.name,
        path=source.path,
        split=source.split,
        subjects=source.subjects,
        levels=source.levels,
        shots=source.shots,
    )


def evaluation_tasks(config: Common) -> list[TaskSet]:
    """The benchmarks of the final evaluation."""
    return [tasks(source, seed=config.seed, split="evaluation") for source in config.data.evaluation]


def training_tasks(config: Common) -> TaskSet:
    """The training tasks, without those that any evaluation set holds (dropped ones are named in it)."""
    return decontaminate(tasks(config.data.train, seed=config.seed, split="train"), evaluation_tasks(config))


def domain(config: Common) -> Domain:
    """The domain of the training tasks, by which a team asks and answers."""
    source = config.data.train
    if isinstance(source, Generated):
        return "maths"
    return source.domain if isinstance(source, File) else named.NAMED[source.name].domain


def add_adapter(policy: Policy, name: str, lora: Lora, *, seed: tuple[int, ...]) -> None:
    """Put a blank adapter on the base."""
    policy.add(name, rank=lora.rank, alpha=lora.alpha, dropout=lora.dropout, targets=lora.targets, seed=seed)


def learner(policy: Policy, adapter: str, training: Training, *, steps: int) -> Learner:
    """The optimizer of one agent."""
    schedule = Schedule(lr=training.lr, steps=steps, warmup=training.lr_warmup, floor=training.lr_floor)
    return Learner(policy, adapter, schedule=schedule, max_grad_norm=training.max_grad_norm)


def policy_loss(config: MadaConfig, training: Training, *, reference: str | None) -> PolicyLoss:
    """The loss of one role."""
    return PolicyLoss(
        loss=training.loss,
        clip_low=training.clip,
        clip_high=training.clip if training.clip_high is None else training.clip_high,
        beta=training.beta,
        reference=reference,
        max_completion=config.limits.completion,
        max_tokens=config.update.max_tokens,
        max_gap=config.update.max_gap,
    )


def debate_form(config: MadaConfig, chat: Chat) -> DebateForm:
    """How answers are shown in this recipe."""
    texts = {name: text for name, text in config.debate.prompts.model_dump().items() if text is not None}
    return DebateForm(
        chat=chat,
        prompts=Prompts(**texts),
        visible=config.debate.visible,
        visible_tokens=config.limits.visible,
        max_prompt_tokens=max_debate_prompt(config),
    )


def max_debate_prompt(config: MadaConfig) -> int:
    """Most tokens of a critic's prompt: the question's and every visible answer's."""
    answers = max(config.debate.generators, config.debate.critics)
    return config.limits.prompt + answers * (config.limits.visible + MARGIN)


def debate(config: MadaConfig, form: DebateForm) -> Debate:
    """The recipe's debate between its named agents."""
    return Debate(
        form=form,
        generators=generator_names(config),
        critics=critic_names(config),
        rounds=config.debate.rounds,
        stop=config.debate.stop,
    )


def generator_names(config: MadaConfig) -> tuple[str, ...]:
    """generator-0, generator-1, ..."""
    return tuple(f"generator-{i}" for i in range(config.debate.generators))


def critic_names(config: MadaConfig) -> tuple[str, ...]:
    """critic-0, critic-1, ..."""
    return tuple(f"critic-{j}" for j in range(config.debate.critics))


def team(
    world: World, adapters: dict[str, str | None], *, sampling: Sampling, max_tokens: int, max_prompt: int
) -> Team:
    """Agents by name, each with its adapter, all sampling alike."""
    agents = {
        name: Agent(
            name=name,
            adapter=adapter,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=max_tokens,
        )
        for name, adapter in adapters.items()
    }
    room = world.policy.context - max_tokens
    return Team(agents=agents, engine=world.engine, chat=world.chat, max_prompt_tokens=min(max_prompt, room))


def load_adapters(run: RunFolder, world: World, stage: str) -> None:
    """Put the adapters of a finished stage into the policy and the engine. Raises RunError: not finished."""
    for adapter, version in run.stage_facts(stage)["adapters"].items():
        world.policy.load(adapter, run.adapter(adapter))
        world.policy.versions[adapter] = version
        world.engine.load_adapter(adapter, version=version)


def load_team(run: RunFolder, config: MadaConfig, world: World, *, sampling: Sampling) -> Team:
    """The trained team of a finished run."""
    names = (*generator_names(config), *critic_names(config))
    for name in names:
        load_adapters(run, world, name)
    return team(
        world,
        {name: name for name in names},
        sampling=sampling,
        max_tokens=config.evaluation.completion,
        max_prompt=max_debate_prompt(config),
    )


# -- DRAFT-RL ------------------------------------------------------------------------------------------------

TEAM = "team"
"""Stage in which all agents and R_phi learn together."""


def drafters(config: DraftRlConfig) -> tuple[str, ...]:
    """agent-0, agent-1, ..."""
    return tuple(f"agent-{i}" for i in range(config.drafts.agents))


def drafts(config: DraftRlConfig) -> Drafts:
    """The recipe's drafts and reviews between its named agents."""
    d = config.drafts
    texts = {name: text for name, text in d.prompts.model_dump().items() if text is not None}
    return Drafts(
        agents=drafters(config),
        drafts=d.drafts,
        history=d.history,
        strategies=draft_prompts.STRATEGIES if d.strategies is None else d.strategies,
        temperatures=d.temperatures,
        cod=d.cod,
        max_words=d.max_words,
        retries=d.retries,
        draft_tokens=config.limits.draft,
        peers=d.peers,
        review_temperature=d.review_temperature,
        review_tokens=config.limits.review,
        prompts=draft_prompts.Prompts(**texts),
    )


def draft_team(world: World, config: DraftRlConfig, adapters: dict[str, str | None]) -> Team:
    """The agents of a draft team; the protocol says at which temperature and how long each of them writes."""
    return team(
        world,
        adapters,
        sampling=Sampling(),
        max_tokens=max(config.limits.draft, config.limits.review),
        max_prompt=config.limits.prompt,
    )


def mix(config: DraftRlConfig) -> Mix:
    """The observed reward."""
    r = config.reward
    return Mix(
        task=r.task,
        peer=r.peer,
        coherence=r.coherence,
        diversity=r.diversity,
        format_penalty=r.format_penalty,
    )


def drafter(policy: Policy, adapter: str, config: DraftRlConfig) -> Learner:
    """The optimizer of one agent: its adapter and its value head."""
    t = config.training
    return Learner(
        policy,
        adapter,
        schedule=Schedule(lr=t.lr, steps=t.steps, warmup=t.lr_warmup, floor=t.lr_floor),
        max_grad_norm=t.max_grad_norm,
        head=ValueHead(policy.config.hidden_size).to(policy.device),
        head_lr=t.value_lr,
    )


def ppo_loss(config: DraftRlConfig, *, reference: str | None) -> PpoLoss:
    """The loss of every agent."""
    t = config.training
    return PpoLoss(
        clip=t.clip,
        value=t.value,
        value_clip=t.value_clip,
        beta=t.beta,
        reference=reference,
        gamma=t.gamma,
        lam=t.lam,
        epochs=t.ppo_epochs,
        imitation=t.imitation,
        max_tokens=config.update.max_tokens,
        max_gap=config.update.max_gap,
    )


def reward_model(config: DraftRlConfig, world: World) -> RewardModel | None:
    """R_phi before training: blank, pretrained or from an earlier run; None where it is off.

    Raises ModelError (the earlier one was trained with another tokenizer), ConfigError (positions).
    """
    r = config.reward_model
    if not r.on:
        return None
    device, tokenize = world.policy.device, reward_tokenizer(config, world)
    if r.start is not None:
        model = load_reward_model(Path(r.start), tokenize)
        model.encoder.to(device)
        return model
    if r.pretrained is not None:
        encoder = from_pretrained(r.pretrained, numbers=NUMBERS, seed=config.seed)
        check_positions(encoder, max_tokens=r.max_tokens)
    else:
        vocab = max(world.policy.config.vocab_size, len(world.policy.tokenizer))
        width = solve_width(layers=r.layers, vocab=vocab, budget=r.parameters, numbers=NUMBERS)
        encoder = build_encoder(layers=r.layers, vocab=vocab, width=width, numbers=NUMBERS, seed=config.seed)
    return RewardModel(encoder.to(device), tokenize, max_tokens=r.max_tokens)


def reward_tokenizer(config: DraftRlConfig, world: World) -> Tokenize:
    """What R_phi reads with: the tokenizer of its pretrained encoder or, without one, the base's."""
    if config.reward_model.pretrained is None:
        return world.chat.encode_text
    return load_tokenize(config.reward_model.pretrained)


def reward_learner(config: DraftRlConfig, model: RewardModel) -> RewardLearner:
    """The optimizer and the replay buffer of R_phi; the outcome of QA is a degree, F1."""
    r, w = config.reward_model, config.reward
    return RewardLearner(
        model,
        lr=r.lr,
        graded=w.peer + w.coherence + w.diversity > 0 or domain(config) == "qa",
        capacity=r.capacity,
        seed=config.seed,
    )


def load_drafters(run: RunFolder, config: DraftRlConfig, world: World) -> tuple[Team, RewardModel | None]:
    """The trained team of a finished run and its R_phi."""
    load_adapters(run, world, TEAM)
    team_ = draft_team(world, config, {name: name for name in drafters(config)})
    return team_, saved_reward_model(run, config, world)


def saved_reward_model(run: RunFolder, config: DraftRlConfig, world: World) -> RewardModel | None:
    """R_phi of a finished run; None where it is off."""
    if not config.reward_model.on:
        return None
    model = load_reward_model(run.path / "reward_model", reward_tokenizer(config, world))
    model.encoder.to(world.policy.device)
    return model
