"""A clean stop: real signals to this process."""

import os
import signal
import threading

import pytest

from seminar.stopping import StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_raises(number: signal.Signals) -> None:
    said: list[str] = []
    with StopRequest(say=said.append) as stop:
        assert not stop.requested
        os.kill(os.getpid(), number)
        assert stop.requested
        assert said == [f"{number.name}: stopping after this step; once more stops at once"]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert len(said) == 1


def test_both_signals_go_back_to_whoever_had_them() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with StopRequest(say=lambda text: None):
        assert signal.getsignal(signal.SIGTERM) is not before[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_on_another_thread_nothing_is_caught() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[bool] = []

    def work() -> None:
        with StopRequest(say=lambda text: None) as stop:
            seen.extend([stop.requested, signal.getsignal(signal.SIGINT) is before])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False, True]
