"""Tests of sources whose splits are layouts, for the core and for plug-ins: rows, preserved content, and edits."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from state_processor import connectors
from state_processor.backends.connectors.connector import CoordinatorState, SourceState, Versioned
from state_processor.backends.connectors.source_splits import WrittenSource, _table, recognized, shown_splits, written_source
from state_processor.errors import InvalidRowError


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


class SourceTests:
    """Tests of a source. A class of tests extends it."""

    connector: ClassVar[str]
    family: ClassVar[Family]

    def test_unchanged_rows_are_the_same_bytes(self) -> None:
        base = self.family.source_state()
        connector = recognized(base)
        assert connector is not None
        assert connector.name == self.connector
        written = written_source(rows_of(base), base)
        assert written.elements == [split.to_bytes() for _, split in base.splits]
        assert base.coordinator is not None
        assert written.coordinator == base.coordinator.to_bytes()

    def test_the_state_of_the_enumerator_is_a_row(self) -> None:
        base = self.family.source_state()
        rows = rows_of(base)
        (row,) = [row for row in rows if row["split_id"] == "enumerator"]
        rest = json.loads(row["enumerator"])
        self.family.edit_state(rest)
        row["enumerator"] = json.dumps(rest)
        _, changed = self.family.decoded(written_source(rows, base))
        assert changed != self.family.state
        assert {**changed, **dict.fromkeys(rest)} == {**self.family.state, **dict.fromkeys(rest)}

    def test_columns_of_a_split_are_its_content(self) -> None:
        base = self.family.source_state()
        rows = rows_of(base)
        next(row for row in rows if row["subtask"] == 0).update(self.family.columns)
        (content,), enumerator = self.family.decoded(written_source(rows, base))
        assert content == self.family.split | self.family.fields
        assert enumerator == self.family.state


class SourceWithoutNewSplitsTests(SourceTests):
    """Tests of a source whose splits only the source itself can make."""

    def test_new_splits_are_refused(self) -> None:
        base = self.family.source_state()
        rows = rows_of(base)
        held = next(row for row in rows if row["subtask"] == 0)
        with pytest.raises(InvalidRowError, match=r"new splits of .* can't be written; keep the columns 'version' and 'raw'"):
            written_source([*rows, {**held, "split_id": "new", "version": None, "raw": None}], base)
