"""Rows of Flink SQL whose fields are matched by name when state is restored (FLIP-527, after Flink 2.3).

Flink matches by name if ``table.exec.state.schema-evolution.enabled`` is set and a state backend migrates values: the value of a
state, the elements of a list, the values of a map. Rows nested in these rows are matched in the same way. Rows nested in other
types (arrays, maps, tuples), keys, namespaces and keys of maps are compared by position.

The rule follows the open pull request of FLINK-40298. No release of Flink contains it yet.
"""

from __future__ import annotations

from collections.abc import Sequence

from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot, worst_of_nested
from state_processor.serializers.compatibility import SchemaCompatibility
from state_processor.serializers.runtime.ttl import TtlSerializer
from state_processor.serializers.table.logical_types import LogicalType, RowType, StructuredType
from state_processor.serializers.table.rowdata import RowDataSerializer, RowDataSerializerSnapshot


def resolve_by_name(written: TypeSerializer, wanted: TypeSerializer) -> SchemaCompatibility | None:
    """Return the verdict on the value of a state whose rows may evolve by name; ``None`` if it is not a row.

    Parameters
    ----------
    written
        The serializer of the state's value, of a list's elements or of a map's values.
    wanted
        The serializer that the new job declares, with the names of its fields.
    """
    old = written.value if isinstance(written, TtlSerializer) else written
    new = wanted.value if isinstance(wanted, TtlSerializer) else wanted
    if not isinstance(old, RowDataSerializer) or not isinstance(new, RowDataSerializer):
        return None
    snapshot = old.snapshot()
    assert isinstance(snapshot, RowDataSerializerSnapshot)
    verdict = _resolve(snapshot, new.slot.type)
    gets_ttl = isinstance(wanted, TtlSerializer) and not isinstance(written, TtlSerializer)
    if gets_ttl and not verdict.is_incompatible:
        return SchemaCompatibility.compatible_after_migration()
    return verdict


def _resolve(old: RowDataSerializerSnapshot, new: RowType) -> SchemaCompatibility:
    new_snapshots = RowDataSerializer(new).new_snapshot()
    assert isinstance(new_snapshots, RowDataSerializerSnapshot)
    nameless = isinstance(new, StructuredType)
    agree = nameless or old.names is None or old.names == new.names
    if old.logical_types == new.types and agree:
        return worst_of_nested(old.nested, new_snapshots.nested)
    if nameless:
        return SchemaCompatibility.incompatible(f"{new} is of a user class; Flink does not match its fields by name")
    matched = _by_position(old, new) if old.names is None else _by_name(old.names, old, new)
    if isinstance(matched, str):
        return SchemaCompatibility.incompatible(matched)
    verdicts = (
        _nested(old.nested[position], new_snapshots.nested[found], new.types[found]) for position, found in enumerate(matched)
    )
    worst = SchemaCompatibility.worst(*verdicts)
    return worst if worst.is_incompatible else SchemaCompatibility.compatible_after_migration()


def _nested(old: TypeSerializerSnapshot, new: TypeSerializerSnapshot, type_: LogicalType) -> SchemaCompatibility:
    if isinstance(old, RowDataSerializerSnapshot) and _is_row(type_):
        assert isinstance(type_, RowType)
        return _resolve(old, type_)
    return old.resolve_schema_compatibility(new)


def _by_name(names: Sequence[str], old: RowDataSerializerSnapshot, new: RowType) -> list[int] | str:
    """Return the position of each written field in the new row, or why Flink refuses it."""
    places = {name: place for place, name in enumerate(new.names)}
    for name, type_ in zip(new.names, new.types, strict=True):
        if name not in names and not type_.nullable:
            return f"field {name!r} is new and must not be null ({type_}); new fields have to be nullable"
    for name, type_ in zip(names, old.logical_types, strict=True):
        if name not in places:
            return f"field {name!r} was written, but the new row lacks it: {new}"
        if problem := _retyped(f"field {name!r}", type_, new.types[places[name]]):
            return problem
    return [places[name] for name in names]


def _by_position(old: RowDataSerializerSnapshot, new: RowType) -> list[int] | str:
    """Match fields of a row that was written without names: the new row may only have additional fields at its end."""
    count = len(old.types)
    if len(new.types) < count:
        return f"a row of {count} fields without names was written, one of {len(new.types)} is required"
    for position, type_ in enumerate(old.logical_types):
        if problem := _retyped(f"field {position}, written without a name,", type_, new.types[position]):
            return problem
    for name, type_ in zip(new.names[count:], new.types[count:], strict=True):
        if not type_.nullable:
            return f"field {name!r} is new and must not be null ({type_}); new fields have to be nullable"
    return list(range(count))


def _retyped(field: str, old: LogicalType, new: LogicalType) -> str:
    if old == new or (_is_row(old) and _is_row(new)):
        return ""
    return f"{field} was written as {old}, {new} is required"


def _is_row(type_: LogicalType) -> bool:
    return isinstance(type_, RowType) and not isinstance(type_, StructuredType)
