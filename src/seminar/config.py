"""A YAML recipe and `key=value` overrides -> one frozen, checked configuration tree. Loads no torch.

Every field says "paper" (the paper states it) or "ours" (decided here). The defaults of `MadaConfig` are the paper's
setting; recipes hold only what differs.
"""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from seminar.errors import ConfigError


class Section(BaseModel):
    """Base of every part of a recipe: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Base(Section):
    """The frozen base model and how it computes."""

    model: str = "smollm2"
    """Hub id, local folder, or an embedded base: smollm2, tiny."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Compute dtype of the frozen base; adapters and optimizer stay in float32 (ours)."""
    device: str = "cpu"
    """cpu, cuda or cuda:N."""
    threads: Annotated[int, Field(ge=1)] | None = None
    """Torch threads; None leaves torch's own choice. Fix it where results must match bit for bit."""


class Generated(Section):
    """Offline tasks made from a seed."""

    type: Literal["generated"] = "generated"
    kind: str
    """words (one- and two-step word problems) or arithmetic (for the base `tiny`)."""
    count: Annotated[int, Field(ge=1)]
    """Number of tasks."""


class Named(Section):
    """A benchmark by name (`seminar data list`)."""

    type: Literal["named"] = "named"
    name: str
    """Name of the data set."""
    path: str | None = None
    """Local file with the same columns, in place of the hub."""
    split: str | None = None
    """Split to load; None: the benchmark's own."""
    subjects: tuple[str, ...] = ()
    """Only these subjects (math, mmlu, mmlu_redux); none: all."""
    levels: tuple[int, ...] = ()
    """Only these levels, 1 to 5 (math); none: all."""
    shots: Annotated[int, Field(ge=0)] = 0
    """Worked examples before each question (mmlu; DRAFT-RL reports 0 and 5)."""


class File(Section):
    """Own rows: JSONL, CSV or parquet, or a hub id."""

    type: Literal["file"] = "file"
    path: str
    """Local file or hub id."""
    split: str | None = None
    """Split of a hub data set."""
    config: str | None = None
    """Config of a hub data set that has several."""
    domain: Literal["maths", "qa", "choice", "code"] = "maths"
    """How answers are graded."""
    columns: dict[Literal["question", "gold", "choices", "context", "tests", "entry_point", "id"], str] = {}
    """Task field -> column; without it `answer` for gold, and `question`, `choices` and `tests` for those."""


Source = Annotated[Generated | Named | File, Field(discriminator="type")]


class Data(Section):
    """Which tasks train, validate and evaluate."""

    train: Source
    """Split into one disjoint part an agent and one shared validation part."""
    validation: Annotated[int, Field(ge=1)] = 750
    """Tasks held out for choosing the best adapter (paper)."""
    part: Annotated[int, Field(ge=1)] | None = None
    """Tasks of each agent's part; None: as many as there are (paper: 7,500 of 29,925 / 3)."""
    evaluation: tuple[Source, ...]
    """Benchmarks of the final evaluation."""


class Lora(Section):
    """Settings of every adapter (paper, table 6)."""

    rank: Annotated[int, Field(ge=1)] = 16
    """Rank r (paper)."""
    alpha: Annotated[float, Field(gt=0)] = 128
    """Scale is alpha / rank (paper)."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """Dropout before A (paper)."""
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    """Linear layers that get an adapter: all seven, as the paper's parameter count implies."""


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


class Warmup(Section):
    """Imitation of worked solutions before RL, for bases too weak to earn a first reward (ours)."""

    steps: Annotated[int, Field(ge=1)] = 20
    """Optimizer steps."""
    batch: Annotated[int, Field(ge=1)] = 8
    """Examples a step."""
    lr: Annotated[float, Field(gt=0)] = 1e-3
    """Learning rate."""


class Training(Section):
    """Reinforcement learning of one role's agents (paper, table 6)."""

    steps: Annotated[int, Field(ge=1)] | None = None
    """Optimizer steps of each agent; None: as many as `epochs` passes over its part take."""
    epochs: Annotated[float, Field(gt=0)] = 1.0
    """Passes over the part when steps is not given (ours; the paper does not say)."""
    batch: Annotated[int, Field(ge=1)] = 16
    """Completions of one step; 16 = 4 prompts x group 4 (paper says 16, ours that completions are counted)."""
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
                f"batch is {self.batch} completions and group is {self.group}; batch must be a multiple of group. "
                f"Try batch {max(1, self.batch // self.group) * self.group}"
            )
        if self.group == 1 and self.advantage != "counterfactual":
            raise ValueError(
                f"group is 1 and advantage is {self.advantage}; a group scheme compares siblings and gives 0 without "
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


class Update(Section):
    """How a step is computed; changes speed and memory, not the result beyond rounding."""

    max_tokens: Annotated[int, Field(ge=1)] = 16384
    """Most input tokens of one packed batch."""
    max_gap: Annotated[float, Field(gt=0)] = 0.02
    """Largest mean |engine - trainer| log-probability a step may have, in nats a token; above it the run stops."""


class Logging(Section):
    """What is written and how often."""

    episodes_every: Annotated[int, Field(ge=1)] = 10
    """Steps between episodes that are shown and written."""
    checkpoint_every: Annotated[int, Field(ge=1)] = 25
    """Steps between checkpoints."""
    track: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ()
    """Trackers beside metrics.jsonl."""


class Common(Section):
    """What every method's recipe has."""

    name: str
    """Name of the run; its folder is runs/NAME unless --out says otherwise."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Every random number of the run derives from it."""
    base: Base = Base()
    """Base model."""
    data: Data
    """Tasks."""
    lora: Lora = Lora()
    """Adapters."""
    limits: Limits = Limits()
    """Token limits."""
    update: Update = Update()
    """The update."""
    logging: Logging = Logging()
    """Logs and checkpoints."""
    evaluation: Evaluation = Evaluation()
    """Final evaluation."""
    max_failed_fraction: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Share of failed episodes above which a step stops the run."""


class MadaConfig(Common):
    """MADA-RL (arXiv 2607.18006)."""

    method: Literal["mada"] = "mada"
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

    @model_validator(mode="after")
    def _credit(self) -> "MadaConfig":
        if self.generator.advantage == "counterfactual":
            raise ValueError(
                "generator.advantage is counterfactual, which needs answers of others to compare with; generators have "
                "none. Use group, group_no_std or leave_one_out"
            )
        return self


Config = MadaConfig
_ADAPTER: TypeAdapter[Config] = TypeAdapter(Config)


def load(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a recipe and apply `key.sub=value` overrides (values are YAML); any fault is one ConfigError."""
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise ConfigError(
            f"recipe {path}: {error.strerror}. Give the path of a YAML recipe, for instance recipes/mada/tiny.yaml."
        ) from error
    try:
        tree = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"recipe {path} is not YAML: {str(error).splitlines()[0]}.") from error
    if not isinstance(tree, dict):
        raise ConfigError(f"recipe {path} holds a {type(tree).__name__}; it must hold keys and values.")
    for override in overrides:
        _apply(tree, override)
    return parse(tree, where=str(path))


def parse(tree: dict[str, Any], *, where: str = "config") -> Config:
    """Check a tree of plain values; the first faults are named in one ConfigError."""
    try:
        return _ADAPTER.validate_python(tree)
    except ValidationError as error:
        raise ConfigError(f"{where}: " + "; ".join(_explain(e) for e in error.errors()[:3])) from None


def dump(config: Config) -> dict[str, Any]:
    """Plain values of the whole tree, defaults included; `parse` reads them back."""
    return config.model_dump(mode="json")


def _apply(tree: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    if not equals or not key:
        raise ConfigError(f"override {override!r}: it must read key=value, for instance generator.lr=1e-4.")
    *path, last = key.split(".")
    node = tree
    for name in path:
        child = node.get(name)
        if child is None:
            child = node[name] = {}
        if not isinstance(child, dict):
            raise ConfigError(f"override {override!r}: {name} is a value, not a section.")
        node = child
    node[last] = _value(value)


def _value(text: str) -> Any:
    value = yaml.safe_load(text)
    if isinstance(value, str):  # YAML 1.1 reads 1e-4 as text
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _explain(error: Any) -> str:
    parts = [str(part) for part in error["loc"]]
    key = ".".join(parts)
    if error["type"] == "extra_forbidden":
        known = _known(parts[:-1])
        near = difflib.get_close_matches(parts[-1], known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(known)}"
        return f"{key} is not a known key; {hint}"
    if error["type"] == "missing":
        return f"{key} is missing and has no default; add it to the recipe"
    message = error["msg"].removeprefix("Value error, ")
    met = error.get("input")
    shown = "" if isinstance(met, dict | BaseModel) or error["type"] == "value_error" else f" is {met!r}"
    return f"{key}{shown}: {message[0].lower()}{message[1:]}" if message else key


def _known(parts: Sequence[str]) -> list[str]:
    """Field names of the section at `parts`; labels of union members and indices are stepped through."""
    models: list[Any] = [MadaConfig]
    for part in parts:
        found = [m.model_fields[part].annotation for m in models if part in m.model_fields]
        if found:
            models = [m for annotation in found for m in _sections(annotation)]
        else:
            models = [
                m for m in models if m.model_fields.get("type") and m.model_fields["type"].default == part
            ] or models
    return sorted({name for m in models for name in m.model_fields})


def _sections(annotation: Any) -> list[Any]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [m for arg in getattr(annotation, "__args__", ()) for m in _sections(arg)]
