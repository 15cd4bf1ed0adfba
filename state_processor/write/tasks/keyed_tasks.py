"""Tasks that write keyed state: encode rows, pass entries of the source savepoint through, write the file of a subtask.

Serializers do not travel to tasks: a task restores them from the header of the files to write, like readers of the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Final

import pyarrow as pa

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.keyed_reader import DOMAIN, SERVICE
from state_processor.backends.read.keyed_splits import KeyedSplit
from state_processor.backends.state.column_types import DeclaredNames, with_names
from state_processor.backends.state.key_groups import range_of_subtask
from state_processor.backends.write.blobs import NEW, TOMBSTONES, BlobAddress, with_phase
from state_processor.backends.write.carried_files import BaseStore
from state_processor.backends.write.entry_encoder import KEY, MAP_KEY, NAMESPACES, KeyedStateEncoder
from state_processor.backends.write.key_group_writers import RawTimersWriter
from state_processor.backends.write.keyed_formats import CANONICAL_FORMAT, KeyedFormat
from state_processor.backends.write.keyed_writer import KeyedSubtask
from state_processor.backends.write.pass_through import KeyedPassThrough
from state_processor.backends.write.pending_updates import with_pending_parts
from state_processor.backends.write.staging import Staging
from state_processor.backends.write.tombstones import EntryMerge, TombstoneEncoder
from state_processor.support.errors import InvalidRowError, third_party_errors
from state_processor.support.late import pc
from state_processor.write.rows.row_protocol import Replaced
from state_processor.write.tasks.passes import BatchEncoder, Batches, WrittenFile, fetch_blobs
from state_processor.write.tasks.targets import KeyedTarget

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
        self._where, self._parts = f"{t.label}, state {described.name!r}", described.serializers.values()
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
        with third_party_errors(self._where, parts=self._parts):
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
