"""Storage that fails, answers late or in part, is full, or can't be written to."""

from __future__ import annotations

import errno
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from threading import Event

import pytest

import state_processor as sp
from state_processor.backends.files import storage
from state_processor.backends.files.scratch import DIRECTORY_VARIABLE
from tests.backends.open_stores import close_stores
from tests.faults.storage import Fault, Request, faults, no_fault
from tests.faults.truth import COMPLETE, NOTHING, REPLACED, check_complete, check_second_write, names, visible
from tests.faults.writes import Write, digests_of_base
from tests.interop.selection import EVERY_CASE, in_turn
from tests.state_processor.samples import FIXTURES, ORDERS, expected_values
from tests.waiting import join

pytestmark = pytest.mark.slow

STORE_LIMITS = (0, 100, 700)
"""Bytes that a file of RocksDB may have; these do."""
CHANGES = ("make", "create", "write", "close", "move")
SNAPSHOTS = {name: FIXTURES / "2.3.0" / name / "savepoint" for name in ("orders-hashmap-canonical", "orders-rocksdb-native")}
TOTALS = expected_values(ORDERS, "orders", "total")


class Programme:
    """Fault that a test sets."""

    fault: Fault = staticmethod(no_fault)

    def __call__(self, request: Request) -> None:
        self.fault(request)


@pytest.fixture(scope="module", autouse=True)
def source_stays() -> Iterator[None]:
    """Nothing here changes the source savepoint."""
    before = digests_of_base()
    yield
    assert digests_of_base() == before


@pytest.fixture
def programme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Programme]:
    """Faults of the scheme ``faulty``, whose authority ``host`` has the snapshots, and of local files."""
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "scratch"))
    for name, directory in SNAPSHOTS.items():
        shutil.copytree(directory, tmp_path / "host" / name)
    made = Programme()
    with faults(made, tmp_path):
        yield made
    close_stores()


def failing(every: int, start: int, done: bool, actions: tuple[str, ...] = ()) -> Fault:
    """Each ``every``-th request fails, before or after the storage has done it."""
    count = start

    def fault(request: Request) -> None:
        nonlocal count
        if request.done is not done or (actions and request.action not in actions):
            return
        count += 1
        if count % every == 0:
            raise OSError(errno.EIO, f"no {request.action}")

    return fault


def totals(path: str) -> dict[str, int]:
    close_stores()
    return {row["key"]: row["value"] for batch in sp.arrow.read_state(path, "orders", "total") for row in batch.to_pylist()}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_reads_while_each_tenth_request_fails(programme: Programme, name: str) -> None:
    outcomes: Counter[str] = Counter()
    assert totals(f"faulty://host/{name}") == TOTALS
    for start in range(10):
        programme.fault = failing(10, start, done=False)
        try:
            assert totals(f"faulty://host/{name}") == TOTALS
            outcomes["read"] += 1
        except sp.StateProcessorError as error:
            outcomes["refused" if "no " in str(error) else str(error)] += 1
        programme.fault = no_fault
        assert totals(f"faulty://host/{name}") == TOTALS
    assert outcomes["refused"] > 0
    assert set(outcomes) <= {"read", "refused"}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_short_reads(programme: Programme, name: str) -> None:
    def at_most_a_third(request: Request) -> None:
        request.most = 40

    programme.fault = at_most_a_third
    assert totals(f"faulty://host/{name}") == TOTALS

    def nothing_at_all(request: Request) -> None:
        request.most = 0

    programme.fault = nothing_at_all
    shutil.rmtree(os.environ[DIRECTORY_VARIABLE], ignore_errors=True)
    with pytest.raises(sp.MissingFileError, match="ends at 0: it has shrunk while it was read"):
        totals(f"faulty://host/{name}")


def hanging(action: str, path: str = "") -> tuple[Fault, Event]:
    """Requests that are not answered before an event."""
    released = Event()

    def fault(request: Request) -> None:
        if request.action == action and request.path.endswith(path) and not request.done:
            released.wait(60)

    return fault, released


def release(released: Event) -> None:
    """Let hanging requests go on, and wait until they are done."""
    released.set()
    for thread in threading.enumerate():
        if thread.name == "state-processor-storage":
            join(thread)


@pytest.mark.parametrize(
    ("action", "name"), [("info", "absent"), ("open", "orders-hashmap-canonical"), ("read", "orders-hashmap-canonical")]
)
def test_a_storage_that_does_not_answer(programme: Programme, monkeypatch: pytest.MonkeyPatch, action: str, name: str) -> None:
    monkeypatch.setattr(storage, "_ANSWER_SECONDS", 0.3)
    programme.fault, released = hanging(action)
    with pytest.raises(sp.MissingFileError, match=r"faulty://host/.* the storage has not answered for 0.3 seconds"):
        totals(f"faulty://host/{name}")
    release(released)


@pytest.mark.parametrize("action", ["list", "make", "create", "close", "remove"])
def test_a_write_that_is_not_answered(programme: Programme, monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    write = Write("faulty://host/new", end=20)
    with monkeypatch.context() as patched:
        patched.setattr(storage, "_ANSWER_SECONDS", 0.3)
        programme.fault, released = hanging(action)
        with pytest.raises(sp.StateProcessorError, match=r"the storage has not answered for 0.3 seconds"):
            write.run()
        release(released)
    programme.fault = no_fault
    assert visible(write) == NOTHING
    check_second_write(write, NOTHING)


@pytest.mark.parametrize(
    ("place", "done", "overwrite"),
    [
        pytest.param(place, done, overwrite, id=f"{place}-{'answer lost' if done else 'refused'}-{overwrite}")
        for place, done, overwrite in product(("local", "remote"), (False, True), (False, True))
        if EVERY_CASE or overwrite == (done == (place == "local"))  # each two of the three
    ],
)
def test_writes_while_each_tenth_change_fails(
    programme: Programme, tmp_path: Path, place: str, done: bool, overwrite: bool
) -> None:
    outcomes: Counter[str] = Counter()
    for start in range(10):
        target = str(tmp_path / f"{start}") if place == "local" else f"faulty://host/{start}"
        write, before = Write(target, end=20), None
        if overwrite:
            before, write = replace(write, first=20, end=30), replace(write, overwrite=True)
            before.run()
        programme.fault = failing(10, start, done, (*CHANGES, "remove"))
        try:
            write.run()
            outcomes["written"] += 1
        except sp.StateProcessorError as error:
            outcomes["failed" if "no " in str(error) else str(error)] += 1
        programme.fault = no_fault
        found = visible(write, before)
        check_second_write(write, found)
    assert outcomes["failed"] >= 9
    assert set(outcomes) <= {"written", "failed"}


@pytest.mark.parametrize("done", [False, True], ids=["refused", "answer lost"])
def test_metadata_that_fails_to_be_put_in_place(programme: Programme, done: bool) -> None:
    """If the answer is lost the write is complete; if it is not known, files stay for the savepoint that may yet appear."""

    def fault(request: Request) -> None:
        if request.action == "move" and request.path.endswith("_metadata") and request.done is done:
            raise OSError(errno.EIO, "no move")

    programme.fault = fault
    write = Write("faulty://host/new", end=20)
    if done:
        write.run()
    else:
        with pytest.raises(sp.WriteError, match="no move") as caught:
            write.run()
        assert "the storage has not said whether" in str(caught.value.__notes__)
    programme.fault = no_fault
    assert visible(write) == (COMPLETE if done else NOTHING)
    check_second_write(write, visible(write))


def test_metadata_that_appears_late(programme: Programme, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write has already failed, but the visible savepoint is complete."""
    write = Write("faulty://host/new", end=20)
    with monkeypatch.context() as patched:
        patched.setattr(storage, "_ANSWER_SECONDS", 0.5)
        programme.fault, released = hanging("move", "_metadata")
        with pytest.raises(sp.WriteError, match="the storage has not answered for"):
            write.run()
    assert visible(write) == NOTHING
    release(released)
    assert visible(write) == COMPLETE
    programme.fault = no_fault
    check_second_write(write, COMPLETE)


def test_marks_that_cannot_be_read_are_not_taken_for_those_of_the_dead(programme: Programme) -> None:
    """A write that begins takes nothing away from one that goes on, even if storage fails at its mark."""
    write = Write("faulty://host/new", end=20)
    sink = write.begun()
    [mark] = names(write.target)

    def fault(request: Request) -> None:
        if request.action == "open" and request.path.endswith(mark) and not request.done:
            raise OSError(errno.EIO, "no open")

    programme.fault = fault
    Write(write.target).begun()
    assert mark in names(write.target)
    programme.fault = no_fault
    sink.abort([])


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("place", ["local", "remote"])
def test_a_disk_that_is_full(programme: Programme, tmp_path: Path, place: str, overwrite: bool) -> None:
    """After some write the storage is full; existing files can be removed.

    Each write is the last in both places, and with and without a savepoint that is replaced.
    """
    for last in in_turn((0, 1, 5, 15, 25, 26, 27), (place == "remote") + overwrite):
        target = str(tmp_path / f"{last}") if place == "local" else f"faulty://host/{last}"
        write, before = Write(target, end=20), None
        if overwrite:
            before, write = replace(write, first=20, end=30), replace(write, overwrite=True)
            before.run()
            files = names(target)
        count = 0

        def full(request: Request, last: int = last) -> None:
            nonlocal count
            if request.action == "write" and not request.done:
                count += 1
                if count > last:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        programme.fault = full
        with pytest.raises(sp.WriteError, match="No space left on device"):
            write.run()
        programme.fault = no_fault
        assert visible(write, before) == (REPLACED if overwrite else NOTHING)
        assert names(target) == (files if overwrite else set())
        check_second_write(write, NOTHING)


@pytest.mark.parametrize("there", [False, True])
def test_a_directory_that_cannot_be_written_to(programme: Programme, tmp_path: Path, there: bool) -> None:
    target = tmp_path / "new"
    write = Write(str(target), end=20)
    if there:
        target.mkdir()

    def read_only(request: Request) -> None:
        if request.action in (*CHANGES, "remove") and not (there and request.action == "make"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    programme.fault = read_only
    with pytest.raises(sp.WriteError, match=f"{target}.*Read-only file system"):
        write.run()
    programme.fault = no_fault
    assert names(str(target)) == set()
    check_second_write(write, NOTHING)


def _limited() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))


def test_files_that_the_kernel_limits(tmp_path: Path) -> None:
    """The kernel returns the error in the middle of a file."""
    write = Write(str(tmp_path / "new"), end=3000)
    program = f"from tests.faults.writes import Write; Write({write.target!r}, end=3000).run()"
    done = subprocess.run(
        # -B: Python does not notice that the limit cuts a compiled module off, which later processes could not import
        [sys.executable, "-B", "-c", program],
        preexec_fn=_limited,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 1
    assert "File too large" in done.stderr.splitlines()[-1]
    assert "WriteError" in done.stderr.splitlines()[-1]
    assert not Path(write.target).exists()
    write.run()
    check_complete(write)


@pytest.mark.parametrize("base", ["orders-hashmap-canonical", "orders-rocksdb-native"])
def test_scratch_space_that_the_kernel_limits(base: str, tmp_path: Path) -> None:
    """Tables of a new store fail, and tables of changes."""
    arguments = [str(SNAPSHOTS[base]), str(tmp_path), *map(str, STORE_LIMITS)]
    done = subprocess.run(
        [sys.executable, "-B", "-m", "tests.faults.limited_store", *arguments],
        env=os.environ | {DIRECTORY_VARIABLE: str(tmp_path / "scratch")},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    *failures, last = done.stdout.splitlines()
    assert len(failures) == len(STORE_LIMITS)
    for failure in failures:
        where = r"ScratchSpaceError operator orders, subtask \d: files of RocksDB can't be written to .*"
        assert re.match(where + r": .*File too large", failure)
    assert last == "written"
    assert {path.name for path in tmp_path.iterdir()} == {"scratch", "last"}
    assert [path for path in (tmp_path / "scratch").rglob("*") if path.is_file() and path.name != "lock"] == []
    assert totals(str(tmp_path / "last")) == {key: value for key, value in TOTALS.items() if key != "amelia"}
