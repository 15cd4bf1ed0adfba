"""Names for the fields of rows in states, from a plan. Types in the bytes take precedence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from state_processor.applications.flink_sql.fields import PlanFields, distinct_names
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.table.row_names import FieldName, RowNames, rows_in
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.support.errors import OptionError

if TYPE_CHECKING:
    from state_processor.applications.flink_sql.nodes import PlanOperator
    from state_processor.backends.state.column_types import DeclaredNames
    from state_processor.backends.state.descriptions import StateDescription

_KEY: Final = "key"


def names_from_plan(operator: PlanOperator, state: StateDescription) -> DeclaredNames:
    """Return the names of rows from a plan, by part of a state; parts without names are omitted."""
    meaning = operator.meaning(state)
    rows = dict(meaning.rows) if meaning is not None else {}
    if operator.key is not None and state.is_keyed:
        rows[_KEY] = operator.key
    tuples = meaning.tuples if meaning is not None else ()
    context = f"{operator.label} (uid {operator.uid!r}), state {state.name!r}"
    names_of_parts = {
        part: _named(serializer, rows.get(part, ()), tuples if part == "value" else (), f"{context}, {part}")
        for part, serializer in state.serializers.items()
        if part in rows or (part == "value" and tuples)
    }
    return {part: names for part, names in names_of_parts.items() if names}


def _named(serializer: TypeSerializer, fields: PlanFields, tuples: tuple[str, ...], context: str) -> RowNames:
    """Compare the types of the plan with a serializer; return the plan's names for the row and the tuple around it."""
    names: list[tuple[FieldName, ...] | None] = []
    for row in rows_in(serializer):
        if isinstance(row, TupleSerializer):
            names.append(tuples if len(tuples) == len(row.fields) else None)
        elif isinstance(row, RowDataSerializer):
            _check_types(row, fields, context)
            names.append(_field_names(fields))
        else:
            names.append(row.names)
    return tuple(names)


def _field_names(fields: PlanFields) -> tuple[FieldName, ...]:
    return tuple((f.name, _field_names(f.fields)) if f.fields else f.name for f in distinct_names(fields))


def _check_types(row: RowDataSerializer, fields: PlanFields, context: str) -> None:
    """Refuse a plan with other types than the types in the bytes."""
    types = row.slot.type.types
    differs = any(f.type is not None and written_type != f.type for written_type, f in zip(types, fields, strict=False))
    if len(types) != len(fields) or differs:
        plan_row = f"ROW<{', '.join(map(str, fields))}>"
        raise OptionError(
            f"plan: {context} is {row}, the plan has {plan_row}; pass the plan of the query that wrote the snapshot"
        )
