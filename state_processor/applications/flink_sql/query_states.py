"""Rows that have come to an operator of a query, as the entries of its states. An engine computes the entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from state_processor import MapState, Types, ValueState
from state_processor.applications.flink_sql.accumulators import BIGINT, Aggregate, DistinctValues
from state_processor.applications.flink_sql.bootstrap import (
    Accumulators,
    History,
    Input,
    JoinedRows,
    JoinSide,
    KeptRow,
    LastRows,
    Order,
    RankedRows,
)
from state_processor.applications.flink_sql.query_rows import OWN, ChosenRow, QueryRows, Shape
from state_processor.errors import OptionError
from state_processor.serializers import RowDataSerializer, TupleSerializer, TypeSerializer
from state_processor.types import AtomicType, ListSerializer, OrderedField, RowType, external_serializer, sorted_map
from state_processor.write import KEY, MAP_KEY, MAP_VALUE, VALUE, Rows, naming

_COPIES: Final = OWN.format("copies")
_MATCHES: Final = OWN.format("matches")
_ROW: Final = OWN.format("row")
_PLACE: Final = OWN.format("place")
_BY_PLACE: Final = (Order(_PLACE, ascending=True, nulls_last=False),)
_INNER_PLACE: Final = OWN.format("inner_place")
_COUNTED: Final = OWN.format("counted")
_OF_VIEW: Final = b"\0"
"""What Flink stores in the field of an accumulator whose values are in another state."""


@dataclass(frozen=True)
class NewState:
    """A state of an operator, and rows with an entry each."""

    name: str
    spec: ValueState | MapState
    rows: Rows


def uses_rows_again(history: History) -> bool:
    """Return whether the states of an operator are computed from its rows in several queries. These have to see the same rows."""
    match history:
        case JoinedRows():
            return history.left.outer or history.right.outer
        case Accumulators():
            return bool(history.distinct)
        case RankedRows():
            return history.kind == "retract"
        case _:
            return False


def check_inputs(history: History, label: str, rows: object, left: object, right: object) -> None:
    """Refuse rows for inputs that an operator does not have, and missing ones."""
    if isinstance(history, JoinedRows):
        if rows is not None or left is None or right is None:
            raise OptionError(f"{label} has two inputs: give the rows of both as left= and right=; a side may be empty")
    elif rows is None or left is not None or right is not None:
        raise OptionError(f"{label} has one input: give its rows as df; left= and right= are for joins")


def new_states(history: Accumulators | KeptRow | LastRows | RankedRows, rows: QueryRows) -> tuple[NewState, ...]:
    """Return the states of an operator with one input for rows of this input."""
    match history:
        case Accumulators():
            return _accumulated(history, rows)
        case KeptRow():
            return (_kept(history, rows),)
        case LastRows():
            row = RowDataSerializer(history.rows.row)
            entries = rows.entries({KEY: _key_of(history.rows), VALUE: _whole(history.rows)})
            return (NewState("deduplicate-state", ValueState(row, history.has_ttl), entries),)
        case RankedRows():
            return _ranked(history, rows)


def _key_of(rows: Input) -> Shape:
    return _shape(rows.key, rows.key_type)


def _whole(rows: Input) -> dict[str, str]:
    return {column: column for column in rows.columns}


def _accumulated(history: Accumulators, rows: QueryRows) -> tuple[NewState, ...]:
    """Return the accumulators of an aggregate, and the states of distinct values."""
    names = {OWN.format(f"value_{i}"): field for i, field in enumerate(history.fields)}
    groups = rows.groups(history.rows.key, {name: field.filled for name, field in names.items()}, has_ttl=history.has_ttl)
    value: dict[str, Shape] = {field.name: name for name, field in names.items()}
    value |= dict.fromkeys(history.views, _OF_VIEW)
    entries = groups.entries({KEY: _key_of(history.rows), VALUE: value})
    new_states = [NewState("accState", ValueState(RowDataSerializer(history.type), history.has_ttl), entries)]
    for i, distinct in enumerate(history.distinct):
        new_states += _distinct(f"distinctAcc_{i}", history, distinct, rows)
    return tuple(new_states)


def _distinct(name: str, history: Accumulators, values: DistinctValues, rows: QueryRows) -> tuple[NewState, NewState]:
    """Return the state of distinct values and the state of the null among them (Flink: ``StateMapViewWithKeysNullable``)."""
    counts = {OWN.format(f"count_{i}"): Aggregate("count", (), BIGINT, condition) for i, condition in enumerate(values.wheres)}
    groups = rows.groups((*history.rows.key, values.column), counts, has_ttl=history.has_ttl)
    of_values, of_null = (groups.counted(values.column, tuple(counts), _COUNTED, values, null=null) for null in (False, True))
    key, stored = _key_of(history.rows), external_serializer(values.stored_type)
    entries = of_values.entries({KEY: key, MAP_KEY: values.column, MAP_VALUE: _COUNTED})
    return (
        NewState(name, MapState(external_serializer(values.type), stored, history.has_ttl), entries),
        NewState(f"{name}_null_state", ValueState(stored, history.has_ttl), of_null.entries({KEY: key, VALUE: _COUNTED})),
    )


def _ranked(history: RankedRows, rows: QueryRows) -> tuple[NewState, ...]:
    """Return the states of the first rows of each key (Flink: the subclasses of ``AbstractTopNFunction``)."""
    ranked_rows, ttl, kind = history.rows, history.has_ttl, history.kind
    row, whole = RowDataSerializer(ranked_rows.row), _whole(ranked_rows)
    of_order = tuple(field.column for field in history.order)
    within = (*ranked_rows.key, *of_order)
    if kind == "retract":
        numbered = rows.numbered(_PLACE)
    else:
        numbered = rows.ranked(ranked_rows.key, () if kind == "count" else history.order, _PLACE, history.end)
    if kind == "count":
        counts = numbered.groups(ranked_rows.key, {_COPIES: Aggregate("count", (), AtomicType("INT"))}, has_ttl=ttl)
        return (
            NewState("counterState", ValueState(Types.INT(), ttl), counts.entries({KEY: _key_of(ranked_rows), VALUE: _COPIES})),
        )
    if kind == "first":
        return (NewState("Top1-Rank-State", ValueState(row, ttl), numbered.entries({KEY: _key_of(ranked_rows), VALUE: whole})),)
    if kind == "update":
        unique = ranked_rows.type_of(history.unique)
        inner = numbered.ranked(within, _BY_PLACE, _INNER_PLACE, history.end)
        shapes: dict[str, Shape] = {KEY: _key_of(ranked_rows), MAP_KEY: _shape(history.unique, unique)}
        entries = inner.entries({**shapes, MAP_VALUE: {"f0": whole, "f1": _INNER_PLACE}})
        spec = MapState(RowDataSerializer(unique), TupleSerializer([row, Types.INT()]), ttl)
        return (NewState("data-state-with-update", spec, entries),)
    sort_key, order_of_row = RowDataSerializer(history.order_type), _shape(of_order, history.order_type)
    lists = numbered.lists(within, _BY_PLACE, _ROW, whole, has_ttl=ttl)
    entries = lists.entries({KEY: _key_of(ranked_rows), MAP_KEY: order_of_row, MAP_VALUE: _ROW})
    spec = MapState(sort_key, ListSerializer(row), ttl)
    if kind == "append":
        return (NewState("data-state-with-append", spec, entries),)
    return (NewState("data-state", spec, entries), _numbers(history, rows, sort_key, order_of_row))


def _numbers(history: RankedRows, rows: QueryRows, sort_key: TypeSerializer, order_of_row: Shape) -> NewState:
    """Return the numbers of rows of each key by the columns with the order, in this order."""
    ranked_rows, within = history.rows, (*history.rows.key, *(field.column for field in history.order))
    counts = rows.groups(within, {_COPIES: Aggregate("count", (), BIGINT)}, has_ttl=history.has_ttl)
    entry: Shape = {"key": order_of_row, "value": _COPIES}
    maps = counts.lists(ranked_rows.key, history.order, _ROW, entry, has_ttl=history.has_ttl, as_map=True)
    fields = [
        OrderedField(type_, field.ascending, field.nulls_last)
        for field, type_ in zip(history.order, history.order_type.types, strict=True)
    ]
    spec = ValueState(sorted_map(sort_key, Types.LONG(), fields), history.has_ttl)
    return NewState("sorted-map", spec, maps.entries({KEY: _key_of(ranked_rows), VALUE: _ROW}))


def _kept(history: KeptRow, rows: QueryRows) -> NewState:
    """Return the rows that a deduplication keeps, or whether its input has rows."""
    values: dict[str, ChosenRow] = {}
    value: Shape = True  # a row has come
    type_: TypeSerializer = Types.BOOLEAN()
    if history.time is not None:
        values = {_ROW: ChosenRow(tuple(history.rows.columns), history.last, history.time)}
        value, type_ = _ROW, RowDataSerializer(history.rows.row)
    groups = rows.groups(history.rows.key, values, has_ttl=history.has_ttl)
    entries = groups.entries({KEY: _key_of(history.rows), VALUE: value})
    return NewState(history.state, ValueState(type_, history.has_ttl), entries)


def joined(history: JoinedRows, left: QueryRows, right: QueryRows) -> tuple[NewState, NewState]:
    """Return the states of a join for rows of its inputs."""
    return (
        _side("left", history.left, left, history, right, history.right.rows.key),
        _side("right", history.right, right, history, left, history.left.rows.key),
    )


def _side(
    label: str, side: JoinSide, rows: QueryRows, history: JoinedRows, opposite: QueryRows, other_key: Sequence[str]
) -> NewState:
    """Return the state of a side of a join (Flink: ``JoinRecordStateViews``, ``OuterJoinRecordStateViews``)."""
    columns = tuple(side.rows.columns)
    with naming(f"{label} rows"):
        if not side.unique:
            rows = rows.groups(columns, {_COPIES: Aggregate("count", (), AtomicType("INT"))}, has_ttl=side.has_ttl)
    if side.outer:
        rows = rows.with_matches(_MATCHES, side.rows.key, opposite, other_key, history.matching_nulls)
    name, row = f"{label}-records", RowDataSerializer(side.rows.row)
    whole = {column: column for column in columns}
    own_key = _shape(side.rows.key, history.left.rows.key_type)
    if not side.unique:
        type_ = TupleSerializer([Types.INT(), Types.INT()]) if side.outer else Types.INT()
        copies = {"f0": _COPIES, "f1": _MATCHES} if side.outer else _COPIES
        entries = rows.entries({KEY: own_key, MAP_KEY: whole, MAP_VALUE: copies})
        return NewState(name, MapState(row, type_, side.has_ttl), entries)
    value: Shape = {"f0": whole, "f1": _MATCHES} if side.outer else whole
    of_row = TupleSerializer([row, Types.INT()]) if side.outer else row
    if side.is_single:
        return NewState(name, ValueState(of_row, side.has_ttl), rows.entries({KEY: own_key, VALUE: value}))
    unique = side.rows.type_of(side.unique)
    entries = rows.entries({KEY: own_key, MAP_KEY: _shape(side.unique, unique), MAP_VALUE: value})
    return NewState(name, MapState(RowDataSerializer(unique), of_row, side.has_ttl), entries)


def _shape(columns: Sequence[str], type_: RowType) -> Shape:
    """Return columns as a struct with the field names of a type."""
    return dict(zip(type_.names, columns, strict=True))
