"""The child's side of `seminar.rewards.pool`: a function of one job -> a process that answers line by line.

Loads nothing but the standard library. Three nets under a child whose parent is gone: standard input closes;
on Linux the kernel kills the child with its parent; a job that outlives its deadline by a second is ended by
an alarm, which no Python code can hold up.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import IO, Any

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_ALARM_SLACK_S = 1.0
"""Beyond the deadline, so that the parent, who counts, is the first to act."""


def serve(answer: Callable[[Any], Any]) -> None:
    """Say ready, then answer each JSON line of standard input with one on standard output, until it closes.

    Command line: deadline in seconds, memory limit in GB. What `answer` raises becomes {"error": text}; what
    it prints goes to standard error.
    """
    deadline_s, memory_gb = float(sys.argv[1]), float(sys.argv[2])
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":  # elsewhere there is no such call, and no limit that the kernel keeps
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        limit = int(memory_gb * 1e9)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle; it closes our input
    _write(results, {"result": "ready"})
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_REAL, deadline_s + _ALARM_SLACK_S)
        try:
            result = {"result": answer(json.loads(line))}
        except Exception as error:  # an answer must not end the worker, whatever it makes the grader do
            result = {"error": f"{type(error).__name__}: {error}"[:500]}
        signal.setitimer(signal.ITIMER_REAL, 0)
        _write(results, result)


def _write(file: IO[bytes], row: object) -> None:
    file.write(json.dumps(row).encode() + b"\n")
    file.flush()
