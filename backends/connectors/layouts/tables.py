"""The layouts of all serializers, by Java class: ``decode`` and ``encode``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from state_processor.backends.connectors.layouts.choices import OneOf, Versions, of_version
from state_processor.backends.connectors.layouts.codecs import NOTE, Codec, read_all, to_bytes
from state_processor.serializers.io import DataInput
from state_processor.support.errors import (
    UNWRITABLE,
    ForeignCodeError,
    InvalidRowError,
    NotFoundError,
    OptionError,
    StateProcessorError,
    UnsupportedFormatError,
    message_of,
)


@dataclass(frozen=True, slots=True)
class Layouts:
    """The layouts of the serializers of all connectors, by Java class. ``foreign`` are the classes of other packages."""

    by_class: Mapping[str, Versions]
    foreign: Collection[str] = ()


def combined(layouts: Iterable[Mapping[str, Versions]]) -> dict[str, Versions]:
    """Return layouts by Java class. Several codecs of one class and version are tried in order."""
    codecs: dict[str, dict[int, list[Codec]]] = {}
    for by_class in layouts:
        for name, versions in by_class.items():
            for version, codec in versions.items():
                choices = codecs.setdefault(name, {}).setdefault(version, [])
                if codec not in choices:
                    choices.append(codec)
    return {name: {version: _one_of(tried) for version, tried in versions.items()} for name, versions in codecs.items()}


def _one_of(codecs: Sequence[Codec]) -> Codec:
    return codecs[0] if len(codecs) == 1 else OneOf(tuple(codecs))


def full_name(serializer: str, layouts: Mapping[str, Versions]) -> str:
    """Return the full name of a class that is named in full or without its package."""
    if serializer in layouts:
        return serializer
    names = [name for name in layouts if name.rpartition(".")[2] == serializer]
    if not names:
        raise NotFoundError.naming_nearest("layout of the serializer", serializer, layouts, "the registered connectors")
    if any(layouts[name] != layouts[names[0]] for name in names):
        raise OptionError(f"serializer {serializer!r} is ambiguous; name one of {', '.join(names)}")
    return names[0]


def decode(serializer: str, version: int, data: bytes, layouts: Layouts) -> dict[str, Any]:
    """Return the content of bytes; see :func:`state_processor.connectors.decode`."""
    name = full_name(serializer, layouts.by_class)
    codec = of_version(layouts.by_class[name], version, name)
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
        if name in layouts.foreign:
            raise ForeignCodeError(message_of(source.source, f"the layout of {name}", error)) from error
        raise source.corrupt(f"{type(error).__name__}: {error}") from error
    return content


def encode(serializer: str, version: int, content: Mapping[str, Any], layouts: Layouts) -> bytes:
    """Return the bytes of content; see :func:`state_processor.connectors.encode`."""
    name = full_name(serializer, layouts.by_class)
    codec = of_version(layouts.by_class[name], version, name)
    try:
        data = to_bytes(codec, content)
        refuse_lost(content, read_all(codec, DataInput(data, "what was written")))
    except UNWRITABLE as error:
        raise InvalidRowError(f"{name} version {version}: {error or type(error).__name__}") from error
    except Exception as error:
        if name not in layouts.foreign:
            raise
        raise ForeignCodeError(message_of(f"{name} version {version}", f"the layout of {name}", error)) from error
    return data


def refuse_lost(content: Any, written: Any, place: str = "") -> None:
    """Refuse content that the bytes lack: unknown fields, and fields that contradict other fields."""
    if isinstance(content, Mapping) and isinstance(written, Mapping):
        for name in content:
            if name not in written and name != NOTE:
                names = ", ".join(map(repr, written))
                raise InvalidRowError(f"field {place + str(name)!r} is not known; there are {names}: remove or rename it")
            if name != NOTE:
                refuse_lost(content[name], written[name], f"{place}{name}.")
    elif isinstance(content, list) and isinstance(written, list) and len(content) == len(written):
        for number, (element, names) in enumerate(zip(content, written, strict=True)):
            refuse_lost(element, names, f"{place}{number}.")
    elif content != written:
        raise InvalidRowError(f"field {place.rstrip('.')!r} is {content!r}, but {written!r} is read back: make its fields agree")
