"""Conversion of Avro's schemas to types."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from state_processor.serializers.avro.containers import AvroArray, AvroMap, AvroRecord, AvroReference, AvroUnion
from state_processor.serializers.avro.scalars import (
    AvroBytes,
    AvroDecimal,
    AvroEnum,
    AvroFixed,
    AvroLogical,
    AvroNull,
    AvroNumber,
    AvroString,
)
from state_processor.serializers.codec import Codec
from state_processor.serializers.io import MAX_NESTING
from state_processor.support.errors import CorruptSnapshotError, StateProcessorError, UnsupportedFormatError

MOST_TYPES: Final = 1 << 16
"""The limit of fields, elements and branches in a type, counting the fields of each referenced record."""

_LARGEST_FIXED: Final = 2**31 - 1
_NUMBERS: Final = ("boolean", "int", "long", "float", "double")
_LOGICAL: Final = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
}

Enclosing = Mapping[str, Mapping[str, AvroRecord]]
"""Enclosing records by name; each is in a mapping that is filled when the record is made."""


class AvroSchema:
    """A parsed schema with full names everywhere, and its named types by name.

    ``text``: the schema as JSON.
    """

    def __init__(self, text: str) -> None:
        from fastavro.schema import parse_schema  # importing it takes longer than a small read of a state without Avro

        self.text = text
        self.named: dict[str, Any] = {}
        with _reading(text):
            text.encode()  # names become columns, and columns can't hold unpaired surrogates
            plain = _without_invalid_decimals(json.loads(text))
            self.content: Any = parse_schema(plain, self.named, expand=False, _write_hint=False)

    def resolve(self, node: Any) -> Any:
        """Return a type's definition if ``node`` is its name."""
        return self.named.get(node, node) if isinstance(node, str) else node

    def type(self) -> Codec:
        """Return the type that the schema describes."""
        with _reading(self.text):
            return _TypeBuilder(self).build(self.content, {}, 0)


class _TypeBuilder:
    """Builder of one schema's type, up to a limited size."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._built = 0

    def build(self, node: Any, inside: Enclosing, depth: int) -> Codec:
        """Build the type of a node that is ``depth`` levels inside other types."""
        self._built += 1
        if self._built > MOST_TYPES:
            raise UnsupportedFormatError(
                f"an Avro schema of more than {MOST_TYPES} fields, counting referenced records: {self._schema.text[:200]}"
            )
        if depth > MAX_NESTING:
            raise _too_deep(self._schema.text)
        node = self._schema.resolve(node)
        if isinstance(node, list):
            return AvroUnion([self.build(branch, inside, depth + 1) for branch in node])
        definition = {"type": node} if isinstance(node, str) else node
        kind = definition["type"]
        if isinstance(kind, (dict, list)) or kind in self._schema.named:
            return self.build(kind, inside, depth + 1)
        return _with_logical(self._plain(kind, definition, inside, depth), definition)

    def _plain(self, kind: str, definition: Mapping[str, Any], inside: Enclosing, depth: int) -> Codec:
        if kind in _NUMBERS:
            return AvroNumber(kind.upper())
        match kind:
            case "null":
                return AvroNull()
            case "string":
                return AvroString()
            case "bytes":
                return AvroBytes()
            case "fixed":
                return AvroFixed(_name(definition), _size(definition))
            case "enum":
                return AvroEnum(_name(definition), _symbols(definition))
            case "array":
                return AvroArray(self.build(definition["items"], inside, depth + 1))
            case "map":
                return AvroMap(self.build(definition["values"], inside, depth + 1))
        name = _name(definition)
        if name in inside:
            return AvroReference(name, inside[name])
        enclosing: dict[str, AvroRecord] = {}
        within = {**inside, name: enclosing}
        fields = {_name(f): self.build(f["type"], within, depth + 1) for f in definition["fields"]}
        unordered = frozenset(_name(f) for f in definition["fields"] if f.get("order") == "ignore")
        record = enclosing[name] = AvroRecord(name, fields, unordered)
        return record


@contextmanager
def _reading(text: str) -> Iterator[None]:
    """Convert any error caused by a text that is not an Avro schema into an error of this library."""
    try:
        yield
    except StateProcessorError:
        raise
    except RecursionError:
        raise _too_deep(text) from None
    except Exception as problem:  # fastavro checks only some attributes of a schema; others cause errors of any class
        problem_text = f"{type(problem).__name__}: {problem}: {text[:200]}".encode("utf-8", "backslashreplace").decode()
        raise CorruptSnapshotError(f"not an Avro schema: {problem_text}") from None


def _too_deep(text: str) -> UnsupportedFormatError:
    return UnsupportedFormatError(f"an Avro schema whose types are nested more than {MAX_NESTING} levels deep: {text[:200]}")


def _name(definition: Mapping[str, Any]) -> str:
    name = definition["name"]
    if not isinstance(name, str):
        raise TypeError(f"text is expected for a name, found {name!r}")
    name.encode()  # JSON may escape surrogates
    return name


def _size(definition: Mapping[str, Any]) -> int:
    size = definition["size"]
    if type(size) is not int or not 0 <= size <= _LARGEST_FIXED:
        raise ValueError(f"0 to {_LARGEST_FIXED} bytes are expected for a fixed type, found {size!r}")
    return size


def _symbols(definition: Mapping[str, Any]) -> list[str]:
    symbols = definition["symbols"]
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise TypeError(f"a list of texts is expected for symbols, found {symbols!r}")
    "".join(symbols).encode()
    return symbols


def _with_logical(base: Codec, definition: Mapping[str, Any]) -> Codec:
    """Return the type with its logical type, if Avro has it and it fits; else the base alone, as Avro does."""
    kind = definition.get("logicalType")
    if isinstance(kind, str) and kind in _LOGICAL and str(base) == _LOGICAL[kind]:
        return AvroLogical(base, kind)
    if kind == "decimal" and isinstance(base, (AvroBytes, AvroFixed)):
        return AvroDecimal(base, definition["precision"], definition.get("scale", 0))
    return base


def _without_invalid_decimals(node: Any) -> Any:
    """Return a schema as Avro's Java library reads it: a decimal with invalid precision or scale is bytes."""
    if isinstance(node, list):
        return list(map(_without_invalid_decimals, node))
    if not isinstance(node, dict):
        return node
    plain_schema = dict(node)
    if node.get("logicalType") == "decimal":
        precision, scale = node.get("precision"), node.get("scale", 0)
        if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision):
            del plain_schema["logicalType"]
    for key in ("type", "items", "values", "fields"):
        if key in plain_schema:
            plain_schema[key] = _without_invalid_decimals(plain_schema[key])
    return plain_schema
