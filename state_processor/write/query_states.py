"""Rows that have come to an operator of a query, as the entries of its states. An engine computes the entries."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self, TypeVar

import pyarrow as pa

from state_processor.backends.formats.row_shapes import LAST_ACCESS
from state_processor.backends.sql.accumulators import BIGINT, Aggregate, DistinctValues
from state_processor.backends.sql.bootstrap import (
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
from state_processor.backends.write.entry_encoder import KEY, MAP_KEY, MAP_VALUE, VALUE
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.collections import ListSerializer
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import InvalidRowError, OptionError
from state_processor.serializers.kernel.encode.conversion_table import EXACT, conversion, is_castable, spark_name
from state_processor.serializers.table.logical_types import AtomicType, RowType, escape
from state_processor.serializers.table.operator_records import sorted_map
from state_processor.serializers.table.record_comparators import OrderedField
from state_processor.serializers.table.rowdata import RowDataSerializer, external_serializer
from state_processor.types.flink_types import Types
from state_processor.types.state_specs import MapState, StateSpec, ValueState
from state_processor.write.row_columns import checked_schema, naming, refuse_others, require
from state_processor.write.row_protocol import Rows

OWN: Final = "__own_{}"
"""Names that columns of the query do not have; ``key`` or ``value`` are names that they may have."""
TIME: Final = OWN.format("time")
"""The column with the order of rows."""
_COPIES: Final = OWN.format("copies")
_MATCHES: Final = OWN.format("matches")
_ROW: Final = OWN.format("row")
_PLACE: Final = OWN.format("place")
_INNER_PLACE: Final = OWN.format("inner_place")
_COUNTED: Final = OWN.format("counted")
_OF_VIEW: Final = b"\0"
"""What Flink stores in the field of an accumulator whose values are in another state."""

Shape = str | bool | bytes | Mapping[str, Any]
"""A column by its name, a constant, or a struct: fields to their shapes."""


@dataclass(frozen=True, slots=True)
class ChosenRow:
    """One row of a group, as a struct: the row with the first or the last time.

    Parameters
    ----------
    columns
        The columns of the row.
    last
        True for the row with the last :data:`TIME`, False for the row with the first.
    time
        The column with the time in the plan, for messages.
    """

    columns: tuple[str, ...]
    last: bool
    time: str

    @property
    def without_time(self) -> str:
        """The message about a row whose time is null."""
        return f"column {self.time}: a row has no time"


class QueryRows(Protocol):
    """Rows in the types and by the names of a plan, in the form that an engine computes with."""

    def once(self) -> Self:
        """Return the current rows, for several uses; see :meth:`~state_processor.write.row_protocol.Rows.once`."""

    def groups(self, columns: Sequence[str], values: Mapping[str, Aggregate | ChosenRow], *, has_ttl: bool) -> Self:
        """Return a row for each group of rows that agree in some columns, as Flink compares them: the columns, then values.

        Parameters
        ----------
        columns
            The columns; without any, all rows are one group.
        values
            The value of each group, by the name of its column.
        has_ttl
            Whether the last of the times of last access is kept.
        """

    def with_matches(
        self, name: str, key: Sequence[str], others: Self, other_key: Sequence[str], matching_nulls: frozenset[int]
    ) -> Self:
        """Return rows with the number of other rows that have the same key, in another column.

        Parameters
        ----------
        name
            The name of the column with the numbers.
        key, others, other_key
            The columns of the key, the other rows, and the columns of their key.
        matching_nulls
            The positions in the key where null equals null; else null equals nothing.
        """

    def counted(self, column: str, counts: Sequence[str], name: str, values: DistinctValues, *, null: bool) -> Self:
        """Return the rows that have a number above 0, with the stored form of their numbers in another column.

        Parameters
        ----------
        column
            The column with the distinct value.
        counts
            The columns with the numbers of rows, one for each call.
        name
            The name of the other column.
        values
            The description of the state.
        null
            Whether rows with a null in ``column`` are returned, or the other rows.
        """

    def ranked(self, columns: Sequence[str], order: Sequence[Order], name: str, limit: int | None = None) -> Self:
        """Return rows with their place in an order, from 1 on, among the rows that agree in some columns.

        Parameters
        ----------
        columns
            The columns whose values agree.
        order
            The order. Rows that are equal in it keep their order.
        name
            The name of the column with the place.
        limit
            The last place that is returned.

        Raises
        ------
        InvalidRowError
            If a column with the order has NaN or -0.0, now or when the rows are computed.
        """

    def lists(self, columns: Sequence[str], place: str, name: str, shape: Shape, *, has_ttl: bool, as_map: bool = False) -> Self:
        """Return a row for each group of rows that agree in some columns: the columns, then a list with an element for each row.

        Parameters
        ----------
        columns
            The columns whose values agree.
        place
            The column with the order of elements.
        name
            The name of the column with the lists.
        shape
            The elements.
        has_ttl
            As for :meth:`groups`.
        as_map
            Whether the elements, of a key and a value, are the entries of a map.
        """

    def entries(self, shapes: Mapping[str, Shape]) -> Rows:
        """Return rows of columns with some shapes, and with the times of last access if rows have them."""


_Rows = TypeVar("_Rows", bound=QueryRows)


@dataclass(frozen=True)
class NewState:
    """A state of an operator, and rows with an entry each."""

    name: str
    spec: StateSpec
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
    """Refuse rows for inputs that an operator does not have, and missing ones.

    Raises
    ------
    OptionError
        If such rows are given, or rows are missing.
    """
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
    found = [NewState("accState", ValueState(RowDataSerializer(history.type), history.has_ttl), entries)]
    for i, distinct in enumerate(history.distinct):
        found += _distinct(f"distinctAcc_{i}", history, distinct, rows)
    return tuple(found)


def _distinct(name: str, history: Accumulators, values: DistinctValues, rows: QueryRows) -> tuple[NewState, NewState]:
    """Return the state of distinct values and the state of the null among them (Flink: ``StateMapViewWithKeysNullable``)."""
    counts = {OWN.format(f"count_{i}"): Aggregate("count", (), BIGINT, where) for i, where in enumerate(values.wheres)}
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
    own, ttl, kind = history.rows, history.has_ttl, history.kind
    row, whole = RowDataSerializer(own.row), _whole(own)
    of_order = tuple(one.column for one in history.order)
    within = (*own.key, *of_order)
    found = rows.ranked(own.key, () if kind == "count" else history.order, _PLACE, None if kind == "retract" else history.end)
    if kind == "count":
        counts = found.groups(own.key, {_COPIES: Aggregate("count", (), AtomicType("INT"))}, has_ttl=ttl)
        return (NewState("counterState", ValueState(Types.INT(), ttl), counts.entries({KEY: _key_of(own), VALUE: _COPIES})),)
    if kind == "first":
        return (NewState("Top1-Rank-State", ValueState(row, ttl), found.entries({KEY: _key_of(own), VALUE: whole})),)
    if kind == "update":
        unique = own.type_of(history.unique)
        inner = found.ranked(within, (Order(_PLACE, ascending=True, nulls_last=False),), _INNER_PLACE)
        shapes: dict[str, Shape] = {KEY: _key_of(own), MAP_KEY: _shape(history.unique, unique)}
        entries = inner.entries({**shapes, MAP_VALUE: {"f0": whole, "f1": _INNER_PLACE}})
        spec = MapState(RowDataSerializer(unique), TupleSerializer([row, Types.INT()]), ttl)
        return (NewState("data-state-with-update", spec, entries),)
    sort_key, order_of_row = RowDataSerializer(history.order_type), _shape(of_order, history.order_type)
    lists = found.lists(within, _PLACE, _ROW, whole, has_ttl=ttl)
    entries = lists.entries({KEY: _key_of(own), MAP_KEY: order_of_row, MAP_VALUE: _ROW})
    spec = MapState(sort_key, ListSerializer(row), ttl)
    if kind == "append":
        return (NewState("data-state-with-append", spec, entries),)
    return (NewState("data-state", spec, entries), _numbers(history, rows, sort_key, order_of_row))


def _numbers(history: RankedRows, rows: QueryRows, sort_key: TypeSerializer, order_of_row: Shape) -> NewState:
    """Return the numbers of rows of each key by the columns with the order, in this order."""
    own, within = history.rows, (*history.rows.key, *(one.column for one in history.order))
    counts = rows.groups(within, {_COPIES: Aggregate("count", (), BIGINT)}, has_ttl=history.has_ttl)
    in_order = counts.ranked(own.key, history.order, _PLACE)
    maps = in_order.lists(own.key, _PLACE, _ROW, {"key": order_of_row, "value": _COPIES}, has_ttl=history.has_ttl, as_map=True)
    fields = [
        OrderedField(type_, one.ascending, one.nulls_last)
        for one, type_ in zip(history.order, history.order_type.types, strict=True)
    ]
    spec = ValueState(sorted_map(sort_key, Types.LONG(), fields), history.has_ttl)
    return NewState("sorted-map", spec, maps.entries({KEY: _key_of(own), VALUE: _ROW}))


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


def joined(history: JoinedRows, left: _Rows, right: _Rows) -> tuple[NewState, NewState]:
    """Return the states of a join for rows of its inputs."""
    return (
        _side("left", history.left, left, history, right, history.right.rows.key),
        _side("right", history.right, right, history, left, history.left.rows.key),
    )


def _side(label: str, side: JoinSide, rows: _Rows, history: JoinedRows, others: _Rows, other_key: Sequence[str]) -> NewState:
    """Return the state of a side of a join (Flink: ``JoinRecordStateViews``, ``OuterJoinRecordStateViews``)."""
    columns = tuple(side.rows.columns)
    with naming(f"{label} rows"):
        if not side.unique:
            rows = rows.groups(columns, {_COPIES: Aggregate("count", (), AtomicType("INT"))}, has_ttl=side.has_ttl)
    if side.outer:
        rows = rows.with_matches(_MATCHES, side.rows.key, others, other_key, history.matching_nulls)
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


def given_columns(rows: Rows, wanted: Input, time: str | None = None) -> dict[str, str]:
    """Return the given columns for the columns of an input; :data:`TIME` stands for the column with the order of rows.

    Parameters
    ----------
    rows
        The given rows.
    wanted
        The input. Columns of processing time may be missing.
    time
        The column with the order of rows.

    Raises
    ------
    InvalidRowError
        If a column is missing, unknown, or of a type that the type in the plan does not hold.
    """
    names = checked_schema(rows).names
    given_as = {name: wanted.given_as(name, names) for name in wanted.columns}
    if time is not None and given_as[time] not in names:
        reason = "which says in which order rows came"
        raise InvalidRowError(f"there is no column {given_as[time]!r}, {reason}; the rows have {', '.join(names)}")
    require(names, [given_as[name] for name in wanted.columns if name not in wanted.processing_time])
    refuse_others(names, tuple(given_as.values()))
    for column, type_ in wanted.columns.items():
        if column not in wanted.processing_time:
            name = given_as[column]
            _check_type(name, rows.schema.field(name).type, type_.arrow_type(DecodeOptions()), str(type_))
    return given_as if time is None else given_as | {TIME: given_as[time]}


def without_value(column: str, wanted: Input, name: str) -> str:
    """Return the message about a null in a column that the plan declares ``NOT NULL``."""
    return f"column {name} is {wanted.columns[column]} in the plan, and a row has no value"


def unordered(column: str) -> str:
    """Return the message about a value whose place in an order is ambiguous."""
    return f"column {column}: with NaN or -0.0, Flink's order depends on the order of rows; drop them"


def _check_type(name: str, found: pa.DataType, wanted: pa.DataType, type_: str) -> None:
    """Refuse a column unless the type of the plan holds all of its values; nested ones are compared when they are written."""
    if pa.types.is_nested(wanted) or found == wanted:
        return
    if pa.types.is_nested(found) or conversion(found, wanted) != EXACT:
        hint = f"; cast it: CAST({escape(name)} AS {spark_name(wanted)})" if is_castable(found, wanted) else ""
        raise InvalidRowError(f"column {name!r} is {spark_name(found)}, the plan has {type_}{hint}")


def last_access(names: Collection[str], wanted: Input) -> tuple[str, ...]:
    """Return the column with the times of last access, if rows have it and it is not a column of the input."""
    return (LAST_ACCESS,) if LAST_ACCESS in names and LAST_ACCESS not in wanted.columns else ()
