"""Settings of MADA-RL (arXiv 2607.18006); the defaults are the paper's setting. Loads no torch."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from seminar.settings import Common, Section, Warmup


class Limits(Section):
    """Token limits."""

    completion: Annotated[int, Field(ge=1)] = 3584
    """Most tokens of a completion in training (ours, from Tina's recipe)."""
    prompt: Annotated[int, Field(ge=1)] = 512
    """Most tokens of a question's prompt (ours)."""
    visible: Annotated[int, Field(ge=1)] = 1024
    """Most tokens of one answer shown to a critic; its tail is kept (ours)."""


class PromptTexts(Section):
    """Wording of the debate; None keeps the default that stands beside the protocol."""

    question: str | None = None
    """Template of the question's prompt, with {question}."""
    opening: str | None = None
    """Line before the quoted answers."""
    answer: str | None = None
    """Template of one quoted answer, with {number} and {answer}."""
    closing: str | None = None
    """Closing request."""


class DebateSection(Section):
    """The debate (paper, section 2)."""

    generators: Annotated[int, Field(ge=1)] = 3
    """N (paper)."""
    critics: Annotated[int, Field(ge=0)] = 3
    """M (paper)."""
    rounds: Annotated[int, Field(ge=1)] = 2
    """R (paper)."""
    visible: Literal["full", "after_think", "answer"] = "after_think"
    """What critics see of an answer (ours; the paper does not say)."""
    stop: Literal["never", "consensus"] = "never"
    """consensus ends a debate when all answers of a round agree (ours)."""
    prompts: PromptTexts = PromptTexts()
    """Replaced wording."""


class RewardSection(Section):
    """Weights of the reward's parts (paper, section 3.2)."""

    accuracy: Annotated[float, Field(ge=0)] = 2.0
    """Weight of R_acc (paper)."""
    length: Annotated[float, Field(ge=0)] = 1.0
    """Weight of R_len (paper)."""


class Training(Section):
    """Reinforcement learning of one role's agents (paper, table 6)."""

    steps: Annotated[int, Field(ge=1)] | None = None
    """Optimizer steps of each agent; None: as many as `epochs` passes over its part take."""
    epochs: Annotated[float, Field(gt=0)] = 1.0
    """Passes over the part when steps is not given (ours; the paper does not say)."""
    batch: Annotated[int, Field(ge=1)] = 16
    """Completions of one step; 16 = 4 prompts x group 4 (paper says 16, ours that completions are counted).
    """
    group: Annotated[int, Field(ge=1)] = 4
    """Samples of one prompt, G (paper)."""
    advantage: Literal["group", "group_no_std", "leave_one_out", "counterfactual"] = "group"
    """Credit scheme: group (GRPO), leave_one_out (RLOO), counterfactual (MADA-RL's critics)."""
    loss: Literal["grpo", "dr_grpo", "dapo", "gspo"] = "grpo"
    """Loss and its denominator (ours: grpo)."""
    temperature: Annotated[float, Field(gt=0, le=2)] = 0.7
    """Sampling temperature (paper)."""
    lr: Annotated[float, Field(gt=0)] = 1e-6
    """Peak learning rate (paper)."""
    lr_warmup: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Share of the steps over which the rate rises from 0 (paper)."""
    lr_floor: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Where the cosine ends, as a share of lr (ours, Tina)."""
    beta: Annotated[float, Field(ge=0)] = 0.04
    """Weight of the k3 penalty towards the reference; 0 spares the reference pass (paper)."""
    clip: Annotated[float, Field(gt=0)] = 0.2
    """Clipping of the ratio below (paper)."""
    clip_high: Annotated[float, Field(gt=0)] | None = None
    """Clipping above; None: the same as clip (paper)."""
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    """Gradient norm is cut to this (ours)."""
    validate_every: Annotated[int, Field(ge=1)] = 100
    """Steps between validations; the best adapter is kept (ours; the paper does not say how often)."""

    @model_validator(mode="after")
    def _groups(self) -> "Training":
        if self.batch % self.group:
            raise ValueError(
                f"batch is {self.batch} completions and group is {self.group}; batch must be a multiple of "
                f"group. "
                f"Try batch {max(1, self.batch // self.group) * self.group}"
            )
        if self.group == 1 and self.advantage != "counterfactual":
            raise ValueError(
                f"group is 1 and advantage is {self.advantage}; a group scheme compares siblings and gives "
                f"0 without "
                "them. Use group 2 or more, or advantage counterfactual"
            )
        return self

    @property
    def prompts(self) -> int:
        """Prompts of one step."""
        return self.batch // self.group


class Sampling(Section):
    """One way to sample at evaluation."""

    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    """Temperature (paper: 1.0)."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Nucleus (paper: 1.0)."""


class Evaluation(Section):
    """The final evaluation (paper, table 7)."""

    samplings: tuple[Sampling, ...] = (Sampling(), Sampling(temperature=0.6, top_p=0.95))
    """Each is a report of its own: the paper's, and the one the base's vendor advises (ours)."""
    repeats: Annotated[int, Field(ge=1)] = 10
    """Seeds (paper: 10)."""
    completion: Annotated[int, Field(ge=1)] = 32768
    """Most tokens of a completion (paper)."""
    chunk: Annotated[int, Field(ge=1)] = 64
    """Questions played side by side; the unit of resuming (ours)."""


class MadaConfig(Common):
    """MADA-RL (arXiv 2607.18006)."""

    method: Literal["mada"] = "mada"
    limits: Limits = Limits()
    """Token limits."""
    debate: DebateSection = DebateSection()
    """The team and its protocol."""
    reward: RewardSection = RewardSection()
    """The reward."""
    warmup: Warmup | None = None
    """Imitation before RL; None: agents start blank, as in the paper."""
    generator: Training = Training()
    """Training of the generators."""
    critic: Training = Training(advantage="counterfactual")
    """Training of the critics; advantage group makes them GRPO critics (the paper's ablation)."""
    evaluation: Evaluation = Evaluation()
    """Final evaluation."""

    @model_validator(mode="after")
    def _credit(self) -> "MadaConfig":
        if self.generator.advantage == "counterfactual":
            raise ValueError(
                "generator.advantage is counterfactual, which needs answers of others to compare with; "
                "generators have "
                "none. Use group, group_no_std or leave_one_out"
            )
        return self
