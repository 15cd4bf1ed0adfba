"""Writing one subtask's keyed state in the canonical format, in bounded memory. Flink: ``FullSnapshotAsyncWriter``.

Entries come as *blobs*: any number of framed entries (int key length, key with its key group, int value length, value) of one
state and key group, one after the other, as :class:`~state_processor.backends.write.entry_encoder.KeyedStateEncoder` makes them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from state_processor.backends.formats import entry_framing as framing
from state_processor.backends.formats.entry_layouts import framed_layout
from state_processor.backends.formats.framing import END_OF_KEY_GROUP, LAST_OF_STATE
from state_processor.backends.metadata import handles as h
from state_processor.backends.state import meta_info as mi
from state_processor.backends.state.descriptions import describe_keyed
from state_processor.backends.state.key_groups import prefix_size
from state_processor.backends.write.staging import FileSink
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import InvalidRowError, OptionError, StateProcessorError
from state_processor.serializers.io import DataInput, DataOutput

_BUFFER: Final = 1 << 20
_EVERYTHING: Final = frozenset({"key", "namespace", "map_key", "timestamp"})
_SHORT: Final = 2


class KeyedStateFileWriter:
    """Writes the keyed state file of one subtask.

    Call :meth:`add` with blobs in ascending order of key group and, within one, of state id; then :meth:`close`.

    Parameters
    ----------
    sink
        The file, beside ``_metadata``; it is closed at the end.
    header
        The states, whose ids are their positions.
    key_groups
        The key groups of the subtask.
    max_parallelism
        Of the operator.
    context
        Operator and subtask, for error messages.
    """

    def __init__(
        self, sink: FileSink, header: mi.KeyedHeader, key_groups: h.KeyGroupRange, max_parallelism: int, context: str = ""
    ) -> None:
        self._sink = sink
        self._header = header
        self._key_groups = key_groups
        self._prefix = prefix_size(max_parallelism)
        self._context = f"{context}: " if context else ""
        self._offsets = np.zeros(len(key_groups), dtype=np.int64)
        self._seen = framing.KeyFilter()
        self._place: tuple[int, int] | None = None
        self._held = bytearray()
        self.entries = 0
        target = DataOutput()
        header.write(target)
        self._buffer = target.buffer
        self._written = 0

    @property
    def position(self) -> int:
        """Bytes of the file so far."""
        return self._written + len(self._buffer)

    def add(self, key_group: int, state_id: int, blob: bytes | memoryview | npt.NDArray[np.uint8]) -> None:
        """Write entries of one state and key group.

        Raises
        ------
        InvalidRowError
            If a key occurs twice, or entries are not of this subtask and key group.
        OptionError
            If key groups or states come out of order.
        """
        data = np.frombuffer(blob, dtype=np.uint8)
        data.flags.writeable = False
        if not len(data):
            return
        if key_group not in self._key_groups:
            raise InvalidRowError(
                f"{self._context}key group {key_group} has come to the subtask of {self._key_groups.start} to "
                f"{self._key_groups.end_inclusive} ({self._first_of(data, state_id)}); "
                "rows have to be partitioned by their subtask"
            )
        place = (key_group, state_id)
        if place != self._place:
            self._begin(place)
        result = self._seen.check(data, key_group, self._prefix)
        if result[framing.STATUS] != framing.OK:
            raise self._refused(data, key_group, state_id, result)
        last = int(result[framing.LAST])
        self.entries += int(result[framing.COUNT])
        self._write(self._held)
        self._write(data[:last].data)
        self._held = bytearray(data[last:].data)

    def close(self) -> h.KeyGroupsStateHandle:
        """Complete the file and return its handle."""
        self._end(END_OF_KEY_GROUP)
        self._flush()
        self._sink.close()
        stream = h.RelativeFileStateHandle(self._sink.name, self._written)
        return h.KeyGroupsStateHandle(h.SAVEPOINT_KEY_GROUPS, self._key_groups, h.Offsets.of(self._offsets.tolist()), stream)

    def _begin(self, place: tuple[int, int]) -> None:
        key_group, state_id = place
        if not 0 <= state_id < len(self._header.states):
            raise OptionError(f"{self._context}state id {state_id}, there are {len(self._header.states)} states")
        before = self._place
        if before is not None and place < before:
            raise OptionError(f"{self._context}key group {key_group}, state {state_id} comes after {before}; sort by both")
        if before is not None and before[0] == key_group:
            self._end(state_id)
        else:
            self._end(END_OF_KEY_GROUP)
            self._offsets[key_group - self._key_groups.start] = self.position
            self._write(state_id.to_bytes(_SHORT, "big"))
        self._place = place
        self._seen.clear()

    def _end(self, following: int) -> None:
        """Write the last entry of a state, marked as such, and what follows it: a state id or the end of the key group."""
        if self._held:
            self._held[4] |= LAST_OF_STATE
            self._write(self._held)
            self._write(following.to_bytes(_SHORT, "big"))
            self._held = bytearray()

    def _write(self, data: bytes | bytearray | memoryview) -> None:
        self._buffer += data
        if len(self._buffer) >= _BUFFER:
            self._flush()

    def _flush(self) -> None:
        self._sink.write(self._buffer)
        self._written += len(self._buffer)
        self._buffer = bytearray()

    def _refused(
        self, data: npt.NDArray[np.uint8], key_group: int, state_id: int, result: npt.NDArray[np.int64]
    ) -> StateProcessorError:
        position, status = int(result[framing.POSITION]), int(result[framing.STATUS])
        name = self._header.states[state_id].name
        where = f"{self._context}state {name!r}, key group {key_group}"
        if status == framing.BAD_FRAME:
            return OptionError(f"{where}: byte {position} of a blob is not the beginning of a framed entry")
        entry = self.describe(data.data, position, state_id)
        if status == framing.DUPLICATE:
            return InvalidRowError(f"{where}: {entry} occurs more than once; a state holds one value for it")
        return InvalidRowError(f"{where}: {entry} is of another key group; its bytes and its row disagree")

    def _first_of(self, data: npt.NDArray[np.uint8], state_id: int) -> str:
        if not 0 <= state_id < len(self._header.states):
            return f"state id {state_id}"
        return f"state {self._header.states[state_id].name!r}, {self.describe(data.data, 0, state_id)}"

    def describe(self, data: memoryview, position: int, state_id: int) -> str:
        """Return key, namespace and map key of a framed entry in the words of messages."""
        size = int.from_bytes(data[position : position + 4], "big")
        begin = position + 4 + self._prefix
        try:
            layout = framed_layout(describe_keyed(self._header, self._header.states[state_id]), _EVERYTHING)
            row: dict[str, object] = {}
            layout.read(DataInput(data, "", begin, position + 4 + size), layout.parts[0], row, DecodeOptions(nanos="string"))
        except (StateProcessorError, ValueError):
            return f"the key with the bytes {bytes(data[begin : position + 4 + size]).hex()}"
        return ", ".join(f"{name} {row[name]!r}" for name in sorted(_EVERYTHING) if row.get(name) is not None)
