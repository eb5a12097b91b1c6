"""Programs and exercises -> one word each, from processes that can compute and read, no more. Linux only.

Two kinds. `bubblewrap`: own namespaces (no network, no other process in sight) and a read-only root that
shows the interpreter and its packages alone. `rlimits`: an own session in an empty temporary folder, with the
user's files in sight. Both add resource limits, no capabilities, and a short list of system calls where
libseccomp is installed.
"""

import importlib.util
import json
import math
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from seminar.errors import RunError
from seminar.rewards import wire
from seminar.rewards.zygote import READY
from seminar.tasks.code import Exercise

Kind = Literal["bubblewrap", "rlimits"]
KINDS: tuple[Kind, ...] = ("bubblewrap", "rlimits")
"""Strongest first."""
OUTPUT_BYTES = 2**20
"""What a program may print; one that prints more counts as crashed."""
START_S = 60.0
"""Longest wait for a sandbox that starts."""
STOP_S = 10.0
"""Longest wait for one that ends by itself before it is killed."""
PROBE_MB = 1024
KEPT_BYTES = 1000
"""Of what is printed, for the message about a sandbox that does not start."""
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/tmp",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


class Setup(NamedTuple):
    """How programs are confined on this machine."""

    kind: Kind
    filtered: bool
    """Whether system calls outside a short list are refused (libseccomp)."""


class Sandbox:
    """One process tree that judges one program after another. A context manager, for one thread at a time."""

    def __init__(self, setup: Setup, *, longest_s: float, memory_mb: int) -> None:
        """Start it: `longest_s` is the longest deadline to come, `memory_mb` each process's address space."""
        options = {
            "filtered": setup.filtered,
            "memory_bytes": memory_mb * 2**20,
            "cpu_s": math.ceil(longest_s) + 1,
            "packages": [str(_packages())],
        }
        self._closed = False
        self._words = b""
        self._printed = b""
        self._folder = tempfile.mkdtemp(prefix="seminar-")
        try:
            self._process = subprocess.Popen(
                [*(_bubblewrap() if setup.kind == "bubblewrap" else []), *_python(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self._folder,
                env=_ENVIRONMENT
                | {key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ},
                start_new_session=True,
            )
        except OSError:
            shutil.rmtree(self._folder)
            raise

    def __enter__(self) -> "Sandbox":
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.close()

    def ready(self) -> bool:
        """Wait until it can take a job, to be asked once before each; False when it has ended."""
        return not self._closed and self._word(START_S) == READY

    def judge(self, program: str, exercise: Exercise, *, deadline_s: float) -> str:
        """The word of `judge.verdict`, or `timeout`, or `crashed` for too much output.

        After the latter two the sandbox has ended, and `ready` says so.
        """
        assert self._process.stdin is not None
        job = {"program": program, "tests": exercise.tests, "names": exercise.names}
        try:
            wire.send(self._process.stdin.fileno(), job)
        except BrokenPipeError:
            self.close()
            return "crashed"
        return self._word(deadline_s)

    def last_output(self) -> str:
        """The end of all that was printed."""
        return self._printed.decode(errors="replace").strip()

    def close(self) -> None:
        """End every process, wait until they are gone, remove the folder. Calling it twice does no harm."""
        if self._closed:
            return
        self._closed = True
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        shutil.rmtree(self._folder)

    def _word(self, limit_s: float) -> str:
        """The next line of the sandbox, while what programs print is counted and thrown away."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        words, output = self._process.stdout.fileno(), self._process.stderr.fileno()
        watch = select.poll()
        watch.register(output, select.POLLIN)  # first, so that last words are read before the end is seen
        watch.register(words, select.POLLIN)
        end = time.monotonic() + limit_s
        printed = 0
        while b"\n" not in self._words:
            left_s = end - time.monotonic()
            if left_s <= 0:
                return self._ended("timeout")
            for fd, _ in watch.poll(math.ceil(left_s * 1000)):
                piece = os.read(fd, 2**16)
                if fd == words and not piece:
                    return self._ended("crashed")
                if fd == words:
                    self._words += piece
                elif piece:
                    printed += len(piece)
                    self._printed = (self._printed + piece)[-KEPT_BYTES:]
                else:
                    watch.unregister(output)
            if printed > OUTPUT_BYTES:
                return self._ended("crashed")
        word, _, self._words = self._words.partition(b"\n")
        return word.decode("ascii")

    def _ended(self, word: str) -> str:
        self.close()
        return word


@cache
def working_setup(kind: Kind | None = None) -> Setup:
    """The strongest confinement that works here, of that kind where one is given. Found once, by trying.

    Warns where bubblewrap or the list of system calls is missing. Raises RunError where nothing works; root
    without the list counts as that, for no limit on processes binds root.
    """
    if sys.platform != "linux":
        raise RunError(
            f"sandbox: this is {sys.platform}; programs are judged on Linux only. Grade code tasks there."
        )
    root = os.geteuid() == 0
    setups = [Setup(name, filtered) for name in KINDS for filtered in (True, False)]
    for setup in setups:
        if kind in (None, setup.kind) and (setup.filtered or not root) and _works(setup):
            _warn(setup)
            return setup
    raise RunError(
        f"sandbox: {kind or 'every kind'} fails on this machine{' for root' if root else ''}; programs are "
        "judged in bubblewrap, or under resource limits with libseccomp. Install bubblewrap and libseccomp2."
    )


def _works(setup: Setup) -> bool:
    asked = Exercise(tests="assert f(1) == 2", names=("f",), prefix="")
    try:
        with Sandbox(setup, longest_s=START_S, memory_mb=PROBE_MB) as sandbox:
            word = sandbox.judge("f = lambda x: x + 1", asked, deadline_s=START_S) if sandbox.ready() else ""
            return word == "correct"
    except OSError:  # no such command
        return False


def _warn(setup: Setup) -> None:
    if setup.kind != "bubblewrap":
        warnings.warn(
            "sandbox: programs are judged under resource limits, without bubblewrap, and can read what this "
            "user can. To close that, install the package bubblewrap and allow user namespaces.",
            stacklevel=3,
        )
    if not setup.filtered:
        warnings.warn(
            "sandbox: libseccomp.so.2 does not work here, so judged programs keep every system call. Install "
            "the package libseccomp2.",
            stacklevel=3,
        )


def _bubblewrap() -> list[str]:
    """What goes before the interpreter's command: no network, no other process, nothing to write."""
    found = shutil.which("bwrap")
    if found is None:
        raise FileNotFoundError("bwrap")
    command = [found, "--unshare-all", "--die-with-parent", "--as-pid-1"]
    seen = ["/usr", "/lib", "/lib64", "/etc/ld.so.cache", sys.base_prefix, sys.base_exec_prefix]
    for path in [*dict.fromkeys(seen), str(_packages()), str(_rewards())]:
        command += ["--ro-bind-try", path, path]
    return [*command, "--dev", "/dev", "--dir", "/tmp", "--remount-ro", "/", "--chdir", "/tmp"]


def _python(options: Mapping[str, object]) -> list[str]:
    """The interpreter without site packages, running the zygote; options travel as JSON."""
    code = (
        f"import sys, json; sys.path.insert(0, {str(_rewards().parents[1])!r}); "
        "from seminar.rewards.zygote import main; main(**json.loads(sys.argv[1]))"
    )
    base: str = sys._base_executable  # type: ignore[attr-defined]
    return [os.path.realpath(base), "-s", "-S", "-P", "-c", code, json.dumps(options)]


def _rewards() -> Path:
    """The folder of this file."""
    return Path(__file__).resolve().parent


def _packages() -> Path:
    """The folder programs and tests import installed packages from: the one that holds numpy."""
    spec = importlib.util.find_spec("numpy")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parents[1]
