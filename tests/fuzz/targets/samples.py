"""Samples that this project writes, for content that fixtures lack."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from state_processor.serializers.avro.containers import AvroBranch
from state_processor.serializers.avro.records import AvroSerializer

_EVERYTHING: Final = {
    "type": "record",
    "name": "Everything",
    "namespace": "fuzz",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "count", "type": "int"},
        {"name": "total", "type": ["null", "long"], "default": None},
        {"name": "ratio", "type": "double"},
        {"name": "text", "type": "string"},
        {"name": "blob", "type": "bytes"},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counters", "type": {"type": "map", "values": ["null", "int", "string"]}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [{"name": "color", "type": "Color"}]}},
        {"name": "more", "type": {"type": "array", "items": "Inner"}},
    ],
}
_VALUE: Final = {
    "flag": True,
    "count": -5,
    "total": 7,
    "ratio": 0.5,
    "text": "tëxt",
    "blob": b"\x01\x02",
    "color": "GREEN",
    "hash": b"abcd",
    "tags": ["one", "two"],
    "counters": [("a", AvroBranch(1, 3)), ("b", None), ("c", AvroBranch(2, "x"))],
    "price": b"\x04\xd2",
    "day": 19000,
    "at": 1_600_000_000_000,
    "inner": {"color": "RED"},
    "more": [{"color": "RED"}, {"color": "GREEN"}],
}
_NODE: Final = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "value", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}
_SAMPLES: Final[tuple[tuple[str, Any, Any], ...]] = (
    ("everything", _EVERYTHING, _VALUE),
    ("node", _NODE, {"value": 1, "next": {"value": 2, "next": None}}),
    ("string", "string", "text"),
    ("list of lists", {"type": "array", "items": {"type": "array", "items": "long"}}, [[1, 2], [], [3]]),
)


def avro_samples() -> Iterator[tuple[str, bytes, bytes]]:
    """Yield name, serializer snapshot and a value."""
    for name, schema, value in _SAMPLES:
        serializer = AvroSerializer(json.dumps(schema))
        yield name, serializer.snapshot().to_bytes(), serializer.serialize(value)
