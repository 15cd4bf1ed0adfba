"""What all comparisons have: columns and kinds of changes, and the bytes that a comparison reads and could have read."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import pyarrow as pa

from state_processor.backends.read.state_access import StateReader
from state_processor.support.errors import UnsupportedFormatError
from state_processor.support.locks import process_lock

CHANGE: Final = "change"
BEFORE: Final = "before"
AFTER: Final = "after"

INSERT: Final = "insert"
DELETE: Final = "delete"
UPDATE: Final = "update"

INCREMENTAL: Final = "incremental"
FULL: Final = "full"
MIXED: Final = "mixed"


def check_columns(state: str, readers: tuple[StateReader | None, StateReader | None], of_any_type: Collection[str]) -> None:
    """Refuse a state whose rows have other columns in the two snapshots.

    ``readers``: the readers of the snapshots that have the state. ``of_any_type``: columns whose types may differ.
    """
    before, after = readers
    if before is None or after is None:
        return
    old, new = before.schema, after.schema
    if {*old.names} != {*new.names} or _types_of_others(old, of_any_type) != _types_of_others(new, of_any_type):
        raise UnsupportedFormatError(
            f"state {state!r}: its rows have the columns {_columns(old)} in one snapshot and {_columns(new)} in the other; "
            "only states with equal keys can be compared"
        )


def _types_of_others(schema: pa.Schema, names: Collection[str]) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema if field.name not in names]


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


class BytesRead:
    """Counts the bytes that a comparison of a state reads.

    ``read``: bytes that were read so far.
    """

    def __init__(self) -> None:
        self.read = 0
        self._lock = process_lock()
        self._files: dict[tuple[str, str], int] = {}
        self._full = 0

    @property
    def stored(self) -> int:
        """Bytes that both snapshots have of the state, in the parts that were compared."""
        return sum(self._files.values()) + self._full

    @property
    def method(self) -> str:
        """``incremental`` if common tables were skipped, ``full``, or ``mixed``: both, in different subtasks."""
        if not self._files:
            return FULL
        return MIXED if self._full else INCREMENTAL

    def add(self, size: int) -> None:
        """Count bytes that were read."""
        with self._lock:
            self.read += size

    def add_files(self, store: str, files: Iterable[tuple[str, int]]) -> None:
        """Count the tables of a store, by name and size; once, even if several parts of them are compared."""
        with self._lock:
            self._files.update({(store, name): size for name, size in files})

    def add_full(self, size: int) -> None:
        """Count bytes that are read in full."""
        with self._lock:
            self.read += size
            self._full += size
