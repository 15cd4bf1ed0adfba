"""Names for the fields of rows in states, from the plan of a query or from the user. Types in the bytes take precedence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from state_processor.backends.metadata.queries import operator_of_query
from state_processor.backends.metadata.snapshot import Snapshot, some_of
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.state.column_types import DeclaredNames, with_names
from state_processor.backends.state.descriptions import StateDescription
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.rows import RowSerializer, TupleSerializer
from state_processor.serializers.table.row_names import RowNames, names_of_row, rows_in
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.support.doors import spelled
from state_processor.support.errors import OptionError
from state_processor.support.mappings import index_by_name

_KEY: Final = "key"
_State = TypeVar("_State", bound=StateDescription)


def state_names(
    snapshot: Snapshot,
    operator: OperatorState,
    states: Iterable[StateDescription],
    fields: Mapping[str, Sequence[str]],
) -> tuple[tuple[str, DeclaredNames], ...]:
    """Return names for the rows of the read states: names from the user, and names from the plan for other parts.

    ``fields``: names from the user, see :func:`names_from_user`.
    """
    by_name = index_by_name(states)
    paths = set(by_name)
    for state in by_name.values():
        paths.update(f"{state.name}.{column}" for column in state.COLUMNS)
    if not by_name or any(state.is_keyed for state in by_name.values()):
        paths.add(_KEY)
    for path in fields:
        if path not in paths:
            raise OptionError(f"{spelled('fields')}: {path!r} is not read; names may be given for {some_of(sorted(paths))}")
    planned = operator_of_query(snapshot, operator)
    names_of_states = {}
    for state in by_name.values():
        from_user = names_from_user(fields, state)
        from_plan = {} if planned is None else planned.names(state)
        names_of_states[state.name] = {**from_plan, **from_user}
    return tuple((name, names) for name, names in names_of_states.items() if names)


def with_names_of_plan(snapshot: Snapshot, operator: OperatorState, states: Sequence[_State]) -> dict[str, _State]:
    """Return states by name; their rows have the names of the plan that the snapshot was opened with."""
    names = {} if snapshot.query_plan is None else dict(state_names(snapshot, operator, states, {}))
    return {state.name: with_names(state, names.get(state.name, {})) for state in states}


def names_from_user(names_by_path: Mapping[str, Sequence[str]], state: StateDescription) -> DeclaredNames:
    """Return the names from the user for the rows of a state.

    ``names_by_path``: names by ``key``, the name of a state, or the name of a state and one of its columns
    (``left-records.map_key``).
    """
    names_of_parts: dict[str, Sequence[str]] = {}
    columns = {column: part for column, part in state.COLUMNS.items() if part != _KEY and part in state.serializers}
    for column, part in columns.items():
        path = f"{state.name}.{column}"
        if path in names_by_path:
            names_of_parts[part] = names_by_path[path]
    if state.is_keyed and _KEY in names_by_path:
        names_of_parts[_KEY] = names_by_path[_KEY]
    if state.name in names_by_path:
        with_rows = [part for part in columns.values() if _without_tuples(state.serializers[part])]
        if len(with_rows) != 1:
            paths = " or ".join(f"{state.name}.{c}" for c, part in columns.items() if part in with_rows)
            problem = f"state {state.name!r} has {len(with_rows)} columns of rows"
            raise OptionError(f"{spelled('fields')}: {problem}; name {paths or 'other states'}")
        names_of_parts[with_rows[0]] = names_by_path[state.name]
    row_names: dict[str, RowNames] = {}
    for part, names in names_of_parts.items():
        context = f"{spelled('fields')}: state {state.name!r}, {part}"
        row_names[part] = _names_of(state.serializers[part], tuple(names), context)
    return row_names


def _names_of(serializer: TypeSerializer, names: tuple[str, ...], context: str) -> RowNames:
    """Return the names from the user for the only row in a serializer."""
    rows = _without_tuples(serializer)
    if len(rows) != 1:
        raise OptionError(f"{context} is {serializer} with {len(rows)} rows; expected one row")
    size = len(rows[0].slot.fields if isinstance(rows[0], RowDataSerializer) else rows[0].fields)
    if len(names) != size or len(set(names)) != size:
        raise OptionError(f"{context} has rows of {size} fields; expected as many different names, found {list(names)}")
    return tuple(names if row is rows[0] else names_of_row(row) for row in rows_in(serializer))


def _without_tuples(serializer: TypeSerializer) -> list[RowSerializer | RowDataSerializer]:
    return [row for row in rows_in(serializer) if not isinstance(row, TupleSerializer)]
