"""The connectors of this package, of installed packages and of users, and the layouts of their serializers by Java class.

An installed package registers its connectors through the entry point group ``state_processor.connectors``: the entry point is a
connector, a list of connectors, or a function that calls :func:`register_connectors`. Registrations have the scope of
:func:`~state_processor.serializers.registry.registrations`. :func:`decode` and :func:`encode` convert single values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from logging import getLogger
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from state_processor.backends.connectors import java_values
from state_processor.backends.connectors.choices import OneOf, Versions, of_version
from state_processor.backends.connectors.codecs import NOTE, Codec, read_all, to_bytes
from state_processor.backends.connectors.connector import (
    RAW,
    SPLIT_ID,
    Connector,
    Consumer,
    Format,
    Formats,
    SinkConnector,
    Wrapping,
)
from state_processor.backends.connectors.flink import FILE, FILE_SINK, SEQUENCE
from state_processor.backends.connectors.kafka import DYNAMIC_KAFKA, KAFKA, KAFKA_SINK
from state_processor.serializers.io import DataInput
from state_processor.serializers.registry import current_registrations, entry_points, install, register
from state_processor.support.errors import (
    UNWRITABLE,
    ForeignCodeError,
    InvalidRowError,
    NotFoundError,
    OptionError,
    StateProcessorError,
    UnsupportedFormatError,
    describe,
    message_of,
)
from state_processor.support.mappings import names_of
from state_processor.support.plugin_table import PLUGINS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP: Final = "state_processor.connectors"
CONSUMER: Final = "-consumer"
"""The end of the name of a connector's :class:`~.connector.Consumer`."""

OWN: Final[tuple[Connector | SinkConnector, ...]] = (SEQUENCE, KAFKA, DYNAMIC_KAFKA, FILE, KAFKA_SINK, FILE_SINK)

_LOG: Final = getLogger("state_processor")

K = TypeVar("K", Connector, SinkConnector)


def register_connectors(*connectors: Connector | SinkConnector) -> None:
    """Register connectors; see :func:`state_processor.connectors.register`."""
    for connector in connectors:
        if not isinstance(connector, (Connector, SinkConnector)):
            raise OptionError(f"expected a SourceConnector or a SinkConnector, found {type(connector).__name__}: {connector!r}")
        if connector.name == RAW or connector.name.endswith(CONSUMER) or not connector.name:
            raise OptionError(f"the name {connector.name!r} of a connector is reserved; choose another name")
        _check(connector)
        register(lambda registered, c=connector: registered.with_connector(_key(c), c))  # type: ignore[misc]


def _check(connector: Connector | SinkConnector) -> None:
    """Refuse a description that reading or writing would fail with."""
    title = f"connector {connector.name!r}"
    for part in connector.fields:
        if not isinstance(part, pa.Field):
            raise OptionError(f"{title}: fields has {part!r}; expected pyarrow.Field, such as pa.field('position', pa.int64())")
    columns = {SPLIT_ID, *names_of(connector.fields)}
    for name in (*connector.required, *getattr(connector, "required_of_readers", ())):
        if name not in columns:
            raise OptionError(f"{title}: the required column {name!r} is not among its fields {', '.join(sorted(columns))}")
    for field in fields(connector):
        formats = getattr(connector, field.name)
        for version, tried in formats.by_version.items() if isinstance(formats, Formats) else ():
            if not isinstance(tried, (list, tuple)) or not tried or not all(isinstance(format_, Format) for format_ in tried):
                raise OptionError(f"{title}, {formats.what}, version {version}: expected a tuple of Format, found {tried!r}")
    for name, kind in (("consumer", Consumer), ("wrapping", Wrapping)):
        value = getattr(connector, name, None)
        if value is not None and not isinstance(value, kind):
            raise OptionError(f"{title}: {name} is {value!r}; expected a {kind.__name__}")
    for name, versions in connector.layouts.items():
        if not isinstance(versions, Mapping):
            raise OptionError(
                f"{title}: layouts[{name!r}] is a {type(versions).__name__}; expected codecs by version: {{1: codec}}"
            )


def _key(connector: Connector | SinkConnector) -> str:
    return f"{type(connector).__name__} {connector.name}"


def sources() -> dict[str, Connector]:
    """Return the connectors of sources by name; registered ones take precedence."""
    return _of_kind(Connector)


def sinks() -> dict[str, SinkConnector]:
    """Return the connectors of sinks by name; registered ones take precedence."""
    return _of_kind(SinkConnector)


def _of_kind(kind: type[K]) -> dict[str, K]:
    _load_installed()
    connectors = (*built_in(), *current_registrations().connectors.values())
    return {connector.name: connector for connector in connectors if isinstance(connector, kind)}


@cache
def built_in() -> tuple[Connector | SinkConnector, ...]:
    """Return the connectors of the core and then of the plug-ins."""
    connectors = list(OWN)
    for plugin in PLUGINS:
        if plugin.connectors:
            connectors += import_module(f"state_processor.plugins.{plugin.connectors}").CONNECTORS
    return tuple(connectors)


@cache
def _load_installed() -> None:
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            install(lambda e=entry_point: _registering(e))  # type: ignore[misc]
        except Exception as error:  # of another package; other connectors work without it
            problem = f"{entry_point.name} ({entry_point.value}) failed with {describe(error)}"
            _LOG.warning("connectors of the installed entry point %s: they are not known", problem)


def _registering(entry_point: EntryPoint) -> Callable[[], None]:
    connector: Any = entry_point.load()
    if isinstance(connector, (Connector, SinkConnector)):
        return lambda: register_connectors(connector)
    if isinstance(connector, (list, tuple)):
        return lambda: register_connectors(*connector)
    registering: Callable[[], None] = connector
    return registering


# Layouts


@dataclass(frozen=True, slots=True)
class Layouts:
    """The layouts of the serializers of all connectors, by Java class. ``foreign`` are the classes of other packages."""

    by_class: Mapping[str, Versions]
    foreign: Collection[str] = ()


def layouts() -> Layouts:
    """Return the layouts of all serializers. A layout of a registered connector replaces a layout of this package."""
    _load_installed()
    registered = _combined(connector.layouts for connector in current_registrations().connectors.values())
    return Layouts({**_built_in_layouts(), **registered}, frozenset(registered) - _built_in_layouts().keys())


@cache
def _built_in_layouts() -> Mapping[str, Versions]:
    return _combined((java_values.LAYOUTS, *(connector.layouts for connector in built_in())))


def _combined(layouts: Iterable[Mapping[str, Versions]]) -> Mapping[str, Versions]:
    """Return layouts by Java class. Several codecs of one class and version are tried in order."""
    codecs: dict[tuple[str, int], list[Codec]] = {}
    for by_class in layouts:
        for name, versions in by_class.items():
            for version, codec in versions.items():
                choices = codecs.setdefault((name, version), [])
                if codec not in choices:
                    choices.append(codec)
    joined: dict[str, dict[int, Codec]] = {}
    for (name, version), choices in codecs.items():
        joined.setdefault(name, {})[version] = choices[0] if len(choices) == 1 else OneOf(tuple(choices))
    return joined


def _full_name(serializer: str, layouts: Mapping[str, Versions]) -> str:
    """Return the full name of a class that is named in full or without its package."""
    if serializer in layouts:
        return serializer
    names = [name for name in layouts if name.rpartition(".")[2] == serializer]
    if not names:
        raise NotFoundError.naming_nearest("layout of the serializer", serializer, layouts, "the registered connectors")
    if any(layouts[name] != layouts[names[0]] for name in names):
        raise OptionError(f"serializer {serializer!r} is ambiguous; name one of {', '.join(names)}")
    return names[0]


def decode(serializer: str, version: int, data: bytes) -> dict[str, Any]:
    """Return the content of bytes; see :func:`state_processor.connectors.decode`."""
    registered = layouts()
    name = _full_name(serializer, registered.by_class)
    codec = of_version(registered.by_class[name], version, name)
    source = DataInput(data, f"{name} version {version}")
    try:
        content: dict[str, Any] = read_all(codec, source)
    except UnsupportedFormatError as error:
        raise UnsupportedFormatError(f"{source.source}, offset {source.position}: {error}") from error
    except StateProcessorError as error:
        if source.source in str(error):
            raise
        raise source.corrupt(str(error)) from error  # of bytes inside
    except Exception as error:
        if name in registered.foreign:
            raise ForeignCodeError(message_of(source.source, f"the layout of {name}", error)) from error
        raise source.corrupt(f"{type(error).__name__}: {error}") from error
    return content


def encode(serializer: str, version: int, content: Mapping[str, Any]) -> bytes:
    """Return the bytes of content; see :func:`state_processor.connectors.encode`."""
    registered = layouts()
    name = _full_name(serializer, registered.by_class)
    codec = of_version(registered.by_class[name], version, name)
    try:
        data = to_bytes(codec, content)
        _refuse_lost(content, read_all(codec, DataInput(data, "what was written")))
    except UNWRITABLE as error:
        raise InvalidRowError(f"{name} version {version}: {error or type(error).__name__}") from error
    except Exception as error:
        if name not in registered.foreign:
            raise
        raise ForeignCodeError(message_of(f"{name} version {version}", f"the layout of {name}", error)) from error
    return data


def _refuse_lost(content: Any, written: Any, place: str = "") -> None:
    """Refuse content that the bytes lack: unknown fields, and fields that contradict other fields."""
    if isinstance(content, Mapping) and isinstance(written, Mapping):
        for name in content:
            if name not in written and name != NOTE:
                names = ", ".join(map(repr, written))
                raise InvalidRowError(f"field {place + str(name)!r} is not known; there are {names}: remove or rename it")
            if name != NOTE:
                _refuse_lost(content[name], written[name], f"{place}{name}.")
    elif isinstance(content, list) and isinstance(written, list) and len(content) == len(written):
        for number, (element, names) in enumerate(zip(content, written, strict=True)):
            _refuse_lost(element, names, f"{place}{number}.")
    elif content != written:
        raise InvalidRowError(f"field {place.rstrip('.')!r} is {content!r}, but {written!r} is read back: make its fields agree")
