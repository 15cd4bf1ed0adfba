"""Names that a job declares for the fields of rows in its state. Headers do not contain them; users pass them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from state_processor.backends.state.column_types import by_role
from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.state.part_names import with_names
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.compatibility import Verdict
from state_processor.serializers.errors import OptionError
from state_processor.serializers.runtime.ttl import TtlSerializer
from state_processor.serializers.table.row_names import RowNames, row_names

_State = TypeVar("_State", bound=StateDescription)


def named_by(state: _State, types: Mapping[str, TypeSerializer]) -> _State:
    """Return the state with the names in the declared types of its columns.

    Raises
    ------
    OptionError
        If the state does not have a column, or the column has another type.
    """
    found = by_role(state, types.items())
    return with_names(state, {part: names_in(given, getattr(state, part), f"column {name!r}") for name, part, given in found})


def names_in(given: TypeSerializer, written: TypeSerializer, where: str) -> RowNames:
    """Return the names in a declared type; the written type may have other names.

    Raises
    ------
    OptionError
        If the types differ in more than names.
    """
    if isinstance(written, TtlSerializer) and not isinstance(given, TtlSerializer):
        given = TtlSerializer.of(given)
    if written.snapshot().resolve_schema_compatibility(given).verdict is not Verdict.COMPATIBLE_AS_IS:
        raise OptionError(f"{where} is of type {written}, not {given}; a type given here can only name the fields of rows")
    return row_names(given)
