"""Tasks that write keyed state: encode rows, pass entries of the source savepoint through, write the file of a subtask.

Serializers do not travel to tasks: a task restores them from the header of the files to write. So what is written is what a
reader of the header will read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import pyarrow as pa

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.keyed_splits import KeyedSplit
from state_processor.backends.state import meta_info as mi
from state_processor.backends.state.column_types import undescribed_as_bytes
from state_processor.backends.state.descriptions import KeyedDescription, describe_keyed
from state_processor.backends.state.hash_inference import HashRule, LearnedHash
from state_processor.backends.state.key_groups import range_of_subtask
from state_processor.backends.state.part_names import DeclaredNames, with_names
from state_processor.backends.state.python_states import PythonType, with_python_type
from state_processor.backends.write.assembly import SubtaskHandles
from state_processor.backends.write.base_store import BaseStore
from state_processor.backends.write.change_counts import ChangeCounts
from state_processor.backends.write.entry_encoder import KEY, MAP_KEY, NAMESPACES, KeyedStateEncoder, KeyHash
from state_processor.backends.write.keyed_formats import CANONICAL_FORMAT, KeyedFormat
from state_processor.backends.write.pass_through import KeyedPassThrough
from state_processor.backends.write.pending_updates import PendingValueResolver, pairs, with_pending_parts
from state_processor.backends.write.raw_timers_writer import RawTimersWriter
from state_processor.backends.write.staging import Staging
from state_processor.backends.write.tombstones import TombstoneEncoder, Tombstones
from state_processor.options.task_registrations import TaskSerializers
from state_processor.serializers.core.calendars import java_zone
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.sql_times import in_time_zone
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.types import JavaType
from state_processor.serializers.kryo.nested_kryo import declare
from state_processor.serializers.third_party import third_party_errors
from state_processor.write.shuffle import fetch_blobs
from state_processor.write.staged_file import staged_file
from state_processor.write.subtask_files import WrittenFile
from state_processor.write.task_data import (
    NEW,
    PASSED_THROUGH,
    TOMBSTONES,
    Batches,
    Replaced,
    with_phase,
)


@dataclass(frozen=True)
class KeyedTarget:
    """Keyed state of one operator of the new savepoint; it can be pickled.

    Parameters
    ----------
    operator_id, label
        Of the operator; the label is for messages.
    header
        The header of its files, as bytes.
    flink_major
        The major version of Flink of the header's serializers, which decides the version of Kryo.
    parallelism, max_parallelism
        Of the operator.
    serializers
        Serializers that users register.
    hashing
        ``hashCode`` of keys, where the serializer does not know it: a function of a column, or inferred rules.
    java_types
        By state, the types of the parts that Kryo writes: headers do not contain their type arguments.
    updated
        The states of the source savepoint that rows change: parts that Kryo writes are compared with the stored ones.
    python
        By state of a PyFlink job, the kind and type of its rows.
    with_bytes
        Those of them whose rows have bytes for values of undescribed classes.
    raw_timers
        Whether timers are written to raw keyed state.
    time_zone
        The zone of the JVM of the job.
    """

    operator_id: str
    label: str
    header: bytes
    flink_major: int
    parallelism: int
    max_parallelism: int
    serializers: TaskSerializers = field(default_factory=TaskSerializers)
    hashing: KeyHash | tuple[HashRule, ...] | None = None
    java_types: Mapping[str, tuple[JavaType, ...]] = field(default_factory=dict)
    updated: frozenset[str] = frozenset()
    with_bytes: frozenset[str] = frozenset()
    raw_timers: bool = False
    python: Mapping[str, PythonType] = field(default_factory=dict)
    time_zone: str = "UTC"

    def open_header(self) -> mi.KeyedHeader:
        """Read the header with its serializers."""
        self.serializers.enter()
        return mi.KeyedHeader.read(DataInput(self.header, f"{self.label}, header", flink_major=self.flink_major))

    def open_managed_header(self) -> mi.KeyedHeader:
        """Read the header without timers in raw keyed state, which are behind all other states."""
        header = self.open_header()
        managed = tuple(s for s in header.states if not (self.raw_timers and s.backend_type == mi.PRIORITY_QUEUE))
        return replace(header, states=managed)

    @cached_property
    def states(self) -> tuple[KeyedDescription, ...]:
        """The states by their ids."""
        header = self.open_header()
        states = tuple(describe_keyed(header, meta) for meta in header.states)
        states = tuple(declare(self.java_types.get(state.name, ()), state) for state in states)
        states = tuple(undescribed_as_bytes(state) if state.name in self.with_bytes else state for state in states)
        states = tuple(in_time_zone(state, java_zone(self.time_zone)) for state in states)
        return tuple(with_python_type(s, self.python[s.name]) if s.name in self.python else s for s in states)

    @property
    def ids(self) -> dict[str, int]:
        """The ids of states by name."""
        return {state.name: i for i, state in enumerate(self.states)}

    @property
    def key_hash(self) -> KeyHash | None:
        """Function from a column of keys to their ``hashCode``; ``None`` if the serializer has it."""
        if not isinstance(self.hashing, tuple):
            return self.hashing
        key = in_time_zone(self.open_header().key.restore_serializer(), java_zone(self.time_zone))
        return LearnedHash(cast(PojoSerializer, key), self.hashing, self.max_parallelism)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "states"}


def header_bytes(header: mi.KeyedHeader | mi.OperatorHeader) -> bytes:
    """Return the bytes of a header."""
    target = DataOutput()
    header.write(target)
    return target.to_bytes()


@dataclass(frozen=True)
class StateColumns:
    """Columns of rows that a state is written from.

    ``columns`` maps the names that :mod:`~state_processor.backends.write.entry_encoder` has for them to columns. ``replaces`` is
    what a row replaces of the source savepoint: nothing, all entries of its key (``keys``, also where the value is null), or one
    entry of a map (``entries``). ``names`` are those of the fields of rows, which headers do not contain.
    """

    state_id: int
    columns: Mapping[str, str]
    replaces: Replaced = ""
    names: DeclaredNames = field(default_factory=dict)


Encoder = Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class EncodeRows:
    """Pass 1 over rows: entries of one or several states as blobs of :data:`ORDERED_BLOBS`."""

    target: KeyedTarget
    states: tuple[StateColumns, ...]
    last_access: int = 0

    def encoder(self) -> Encoder:
        """Return a function that encodes the batches of a task."""
        encoders: dict[int, Encoder] = {}

        def encode(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            for number, state in enumerate(self.states):
                rows = pa.RecordBatch.from_arrays([batch.column(c) for c in state.columns.values()], names=list(state.columns))
                if number not in encoders:
                    encoders[number] = self._state_encoder(state, rows.schema)
                yield from encoders[number](rows)

        return encode

    def _state_encoder(self, state: StateColumns, schema: pa.Schema) -> Encoder:
        t = self.target
        options: dict[str, Any] = {
            "max_parallelism": t.max_parallelism,
            "parallelism": t.parallelism,
            "key_hash": t.key_hash,
            "context": t.label,
        }
        description = with_names(t.states[state.state_id], state.names)
        if description.name in t.updated:
            description = with_pending_parts(description)
        entries = tombstones = None
        if set(schema.names) - {KEY, MAP_KEY, *NAMESPACES}:
            entries = KeyedStateEncoder(description, state.state_id, schema, last_access=self.last_access, **options)
        if state.replaces == "keys" or entries is None:
            tombstones = TombstoneEncoder(description, state.state_id, schema, **options)

        where = f"{t.label}, state {description.name!r}"

        def encode(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            with third_party_errors(where, parts=description.serializers.values()):
                if tombstones is not None:
                    yield from (with_phase(blobs, TOMBSTONES) for blobs in tombstones.encode(rows))
                if entries is not None:
                    for blobs in entries.encode(rows):
                        if state.replaces == "entries":
                            yield with_phase(blobs, TOMBSTONES)
                        yield with_phase(blobs, NEW)

        return encode


@dataclass(frozen=True)
class PassThroughEntries:
    """Pass 1 over the source savepoint: unchanged entries of keyed states in a part, which is a range of key groups.

    Parameters
    ----------
    target
        The operator to write.
    snapshot
        The source savepoint, as it travels to tasks.
    states
        The states: name in the source savepoint, and id in the target.
    old_max_parallelism
        Of the operator in the source savepoint.
    """

    target: KeyedTarget
    snapshot: Snapshot
    states: tuple[tuple[str, int], ...]
    old_max_parallelism: int

    def __call__(self, part: KeyedSplit) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of a part."""
        self.target.serializers.enter()
        pass_through = self.pass_through()
        source = part.handle.open(self.snapshot)
        for name, state_id in self.states:
            with third_party_errors(f"{self.target.label}, state {name!r}"):
                for blobs in pass_through.blobs(source, name, state_id, part.key_groups):
                    yield with_phase(blobs, PASSED_THROUGH)

    def pass_through(self) -> KeyedPassThrough:
        """Return the object that copies or converts the entries."""
        t = self.target
        return KeyedPassThrough(t.parallelism, t.max_parallelism, self.old_max_parallelism, t.key_hash)


@dataclass(frozen=True)
class WriteKeyedState:
    """Pass 2: a task that writes the keyed state of one subtask from its blobs, in some format."""

    target: KeyedTarget
    staging: Staging
    format: KeyedFormat = CANONICAL_FORMAT
    bases: Mapping[int, BaseStore] = field(default_factory=dict)

    def __call__(self, subtask: int, blobs: Batches) -> WrittenFile:
        """Write the files."""
        t = self.target
        key_groups = range_of_subtask(subtask, t.parallelism, t.max_parallelism)
        header, managed = t.open_header(), t.open_managed_header()
        where = f"{t.label}, subtask {subtask}"

        def open_sink(what: str) -> staged_file:
            return staged_file(self.staging, t.operator_id, what, subtask)

        with ExitStack() as stack:
            of_range = (key_groups, t.max_parallelism, where)
            store = stack.enter_context(self.format.open_writer(open_sink, managed, *of_range, self.bases.get(subtask)))
            timers = None
            if len(managed.states) < len(header.states):
                timers = RawTimersWriter(stack.enter_context(open_sink("timers")), header, *of_range)
            tombstones = Tombstones(t.states, t.max_parallelism)
            pending = PendingValueResolver(t.states, t.updated, store.describe, t.label)
            for b in fetch_blobs(blobs, self.staging):
                place = (b.key_group, b.state)
                entries = b.data
                writer = store if timers is None or b.state < len(managed.states) else timers
                if b.phase == TOMBSTONES:
                    if pending.has(b.state):
                        pending.keep(*place, writer.replaced(b.state, entries))
                    if not writer.delete(*place, entries):
                        tombstones.add(*place, entries)
                    continue
                if b.phase == PASSED_THROUGH:
                    if pending.has(b.state):
                        pending.keep(*place, pairs(tombstones.only(*place, entries)))
                    entries = tombstones.without(*place, entries)
                elif pending.has(b.state):
                    entries = pending.resolved(*place, entries)
                writer.add(*place, entries)
                if b.phase == NEW:
                    tombstones.count_new(*place, entries, b.entries)
            handles = SubtaskHandles(store.close(), raw_keyed=timers.close() if timers is not None else None)
        changes = tombstones.counts()
        for state_id, counts in store.changes.items():
            changes[state_id] = changes.get(state_id, ChangeCounts()) + counts
        by_name = {t.states[state_id].name: counts for state_id, counts in changes.items()}
        return WrittenFile(handles, store.entries + (timers.entries if timers is not None else 0), by_name)
