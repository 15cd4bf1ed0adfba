"""Writing one subtask's keyed state from blobs: what all formats have in common, and writers of files with a block per key group.

Entries come as *blobs*: any number of framed entries (int key length, key with its key group, int value length, value) of one
state and key group, one after the other, as :class:`~state_processor.backends.write.entry_encoder.KeyedStateEncoder` makes them.
Key and value are the same bytes in each format; a format decides how the entries become files.

Canonical files, heap files and raw timers have a block per key group. Flink: ``FullSnapshotAsyncWriter``,
``HeapSnapshotStrategy``, ``InternalTimerServiceSerializationProxy``. In heap files, entries do not have lengths: namespace, key
and value follow each other, lists and maps as a whole. Their bytes are found in framed entries, and put together again. Memory
is bounded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.files.changes import BufferedSink, FileSink
from state_processor.backends.formats import entry_framing as framing
from state_processor.backends.formats import row_layout as layouts
from state_processor.backends.formats.framing import END_OF_KEY_GROUP, LAST_OF_STATE
from state_processor.backends.formats.raw_timers import MAGIC, TIMESTAMP_BYTES, VERSION
from state_processor.backends.formats.row_layout import framed_layout
from state_processor.backends.formats.serialized_entries import LOSSLESS, with_serialized_values
from state_processor.backends.formats.source import decode_framed
from state_processor.backends.metadata import handles as h
from state_processor.backends.state import state_headers
from state_processor.backends.state.descriptions import (
    EVENT_PREFIX,
    PROCESSING_PREFIX,
    MapDescription,
    TimerDescription,
    describe_keyed,
)
from state_processor.backends.state.key_groups import prefix_size
from state_processor.backends.write.entry_encoder import GroupState
from state_processor.backends.write.operator_writer import encode_columns
from state_processor.backends.write.sorted_entries import order_of_keys
from state_processor.serializers.base import write_versioned_snapshot
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.support.errors import InvalidRowError, OptionError, StateProcessorError
from state_processor.support.late import pc

_EVERYTHING: Final = frozenset({"key", "namespace", "map_key", "timestamp"})


@dataclass(frozen=True)
class KeyedSubtask:
    """Keyed state of one subtask, which files are written for."""

    header: state_headers.KeyedHeader  # the states, whose ids are their positions
    key_groups: h.KeyGroupRange
    max_parallelism: int  # of the operator
    context: str = ""  # operator and subtask, for error messages


class KeyedStateWriter(ABC):
    """Writes the keyed state of one subtask.

    Call :meth:`add` with blobs in ascending order of key group and, within one, of state id; then :meth:`close`.

    ``entries``: number of entries that were written.
    """

    def __init__(self, subtask: KeyedSubtask) -> None:
        self.header = subtask.header
        self.key_groups = subtask.key_groups
        self.prefix = prefix_size(subtask.max_parallelism)
        self.context = f"{subtask.context}: " if subtask.context else ""
        self.entries = 0
        self._seen = framing.KeyFilter()
        self._place: GroupState | None = None
        self._expected = (0, 0)

    def expect(self, entries: int, size: int) -> None:
        """Announce the number and bytes of the entries of the next key group and state: room for them is made once."""
        self._expected = (entries, size)

    def add(self, key_group: int, state_id: int, blob: bytes | memoryview | npt.NDArray[np.uint8]) -> None:
        """Write entries of one state and key group. A key that occurs twice is refused at once, or when the key group ends."""
        data = np.frombuffer(blob, dtype=np.uint8)
        data.flags.writeable = False
        if not len(data):
            return
        if key_group not in self.key_groups:
            raise InvalidRowError(
                f"{self.context}key group {key_group} has come to the subtask of {self.key_groups.start} to "
                f"{self.key_groups.end_inclusive} ({self._first_of(data, state_id)}); "
                "rows have to be partitioned by their subtask"
            )
        place = (key_group, state_id)
        if place != self._place:
            self._enter(place)
        result = self._check(data, place)
        if result[framing.STATUS] != framing.OK:
            raise self._refused(data, key_group, state_id, result)
        self.entries += int(result[framing.COUNT])
        self._append(data, int(result[framing.LAST]))

    def delete(self, key_group: int, state_id: int, markers: npt.NDArray[np.uint8]) -> bool:
        """Delete entries that stay in files of the source savepoint.

        ``key_group`` and ``state_id``: of the entries. They come in the order of :meth:`add`, and before the new entries of the
        same keys. ``markers``: blobs of :class:`~state_processor.backends.write.tombstones.TombstoneEncoder`.

        Returns: true if the writer deletes the entries. False if the writer writes all entries of the state; then the caller
        leaves out the entries of these keys.
        """
        return False

    def stored(self, key_group: int, state_id: int, markers: Sequence[npt.NDArray[np.uint8]]) -> Iterator[npt.NDArray[np.uint8]]:
        """Yield framed entries of a key group that are in kept files: all entries of the markers, and possibly others."""
        return iter(())

    def delete_stored(self, state_id: int, entries: npt.NDArray[np.uint8]) -> None:
        """Delete framed entries of :meth:`stored`, unless :meth:`delete` has deleted the entries."""
        return

    def replaced(self, state_id: int, markers: npt.NDArray[np.uint8]) -> Iterable[tuple[bytes, bytes]]:
        """Return keys and values of the entries that :meth:`delete` deletes, as the source savepoint has them."""
        return ()

    @abstractmethod
    def close(self) -> h.KeyedStateHandle:
        """Complete the files and return their handle."""

    @abstractmethod
    def _begin(self, before: GroupState | None, place: GroupState) -> None:
        """Prepare for entries of another key group or state."""

    def _check(self, data: npt.NDArray[np.uint8], place: GroupState) -> npt.NDArray[np.int64]:
        """Check entries; see :meth:`~state_processor.backends.formats.entry_framing.KeyFilter.check`."""
        return self._seen.check(data, place[0], self.prefix)

    def _reserve(self, entries: int, size: int) -> None:
        """Make room for some entries."""
        self._seen.reserve(entries)

    @abstractmethod
    def _append(self, data: npt.NDArray[np.uint8], last: int) -> None:
        """Write entries. The last entry begins at ``last``."""

    def _enter(self, place: GroupState) -> None:
        key_group, state_id = place
        if not 0 <= state_id < len(self.header.states):
            raise OptionError(f"{self.context}state id {state_id}, there are {len(self.header.states)} states")
        before = self._place
        if before is not None and place < before:
            raise OptionError(f"{self.context}key group {key_group}, state {state_id} comes after {before}; sort by both")
        self._begin(before, place)
        self._place = place
        self._seen.clear()
        self._reserve(*self._expected)

    def _refused(
        self, data: npt.NDArray[np.uint8], key_group: int, state_id: int, result: npt.NDArray[np.int64]
    ) -> StateProcessorError:
        position, status = int(result[framing.POSITION]), int(result[framing.STATUS])
        name = self.header.states[state_id].name
        context = f"{self.context}state {name!r}, key group {key_group}"
        if status == framing.BAD_FRAME:
            return OptionError(f"{context}: byte {position} of a blob is not the beginning of a framed entry")
        entry = self.describe(data.data, position, state_id)
        if status == framing.DUPLICATE:
            return InvalidRowError(f"{context}: {entry} occurs more than once; a state holds one value for it")
        return InvalidRowError(f"{context}: {entry} is of another key group; its bytes and its row disagree")

    def _first_of(self, data: npt.NDArray[np.uint8], state_id: int) -> str:
        if not 0 <= state_id < len(self.header.states):
            return f"state id {state_id}"
        return f"state {self.header.states[state_id].name!r}, {self.describe(data.data, 0, state_id)}"

    def describe(self, data: memoryview, position: int, state_id: int) -> str:
        """Return key, namespace and map key of a framed entry in the words of messages."""
        size = int.from_bytes(data[position : position + 4], "big")
        begin = position + 4 + self.prefix
        try:
            layout = framed_layout(describe_keyed(self.header, self.header.states[state_id]), _EVERYTHING)
            row: dict[str, object] = {}
            layout.read(DataInput(data, "", begin, position + 4 + size), layout.parts[0], row, DecodeOptions(nanos="string"))
        except (StateProcessorError, ValueError):
            return f"the key with the bytes {bytes(data[begin : position + 4 + size]).hex()}"
        return ", ".join(f"{name} {row[name]!r}" for name in sorted(_EVERYTHING) if row.get(name) is not None)


class KeyedFileWriter(KeyedStateWriter):
    """Writes the keyed state of one subtask into one file.

    ``sink``: the file, next to ``_metadata``; it is closed at the end.
    """

    def __init__(self, sink: FileSink, subtask: KeyedSubtask) -> None:
        super().__init__(subtask)
        self._sink = sink
        self._begin_file()

    @abstractmethod
    def _begin_file(self) -> None:
        """Write the beginning of the file, before the first key group."""


_SHORT: Final = 2
_MARKED: Final = 4
"""The position in an entry of the byte that marks the last entry of a state."""


class KeyedStateFileWriter(KeyedFileWriter):
    """Writes the keyed state file of one subtask."""

    def _begin_file(self) -> None:
        self._offsets = np.zeros(len(self.key_groups), dtype=np.int64)
        self._held: bytes | memoryview = b""
        target = DataOutput()
        self.header.write(target)
        self._file = BufferedSink(self._sink, target.buffer)

    @property
    def position(self) -> int:
        """Bytes of the file so far."""
        return self._file.position

    def close(self) -> h.KeyGroupsStateHandle:
        """Complete the file and return its handle."""
        self._end(END_OF_KEY_GROUP)
        self._file.close()
        stream = h.RelativeFileStateHandle(self._sink.name, self._sink.size)
        return h.KeyGroupsStateHandle(h.SAVEPOINT_KEY_GROUPS, self.key_groups, h.Offsets.of(self._offsets.tolist()), stream)

    def _begin(self, before: GroupState | None, place: GroupState) -> None:
        key_group, state_id = place
        if before is not None and before[0] == key_group:
            self._end(state_id)
        else:
            self._end(END_OF_KEY_GROUP)
            self._offsets[key_group - self.key_groups.start] = self.position
            self._file.write(state_id.to_bytes(_SHORT, "big"))

    def _append(self, data: npt.NDArray[np.uint8], last: int) -> None:
        self._file.write(self._held)
        self._file.write(data[:last].data)
        entry = data[last:]
        self._held = entry.data if 2 * len(entry) > len(data) else entry.tobytes()  # a view keeps all of the data

    def _end(self, following: int) -> None:
        """Write the last entry of a state, marked as last, and then a state id or the end of the key group."""
        if self._held:
            self._file.write(bytes([*self._held[:_MARKED], self._held[_MARKED] | LAST_OF_STATE]))
            self._file.write(memoryview(self._held)[_MARKED + 1 :])
            self._file.write(following.to_bytes(_SHORT, "big"))
            self._held = b""


_BUFFER: Final = 1 << 20
_MOST_BYTES: Final = 1 << 30
_COLUMNS: Final = frozenset({layouts.KEY, layouts.NAMESPACE, layouts.VALUE, layouts.MAP_KEY, layouts.MAP_VALUE})


class KeyedHeapFileWriter(KeyedFileWriter):
    """Writes the keyed state file of one subtask; the entries of a key group and state are in memory at a time."""

    def _begin_file(self) -> None:
        self._entries = HeapEntries(self.header, self.prefix, self.context)
        self._offsets: list[int] = []
        self._absent: set[int] = set()
        self._parts: list[npt.NDArray[np.uint8]] = []
        self._held = 0
        self._out = DataOutput()
        self.header.write(self._out)

    def close(self) -> h.KeyGroupsStateHandle:
        """Complete the file and return its handle."""
        self._end_place()
        self._go_to(self.key_groups.end_inclusive)
        self._end_key_group()
        self._flush()
        self._sink.close()
        stream = h.RelativeFileStateHandle(self._sink.name, self._sink.size)
        return h.KeyGroupsStateHandle(h.KEY_GROUPS_V2, self.key_groups, h.Offsets.of(self._offsets), stream, str(uuid4()))

    def _begin(self, before: GroupState | None, place: GroupState) -> None:
        self._end_place()
        self._go_to(place[0])

    def _append(self, data: npt.NDArray[np.uint8], last: int) -> None:
        self._held += len(data)
        if self._held > _MOST_BYTES:
            assert self._place is not None
            key_group, state_id = self._place
            raise InvalidRowError(
                f"{self.context}key group {key_group}, state {self.header.states[state_id].name!r}: the entries take more than "
                f"{_MOST_BYTES} bytes, too many for the memory of a task; write a larger max parallelism, or another format"
            )
        self._parts.append(data)

    def _end_place(self) -> None:
        if self._parts:
            assert self._place is not None
            key_group, state_id = self._place
            count, data = self._entries.of(state_id, key_group, np.concatenate(self._parts))
            self._write_section(state_id, count)
            self._out.write_bytes(data)
            self._absent.remove(state_id)
            self._parts, self._held = [], 0
            if self._out.position >= _BUFFER:
                self._flush()

    def _go_to(self, key_group: int) -> None:
        """Begin a key group, after those before it: a file has all, and in each all states."""
        while len(self._offsets) <= key_group - self.key_groups.start:
            self._end_key_group()
            self._offsets.append(self._sink.size + self._out.position)
            self._out.write_int(self.key_groups.start + len(self._offsets) - 1)
            self._absent = set(range(len(self.header.states)))

    def _end_key_group(self) -> None:
        for state_id in sorted(self._absent):
            self._write_section(state_id, 0)
        self._absent = set()

    def _write_section(self, state_id: int, count: int) -> None:
        self._out.write_short(state_id)
        self._out.write_int(count)

    def _flush(self) -> None:
        self._sink.write(self._out.buffer)
        self._out = DataOutput()


class HeapEntries:
    """Framed entries in the layout of the heap backend.

    ``header``: the states, whose ids are their positions. ``prefix``: bytes of the key group in front of each key. ``context``:
    operator and subtask, for error messages.
    """

    def __init__(self, header: state_headers.KeyedHeader, prefix: int, context: str) -> None:
        self._states = [with_serialized_values(describe_keyed(header, meta)) for meta in header.states]
        self._prefix = prefix
        self._context = context

    def of(self, state_id: int, key_group: int, data: npt.NDArray[np.uint8]) -> tuple[int, bytes]:
        """Return the number of entries, and their bytes, of all framed entries of a state and key group."""
        state = self._states[state_id]
        is_map = isinstance(state, MapDescription)
        starts = order_of_keys(data, self._prefix) if is_map else None
        entries = framing.entry_table(data, self._prefix, key_group, starts)
        if state.is_timer:
            raw = data.tobytes()
            return len(entries), b"".join([raw[a:b] for a, b in entries[:, :2].tolist()])
        context = f"{self._context}state {state.name!r}"
        layout = layouts.framed_layout(state, _COLUMNS)
        batches = decode_framed(layout, LOSSLESS, context, iter([(data, None, entries)]))
        table = pa.Table.from_batches(batches).combine_chunks()
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        if is_map:
            columns = _maps(columns)
        serializers = {layouts.NAMESPACE: state.namespace, layouts.KEY: state.key, layouts.VALUE: state.registered_serializer}
        encoded = encode_columns(serializers, {name: columns[name] for name in serializers}, context)
        return len(encoded), encoded.data.tobytes()


def _maps(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Return a row for each key and namespace, from a row for each entry of a map in the order of keys."""
    key, namespace = columns[layouts.KEY], columns[layouts.NAMESPACE]
    changes = pc.or_(pc.not_equal(key[1:], key[:-1]), pc.not_equal(namespace[1:], namespace[:-1]))
    starts = np.append(0, np.flatnonzero(changes.to_numpy(zero_copy_only=False)) + 1)
    offsets = pa.array(np.append(starts, len(key)).astype(np.int32))
    maps = pa.MapArray.from_arrays(offsets, columns[layouts.MAP_KEY], columns[layouts.MAP_VALUE])
    first = pa.array(starts)
    return {layouts.KEY: key.take(first), layouts.NAMESPACE: namespace.take(first), layouts.VALUE: maps}


_SIGN: Final = 0x80


class RawTimersWriter(KeyedFileWriter):
    """Writes the timers of one subtask; the timers of one key group are in memory at a time.

    States that are not timers are left to other writers.
    """

    def _begin_file(self) -> None:
        described = (describe_keyed(self.header, meta) for meta in self.header.states)
        self._queues = {state.name: state for state in described if isinstance(state, TimerDescription)}
        self._services = {state.service: state for state in self._queues.values()}
        self._timers: dict[str, list[bytes]] = {}
        self._offsets: list[int] = []

    def close(self) -> h.KeyGroupsStateHandle:
        """Complete the file and return its handle."""
        self._go_to(self.key_groups.end_inclusive + 1)
        self._sink.close()
        stream = h.RelativeFileStateHandle(self._sink.name, self._sink.size)
        return h.KeyGroupsStateHandle(h.KEY_GROUPS_V2, self.key_groups, h.Offsets.of(self._offsets), stream, str(uuid4()))

    def _begin(self, before: GroupState | None, place: GroupState) -> None:
        self._go_to(place[0])

    def _append(self, data: npt.NDArray[np.uint8], last: int) -> None:
        assert self._place is not None
        key_group, state_id = self._place
        raw = data.tobytes()
        spans = framing.entry_table(data, self.prefix, key_group)[:, :2].tolist()
        self._timers.setdefault(self.header.states[state_id].name, []).extend(_key_first(raw[start:end]) for start, end in spans)

    def _go_to(self, key_group: int) -> None:
        """Write the key groups before one: each has a block, with all services."""
        while self.key_groups.start + len(self._offsets) < key_group:
            self._offsets.append(self._sink.size)
            self._sink.write(self._block())
            self._timers = {}

    def _block(self) -> bytearray:
        target = DataOutput()
        target.write_bytes(MAGIC)
        target.write_int(VERSION)
        target.write_int(len(self._services))
        for service, queue in self._services.items():
            target.write_utf(service)
            write_versioned_snapshot(queue.key.snapshot(), target)
            write_versioned_snapshot(queue.namespace.snapshot(), target)
            for prefix in (EVENT_PREFIX, PROCESSING_PREFIX):
                timers = self._timers.get(prefix + service, [])
                target.write_int(len(timers))
                target.write_bytes(b"".join(timers))
        return target.buffer


def _key_first(timer: bytes) -> bytes:
    """Return a timer as raw keyed state has it: its time is the last part, and does not sort as bytes."""
    return timer[TIMESTAMP_BYTES:] + bytes((timer[0] ^ _SIGN,)) + timer[1:TIMESTAMP_BYTES]
