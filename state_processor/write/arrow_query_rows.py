"""Rows that have come to an operator of a query, in columns of Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from state_processor.backends.formats.row_shapes import LAST_ACCESS
from state_processor.backends.sql.accumulators import TOO_MANY_DIGITS, WITH_NAN, Aggregate, DistinctValues
from state_processor.backends.sql.bootstrap import Input, Order
from state_processor.serializers.column_type import ColumnType
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import InvalidRowError
from state_processor.serializers.late import pc
from state_processor.write.arrow_keys import Numbers, key_numbers, shared_key_numbers
from state_processor.write.arrow_rows import ArrowRows
from state_processor.write.query_states import TIME, ChosenRow, Shape, given_columns, last_access, unordered, without_value


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
            If a value is null, and the plan declares the column ``NOT NULL``.
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

    def once(self) -> ArrowQueryRows:
        """Return the rows. They are in memory."""
        return self

    def groups(self, columns: Sequence[str], values: Mapping[str, Aggregate | ChosenRow], *, has_ttl: bool) -> ArrowQueryRows:
        """Return a row for each group of rows that agree in some columns."""
        rows, names = self.table, list(dict.fromkeys(columns))
        numbers = _numbers(rows, names)
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

    def counted(self, column: str, counts: Sequence[str], name: str, values: DistinctValues, *, null: bool) -> ArrowQueryRows:
        """Return the rows that have a number above 0, with the stored form of their numbers in another column."""
        numbers = np.stack([np.asarray(self.table.column(count)) for count in counts], axis=1)
        kept = (numbers > 0).any(axis=1) & (np.asarray(self.table.column(column).is_null()) == null)
        rows, numbers = self.table.filter(pa.array(kept)), numbers[kept]
        if values.is_array:
            offsets = pa.array(np.arange(len(numbers) + 1) * len(counts), pa.int32())
            stored = pa.ListArray.from_arrays(offsets, pa.array(numbers.reshape(-1), pa.int64()))
        elif values.counted:
            stored = pa.array(numbers[:, 0], pa.int64())
        else:
            bits = np.left_shift(np.uint64(1), np.arange(len(counts), dtype=np.uint64))
            stored = pa.array(((numbers > 0) * bits).sum(axis=1, dtype=np.uint64).view(np.int64))
        return ArrowQueryRows(rows.append_column(name, stored))

    def ranked(self, columns: Sequence[str], order: Sequence[Order], name: str, limit: int | None = None) -> ArrowQueryRows:
        """Return rows with their place in an order, from 1 on, among the rows that agree in some columns."""
        rows = self.table
        numbers = _numbers(rows, columns)
        for one in order:
            _check_order(rows, one.column)
        keys = {f"key_{i}": rows.column(one.column) for i, one in enumerate(order)}
        nulls = {f"null_{i}": rows.column(one.column).is_null() for i, one in enumerate(order)}
        table = pa.table({"number": numbers, **keys, **nulls, "row": np.arange(len(rows))})
        by: list[tuple[str, str]] = [("number", "ascending")]
        for i, one in enumerate(order):
            by += [(f"null_{i}", "ascending" if one.nulls_last else "descending")]
            by += [(f"key_{i}", "ascending" if one.ascending else "descending")]
        places = np.asarray(pc.sort_indices(table, sort_keys=[*by, ("row", "ascending")]))
        _, firsts, counts = np.unique(numbers[places], return_index=True, return_counts=True)
        rank = np.arange(len(places)) - np.repeat(firsts, counts) + 1
        found = rows.take(pa.array(places)).append_column(name, pa.array(rank, pa.int32()))
        return ArrowQueryRows(found if limit is None else found.filter(pa.array(rank <= limit)))

    def lists(
        self, columns: Sequence[str], place: str, name: str, shape: Shape, *, has_ttl: bool, as_map: bool = False
    ) -> ArrowQueryRows:
        """Return a row for each group of rows that agree in some columns: the columns, then a list."""
        numbers = _numbers(self.table, columns)
        by = pa.table({"number": numbers, "place": self.table.column(place)})
        places = pc.sort_indices(by, sort_keys=[("number", "ascending"), ("place", "ascending")])
        rows = self.table.take(places).combine_chunks()
        _, firsts = np.unique(numbers[np.asarray(places)], return_index=True)
        offsets = pa.array([*firsts, len(rows)], pa.int32())
        found = {column: rows.column(column).take(pa.array(firsts)) for column in dict.fromkeys(columns)}
        elements = _shaped(rows, shape)
        found[name] = (
            pa.MapArray.from_arrays(offsets, elements.field(0), elements.field(1))
            if as_map
            else pa.ListArray.from_arrays(offsets, elements)
        )
        if has_ttl and LAST_ACCESS in rows.column_names:
            found[LAST_ACCESS] = _grouped(numbers, self.table.column(LAST_ACCESS), "max")
        return ArrowQueryRows(pa.table(found))

    def entries(self, shapes: Mapping[str, Shape]) -> ArrowRows:
        """Return rows of columns with some shapes."""
        rows = self.table.combine_chunks()
        columns = {name: _shaped(rows, shape) for name, shape in shapes.items()}
        if LAST_ACCESS in rows.column_names:
            columns[LAST_ACCESS] = rows.column(LAST_ACCESS)
        return ArrowRows.of(pa.table(columns))


def _numbers(rows: pa.Table, columns: Sequence[str]) -> Numbers:
    """Return a number for each row; rows that agree in some columns have the same number."""
    names = list(dict.fromkeys(columns))
    return key_numbers([rows.column(name) for name in names]) if names else np.zeros(len(rows), np.int64)


def _check_order(rows: pa.Table, column: str) -> None:
    """Refuse values that Flink finds equal to others, and stores apart."""
    if pa.types.is_floating(rows.column(column).type):
        values = np.asarray(rows.column(column).drop_null())
        if (np.isnan(values) | ((values == 0) & np.signbit(values))).any():
            raise InvalidRowError(unordered(column))


def _plain(type_: Any) -> pa.DataType:
    return type_.arrow if isinstance(type_, ColumnType) else type_


def _shaped(rows: pa.Table, shape: Shape) -> pa.Array:
    if isinstance(shape, str):
        column = rows.column(shape)
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
    if isinstance(shape, bool | bytes):
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
    if aggregate.distinct:
        (places,) = np.nonzero(counted)
        values = rows.column(aggregate.columns[0]).take(pa.array(places))
        _, firsts = np.unique(key_numbers([pa.chunked_array([numbers[places]]), values]), return_index=True)
        counted = np.zeros(len(rows), bool)
        counted[places[firsts]] = True
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
