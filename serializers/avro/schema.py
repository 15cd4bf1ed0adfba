"""From Avro's schemas to types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from fastavro.schema import SchemaParseException, UnknownType, parse_schema

from state_processor.serializers.avro.containers import AvroArray, AvroMap, AvroRecord, AvroReference, AvroUnion
from state_processor.serializers.avro.logical import AvroDecimal, AvroLogical
from state_processor.serializers.avro.scalars import AvroBytes, AvroEnum, AvroFixed, AvroNull, AvroNumber, AvroString
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.errors import CorruptSnapshotError

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
"""Records that a type is inside of, by name; each in a mapping that is filled when the record is made."""


class AvroSchema:
    """A parsed schema: full names everywhere, and each named type by its name.

    Parameters
    ----------
    text
        The schema as JSON.

    Raises
    ------
    CorruptSnapshotError
        If it is none.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.named: dict[str, Any] = {}
        try:
            self.content: Any = parse_schema(
                _without_invalid_decimals(json.loads(text)), self.named, expand=False, _write_hint=False
            )
        except (ValueError, SchemaParseException, UnknownType, KeyError, TypeError) as problem:
            raise CorruptSnapshotError(f"not an Avro schema: {problem}: {text[:200]}") from None

    def resolve(self, node: Any) -> Any:
        """A type's definition where ``node`` is its name."""
        return self.named.get(node, node) if isinstance(node, str) else node

    def type(self) -> TypeSerializer:
        """The type that the schema describes."""
        return self._type(self.content, {})

    def _type(self, node: Any, inside: Enclosing) -> TypeSerializer:
        node = self.resolve(node)
        if isinstance(node, list):
            return AvroUnion([self._type(branch, inside) for branch in node])
        definition = {"type": node} if isinstance(node, str) else node
        kind = definition["type"]
        if isinstance(kind, (dict, list)) or kind in self.named:
            return self._type(kind, inside)
        return _with_logical(self._plain(kind, definition, inside), definition)

    def _plain(self, kind: str, definition: Mapping[str, Any], inside: Enclosing) -> TypeSerializer:
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
                return AvroFixed(definition["name"], definition["size"])
            case "enum":
                return AvroEnum(definition["name"], definition["symbols"])
            case "array":
                return AvroArray(self._type(definition["items"], inside))
            case "map":
                return AvroMap(self._type(definition["values"], inside))
        name = definition["name"]
        if name in inside:
            return AvroReference(name, inside[name])
        enclosing: dict[str, AvroRecord] = {}
        fields = {f["name"]: self._type(f["type"], {**inside, name: enclosing}) for f in definition["fields"]}
        unordered = frozenset(f["name"] for f in definition["fields"] if f.get("order") == "ignore")
        record = enclosing[name] = AvroRecord(name, fields, unordered)
        return record


def _with_logical(base: TypeSerializer, definition: Mapping[str, Any]) -> TypeSerializer:
    """The type with its logical type, where Avro knows it and it fits; else the base alone, as Avro does."""
    kind = definition.get("logicalType")
    if kind in _LOGICAL and str(base) == _LOGICAL[kind]:
        return AvroLogical(base, kind)
    if kind == "decimal" and isinstance(base, (AvroBytes, AvroFixed)):
        return AvroDecimal(base, definition["precision"], definition.get("scale", 0))
    return base


def _without_invalid_decimals(node: Any) -> Any:
    """A schema as Avro's Java takes it: a decimal whose numbers make no sense is bytes."""
    if isinstance(node, list):
        return [_without_invalid_decimals(n) for n in node]
    if not isinstance(node, dict):
        return node
    kept = dict(node)
    if node.get("logicalType") == "decimal":
        precision, scale = node.get("precision"), node.get("scale", 0)
        if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision):
            del kept["logicalType"]
    for key in ("type", "items", "values", "fields"):
        if key in kept:
            kept[key] = _without_invalid_decimals(kept[key])
    return kept
