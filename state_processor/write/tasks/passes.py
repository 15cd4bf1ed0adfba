"""The two passes of a write, and engines, which run them: the interface.

An engine gets rows, and tasks: callables over Arrow batches that can be pickled. It returns the results of the tasks. Pass 1
encodes rows, and parts of the source savepoint, to blobs. Pass 2 writes a file for each subtask from its blobs.

Each task of pass 1 lists its blobs in an index file, and pass 2 finds the blobs of a subtask by these files. Locations of blobs
do not go through Spark's shuffle. Spark recomputes shuffled rows that it loses together with an executor, and requires the same
rows again; names of files differ from attempt to attempt. Results of tasks are kept on the driver, whatever happens to the
executor, and each partition counts once, so that the order of its rows may differ between attempts.
"""

from __future__ import annotations

import io
import os
import pickle
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.files.changes import FileSink
from state_processor.backends.files.storage import Storage, StoredFile
from state_processor.backends.formats.row_shapes import concatenate
from state_processor.backends.write.entry_encoder import BLOB_ORDER, DEALT, ORDERED_BLOBS, Blob, with_file_numbers
from state_processor.backends.write.staging import Staging
from state_processor.backends.write.tombstones import ChangeCounts
from state_processor.support.late import pc

if TYPE_CHECKING:
    from state_processor.backends.metadata.snapshot import Snapshot
    from state_processor.options.access import SnapshotAccess
    from state_processor.read.scans import StateRequest
    from state_processor.write.rows.row_protocol import Rows

SPILLED_BLOBS: Final = pa.schema(
    [
        *(field for field in ORDERED_BLOBS if field.name != "blob"),
        pa.field("blob", pa.binary()),
        pa.field("file", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("size", pa.int64()),
    ]
)
"""Blobs between the passes: their bytes, or the file that has them, with offset and size.

``file`` is the name of a file of the write, or the absolute path of a file in scratch space.
"""

BLOB_INDEXES: Final = pa.schema(
    [
        pa.field("index_file", pa.string(), nullable=False),
        pa.field("subtasks", pa.list_(pa.int32()), nullable=False),
        pa.field("sizes", pa.list_(pa.int64()), nullable=False),
    ]
)
"""Result of a task of pass 1: its index file, the numbers of the files that its blobs belong to, ascending, and their bytes."""

_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")
_OPEN_FILES: Final = 128
_OF_ALL_OPERATORS: Final = "0" * 8
"""Stands for the operator in names of files that belong to several operators."""


@dataclass(frozen=True)
class BlobIndex:
    """The index file of one task; ``subtasks`` and ``sizes`` as in :data:`BLOB_INDEXES`."""

    file: str
    subtasks: tuple[int, ...]
    sizes: tuple[int, ...]

    def read(self, subtask: int, staging: Staging) -> list[pa.RecordBatch]:
        """Read the rows of one subtask, :data:`SPILLED_BLOBS`."""
        place = bisect_left(self.subtasks, subtask)
        if place == len(self.subtasks) or self.subtasks[place] != subtask:
            return []
        with pa.PythonFile(FileStream(read_between_passes(staging, self.file)), mode="r") as source:
            return [pa.ipc.open_file(source).get_batch(place)]


def blob_indexes(rows: Iterable[pa.RecordBatch]) -> list[BlobIndex]:
    """Return indexes from rows of :data:`BLOB_INDEXES`."""
    indexes: list[BlobIndex] = []
    for batch in rows:
        indexes += [BlobIndex(row["index_file"], tuple(row["subtasks"]), tuple(row["sizes"])) for row in batch.to_pylist()]
    return indexes


def write_index(table: pa.Table, staging: Staging) -> Iterator[pa.RecordBatch]:
    """Write an index file: a record batch for each subtask, in the order of ``subtasks`` of :data:`BLOB_INDEXES`.

    ``table``: blobs, as :data:`SPILLED_BLOBS`.

    Returns: one row of :data:`BLOB_INDEXES`, or nothing without blobs.
    """
    if not table.num_rows:
        return
    table = table.sort_by(BLOB_ORDER).combine_chunks()
    with file_between_passes(staging, "index") as (sink, name):
        buffer = pa.BufferOutputStream()
        subtasks, sizes = [], []
        with pa.ipc.new_file(buffer, SPILLED_BLOBS, options=_OPTIONS) as file:
            for subtask, blobs in split_by_subtask(table):
                subtasks.append(subtask)
                sizes.append(int(np.from_dlpack(blobs.column("size")).sum()))
                file.write_batch(blobs)
        sink.write(buffer.getvalue())
    index = {"index_file": name, "subtasks": subtasks, "sizes": sizes}
    yield pa.RecordBatch.from_pylist([index], BLOB_INDEXES)


def split_by_subtask(table: pa.Table) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Split a table that is sorted by subtask and has one chunk."""
    subtasks = np.from_dlpack(table.column("subtask").chunk(0))
    begin = 0
    while begin < len(subtasks):
        end = int(subtasks.searchsorted(subtasks[begin], side="right"))
        yield int(subtasks[begin]), table.slice(begin, end - begin).combine_chunks().to_batches()[0]
        begin = end


def fetch_blobs(batches: Iterable[pa.RecordBatch], staging: Staging) -> Iterator[Blob]:
    """Read the blobs of :data:`SPILLED_BLOBS` one by one."""
    files: dict[str, StoredFile] = {}
    for batch in batches:
        blobs = batch.column("blob")
        columns = ("key_group", "state", "phase", "count", "file", "offset", "size")
        rows = zip(*(batch.column(c).to_pylist() for c in columns), _totals(batch), strict=True)
        for i, (key_group, state, phase, count, name, offset, size, of_phase) in enumerate(rows):
            if name is None:
                data = np.frombuffer(blobs[i].as_buffer(), dtype=np.uint8)
            else:
                if name not in files and len(files) >= _OPEN_FILES:
                    files.clear()
                file = files.setdefault(name, read_between_passes(staging, name))
                data = np.frombuffer(file.read(offset, size), dtype=np.uint8)
            yield Blob(key_group, state, phase, count, data, of_phase)


def _totals(blobs: pa.RecordBatch) -> list[tuple[int, int]]:
    """Return, for each of sorted blobs, the number and bytes of the entries of its key group, state and phase."""
    if not blobs.num_rows:
        return []
    firsts = _first_blobs(blobs, "key_group", "state", "phase")
    sums = (np.add.reduceat(blobs.column(name).to_numpy(), firsts, dtype=np.int64) for name in ("count", "size"))
    lengths = np.diff(firsts, append=blobs.num_rows)
    return list(zip(*(np.repeat(numbers, lengths).tolist() for numbers in sums), strict=True))


def _first_blobs(blobs: pa.RecordBatch | pa.Table, *columns: str) -> npt.NDArray[np.int64]:
    """Return the lines of sorted blobs, at least one, that have other values than the line before."""
    changes = np.zeros(blobs.num_rows - 1, dtype=bool)
    for column in columns:
        changes |= np.diff(blobs.column(column).to_numpy()) != 0
    return np.append(0, np.flatnonzero(changes) + 1)


@contextmanager
def file_between_passes(staging: Staging, purpose: str) -> Iterator[tuple[FileSink, str]]:
    """Open a new file that pass 2 reads, and return it with the name for :func:`read_between_passes`."""
    if staging.scratch is None:
        with staging.new_file(_OF_ALL_OPERATORS, purpose, 0) as sink:
            yield sink, sink.name
        return
    path = os.path.join(staging.scratch, f"{purpose}-{uuid4().hex}")
    with closing(FileSink(Storage(), path)) as sink:
        yield sink, path


def read_between_passes(staging: Staging, name: str) -> StoredFile:
    """Open a file that pass 1 has written."""
    return Storage().open(name) if os.path.isabs(name) else staging.file(name)


class FileStream(io.RawIOBase):
    """A file as a Python stream, for pyarrow.

    ``file``: the file. Reads raise its errors.
    """

    def __init__(self, file: StoredFile) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position, and return it."""
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._file.size}[whence]
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Return ``size`` bytes, or fewer at the end of the file."""
        remaining = max(0, self._file.size - self._position)
        data = bytes(self._file.read(self._position, remaining if size < 0 else min(size, remaining)))
        self._position += len(data)
        return data


_KEY_BYTES: Final = 64
"""Memory for each key of a key group: keys that occur twice are found by a table, or by sorting."""

Batches = Iterable[pa.RecordBatch]
Task = Callable[[Batches], Iterator[pa.RecordBatch]]

TASK_RESULTS: Final = pa.schema(
    [
        pa.field("number", pa.int32(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
    ]
)
"""Results of tasks, by number of the part or file: a pickled value."""


class SourcePart(Protocol):
    """Part of the source savepoint; it can be pickled."""

    @property
    def size(self) -> int:
        """Bytes to read."""


@dataclass(frozen=True)
class RunParts:
    """Task that returns a result for each part. Input rows are numbers of ``groups``, which consist of numbered parts."""

    task: Callable[[Any], Any]
    groups: tuple[tuple[tuple[int, Any], ...], ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the results, :data:`TASK_RESULTS`."""
        for group in part_numbers(batches):
            for number, part in self.groups[group]:
                yield task_result(number, self.task(part))


def part_numbers(batches: Batches) -> Iterator[int]:
    """Yield the numbers of parts that a task is given: the values of the first column."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def task_result(number: int, value: Any) -> pa.RecordBatch:
    """Return a row of :data:`TASK_RESULTS`."""
    columns = [pa.array([number], pa.int32()), pa.array([pickle.dumps(value)], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=TASK_RESULTS)


def results_by_number(batches: Batches) -> dict[int, Any]:
    """Return the values of :data:`TASK_RESULTS`; of a task that ran more than once, one attempt."""
    values = {}
    for batch in batches:
        for row in batch.to_pylist():
            values[row["number"]] = pickle.loads(row["value"])
    return values


_BATCH_BYTES: Final = 32 << 20
_BATCH_ROWS: Final = 1 << 19

BatchEncoder = Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]]
"""Encodes the batches of a task one after the other, to :data:`~state_processor.backends.write.entry_encoder.ORDERED_BLOBS`."""


class RowEncoder(Protocol):
    """Encodes rows for the files of one operator; it can be pickled."""

    def encoder(self) -> BatchEncoder:
        """Return a function that encodes the batches of a task."""


PartEncoder = Callable[[Any], Iterator[pa.RecordBatch]]
"""Encodes a part for the files of one operator; it can be pickled."""


@dataclass(frozen=True)
class FirstPass:
    """Pass 1: a task that encodes blobs, stores their bytes, and indexes them.

    If the savepoint is in a local file system, the bytes are written to a file there. An object store is too slow for many small
    reads: there the bytes stay with the blobs.
    """

    encode: Task  # the source of blobs: a task that yields :data:`~state_processor.backends.write.entry_encoder.ORDERED_BLOBS`
    staging: Staging  # the write
    spills: bool = True  # whether the bytes are written to a file of the write
    # whether the blobs are written to an index file. If not, the task yields them, for an engine that shuffles them itself.
    indexes: bool = True

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield :data:`~state_processor.write.tasks.passes.BLOB_INDEXES`, or ``SPILLED_BLOBS`` without indexes."""
        if not self.indexes:
            return self._blobs(batches)
        return write_index(pa.Table.from_batches(self._blobs(batches), SPILLED_BLOBS), self.staging)

    def _blobs(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        sink: FileSink | None = None
        with ExitStack() as stack:
            for blobs in self.encode(batches):
                column = blobs.column("blob")
                if not self.spills:
                    yield _spilled(blobs, column, None, np.zeros(len(column), dtype=np.int64))
                    continue
                if sink is None:
                    sink, name = stack.enter_context(file_between_passes(self.staging, "shuffle"))
                bounds = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
                offsets = bounds[:-1].astype(np.int64) - bounds[0] + sink.size
                if bounds[-1] > bounds[0]:
                    sink.write(memoryview(column.buffers()[2])[bounds[0] : bounds[-1]])
                yield _spilled(blobs, pa.nulls(len(column), pa.binary()), name, offsets)


def _spilled(blobs: pa.RecordBatch, data: pa.Array, file: str | None, offsets: npt.NDArray[np.int64]) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {name: blobs.column(name) for name in ORDERED_BLOBS.names}
    sizes = pc.binary_length(columns["blob"]).cast(pa.int64())
    columns["blob"] = data
    count = blobs.num_rows
    columns["file"] = pa.repeat(pa.scalar(file, pa.string()), count)
    columns["offset"] = pa.array(offsets)
    columns["size"] = sizes
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=SPILLED_BLOBS)


class TableEncoding(NamedTuple):
    """Names of the columns of a table, and its encoders with the number of the first file that each encodes for."""

    columns: tuple[str, ...]
    encoders: tuple[tuple[int, RowEncoder], ...]


@dataclass(frozen=True)
class EncodeTables:
    """Source of blobs: rows of one or several tables.

    Of several tables, whose columns have the same types, the first column is the number of the table.
    """

    tables: tuple[TableEncoding, ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of a task's rows."""
        encoders: dict[int, list[tuple[int, BatchEncoder]]] = {}
        for batch in merge_batches(batches):
            for number, rows in self._rows(batch):
                if number not in encoders:
                    encoders[number] = [(first, encoder.encoder()) for first, encoder in self.tables[number].encoders]
                for first, encode in encoders[number]:
                    for blobs in encode(rows):
                        yield with_file_numbers(blobs, first)

    def _rows(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows of each table, with its number."""
        if len(self.tables) == 1:
            yield 0, batch.rename_columns(self.tables[0].columns)
            return
        tables = batch.column(0)
        for number in pc.unique(tables).to_pylist():
            rows = batch.filter(pc.equal(tables, number))
            yield number, pa.RecordBatch.from_arrays(rows.columns[1:], names=list(self.tables[number].columns))


@dataclass(frozen=True)
class EncodeParts:
    """Source of blobs: parts of the source savepoint.

    Input rows are numbers of ``groups``, which consist of parts and the indexes of their encoders. Each encoder has the number of
    the first file that it encodes for.
    """

    encoders: tuple[tuple[int, PartEncoder], ...]
    groups: tuple[tuple[tuple[int, Any], ...], ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of groups."""
        for number in part_numbers(batches):
            for index, part in self.groups[number]:
                first, encode = self.encoders[index]
                for blobs in encode(part):
                    yield with_file_numbers(blobs, first)


def merge_batches(batches: Batches, most_bytes: int = _BATCH_BYTES, most_rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Merge small batches: each batch becomes one blob per key group, and few large blobs are cheaper than many small ones."""
    held: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        if not batch.num_rows:  # pyarrow does not concatenate empty columns whose conversion kept the offset of a slice
            continue
        held.append(batch)
        size += batch.nbytes
        rows += batch.num_rows
        if size >= most_bytes or rows >= most_rows:
            merged, held, size, rows = concatenate(held), [], 0, 0
            del batch  # the merged one alone is held while it is encoded
            yield merged
    if rows:
        yield concatenate(held)


@dataclass(frozen=True)
class WrittenFile:
    """File of one subtask: its handle, the number of entries, and by state the changes to the source savepoint."""

    handle: Any
    entries: int
    changes: Mapping[str, ChangeCounts] = field(default_factory=dict)


class SubtaskWriter(Protocol):
    """Writer of the file of one subtask; it can be pickled."""

    @property
    def deals(self) -> bool:
        """Whether every subtask takes its share of the blobs of the first subtask that have to be dealt."""

    def __call__(self, subtask: int, blobs: Batches, staging: Staging) -> WrittenFile:
        """Write the file from its blobs. They are in the order of ``BLOB_ORDER``, except for their subtask."""


@dataclass(frozen=True)
class SecondPass:
    """Pass 2: a task that writes files. Input rows are numbers of ``groups``, which consist of the numbers of files."""

    # the writer of each operator's files with the number of its first file, ascending
    writers: Sequence[tuple[int, SubtaskWriter]]
    staging: Staging
    indexes: Sequence[BlobIndex] = ()  # the indexes that tasks of pass 1 have written
    groups: tuple[Sequence[int], ...] = ()
    # reserves so many bytes of memory for the writer of a file, beside other writers of this process
    memory: Callable[[int], AbstractContextManager[Any]] = nullcontext

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield a result for each file, :data:`~state_processor.write.tasks.passes.TASK_RESULTS`."""
        for number in chain.from_iterable(self.groups[group] for group in part_numbers(batches)):
            self.staging.check_open()
            first, write = self._writer(number)
            blobs = self._blobs(number)
            if write.deals and number != first:
                dealt = self._blobs(first)
                blobs = pa.concat_tables([blobs, dealt.filter(pc.equal(dealt.column("key_group"), DEALT))])
            blobs = blobs.sort_by(BLOB_ORDER[1:])
            with self.memory(_working_bytes(blobs)):
                result = self.write_file(number, blobs.to_batches())
            yield result

    def _blobs(self, number: int) -> pa.Table:
        batches: list[pa.RecordBatch] = []
        for index in self.indexes:
            batches += index.read(number, self.staging)
        return pa.Table.from_batches(batches, SPILLED_BLOBS)

    def write_file(self, number: int, blobs: Batches) -> pa.RecordBatch:
        """Write the file with a number from its sorted blobs; return its result."""
        first, write = self._writer(number)
        return task_result(number, write(number - first, blobs, self.staging))

    def _writer(self, number: int) -> tuple[int, SubtaskWriter]:
        """Return the number of the first file of an operator, and the writer of its files."""
        return self.writers[bisect_right(self.writers, number, key=itemgetter(0)) - 1]


def _working_bytes(blobs: pa.Table) -> int:
    """Estimate the memory that the writer of sorted blobs takes: a key group of a state at a time, and a place for each key."""
    if not blobs.num_rows:
        return 0
    entries, sizes = (blobs.column(name).to_numpy().astype(np.int64) for name in ("count", "size"))
    return int(np.add.reduceat(sizes + _KEY_BYTES * entries, _first_blobs(blobs, "key_group", "state")).max())


Written = dict[int, WrittenFile]
"""The files by subtask: of a task that ran more than once, one attempt."""


@dataclass(frozen=True)
class RowsPass:
    """Pass 1 over some columns of rows: :class:`~state_processor.write.rows.row_protocol.Rows` of the engine's kind."""

    rows: Any
    columns: Sequence[str]
    encode: RowEncoder

    @property
    def task(self) -> EncodeTables:
        """The source of blobs for an engine that encodes these rows alone."""
        return EncodeTables((TableEncoding(tuple(self.columns), ((0, self.encode),)),))


@dataclass(frozen=True)
class PartsPass:
    """Pass 1 over parts of the source savepoint."""

    parts: Sequence[SourcePart]
    encode: PartEncoder


@dataclass(frozen=True)
class StateFiles:
    """The files of one operator's keyed or operator state, one for each subtask, and the passes that write them.

    ``copied`` is the size of the files of the source savepoint that are copied or read; ``None`` if they contain all entries.
    """

    rows: Sequence[RowsPass]
    parts: Sequence[PartsPass]
    parallelism: int
    write: SubtaskWriter
    copied: int | None = None


class Engine(Protocol):
    """Runs tasks. Each engine encodes its own kind of rows."""

    def run_parts(self, parts: Sequence[SourcePart], task: Callable[[Any], Any]) -> list[Any]:
        """Return the results of ``task`` for each part."""

    def copy_files(self, parts: Sequence[SourcePart], task: Callable[[Any], Any]) -> list[Any]:
        """Return the results of ``task``, which copies files, for each part."""

    def write_files(self, files: Sequence[StateFiles], staging: Staging) -> list[Written]:
        """Run both passes over all files of a write, in as few jobs as possible."""

    def cancel(self) -> None:
        """Stop the running tasks, for a process that ends."""


class WriterEngine(Engine, Protocol):
    """Engine of a writer: what writers with Spark and without it do differently."""

    def rows(self, source: Any, *columns: str) -> Rows:
        """Return rows that a user gives, as the engine encodes them.

        ``columns``: columns that they may have. Sessions of Spark that ignore case accept other spellings of these.
        """

    def read(self, snapshot: Snapshot, access: SnapshotAccess, request: StateRequest) -> Rows:
        """Return the rows of a keyed state of a snapshot."""

    def access_to(self, path: str | PathLike[str], access: SnapshotAccess) -> SnapshotAccess:
        """Return the options of access to a path, which may be in other storage than the source savepoint."""

    def errors(self) -> AbstractContextManager[None]:
        """Return a context that raises errors of the engine as errors of this library."""
