"""Tasks that write the state of an operator: encode rows, pass stored entries through, write the file of a subtask.

Serializers do not travel to tasks with their target: a task restores them from the header of the files to write, like readers of
the files.

Elements of list state are dealt in pass 2, in the order of the rows: each subtask takes a range. The sizes of ranges differ by
one at most. Flink deals ranges, too, when the parallelism changes (``RoundRobinOperatorStateRepartitioner``). The subtask of an
element does not depend on the engine, or on tasks of pass 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.keyed_reader import DOMAIN, SERVICE
from state_processor.backends.read.keyed_splits import KeyedSplit
from state_processor.backends.read.operator_state import OperatorSplit, raw_elements
from state_processor.backends.state import state_headers
from state_processor.backends.state.column_types import DeclaredNames, undescribed_as_bytes, with_names
from state_processor.backends.state.descriptions import (
    KeyedDescription,
    OperatorDescription,
    describe_keyed,
    describe_operator_state,
)
from state_processor.backends.state.hash_inference import HashRule, LearnedHash, UserHash
from state_processor.backends.state.key_groups import range_of_subtask
from state_processor.backends.state.python_states import PythonType, with_python_type
from state_processor.backends.write.carried_files import BaseStore
from state_processor.backends.write.entry_encoder import (
    DEALT,
    KEY,
    MAP_KEY,
    NAMESPACES,
    NEW,
    ORDERED_BLOBS,
    PASSED_THROUGH,
    TOMBSTONES,
    Blob,
    BlobAddress,
    KeyedStateEncoder,
    KeyHash,
    with_phase,
)
from state_processor.backends.write.keyed_formats import CANONICAL_FORMAT, KeyedFormat
from state_processor.backends.write.keyed_writer import KeyedSubtask, RawTimersWriter
from state_processor.backends.write.operator_writer import OperatorStateFileWriter, edited_elements
from state_processor.backends.write.pass_through import KeyedPassThrough
from state_processor.backends.write.pending_updates import StoredElements, with_pending_parts
from state_processor.backends.write.staging import Staging
from state_processor.backends.write.tombstones import ChangeCounts, EntryMerge, TombstoneEncoder
from state_processor.options.user_serializers import TaskSerializers
from state_processor.serializers.core.collections import NOT_NULL
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.temporal import in_time_zone
from state_processor.serializers.core.time_values import java_zone
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.types import JavaType
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.serializers.kryo.nested_kryo import declare
from state_processor.support.errors import InvalidRowError, third_party_errors
from state_processor.support.late import pc
from state_processor.support.locks import cached_property
from state_processor.support.mappings import without_keys
from state_processor.write.plan.draft import ElementEdits
from state_processor.write.rows.row_protocol import Replaced
from state_processor.write.tasks.passes import SPILLED_BLOBS, BatchEncoder, Batches, WrittenFile, fetch_blobs

if TYPE_CHECKING:
    from state_processor.write.plan.outcome import OperatorOutcome


@dataclass(frozen=True)
class StateTarget:
    """State of one operator of the new savepoint.

    ``operator_id`` and ``label``: of the operator; the label is for messages.
    """

    operator_id: str
    label: str
    header: bytes  # the header of its files, as bytes
    flink_major: int  # the major version of Flink of the header's serializers, which decides the version of Kryo
    parallelism: int
    max_parallelism: int
    serializers: TaskSerializers = field(default_factory=TaskSerializers)  # serializers that users register
    time_zone: str = "UTC"  # the zone of the JVM of the job
    # by state, the types of the parts that Kryo writes: headers do not contain their type arguments
    java_types: Mapping[str, tuple[JavaType, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, outcome: OperatorOutcome, header: state_headers.KeyedHeader | state_headers.OperatorHeader, **fields: Any
    ) -> Self:
        """Return the target for the outcome of an operator, with the fields that only this class has."""
        sizes = (outcome.parallelism, outcome.max_parallelism)
        settings = (outcome.settings.serializers, outcome.settings.time_zone)
        return cls(
            outcome.identifier.uid_hash, outcome.label, header_bytes(header), outcome.flink_major, *sizes, *settings, **fields
        )

    def _open(self) -> DataInput:
        """Open the header, for serializers of users, too."""
        self.serializers.enter()
        return DataInput(self.header, f"{self.label}, header", flink_major=self.flink_major)


@dataclass(frozen=True)
class KeyedTarget(StateTarget):
    """Keyed state of one operator."""

    # ``hashCode`` of keys, where the serializer does not know it: a function of a column, or inferred rules
    hashing: UserHash | tuple[HashRule, ...] | None = None
    # the states of the source savepoint that rows change: parts that Kryo writes are compared with the stored ones
    updated: frozenset[str] = frozenset()
    with_bytes: frozenset[str] = frozenset()  # the updated states whose rows have bytes for values of undescribed classes
    raw_timers: bool = False  # whether timers are written to raw keyed state
    python: Mapping[str, PythonType] = field(default_factory=dict)  # by state of a PyFlink job, the kind and type of its rows

    def open_header(self) -> state_headers.KeyedHeader:
        """Read the header with its serializers."""
        return state_headers.KeyedHeader.read(self._open())

    def open_managed_header(self) -> state_headers.KeyedHeader:
        """Read the header without timers in raw keyed state. These timers are behind all other states."""
        header = self.open_header()
        managed = tuple(s for s in header.states if not (self.raw_timers and s.backend_type == state_headers.PRIORITY_QUEUE))
        return replace(header, states=managed)

    @cached_property
    def states(self) -> tuple[KeyedDescription, ...]:
        """The states by their ids."""
        header, states = self.open_header(), []
        for meta in header.states:
            state = declare(self.java_types.get(meta.name, ()), describe_keyed(header, meta))
            if state.name in self.with_bytes:
                state = undescribed_as_bytes(state)
            state = in_time_zone(state, java_zone(self.time_zone))
            states.append(with_python_type(state, self.python[state.name]) if state.name in self.python else state)
        return tuple(states)

    @property
    def key_hash(self) -> KeyHash | None:
        """Function from a column of keys to their ``hashCode``; ``None`` if the serializer has it."""
        if not isinstance(self.hashing, tuple):
            return self.hashing
        key = in_time_zone(self.open_header().key.restore_serializer(), java_zone(self.time_zone))
        return LearnedHash(cast(PojoSerializer, key), self.hashing, self.max_parallelism)

    def __getstate__(self) -> dict[str, Any]:
        return without_keys(vars(self), ("states",))


@dataclass(frozen=True)
class OperatorTarget(StateTarget):
    """Operator state of one operator.

    ``names`` has the names of the fields of rows by state: headers do not contain them.
    """

    names: Mapping[str, DeclaredNames] = field(default_factory=dict)

    def metas(self) -> tuple[state_headers.StateMetaInfo, ...]:
        """Read the states from the header, in the order of their ids."""
        header = state_headers.OperatorHeader.read(self._open())
        return (*header.lists, *header.broadcasts)

    def state(self, state_id: int) -> OperatorDescription:
        """Return a state by its id."""
        state = describe_operator_state(self.metas()[state_id])
        state = declare(self.java_types.get(state.name, ()), state)
        state = in_time_zone(state, java_zone(self.time_zone))
        return with_names(state, self.names.get(state.name, {}))


def header_bytes(header: state_headers.KeyedHeader | state_headers.OperatorHeader) -> bytes:
    """Return the bytes of a header."""
    target = DataOutput()
    header.write(target)
    return target.to_bytes()


QUEUE_COLUMNS: Final = (SERVICE, DOMAIN)
"""Columns of timers that tell their queue."""


@dataclass(frozen=True)
class StateColumns:
    """Columns of rows that a state is written from.

    ``columns`` maps the names that :mod:`~state_processor.backends.write.entry_encoder` has for them to columns. ``replaces`` is
    what a row replaces of the source savepoint: nothing, all entries of its key (``keys``, also where the value is null), or one
    entry of a map (``entries``). ``names`` has the names of the fields of rows. Headers do not contain them.
    Timers are in a ``queue``.
    """

    state_id: int
    columns: Mapping[str, str]
    replaces: Replaced = ""
    names: DeclaredNames = field(default_factory=dict)
    queue: tuple[str, str] | None = None


@dataclass(frozen=True)
class EncodeRows:
    """Pass 1 over rows: entries of one or several states.

    A row of timers is in one of ``queues``. These are values of :data:`QUEUE_COLUMNS`.
    """

    target: KeyedTarget
    states: tuple[StateColumns, ...]
    last_access: int = 0
    queues: tuple[tuple[str, str], ...] = ()

    def encoder(self) -> BatchEncoder:
        """See :class:`~state_processor.write.tasks.passes.RowEncoder`."""
        encoders: list[_StateEncoder] = []  # compiled for the columns of the first batch

        def encode(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            divided = {queue: _rows_of_queue(batch, queue) for queue in self.queues}
            if self.queues and sum(rows.num_rows for rows in divided.values()) != batch.num_rows:
                raise self._of_no_queue(batch)
            for number, state in enumerate(self.states):
                source_rows = batch if state.queue is None else divided[state.queue]
                rows = pa.RecordBatch.from_arrays(
                    list(map(source_rows.column, state.columns.values())), names=list(state.columns)
                )
                if number == len(encoders):
                    encoders.append(_StateEncoder(self, state, rows.schema))
                yield from encoders[number].encode(rows)

        return encode

    def _of_no_queue(self, batch: pa.RecordBatch) -> InvalidRowError:
        """Return the error about rows whose queue is not among those that were found when the rows were given."""
        rows = batch.select(QUEUE_COLUMNS).to_pylist()
        row = next(row for row in rows if tuple(row.values()) not in self.queues)
        return InvalidRowError(
            f"{self.target.label}, timers: a row has the domain {row[DOMAIN]!r} and the service {row[SERVICE]!r}. No row had "
            "them when with_timers was called: evaluating the rows again gave other rows. Pass rows that stay the same, such as "
            "rows of a table, or of DataFrame.localCheckpoint()"
        )


def _rows_of_queue(batch: pa.RecordBatch, queue: tuple[str, str]) -> pa.RecordBatch:
    conditions = (pc.equal(batch.column(name), value) for name, value in zip(QUEUE_COLUMNS, queue, strict=True))
    return batch.filter(pc.and_(*conditions))


class _StateEncoder:
    """Encoder of the rows of one state: its entries, and tombstones for the entries that they replace."""

    def __init__(self, task: EncodeRows, state: StateColumns, schema: pa.Schema) -> None:
        t = task.target
        described = with_names(t.states[state.state_id], state.names)
        if described.name in t.updated:
            described = with_pending_parts(described)
        address = BlobAddress(state.state_id, t.parallelism, t.max_parallelism, NEW)
        self._replaces_entries = state.replaces == "entries"
        self._context, self._parts = f"{t.label}, state {described.name!r}", described.serializers.values()
        self._entries: KeyedStateEncoder | None = None
        self._tombstones: TombstoneEncoder | None = None
        if set(schema.names) - {KEY, MAP_KEY, *NAMESPACES}:
            self._entries = KeyedStateEncoder(
                described, address, schema, key_hash=t.key_hash, last_access=task.last_access, context=t.label
            )
        if state.replaces == "keys" or self._entries is None:
            self._tombstones = TombstoneEncoder(described, address, schema, key_hash=t.key_hash, context=t.label)

    def encode(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of rows."""
        with third_party_errors(self._context, parts=self._parts):
            if self._tombstones is not None:
                yield from self._tombstones.encode(rows)
            for blobs in self._entries.encode(rows) if self._entries is not None else ():
                if self._replaces_entries:  # a new entry is the tombstone of the old one
                    yield with_phase(blobs, TOMBSTONES)
                yield blobs


@dataclass(frozen=True)
class PassThroughEntries:
    """Pass 1 over the source savepoint: unchanged entries of keyed states in a part. A part is a range of key groups."""

    target: KeyedTarget  # the operator to write
    snapshot: Snapshot  # the source savepoint, as it travels to tasks
    states: tuple[tuple[str, int], ...]  # the states: name in the source savepoint, and id in the target
    old_max_parallelism: int  # of the operator in the source savepoint

    def __call__(self, part: KeyedSplit) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of a part."""
        self.target.serializers.enter()
        pass_through = self.pass_through()
        source = part.handle.open(self.snapshot)
        for name, state_id in self.states:
            with third_party_errors(f"{self.target.label}, state {name!r}"):
                yield from pass_through.blobs(source, name, state_id, part.key_groups)

    def pass_through(self) -> KeyedPassThrough:
        """Return the object that copies or converts the entries."""
        t = self.target
        return KeyedPassThrough(t.parallelism, t.max_parallelism, self.old_max_parallelism, t.key_hash)


@dataclass(frozen=True)
class WriteKeyedState:
    """Pass 2: a task that writes the keyed state of one subtask from its blobs, in some format."""

    target: KeyedTarget
    format: KeyedFormat = CANONICAL_FORMAT
    bases: Mapping[int, BaseStore] = field(default_factory=dict)
    deals: ClassVar = False

    def __call__(self, subtask: int, blobs: Batches, staging: Staging) -> WrittenFile:
        """Write the files."""
        t = self.target
        key_groups = range_of_subtask(subtask, t.parallelism, t.max_parallelism)
        all_states = KeyedSubtask(t.open_header(), key_groups, t.max_parallelism, f"{t.label}, subtask {subtask}")
        managed = replace(all_states, header=t.open_managed_header())
        ids = range(len(all_states.header.states))
        has_timers = len(managed.header.states) < len(ids)
        open_sink = partial(staging.new_file, t.operator_id, subtask=subtask)
        with ExitStack() as stack:
            store = stack.enter_context(self.format.open_writer(open_sink, managed, self.bases.get(subtask)))
            timers = RawTimersWriter(stack.enter_context(open_sink("timers")), all_states) if has_timers else None
            writers = [store if i < len(managed.header.states) or timers is None else timers for i in ids]
            merge = EntryMerge(t.states, t.updated, t.max_parallelism, writers, t.label)
            for blob in fetch_blobs(blobs, staging):
                merge.add(blob)
            merge.end_tombstones()
            handles = store.close(), timers.close() if timers is not None else None
        return WrittenFile(handles, store.entries + (timers.entries if timers is not None else 0), merge.changes())


_LENGTH: Final = np.dtype("<i8")


@dataclass(frozen=True)
class EncodeElements:
    """Pass 1 over the rows of a list state. Pass 2 deals them."""

    target: OperatorTarget
    state_id: int
    column: str
    stored: StoredElements | None = None

    def encoder(self) -> BatchEncoder:
        """Return a function that yields the elements of the batches of a task as blobs, see :func:`elements_to_blob`."""
        state, stored = self.target.state(self.state_id), self.stored
        written = state if stored is None else with_pending_parts(state)

        def encode(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            label = f"{self.target.label}, state {state.name!r}"
            check_elements(batch, self.column, label)
            try:
                with third_party_errors(label, parts=[state.value]):
                    encoded = encode_column(written.value, batch.column(self.column))
                    if stored is not None:
                        elements = list(stored.resolved(encoded))
                        yield elements_to_blob(*joined(elements), self.state_id, NEW)
                        return
            except InvalidRowError as problem:
                raise InvalidRowError(f"{label}: {problem}") from None
            starts = np.append(encoded.entries[:, 0], len(encoded.data))
            yield elements_to_blob(encoded.data, starts, self.state_id, NEW)

        return encode


def joined(elements: Sequence[bytes]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return elements back to back, and their offsets; the last offset is the end."""
    starts = np.cumsum([0, *map(len, elements)], dtype=np.int64)
    return np.frombuffer(b"".join(elements), dtype=np.uint8), starts


def check_elements(batch: pa.RecordBatch, column: str, label: str) -> None:
    """Refuse nulls among the elements of a list of operator state (Flink: ``PartitionableListState.add``)."""
    elements = batch.column(column)
    if elements.null_count:
        row = int(np.flatnonzero(elements.is_null().to_numpy(zero_copy_only=False))[0])
        raise InvalidRowError(f"{label}: column {column} of row {row} is null: {NOT_NULL.rule}")


@dataclass(frozen=True)
class PassThroughElements:
    """Pass 1 over one subtask of the source savepoint: unchanged elements of lists.

    With ``in_place``, they stay in this subtask. ``edits`` replace or leave out some of them, by state.
    """

    target: OperatorTarget
    snapshot: Snapshot
    states: tuple[tuple[str, int], ...]
    in_place: bool
    edits: Mapping[str, ElementEdits] = field(default_factory=dict)

    def __call__(self, part: OperatorSplit) -> Iterator[pa.RecordBatch]:
        """Yield the elements of a subtask."""
        self.target.serializers.enter()
        for name, state_id in self.states:
            data, starts = self.elements(part, name)
            yield elements_to_blob(data, starts, state_id, PASSED_THROUGH, part.subtask if self.in_place else None)

    def elements(self, part: OperatorSplit, name: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Return the elements of a list in one subtask back to back, and their offsets; the last offset is the end."""
        stored = raw_elements(self.snapshot, part, name)
        return edited_elements(stored, self.edits[name].of_subtask(part.subtask)) if name in self.edits else stored


def elements_to_blob(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], state_id: int, phase: int, subtask: int | None = None
) -> pa.RecordBatch:
    """Return elements that are stored back to back as one blob: their offsets, then the elements.

    Without a subtask, pass 2 deals them.
    """
    count = len(starts) - 1
    blob = starts[:-1].astype(_LENGTH).tobytes() + data.tobytes()
    group = DEALT if subtask is None else 0
    row = {"subtask": subtask or 0, "key_group": group, "state": state_id, "phase": phase, "blob": blob, "count": count}
    return pa.RecordBatch.from_pylist([row], schema=ORDERED_BLOBS)


@dataclass(frozen=True)
class BroadcastBytes:
    """Broadcast state, which every subtask has a copy of: number of entries, and their keys and values back to back."""

    state_id: int
    count: int
    data: bytes
    is_new: bool = False


@dataclass(frozen=True)
class WriteOperatorState:
    """Pass 2: a task that writes the operator state file of one subtask from its blobs."""

    target: OperatorTarget
    broadcasts: tuple[BroadcastBytes, ...] = ()
    deals: bool = False

    def __call__(self, subtask: int, blobs: Batches, staging: Staging) -> WrittenFile:
        """Write the file."""
        metas = self.target.metas()
        states = list(map(describe_operator_state, metas))
        elements = 0
        changes: dict[str, ChangeCounts] = {}
        with staging.new_file(self.target.operator_id, "operator", subtask) as sink:
            writer = OperatorStateFileWriter(sink, states, metas, f"{self.target.label}, subtask {subtask}")
            for b, begin, end in self._shares(subtask, blobs, staging):
                head = b.entries * _LENGTH.itemsize
                starts = np.append(b.data[:head].view(_LENGTH), len(b.data) - head).astype(np.int64)[begin : end + 1]
                name = metas[b.state].name
                writer.add_elements(name, b.data[head + starts[0] : head + starts[-1]], starts[:-1] - starts[0])
                elements += end - begin
                if b.phase == NEW:
                    changes[name] = changes.get(name, ChangeCounts()) + ChangeCounts(end - begin, inserted=end - begin)
            for copy in self.broadcasts:
                writer.add_broadcast_bytes(metas[copy.state_id].name, copy.count, np.frombuffer(copy.data, np.uint8))
                elements += copy.count
                if copy.is_new and not subtask:  # the other subtasks have copies
                    changes[metas[copy.state_id].name] = ChangeCounts(copy.count, inserted=copy.count)
            handle = writer.close()
        return WrittenFile(handle, elements, changes)

    def _shares(self, subtask: int, blobs: Batches, staging: Staging) -> Iterator[tuple[Blob, int, int]]:
        """Yield the blobs of a subtask, with begin and end of the elements that it takes; other blobs are not read."""
        table = pa.Table.from_batches(list(blobs), SPILLED_BLOBS)
        states, groups, ends = (np.asarray(table.column(name), np.int64).copy() for name in ("state", "key_group", "count"))
        begins = np.zeros_like(ends)
        for state in np.unique(states[groups == DEALT]):
            dealt = np.flatnonzero((groups == DEALT) & (states == state))
            counts = ends[dealt]
            firsts = np.cumsum(counts) - counts
            total = int(counts.sum())
            hands = min(total, self.target.parallelism)
            low, high = (total * i // hands if i < hands else total for i in (subtask, subtask + 1))
            begins[dealt], ends[dealt] = (np.clip(bound - firsts, 0, counts) for bound in (low, high))
        positions = np.flatnonzero(ends > begins)
        fetched = fetch_blobs(table.take(positions).to_batches(), staging)
        yield from zip(fetched, begins[positions].tolist(), ends[positions].tolist(), strict=True)
