"""Codecs of bytes, for descriptions of connectors: parts of a value in order, and values that have more than one form.

A codec reads content from a :class:`~state_processor.serializers.DataInput` and writes it to a
:class:`~state_processor.serializers.DataOutput`. Content consists of dicts, lists, numbers and text. Codecs are values:
``Struct.of(("topic", UTF), ("offset", LONG))``.
"""

from __future__ import annotations

from state_processor.backends.connectors.choices import (
    Cases,
    Enumerated,
    FirstThatReads,
    Kept,
    OneOf,
    SplitList,
    Versions,
    of_version,
    read_number,
)
from state_processor.backends.connectors.codecs import (
    BOOL,
    BYTE,
    BYTES,
    INT,
    LONG,
    STRING,
    TEXT,
    UTF,
    AtEnd,
    Codec,
    Constant,
    Content,
    Framed,
    ListOf,
    Mapped,
    Remark,
    SnapshotCodec,
    Struct,
    Text,
    json_bytes_text,
    json_text,
    read_all,
    to_bytes,
)
from state_processor.backends.connectors.codecs import Optional as OptionalOf
from state_processor.serializers.io import decode_modified_utf8, encode_modified_utf8

__all__ = [
    "BOOL",
    "BYTE",
    "BYTES",
    "INT",
    "LONG",
    "STRING",
    "TEXT",
    "UTF",
    "AtEnd",
    "Cases",
    "Codec",
    "Constant",
    "Content",
    "Enumerated",
    "FirstThatReads",
    "Framed",
    "Kept",
    "ListOf",
    "Mapped",
    "OneOf",
    "OptionalOf",
    "Remark",
    "SnapshotCodec",
    "SplitList",
    "Struct",
    "Text",
    "Versions",
    "decode_modified_utf8",
    "encode_modified_utf8",
    "json_bytes_text",
    "json_text",
    "of_version",
    "read_all",
    "read_number",
    "to_bytes",
]
