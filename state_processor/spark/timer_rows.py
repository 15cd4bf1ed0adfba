"""Rows of timers: their times, which several columns may say, and the queues that they belong to."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from state_processor.backends.formats.entry_layouts import NAMESPACE
from state_processor.backends.formats.row_shapes import FIRES_AT
from state_processor.backends.read.keyed_reader import DOMAIN, SERVICE
from state_processor.backends.write.entry_encoder import TIMESTAMP
from state_processor.serializers.errors import InvalidRowError
from state_processor.spark.same_keys import quoted
from state_processor.spark.schemas import arrow_schema_of
from state_processor.spark.task_errors import failure, unwrap_spark_errors
from state_processor.types.state_specs import EVENT_TIME, USER_TIMERS
from state_processor.write.row_protocol import TIMESTAMP_MS

_DEFAULTS: Final = {DOMAIN: EVENT_TIME, SERVICE: USER_TIMERS}
_TIMES: Final = (TIMESTAMP, TIMESTAMP_MS, FIRES_AT)
_NO_TYPE: Final = "timers: column 'namespace' has values, but no type: name it by namespace="
_DIFFERENT_TIMES: Final = "timers: the columns of a row have different times, or a time is not a whole number of milliseconds"
_DERIVED_FROM: Final = "derived_from"
"""Metadata of a column: the one that its values come from. Whoever replaces the column, drops it."""


def with_derived_times(frame: DataFrame) -> DataFrame:
    """Mark ``fires_at`` as derived from ``timestamp``, if it is among the columns."""
    return frame.withMetadata(FIRES_AT, {_DERIVED_FROM: TIMESTAMP}) if FIRES_AT in frame.columns else frame


def timers(frame: DataFrame, key: str, *, has_namespaces: bool) -> tuple[DataFrame, list[tuple[str, str]]]:
    """Return rows of timers, and their queues, which a job collects.

    The rows are evaluated again when they are written. Rows that would be refused here fail the write then.

    Parameters
    ----------
    frame
        The rows.
    key
        The column of the key.
    has_namespaces
        Whether the timers may have a namespace.

    Returns
    -------
    tuple
        Rows with the columns ``timestamp`` (the time in milliseconds), ``domain`` and ``service``, and the services and domains.

    Raises
    ------
    InvalidRowError
        If a row lacks its domain or service, has two times, or has a namespace without a type.
    """
    schema = arrow_schema_of(frame.schema)
    for name in (n for n in _DEFAULTS if n in schema.names and not pa.types.is_string(schema.field(n).type)):
        raise InvalidRowError(f"timers: column {name!r} is of type {schema.field(name).type}, expected text")
    times = _times(frame, schema, key)
    first, *others = times.values()
    defaults = (f.lit(value).alias(name) for name, value in _DEFAULTS.items() if name not in schema.names)
    tagged = frame.select("*", *defaults)
    has_namespace = f.lit(False) if has_namespaces or NAMESPACE not in schema.names else f.col(NAMESPACE).isNotNull()
    contradicts = f.lit(False)
    for other in others:
        contradicts |= other.isNotNull() & ~other.eqNullSafe(first)
    if FIRES_AT in times:
        contradicts |= f.coalesce(f.unix_micros(FIRES_AT) % 1000 != 0, f.lit(False))
    with unwrap_spark_errors():
        found = [tuple(r) for r in tagged.select(*_DEFAULTS, has_namespace, contradicts).distinct().collect()]
    for domain, service, named, contradictory in found:
        if domain is None or service is None:
            raise InvalidRowError(f"timers: a row has the domain {domain!r} and the service {service!r}, which can't be null")
        if named:
            raise InvalidRowError(_NO_TYPE)
        if contradictory:
            raise InvalidRowError(_contradiction(frame.where(contradicts), key, list(times)))
    later = f.when(has_namespace, f.expr(failure(_NO_TYPE))).when(contradicts, f.expr(failure(_DIFFERENT_TIMES)))
    timed = tagged.withColumn(TIMESTAMP, later.otherwise(first))
    return timed, sorted({(service, domain) for domain, service, *_ in found})


def _times(frame: DataFrame, schema: pa.Schema, key: str) -> dict[str, Column]:
    """Return the columns with the times of timers, in milliseconds; a single number is checked when it is encoded.

    A column that a read has derived from another one, and that is still the same, says nothing about changes of the other.
    """
    times = {}
    named = [n for n in _TIMES if n in schema.names and n != key]
    given = [n for n in named if _DERIVED_FROM not in frame.schema[n].metadata] or named
    for name in given:
        kind = schema.field(name).type
        is_instant = name == FIRES_AT
        fits = pa.types.is_timestamp(kind) and kind.tz if is_instant else len(given) == 1 or pa.types.is_integer(kind)
        if not fits:
            expected = "a timestamp with time zone (Spark's TIMESTAMP)" if is_instant else "a number of milliseconds (BIGINT)"
            raise InvalidRowError(f"timers: column {name!r} is of type {kind}, expected {expected}")
        times[name] = f.unix_millis(name) if is_instant else f.col(name)
    return times


def _contradiction(rows: DataFrame, key: str, times: list[str]) -> str:
    """Return the message about rows with two times, or with one of more than milliseconds."""
    shown = [f.unix_micros(name).alias(name) if name == FIRES_AT else f.col(name) for name in times]
    with unwrap_spark_errors():
        row = rows.select(f.col(quoted(key)).alias("key"), *shown).first()
    assert row is not None
    micros = row[FIRES_AT] if FIRES_AT in times else None
    if micros is not None and micros % 1000:
        return (
            f"timers: for the key {row['key']!r} {FIRES_AT} is {micros} µs since 1970, expected whole milliseconds, as Flink's "
            f"timers have: use date_trunc('MILLISECOND', {FIRES_AT})"
        )
    said = ", ".join(f"{name} {row[name] // 1000 if name == FIRES_AT else row[name]} ms" for name in times)
    return f"timers: for the key {row['key']!r} the columns have different times since 1970: {said}; select the one that is meant"
