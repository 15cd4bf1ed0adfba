"""Rows of operator state that differ between two snapshots. Lists are compared as multisets, broadcast state by key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from state_processor.backends.analysis.comparison import AFTER, BEFORE, CHANGE, DELETE, INSERT, UPDATE, BytesRead
from state_processor.backends.read.operator_state import OperatorStateReader
from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.locks import cached_property

_KEY = "key"
_VALUE = "value"


@dataclass(frozen=True, slots=True)
class BothSplits:
    """The splits of a state in both snapshots."""

    old: tuple[Any, ...]
    new: tuple[Any, ...]

    @property
    def size(self) -> int:
        """Bytes of the snapshots to read."""
        return sum(split.size for split in (*self.old, *self.new))


class OperatorDifference:
    """Compares the rows of two readers of operator state in memory.

    Parameters
    ----------
    name
        The state.
    old, new
        The readers; ``None`` if a snapshot does not have the state.
    """

    def __init__(self, name: str, old: OperatorStateReader | None, new: OperatorStateReader | None) -> None:
        self._readers = (old, new)
        if old is not None and new is not None and old.schema.names != new.schema.names:
            raise UnsupportedFormatError(
                f"state {name!r} has the columns {', '.join(old.schema.names)} in one snapshot and "
                f"{', '.join(new.schema.names)} in the other; only states with equal columns can be compared"
            )

    @cached_property
    def schema(self) -> pa.Schema:
        """``change``, ``key`` of broadcast state, ``before`` and ``after``."""
        old, new = self._readers
        side = new or old
        assert side is not None
        keys = [f for f in side.schema if f.name == _KEY]
        values = [pa.field(n, (r or side).schema.field(_VALUE).type) for n, r in ((BEFORE, old), (AFTER, new))]
        return pa.schema([pa.field(CHANGE, pa.string()), *keys, *values])

    def splits(self, split_bytes: int = 0) -> list[BothSplits]:
        """Return the only split: both whole snapshots."""
        return [BothSplits(*(tuple(reader.splits()) if reader is not None else () for reader in self._readers))]

    def read(self, split: BothSplits, tally: BytesRead | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows that differ; ``tally`` counts the bytes that are read."""
        if tally is not None:
            tally.add_full(split.size)
        old, new = (_rows(reader, parts) for reader, parts in zip(self._readers, (split.old, split.new), strict=True))
        changes = _by_key(old, new) if _KEY in self.schema.names else _by_value(old, new)
        yield pa.RecordBatch.from_pylist(list(changes), self.schema)


def _rows(reader: OperatorStateReader | None, parts: Sequence[Any]) -> list[dict[str, Any]]:
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()] if reader is not None else []


def _by_key(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    before, after = ({repr(row[_KEY]): row for row in rows} for rows in (old, new))
    for text, row in before.items():
        if text not in after:
            yield {CHANGE: DELETE, _KEY: row[_KEY], BEFORE: row[_VALUE]}
        elif repr(row) != repr(after[text]):
            yield {CHANGE: UPDATE, _KEY: row[_KEY], BEFORE: row[_VALUE], AFTER: after[text][_VALUE]}
    yield from ({CHANGE: INSERT, _KEY: row[_KEY], AFTER: row[_VALUE]} for text, row in after.items() if text not in before)


def _by_value(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Compare without order: Flink redistributes elements to subtasks."""
    before, after = (Counter(repr(row) for row in rows) for rows in (old, new))
    values = {repr(row): row[_VALUE] for row in (*old, *new)}
    yield from ({CHANGE: DELETE, BEFORE: values[text]} for text in (before - after).elements())
    yield from ({CHANGE: INSERT, AFTER: values[text]} for text in (after - before).elements())
