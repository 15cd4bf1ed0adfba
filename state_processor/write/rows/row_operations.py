"""Operations on rows that a writer is given: maps and lists with a row for each entry or element, and timers."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from state_processor.backends.formats.row_layout import NAMESPACE
from state_processor.backends.formats.row_shapes import FIRES_AT, LAST_ACCESS, LIST_INDEX, LIST_VALUE
from state_processor.backends.read.keyed_reader import DOMAIN, SERVICE
from state_processor.backends.write.entry_encoder import KEY, MAP_KEY, MAP_VALUE, TIMESTAMP, VALUE
from state_processor.support.errors import InvalidRowError
from state_processor.support.late import pc
from state_processor.types.state_specs import EVENT_TIME, USER_TIMERS
from state_processor.write.rows.arrow_keys import key_numbers
from state_processor.write.rows.row_protocol import DERIVED_FROM, TIMESTAMP_MS, ColumnNames, Rows

_TIMES: Final = (TIMESTAMP, TIMESTAMP_MS, FIRES_AT)
_QUEUE_DEFAULTS: Final = {DOMAIN: EVENT_TIME, SERVICE: USER_TIMERS}


def explode_map(rows: Rows, columns: ColumnNames) -> tuple[Rows, dict[str, str]]:
    """Return a row per entry of the map in the column of the value, and the columns of these rows."""
    context = {n: c for n, c in columns.items() if n not in (VALUE, LAST_ACCESS)}
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
    for name in (n for n in _QUEUE_DEFAULTS if n in names and not pa.types.is_string(table.schema.field(n).type)):
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
            told = {n: c.filter(wrong)[0].as_py() for n, c in times.items()}
            said = ", ".join(f"{name} {value} ms" for name, value in told.items())
            raise InvalidRowError(
                f"timers: for the key {row.column(key)[0].as_py()!r} the columns have different times since 1970: {said}; select "
                "the one that is meant"
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
