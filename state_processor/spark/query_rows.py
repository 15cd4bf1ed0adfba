"""Rows that have come to an operator of a query, as the entries of its states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from state_processor.backends.formats.row_shapes import LAST_ACCESS
from state_processor.backends.sql.accumulators import failure
from state_processor.backends.sql.bootstrap import Accumulators, Input, JoinedRows, JoinSide, KeptRow
from state_processor.backends.write.entry_encoder import KEY, MAP_KEY, MAP_VALUE, VALUE
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import InvalidRowError
from state_processor.serializers.kernel.encode.conversion_table import EXACT, conversion, is_castable, spark_name
from state_processor.serializers.table.logical_types import LogicalType, RowType
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.spark.dataframe_rows import SparkRows
from state_processor.spark.same_keys import identity, quoted
from state_processor.types.flink_types import Types
from state_processor.types.state_specs import MapState, StateSpec, ValueState
from state_processor.write.column_checks import check_distinct, naming, refuse_others, require

_OWN: Final = "__own_{}"
"""Names that columns of the query do not have; ``key`` or ``value`` are names that they may have."""
_VALUE: Final = _OWN.format("value_{}")
_COPIES: Final = _VALUE.format("copies")
_ASSOCIATIONS: Final = _VALUE.format("associations")
_TIME: Final = _OWN.format("time")
_ROWS: Final = _OWN.format("rows")
_COMPARED_ALIKE: Final = frozenset(
    {"boolean", "tinyint", "smallint", "int", "bigint", "string", "binary", "date", "timestamp", "timestamp_ntz"}
)
"""Types whose values are equal in Spark if they are the same key in Flink; so are decimals of one scale."""


@dataclass(frozen=True)
class NewState:
    """A state of an operator, and rows with an entry each."""

    name: str
    spec: StateSpec
    rows: DataFrame


def accumulated(history: Accumulators, given: DataFrame) -> NewState:
    """Return the accumulators of an aggregate for rows of its input.

    Raises
    ------
    InvalidRowError
        If the rows have other columns than the input.
    """
    rows = _checked(given, history.rows)
    filled = [f.expr(field.filled).alias(_VALUE.format(i)) for i, field in enumerate(history.fields)]
    groups = _grouped(rows, history.rows.key, filled, has_ttl=history.has_ttl)
    fields = [f.col(_VALUE.format(i)).alias(field.name) for i, field in enumerate(history.fields)]
    entries = groups.select(_key(history.rows), f.struct(*fields).alias(VALUE), *_times(groups))
    return NewState("accState", ValueState(RowDataSerializer(history.type), history.has_ttl), entries)


def kept(history: KeptRow, given: DataFrame) -> NewState:
    """Return the rows that a deduplication keeps, or whether its input has rows.

    Raises
    ------
    InvalidRowError
        As for :func:`accumulated`.
    """
    rows = _checked(given, history.rows, history.time)
    if history.time is None:
        chosen, type_ = f.lit(True), Types.BOOLEAN()  # a row has come
    else:
        row = f.struct(*(f.col(quoted(name)) for name in history.rows.columns))
        order = f.coalesce(f.col(_TIME), f.expr(failure(f"column {history.time}: a row has no time")))
        chosen, type_ = (f.max_by if history.last else f.min_by)(row, order), RowDataSerializer(history.rows.row)
    groups = _grouped(rows, history.rows.key, [chosen.alias(_VALUE.format(0))], has_ttl=history.has_ttl)
    entries = groups.select(_key(history.rows), f.col(_VALUE.format(0)).alias(VALUE), *_times(groups))
    return NewState(history.state, ValueState(type_, history.has_ttl), entries)


def joined(history: JoinedRows, left: DataFrame, right: DataFrame) -> tuple[NewState, NewState]:
    """Return the states of a join for rows of its inputs.

    Raises
    ------
    InvalidRowError
        As for :func:`accumulated`.
    """
    with naming("left rows"):
        left = _checked(left, history.left.rows)
    with naming("right rows"):
        right = _checked(right, history.right.rows)
    return (
        _side("left", history.left, left, history, right, history.right.rows.key),
        _side("right", history.right, right, history, left, history.left.rows.key),
    )


def _side(
    label: str, side: JoinSide, rows: DataFrame, history: JoinedRows, others: DataFrame, other_key: Sequence[str]
) -> NewState:
    """Return the state of a side of a join (Flink: ``JoinRecordStateViews``, ``OuterJoinRecordStateViews``)."""
    with naming(f"{label} rows"):
        rows = rows if side.unique else _with_copies(rows, side)
    if side.outer:
        rows = _with_associations(rows, side.rows.key, others, other_key, history.matching_nulls)
    name, row = f"{label}-records", RowDataSerializer(side.rows.row)
    columns = tuple(side.rows.columns)
    whole = f.struct(*(f.col(quoted(column)) for column in columns))
    counted = f.col(_ASSOCIATIONS).alias("f1")
    own_key, times = _struct(side.rows.key, history.left.rows.key_type), _times(rows)
    if not side.unique:
        copies = f.col(_COPIES)
        value = f.struct(copies.alias("f0"), counted) if side.outer else copies
        type_ = TupleSerializer([Types.INT(), Types.INT()]) if side.outer else Types.INT()
        entries = rows.select(own_key, whole.alias(MAP_KEY), value.alias(MAP_VALUE), *times)
        return NewState(name, MapState(row, type_, side.has_ttl), entries)
    value = f.struct(whole.alias("f0"), counted) if side.outer else whole
    of_row = TupleSerializer([row, Types.INT()]) if side.outer else row
    if side.is_single:
        return NewState(name, ValueState(of_row, side.has_ttl), rows.select(own_key, value.alias(VALUE), *times))
    unique = side.rows.type_of(side.unique)
    entries = rows.select(own_key, _struct(side.unique, unique, MAP_KEY), value.alias(MAP_VALUE), *times)
    return NewState(name, MapState(RowDataSerializer(unique), of_row, side.has_ttl), entries)


def _with_copies(rows: DataFrame, side: JoinSide) -> DataFrame:
    """Return each row once, with the number of rows that are equal to it."""
    return _grouped(rows, tuple(side.rows.columns), [f.count("*").cast("int").alias(_COPIES)], has_ttl=side.has_ttl)


def _with_associations(
    rows: DataFrame, key: Sequence[str], others: DataFrame, other_key: Sequence[str], matching_nulls: frozenset[int]
) -> DataFrame:
    """Return rows with the number of rows of the other side that have the same key."""
    names = [_OWN.format(f"other_{i}") for i in range(len(other_key))]
    present = [f.col(quoted(c)).isNotNull() for i, c in enumerate(other_key) if i not in matching_nulls]
    for condition in present:
        others = others.where(condition)
    same = [identity(others, column).alias(name) for column, name in zip(other_key, names, strict=True)]
    counts = others.select(*same).groupBy(*names).agg(f.count("*").cast("int").alias(_ASSOCIATIONS))
    matches = [identity(rows, column).eqNullSafe(f.col(name)) for column, name in zip(key, names, strict=True)]
    counted = rows.join(counts, matches, "left") if matches else rows.join(counts, how="left")
    return counted.withColumn(_ASSOCIATIONS, f.coalesce(f.col(_ASSOCIATIONS), f.lit(0)))


def _grouped(rows: DataFrame, columns: Sequence[str], aggregates: Sequence[Column], *, has_ttl: bool) -> DataFrame:
    """Return a row for each group of rows that agree in some columns, as Flink compares them: the columns, then aggregates.

    Parameters
    ----------
    rows, columns
        The rows and columns.
    aggregates
        What is computed for each group.
    has_ttl
        Whether the last of the times of last access is kept.
    """
    groups, firsts, shown = [], [], []
    for i, column in enumerate(dict.fromkeys(columns)):
        name, type_ = _OWN.format(f"group_{i}"), rows.schema[column].dataType.simpleString()
        if type_ in _COMPARED_ALIKE or type_.startswith("decimal("):
            groups.append(f.col(quoted(column)).alias(name))
        else:
            groups.append(identity(rows, column).alias(name))
            name = _OWN.format(f"first_{i}")
            firsts.append(f.first(quoted(column)).alias(name))
        shown.append(f.col(name).alias(column))
    last = [f.max(LAST_ACCESS).alias(LAST_ACCESS)] if has_ttl and LAST_ACCESS in rows.columns else []
    found = rows.groupBy(*groups).agg(*firsts, *aggregates, *last, f.count("*").alias(_ROWS)).where(f.col(_ROWS) > 0)
    kept = [name for name in found.columns if name.startswith(_VALUE.format("")) or name == LAST_ACCESS]
    return found.select(*shown, *kept)


def _checked(given: DataFrame, rows: Input, time: str | None = None) -> DataFrame:
    """Return rows in the types and by the names of the plan, after comparing their columns with the columns of an input.

    Parameters
    ----------
    given
        The rows.
    rows
        The input. Columns of processing time may be missing, and are null, as in Flink.
    time
        The column with the order of rows; it is kept under another name.
    """
    own = SparkRows(given)
    check_distinct(own)
    names = own.schema.names
    given_as = {name: rows.given_as(name, names) for name in rows.columns}
    if time is not None and given_as[time] not in names:
        reason = "which says in which order rows came"
        raise InvalidRowError(f"there is no column {given_as[time]!r}, {reason}; the rows have {', '.join(names)}")
    require(names, [given_as[name] for name in rows.columns if name not in rows.processing_time])
    refuse_others(names, tuple(given_as.values()))
    columns = []
    for column, type_ in rows.columns.items():
        wanted, name = type_.arrow_type(DecodeOptions()), given_as[column]
        if column in rows.processing_time:
            value = f.lit(None).cast(spark_name(wanted))
        else:
            value = _exactly(name, own.schema.field(name).type, wanted, type_)
            if not type_.nullable:
                value = f.coalesce(value, f.expr(failure(f"column {name} is {type_} in the plan, and a row has no value")))
        columns.append(value.alias(column))
    more = [LAST_ACCESS] if LAST_ACCESS in names and LAST_ACCESS not in rows.columns else []
    return given.select(*columns, *more, *([] if time is None else [f.col(quoted(given_as[time])).alias(_TIME)]))


def _exactly(name: str, found: pa.DataType, wanted: pa.DataType, type_: LogicalType) -> Column:
    """Return a column in the type of the plan, which holds all of its values; nested ones are compared when they are written."""
    column = f.col(quoted(name))
    if pa.types.is_string(found) and pa.types.is_string(wanted):
        return f.collate(column, "UTF8_BINARY")  # collations order text, and find it equal, in other ways than Flink
    if pa.types.is_nested(wanted) or found == wanted:
        return column
    if pa.types.is_nested(found) or conversion(found, wanted) != EXACT:
        hint = f"; cast it: CAST({quoted(name)} AS {spark_name(wanted)})" if is_castable(found, wanted) else ""
        raise InvalidRowError(f"column {name!r} is {spark_name(found)}, the plan has {type_}{hint}")
    return column.cast(spark_name(wanted))


def _key(rows: Input) -> Column:
    return _struct(rows.key, rows.key_type)


def _struct(columns: Sequence[str], type_: RowType, name: str = KEY) -> Column:
    """Return columns as a struct with the field names of a type."""
    fields = [f.col(quoted(column)).alias(field) for column, field in zip(columns, type_.names, strict=True)]
    return f.struct(*fields).alias(name)


def _times(rows: DataFrame) -> list[str]:
    return [LAST_ACCESS] if LAST_ACCESS in rows.columns else []
