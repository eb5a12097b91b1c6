"""Hostile programs: each must fail, leave no process and no file, and cost the next answer nothing."""

import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from seminar.errors import RunError
from seminar.rewards.execution import CodeGrader
from seminar.rewards.sandbox import KINDS, Kind, Setup, working_setup
from seminar.types import Reason, StopReason, Task

pytestmark = pytest.mark.filterwarnings("ignore:sandbox")
TOKEN = "token-7f3a90c1"
TASK = Task(
    id="secret",
    question="",
    domain="code",
    tests=f"assert secret() == '{TOKEN}', 'the answer is {TOKEN}'\n",
    meta={"entry_point": "secret", "deadline_s": 2.0},
)
HONEST = f"def secret():\n    return 'token' + '-' + '{TOKEN[6:]}'\n"
MEMORY_MB = 603
"""Stands in the command line of each sandbox started here, and so finds every process of it."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    name: Kind = request.param
    return need(name)


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    yield
    assert running() == []
    assert list(scratch.iterdir()) == []


def running() -> list[psutil.Process]:
    """Every process of a sandbox of this file."""
    size = str(MEMORY_MB * 2**20)
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(size in part for part in process.info["cmdline"] or ())
    ]


def need(kind: Kind) -> Kind:
    """The kind, where it works and promises what is tested here."""
    try:
        setup = working_setup(kind)
    except RunError as error:
        pytest.skip(str(error))
    if setup == Setup("rlimits", filtered=False):
        pytest.skip("limits without libseccomp promise less")
    return kind


def fenced(program: str) -> str:
    return f"```python\n{textwrap.dedent(program)}\n```"


def attack(kind: Kind, *programs: str, knows: bool = True) -> set[Reason]:
    """Reasons for which hostile programs fail; one worker meets honest ones between them.

    A program that `knows` has the right answer as ANSWER, and returns it where it got away with its try.
    """
    answers: list[tuple[Task, str, StopReason]] = [(TASK, fenced(HONEST), "eos")]
    for program in programs:
        hostile = f"ANSWER = {TOKEN!r}\n{textwrap.dedent(program)}" if knows else program
        answers += [(TASK, fenced(hostile), "eos"), (TASK, fenced(HONEST), "eos")]
    verdicts = CodeGrader(workers=1, memory_mb=MEMORY_MB, sandbox=kind).grade(answers)
    assert [verdict.correct for verdict in verdicts] == [True, *[False, True] * len(programs)]
    return {verdict.reason for verdict in verdicts[1::2]}


def passes(kind: Kind, program: str, tests: str) -> bool:
    """Whether a program that reports what it could do reports what the tests say."""
    task = Task(
        id="t", question="", domain="code", tests=tests, meta={"entry_point": "secret", "deadline_s": 10.0}
    )
    (verdict,) = CodeGrader(workers=1, memory_mb=MEMORY_MB, sandbox=kind).grade(
        [(task, fenced(program), "eos")]
    )
    return verdict.correct


# --- limits


@pytest.mark.slow
def test_an_endless_loop_times_out(kind: Kind) -> None:
    assert attack(kind, "def secret():\n    while True: pass") == {"timeout"}


@pytest.mark.slow
def test_an_endless_loop_at_import_times_out(kind: Kind) -> None:
    assert attack(kind, "def secret(): pass\nwhile True: pass") == {"timeout"}


@pytest.mark.slow
def test_a_loop_that_swallows_every_exception_times_out(kind: Kind) -> None:
    program = """
    def secret():
        while True:
            try:
                while True: pass
            except BaseException: pass
    """
    assert attack(kind, program) == {"timeout"}


@pytest.mark.slow
def test_one_long_operation_in_c_times_out(kind: Kind) -> None:
    assert attack(kind, "def secret(): return 7 ** (10 ** 9)") == {"timeout"}


@pytest.mark.slow
def test_a_sleeper_times_out(kind: Kind) -> None:
    assert attack(kind, "import time\ndef secret(): time.sleep(10**6)") == {"timeout"}


@pytest.mark.slow
def test_a_fork_storm_makes_no_process(kind: Kind) -> None:
    program = """
    import os
    def secret():
        while True:
            try:
                if os.fork() == 0: os.setsid()
            except OSError: pass
    """
    assert attack(kind, program) == {"timeout"}


def test_a_program_may_not_fork(kind: Kind) -> None:
    assert attack(kind, "import os\ndef secret(): os.fork(); return ANSWER") == {"wrong"}


def test_no_other_program_can_be_started(kind: Kind) -> None:
    program = """
    import os, subprocess, sys
    def secret():
        {}
        return ANSWER
    """
    spin = "sys.executable, [sys.executable, '-c', 'while True: pass'], {}"
    ways = (f"os.posix_spawn({spin})", "subprocess.Popen(['sleep', '99'], start_new_session=True)")
    assert attack(kind, *map(program.format, ways)) == {"wrong"}


def test_a_program_cannot_become_another(kind: Kind) -> None:
    program = "import os\ndef secret(): os.execv('/usr/bin/sleep', ['sleep', '99'])"
    assert attack(kind, program) == {"wrong"}


def test_threads_that_never_end_do_not_start(kind: Kind) -> None:
    program = """
    import threading
    def forever():
        while True: pass
    def secret():
        for _ in range(99): threading.Thread(target=forever).start()
        return ANSWER
    """
    assert attack(kind, program) == {"wrong"}


def test_ten_gigabytes_of_memory_are_refused(kind: Kind) -> None:
    assert attack(kind, "def secret(): bytearray(10 * 2**30); return ANSWER") == {"wrong"}


def test_memory_taken_piece_by_piece_is_refused(kind: Kind) -> None:
    # 64 pieces of 16 MiB are 1 GiB, above the limit of 603 MiB.
    program = "def secret(): pieces = [bytes(2**24) for _ in range(64)]; return ANSWER"
    assert attack(kind, program) == {"wrong"}


def test_a_gigabyte_of_output_ends_the_run(kind: Kind) -> None:
    program = """
    import os
    def secret():
        for _ in range(1024): os.write({}, b'x' * 2**20)
        return ANSWER
    """
    assert attack(kind, program.format(1), program.format(2)) == {"crashed"}


def test_a_result_that_is_too_long_ends_the_run(kind: Kind) -> None:
    assert attack(kind, "def secret(): return 'x' * (20 * 2**20)") == {"crashed"}


def test_a_crash_of_the_interpreter_is_not_a_pass(kind: Kind) -> None:
    program = """
    import ctypes
    def secret(): ctypes.string_at(0)
    """
    assert attack(kind, program) == {"crashed"}


def test_a_program_that_nests_without_end_is_not_a_pass(kind: Kind) -> None:
    attack(kind, f"def secret(): return {'(' * 50_000}{')' * 50_000}")


# --- leaving early


PLACES = ("import os, sys\n{}\ndef secret(): pass", "import os, sys\ndef secret(): {}")


def test_ending_the_process_is_not_a_pass(kind: Kind) -> None:
    ways = ("os._exit(0)", "os.abort()")
    assert attack(kind, *(place.format(way) for place in PLACES for way in ways)) == {"crashed"}


def test_leaving_by_an_exception_is_not_a_pass(kind: Kind) -> None:
    ways = ("sys.exit(0)", "raise SystemExit", "raise KeyboardInterrupt", "raise GeneratorExit")
    assert attack(kind, *(place.format(way) for place in PLACES for way in ways)) == {"wrong"}


def test_handlers_of_the_end_change_nothing(kind: Kind) -> None:
    program = """
    import atexit, os, sys
    {}
    def secret(): pass
    """
    ways = (
        "atexit.register(lambda: os._exit(0))",
        "atexit.register(lambda: print('correct', flush=True))",
        "sys.excepthook = lambda *_: os._exit(0)",
        "sys.unraisablehook = sys.excepthook = lambda *_: None",
    )
    assert attack(kind, *map(program.format, ways)) == {"wrong"}


# --- forging


def test_printed_words_are_no_verdict(kind: Kind) -> None:
    program = """
    import os, sys
    def secret():
        for word in ('passed', 'correct', 'ready', 'OK'):
            print(word, flush=True)
            print(word, file=sys.stderr, flush=True)
    """
    assert attack(kind, program) == {"wrong"}


def test_words_written_to_every_descriptor_are_no_verdict(kind: Kind) -> None:
    program = """
    import os
    def secret():
        for fd in range(256):
            try: os.write(fd, b'correct\\n')
            except OSError: pass
    """
    attack(kind, program)


def test_forged_messages_on_the_line_are_no_verdict(kind: Kind) -> None:
    program = """
    import json, os
    def secret():
        yes, odd = {'value': True, 'changed': []}, {'value': {'object': 0}, 'changed': [[9, 9]]}
        for message in ('correct', yes, odd):
            body = json.dumps(message).encode()
            for fd in range(3, 256):
                try: os.write(fd, len(body).to_bytes(4, 'little') + body)
                except OSError: pass
    """
    attack(kind, program)


def test_a_message_cannot_name_a_function_of_the_judge(kind: Kind) -> None:
    program = """
    import seminar.rewards.candidate as side
    side.encode = lambda value, refer: {{'type': {}}}
    def secret(): pass
    """
    assert attack(kind, *map(program.format, ("'__import__'", "'eval'", "'quit'", "[]"))) == {"crashed"}


def test_patched_builtins_do_not_reach_the_tests(kind: Kind) -> None:
    program = """
    import builtins
    class Quiet(BaseException): pass
    builtins.AssertionError = Quiet
    for name in ('isinstance', 'all', 'any', 'bool', 'str', 'len', 'repr'):
        setattr(builtins, name, lambda *args, **kwargs: True)
    def secret(): return True
    """
    attack(kind, program)


def test_a_check_of_its_own_does_not_replace_that_of_the_tests() -> None:
    task = Task(
        id="t",
        question="def f(x):\n    '''Twice x.'''\n",
        domain="code",
        tests="def check(candidate):\n    assert candidate(2) == 4\n",
        meta={"entry_point": "f"},
    )
    program = "```\ndef f(x): return 0\ndef check(candidate): pass\ncandidate = f\n```"
    (verdict,) = CodeGrader(memory_mb=MEMORY_MB).grade([(task, program, "eos")])
    assert verdict.reason == "wrong"


def test_changes_to_this_library_within_the_program_change_nothing(kind: Kind) -> None:
    program = """
    import sys
    for name, module in list(sys.modules.items()):
        if name.startswith('seminar') or name == '__main__':
            for thing in ('verdict', 'Remote', 'exercise', 'main'):
                setattr(module, thing, lambda *args, **kwargs: 'correct')
    def secret(): pass
    """
    attack(kind, program)


def test_an_object_that_equals_everything_equals_nothing(kind: Kind) -> None:
    program = """
    class Yes:
        __hash__ = None
        def __eq__(self, other): return True
        def __ne__(self, other): return False
        def __bool__(self): return True
        def __getattr__(self, name): return self
    def secret(): return Yes()
    """
    assert attack(kind, program) == {"wrong"}


def test_a_text_that_equals_everything_is_just_its_text(kind: Kind) -> None:
    program = """
    class Yes(str):
        def __eq__(self, other): return True
    def secret(): return Yes('no')
    """
    assert attack(kind, program) == {"wrong"}


def test_tracing_does_not_reach_the_tests(kind: Kind) -> None:
    program = """
    import os, sys
    def trace(frame, event, arg):
        if event == 'exception': os._exit(0)
        return trace
    def secret():
        frame = sys._getframe(1)
        while frame:
            frame.f_trace = trace
            frame = frame.f_back
        sys.settrace(trace)
        return 1
    """
    attack(kind, program)


# --- looking: a program that finds the token may return it and pass


def test_the_tests_are_in_no_frame(kind: Kind) -> None:
    program = """
    import re, sys
    def secret():
        frame = sys._getframe()
        while frame:
            seen = repr([frame.f_locals, frame.f_globals, frame.f_code.co_consts])
            if found := re.search('token-[0-9a-f]{8}', seen): return found.group()
            frame = frame.f_back
    """
    attack(kind, program, knows=False)


def test_the_tests_are_among_no_objects(kind: Kind) -> None:
    program = """
    import gc, re, sys
    def secret():
        seen, queue = set(), [sys._getframe(), *gc.get_objects()]
        while queue:
            thing = queue.pop()
            if id(thing) in seen: continue
            seen.add(id(thing))
            if type(thing) is str and (found := re.search('token-[0-9a-f]{8}', thing)): return found.group()
            queue += gc.get_referents(thing)
            if hasattr(thing, 'f_back'): queue += [thing.f_back, thing.f_code]
    """
    attack(kind, program, knows=False)


def test_the_tests_are_not_in_the_memory_of_the_program(kind: Kind) -> None:
    # access() tells pages that are there from others; the marker shows that the search finds what is there.
    program = """
    import ctypes, re
    libc = ctypes.CDLL(None, use_errno=True)
    wanted = re.compile(b'(mark' + b'er|tok' + b'en)-[0-9a-f]{8}')
    def secret():
        marker = ('marker-' + 'abcdef01').encode()
        starts = [id(thing) & ~4095 for thing in (marker, wanted, secret)]
        pages = {start + step * 4096 for start in starts for step in range(-4096, 4096)}
        found = set()
        for page in sorted(pages):
            libc.access(ctypes.c_void_p(page), 0)
            if ctypes.get_errno() != 14:
                found |= {match.group() for match in wanted.finditer(ctypes.string_at(page, 4096))}
            ctypes.set_errno(0)
        return sorted(found)
    """
    assert passes(kind, program, f"assert secret() == [b'marker-abcdef01'], 'the answer is {TOKEN}'")


def test_the_process_of_the_tests_and_the_one_above_cannot_be_opened(kind: Kind) -> None:
    program = """
    import os
    def parent(pid):
        try: return int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])
        except OSError: return 0
    def secret():
        names = os.listdir('/proc') if os.path.isdir('/proc') else []
        pids = [int(name) for name in names if name.isdigit()]
        family = [pid for pid in pids if os.getppid() in (pid, parent(pid)) and pid != os.getpid()]
        opened = []
        for pid in family:
            for name in ('mem', 'maps', 'environ', 'fd/0', 'fd/1', 'fd/2'):
                try: open(f'/proc/{pid}/{name}', 'rb').close()
                except PermissionError: pass
                else: opened.append(name)
        return len(family), opened
    """
    family = {"bubblewrap": 0, "rlimits": 2}[kind]  # the judge and the zygote
    assert passes(kind, program, f"assert secret() == ({family}, []), secret()")


def test_bubblewrap_shows_no_file_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "answers").write_text(TOKEN)
    attack(
        need("bubblewrap"), f"def secret(): return open({str(tmp_path / 'answers')!r}).read()", knows=False
    )


# --- reaching out


def test_files_are_neither_made_nor_changed_nor_removed(kind: Kind, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept")
    program = f"""
    import os, pathlib, shutil
    os.chdir({str(tmp_path)!r} if os.path.isdir({str(tmp_path)!r}) else '/tmp')
    def secret():
        for act in (
            lambda: open('made', 'w'),
            lambda: os.mkdir('made'),
            lambda: os.symlink('/', 'made'),
            lambda: os.mkfifo('made'),
            lambda: open('kept', 'a').write('more'),
            lambda: os.truncate('kept', 0),
            lambda: os.chmod('kept', 0),
            lambda: os.link('kept', 'made'),
            lambda: os.rename('kept', 'made'),
            lambda: os.remove('kept'),
            lambda: shutil.rmtree('scratch'),
        ):
            try: act()
            except OSError: pass
    """
    attack(kind, program)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "scratch"]
    assert (tmp_path / "kept").read_text() == "kept"


def test_no_place_can_be_written(kind: Kind) -> None:
    places = ("/tmp", "/var/tmp", "/dev/shm", "~", ".")
    name = f"seminar-test-{os.getpid()}"
    program = "import os\ndef secret(): open(os.path.expanduser('{}'), 'w'); return ANSWER"
    assert attack(kind, *(program.format(f"{place}/{name}") for place in places)) == {"wrong"}
    assert not any(Path(place, name).expanduser().exists() for place in places)


def test_there_is_no_network(kind: Kind) -> None:
    def give_away() -> None:
        with suppress(OSError), server.accept()[0] as connection:
            connection.sendall(TOKEN.encode())

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=give_away, daemon=True)
        thread.start()
        program = f"""
        import socket
        def secret():
            return socket.create_connection({server.getsockname()!r}, timeout=1).recv(99).decode()
        """
        assert attack(kind, program, knows=False) == {"wrong"}
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_signals_reach_nobody(kind: Kind) -> None:
    with subprocess.Popen(["sleep", "600"]) as bystander:
        program = f"""
        import os, signal
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        def secret():
            for target in ({bystander.pid}, os.getppid(), os.getppid() + 2, 0):
                for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                    try: os.kill(target, number)
                    except OSError: pass
        """
        attack(kind, program)
        assert psutil.Process(bystander.pid).status() == psutil.STATUS_SLEEPING
        bystander.kill()


def test_alarms_do_not_outrun_the_deadline(kind: Kind) -> None:
    program = """
    import signal
    def again(*_): signal.setitimer(signal.ITIMER_REAL, 0.01)
    for name in ('SIGALRM', 'SIGXCPU', 'SIGTERM', 'SIGINT'): signal.signal(getattr(signal, name), again)
    def secret(): again()
    """
    attack(kind, program)


def test_system_calls_beyond_computing_and_reading_are_refused(kind: Kind) -> None:
    if not working_setup(kind).filtered:
        pytest.skip("no libseccomp here")
    program = """
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    def secret():
        passed = []
        for name, *args in (
            ('unshare', 1 << 28), ('setns', 0, 0), ('mount', 0, 0, 0, 0, 0), ('chroot', b'/'), ('kill', 0, 0),
            ('ptrace', 0, 0, 0, 0), ('personality', 0), ('prctl', 4, 1, 0, 0, 0), ('socket', 1, 1, 0),
            ('setsid',),
            ('memfd_create', b'x', 0), ('pipe', 0), ('eventfd', 0, 0), ('fork',), ('shmget', 0, 4096, 0o1777),
            ('nice', 1), ('fcntl', 1, 8, 1), ('fcntl', 1, 10, 9), ('ioctl', 0, 0x5412, b'x'), ('alarm', 1),
        ):
            ctypes.set_errno(0)
            getattr(libc, name)(*args)
            if ctypes.get_errno() != 1: passed.append(name)
        return passed
    """
    assert passes(kind, program, "assert secret() in ([], ['alarm'])")


@pytest.mark.slow
def test_a_sandbox_dies_with_the_process_that_grades(kind: Kind, tmp_path: Path) -> None:
    script = f"""
from seminar.rewards.execution import CodeGrader
from seminar.types import Task
task = Task(id='t', question='', domain='code', tests='f()', meta={{'deadline_s': 600.0}})
text = '```\\ndef f():\\n    while True: pass\\n```'
CodeGrader(workers=1, memory_mb={MEMORY_MB}, sandbox={kind!r}).grade([(task, text, 'eos')])
"""
    command = [sys.executable, "-W", "ignore", "-c", script]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(tmp_path)}) as grading:
        while not any(process.cpu_times().user > 0.5 for process in running()):
            assert grading.poll() is None
        grading.kill()
    assert psutil.wait_procs(running(), timeout=10)[1] == []
