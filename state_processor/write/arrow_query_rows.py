"""Rows that have come to an operator of a query, in columns of Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_processor.backends.formats.row_shapes import LAST_ACCESS
from state_processor.backends.sql.accumulators import TOO_MANY_DIGITS, WITH_NAN, Aggregate
from state_processor.backends.sql.bootstrap import Input
from state_processor.serializers.column_type import ColumnType
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import InvalidRowError
from state_processor.write.arrow_keys import Numbers, key_numbers, shared_key_numbers
from state_processor.write.arrow_rows import ArrowRows
from state_processor.write.query_states import TIME, ChosenRow, Shape, given_columns, last_access, without_value


@dataclass(frozen=True)
class ArrowQueryRows:
    """Rows of a table; see :class:`~state_processor.write.query_states.QueryRows` for the methods."""

    table: pa.Table

    @classmethod
    def of(cls, given: ArrowRows, wanted: Input, time: str | None = None) -> ArrowQueryRows:
        """Return rows in the types and by the names of the plan; see :func:`~state_processor.write.query_states.given_columns`.

        Columns of processing time are null, as in Flink.

        Raises
        ------
        InvalidRowError
            If a value is null where the plan has no nulls, too.
        """
        given_as, rows = given_columns(given, wanted, time), given.to_arrow()
        columns: dict[str, Any] = {}
        for column, type_ in wanted.columns.items():
            name, arrow = given_as[column], _plain(type_.arrow_type(DecodeOptions()))
            if column in wanted.processing_time:
                columns[column] = pa.nulls(len(rows), arrow)
                continue
            found = rows.column(name)
            if found.null_count and not type_.nullable:
                raise InvalidRowError(without_value(column, wanted, name))
            columns[column] = found if pa.types.is_nested(arrow) else found.cast(arrow)
        columns |= {name: rows.column(name) for name in last_access(rows.column_names, wanted)}
        return cls(pa.table(columns if time is None else columns | {TIME: rows.column(given_as[TIME])}))

    def groups(self, columns: Sequence[str], values: Mapping[str, Aggregate | ChosenRow], *, has_ttl: bool) -> ArrowQueryRows:
        """Return a row for each group of rows that agree in some columns."""
        rows, names = self.table, list(dict.fromkeys(columns))
        numbers = key_numbers([rows.column(name) for name in names]) if names else np.zeros(len(rows), np.int64)
        _, firsts = np.unique(numbers, return_index=True)
        found = {name: rows.column(name).take(pa.array(firsts)) for name in names}
        for name, value in values.items():
            if isinstance(value, Aggregate):
                found[name] = _aggregated(rows, numbers, value)
            else:
                found[name] = _chosen(rows, numbers, value)
        if has_ttl and LAST_ACCESS in rows.column_names:
            found[LAST_ACCESS] = _grouped(numbers, rows.column(LAST_ACCESS), "max")
        return ArrowQueryRows(pa.table(found))

    def with_matches(
        self, name: str, key: Sequence[str], others: ArrowQueryRows, other_key: Sequence[str], matching_nulls: frozenset[int]
    ) -> ArrowQueryRows:
        """Return rows with the number of other rows that have the same key."""
        own, other = ([rows.column(column) for column in names] for rows, names in ((self.table, key), (others.table, other_key)))
        if key:
            numbers, other_numbers = shared_key_numbers(own, other, matching_nulls)
        else:
            numbers, other_numbers = np.zeros(len(self.table), np.int64), np.zeros(len(others.table), np.int64)
        counts = np.bincount(other_numbers[other_numbers >= 0], minlength=int(numbers.max(initial=-1)) + 2)
        counts[-1] = 0  # of rows whose key has a null
        return ArrowQueryRows(self.table.append_column(name, pa.array(counts[numbers], pa.int32())))

    def entries(self, shapes: Mapping[str, Shape]) -> ArrowRows:
        """Return rows of columns with some shapes."""
        rows = self.table.combine_chunks()
        columns = {name: _shaped(rows, shape) for name, shape in shapes.items()}
        if LAST_ACCESS in rows.column_names:
            columns[LAST_ACCESS] = rows.column(LAST_ACCESS)
        return ArrowRows.of(pa.table(columns))


def _plain(type_: Any) -> pa.DataType:
    return type_.arrow if isinstance(type_, ColumnType) else type_


def _shaped(rows: pa.Table, shape: Shape) -> pa.Array:
    if isinstance(shape, str):
        column = rows.column(shape)
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
    if isinstance(shape, bool):
        return pa.repeat(shape, len(rows))
    if not shape:
        return pa.array([{}] * len(rows), pa.struct([]))
    return pa.StructArray.from_arrays([_shaped(rows, part) for part in shape.values()], names=list(shape))


def _grouped(numbers: Numbers, values: pa.ChunkedArray, function: str, **options: Any) -> pa.ChunkedArray:
    """Return an aggregate of Arrow for each group, in the order of the numbers."""
    table = pa.table({"number": numbers, "value": values})
    how = pc.ScalarAggregateOptions(**options) if options else None
    return table.group_by("number").aggregate([("value", function, how)]).sort_by("number").column(f"value_{function}")


def _aggregated(rows: pa.Table, numbers: Numbers, aggregate: Aggregate) -> pa.ChunkedArray:
    counted = np.ones(len(rows), bool) if aggregate.where is None else np.asarray(rows.column(aggregate.where).fill_null(False))
    for column in aggregate.columns:
        counted = counted & np.asarray(rows.column(column).is_valid())
    type_ = _plain(aggregate.type.arrow_type(DecodeOptions()))
    if aggregate.function == "count":
        return pa.chunked_array([pa.array(np.bincount(numbers, counted, int(numbers.max(initial=-1)) + 1))]).cast(type_)
    values = pc.if_else(pa.array(counted), rows.column(aggregate.columns[0]), None)
    found = _sum(numbers, values, aggregate, type_) if aggregate.function == "sum" else _extreme(numbers, values, aggregate)
    return found if aggregate.empty is None else found.fill_null(pa.scalar(aggregate.empty).cast(type_))


def _sum(numbers: Numbers, values: pa.ChunkedArray, aggregate: Aggregate, type_: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_decimal(type_):
        wide = _grouped(numbers, values.cast(pa.decimal256(76, type_.scale)), "sum", min_count=1)
        try:
            return wide.cast(type_)
        except pa.ArrowInvalid as error:
            raise InvalidRowError(f"{aggregate.call}: {TOO_MANY_DIGITS}") from error
    if aggregate.of_floating:
        return _grouped(numbers, values.cast(pa.float64()), "sum", min_count=1).cast(type_)
    return _grouped(numbers, values.cast(pa.int64()), "sum", min_count=1).cast(type_, safe=False)  # wraps around


def _extreme(numbers: Numbers, values: pa.ChunkedArray, aggregate: Aggregate) -> pa.ChunkedArray:
    if aggregate.of_floating:
        nan = _grouped(numbers, pc.is_nan(values).cast(pa.int64()), "sum", min_count=0)
        present = _grouped(numbers, values, "count")
        if pc.any(pc.and_(pc.greater(nan, 0), pc.less(nan, present))).as_py():
            raise InvalidRowError(f"{aggregate.call}: {WITH_NAN}")
    return _taken(numbers, values, values, last=aggregate.function == "max")


def _chosen(rows: pa.Table, numbers: Numbers, row: ChosenRow) -> pa.ChunkedArray:
    if rows.column(TIME).null_count:
        raise InvalidRowError(row.without_time)
    whole = rows.select(list(row.columns)).to_struct_array()
    return _taken(numbers, rows.column(TIME), whole, last=row.last)


def _taken(numbers: Numbers, order: pa.ChunkedArray, values: pa.ChunkedArray, *, last: bool) -> pa.ChunkedArray:
    """Return the value of each group that is first or last in an order; nulls come last in both."""
    table = pa.table({"number": numbers, "order": order})
    keys = [("number", "ascending"), ("order", "descending" if last else "ascending")]
    places = pc.sort_indices(table, sort_keys=keys)
    _, firsts = np.unique(numbers[np.asarray(places)], return_index=True)
    return values.take(places.take(pa.array(firsts)))
