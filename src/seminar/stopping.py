"""Signals in, a flag out: Ctrl-C or SIGTERM asks a run to stop after the current step."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Self

EXIT_CODE = 130
"""What the command line exits with after a clean stop (128 + SIGINT, the shells' custom)."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Within the block a first SIGINT or SIGTERM sets `requested`, a second raises KeyboardInterrupt.

    The trainer looks at `requested` after each step. Python hands signals to the main thread only: in a block
    entered on another thread nothing is caught and `requested` stays False.
    """

    def __init__(self, *, say: Callable[[str], None]) -> None:
        """`say` tells the user, once, that the first signal was heard."""
        self.requested = False
        self._say = say
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Self:
        """Take over both signals."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._hear) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        """Give both signals back to whoever had them."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        self._say(f"{signal.Signals(number).name}: stopping after this step; once more stops at once")
