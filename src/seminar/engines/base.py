"""The door of the engines: requests in, completions out, adapters by name and version."""

from collections.abc import Sequence
from typing import Protocol

from seminar.types import Completion, Request


class Engine(Protocol):
    """Whatever can sample: in process, behind a server, or scripted."""

    def generate(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """One list of `samples` completions a request, in the order of the requests."""
        ...

    def load_adapter(self, name: str, *, version: int) -> None:
        """Serve the current weights of adapter `name` from now on, as `version`."""
        ...
