"""Reads that end early at random places: by closing, by an error of a thread, or by their consumer."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import state_processor as sp
from state_processor.backends.files import ordered_threads
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.snapshot_checks import ValueCheck
from state_processor.support.locks import process_lock
from tests.backends.files.test_ordered_threads import no_threads_left, readers
from tests.corpus import FIXTURES

pytestmark = pytest.mark.usefixtures("short_collections")

PATHS = {
    name: str(next((FIXTURES / "2.3.0" / name).rglob("_metadata")).parent)
    for name in ("orders-hashmap-canonical", "orders-rocksdb-native")
}


class Cancelled(BaseException):
    """An error that no code expects."""


class Parts:
    """The parts that threads read. ``failing`` results after the first, a thread has an error."""

    def __init__(self, failing: int | None) -> None:
        self.started: Counter[tuple[int, int]] = Counter()
        self.has_failed = False
        self._failing = failing
        self.results = 0
        self._reads = 0
        self._lock = process_lock()
        self._original = ordered_threads._read_in_threads

    def read_in_threads(self, read: Callable[[Any], Iterable[Any]], parts: Any, count: int, watched: Any) -> Iterator[Any]:
        self._reads += 1
        number = self._reads

        def noted(part: int) -> Iterator[Any]:
            with self._lock:
                self.started[number, part] += 1
            for result in read(parts[part]):
                with self._lock:
                    self.results += 1
                    fails = self._failing is not None and self.results > self._failing
                    self.has_failed |= fails
                if fails:
                    raise Cancelled
                yield result

        numbers = range(len(parts))
        return self._original(
            noted, numbers, count, lambda _: (number for number, _ in zip(numbers, watched(parts), strict=True))
        )


@contextmanager
def in_many_parts(failing: int | None = None) -> Iterator[Parts]:
    """Read small parts in threads, and wait for the end of the threads."""
    parts = Parts(failing)
    sizes = {"PART_BYTES": 1000, "_SMALL": 0, "_BUFFER_BYTES": 1000}
    with mock.patch.multiple(ordered_threads, _read_in_threads=parts.read_in_threads, **sizes):
        yield parts
    gc.collect()  # an iterator in the frames of an error is closed with the error
    no_threads_left()
    assert parts.started
    assert set(parts.started.values()) == {1}, "a part was read twice"


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    return table.to_pylist()


def values_of(path: str) -> tuple[int, list[str]]:
    check = ValueCheck()
    check.check(replace(open_snapshot(path), threads=3))
    return check.rows, check.problems


CANONICAL = PATHS["orders-hashmap-canonical"]
ESTIMATES = ["bytes_read", "bytes_stored"]  # sums over parts, whose sizes are rounded
COMPARED: dict[str, Any] = {"full": True, "threads": 3}
ROWS: dict[str, Callable[[str], sp.arrow.Rows]] = {
    "a state": lambda path: sp.arrow.read_state(path, "orders", "total", metadata=True, threads=3),
    "a map": lambda path: sp.arrow.read_state(path, "orders", "items", threads=3),
    "an operator": lambda path: sp.arrow.read_state(path, "orders", threads=3),
    "differences": lambda path: sp.arrow.diff(CANONICAL, path, "orders", "total", **COMPARED),
}
ANSWERS: dict[str, Callable[[str], Any]] = {
    "sizes": lambda path: rows_of(sp.arrow.size_report(path, "orders", by="key", threads=3)),
    "texts": lambda path: rows_of(sp.find(path, text="teapot", threads=3).table),
    "differences": lambda path: rows_of(sp.arrow.diff_summary(CANONICAL, path, "orders", **COMPARED).drop_columns(ESTIMATES)),
    "values": values_of,
}


def batches_of(rows: sp.arrow.Rows) -> list[dict[str, Any]]:
    return [row for batch in rows for row in batch.to_pylist()]


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("what", ROWS)
@settings(deadline=None, max_examples=4)
@given(st.data())
def test_rows_that_end_early(what: str, name: str, data: st.DataObject) -> None:
    read = ROWS[what]
    expected = batches_of(read(PATHS[name]))
    failing = data.draw(st.none() | st.integers(0, 12), "results before an error")
    stop = data.draw(st.integers(0, 12), "batches")
    way = data.draw(st.sampled_from(["close", "drop", "interrupt", "another read", "read on"]))
    with in_many_parts(failing) as parts:
        rows = read(PATHS[name])
        taken: list[dict[str, Any]] = []
        try:
            for _ in range(stop):
                taken += next(rows).to_pylist()
            if way == "close":
                rows.close()
            elif way == "interrupt":
                raise KeyboardInterrupt
            elif way == "another read":
                assert batches_of(read(PATHS[name])) == expected
            if way in ("another read", "read on"):
                taken += batches_of(rows)
                assert len(taken) == len(expected)
        except Cancelled:
            assert parts.has_failed
            if way != "another read":  # which may be the one with the error
                with pytest.raises(sp.StateProcessorError, match="ended with Cancelled"):
                    next(rows)
        except (KeyboardInterrupt, StopIteration):
            pass
        assert taken == expected[: len(taken)]
        del rows
        parts.started[0, 0] = 1  # nothing starts before the first batch is asked for
    assert batches_of(read(PATHS[name])) == expected


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("what", ANSWERS)
def test_an_error_in_a_thread_ends_a_question(what: str, name: str) -> None:
    ask = ANSWERS[what]
    expected = ask(PATHS[name])
    with in_many_parts() as whole:
        assert ask(PATHS[name]) == expected
    assert whole.results
    for failing in range(min(whole.results, 3)):
        with in_many_parts(failing) as parts, pytest.raises(Cancelled):
            ask(PATHS[name])
        assert not readers()
        assert len(parts.started) <= len(whole.started)
    assert ask(PATHS[name]) == expected
