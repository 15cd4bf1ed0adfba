"""States of sources as their serializers write them, for tests of all sources whose splits are layouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from state_processor import connectors
from state_processor.backends.connectors.connector import CoordinatorState, SourceState, Versioned
from state_processor.backends.connectors.source_splits import WrittenSource, _table, recognized, shown_splits


@dataclass(frozen=True)
class Family:
    """The serializers of a source, the content of a split and of the enumerator, and edits of their rows."""

    splits: str
    version: int
    split: dict[str, Any]
    enumerator: str
    enumerator_version: int
    state: dict[str, Any]
    edit_state: Callable[[dict[str, Any]], object]
    """Changes the JSON of the enumerator."""
    columns: dict[str, Any]
    """Columns of the split with new values."""
    fields: dict[str, Any]
    """Fields of the content that these columns change."""
    makes_splits: bool = False
    """Whether new splits can be written."""

    def source_state(self) -> SourceState:
        split = Versioned(self.version, connectors.encode(self.splits, self.version, self.split))
        enumerator = connectors.encode(self.enumerator, self.enumerator_version, self.state)
        return SourceState("operator 'op'", ((0, split),), CoordinatorState(Versioned(self.enumerator_version, enumerator)))

    def decoded(self, written: WrittenSource) -> tuple[list[Any], Any]:
        contents = [connectors.decode(self.splits, self.version, element[8:]) for element in written.elements]
        assert written.coordinator is not None
        enumerator = CoordinatorState.read(written.coordinator, "").enumerator.data
        return contents, connectors.decode(self.enumerator, self.enumerator_version, enumerator)


def rows_of(base: SourceState) -> list[dict[str, Any]]:
    connector = recognized(base)
    assert connector is not None
    rows: list[dict[str, Any]] = _table(*shown_splits(base, connector)).to_pylist()
    return rows
