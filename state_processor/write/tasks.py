"""What tasks do while a savepoint is written: encode rows, write one subtask's files. No Spark, but made to run in its tasks.

Serializers do not travel: a task gets the header of the files to write, and restores them from it. So what is written is what
a reader of the header will read.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, cast
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from state_processor.backends.files.storage import StoredFile
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorSubtaskState
from state_processor.backends.read.keyed_splits import KeyedSplit
from state_processor.backends.state import meta_info as mi
from state_processor.backends.state.column_types import undescribed_as_bytes
from state_processor.backends.state.descriptions import StateDescription, describe_keyed
from state_processor.backends.state.hash_inference import HashRule, LearnedHash
from state_processor.backends.state.key_groups import range_of_subtask
from state_processor.backends.state.row_field_names import DeclaredNames, with_names
from state_processor.backends.write.canonical_writer import KeyedStateFileWriter
from state_processor.backends.write.copied_subtasks import copy_subtask
from state_processor.backends.write.entry_encoder import BLOB_SCHEMA, KEY, MAP_KEY, NAMESPACES, KeyedStateEncoder, KeyHash
from state_processor.backends.write.kryo_updates import Drafts, with_drafts
from state_processor.backends.write.pass_through import KeyedPassThrough
from state_processor.backends.write.staging import FileSink, Staging
from state_processor.backends.write.tombstones import TombstoneEncoder, Tombstones
from state_processor.portable_registrations import import_serializers
from state_processor.serializers.errors import OptionError, WriteError
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kryo import written_by_flink
from state_processor.serializers.kryo.arguments import declare
from state_processor.serializers.kryo.types import JavaType

if TYPE_CHECKING:
    from state_processor.serializers.core.pojo import PojoSerializer

MARKERS: Final = 0
"""The phase of keys whose entries of the base are left out."""
CARRIED: Final = 1
"""The phase of entries of the base."""
NEW: Final = 2
"""The phase of entries that replace them, or are added."""

PHASED_BLOBS: Final = BLOB_SCHEMA.append(pa.field("phase", pa.int32(), nullable=False))
"""Blobs in the order in which a subtask's file takes them: by key group, state and phase."""

PLACED_BLOBS: Final = pa.schema(
    [
        *(pa.field(n, pa.int32(), nullable=False) for n in ("subtask", "key_group", "state", "phase")),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("blob", pa.binary()),
        pa.field("file", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("size", pa.int64()),
    ]
)
"""Blobs between the passes: their bytes, or where in which file of the write they are."""

MESSAGES: Final = pa.schema(
    [
        pa.field("subtask", pa.int32(), nullable=False),
        pa.field("handle", pa.binary(), nullable=False),
        pa.field("entries", pa.int64(), nullable=False),
    ]
)
"""What a task that has written a subtask's file tells the driver: a pickled handle."""

_OPEN_FILES: Final = 128
_BATCH_BYTES: Final = 32 << 20
_BATCH_ROWS: Final = 1 << 19

Batches = Iterable[pa.RecordBatch]
Marks = Literal["", "keys", "entries"]


@dataclass(frozen=True)
class KeyedTarget:
    """The keyed state of one operator of the new savepoint; it can be pickled.

    Parameters
    ----------
    operator_id, label
        Of the operator; the label is for messages.
    header
        The header of its files, as bytes.
    flink_major
        The Flink that the header's serializers are of, which tells one Kryo from another.
    parallelism, max_parallelism
        Of the operator.
    serializers
        Modules to import, which register serializers of the user's own.
    hashing
        ``hashCode`` of keys, where the serializer does not know it: a function of a column, or rules that were learned.
    java_types
        By name of a state, the types of what Kryo writes in it: headers do not hold their type arguments.
    drafted
        The states of the base that rows change: what Kryo wrote of them is compared with what it wrote before.
    with_bytes
        Those of them whose rows have bytes for values of undescribed classes.
    """

    operator_id: str
    label: str
    header: bytes
    flink_major: int
    parallelism: int
    max_parallelism: int
    serializers: tuple[str, ...] = ()
    hashing: KeyHash | tuple[HashRule, ...] | None = None
    java_types: Mapping[str, tuple[JavaType, ...]] = field(default_factory=dict)
    drafted: frozenset[str] = frozenset()
    with_bytes: frozenset[str] = frozenset()

    def open_header(self) -> mi.KeyedHeader:
        """The header with its serializers."""
        import_serializers(self.serializers)
        with written_by_flink(self.flink_major):
            return mi.KeyedHeader.read(DataInput(self.header, f"{self.label}, header"))

    @cached_property
    def states(self) -> tuple[StateDescription, ...]:
        """The states by their ids."""
        header = self.open_header()
        states = tuple(describe_keyed(header, meta) for meta in header.states)
        for state in states:
            declare(self.java_types.get(state.name, ()), state)
        return tuple(undescribed_as_bytes(state) if state.name in self.with_bytes else state for state in states)

    @property
    def ids(self) -> dict[str, int]:
        """The ids of states by name."""
        return {state.name: i for i, state in enumerate(self.states)}

    @property
    def key_hash(self) -> KeyHash | None:
        """The function that gives ``hashCode`` of a column of keys, if the serializer does not."""
        if not isinstance(self.hashing, tuple):
            return self.hashing
        key = self.open_header().key.restore_serializer()
        return LearnedHash(cast("PojoSerializer", key), self.hashing, self.max_parallelism)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "states"}


def header_bytes(header: mi.KeyedHeader | mi.OperatorHeader) -> bytes:
    """A header as it stands in files."""
    target = DataOutput()
    header.write(target)
    return target.to_bytes()


@dataclass(frozen=True)
class StateColumns:
    """From which columns of the rows a state is written.

    ``columns`` maps the names that :mod:`~state_processor.backends.write.entry_encoder` knows to columns. ``marks`` tells which
    entries of the base give way: none, those of the same ``keys`` (also where the value is null), or the same ``entries`` of a
    map. ``names`` are those of the fields of rows, which headers do not hold.
    """

    state_id: int
    columns: Mapping[str, str]
    marks: Marks = ""
    names: DeclaredNames = field(default_factory=dict)


@dataclass(frozen=True)
class EncodeRows:
    """Pass 1 over rows: entries of one or several states as blobs of :data:`PHASED_BLOBS`."""

    target: KeyedTarget
    states: tuple[StateColumns, ...]
    last_access: int = 0

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """The blobs of a task's rows."""
        encoders: dict[int, Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]]] = {}
        for batch in merged(batches):
            for number, state in enumerate(self.states):
                rows = pa.RecordBatch.from_arrays([batch.column(c) for c in state.columns.values()], names=list(state.columns))
                if number not in encoders:
                    encoders[number] = self._encoder(state, rows.schema)
                yield from encoders[number](rows)

    def _encoder(self, state: StateColumns, schema: pa.Schema) -> Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]]:
        t = self.target
        options: dict[str, Any] = {
            "max_parallelism": t.max_parallelism,
            "parallelism": t.parallelism,
            "key_hash": t.key_hash,
            "context": t.label,
        }
        description = with_names(t.states[state.state_id], state.names)
        if description.name in t.drafted:
            description = with_drafts(description)
        entries = markers = None
        if set(schema.names) - {KEY, MAP_KEY, *NAMESPACES}:
            entries = KeyedStateEncoder(description, state.state_id, schema, last_access=self.last_access, **options)
        if state.marks == "keys" or entries is None:
            markers = TombstoneEncoder(description, state.state_id, schema, **options)

        def encode(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            if markers is not None:
                yield from (in_phase(blobs, MARKERS) for blobs in markers.encode(rows))
            if entries is not None:
                for blobs in entries.encode(rows):
                    if state.marks == "entries":
                        yield in_phase(blobs, MARKERS)
                    yield in_phase(blobs, NEW)

        return encode


def in_phase(blobs: pa.RecordBatch, phase: int) -> pa.RecordBatch:
    """Blobs of one phase."""
    phases = pa.array(np.full(blobs.num_rows, phase, dtype=np.int32))
    return pa.RecordBatch.from_arrays([*blobs.columns, phases], schema=PHASED_BLOBS)


def merged(batches: Batches, most_bytes: int = _BATCH_BYTES, most_rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Small batches as larger ones: each batch becomes one blob per key group, and few large blobs are cheaper than many."""
    held: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        rows += batch.num_rows
        if size >= most_bytes or rows >= most_rows:
            yield _joined(held)
            held, size, rows = [], 0, 0
    if rows:
        yield _joined(held)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(batches)


@dataclass(frozen=True)
class CarryEntries:
    """Pass 1 over the base: entries of keyed states as they are. Rows are the numbers of ``parts``.

    Parameters
    ----------
    target
        The operator to write.
    snapshot
        The base, as it travels to tasks.
    parts
        Key groups of handles.
    states
        The states to take over: name in the base, and id in the target.
    old_max_parallelism
        Of the operator in the base.
    """

    target: KeyedTarget
    snapshot: Snapshot
    parts: tuple[KeyedSplit, ...]
    states: tuple[tuple[str, int], ...]
    old_max_parallelism: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """The blobs of the parts that are named."""
        import_serializers(self.target.serializers)
        carrier = self.carrier()
        for number in numbers(batches):
            part = self.parts[number]
            source = part.handle.open(self.snapshot)
            for name, state_id in self.states:
                for blobs in carrier.blobs(source, name, state_id, part.key_groups):
                    yield in_phase(blobs, CARRIED)

    def carrier(self) -> KeyedPassThrough:
        """What takes the entries over."""
        t = self.target
        return KeyedPassThrough(t.parallelism, t.max_parallelism, self.old_max_parallelism, t.key_hash)


def numbers(batches: Batches) -> Iterator[int]:
    """The values of the first column."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


@dataclass(frozen=True)
class PlaceBlobs:
    """The end of pass 1: blobs as :data:`PLACED_BLOBS`.

    Where the savepoint goes into a file system of this machine, the bytes go into a file there, and Spark's shuffle has to
    bring together only the places. An object store is too slow for many small reads: there the bytes go through the shuffle.

    Parameters
    ----------
    encode
        Gives the blobs of a task's input.
    staging
        The write.
    operator_id
        The operator that the blobs are of.
    in_files
        Whether the bytes go into files.
    """

    encode: Callable[[Batches], Iterator[pa.RecordBatch]]
    staging: Staging
    operator_id: str
    in_files: bool = True

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Each batch of blobs, placed."""
        if not self.in_files:
            for blobs in self.encode(batches):
                yield _placed(blobs, blobs.column("blob"), None, np.zeros(blobs.num_rows, dtype=np.int64))
            return
        sink: FileSink | None = None
        try:
            for blobs in self.encode(batches):
                if sink is None:
                    self.staging.check_open()
                    sink = self.staging.open(self.staging.file_name(self.operator_id, "run", 0, uuid4().hex[:16]))
                column = blobs.column("blob")
                bounds = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
                placed = bounds[:-1].astype(np.int64) - bounds[0] + sink.size
                if bounds[-1] > bounds[0]:
                    sink.write(memoryview(column.buffers()[2])[bounds[0] : bounds[-1]])
                yield _placed(blobs, pa.nulls(len(column), pa.binary()), sink.name, placed)
        finally:
            if sink is not None:
                sink.close()
                if not self.staging.is_open():
                    self.staging.remove(sink.name)


def _placed(blobs: pa.RecordBatch, data: pa.Array, file: str | None, offsets: npt.NDArray[np.int64]) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {n: blobs.column(n) for n in ("subtask", "key_group", "state", "phase", "count")}
    columns["blob"] = data
    columns["file"] = pa.array([file] * blobs.num_rows, pa.string())
    columns["offset"] = pa.array(offsets)
    columns["size"] = pc.binary_length(blobs.column("blob")).cast(pa.int64())
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=PLACED_BLOBS)


class PlacedBlob(NamedTuple):
    """A blob in pass 2."""

    key_group: int
    state: int
    phase: int
    entries: int
    data: npt.NDArray[np.uint8]


def fetched(placed: Batches, staging: Staging) -> Iterator[PlacedBlob]:
    """The blobs of :data:`PLACED_BLOBS`, one after the other."""
    files: dict[str, StoredFile] = {}
    for batch in placed:
        blobs = batch.column("blob")
        columns = ("key_group", "state", "phase", "count", "file", "offset", "size")
        rows = zip(*(batch.column(c).to_pylist() for c in columns), strict=True)
        for i, (key_group, state, phase, count, name, offset, size) in enumerate(rows):
            if name is None:
                data = np.frombuffer(blobs[i].as_buffer(), dtype=np.uint8)
            else:
                if name not in files and len(files) >= _OPEN_FILES:
                    files.clear()
                file = files.setdefault(name, staging.file(name))
                data = np.frombuffer(file.read(offset, size), dtype=np.uint8)
            yield PlacedBlob(key_group, state, phase, count, data)


@dataclass(frozen=True)
class WriteKeyedState:
    """Pass 2: writes the keyed state file of one subtask from its blobs."""

    target: KeyedTarget
    staging: Staging

    def __call__(self, subtask: int, blobs: Batches) -> tuple[h.KeyGroupsStateHandle, int]:
        """The handle of the file, and the number of its entries."""
        t = self.target
        key_groups = range_of_subtask(subtask, t.parallelism, t.max_parallelism)
        header = t.open_header()
        with new_file(self.staging, t.operator_id, "keyed", subtask) as sink:
            writer = KeyedStateFileWriter(sink, header, key_groups, t.max_parallelism, f"{t.label}, subtask {subtask}")
            marked = Tombstones(t.states, t.max_parallelism)
            drafts = Drafts(t.states, t.drafted, writer.describe, t.label)
            for b in fetched(blobs, self.staging):
                place = (b.key_group, b.state)
                entries = b.data
                if b.phase == MARKERS:
                    marked.add(*place, entries)
                    continue
                if b.phase == CARRIED:
                    if drafts.has(b.state):
                        drafts.keep(*place, marked.only(*place, entries))
                    entries = marked.without(*place, entries)
                elif drafts.has(b.state):
                    entries = drafts.settled(*place, entries)
                writer.add(*place, entries)
            handle = writer.close()
        return handle, writer.entries


class new_file:  # noqa: N801 - used like a function
    """A new file of a write; it goes away again on failure, and where the write was given up or done without this task."""

    def __init__(self, staging: Staging, operator_id: str, what: str, subtask: int) -> None:
        staging.check_open()
        self._staging = staging
        self.sink = staging.open(staging.file_name(operator_id, what, subtask, uuid4().hex[:8]))

    def __enter__(self) -> FileSink:
        return self.sink

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self.sink.close()
            if kind is None:
                self._staging.check_open()
                return
        except WriteError:
            self._staging.remove(self.sink.name)
            raise
        self._staging.remove(self.sink.name)


@dataclass(frozen=True)
class CopyPart:
    """A subtask of an operator that is taken over file by file."""

    operator_id: str
    label: str
    subtask: OperatorSubtaskState


@dataclass(frozen=True)
class CopySubtasks:
    """Copies the files of subtasks; rows are the numbers of ``parts``. Gives :data:`MESSAGES`, by the number of the part."""

    snapshot: Snapshot
    staging: Staging
    parts: tuple[CopyPart, ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """A message for each part."""
        for number in numbers(batches):
            part = self.parts[number]

            def open_sink(what: str, part: CopyPart = part) -> new_file:
                return new_file(self.staging, part.operator_id, what, part.subtask.index)

            copied = copy_subtask(part.subtask, self.snapshot, open_sink, f"{part.label}, subtask {part.subtask.index}")
            yield message(number, copied, 0)


class SubtaskWriter(Protocol):
    """Writes a file of one subtask."""

    @property
    def staging(self) -> Staging:
        """The write that the file is of."""

    def __call__(self, subtask: int, blobs: Batches) -> tuple[Any, int]:
        """The handle, and the number of entries."""


@dataclass(frozen=True)
class InSubtask:
    """Runs a :class:`SubtaskWriter` in each partition, whose number is that of the subtask; gives :data:`MESSAGES`."""

    write: SubtaskWriter

    def __call__(self, blobs: Batches) -> Iterator[pa.RecordBatch]:
        """One message."""
        subtask = _partition()
        handle, entries = self.write(subtask, blobs)
        yield message(subtask, handle, entries)


def message(subtask: int, handle: Any, entries: int) -> pa.RecordBatch:
    """A row of :data:`MESSAGES`."""
    row = {"subtask": subtask, "handle": pickle.dumps(handle), "entries": entries}
    return pa.RecordBatch.from_pylist([row], schema=MESSAGES)


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise OptionError("not inside a task of Spark")
    return int(context.partitionId())


def now_millis() -> int:
    """The time, as values with TTL keep it."""
    return time.time_ns() // 1_000_000
