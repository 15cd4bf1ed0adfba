"""Writes small Java object streams, as ``ObjectOutputStream`` does, for tests without real ones."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from state_processor.serializers.io import encode_modified_utf8
from state_processor.serializers.java.object_input import STREAM_HEADER
from state_processor.serializers.table.logical_types import PACKAGE

NULL = b"\x70"
ROOT = f"{PACKAGE}LogicalTypeRoot"
Value = bool | int | bytes
"""A boolean, an int, or the content of an object."""


def utf(text: str) -> bytes:
    raw = encode_modified_utf8(text)
    return struct.pack(">H", len(raw)) + raw


def string(text: str) -> bytes:
    return b"\x74" + utf(text)


def _field(name: str, value: Value) -> bytes:
    if isinstance(value, bytes):
        return b"L" + utf(name) + string("Ljava/lang/Object;")
    return (b"Z" if isinstance(value, bool) else b"I") + utf(name)


def _value(value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    return struct.pack(">?" if isinstance(value, bool) else ">i", value)


def class_description(name: str, fields: Mapping[str, Value], flags: int = 2, parent: bytes = NULL) -> bytes:
    described = b"".join(_field(n, v) for n, v in fields.items())
    return b"\x72" + utf(name) + struct.pack(">qBH", 1, flags, len(fields)) + described + b"\x78" + parent


def instance(name: str, fields: Mapping[str, Value], parent: str = "", inherited: Mapping[str, Value] | None = None) -> bytes:
    above = class_description(parent, inherited or {}) if parent else NULL
    values = [*(inherited or {}).values(), *fields.values()]
    return b"\x73" + class_description(name, fields, parent=above) + b"".join(map(_value, values))


def enum(name: str, constant: str) -> bytes:
    return b"\x7e" + class_description(name, {}, 0x12, class_description("java.lang.Enum", {}, 0x12)) + string(constant)


def java_class(name: str) -> bytes:
    return b"\x76" + class_description(name, {}, 0)


def array_list(elements: Sequence[bytes], name: str = "java.util.ArrayList") -> bytes:
    head = b"\x73" + class_description(name, {"size": 1}, 3) + struct.pack(">i", len(elements))
    return head + b"\x77\x04" + struct.pack(">i", len(elements)) + b"".join(elements) + b"\x78"


def array(elements: Sequence[bytes]) -> bytes:
    return b"\x75" + class_description("[Ljava.lang.Object;", {}) + struct.pack(">i", len(elements)) + b"".join(elements)


def unmodifiable(elements: Sequence[bytes]) -> bytes:
    return instance("java.util.Collections$UnmodifiableRandomAccessList", {"list": array_list(elements)})


def logical(name: str, nullable: bool = True, **fields: Value) -> bytes:
    inherited: dict[str, Value] = {"isNullable": nullable, "typeRoot": enum(ROOT, "ANY")}
    return instance(PACKAGE + name, fields, f"{PACKAGE}LogicalType", inherited)


def row(**types: bytes) -> bytes:
    fields = [
        instance(f"{PACKAGE}RowType$RowField", {"description": NULL, "name": string(n), "type": t}) for n, t in types.items()
    ]
    return logical("RowType", fields=unmodifiable(fields))


def timestamp(name: str, precision: int, kind: str = "REGULAR") -> bytes:
    return logical(name, precision=precision, kind=enum(f"{PACKAGE}TimestampKind", kind))


def stream(content: bytes) -> bytes:
    return STREAM_HEADER + content
