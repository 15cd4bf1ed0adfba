"""Keys that are erased from tables: the keys of a state, or of timers, which begin with their time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from state_processor.backends.formats.key_index import KeyIndex, SerializedKeys
from state_processor.backends.formats.sst.beginnings import Beginnings
from state_processor.backends.formats.sst.block_kernels import KEY, KEY_END
from state_processor.backends.formats.sst.erased_table import ErasedTable, without
from state_processor.backends.formats.sst.family_scan import stored_entries
from state_processor.backends.formats.sst.table import Table

_TIMESTAMP: Final = 8


class ErasedKeys:
    """Keys to erase from the tables of a column family.

    Parameters
    ----------
    markers
        The beginnings of entries, from the key group to the key.
    prefix
        Bytes of the key group.
    are_timers
        Whether the entries are timers: the time is between the key group and the key. All entries of a table are read then.
    """

    def __init__(self, markers: Iterable[bytes], prefix: int, *, are_timers: bool) -> None:
        self._beginnings = Beginnings(markers)
        self._prefix = prefix
        self._index = KeyIndex(SerializedKeys.of(one[prefix:] for one in self._beginnings), _TIMESTAMP) if are_timers else None

    def without(self, table: Table) -> ErasedTable | None:
        """Return a table without the entries of the keys; see :func:`.erased_table.without`."""
        beginnings = self._beginnings if self._index is None else Beginnings(self._timers(table, self._index))
        return without(table, beginnings) if len(beginnings) else None

    def _timers(self, table: Table, index: KeyIndex) -> Iterator[bytes]:
        """Yield the entries of timers with one of the keys."""
        for data, entries in stored_entries(table, self._prefix):
            for row in index.keep(data, entries).tolist():
                yield data[row[KEY] - self._prefix : row[KEY_END]].tobytes()
