"""Requests in, completions written by a plain function out: the engine of tests and dry runs."""

from collections.abc import Callable, Sequence

from transformers import PreTrainedTokenizerBase

from seminar.engines.checks import check_sampling
from seminar.errors import ConfigError
from seminar.types import Completion, Request

Script = Callable[[Request, int], str | Sequence[int]]
"""(request, 0-based sample) -> its completion, as text or as ids."""


class ScriptedEngine:
    """Answers with what the script says; every token has probability 1."""

    def __init__(self, script: Script, *, tokenizer: PreTrainedTokenizerBase | None = None) -> None:
        """With a tokenizer the script may answer in text; an end-of-sequence id is then put behind it."""
        self.script = script
        self.tokenizer = tokenizer
        self.versions: dict[str, int] = {}
        self.calls: list[tuple[Request, ...]] = []
        """Requests of every call so far."""

    def load_adapter(self, name: str, *, version: int) -> None:
        """Note the version; completions of this adapter carry it."""
        self.versions[name] = version

    def generate(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """One list of `samples` completions a request, in order; what exceeds max_tokens is cut."""
        self.calls.append(tuple(requests))
        for index, request in enumerate(requests):
            check_sampling(request, index=index, adapters=self.versions)
        return [
            [self._completion(request, sample) for sample in range(request.samples)] for request in requests
        ]

    def _completion(self, request: Request, sample: int) -> Completion:
        ids = self._ids(self.script(request, sample))
        kept = ids[: request.max_tokens]
        return Completion(
            ids=kept,
            logprobs=(0.0,) * len(kept),
            stop="eos" if len(ids) <= request.max_tokens else "length",
            adapter_version=0 if request.adapter is None else self.versions[request.adapter],
        )

    def _ids(self, answer: str | Sequence[int]) -> tuple[int, ...]:
        if not isinstance(answer, str):
            return tuple(answer)
        if self.tokenizer is None:
            raise ConfigError(
                "script answers in text, but the engine has no tokenizer; give it one or return ids."
            )
        return (*self.tokenizer.encode(answer, add_special_tokens=False), self.tokenizer.eos_token_id)
