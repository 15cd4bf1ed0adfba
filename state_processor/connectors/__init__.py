"""Bytes of sources and sinks: single values of the serializers of connectors, by the Java class of the serializer.

:func:`decode` returns the content of a split, the state of an enumerator, a committable or an element of list state. Content
consists of dicts, lists, numbers and text. :func:`encode` is its inverse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from state_processor.backends.connectors import registry
from state_processor.backends.connectors.codecs import BOOL, INT, LONG, TEXT, UTF, ListOf, Struct
from state_processor.backends.connectors.codecs import Optional as OptionalOf
from state_processor.backends.connectors.connector import (
    ASSIGNED,
    COMMITTABLE,
    NO_VALUE,
    RAW_BYTES,
    SPLIT_ID,
    SUBTASK,
    UNASSIGNED,
    VERSION,
    WRITER,
    Consumer,
    CoordinatorState,
    EnumeratedSplit,
    EnumeratorState,
    Format,
    Formats,
    SinkConnector,
    SourceState,
    Values,
    Versioned,
    Wrapping,
)
from state_processor.backends.connectors.connector import Connector as SourceConnector
from state_processor.backends.connectors.content_rows import (
    ContentSource,
    Part,
    SplitListing,
    changed_content,
    committables,
    json_part,
    parsed,
    part,
    row_of,
)
from state_processor.backends.connectors.flink import time_of
from state_processor.backends.connectors.registry import layouts, register_connectors, sinks, sources
from state_processor.backends.connectors.source_splits import decoded, fitting, shown_splits
from state_processor.serializers import DataInput, DataOutput
from state_processor.support.errors import foreign_errors

__all__ = [
    "ASSIGNED",
    "BOOL",
    "COMMITTABLE",
    "INT",
    "LONG",
    "NO_VALUE",
    "RAW_BYTES",
    "SPLIT_ID",
    "SUBTASK",
    "TEXT",
    "UNASSIGNED",
    "UTF",
    "VERSION",
    "WRITER",
    "Consumer",
    "ContentSource",
    "CoordinatorState",
    "DataInput",
    "DataOutput",
    "EnumeratedSplit",
    "EnumeratorState",
    "Format",
    "Formats",
    "ListOf",
    "OptionalOf",
    "Part",
    "SinkConnector",
    "SourceConnector",
    "SourceState",
    "SplitListing",
    "Struct",
    "Values",
    "Versioned",
    "Wrapping",
    "changed_content",
    "committables",
    "decode",
    "decoded",
    "encode",
    "fitting",
    "foreign_errors",
    "json_part",
    "names",
    "parsed",
    "part",
    "register",
    "row_of",
    "serializers",
    "shown_splits",
    "sources",
    "time_of",
]


def register(*connectors: SourceConnector | SinkConnector) -> None:
    """Register connectors: ``read_source_splits``, ``read_sink_state`` and their writers know them by name and by their bytes.

    The registrations have the scope of registrations of serializers: the process, or ``with registrations():``. A package
    registers its connectors in every process through the entry point group ``state_processor.connectors``. The entry point is a
    connector, a list of connectors, or a function that calls ``register``.

    Parameters
    ----------
    connectors
        A connector replaces another one with the same name, also one of this package.

    Raises
    ------
    OptionError
        An argument is not a connector, or its name is reserved.
    """
    register_connectors(*connectors)


def names() -> dict[str, tuple[str, ...]]:
    """Return the names of the known connectors of ``sources`` and of ``sinks``."""
    return {"sources": tuple(sources()), "sinks": tuple(sinks())}


def serializers() -> dict[str, tuple[int, ...]]:
    """Return the Java classes of serializers that :func:`decode` and :func:`encode` know, each with its versions."""
    return {name: tuple(sorted(versions)) for name, versions in sorted(layouts().by_class.items())}


def decode(serializer: str, version: int, data: bytes) -> dict[str, Any]:
    """Return the content of a value.

    Parameters
    ----------
    serializer
        The Java class of the serializer (Flink: ``SimpleVersionedSerializer``), with or without its package:
        ``KafkaPartitionSplitSerializer``. The name without the package has to be unique.
    version
        The version of the serializer that wrote the bytes. A serializer without versions has version 0.
    data
        The bytes, without version and length.

    Returns
    -------
    dict
        Content that JSON can hold; bytes are hexadecimal text. If the content does not determine the bytes, as in JSON texts
        and Java objects of other releases, the result remembers the bytes, and :func:`encode` returns them as long as the
        content is unchanged.

    Raises
    ------
    NotFoundError
        The class is unknown.
    OptionError
        Several packages have a class of this name.
    UnsupportedFormatError
        The version is unknown.
    CorruptSnapshotError
        The bytes are damaged, end early or are left over. The message names class, version and offset.
    """
    return registry.decode(serializer, version, data)


def encode(serializer: str, version: int, content: Mapping[str, Any]) -> bytes:
    """Return the bytes of a value: the inverse of :func:`decode`.

    Parameters
    ----------
    serializer, version
        As in :func:`decode`.
    content
        All fields of the value. A field ``note`` is ignored.

    Raises
    ------
    NotFoundError, OptionError, UnsupportedFormatError
        As in :func:`decode`.
    InvalidRowError
        A field is missing, unknown, has an invalid value, or contradicts another field.
    """
    return registry.encode(serializer, version, content)
