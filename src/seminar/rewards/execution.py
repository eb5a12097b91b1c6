"""Answers to code tasks -> verdicts: each program meets its task's tests in a sandbox, in two processes.

A program cannot be trusted, and it can reach whatever shares a process with it: the tests, their assertions,
the word that says they passed. So two processes share the work:

- the *judge* runs the tests and never holds the program. Where the tests use the program's function, they
  hold a stand-in that sends the arguments over a line and takes a value from it;
- the *candidate* runs the program and never holds a test. It is forked before the job arrives, and of all
  descriptors it keeps the line and a pipe on which its output is counted. It is sent the program, then calls.

What holds. A program passes only when the values it gives back satisfy the tests. Exit codes, printed words,
patched builtins, tricks with frames, memory, descriptors, `__eq__` or the interpreter stay within the
candidate; what it sends is read as JSON and can run no code. Neither process has capabilities, children or
further threads, neither can write a file or look into the other, and both have limits on address space,
processor time, open files and the length of a message. Output is limited. The clock is the grader's; when
time is up, a verdict is there, or the grader dies, both are killed and reaped. With libseccomp there is no
system call but those for computing, reading and the clock: no network, process, signal or file to change. In
bubblewrap there is besides no network interface, no other process, and no file but Python's own and those of
installed packages.

What does not. A program that knows the right values (by heart, or under `rlimits` from a file this user can
read) passes. Under `rlimits` without libseccomp it can signal this user's processes and delete this user's
files; for root that is refused. The tests are taken at their word, for they come with the data. Holes in the
kernel are out of reach.

What programs cannot do: write a file, start a thread, a process or an event loop; Python raises there.

What tests cannot do: hand objects of their own to a program, functions among them (`unusable_gold`).
Arguments are copies; a list, dict, set or bytearray that the program alters in place, and that is an argument
itself, is altered for the tests too. A subclass of a plain type comes back as the plain type; other objects
stay with the program and can be called, read, iterated and compared with one another.
"""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple

from seminar.errors import ConfigError, RunError
from seminar.rewards.sandbox import Kind, Sandbox, working_setup
from seminar.tasks.code import Exercise, deadline_s, exercise
from seminar.tasks.programs import extract_program
from seminar.types import Reason, StopReason, Task, Verdict

LEAST_MEMORY_MB = 128
"""Room for Python itself several times over."""
_REASONS: tuple[Reason, ...] = ("correct", "wrong", "truncated", "timeout", "crashed", "unusable_gold")


class CodeGrader:
    """The grader of code tasks; the text above says what its verdicts are worth. Thread-safe.

    Reasons: `correct`; `wrong` (a test failed, an exception, no Python, a name is missing); `no_answer` (no
    code); `truncated` (cut before there was whole code); `timeout`; `crashed` (its process ended, or it
    printed or sent too much); `unusable_gold` (tests that are no Python, that test nothing, or that cannot be
    carried out).
    """

    def __init__(self, *, workers: int = 2, memory_mb: int = 1024, sandbox: Kind | None = None) -> None:
        """`workers` programs run side by side, in `memory_mb` each; `sandbox` None: the strongest that works.

        Raises ConfigError for a number that is too small, RunError where no sandbox works.
        """
        for name, value, least in (("workers", workers, 1), ("memory_mb", memory_mb, LEAST_MEMORY_MB)):
            if value < least:
                raise ConfigError(
                    f"CodeGrader: {name} is {value}; it must be at least {least}. Give a larger number."
                )
        self._workers = workers
        self._memory_mb = memory_mb
        self._setup = working_setup(sandbox)

    def grade(self, answers: Sequence[tuple[Task, str, StopReason]]) -> list[Verdict]:
        """One verdict an answer, in order. When it returns, every process it started has ended."""
        verdicts: dict[int, Verdict] = {}
        jobs: deque[_Job] = deque()
        for place, (task, text, stop) in enumerate(answers):
            if (asked := exercise(task)) is None:
                verdicts[place] = Verdict(correct=False, reason="unusable_gold")
            elif (program := extract_program(text, asked)) is None:
                verdicts[place] = Verdict(
                    correct=False, reason="truncated" if stop == "length" else "no_answer"
                )
            else:
                jobs.append(_Job(place, program, asked, deadline_s(task), stop))
        longest_s = max((job.deadline_s for job in jobs), default=0.0)
        with ThreadPoolExecutor(self._workers) as pool:
            try:
                workers = [
                    pool.submit(self._work, jobs, longest_s) for _ in range(min(self._workers, len(jobs)))
                ]
                for worker in workers:
                    verdicts |= worker.result()
            finally:
                jobs.clear()  # after an error or an interrupt, a worker ends with the job in its hands
        return [verdicts[place] for place in range(len(answers))]

    def _work(self, jobs: "deque[_Job]", longest_s: float) -> dict[int, Verdict]:
        """Take jobs until none is left, in a sandbox that is replaced when a program brought it down."""
        verdicts: dict[int, Verdict] = {}
        with ExitStack() as stack:
            sandbox: Sandbox | None = None
            while jobs:
                try:
                    job = jobs.popleft()
                except IndexError:  # another worker was faster
                    break
                if sandbox is None or not sandbox.ready():
                    sandbox = stack.enter_context(self._start(longest_s))
                word = sandbox.judge(job.program, job.exercise, deadline_s=job.deadline_s)
                verdicts[job.place] = _verdict(word, job)
        return verdicts

    def _start(self, longest_s: float) -> Sandbox:
        """A sandbox that is ready for its first job."""
        sandbox = Sandbox(self._setup, longest_s=longest_s, memory_mb=self._memory_mb)
        if not sandbox.ready():
            sandbox.close()
            raise RunError(
                f"sandbox: {self._setup.kind} says {sandbox.last_output()!r} where it should be ready, as it "
                "was when it was tried. Raise memory_mb, or see that this machine has room for processes."
            )
        return sandbox


class _Job(NamedTuple):
    place: int
    program: str
    exercise: Exercise
    deadline_s: float
    stop: StopReason


def _verdict(word: str, job: _Job) -> Verdict:
    if word == "syntax":
        word = "truncated" if job.stop == "length" else "wrong"
    reason = next(reason for reason in _REASONS if reason == word)
    return Verdict(correct=reason == "correct", reason=reason, extracted=job.program)
