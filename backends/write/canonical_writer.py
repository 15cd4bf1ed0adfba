"""Writing one subtask's keyed state in the canonical format, in bounded memory. Flink: ``FullSnapshotAsyncWriter``."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from state_processor.backends.files.changes import BufferedSink
from state_processor.backends.formats.framing import END_OF_KEY_GROUP, LAST_OF_STATE
from state_processor.backends.metadata import handles as h
from state_processor.backends.write.blobs import GroupState
from state_processor.backends.write.keyed_writer import KeyedFileWriter
from state_processor.serializers.io import DataOutput

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
