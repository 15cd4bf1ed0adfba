"""The layouts of all serializers, by Java class: ``decode`` and ``encode``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from state_processor.backends.connectors.layouts import (
    aws,
    element_serializers,
    flink_cdc,
    iceberg,
    java_states,
    kafka,
    paimon,
    pulsar,
)
from state_processor.backends.connectors.layouts.choices import OneOf, Versions, of_version
from state_processor.backends.connectors.layouts.codecs import NOTE, read_all, to_bytes
from state_processor.serializers.errors import (
    UNWRITABLE,
    ForeignCodeError,
    InvalidRowError,
    NotFoundError,
    OptionError,
    StateProcessorError,
    UnsupportedFormatError,
)
from state_processor.serializers.io import DataInput
from state_processor.serializers.third_party import message_of

_BEFORE_DONATION: Final = "com.ververica.cdc.connectors"
"""The package of Flink CDC before 3.1."""
TUPLES: Final = "org.apache.flink.api.java.typeutils.runtime.TupleSerializer"

LAYOUTS: Final[Mapping[str, Versions]] = MappingProxyType(
    {
        **flink_cdc.LAYOUTS,
        **aws.LAYOUTS,
        **iceberg.LAYOUTS,
        **paimon.LAYOUTS,
        **pulsar.LAYOUTS,
        **element_serializers.LAYOUTS,
        **java_states.LAYOUTS,
        **kafka.LAYOUTS,
        TUPLES: {0: OneOf((aws.STREAM_SHARD, paimon.WRITER_STATE))},
    }
)


def full_name(serializer: str, layouts: Mapping[str, Versions]) -> str:
    """Return the full name of a class that is named in full or without its package.

    Raises
    ------
    NotFoundError
        The class is unknown.
    OptionError
        Several packages have a class of this name.
    """
    now = serializer.replace(_BEFORE_DONATION, flink_cdc.PACKAGE, 1)
    if now in layouts:
        return now
    found = [name for name in layouts if name.rpartition(".")[2] == serializer]
    if len(found) > 1:
        raise OptionError(f"serializer {serializer!r} is ambiguous; name one of {', '.join(found)}")
    if not found:
        raise NotFoundError.naming_nearest("layout of the serializer", serializer, layouts, "the registered connectors")
    return found[0]


def decode(serializer: str, version: int, data: bytes, layouts: Mapping[str, Versions] = LAYOUTS) -> dict[str, Any]:
    """Return the content of bytes; see :func:`state_processor.connectors.decode`."""
    name = full_name(serializer, layouts)
    codec = of_version(layouts[name], version, name)
    source = DataInput(data, f"{name} version {version}")
    try:
        found: dict[str, Any] = read_all(codec, source)
    except UnsupportedFormatError as error:
        raise UnsupportedFormatError(f"{source.source}, offset {source.position}: {error}") from error
    except StateProcessorError as error:
        if source.source in str(error):
            raise
        raise source.corrupt(str(error)) from error  # of bytes inside
    except Exception as error:
        if name not in LAYOUTS:
            raise ForeignCodeError(message_of(source.source, f"the layout of {name}", error)) from error
        raise source.corrupt(f"{type(error).__name__}: {error}") from error
    return found


def encode(serializer: str, version: int, content: Mapping[str, Any], layouts: Mapping[str, Versions] = LAYOUTS) -> bytes:
    """Return the bytes of content; see :func:`state_processor.connectors.encode`."""
    name = full_name(serializer, layouts)
    codec = of_version(layouts[name], version, name)
    try:
        data = to_bytes(codec, content)
        refuse_lost(content, read_all(codec, DataInput(data, "what was written")))
    except UNWRITABLE as error:
        raise InvalidRowError(f"{name} version {version}: {error or type(error).__name__}") from error
    except Exception as error:
        if name in LAYOUTS:
            raise
        raise ForeignCodeError(message_of(f"{name} version {version}", f"the layout of {name}", error)) from error
    return data


def refuse_lost(content: Any, written: Any, place: str = "") -> None:
    """Refuse content that the bytes lack: unknown fields, and fields that contradict other fields.

    Raises
    ------
    InvalidRowError
        There is such a field; the message names it, its value and the value that is read back.
    """
    if isinstance(content, Mapping) and isinstance(written, Mapping):
        for name in content:
            if name not in written and name != NOTE:
                known = ", ".join(map(repr, written))
                raise InvalidRowError(f"field {place + str(name)!r} is not known; there are {known}: remove or rename it")
            if name != NOTE:
                refuse_lost(content[name], written[name], f"{place}{name}.")
    elif isinstance(content, list) and isinstance(written, list) and len(content) == len(written):
        for number, (element, known) in enumerate(zip(content, written, strict=True)):
            refuse_lost(element, known, f"{place}{number}.")
    elif content != written:
        raise InvalidRowError(f"field {place.rstrip('.')!r} is {content!r}, but {written!r} is read back: make its fields agree")
