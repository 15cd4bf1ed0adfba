"""Rows that have come to an operator of a query, as the entries of its states: what an engine has to compute."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self, TypeVar

import pyarrow as pa

from state_processor.backends.formats.row_shapes import LAST_ACCESS
from state_processor.backends.sql.accumulators import Aggregate
from state_processor.backends.sql.bootstrap import Accumulators, History, Input, JoinedRows, JoinSide, KeptRow
from state_processor.backends.write.entry_encoder import KEY, MAP_KEY, MAP_VALUE, VALUE
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import InvalidRowError, OptionError
from state_processor.serializers.kernel.encode.conversion_table import EXACT, conversion, is_castable, spark_name
from state_processor.serializers.table.logical_types import AtomicType, RowType, escape
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.types.flink_types import Types
from state_processor.types.state_specs import MapState, StateSpec, ValueState
from state_processor.write.column_checks import check_distinct, naming, refuse_others, require
from state_processor.write.row_protocol import Rows

OWN: Final = "__own_{}"
"""Names that columns of the query do not have; ``key`` or ``value`` are names that they may have."""
TIME: Final = OWN.format("time")
"""The column with the order of rows."""
_COPIES: Final = OWN.format("copies")
_MATCHES: Final = OWN.format("matches")
_ROW: Final = OWN.format("row")

Shape = str | bool | Mapping[str, Any]
"""A column by its name, a constant, or a struct: fields to their shapes."""


@dataclass(frozen=True, slots=True)
class ChosenRow:
    """One row of a group, as a struct: that with the first or the last time.

    Parameters
    ----------
    columns
        The columns of the row.
    last
        Whether it is the row with the last :data:`TIME`; otherwise that with the first.
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

    def groups(self, columns: Sequence[str], values: Mapping[str, Aggregate | ChosenRow], *, has_ttl: bool) -> Self:
        """Return a row for each group of rows that agree in some columns, as Flink compares them: the columns, then values.

        Parameters
        ----------
        columns
            The columns; without any, all rows are one group.
        values
            What is computed for each group, by the name of its column.
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

    def entries(self, shapes: Mapping[str, Shape]) -> Rows:
        """Return rows of columns with some shapes, and with the times of last access if there are any."""


_Rows = TypeVar("_Rows", bound=QueryRows)


@dataclass(frozen=True)
class NewState:
    """A state of an operator, and rows with an entry each."""

    name: str
    spec: StateSpec
    rows: Rows


def check_inputs(history: History, label: str, rows: object, left: object, right: object) -> None:
    """Refuse rows for inputs that an operator does not have, and missing ones.

    Raises
    ------
    OptionError
        If there are such.
    """
    if isinstance(history, JoinedRows):
        if rows is not None or left is None or right is None:
            raise OptionError(f"{label} has two inputs: give the rows of both as left= and right=; a side may be empty")
    elif rows is None or left is not None or right is not None:
        raise OptionError(f"{label} has one input: give its rows as df; left= and right= are for joins")


def accumulated(history: Accumulators, rows: QueryRows) -> NewState:
    """Return the accumulators of an aggregate for rows of its input."""
    names = {OWN.format(f"value_{i}"): field for i, field in enumerate(history.fields)}
    groups = rows.groups(history.rows.key, {name: field.filled for name, field in names.items()}, has_ttl=history.has_ttl)
    value = {field.name: name for name, field in names.items()}
    entries = groups.entries({KEY: _shape(history.rows.key, history.rows.key_type), VALUE: value})
    return NewState("accState", ValueState(RowDataSerializer(history.type), history.has_ttl), entries)


def kept(history: KeptRow, rows: QueryRows) -> NewState:
    """Return the rows that a deduplication keeps, or whether its input has rows."""
    values: dict[str, ChosenRow] = {}
    value: Shape = True  # a row has come
    type_: TypeSerializer = Types.BOOLEAN()
    if history.time is not None:
        values = {_ROW: ChosenRow(tuple(history.rows.columns), history.last, history.time)}
        value, type_ = _ROW, RowDataSerializer(history.rows.row)
    groups = rows.groups(history.rows.key, values, has_ttl=history.has_ttl)
    entries = groups.entries({KEY: _shape(history.rows.key, history.rows.key_type), VALUE: value})
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
    """Return the columns that are given for the columns of an input, and that with the order of rows as :data:`TIME`.

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
    check_distinct(rows)
    names = rows.schema.names
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
    """Return the message about a null in a column of an input that has none."""
    return f"column {name} is {wanted.columns[column]} in the plan, and a row has no value"


def _check_type(name: str, found: pa.DataType, wanted: pa.DataType, type_: str) -> None:
    """Refuse a column unless the type of the plan holds all of its values; nested ones are compared when they are written."""
    if pa.types.is_nested(wanted) or found == wanted:
        return
    if pa.types.is_nested(found) or conversion(found, wanted) != EXACT:
        hint = f"; cast it: CAST({escape(name)} AS {spark_name(wanted)})" if is_castable(found, wanted) else ""
        raise InvalidRowError(f"column {name!r} is {spark_name(found)}, the plan has {type_}{hint}")


def last_access(names: Collection[str], wanted: Input) -> tuple[str, ...]:
    """Return the column with the times of last access, if rows have it and the input has no column of this name."""
    return (LAST_ACCESS,) if LAST_ACCESS in names and LAST_ACCESS not in wanted.columns else ()
