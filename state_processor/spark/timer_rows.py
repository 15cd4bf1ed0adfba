"""Rows of timers, divided among the queues that they belong to: one for each service and domain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as f

from state_processor.backends.formats.entry_layouts import NAMESPACE
from state_processor.backends.read.keyed_reader import DOMAIN, SERVICE
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.errors import InvalidRowError
from state_processor.spark.task_errors import our_errors
from state_processor.state_specs import EVENT_TIME, USER_TIMERS, timer_queue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DEFAULTS: Final = {DOMAIN: EVENT_TIME, SERVICE: USER_TIMERS}


def timer_rows(
    df: DataFrame, schema: pa.Schema, key: TypeSerializer, namespace: TypeSerializer | None
) -> Iterator[tuple[KeyedDescription, DataFrame]]:
    """Each queue with its rows. A job finds out which there are.

    Parameters
    ----------
    df, schema
        The rows and their columns.
    key, namespace
        The types of the timers' keys and namespaces; ``None`` for no namespace.

    Raises
    ------
    InvalidRowError
        If a row has no domain or service, or a namespace where there is none.
    OptionError
        If a domain is neither ``event_time`` nor ``processing_time``.
    """
    for name in (n for n in _DEFAULTS if n in schema.names and not pa.types.is_string(schema.field(n).type)):
        raise InvalidRowError(f"timers: column {name!r} is of type {schema.field(name).type}, expected text")
    tagged = df.select("*", *(f.lit(value).alias(name) for name, value in _DEFAULTS.items() if name not in schema.names))
    is_void = namespace is None and NAMESPACE in schema.names
    spaced = f.col(NAMESPACE).isNotNull() if is_void else f.lit(False)
    with our_errors():
        found = [tuple(r) for r in tagged.select(*_DEFAULTS, spaced).distinct().collect()]
    for domain, service, has_namespace in found:
        if domain is None or service is None:
            raise InvalidRowError(f"timers: a row has the domain {domain!r} and the service {service!r}, which can't be null")
        if has_namespace:
            raise InvalidRowError("timers: column 'namespace' has values, but no type: name it by namespace=")
    for domain, service in sorted({found_[:2] for found_ in found}):
        yield timer_queue(service, domain, key, namespace), tagged.where((f.col(DOMAIN) == domain) & (f.col(SERVICE) == service))
