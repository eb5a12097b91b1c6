"""Settings of DRAFT-RL (arXiv 2511.20468); docs/draft_rl.md says what the paper leaves open. Loads no torch.

The ablations of the paper are values: `drafts.drafts: 1`, `drafts.peers: false`, `drafts.cod: false`,
`reward_model.on: false`, `training.rl: false`, `training.imitation: 0`.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from seminar.settings import Common, Generated, Section, Warmup

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]


class DraftPrompts(Section):
    """Wording of drafts and reviews; None keeps the default that stands beside the protocol."""

    form: str | None = None
    """Asks for the Chain-of-Draft form, with {words} and {answer}."""
    free_form: str | None = None
    """Stands in for `form` where cod is false, with {answer}."""
    question: str | None = None
    """The plain prompt, with {form} and {question}."""
    earlier: str | None = None
    """Frame of the agent's earlier drafts, with {drafts}."""
    draft: str | None = None
    """One earlier draft, with {number} and {draft}."""
    hint: str | None = None
    """The strategy hint, with {number} and {strategy}."""
    review: str | None = None
    """Prompt of a review, with {question} and {draft}."""


class DraftSection(Section):
    """The team, its drafts and its reviews (paper, section 3.1 and 3.2)."""

    agents: Count = 3
    """N (paper)."""
    drafts: Count = 5
    """K (paper)."""
    history: Literal["full", "summary", "none"] = "full"
    """What draft k sees of the agent's earlier drafts (paper: full; summary shows their answers)."""
    temperatures: tuple[float, float] = (0.2, 0.8)
    """Of the first and the last draft (paper); linear between them (ours)."""
    cod: bool = True
    """Chain-of-Draft form; false: steps of any length."""
    max_words: Count = 5
    """Most words of a step (paper)."""
    retries: Annotated[int, Field(ge=0)] = 0
    """Times an invalid draft is asked for again (ours: 0 keeps the policy's own distribution)."""
    strategies: dict[str, str] | None = None
    """Hints by name, one a draft; None: five of our own; {}: none."""
    peers: bool = True
    """Every agent reviews the others' drafts (paper); false: no reviews."""
    center_reviewers: bool = False
    """Take each reviewer's leniency off its scores (ours)."""
    review_temperature: Annotated[float, Field(ge=0, le=2)] = 0.2
    """Temperature of reviews (ours)."""
    prompts: DraftPrompts = DraftPrompts()
    """Replaced wording."""

    @model_validator(mode="after")
    def _playable(self) -> "DraftSection":
        if self.peers and self.agents < 2:
            raise ValueError(
                f"agents is {self.agents} and peers is true; nobody reviews its own drafts, so at least 2 "
                "agents are needed. Add an agent, or set drafts.peers: false"
            )
        if not all(0 < t <= 2 for t in self.temperatures):
            low, high = self.temperatures
            raise ValueError(
                f"temperatures are {low:g} to {high:g}; above 0 and at most 2 is allowed, PPO needs samples. "
                "The paper has [0.2, 0.8]"
            )
        return self


class DraftLimits(Section):
    """Token limits."""

    prompt: Count = 4096
    """Most tokens of any prompt: the question, an agent's earlier drafts, the draft under review (ours)."""
    draft: Count = 256
    """Most tokens of a draft (ours)."""
    review: Count = 128
    """Most tokens of a review (ours)."""


class DraftReward(Section):
    """The observed reward (paper, table A3 names the parts; the weights are ours). Only proportions count."""

    task: Annotated[float, Field(ge=0)] = 1 / 3
    """Weight of the verified outcome."""
    peer: Annotated[float, Field(ge=0)] = 1 / 3
    """Weight of the reviewers' mean overall score."""
    coherence: Annotated[float, Field(ge=0)] = 1 / 3
    """Weight of the reviewers' mean coherence score."""
    diversity: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the distance to the agent's other drafts."""
    format_penalty: Annotated[float, Field(ge=0)] = 0.5
    """Taken off an invalid draft (ours)."""
    reward: Literal["observed", "learned"] = "observed"
    """What PPO maximises: the observed reward (ours) or R_phi."""

    @model_validator(mode="after")
    def _some(self) -> "DraftReward":
        if self.task + self.peer + self.coherence + self.diversity <= 0:
            raise ValueError(
                "the weights task, peer, coherence and diversity sum to 0, which leaves no reward. Give "
                "one of them weight, or leave the defaults"
            )
        return self


class RewardModelSection(Section):
    """R_phi (paper, section 3.3: 12 layers, about 100 M parameters)."""

    on: bool = True
    """False: the peers' mean score selects or, without peers, how many drafts give the same answer."""
    layers: Count = 12
    """Layers (paper)."""
    parameters: Count = 100_000_000
    """Parameters; the width is solved from them, to 5 % (paper)."""
    pretrained: str | None = None
    """Hub id or folder of an encoder of transformers to start from (ours); its size and tokenizer hold."""
    start: str | None = None
    """Folder of an earlier run's reward model; it must have been trained with the same tokenizer."""
    max_tokens: Count = 512
    """Most tokens of question, draft and reviews (ours)."""
    lr: Positive = 1e-4
    """Learning rate (ours)."""
    steps: Annotated[int, Field(ge=0)] = 4
    """Steps in every iteration (ours)."""
    questions: Count = 16
    """Questions of one step, all their drafts at once (ours)."""
    capacity: Count = 512
    """Questions kept for replay (ours)."""
    score_all: bool = True
    """Verify and learn from all drafts (ours, where the verifier is free); false: from the selected ones."""


class DraftTraining(Section):
    """PPO with imitation (paper, Algorithm 1)."""

    steps: Count
    """Iterations: tasks played, every agent and R_phi updated."""
    tasks: Count = 8
    """Questions of one iteration (ours; the paper's batch is not said to count them)."""
    rl: bool = True
    """False: imitation alone, the ablation without PPO."""
    imitation: Annotated[float, Field(ge=0)] = 0.5
    """alpha: weight of the imitation of d* (paper)."""
    imitate: Literal["agent", "team"] = "agent"
    """d* of each agent's own drafts (Algorithm 1), or the team's winner for all."""
    ppo_on: Literal["all", "with_invalid", "selected"] = "all"
    """All valid drafts (ours), the invalid ones with their penalty too, or d* alone (biased: see the docs).
    """
    train_reviews: bool = False
    """Reviews learn too, from their agreement with the verified outcome (ours; the paper gives them no loss).
    """
    unit: Literal["step", "token"] = "step"
    """What an action is in GAE: a Chain-of-Draft step (paper) or a token."""
    gamma: Share = 0.99
    """Discount (paper)."""
    lam: Share = 0.95
    """lambda of GAE (paper)."""
    clip: Positive = 0.2
    """Clipping of the ratio (paper)."""
    value: Annotated[float, Field(ge=0)] = 0.1
    """Weight of the value loss (ours)."""
    value_clip: Positive = 0.2
    """How far a value may move from the old one before its loss is clipped (ours)."""
    value_lr: Positive = 1e-3
    """Peak learning rate of the value heads (ours); it follows the schedule of lr."""
    beta: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the k3 penalty towards the start (ours: 0; the paper has none)."""
    ppo_epochs: Annotated[int, Field(ge=1, le=10)] = 1
    """Passes over the drafts of one iteration (ours)."""
    lr: Positive = 5e-5
    """Peak learning rate of the adapters (read off the paper's figure 1; its text names none)."""
    lr_warmup: Share = 0.1
    """Share of the steps over which the rate rises (ours)."""
    lr_floor: Share = 0.1
    """Where the cosine ends, as a share of lr (ours)."""
    max_grad_norm: Positive = 1.0
    """Gradient norm of an agent is cut to this (ours)."""
    validate_every: Count = 50
    """Steps between validations; the best adapters, value heads and R_phi are kept (ours)."""

    @model_validator(mode="after")
    def _learns(self) -> "DraftTraining":
        if not self.rl and self.imitation == 0:
            raise ValueError("rl is false and imitation is 0, so no agent would learn. Turn one of them on")
        if self.train_reviews and not self.rl:
            raise ValueError(
                "train_reviews is true and rl is false; reviews learn by PPO. Turn rl on, or "
                "train_reviews off"
            )
        return self


class DraftWarmup(Warmup):
    """Imitation of right drafts and honest reviews before RL (ours)."""

    criteria: tuple[
        Literal["coherence", "step_validity", "relevance", "completeness", "correctness"], ...
    ] = ("coherence", "step_validity", "relevance", "completeness", "correctness")
    """Sub-scores of the reviews to imitate, beside the overall score; fewer are easier for a small base."""
    feedback: bool = True
    """Whether the reviews to imitate hold feedback."""


class DraftEvaluation(Section):
    """The final evaluation."""

    repeats: Count = 1
    """Times every question is played, each with its own seed (ours)."""
    chunk: Count = 32
    """Questions played side by side; the unit of resuming (ours)."""


class DraftRlConfig(Common):
    """DRAFT-RL (arXiv 2511.20468)."""

    method: Literal["draft_rl"]
    drafts: DraftSection = DraftSection()
    """The team and its protocol."""
    limits: DraftLimits = DraftLimits()
    """Token limits."""
    reward: DraftReward = DraftReward()
    """The observed reward."""
    reward_model: RewardModelSection = RewardModelSection()
    """R_phi."""
    training: DraftTraining
    """PPO, imitation and the updates of R_phi."""
    warmup: DraftWarmup | None = None
    """Imitation before RL; None: agents start blank, as in the paper."""
    evaluation: DraftEvaluation = DraftEvaluation()
    """Final evaluation."""

    @model_validator(mode="after")
    def _consistent(self) -> "DraftRlConfig":
        reward, model, training = self.reward, self.reward_model, self.training
        if reward.reward == "learned" and not model.on:
            raise ValueError(
                "reward.reward is learned and reward_model.on is false; PPO would have no reward. Turn it "
                "on, or use reward.reward: observed"
            )
        if training.train_reviews and not (self.drafts.peers and self.drafts.review_temperature > 0):
            raise ValueError(
                f"training.train_reviews is true, drafts.peers is {str(self.drafts.peers).lower()} and "
                f"drafts.review_temperature is {self.drafts.review_temperature:g}; PPO needs sampled "
                "reviews. Turn peers on with a temperature above 0, or train_reviews off"
            )
        if not self.drafts.peers and reward.task + reward.diversity == 0:
            raise ValueError(
                "drafts.peers is false and only peer and coherence have weight in reward, which nobody "
                "gives. Give reward.task or reward.diversity weight, or turn drafts.peers on"
            )
        if (
            not model.score_all
            and training.rl
            and reward.reward == "observed"
            and training.ppo_on != "selected"
        ):
            raise ValueError(
                f"reward_model.score_all is false and training.ppo_on is {training.ppo_on}; drafts that are "
                "not executed have no observed reward. Use ppo_on: selected, reward.reward: learned, or "
                "score_all: true"
            )
        if self.warmup is not None and not isinstance(self.data.train, Generated):
            raise ValueError(
                f"warmup is given and data.train.type is {self.data.train.type}; it needs worked solutions, "
                "which generated tasks have. Use data.train.type: generated, or no warmup"
            )
        return self
