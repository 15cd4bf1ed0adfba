"""Writing one subtask's keyed state from blobs: the checks that all formats have in common.

Entries come as *blobs*: any number of framed entries (int key length, key with its key group, int value length, value) of one
state and key group, one after the other, as :class:`~state_processor.backends.write.entry_encoder.KeyedStateEncoder` makes them.
Key and value are the same bytes in each format; a format decides how the entries become files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from state_processor.backends.files.changes import FileSink
from state_processor.backends.formats import entry_framing as framing
from state_processor.backends.formats.row_layout import framed_layout
from state_processor.backends.metadata import handles as h
from state_processor.backends.state import state_headers
from state_processor.backends.state.descriptions import describe_keyed
from state_processor.backends.state.key_groups import prefix_size
from state_processor.backends.write.blobs import GroupState
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput
from state_processor.support.errors import InvalidRowError, OptionError, StateProcessorError

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
