"""A request in, an error out where no engine, or not this model, could answer it."""

import math
from collections.abc import Container

from seminar.errors import ConfigError, ModelError
from seminar.types import Request


def check_sampling(request: Request, *, index: int, adapters: Container[str]) -> None:
    """Raise ConfigError for sampling that makes no sense, ModelError for an adapter that is not loaded."""
    where = f"request {index}"
    if request.samples < 1 or len(request.seeds) != request.samples:
        raise ConfigError(
            f"{where}: {request.samples} samples with {len(request.seeds)} seeds; at least 1 sample and one "
            "seed each are needed. Give as many seeds as samples."
        )
    if not 0 <= request.temperature < math.inf:
        raise ConfigError(f"{where}: temperature is {request.temperature}; 0 (greedy) or above is allowed.")
    if not 0 < request.top_p <= 1:
        raise ConfigError(f"{where}: top_p is {request.top_p}; above 0 up to 1 (no cut) is allowed.")
    if request.max_tokens < 1:
        raise ConfigError(f"{where}: max_tokens is {request.max_tokens}; at least 1 is allowed.")
    if request.adapter is not None and request.adapter not in adapters:
        raise ModelError(
            f"{where}: adapter {request.adapter!r} was never loaded into this engine. Call load_adapter."
        )


def check_prompt(request: Request, *, index: int, context: int, vocabulary: int) -> None:
    """Raise ModelError for a prompt that does not fit a model's context or vocabulary."""
    where, length = f"request {index}", len(request.prompt_ids)
    if length < 1:
        raise ModelError(f"{where}: the prompt is empty; at least one token is needed.")
    if length + request.max_tokens > context:
        raise ModelError(
            f"{where}: a prompt of {length} tokens and {request.max_tokens} new ones exceed the model's "
            f"context of {context}. Shorten the prompt or lower the completion limit."
        )
    lowest, highest = min(request.prompt_ids), max(request.prompt_ids)
    if lowest < 0 or highest >= vocabulary:
        raise ModelError(
            f"{where}: the prompt has ids from {lowest} to {highest}; the model knows 0 to {vocabulary - 1}. "
            "Encode it with the tokenizer of this model."
        )
