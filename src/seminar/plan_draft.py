"""A configuration of DRAFT-RL -> the numbers it implies: drafts, reviews, parameters, tokens, memory."""

from seminar.config_draft import DraftRlConfig
from seminar.models.reward_encoder import count_parameters, pretrained_size, solve_width
from seminar.models.shapes import Shapes, shapes
from seminar.plan_table import DEVICES, OPTIMIZER_BYTES, Plan, count_tasks
from seminar.rewards.model import NUMBERS


def plan(config: DraftRlConfig, *, device: str) -> Plan:
    """What `config` implies; memory and arithmetic are estimates for `device`."""
    s = shapes(config.base.model, rank=config.lora.rank, targets=config.lora.targets)
    d, t, limits = config.drafts, config.training, config.limits
    drafts = d.agents * d.drafts
    reviews = drafts * (d.agents - 1) if d.peers else 0
    head = s.hidden + 1
    phi = _reward_model(config, s.vocabulary)
    tasks = config.data.part or max(0, count_tasks(config) - config.data.validation)
    sampled = t.tasks * (drafts * limits.draft + reviews * limits.review)
    prompts = t.tasks * (drafts + reviews) * limits.prompt
    low, high = d.temperatures
    gb = _memory_gb(config, s, phi=phi[0], rows=t.tasks * max(d.agents, reviews))
    peak = DEVICES[device]
    rows = [
        ("base model", f"{config.base.model}, {s.base:,} parameters, {config.base.dtype}"),
        ("agents", f"{d.agents}, one adapter each on one base"),
        ("drafts a question", f"{drafts} ({d.agents} x {d.drafts}), temperatures {low:g} to {high:g}"),
        ("reviews a question", f"{reviews}"),
        ("history", d.history),
        ("trainable parameters an agent", f"{s.trainable:,} adapter + {head:,} value head"),
        ("trainable parameters of the team", f"{d.agents * (s.trainable + head):,}"),
        ("reward model", f"{phi[0]:,} parameters, {phi[1]} layers of {phi[2]}" if phi[0] else "off"),
        ("reward, PPO on", f"{config.reward.reward}, {t.ppo_on if t.rl else 'off'}"),
        ("training tasks", f"{tasks:,}"),
        ("validation tasks", f"{config.data.validation:,}"),
        ("iterations", f"{t.steps:,} of {t.tasks} questions, {t.steps * t.tasks / max(1, tasks):.2f} epochs"),
        ("optimizer steps an agent", f"{t.steps * t.ppo_epochs:,}"),
        ("drafts an iteration", f"{t.tasks * drafts:,}, and {t.tasks * reviews:,} reviews"),
        ("sampled tokens an iteration, at most", f"{sampled:,}"),
        ("prompt tokens an iteration, at most", f"{prompts:,}"),
        ("sampled tokens in training, at most", f"{t.steps * sampled:,}"),
        ("FLOPs an iteration, at most", f"{_flops(config, s, sampled + prompts):.3g}"),
        (
            f"floor of an iteration on {device}",
            f"{_flops(config, s, sampled + prompts) / peak.flops:,.2f} s at {peak.flops:.3g} FLOP/s",
        ),
        (f"memory on {device}, estimate", f"{gb:,.1f} of {peak.memory_gb:g} GB"),
    ]
    return Plan(title=config.name, rows=tuple(rows))


def _reward_model(config: DraftRlConfig, vocabulary: int) -> tuple[int, int, int]:
    """Parameters, layers and width of R_phi; all 0 where it is off."""
    r = config.reward_model
    if not r.on:
        return 0, 0, 0
    if r.pretrained is not None:
        return pretrained_size(r.pretrained)
    width = solve_width(layers=r.layers, vocab=vocabulary, budget=r.parameters, numbers=NUMBERS)
    count = count_parameters(layers=r.layers, vocab=vocabulary, width=width, numbers=NUMBERS)
    return count, r.layers, width


def _flops(config: DraftRlConfig, s: Shapes, played: int) -> float:
    """Sampling of everything; forward and backward of the drafts, and of the reviews where they learn."""
    d, t, limits = config.drafts, config.training, config.limits
    learned = limits.prompt + limits.draft
    if t.train_reviews:
        learned += (d.agents - 1) * (limits.prompt + limits.review)
    passes = 4 + (2 if t.beta else 0)
    trained = t.tasks * d.agents * d.drafts * learned
    return 2.0 * s.base * played + float(passes * t.ppo_epochs * s.base * trained) * t.rl


def _memory_gb(config: DraftRlConfig, s: Shapes, *, phi: int, rows: int) -> float:
    """Estimate in GB (1e9 bytes): weights, every agent's and R_phi's optimizer, activations or KV cache.

    Activations and KV cache are counted as in the plan of MADA-RL; `rows` completions are written together.
    """
    width = 4 if config.base.dtype == "float32" else 2
    limits = config.limits
    learning = config.drafts.agents * (s.trainable + s.hidden + 1) + phi
    weights = width * s.base + OPTIMIZER_BYTES * learning
    packed = min(
        config.update.max_tokens,
        config.training.tasks * config.drafts.drafts * (limits.prompt + limits.draft),
    )
    activations = width * packed * s.layers * (10 * s.hidden + 4 * s.inner)
    context = limits.prompt + max(limits.draft, limits.review)
    cache = width * rows * context * s.layers * 2 * s.kv
    return (weights + max(activations, cache)) / 1e9
