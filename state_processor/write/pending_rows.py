"""Rows that users give for keyed states of an operator, and keys or entries to delete."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace

from state_processor.backends.state.part_names import DeclaredNames
from state_processor.serializers.records import dataclass
from state_processor.write.row_protocol import ColumnNames, Replaced, Rows


@dataclass(frozen=True)
class StateRows:
    """Rows of keyed states.

    Attributes
    ----------
    rows
        The rows.
    columns
        By state: the columns that it is written from.
    replaces
        What a row replaces of the source savepoint: nothing, all entries of its key, or one entry of a map.
    names
        By state: names of the fields of rows, which headers do not contain.
    """

    rows: Rows
    columns: Mapping[str, ColumnNames]
    replaces: Replaced = ""
    names: Mapping[str, DeclaredNames] = field(default_factory=dict)

    def without_states(self, states: Collection[str]) -> tuple[StateRows, ...]:
        """Return the rows for other states; empty without other states."""
        columns = {name: given for name, given in self.columns.items() if name not in states}
        return (replace(self, columns=columns),) if columns else ()


@dataclass(frozen=True)
class Deletion:
    """Keys, or entries of a map, to delete from one keyed state of the source savepoint or (``None``) from all."""

    rows: Rows
    columns: ColumnNames
    state: str | None
    scope: Replaced = "keys"
    names: DeclaredNames = field(default_factory=dict)
