"""Rows that an operator of a query received, and the operations that make entries of states from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.applications.flink_sql.bootstrap import TOO_MANY_DIGITS, WITH_NAN, Aggregate, DistinctValues, Input, Order
from state_processor.errors import InvalidRowError
from state_processor.serializers import DecodeOptions
from state_processor.states import LAST_ACCESS
from state_processor.support import only_keys, pc, unrenamed, without_keys
from state_processor.types import LogicalType
from state_processor.write import Rows, check_columns, check_exact, key_numbers, spark_name

Numbers = npt.NDArray[np.int64]

OWN: Final = "__own_{}"
"""Names that columns of the query do not have; ``key`` or ``value`` are names that they may have."""
TIME: Final = OWN.format("time")
"""The column with the order of rows."""
_GIVEN: Final = OWN.format("given")
"""The column with the order of the user's rows."""

Shape = str | bool | bytes | Mapping[str, Any]
"""A column by its name, a constant, or a struct: fields to their shapes."""


@dataclass(frozen=True, slots=True)
class ChosenRow:
    """One row of a group, as a struct: the row with the first or the last time."""

    columns: tuple[str, ...]
    last: bool  # true for the row with the last :data:`TIME`, False for the row with the first
    time: str  # the column with the time in the plan, for messages

    @property
    def without_time(self) -> str:
        """The message about a row whose time is null."""
        return f"column {self.time}: a row has no time"


@dataclass(frozen=True)
class QueryRows:
    """Rows in the types and by the names of a plan. Groups of rows are compared as Flink compares them."""

    rows: Rows

    @classmethod
    def of(cls, rows: Rows, inputs: Input, time: str | None = None) -> QueryRows:
        """Return rows in the types and by the names of the plan; see :func:`given_columns`.

        Columns of processing time are null, as in Flink. A null where the plan has none is refused, now or when the rows are
        computed.
        """
        given_as, names = given_columns(rows, inputs, time), rows.schema.names
        times = last_access(names, inputs)
        needed = only_keys(unrenamed((*given_as.values(), *times)), names)
        return cls(rows.select(needed).on_batches(partial(_planned, inputs=inputs, given_as=given_as, times=times)))

    def once(self) -> QueryRows:
        """Return the current rows, for several uses; see :meth:`~state_processor.write.rows.row_protocol.Rows.once`."""
        return QueryRows(self.rows.once())

    def groups(self, columns: Sequence[str], values: Mapping[str, Aggregate | ChosenRow], *, has_ttl: bool) -> QueryRows:
        """Return a row for each group of rows that agree in some columns: the columns, then values.

        ``columns``: the columns; without any, all rows are one group. ``values``: the value of each group, by the name of its
        column. ``has_ttl``: whether the last of the times of last access is kept.
        """
        names = tuple(dict.fromkeys(columns))
        distinct = {name: value for name, value in values.items() if isinstance(value, Aggregate) and value.distinct}
        plain = without_keys(values, distinct)
        rows, of_parts = self.rows, dict(plain)
        if distinct:
            once = {OWN.format(f"distinct_{i}"): value for i, value in enumerate(distinct.values())}
            spread = rows.on_batches(partial(_spread, columns=names, once=once, values=plain, has_ttl=has_ttl))
            finer = partial(_parts, columns=(*names, *once), values=plain, has_ttl=has_ttl)
            rows = spread.by_key((*names, *once), finer, combines=True)
            for (name, value), column in zip(distinct.items(), once, strict=True):
                of_parts[name] = replace(value, columns=(column,), where=None)
        grouped = rows.by_key(names, partial(_parts, columns=names, values=of_parts, has_ttl=has_ttl), combines=True)
        return QueryRows(grouped.on_batches(partial(_in_plan_types, columns=names, values=values)))

    def with_matches(
        self, name: str, key: Sequence[str], opposite: QueryRows, other_key: Sequence[str], matching_nulls: frozenset[int]
    ) -> QueryRows:
        """Return rows with the number of other rows that have the same key; see :class:`Rows`."""
        return QueryRows(self.rows.with_matches(name, key, opposite.rows, other_key, matching_nulls))

    def counted(self, column: str, counts: Sequence[str], name: str, values: DistinctValues, *, null: bool) -> QueryRows:
        """Return the rows that have a number above 0, with the stored form of their numbers in another column.

        ``column``: the column with the distinct value. ``counts``: the columns with the numbers of rows, one for each call.
        ``name``: the name of the other column. ``values``: the description of the state. ``null``: whether rows with a null in
        ``column`` are returned, or the other rows.
        """
        operation = partial(_counted, column=column, counts=tuple(counts), name=name, values=values, null=null)
        return QueryRows(self.rows.on_batches(operation))

    def numbered(self, name: str) -> QueryRows:
        """Return rows with their place in the user's order, in another column."""
        return QueryRows(self.rows.numbered(name))

    def ranked(self, columns: Sequence[str], order: Sequence[Order], name: str, limit: int) -> QueryRows:
        """Return the first rows in an order among the rows that agree in some columns, with their place, from 1 on.

        ``columns``: the columns whose values agree. ``order``: the order. Rows that are equal in it keep their order. ``limit``:
        the last place that is returned.
        """
        rows = self.rows if _GIVEN in self.rows.schema.names else self.rows.numbered(_GIVEN)
        operation = partial(_ranked, columns=tuple(columns), order=tuple(order), name=name, limit=limit)
        return QueryRows(rows.by_key(columns, operation, combines=True))

    def lists(
        self, columns: Sequence[str], order: Sequence[Order], name: str, shape: Shape, *, has_ttl: bool, as_map: bool = False
    ) -> QueryRows:
        """Return a row for each group of rows that agree in some columns: the columns, then a list with an element for each row.

        ``columns``: the columns whose values agree. ``order``: the order of elements; see :meth:`ranked`. ``has_ttl``: as for
        :meth:`groups`. ``as_map``: whether the elements, of a key and a value, are the entries of a map.
        """
        names = tuple(dict.fromkeys(columns))
        make = partial(_lists, columns=names, order=tuple(order), name=name, shape=shape, has_ttl=has_ttl, as_map=as_map)
        return QueryRows(self.rows.by_key(names, make))

    def entries(self, shapes: Mapping[str, Shape]) -> Rows:
        """Return rows of columns with some shapes, and with the times of last access if rows have them."""
        return self.rows.on_batches(partial(_entries, shapes=shapes))


def _planned(rows: pa.Table, inputs: Input, given_as: Mapping[str, str], times: Sequence[str]) -> pa.Table:
    columns: dict[str, Any] = {}
    for column, type_ in inputs.columns.items():
        name, arrow = given_as[column], type_.arrow_type(DecodeOptions())
        if column in inputs.processing_time:
            columns[column] = pa.nulls(len(rows), arrow)
            continue
        values = rows.column(name)
        if values.null_count and not type_.nullable:
            raise InvalidRowError(f"column {name} is {type_} in the plan, and a row has no value")
        columns[column] = values if pa.types.is_nested(arrow) else values.cast(arrow)
    columns |= {name: rows.column(name) for name in times}
    return pa.table(columns if TIME not in given_as else columns | {TIME: rows.column(given_as[TIME])})


def _parts(rows: pa.Table, columns: Sequence[str], values: Mapping[str, Aggregate | ChosenRow], *, has_ttl: bool) -> pa.Table:
    """Return the values of some rows of each group. Their columns are read instead of the rows, where rows have them."""
    numbers = _numbers(rows, columns)
    _, firsts = np.unique(numbers, return_index=True)
    parts = {name: rows.column(name).take(pa.array(firsts)) for name in columns}
    for name, value in values.items():
        part = rows.column(name) if name in rows.column_names else None
        if isinstance(value, Aggregate):
            parts[name] = _aggregated(rows, numbers, value, part)
        else:
            parts[name] = _chosen(rows, numbers, value, part)
    if has_ttl and LAST_ACCESS in rows.column_names:
        parts[LAST_ACCESS] = _grouped(numbers, rows.column(LAST_ACCESS), "max")
    return pa.table(parts)


def _spread(
    rows: pa.Table,
    columns: Sequence[str],
    once: Mapping[str, Aggregate],
    values: Mapping[str, Aggregate | ChosenRow],
    *,
    has_ttl: bool,
) -> pa.Table:
    """Return the values of some rows of each group, and in other rows each distinct value that a call counts."""
    parts = _parts(rows, columns, values, has_ttl=has_ttl)
    tables = [parts]
    for name, aggregate in once.items():
        same = rows.filter(pa.array(_is_counted(rows, aggregate)))
        distinct_rows = same.select(list(columns)).append_column(name, same.column(aggregate.columns[0]))
        tables.append(_parts(distinct_rows, (*columns, name), {}, has_ttl=False))
    return pa.concat_tables(tables, promote_options="default")


def _in_plan_types(rows: pa.Table, columns: Sequence[str], values: Mapping[str, Aggregate | ChosenRow]) -> pa.Table:
    """Return groups with their values in the types of the plan."""
    whole = {name: rows.column(name) for name in columns}
    for name, value in values.items():
        part = rows.column(name)
        if isinstance(value, Aggregate):
            type_ = value.type.arrow_type(DecodeOptions())
            part = part.cast(type_, safe=value.function != "sum" or value.of_floating)  # sums of whole numbers wrap around
            whole[name] = part if value.empty is None else part.fill_null(pa.scalar(value.empty).cast(type_))
        else:
            fields = [part.combine_chunks().field(i) for i in range(len(value.columns))]
            whole[name] = pa.StructArray.from_arrays(fields, names=list(value.columns))
    return pa.table(whole | ({LAST_ACCESS: rows.column(LAST_ACCESS)} if LAST_ACCESS in rows.column_names else {}))


def _counted(rows: pa.Table, column: str, counts: Sequence[str], name: str, values: DistinctValues, *, null: bool) -> pa.Table:
    numbers = np.stack([np.asarray(rows.column(count)) for count in counts], axis=1)
    counted = (numbers > 0).any(axis=1) & (np.asarray(rows.column(column).is_null()) == null)
    rows, numbers = rows.filter(pa.array(counted)), numbers[counted]
    if values.is_array:
        offsets = pa.array(np.arange(len(numbers) + 1) * len(counts), pa.int32())
        stored = pa.ListArray.from_arrays(offsets, pa.array(numbers.reshape(-1), pa.int64()))
    elif values.counted:
        stored = pa.array(numbers[:, 0], pa.int64())
    else:
        bits = np.left_shift(np.uint64(1), np.arange(len(counts), dtype=np.uint64))
        stored = pa.array(((numbers > 0) * bits).sum(axis=1, dtype=np.uint64).view(np.int64))
    return rows.append_column(name, stored)


def _in_order(rows: pa.Table, numbers: Numbers, order: Sequence[Order], last: Sequence[str] = ()) -> Numbers:
    """Return the places of rows in the order of groups and, in each group, in the order of columns."""
    sorted_by: list[tuple[str, str]] = [("number", "ascending")]
    columns: dict[str, Any] = {"number": numbers}
    for i, part in enumerate(order):
        column = columns[f"key_{i}"] = rows.column(part.column)
        if pa.types.is_floating(column.type):
            values = np.asarray(column.drop_null())
            if (np.isnan(values) | ((values == 0) & np.signbit(values))).any():
                raise InvalidRowError(
                    f"column {part.column}: with NaN or -0.0, Flink's order depends on the order of rows; drop them"
                )
        columns[f"null_{i}"] = column.is_null()
        sorted_by.append((f"null_{i}", "ascending" if part.nulls_last else "descending"))
        sorted_by.append((f"key_{i}", "ascending" if part.ascending else "descending"))
    columns |= {name: rows.column(name) for name in last}
    return np.asarray(pc.sort_indices(pa.table(columns), sort_keys=[*sorted_by, *((name, "ascending") for name in last)]))


def _ranked(rows: pa.Table, columns: Sequence[str], order: Sequence[Order], name: str, limit: int) -> pa.Table:
    numbers = _numbers(rows, columns)
    places = _in_order(rows, numbers, order, (_GIVEN,))
    _, firsts, counts = np.unique(numbers[places], return_index=True, return_counts=True)
    rank = np.arange(len(places)) - np.repeat(firsts, counts) + 1
    ranked = rows.select([column for column in rows.column_names if column != name]).take(pa.array(places))
    return ranked.append_column(name, pa.array(rank, pa.int32())).filter(pa.array(rank <= limit))


def _lists(
    rows: pa.Table, columns: Sequence[str], order: Sequence[Order], name: str, shape: Shape, *, has_ttl: bool, as_map: bool
) -> pa.Table:
    numbers = _numbers(rows, columns)
    places = _in_order(rows, numbers, order)
    in_order = rows.take(pa.array(places)).combine_chunks()
    _, firsts = np.unique(numbers[places], return_index=True)
    offsets = pa.array([*firsts, len(rows)], pa.int32())
    lists: dict[str, Any] = {column: in_order.column(column).take(pa.array(firsts)) for column in columns}
    elements = _shaped(in_order, shape)
    if as_map:
        lists[name] = pa.MapArray.from_arrays(offsets, elements.field(0), elements.field(1))
    else:
        lists[name] = pa.ListArray.from_arrays(offsets, elements)
    if has_ttl and LAST_ACCESS in rows.column_names:
        lists[LAST_ACCESS] = _grouped(numbers, rows.column(LAST_ACCESS), "max")
    return pa.table(lists)


def _entries(rows: pa.Table, shapes: Mapping[str, Shape]) -> pa.Table:
    rows = rows.combine_chunks()
    columns = {name: _shaped(rows, shape) for name, shape in shapes.items()}
    if LAST_ACCESS in rows.column_names:
        columns[LAST_ACCESS] = rows.column(LAST_ACCESS)
    return pa.table(columns)


def _numbers(rows: pa.Table, columns: Sequence[str]) -> Numbers:
    """Return a number for each row; rows that agree in some columns have the same number."""
    names = list(dict.fromkeys(columns))
    return key_numbers(list(map(rows.column, names))) if names else np.zeros(len(rows), np.int64)


def _shaped(rows: pa.Table, shape: Shape) -> pa.Array:
    if isinstance(shape, str):
        return rows.column(shape).combine_chunks()
    if isinstance(shape, bool | bytes):
        return pa.repeat(shape, len(rows))
    if not shape:
        return pa.array([{}] * len(rows), pa.struct([]))
    return pa.StructArray.from_arrays([_shaped(rows, part) for part in shape.values()], names=list(shape))


def _grouped(numbers: Numbers, values: pa.ChunkedArray, function: str, **options: Any) -> pa.ChunkedArray:
    """Return an aggregate of Arrow for each group, in the order of the numbers."""
    table = pa.table({"number": numbers, "value": values})
    settings = pc.ScalarAggregateOptions(**options) if options else None
    return table.group_by("number").aggregate([("value", function, settings)]).sort_by("number").column(f"value_{function}")


def _is_counted(rows: pa.Table, aggregate: Aggregate) -> npt.NDArray[np.bool_]:
    """Return whether a call counts a row."""
    counted = np.ones(len(rows), bool) if aggregate.where is None else np.asarray(rows.column(aggregate.where).fill_null(False))
    for column in aggregate.columns:
        counted = counted & np.asarray(rows.column(column).is_valid())
    return counted


def _aggregated(rows: pa.Table, numbers: Numbers, aggregate: Aggregate, part: pa.ChunkedArray | None) -> pa.ChunkedArray:
    """Return the aggregate of each group, in a type that holds it, from the rows or from the values of parts."""
    if aggregate.function == "count":
        if part is not None:
            return _grouped(numbers, part, "sum", min_count=1)
        counts = np.bincount(numbers, _is_counted(rows, aggregate), int(numbers.max(initial=-1)) + 1)
        return pa.chunked_array([pa.array(counts.astype(np.int64))])
    if part is None:
        part = pc.if_else(pa.array(_is_counted(rows, aggregate)), rows.column(aggregate.columns[0]), None)
    return _sum(numbers, part, aggregate) if aggregate.function == "sum" else _extreme(numbers, part, aggregate)


def _sum(numbers: Numbers, values: pa.ChunkedArray, aggregate: Aggregate) -> pa.ChunkedArray:
    type_ = aggregate.type.arrow_type(DecodeOptions())
    if pa.types.is_decimal(type_):
        wide = _grouped(numbers, values.cast(pa.decimal256(76, type_.scale)), "sum", min_count=1)
        try:
            return wide.cast(type_)
        except pa.ArrowInvalid as error:
            raise InvalidRowError(f"{aggregate.call}: {TOO_MANY_DIGITS}") from error
    return _grouped(numbers, values.cast(pa.float64() if aggregate.of_floating else pa.int64()), "sum", min_count=1)


def _extreme(numbers: Numbers, values: pa.ChunkedArray, aggregate: Aggregate) -> pa.ChunkedArray:
    if aggregate.of_floating:
        nan = _grouped(numbers, pc.is_nan(values).cast(pa.int64()), "sum", min_count=0)
        present = _grouped(numbers, values, "count")
        if pc.any(pc.and_(pc.greater(nan, 0), pc.less(nan, present))).as_py():
            raise InvalidRowError(f"{aggregate.call}: {WITH_NAN}")
    return _first_or_last(numbers, values, values, last=aggregate.function == "max")


def _chosen(rows: pa.Table, numbers: Numbers, row: ChosenRow, part: pa.ChunkedArray | None) -> pa.ChunkedArray:
    """Return the chosen row of each group, with its time."""
    whole = rows.select([*row.columns, TIME]).to_struct_array() if part is None else part
    times = pc.struct_field(whole, TIME)
    if times.null_count or (pa.types.is_floating(times.type) and pc.any(pc.is_nan(times)).as_py()):
        raise InvalidRowError(row.without_time)
    return _first_or_last(numbers, times, whole, last=row.last)


def _first_or_last(numbers: Numbers, order: pa.ChunkedArray, values: pa.ChunkedArray, *, last: bool) -> pa.ChunkedArray:
    """Return the value of each group that is first or last in an order; nulls come last in both."""
    table = pa.table({"number": numbers, "order": order})
    keys = [("number", "ascending"), ("order", "descending" if last else "ascending")]
    places = pc.sort_indices(table, sort_keys=keys)
    _, firsts = np.unique(numbers[np.asarray(places)], return_index=True)
    return values.take(places.take(pa.array(firsts)))


def given_columns(rows: Rows, inputs: Input, time: str | None = None) -> dict[str, str]:
    """Return the given columns for the columns of an input; :data:`TIME` stands for the column with the order of rows.

    ``inputs``: the input. Columns of processing time may be missing.
    """
    names = check_columns(rows, (), rows.schema.names).names  # refuses repeated names
    given_as = {name: inputs.given_as(name, names) for name in inputs.columns}
    if time is not None and given_as[time] not in names:
        reason = "which says in which order rows came"
        raise InvalidRowError(f"there is no column {given_as[time]!r}, {reason}; the rows have {', '.join(names)}")
    if time is not None and not _orders_rows(rows.schema.field(given_as[time]).type):
        time_type = spark_name(rows.schema.field(given_as[time]).type)
        raise InvalidRowError(f"column {given_as[time]!r} is {time_type}, which says no order of rows; give a number or a time")
    stored = without_keys(inputs.columns, inputs.processing_time)
    schema = check_columns(rows, [given_as[column] for column in stored], tuple(given_as.values()))
    for column, type_ in stored.items():
        _check_type(schema.field(given_as[column]), type_)
    return given_as if time is None else given_as | {TIME: given_as[time]}


def _orders_rows(type_: pa.DataType) -> bool:
    """Return whether rows have an order by values of a type, or by the fields of its structs."""
    if pa.types.is_struct(type_):
        return all(_orders_rows(f.type) for f in type_)
    return not pa.types.is_nested(type_) and not pa.types.is_interval(type_)


def _check_type(column: pa.Field, type_: LogicalType) -> None:
    """Refuse a column unless the type of the plan holds all of its values; nested ones are compared when they are written."""
    stored = type_.arrow_type(DecodeOptions())
    if not pa.types.is_nested(stored):
        check_exact(column, stored, f"the plan has {type_}")


def last_access(names: Collection[str], inputs: Input) -> tuple[str, ...]:
    """Return the column with the times of last access, if rows have it and it is not a column of the input."""
    return (LAST_ACCESS,) if LAST_ACCESS in names and LAST_ACCESS not in inputs.columns else ()
