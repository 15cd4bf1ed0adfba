"""Operations on rows that a savepoint is written from: the protocol of an engine's rows, and operations of tables of Arrow.

Keys are equal if Java takes them as equal; see :mod:`state_processor.spark.dataframe_rows` for Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.formats.row_layout import NAMESPACE
from state_processor.backends.formats.row_shapes import FIRES_AT, LAST_ACCESS, LIST_INDEX, LIST_VALUE
from state_processor.backends.read.keyed_reader import DOMAIN, SERVICE
from state_processor.backends.read.schemas import spark_ddl
from state_processor.backends.write.entry_encoder import KEY, MAP_KEY, MAP_VALUE, TIMESTAMP, VALUE
from state_processor.support.arrow_types import with_inner_types
from state_processor.support.errors import InvalidRowError
from state_processor.support.late import pc
from state_processor.support.mappings import without_keys
from state_processor.types.state_specs import EVENT_TIME, USER_TIMERS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ArrowStream(Protocol):
    """A stream of Arrow batches: a DataFrame of pandas or Polars, a table or reader of Arrow, a result of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the stream."""


GivenRows: TypeAlias = "DataFrame | ArrowStream | Sequence[Mapping[str, Any]]"
"""Rows that users give. A writer with Spark takes data frames and streams; a writer without Spark, streams and dictionaries."""

ColumnNames = Mapping[str, str]
"""Columns of rows by the names that :mod:`~state_processor.backends.write.entry_encoder` has for them."""

Operation = Callable[[pa.Table], pa.Table]
"""A function of a table that can be pickled. The types of the table decide the types of its result. The table may be empty."""

Replaced = Literal["", "keys", "entries"]
"""What a row replaces in the source savepoint: nothing, all entries of its key, or one entry of a map."""

TIMESTAMP_MS: Final = "timestamp_ms"
"""Another name for the column ``timestamp`` of timers, which says what its unit is."""

DERIVED_FROM: Final = b"derived_from"
"""Metadata of a column: the one that its values come from. Whoever replaces the column, drops it."""


class OperatorRows(Protocol):
    """Rows of operator state, in the form that an :class:`~state_processor.write.tasks.passes.Engine` encodes."""

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""

    @property
    def case_sensitive(self) -> bool:
        """True if names of columns may differ in case only."""

    def select(self, columns: ColumnNames) -> Self:
        """Return some columns under other names: new name to column."""

    def to_arrow(self) -> pa.Table:
        """Collect the rows."""

    def of_values(self, values: pa.Array) -> Self:
        """Return other rows with one column ``value``."""


class Rows(OperatorRows, Protocol):
    """Rows of keyed state as well."""

    def on_batches(self, operation: Operation) -> Self:
        """Return the results of an operation on parts of the rows."""

    def by_key(self, columns: Sequence[str], operation: Operation, *, combines: bool = False) -> Self:
        """Return the results of an operation on all rows that have the same values in some columns, of some keys at a time.

        ``columns``: the columns of the key; without any, all rows have the same. ``combines``: whether it may run on some rows of
        a key first, and then on its results with more rows. Else all rows of a key are in memory.
        """

    def numbered(self, name: str) -> Self:
        """Return the rows with numbers in their order, in another column."""

    def once(self) -> Self:
        """Return the current rows, for several uses: they are evaluated here, and not again."""

    def without(self, columns: Sequence[str], later_rows: Self, other_columns: Sequence[str]) -> Self:
        """Return the rows whose key does not occur in other rows."""

    def with_matches(
        self, name: str, key: Sequence[str], opposite: Self, other_key: Sequence[str], matching_nulls: frozenset[int]
    ) -> Self:
        """Return rows with the number of other rows that have the same key, in another column.

        ``key``, ``opposite`` and ``other_key``: the columns of the key, the other rows, and the columns of their key.
        ``matching_nulls``: the positions in the key where null equals null; else null equals nothing.
        """


Numbers = npt.NDArray[np.int64]


def key_numbers(columns: Sequence[pa.ChunkedArray]) -> Numbers:
    """Return a number for each row, in the order of first occurrence: rows with the same values have the same number.

    ``-0.0`` and ``0.0`` are different keys; nulls are the same.
    """
    numbers = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns if len(numbers) else ():  # Arrow lacks empty dictionaries of some types
        codes = _codes(column)
        numbers = numbers * (int(codes.max(initial=0)) + 1) + codes
        numbers = _in_order(numbers)
    return numbers


def shared_key_numbers(
    left_columns: Sequence[pa.ChunkedArray],
    right_columns: Sequence[pa.ChunkedArray],
    matching_nulls: frozenset[int] = frozenset(),
) -> tuple[Numbers, Numbers]:
    """Return the numbers of the rows of two tables; -1 for rows with a null, because a null equals nothing.

    ``left_columns`` and ``right_columns``: the columns of both tables. ``matching_nulls``: the positions of columns where null
    equals null.
    """
    together = []
    for left, right in zip(left_columns, right_columns, strict=True):
        type_ = _common(left.type, right.type)
        together.append(pa.chunked_array([*left.cast(type_).chunks, *right.cast(type_).chunks], type_))
    numbers = key_numbers(together)
    for i, column in enumerate(together):
        if i not in matching_nulls:
            numbers[np.asarray(column.is_null())] = -1
    count = len(left_columns[0])
    return numbers[:count], numbers[count:]


def check_comparable(earlier: pa.DataType, column: str, later: pa.DataType) -> None:
    """Refuse columns of keys that can't be compared.

    ``earlier``: the type in rows that were given before. ``column`` and ``later``: the column of rows that may replace them, and
    its type.
    """
    if pa.types.is_null(earlier) or pa.types.is_null(later):
        return  # without values; null keys are refused, with their row, when rows are encoded
    lists = list(map(_field_names, (earlier, later)))
    if lists[0] != lists[1]:
        raise InvalidRowError(
            f"column {column!r}: the fields are ({', '.join(lists[1])}), in rows that were given before "
            f"({', '.join(lists[0])}); give both in the same order"
        )
    if _family(earlier) != _family(later):
        raise InvalidRowError(
            f"column {column!r} is {spark_ddl(later)}, in rows that were given before {spark_ddl(earlier)}: "
            "keys of different types can't be compared; give both in one type"
        )


def _codes(column: pa.ChunkedArray) -> Numbers:
    """Return small numbers that are equal where values are the same."""
    type_ = column.type
    if pa.types.is_null(type_):
        return np.zeros(len(column), dtype=np.int64)
    if pa.types.is_floating(type_):
        numbers = np.asarray(column.cast(pa.float64()).fill_null(0.0))
        bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)  # NaN has many forms in memory, and one in Java
        column = pa.chunked_array([pa.array(bits, mask=np.asarray(column.is_null()))])
    elif pa.types.is_struct(type_) and type_.num_fields:
        struct = column.combine_chunks()
        return key_numbers(
            [*map(pa.chunked_array, ([field] for field in struct.flatten())), pa.chunked_array([struct.is_null()])]
        )
    elif pa.types.is_nested(type_):
        column = pa.chunked_array(
            [pa.array([None if v is None else repr(v) for v in _whole_numbers(column).to_pylist()], pa.string())]
        )
    encoded = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
    chunks = encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
    return np.concatenate([np.asarray(chunk.indices, dtype=np.int64) for chunk in chunks] or [np.zeros(0, np.int64)])


def _whole_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return nested values with dates and times as numbers: Python has fewer years."""
    return column.cast(_of_numbers(column.type))


def _of_numbers(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(type_):
        return pa.int32()
    if pa.types.is_timestamp(type_):
        return pa.int64()
    return with_inner_types(type_, _of_numbers)


def _in_order(numbers: Numbers) -> Numbers:
    """Return numbers from 0 on, in the order of first occurrence."""
    _, firsts, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    ranks = np.empty(len(firsts), dtype=np.int64)
    ranks[np.argsort(firsts)] = np.arange(len(firsts))
    return ranks[inverse]


def _common(left_type: pa.DataType, right_type: pa.DataType) -> pa.DataType:
    """Return a type that holds the values of two types of one family."""
    if left_type == right_type or pa.types.is_null(right_type):
        return left_type
    if pa.types.is_null(left_type):
        return right_type
    if pa.types.is_struct(left_type):
        return pa.struct([(a.name, _common(a.type, b.type)) for a, b in zip(left_type, right_type, strict=True)])
    if pa.types.is_list(left_type):
        return pa.list_(_common(left_type.value_type, right_type.value_type))
    if pa.types.is_map(left_type):
        return pa.map_(_common(left_type.key_type, right_type.key_type), _common(left_type.item_type, right_type.item_type))
    if pa.types.is_integer(left_type):
        return pa.int64()
    if pa.types.is_floating(left_type):
        return pa.float64()
    return left_type if left_type.bit_width >= right_type.bit_width else right_type


def _field_names(type_: pa.DataType) -> list[str]:
    if pa.types.is_struct(type_):
        names: list[str] = []
        for field in type_:
            names += [field.name, *_field_names(field.type)]
        return names
    if pa.types.is_map(type_):
        return ["key", *_field_names(type_.key_type), "value", *_field_names(type_.item_type)]
    return _field_names(type_.value_type) if pa.types.is_list(type_) else []


def _family(type_: pa.DataType) -> Any:
    """Return a value that is the same for types whose values can be compared."""
    if pa.types.is_struct(type_):
        return tuple(_family(f.type) for f in type_)
    if pa.types.is_list(type_):
        return "array", _family(type_.value_type)
    if pa.types.is_map(type_):
        return "map", _family(type_.key_type), _family(type_.item_type)
    families = {"whole": pa.types.is_integer, "fraction": pa.types.is_floating, "decimal": pa.types.is_decimal}
    return next((name for name, test in families.items() if test(type_)), str(type_))


_TIMES: Final = (TIMESTAMP, TIMESTAMP_MS, FIRES_AT)
_QUEUE_DEFAULTS: Final = {DOMAIN: EVENT_TIME, SERVICE: USER_TIMERS}


def explode_map(rows: Rows, columns: ColumnNames) -> tuple[Rows, dict[str, str]]:
    """Return a row per entry of the map in the column of the value, and the columns of these rows."""
    context = without_keys(columns, (VALUE, LAST_ACCESS))
    named = {n: n for n in (MAP_KEY, MAP_VALUE, LAST_ACCESS) if n != LAST_ACCESS or n in columns}
    return rows.on_batches(partial(_exploded, columns=columns)), context | named


def collect_lists(rows: Rows, columns: ColumnNames) -> Rows:
    """Return a row per key from a row per element of its list; indexes of elements are checked when they are encoded."""
    key = [c for n, c in columns.items() if n != LAST_ACCESS]
    return rows.by_key(key, partial(_collected, key=key, has_times=LAST_ACCESS in columns))


def timers(rows: Rows, key: str, *, has_namespaces: bool) -> tuple[Rows, list[tuple[str, str]]]:
    """Return rows of timers with the columns ``timestamp``, ``domain`` and ``service``, and their services and domains.

    A column that a read has derived from another one, and that is still the same, is left out: it does not follow changes of the
    other. Spark evaluates the rows again when they are written. Rows that would be refused here fail the write then.
    """
    times = [n for n in _TIMES if n in rows.schema.names and n != key]
    derived = [n for n in times if DERIVED_FROM in (rows.schema.field(n).metadata or {})]
    if len(times) > len(derived) > 0:
        rows = rows.select({name: name for name in rows.schema.names if name not in derived})
    timed = rows.on_batches(partial(_timed, key=key, has_namespaces=has_namespaces))
    queues = timed.select({SERVICE: SERVICE, DOMAIN: DOMAIN}).by_key((SERVICE, DOMAIN), _distinct, combines=True).to_arrow()
    return timed, sorted(zip(queues.column(SERVICE).to_pylist(), queues.column(DOMAIN).to_pylist(), strict=True))


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def _exploded(rows: pa.Table, columns: ColumnNames) -> pa.Table:
    table = rows.combine_chunks()
    maps = one_chunk(table.column(columns[VALUE]))
    entries = maps.cast(pa.list_(pa.struct([(MAP_KEY, maps.type.key_type), (MAP_VALUE, maps.type.item_type)])))
    parents, flat = pc.list_parent_indices(entries), pc.list_flatten(entries)
    exploded = {c: table.column(c).take(parents) for n, c in columns.items() if n not in (VALUE, LAST_ACCESS)}
    exploded |= {MAP_KEY: flat.field(MAP_KEY), MAP_VALUE: flat.field(MAP_VALUE)}
    if LAST_ACCESS in columns:
        times = one_chunk(table.column(columns[LAST_ACCESS]))
        if pa.types.is_list(times.type):
            _check_times(table, columns, times, entries)
            times = pc.list_flatten(times)
        else:
            times = times.take(parents)
        exploded[LAST_ACCESS] = times
    return pa.table(exploded)


def _check_times(rows: pa.Table, columns: ColumnNames, times: pa.Array, entries: pa.Array) -> None:
    """Refuse maps with another number of times than entries."""
    lengths = [pc.list_value_length(lists).fill_null(0) for lists in (times, entries)]
    for row in np.flatnonzero(np.asarray(lengths[0]) != np.asarray(lengths[1]))[:1]:
        key = rows.column(columns[KEY])[row].as_py()
        raise InvalidRowError(
            f"key {key!r}: column {columns[LAST_ACCESS]} has {lengths[0][row]} times, the value {lengths[1][row]} elements"
        )


def _collected(rows: pa.Table, key: list[str], *, has_times: bool) -> pa.Table:
    keys = key_numbers(list(map(rows.column, key)))
    places = np.asarray(rows.column(LIST_INDEX).cast(pa.int64()).fill_null(-1))
    order = np.lexsort((places, keys))
    counts = np.bincount(keys, minlength=int(keys.max(initial=-1)) + 1)
    bounds = pa.array(np.append(0, np.cumsum(counts)).astype(np.int32))
    positions = pa.array(order)
    firsts = positions.take(bounds[:-1])
    lists: dict[str, Any] = {c: rows.column(c).take(firsts) for c in key}
    elements = {LIST_INDEX: LIST_INDEX, VALUE: LIST_VALUE} | ({LAST_ACCESS: LAST_ACCESS} if has_times else {})
    for name, column in elements.items():
        lists[name] = pa.ListArray.from_arrays(bounds, one_chunk(rows.column(column).take(positions)))
    return pa.table(lists)


def _distinct(rows: pa.Table) -> pa.Table:
    return rows.group_by(rows.column_names).aggregate([])


def _timed(table: pa.Table, key: str, *, has_namespaces: bool) -> pa.Table:
    """Return timers with one column of times, their domains and services."""
    names = table.column_names
    for name in _QUEUE_DEFAULTS:
        if name in names and not pa.types.is_string(table.schema.field(name).type):
            raise InvalidRowError(f"timers: column {name!r} is of type {table.schema.field(name).type}, expected text")
    if not has_namespaces and NAMESPACE in names and table.column(NAMESPACE).null_count < len(table):
        raise InvalidRowError("timers: column 'namespace' has values, but no type: name it by namespace=")
    times = _timer_times(table, key)
    if TIMESTAMP not in times:
        table = table.append_column(TIMESTAMP, next(iter(times.values())))
    for name, value in _QUEUE_DEFAULTS.items():
        if name not in names:
            table = table.append_column(name, pa.repeat(value, len(table)))
    missing = table.filter(pc.or_(table.column(DOMAIN).is_null(), table.column(SERVICE).is_null())).slice(0, 1)
    for queue in missing.select([DOMAIN, SERVICE]).to_pylist():
        raise InvalidRowError(
            f"timers: a row has the domain {queue[DOMAIN]!r} and the service {queue[SERVICE]!r}, which can't be null"
        )
    return table


def _timer_times(table: pa.Table, key: str) -> dict[str, pa.ChunkedArray]:
    """Return the columns with the times of timers, in milliseconds."""
    columns = [n for n in _TIMES if n in table.column_names and n != key]
    times: dict[str, pa.ChunkedArray] = {}
    for name in columns:
        column, is_instant = table.column(name), name == FIRES_AT
        kind = column.type
        fits = pa.types.is_timestamp(kind) and kind.tz if is_instant else len(columns) == 1 or pa.types.is_integer(kind)
        if not fits:
            expected = "a timestamp with time zone (Spark's TIMESTAMP)" if is_instant else "a number of milliseconds (BIGINT)"
            raise InvalidRowError(f"timers: column {name!r} is of type {kind}, expected {expected}")
        times[name] = _milliseconds(table, key, column) if is_instant else column
    first, *further = times.values()
    for time in further:
        same = pc.equal(first.cast(pa.int64()), time.cast(pa.int64())).fill_null(False)
        wrong = pc.and_(pc.is_valid(time), pc.invert(same))
        if pc.any(wrong).as_py():
            row = table.filter(wrong).slice(0, 1)
            times_of_row = {n: c.filter(wrong)[0].as_py() for n, c in times.items()}
            listing = ", ".join(f"{name} {value} ms" for name, value in times_of_row.items())
            raise InvalidRowError(
                f"timers: for the key {row.column(key)[0].as_py()!r} the columns have different times since 1970: {listing}; "
                "select the one that is meant"
            )
    return times


def _milliseconds(table: pa.Table, key: str, instants: pa.ChunkedArray) -> pa.ChunkedArray:
    micros = instants.cast(pa.int64())
    millis = pc.divide(pc.subtract(micros, _remainder(micros)), 1000)
    wrong = pc.not_equal(_remainder(micros), 0).fill_null(False)
    if pc.any(wrong).as_py():
        row = table.column(key).filter(wrong)[0].as_py(), micros.filter(wrong)[0].as_py()
        raise InvalidRowError(
            f"timers: for the key {row[0]!r} {FIRES_AT} is {row[1]} µs since 1970, expected whole milliseconds, as Flink's "
            f"timers have: floor {FIRES_AT} to milliseconds, in Spark by date_trunc('MILLISECOND', {FIRES_AT})"
        )
    return millis


def _remainder(micros: pa.ChunkedArray) -> pa.ChunkedArray:
    quotient = pc.divide(micros, 1000)
    return pc.subtract(micros, pc.multiply(quotient, 1000))
