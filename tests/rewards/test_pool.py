"""Children that hang, die, print or hold the interpreter cost their own job and nobody else's."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from seminar.errors import RunError
from seminar.rewards.pool import AHEAD, MAX_JOB_BYTES, Outcome, Pool

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _find_fake_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)


@pytest.fixture
def pool() -> Iterator[Pool]:
    with Pool("fake_worker", num_workers=2, deadline_s=1.0) as pool:
        yield pool


def run(pool: Pool, *jobs: object) -> list[Outcome]:
    return [future.result() for future in [pool.submit(job) for job in jobs]]


def gone(*pids: int) -> bool:
    """Whether processes end, waited for at most ten seconds; a zombie has ended."""
    for pid in pids:
        try:
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                process.wait(timeout=10)
        except (psutil.NoSuchProcess, psutil.TimeoutExpired):
            pass
    return not any(psutil.pid_exists(p) and psutil.Process(p).status() != psutil.STATUS_ZOMBIE for p in pids)


def test_each_job_gets_its_own_answer(pool):
    assert run(pool, *range(50)) == [Outcome("done", k) for k in range(50)]


def test_a_hung_job_times_out_and_its_neighbours_are_answered(pool):
    outcomes = run(pool, *["hang", *range(2 * AHEAD + 1)])
    assert outcomes == [Outcome("timeout"), *(Outcome("done", k) for k in range(2 * AHEAD + 1))]
    assert pool.counts["timeout"] == 1
    assert pool.counts["done"] == 2 * AHEAD + 1


def test_what_waits_behind_a_hung_job_is_answered_before_its_deadline(monkeypatch):
    monkeypatch.setattr("seminar.rewards.pool.PATIENCE_S", 0.1)
    with Pool("fake_worker", num_workers=1, deadline_s=60.0) as pool:
        hung, *others = [pool.submit(job) for job in ["rest", *range(5)]]
        assert [future.result() for future in others] == [Outcome("done", k) for k in range(5)]
        assert not hung.done()


def test_a_job_that_ends_in_overtime_keeps_its_answer_and_its_child_goes(monkeypatch):
    monkeypatch.setattr("seminar.rewards.pool.PATIENCE_S", 0.1)
    with Pool("fake_worker", num_workers=1, deadline_s=60.0) as pool:
        first = run(pool, "pid")[0].result
        assert run(pool, "slow", *range(3)) == [Outcome("done", k) for k in ("slow", 0, 1, 2)]
        pid = run(pool, "pid")[0].result
        assert first != pid
        assert gone(first)


def test_a_job_is_not_forgotten_when_the_pool_ends_while_it_is_overtime(monkeypatch):
    monkeypatch.setattr("seminar.rewards.pool.PATIENCE_S", 0.1)
    with Pool("fake_worker", num_workers=1, deadline_s=60.0) as pool:
        hung = pool.submit("rest")
        while not pool._overtime:
            time.sleep(0.01)
        threading.Thread(target=pool.close).start()
        with pytest.raises(RunError, match="closed"):
            hung.result(timeout=30)


def test_at_most_as_many_jobs_are_overtime_as_there_are_workers(monkeypatch):
    monkeypatch.setattr("seminar.rewards.pool.PATIENCE_S", 0.1)
    with Pool("fake_worker", num_workers=2, deadline_s=2.0) as pool:
        hung = [pool.submit("rest") for _ in range(8)]
        most = 0
        while not all(future.done() for future in hung):
            most = max(most, len(pool._children))
            time.sleep(0.01)
        assert most == 4
        assert run(pool, *range(20)) == [Outcome("done", k) for k in range(20)]


def test_a_job_that_holds_the_interpreter_is_ended_all_the_same(pool):
    assert run(pool, "hold the interpreter", 7) == [Outcome("timeout"), Outcome("done", 7)]


def test_a_child_that_dies_costs_its_own_job_alone(pool):
    assert run(pool, "die", 7, "die", 8) == [
        Outcome("crashed"),
        Outcome("done", 7),
        Outcome("crashed"),
        Outcome("done", 8),
    ]
    assert pool.counts["crashed"] == 2


def test_a_replaced_child_is_counted(pool):
    run(pool, "die", "pid")
    pool.close()
    assert pool.counts["restarted"] == 1


def test_what_a_job_raises_is_its_outcome(pool):
    assert run(pool, "raise") == [Outcome("failed", "ValueError: boom")]


def test_what_a_job_prints_is_no_answer(pool):
    assert run(pool, "print", 7) == [Outcome("done", "print"), Outcome("done", 7)]


def test_memory_beyond_the_limit_is_refused(pool):
    assert run(pool, "fill the memory") == [Outcome("failed", "MemoryError: ")]


def test_any_thread_may_ask(pool):
    results: dict[int, list[Outcome]] = {}

    def ask(k: int) -> None:
        results[k] = run(pool, *range(k, k + 20))

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(0, 400, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {k: [Outcome("done", j) for j in range(k, k + 20)] for k in range(0, 400, 50)}


@pytest.fixture
def children_before():
    """Children of this process that other tests left, as seen before the fixtures named behind this one."""
    return psutil.Process().children()


def test_nothing_starts_before_the_first_job(children_before, pool):
    assert psutil.Process().children() == children_before


def test_closing_ends_the_children_and_the_jobs_in_their_hands(pool):
    pid = run(pool, "pid")[0].result
    resting = [pool.submit("rest") for _ in range(5)]
    pool.close()
    assert gone(pid)
    for future in resting:
        with pytest.raises(RunError, match="closed"):
            future.result()
    with pytest.raises(RunError, match="closed"):
        pool.submit(7)


def test_a_module_that_does_not_start_is_an_error_and_no_endless_loop():
    with Pool("no_such_module", num_workers=2) as pool:
        future = pool.submit(7)
        with pytest.raises(RunError, match=r"no_such_module .* does not start"):
            future.result()


def test_a_job_that_does_not_fit_a_pipe_is_refused(pool):
    with pytest.raises(RunError, match=f"at most {MAX_JOB_BYTES}"):
        pool.submit("x" * MAX_JOB_BYTES)


def parent(program: str) -> subprocess.Popen[bytes]:
    head = "from seminar.rewards.pool import Pool\npool = Pool('fake_worker', num_workers=2, deadline_s=60)\n"
    return subprocess.Popen([sys.executable, "-c", head + textwrap.dedent(program)], stdout=subprocess.PIPE)


@pytest.mark.parametrize("busy", ["rest", "hold the interpreter"])
def test_children_die_with_a_parent_that_is_killed(busy):
    process = parent(f"""
        print(pool.submit("pid").result().result, pool.submit("pid").result().result, flush=True)
        pool.submit({busy!r}).result()
    """)
    assert process.stdout is not None
    pids = [int(pid) for pid in process.stdout.readline().split()]
    children = [child.pid for child in psutil.Process(process.pid).children()]
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert set(pids) <= set(children)
    assert gone(*children)


def test_children_die_with_a_parent_that_ends():
    process = parent('print(pool.submit("pid").result().result, flush=True)')
    out, _ = process.communicate()
    assert process.returncode == 0
    assert gone(int(out))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_of_the_parent_gets_children_of_its_own():
    process = parent("""
        import os
        first = pool.submit("pid").result().result
        if (child := os.fork()) == 0:
            second = pool.submit("pid").result().result
            pool.close()
            os._exit(0 if second != first else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert pool.submit("pid").result().result == first
    """)
    process.communicate()
    assert process.returncode == 0
