"""Jobs on standard input -> one word a job on standard output; two fresh processes a job. Runs sandboxed.

The zygote forks both before the job arrives and never reads it; the judge takes it from the pipe itself. So
no memory that a program inherits has ever held a test. It ends, with all below it, when its input closes.
"""

import os
import random
import select
import signal
import socket
import sys
from collections.abc import Callable

from seminar.rewards import candidate, judge
from seminar.rewards.confine import confine, shield, syscall_filter
from seminar.rewards.wire import receive

READY = "ready"
"""Written before each job: the program's process is up, and the clock may start."""
_JOBS, _VERDICTS, _OUTPUT = 0, 1, 2
_JUDGED, _NO_JOB = 0, 3


def main(*, filtered: bool, memory_bytes: int, cpu_s: int, packages: list[str]) -> None:
    """Serve jobs {program, tests, names}; `packages` are folders that programs and tests may import from."""
    sys.path[:] = sys.path[1:] + packages
    shield()
    context = syscall_filter() if filtered else None

    def limit() -> None:
        confine(context, memory_bytes=memory_bytes, cpu_s=cpu_s)

    status = _JUDGED
    while status == _JUDGED:
        tests_end, program_end = socket.socketpair()
        program = _fork(_run_program, program_end, tests_end, limit)
        tests = _fork(_run_tests, tests_end, program_end, limit)
        tests_end.close()
        program_end.close()
        status = _wait(tests)
        os.kill(program, signal.SIGKILL)
        os.waitpid(program, 0)


def _run_program(line: socket.socket, other: socket.socket, limit: Callable[[], None]) -> int:
    """The program's process: of all descriptors, it keeps the line and the pipe its output is counted on."""
    other.close()
    _silence()
    limit()
    random.seed(0)
    candidate.serve(line.fileno())
    return _JUDGED


def _run_tests(line: socket.socket, other: socket.socket, limit: Callable[[], None]) -> int:
    """The tests' process: read one job, write one word."""
    other.close()
    jobs, verdicts = os.dup(_JOBS), os.dup(_VERDICTS)
    _silence()
    limit()
    to_program = judge.Line(line.fileno())
    os.write(verdicts, f"{READY}\n".encode())
    try:
        job = receive(jobs)
    except EOFError:
        return _NO_JOB
    word = judge.verdict(to_program, program=job["program"], tests=job["tests"], names=job["names"])
    os.write(verdicts, f"{word}\n".encode())
    return _JUDGED


def _silence() -> None:
    """Empty standard input; standard output joins standard error."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _JOBS)
    os.close(nothing)
    os.dup2(_OUTPUT, _VERDICTS)


def _fork(
    body: Callable[[socket.socket, socket.socket, Callable[[], None]], int],
    line: socket.socket,
    other: socket.socket,
    limit: Callable[[], None],
) -> int:
    """A child that runs `body` and exits with the status it returns."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = body(line, other, limit)
        finally:
            os._exit(status)
    return pid


def _wait(tests: int) -> int:
    """Exit status of the tests' process; when the input closes first, it is killed."""
    watch = select.poll()
    watch.register(_JOBS, 0)  # only its closing is reported
    pidfd = os.pidfd_open(tests)
    watch.register(pidfd, select.POLLIN)
    if pidfd not in dict(watch.poll()):
        os.kill(tests, signal.SIGKILL)
    os.close(pidfd)
    return os.waitstatus_to_exitcode(os.waitpid(tests, 0)[1])
