"""Threads that read parts: order, errors, cancellation, memory, forks, and the end of the process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import TaskContext

import state_processor as sp
from state_processor.backends.files import ordered_threads
from state_processor.backends.files.ordered_threads import THREADS_VARIABLE, at_once, in_order, read_all, thread_count
from state_processor.support.locks import process_lock
from tests.waiting import wait_until

FIXTURES = Path("tests/fixtures/1.20.5").resolve()
ROOM = 100


@dataclass(frozen=True)
class Result:
    part: int
    number: int
    nbytes: int = 40


class Parts:
    """Parts with a number of results each, which note what is read. A part may fail before one of its results."""

    def __init__(self, sizes: list[int], failing: dict[int, int] | None = None) -> None:
        self.sizes = sizes
        self.failing = failing or {}
        self.started: Counter[int] = Counter()
        self.results: Counter[Result] = Counter()
        self.errors = {part: ValueError(f"part {part}") for part in self.failing}
        self._lock = process_lock()

    def read(self, part: int) -> Iterator[Result]:
        with self._lock:
            self.started[part] += 1
        for number in range(self.sizes[part]):
            if self.failing.get(part) == number:
                raise self.errors[part]
            with self._lock:
                self.results[Result(part, number)] += 1
            yield Result(part, number)
        if self.failing.get(part, -1) >= self.sizes[part]:
            raise self.errors[part]

    def expected(self) -> list[Result]:
        """All results before the first error."""
        found = []
        for part, size in enumerate(self.sizes):
            failing = self.failing.get(part)
            found += [Result(part, number) for number in range(size if failing is None else min(failing, size))]
            if failing is not None:
                break
        return found


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "state-processor-read"]


def no_threads_left() -> None:
    wait_until(lambda: not readers(), "the end of all threads")


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_threads, "_BUFFER_BYTES", ROOM)


SIZES = st.lists(st.integers(0, 6), min_size=1, max_size=12)
FAILING = st.dictionaries(st.integers(0, 11), st.integers(0, 6), max_size=2)


@pytest.mark.usefixtures("short_collections")
@settings(deadline=None)
@given(SIZES, FAILING, st.integers(1, 5), st.none() | st.integers(0, 30), st.sampled_from(["close", "drop", "collect", "throw"]))
def test_order_errors_and_cancellation(
    sizes: list[int], failing: dict[int, int], threads: int, stop: int | None, way: str
) -> None:
    parts = Parts(sizes, {part: number for part, number in failing.items() if part < len(sizes)})
    reading = in_order(parts.read, range(len(sizes)), threads)
    found, error, ended = _taken(reading, stop)
    assert found == parts.expected()[:stop]
    if ended:
        assert not readers()
        assert error is parts.errors.get(min(parts.failing, default=-1))
        assert error is not None or set(parts.started) == set(range(len(sizes)))
    if error is not None:
        assert "read" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    if way == "close":
        reading.close()
    elif way == "throw":
        with pytest.raises(KeyboardInterrupt):
            reading.throw(KeyboardInterrupt())
        assert not readers()
    elif way == "collect":
        cycle: list[object] = [reading]
        cycle.append(cycle)
        del cycle
    del reading
    gc.collect()
    no_threads_left()
    assert all(count == 1 for count in parts.started.values())
    assert all(count == 1 for count in parts.results.values())


def _taken(reading: Iterator[Result], stop: int | None) -> tuple[list[Result], BaseException | None, bool]:
    """Take results, and return them with the error, and whether the read has ended."""
    found: list[Result] = []
    try:
        while stop is None or len(found) < stop:
            found.append(next(reading))
    except StopIteration:
        return found, None, True
    except ValueError as error:
        return found, error, True
    return found, None, False


def test_a_reader_that_waits_bounds_memory() -> None:
    parts = Parts([50] * 8)
    reading = in_order(parts.read, range(8), 3)
    found = [next(reading)]
    wait_until(lambda: len(parts.started) == 3, "all threads")
    most = 3 * ROOM // 40 + 1 + 3 + 1  # the room of three threads, and a result in the hand of each
    for _ in range(100):
        found.append(next(reading))
        assert sum(parts.results.values()) - len(found) <= most
    assert found + list(reading) == parts.expected()
    no_threads_left()


def test_parts_are_read_at_the_same_time() -> None:
    both = threading.Barrier(2)

    def read(part: int) -> Iterator[int]:
        both.wait(60)
        yield part

    assert list(in_order(read, range(4), 2)) == [0, 1, 2, 3]


def test_an_interrupt_ends_the_threads() -> None:
    def watched(parts: object) -> Iterator[int]:
        yield 0
        raise KeyboardInterrupt

    reading = in_order(Parts([3, 50, 50]).read, range(3), 2, watched)
    with pytest.raises(KeyboardInterrupt):
        list(reading)
    assert not readers()


def test_threads_have_the_context_of_the_caller() -> None:
    name: ContextVar[str] = ContextVar("name", default="")
    token = name.set("here")
    try:
        assert list(in_order(lambda part: (name.get(),), range(3), 2)) == ["here"] * 3
    finally:
        name.reset(token)


@pytest.mark.parametrize("threads", [0, -1, "many", True, 1.5])
def test_other_values_than_numbers_of_threads_are_refused(threads: Any) -> None:
    path = next(p.parent for p in (FIXTURES / "orders-hashmap-canonical").rglob("_metadata"))
    with pytest.raises(sp.OptionError, match=r"threads=.*: expected a number of at least 1"):
        sp.open(path, threads=threads)


def test_a_read_inside_a_thread_has_no_threads() -> None:
    assert thread_count(3) == 3
    assert list(in_order(lambda part: (thread_count(3),), range(3), 2)) == [1, 1, 1]


def test_a_task_of_spark_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskContext, "_taskContext", object())
    assert thread_count(4) == 1


def test_the_variable_and_the_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(THREADS_VARIABLE, "7")
    assert (thread_count(), thread_count(2)) == (7, 2)
    monkeypatch.setenv(THREADS_VARIABLE, " ")
    assert 1 <= thread_count() <= 16
    for text in ("0", "-1", "many", "1.5", "²"):
        monkeypatch.setenv(THREADS_VARIABLE, text)
        with pytest.raises(sp.OptionError, match=f"{THREADS_VARIABLE}='{text}': expected a number of threads"):
            thread_count()


def test_the_quota_of_a_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    quota = tmp_path / "cpu.max"
    monkeypatch.setattr(ordered_threads, "_QUOTA", str(quota))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(12)))
    counts = []
    for text in ("max 100000", "250000 100000", "10000 100000", "9900000 100000", "nonsense"):
        quota.write_text(text)
        counts.append(thread_count())
    assert counts == [12, 2, 1, 12, 12]


def test_a_process_that_can_not_start_threads_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    parts = Parts([3, 0, 2])
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        assert list(in_order(parts.read, range(3), 2)) == parts.expected()


def test_small_reads_have_one_thread() -> None:
    @dataclass(frozen=True)
    class Part:
        size: int

    def planned(size: int) -> Callable[..., list[Part]]:
        return lambda *_: [Part(size)] * 3

    def read(_: Part) -> tuple[str]:
        return (threading.current_thread().name,)

    assert set(read_all(planned(100), read, 2)) == {threading.current_thread().name}
    assert set(read_all(planned(4 << 20), read, 2)) == {"state-processor-read"}


PROGRAM = """
import gc, os, sys, threading
from state_processor.backends.files import ordered_threads
ordered_threads._BUFFER_BYTES = 1

class Result(int):
    nbytes = 100

def read(part):
    yield from (Result(10 * part + number) for number in range(10))

def reading():
    return ordered_threads.in_order(read, range(20), 3)
"""


@pytest.mark.parametrize(
    ("program", "output"),
    [
        ("left = reading(); print(next(left))", "0"),  # blocked threads do not keep the process alive
        ("left = reading(); next(left); cycle = [left]; cycle.append(cycle); del left, cycle; print(1)", "1"),
        ("threading.Thread(target=lambda: print(sum(reading()))).start()", str(sum(range(200)))),
        (
            # a fork continues a read that was begun before, without the threads
            "left = reading(); first = [next(left) for _ in range(25)]; child = os.fork()\n"
            "if child == 0:\n    os._exit(0 if list(left) == list(range(25, 200)) else 3)\n"
            "print(os.waitpid(child, 0)[1], list(left) == list(range(25, 200)))",
            "0 True",
        ),
    ],
    ids=["abandoned", "collected at the end", "in a thread that outlives the main thread", "fork"],
)
def test_the_end_of_a_process(program: str, output: str) -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM + program], capture_output=True, text=True, timeout=240, check=False)
    assert (run.returncode, run.stdout.strip(), run.stderr) == (0, output, "")


def test_an_interrupt_inside_the_lock_releases_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(threading.Condition):
        def __enter__(self) -> bool:
            super().__enter__()
            if threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt
            return True

    monkeypatch.setattr(ordered_threads, "Condition", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(in_order(Parts([3, 50, 50]).read, range(3), 2))
    assert not readers()


INTERRUPTS = """
import random, signal
rng = random.Random({seed})
for _ in range(40):
    place, started = (rng.randrange(20), rng.randrange(10)), []

    def read(part):
        started.append(part)
        for number in range(10):
            if (part, number) == place:
                os.kill(os.getpid(), signal.SIGINT)
            yield Result(10 * part + number)

    numbers = []
    try:
        for number in ordered_threads.in_order(read, range(20), 3):
            numbers.append(number)
        print("read to the end")
    except KeyboardInterrupt:
        pass
    for thread in threading.enumerate():
        if thread.name == "state-processor-read":
            thread.join(60)  # an interrupt of the code between two results closes the read, which does not wait
            if thread.is_alive():
                print(place, thread)
    if numbers != list(range(len(numbers))) or len(started) != len(set(started)):
        print(place, numbers, started)
print("done")
"""


@pytest.mark.parametrize("seed", range(3))
def test_interrupts_at_random_places_end_the_threads(seed: int) -> None:
    program = PROGRAM + INTERRUPTS.format(seed=seed)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False)
    assert (run.returncode, run.stdout.strip(), run.stderr) == (0, "done", "")


@pytest.mark.parametrize("case", ["orders-hashmap-canonical", "orders-rocksdb-incremental", "orders-hashmap-native"])
def test_rows_are_the_same_with_threads(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = next(p.parent for p in (FIXTURES / case).rglob("_metadata"))
    monkeypatch.setattr(ordered_threads, "_SMALL", 0)
    monkeypatch.setattr(ordered_threads, "PART_BYTES", 200)
    names: set[str] = set()
    read = sp.arrow.SavepointReader.read
    for state in ("total", "items", None):
        alone = read(path, threads=1).read_keyed_state("orders", state, metadata=True).read_all()
        rows = read(path, threads=3).read_keyed_state("orders", state, metadata=True)
        batches = []
        for batch in rows:
            names |= {thread.name for thread in readers()}
            batches.append(batch)
        assert [row for batch in batches for row in batch.to_pylist()] == alone.to_pylist()
        no_threads_left()
    assert names == {"state-processor-read"}
    assert read(path, threads=3).size_report("orders", by="key").equals(read(path, threads=1).size_report("orders", by="key"))


@dataclass(frozen=True)
class Part:
    """A part of a read, of some bytes of the snapshot."""

    size: int
    is_store: bool


@pytest.mark.parametrize(
    ("megabytes", "is_store", "threads", "expected"),
    [
        (10, False, 4, 1),  # small parts, of 16 MB
        (320, False, 2, 16),  # eight parts for each of two threads
        (320, False, 4, 20),  # small parts are enough for four
        (4800, False, 4, 100),  # parts of 48 MB, at most
        (4800, True, 4, 300),  # compressed rows are several times as large
        (4800, False, 1, 50),  # the default of one thread, 96 MB
    ],
)
def test_large_reads_have_larger_parts(megabytes: int, is_store: bool, threads: int, expected: int) -> None:
    def plan(part_bytes: int = 96 << 20) -> list[Part]:
        count = max(1, round((megabytes << 20) / part_bytes))
        return [Part((megabytes << 20) // count, is_store)] * count

    assert len(ordered_threads.parts_for(plan, threads)) == expected


WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


def test_calls_wait_at_the_same_time_in_the_callers_context() -> None:
    together = Barrier(4, timeout=60)  # is passed by four threads only

    def place(number: int) -> tuple[int, str]:
        together.wait()
        return number * 10, WHO.get()

    token = WHO.set("caller")
    try:
        assert at_once(place, range(4)) == [(n * 10, "caller") for n in range(4)]
    finally:
        WHO.reset(token)
    assert at_once(str, [5]) == ["5"]
    assert at_once(str, []) == []


@pytest.mark.parametrize("quick_seconds", [0, 60])
def test_quick_calls_for_local_files_stay_in_the_thread_of_the_caller(
    quick_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered_threads, "_QUICK_SECONDS", quick_seconds)
    found = at_once(lambda number: (number, threading.current_thread() is threading.main_thread()), range(5), is_local=True)
    assert found == [(number, quick_seconds > 0) for number in range(5)]


def test_the_first_of_several_errors_is_raised() -> None:
    def fail(number: int) -> int:
        if number:
            raise ValueError(f"no {number}")
        return number

    with pytest.raises(ValueError, match="no 1"):
        at_once(fail, range(100))
