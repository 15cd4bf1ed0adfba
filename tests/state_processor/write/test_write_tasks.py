"""Tasks of a write that come too late, blobs and their places, entries that give way; without Spark."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.backends.files import ordered_threads
from state_processor.backends.state.descriptions import keyed_header, register
from state_processor.backends.write.entry_encoder import BLOB_ORDER
from state_processor.backends.write.keyed_writer import KeyedStateWriter
from state_processor.backends.write.staging import Staging
from state_processor.backends.write.tombstones import ChangeCounts
from state_processor.spark.task_errors import translated
from state_processor.write.tasks import local_engine
from state_processor.write.tasks.local_engine import EncodedRows, LocalEngine
from state_processor.write.tasks.passes import (
    SPILLED_BLOBS,
    Batches,
    EncodeTables,
    FirstPass,
    RowsPass,
    StateFiles,
    TableEncoding,
    WrittenFile,
    blob_indexes,
    merge_batches,
    split_by_subtask,
)
from state_processor.write.tasks.state_tasks import EncodeRows, KeyedTarget, StateColumns, WriteKeyedState, header_bytes

COLUMNS = {"key": "key", "value": "value"}


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    found = Staging(str(tmp_path / "new"), "abcdef12")
    found.prepare()
    return found


def target(parallelism: int = 2, max_parallelism: int = 128) -> KeyedTarget:
    key = sp.Types.LONG()
    header = keyed_header(key, [register(sp.ValueState(sp.Types.STRING()).describe("name", key))])
    return KeyedTarget("0" * 32, "operator people", header_bytes(header), 2, parallelism, max_parallelism)


def batch(keys: list[int], values: list[str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"key": pa.array(keys, pa.int64()), "value": pa.array(values, pa.string())})


def encode_rows(target: KeyedTarget, state: StateColumns) -> EncodeTables:
    return EncodeTables((TableEncoding(tuple(COLUMNS), ((0, EncodeRows(target, (state,))),)),))


def write_all(blobs: list[pa.Table], write: WriteKeyedState, staging: Staging) -> dict[int, int]:
    """The entries that each subtask has written."""
    parts = dict(split_by_subtask(pa.concat_tables(blobs).sort_by(BLOB_ORDER).combine_chunks()))
    subtasks = range(write.target.parallelism)
    return {subtask: write(subtask, [parts[subtask]] if subtask in parts else [], staging).entries for subtask in subtasks}


def names(staging: Staging) -> list[str]:
    return [entry.name for entry in staging.storage.list(staging.directory)]


def test_a_file_is_gone_after_a_failure(staging: Staging) -> None:
    def fail() -> None:
        with staging.new_file("0" * 32, "keyed", 0) as sink:
            sink.write(b"half")
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        fail()
    assert names(staging) == ["abcdef12-open"]


def test_tasks_that_were_left_behind_leave_nothing(staging: Staging) -> None:
    def come_late() -> None:
        with staging.new_file("0" * 32, "keyed", 0) as sink:
            sink.write(b"late")
            staging.remove_all_but(())

    with pytest.raises(sp.WriteError, match="is over"):
        come_late()
    with pytest.raises(sp.WriteError, match="is over"):
        staging.new_file("0" * 32, "keyed", 0)
    assert names(staging) == []


def test_tasks_leave_nothing_that_an_abort_has_not_seen(staging: Staging) -> None:
    """The file appears after the abort has listed the directory, so the directory is not empty when it would be removed."""
    in_between = Path(staging.directory, "in-between")
    in_between.touch()

    def come_late() -> None:
        with staging.new_file("0" * 32, "keyed", 0) as sink:
            staging.abort()
            sink.write(b"late")
            in_between.unlink()

    with pytest.raises(sp.WriteError, match="is over"):
        come_late()
    assert not Path(staging.directory).exists()


@pytest.mark.parametrize("in_files", [True, False])
def test_blobs_and_their_index_are_not_left_after_an_abort(staging: Staging, in_files: bool) -> None:
    foreign = Path(staging.directory, "foreign")
    foreign.touch()
    encode = encode_rows(target(), StateColumns(0, COLUMNS))

    def overtaken(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from encode(batches)
        staging.abort()

    task = FirstPass(overtaken, staging, spills=in_files)
    with pytest.raises(sp.WriteError, match="is over"):
        list(task([batch([1, 2], ["a", None])]))
    assert names(staging) == ["foreign"]


def test_attempts_of_a_subtask_do_not_meet(staging: Staging) -> None:
    with staging.new_file("0" * 32, "keyed", 0) as one, staging.new_file("0" * 32, "keyed", 0) as other:
        assert one.name != other.name


@pytest.mark.parametrize("in_files", [True, False])
def test_both_passes_in_one_process(staging: Staging, in_files: bool) -> None:
    encode = FirstPass(encode_rows(target(), StateColumns(0, COLUMNS)), staging, in_files, indexes=False)
    placed = pa.Table.from_batches(encode([batch([1, 2], ["a", None]), batch([3], ["c"])]), SPILLED_BLOBS)
    assert placed.column("blob").null_count == (len(placed) if in_files else 0)
    assert sum(write_all([placed], WriteKeyedState(target()), staging).values()) == 2


def test_runs_are_brought_together(staging: Staging) -> None:
    task = EncodeRows(target(), (StateColumns(0, COLUMNS),))
    encode = FirstPass(encode_rows(target(), StateColumns(0, COLUMNS)), staging)
    shares = [range(i, 1000, 3) for i in range(3)]
    runs = [index for share in shares for index in blob_indexes(encode([batch(list(share), [f"n{i}" for i in share])]))]
    assert [run.subtasks for run in runs] == [(0, 1)] * 3
    assert all(min(run.sizes) > 1000 for run in runs)
    assert blob_indexes(encode([batch([], [])])) == []
    rows = EncodedRows(batch([], []).schema, runs)
    files = StateFiles([RowsPass(rows, list(COLUMNS), task)], [], 2, WriteKeyedState(target()))
    (written,) = LocalEngine().write_files([files], staging)
    assert sorted(written) == [0, 1]
    assert sum(file.entries for file in written.values()) == 1000


def test_new_entries_take_the_place_of_old_ones(staging: Staging) -> None:
    t = target(1)
    old = FirstPass(encode_rows(t, StateColumns(0, COLUMNS)), staging, indexes=False)
    new = FirstPass(encode_rows(t, StateColumns(0, COLUMNS, "keys")), staging, indexes=False)
    carried = pa.Table.from_batches(old([batch(list(range(1000)), [f"n{i}" for i in range(1000)])]), SPILLED_BLOBS)
    phases = pa.array([1] * len(carried), pa.int32())
    carried = carried.set_column(3, SPILLED_BLOBS.field("phase"), phases)
    changed = pa.Table.from_batches(new([batch([5, 6, 7000], ["five", None, "new"])]), SPILLED_BLOBS)
    assert write_all([carried, changed], WriteKeyedState(t), staging) == {0: 1000}
    again = WriteKeyedState(t)(0, pa.concat_tables([carried, changed]).sort_by(BLOB_ORDER).to_batches(), staging)
    assert again.changes == {t.states[0].name: ChangeCounts(written=2, inserted=1, updated=1, deleted=1, absent=0)}


@dataclass
class WriteTogether:
    """A writer of files that waits until as many writers run as there are parties."""

    write: WriteKeyedState
    meeting: threading.Barrier
    deals: ClassVar = False

    def __call__(self, subtask: int, blobs: Batches, staging: Staging) -> WrittenFile:
        """Write a file."""
        self.meeting.wait()
        return self.write(subtask, blobs, staging)


def write_together(staging: Staging, parties: int, seconds: float, threads: int | None = 2) -> None:
    """Write two subtasks. A writer waits until all parties write."""
    encode = FirstPass(encode_rows(target(), StateColumns(0, COLUMNS)), staging)
    rows = EncodedRows(batch([], []).schema, blob_indexes(encode([batch(list(range(100)), ["n"] * 100)])))
    task = EncodeRows(target(), (StateColumns(0, COLUMNS),))
    together = WriteTogether(WriteKeyedState(target()), threading.Barrier(parties, timeout=seconds))
    LocalEngine(threads=threads).write_files([StateFiles([RowsPass(rows, list(COLUMNS), task)], [], 2, together)], staging)


def test_writers_share_memory(staging: Staging, monkeypatch: pytest.MonkeyPatch) -> None:
    write_together(staging, 2, seconds=60)
    monkeypatch.setattr(local_engine, "_WORKING_BYTES", 1)
    write_together(staging, 1, seconds=60)  # one after the other
    with pytest.raises(threading.BrokenBarrierError):
        write_together(staging, 2, seconds=0.2)


def test_a_writer_for_each_processor(staging: Staging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STATE_PROCESSOR_THREADS", raising=False)
    monkeypatch.setattr(ordered_threads, "_processors", lambda: 2)
    write_together(staging, 2, seconds=60, threads=None)
    monkeypatch.setattr(ordered_threads, "_processors", lambda: 1)
    write_together(staging, 1, seconds=60, threads=None)
    with pytest.raises(threading.BrokenBarrierError):
        write_together(staging, 2, seconds=0.2, threads=None)


def test_writers_know_how_many_entries_come(staging: Staging, monkeypatch: pytest.MonkeyPatch) -> None:
    """They make room for all entries of a key group, which come in several blobs."""
    expected: dict[tuple[int, int], list[tuple[int, int]]] = {}
    added: dict[tuple[int, int], list[tuple[int, int]]] = {}
    add = KeyedStateWriter.add

    def add_blob(self: KeyedStateWriter, key_group: int, state_id: int, blob: Any) -> None:
        before = self.entries
        expected.setdefault((key_group, state_id), []).append(self._expected)
        add(self, key_group, state_id, blob)
        added.setdefault((key_group, state_id), []).append((self.entries - before, len(blob)))

    monkeypatch.setattr(KeyedStateWriter, "add", add_blob)
    encode = FirstPass(encode_rows(target(), StateColumns(0, COLUMNS)), staging)
    indexes = [*blob_indexes(encode([batch(list(range(500)), ["name"] * 500)]))]
    indexes += blob_indexes(encode([batch(list(range(500, 1000)), ["name"] * 500)]))
    rows = EncodedRows(batch([], []).schema, indexes)
    task = EncodeRows(target(), (StateColumns(0, COLUMNS),))
    files = [StateFiles([RowsPass(rows, list(COLUMNS), task)], [], 2, WriteKeyedState(target()))]
    LocalEngine(threads=2).write_files(files, staging)
    assert {len(blobs) for blobs in added.values()} >= {2}
    for place, blobs in added.items():
        assert set(expected[place]) == {tuple(map(sum, zip(*blobs, strict=True)))}


def test_writers_do_not_wait_for_the_garbage_collector(staging: Staging, monkeypatch: pytest.MonkeyPatch) -> None:
    writers: list[weakref.ref[KeyedStateWriter]] = []
    begin = KeyedStateWriter._enter
    monkeypatch.setattr(KeyedStateWriter, "_enter", lambda self, place: [writers.append(weakref.ref(self)), begin(self, place)])
    encode = FirstPass(encode_rows(target(), StateColumns(0, COLUMNS)), staging, indexes=False)
    placed = pa.Table.from_batches(encode([batch([1, 2, 3], ["a", "b", "c"])]), SPILLED_BLOBS)
    gc.disable()
    try:
        write_all([placed], WriteKeyedState(target()), staging)
        assert writers
        assert {writer() for writer in writers} == {None}
    finally:
        gc.enable()


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_tasks_that_wait_do_not_run_after_a_failure(monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]) -> None:
    begun: list[int] = []
    ended = threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            ended.set()
            super().shutdown(wait=wait)

    def fail_first(number: int) -> None:
        begun.append(number)
        if number == 0:
            raise failure
        assert ended.wait(60)

    monkeypatch.setattr(local_engine, "ThreadPoolExecutor", Pool)
    with pytest.raises(failure):
        LocalEngine(threads=2).run_parts(range(100), fail_first)
    assert max(begun) <= 2


def test_small_batches_are_put_together() -> None:
    batches = [batch([i], ["x"]) for i in range(10)]
    assert [b.num_rows for b in merge_batches(batches, most_rows=4)] == [4, 4, 2]
    assert list(merge_batches([batch([], [])])) == []


def test_empty_batches_are_left_out() -> None:
    """An array of no elements can have an offset and no bytes: pyarrow does not concatenate it."""
    full = batch([1], ["x"])
    no_bytes = pa.py_buffer(b"")
    columns = [
        pa.Array.from_buffers(column.type, 0, [None] * bool(buffers) + [no_bytes] * (len(buffers) - 1), offset=3)
        for column in full.columns
        for buffers in [column.buffers()]
    ]
    empty = pa.RecordBatch.from_arrays(columns, schema=full.schema)
    assert [b.to_pylist() for b in merge_batches([empty, full, empty])] == [full.to_pylist()]


def test_rows_of_another_key_group(staging: Staging) -> None:
    placed = pa.Table.from_batches(
        FirstPass(encode_rows(target(), StateColumns(0, COLUMNS)), staging, indexes=False)([batch(list(range(50)), ["x"] * 50)]),
        SPILLED_BLOBS,
    )
    foreign = r"operator people, subtask 1: key group \d+ has come to the subtask of 64 to 127 \(state 'name', key \d+\)"
    with pytest.raises(sp.InvalidRowError, match=foreign):
        WriteKeyedState(target())(1, placed.sort_by("key_group").to_batches(), staging)
    assert not [n for n in names(staging) if "keyed" in n]


def test_errors_of_tasks_are_told_apart() -> None:
    text = "Traceback:\n  File x\nstate_processor.support.errors.InvalidRowError: key 1: bad\n\tat org.apache.Foo\n"
    found = translated(text)
    assert isinstance(found, sp.InvalidRowError)
    assert str(found) == "key 1: bad"
    assert translated("java.lang.OutOfMemoryError") is None


def test_workers_of_another_python_are_explained() -> None:
    text = "[PYTHON_DATA_SOURCE_ERROR] Traceback:\n  File x\nModuleNotFoundError: No module named 'state_processor'\n"
    found = translated(text)
    assert isinstance(found, sp.OptionError)
    assert "PYSPARK_PYTHON" in str(found)
    assert sys.executable in str(found)
