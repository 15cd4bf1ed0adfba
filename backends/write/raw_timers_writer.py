"""Writing one subtask's timers into raw keyed state, for jobs that keep timers on the heap and other state in RocksDB or ForSt.

Flink: ``InternalTimerServiceSerializationProxy``, ``InternalTimersSnapshotReaderWriters``. The reader is
:mod:`~state_processor.backends.formats.raw_timers`.
"""

from __future__ import annotations

from typing import Final
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from state_processor.backends.formats.entry_framing import entry_table
from state_processor.backends.formats.raw_timers import MAGIC, TIMESTAMP_BYTES, VERSION
from state_processor.backends.metadata import handles as h
from state_processor.backends.state.descriptions import EVENT_PREFIX, PROCESSING_PREFIX, TimerDescription, describe_keyed
from state_processor.backends.write.blobs import GroupState
from state_processor.backends.write.keyed_writer import KeyedFileWriter
from state_processor.serializers.base import write_versioned_snapshot
from state_processor.serializers.io import DataOutput

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
        spans = entry_table(data, self.prefix, key_group)[:, :2].tolist()
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
