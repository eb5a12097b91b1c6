"""Jobs -> results, in child processes that can be killed: a hard wall clock a job, whatever it does.

`multiprocessing` and `concurrent.futures` cannot do this: their pools have no deadline, and a hung
child stays. One thread a child gives it jobs, reads results, kills and replaces it. The children are fresh
interpreters, never forks of a process that holds threads or a GPU.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

from seminar.errors import RunError

AHEAD = 2
"""Jobs in a child's hands: the one it works on and the next, so that it never waits for us."""
MAX_JOB_BYTES = 30_000
"""Longest job; AHEAD of them fit a pipe (64 KiB), so that writing to a hung child never blocks."""
START_S = 300.0
"""Seconds a child may take to start, on however busy a machine; the clock of a job starts after that."""
PATIENCE_S = 1.0
"""Seconds after which a job is overtime: another child takes over the work that waits, and this one ends with
its job. At most as many are overtime as there are workers, so that hung jobs share the deadline they cost."""
MAX_FAILED_STARTS = 3
"""Children in a row that may end before they are ready."""


class Outcome(NamedTuple):
    """What became of a job."""

    status: Literal["done", "failed", "timeout", "crashed"]
    """failed: it raised; timeout: it was killed at the deadline; crashed: its process ended."""
    result: Any = None
    """The result, or for `failed` what was raised."""


@dataclass(slots=True, kw_only=True)
class _Job:
    line: bytes
    future: Future[Outcome] = field(default_factory=Future)


class Pool:
    """Killable children that run `python -m MODULE`, a module that calls `seminar.rewards.worker.serve`."""

    def __init__(
        self, module: str, *, num_workers: int | None = None, deadline_s: float = 5.0, memory_gb: float = 2.0
    ) -> None:
        """Nothing starts before the first job. `num_workers` None: one a CPU, at most 8."""
        self.deadline_s = deadline_s
        self.num_workers = num_workers or min(8, os.cpu_count() or 1)
        self.counts: Counter[str] = Counter()
        """Outcomes by status, and `restarted` children."""
        self._command = [sys.executable, "-P", "-m", module, str(deadline_s), str(memory_gb)]
        self._reset()

    def submit(self, job: Any) -> Future[Outcome]:
        """Queue a job (anything JSON can say), from any thread. Raises RunError: too long, closed."""
        entry = _Job(line=json.dumps(job).encode() + b"\n")
        if len(entry.line) > MAX_JOB_BYTES:
            raise RunError(f"a job has {len(entry.line)} bytes; at most {MAX_JOB_BYTES} fit. Shorten it.")
        if os.getpid() != self._pid:  # a fork of our process: its threads and children are not ours
            self._reset()
        with self._changed:
            if self._closed:
                raise RunError(self._closed)
            self._waiting.append(entry)
            if len(self._waiting) > self._idle and len(self._threads) - self._overtime < self.num_workers:
                self._hire()
            self._changed.notify()
        return entry.future

    def close(self) -> None:
        """Kill the children; jobs not yet done raise RunError."""
        self._end("the grading pool is closed; make a new one.")
        for thread in [*self._threads]:
            thread.join()

    def __enter__(self) -> Self:
        """Nothing to do: children start with the first job."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._waiting: deque[_Job] = deque()
        self._threads: list[threading.Thread] = []
        self._children: set[_Child] = set()
        self._idle = 0
        self._overtime = 0
        self._closed = ""

    def _end(self, why: str) -> None:
        with self._changed:
            self._closed = self._closed or why
            for job in self._waiting:
                job.future.set_exception(RunError(self._closed))
            self._waiting.clear()
            for child in self._children:
                child.process.kill()
            self._changed.notify_all()

    def _hire(self) -> None:
        thread = threading.Thread(target=self._run, name="grading", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self) -> None:
        """One thread with a child at work; unless it is relieved, its end ends the pool: nobody waits."""
        sent: deque[_Job] = deque()
        relieved = False
        try:
            relieved = self._serve(sent)
        except OSError as error:
            self._end(f"grading: a process cannot be started ({error}). Use fewer workers.")
        finally:
            with self._changed:
                self._give_back(sent)
                if relieved:
                    self._overtime -= 1
                    self._threads.remove(threading.current_thread())
            if self._closed or not relieved:
                self._end("grading: a thread of the pool ended.")

    def _serve(self, sent: deque[_Job]) -> bool:
        """Whether it ended because another thread took over."""
        relieved = False
        while not relieved and (child := self._ready()) is not None:
            alive = True
            while alive and not relieved and self._refill(child, sent):
                outcome = child.outcome(min(PATIENCE_S, self.deadline_s))
                if outcome.status == "timeout" and self.deadline_s > PATIENCE_S:
                    relieved = self._relieve(sent)
                    outcome = child.outcome(self.deadline_s - PATIENCE_S)
                alive = outcome.status in ("done", "failed")
                with self._changed:
                    if alive or not self._closed:
                        self.counts[outcome.status] += 1
                        sent.popleft().future.set_result(outcome)
            self._bury(child)
            with self._changed:
                self.counts["restarted"] += not self._closed
                self._give_back(sent)
        return relieved

    def _relieve(self, sent: deque[_Job]) -> bool:
        """Leave everything but the job at hand to another thread, unless too many did so already."""
        with self._changed:
            if self._closed or self._overtime == self.num_workers:
                return False
            self._overtime += 1
            hung = sent.popleft()
            self._give_back(sent)
            sent.append(hung)
            self._hire()
            return True

    def _give_back(self, sent: deque[_Job]) -> None:
        self._waiting.extendleft(reversed(sent))
        sent.clear()
        self._changed.notify_all()

    def _ready(self) -> "_Child | None":
        """A child that said it is ready; None when the pool is closed."""
        for _ in range(MAX_FAILED_STARTS):
            child = self._launch()
            if child is None:
                return None
            if child.outcome(START_S).status == "done":
                return child
            self._bury(child)
        self._end(f"grading: `{' '.join(self._command)}` does not start. Run it by hand to see why.")
        return None

    def _launch(self) -> "_Child | None":
        with self._changed:
            if self._closed:
                return None
            child = _Child(self._command)
            self._children.add(child)
            return child

    def _bury(self, child: "_Child") -> None:
        child.kill()
        with self._changed:
            self._children.discard(child)

    def _refill(self, child: "_Child", sent: deque[_Job]) -> bool:
        """Give the child work; wait while there is none at all. False: the pool is closed."""
        with self._changed:
            while not (sent or self._waiting or self._closed):
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            while self._waiting and len(sent) < AHEAD:
                sent.append(self._waiting.popleft())
                child.send(sent[-1].line)
            return not self._closed


class _Child:
    """One process and the pipes to it; used by one thread, but for `process.kill`."""

    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        assert self.process.stdout is not None
        self._out = self.process.stdout.fileno()
        self._buffer = b""

    def send(self, line: bytes) -> None:
        """Write a job; a child that is gone shows when its outcome is asked for."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line)

    def outcome(self, timeout_s: float) -> Outcome:
        """The next outcome, waited for at most `timeout_s`."""
        end = time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(self._out, select.POLLIN | select.POLLHUP)
        while b"\n" not in self._buffer:
            if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
                return Outcome("timeout")
            block = os.read(self._out, 65536)
            if not block:
                by_alarm = self.process.wait() == -signal.SIGALRM
                return Outcome("timeout" if by_alarm else "crashed")
            self._buffer += block
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer = json.loads(line)
        return Outcome("failed", answer["error"]) if "error" in answer else Outcome("done", answer["result"])

    def kill(self) -> None:
        """End the process and give everything back."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
