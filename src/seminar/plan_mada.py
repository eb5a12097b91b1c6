"""A configuration of MADA-RL -> the numbers it implies: parameters, prompts, steps, tokens, memory, FLOPs."""

from seminar import build
from seminar.config_mada import MadaConfig, Training
from seminar.models.shapes import Shapes, shapes
from seminar.plan_table import DEVICES, OPTIMIZER_BYTES, Plan, count_tasks


def plan(config: MadaConfig, *, device: str) -> Plan:
    """What `config` implies; memory and arithmetic are estimates for `device`."""
    s = shapes(config.base.model, rank=config.lora.rank, targets=config.lora.targets)
    debate = config.debate
    agents = debate.generators + debate.critics
    part = part_size(config)
    rows = [
        ("base model", f"{config.base.model}, {s.base:,} parameters, {config.base.dtype}"),
        ("agents", f"{debate.generators} generators + {debate.critics} critics, {debate.rounds} rounds"),
        ("trainable parameters an agent", f"{s.trainable:,}"),
        ("trainable parameters of the team", f"{agents * s.trainable:,}"),
        ("calls a question", f"{debate.generators + (debate.rounds - 1) * debate.critics}"),
        ("critics see", f"{debate.visible}, at most {config.limits.visible:,} tokens an answer"),
        ("tasks an agent", f"{part:,}"),
        ("validation tasks", f"{config.data.validation:,}"),
    ]
    critic_part = part * debate.generators // max(1, debate.critics)
    rows += _role("generator", config.generator, part, config.limits.prompt, config, s, device)
    if debate.critics:
        rows += _role(
            "critic", config.critic, critic_part, build.max_debate_prompt(config), config, s, device
        )
    return Plan(title=config.name, rows=tuple(rows))


def part_size(config: MadaConfig) -> int:
    """Tasks of one generator's part."""
    if config.data.part is not None:
        return config.data.part
    return max(0, count_tasks(config) - config.data.validation) // config.debate.generators


def steps(training: Training, tasks: int) -> int:
    """Optimizer steps of one agent."""
    return training.steps or round(training.epochs * tasks / training.prompts)


def _role(
    role: str, t: Training, part: int, prompt: int, config: MadaConfig, s: Shapes, device: str
) -> list[tuple[str, str]]:
    count = steps(t, part)
    sampled = t.batch * config.limits.completion
    trained = t.prompts * prompt + sampled
    sampling = 2 * s.base * trained
    update = 4 * s.base * trained + (2 * s.base * trained if t.beta else 0)
    peak = DEVICES[device]
    gb = memory_gb(
        s,
        config,
        packed=min(config.update.max_tokens, trained),
        rows=t.batch,
        context=prompt + config.limits.completion,
    )
    return [
        (f"{role}: advantage, loss", f"{t.advantage}, {t.loss}, beta {t.beta:g}"),
        (f"{role}: a step", f"{t.prompts} prompts x group {t.group} = {t.batch} completions"),
        (f"{role}: optimizer steps an agent", f"{count:,}"),
        (f"{role}: epochs", f"{count * t.prompts / part:.2f}" if part else "none"),
        (f"{role}: completions an agent", f"{count * t.batch:,}"),
        (
            f"{role}: tokens a step, at most",
            f"{trained:,} ({t.prompts} x {prompt:,} prompt + {sampled:,} sampled)",
        ),
        (f"{role}: sampled tokens an agent, at most", f"{count * sampled:,}"),
        (
            f"{role}: FLOPs a step, at most",
            f"{sampling + update:.3g} (sampling {sampling:.2g}, update {update:.2g})",
        ),
        (
            f"{role}: floor of a step on {device}",
            f"{(sampling + update) / peak.flops:,.2f} s at {peak.flops:.3g} FLOP/s",
        ),
        (f"{role}: memory on {device}, estimate", f"{gb:,.1f} of {peak.memory_gb:g} GB"),
    ]


def memory_gb(s: Shapes, config: MadaConfig, *, packed: int, rows: int, context: int) -> float:
    """Estimate in GB (1e9 bytes): weights, one agent's optimizer, the other adapters, activations, KV cache.

    Activations kept for the backward pass of a frozen base with adapters on every linear layer, a token and
    layer: about 10 vectors of the hidden width and 4 of the inner width. KV cache: keys and values of every
    sampled row at its longest. The larger of the two counts, since sampling and updating do not overlap.
    """
    width = 4 if config.base.dtype == "float32" else 2
    agents = config.debate.generators + config.debate.critics
    weights = width * s.base + OPTIMIZER_BYTES * s.trainable + 4 * (agents - 1) * s.trainable
    activations = width * packed * s.layers * (10 * s.hidden + 4 * s.inner)
    cache = width * rows * context * s.layers * 2 * s.kv
    return (weights + max(activations, cache)) / 1e9
