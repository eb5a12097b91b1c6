"""The parts of a recipe that every method has: base model, tasks, adapters, logs. Loads no torch.

Every field says "paper" (the paper states it) or "ours" (decided here).
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


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


class Warmup(Section):
    """Imitation of worked solutions before RL, for bases too weak to earn a first reward (ours)."""

    steps: Annotated[int, Field(ge=1)] = 20
    """Optimizer steps."""
    batch: Annotated[int, Field(ge=1)] = 8
    """Examples a step."""
    lr: Annotated[float, Field(gt=0)] = 1e-3
    """Learning rate."""


class Update(Section):
    """How a step is computed; changes speed and memory, not the result beyond rounding."""

    max_tokens: Annotated[int, Field(ge=1)] = 16384
    """Most input tokens of one packed batch."""
    max_gap: Annotated[float, Field(gt=0)] = 0.02
    """Largest mean |engine - trainer| log-probability a step may have, in nats a token; above it the run
    stops."""


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
    update: Update = Update()
    """The update."""
    logging: Logging = Logging()
    """Logs and checkpoints."""
    max_failed_fraction: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Share of failed episodes above which a step stops the run."""
