"""Arrays of values of Flink's graph library, removed in Flink 2.0 (Flink: ``flink-gelly``'s ``graph.types.valuearray``)."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from state_processor.errors import UnsupportedFormatError
from state_processor.serializers import (
    CharSerializer,
    DataInput,
    DataOutput,
    DecodeOptions,
    NumberSerializer,
    SimpleArraySerializer,
    SimpleSerializer,
    StringValueSerializer,
    simple_snapshots,
)
from state_processor.serializers.extension import declared_versions

_PACKAGE: Final = "org.apache.flink.graph.types.valuearray."
_PROPER_HASH: Final = (
    "org.apache.flink.graph.drivers.transform.LongValueWithProperHashCode$LongValueWithProperHashCodeSerializer$"
    "LongValueWithProperHashCodeSerializerSnapshot"
)


def _snapshot_class(kind: str) -> str:
    return f"{_PACKAGE}{kind}ValueArraySerializer${kind}ValueArraySerializerSnapshot"


class StringValueArraySerializer(SimpleSerializer):
    """``StringValueArray``: a count, a size in bytes, and the strings as ``StringValue`` writes them."""

    snapshot_class = _snapshot_class("String")
    min_size = 8
    _element = StringValueSerializer()

    def __str__(self) -> str:
        return "STRING_VALUE_ARRAY"

    def read(self, source: DataInput) -> list[str | None]:
        start = source.position
        count, size = source.read_int(), source.read_int()
        begin = source.position
        source.skip(size, "strings")
        if not 0 <= count <= size:
            raise source.corrupt(f"{count} strings in {size} bytes", start)
        inner = source.slice(begin, begin + size)
        values = [self._element.read(inner) for _ in range(count)]
        if not inner.at_end():
            raise inner.corrupt(f"{inner.remaining} bytes are left over after {count} strings")
        return values

    def write(self, value: list[str], target: DataOutput) -> None:
        inner = DataOutput()
        for text in value:
            self._element.write(text, inner)
        target.write_int(len(value))
        target.write_int(inner.position)
        target.write_bytes(inner.to_bytes())

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.list_(pa.string())

    def to_column(self, value: list[str], options: DecodeOptions) -> list[str | None]:
        return [self._element.to_column(text, options) for text in value]


class NullValueArraySerializer(SimpleSerializer):
    """``NullValueArray``: only the number of elements. Python and columns hold the number."""

    snapshot_class = _snapshot_class("Null")
    length = min_size = 4

    def __str__(self) -> str:
        return "NULL_VALUE_ARRAY"

    def read(self, source: DataInput) -> int:
        return source.read_int()

    def write(self, value: int, target: DataOutput) -> None:
        target.write_int(value)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.int32()


class LongValueWithProperHashCodeSerializer(NumberSerializer):
    """A long whose ``hashCode`` differs from ``Long``'s."""

    def __init__(self) -> None:
        super().__init__("LONG", _PROPER_HASH)

    def hash_code(self, value: Any) -> int:
        raise UnsupportedFormatError(
            "the hashCode of LongValueWithProperHashCode is unknown: keys can't be assigned to key groups"
        )


_NUMBERS: Final = ("Byte", "Short", "Int", "Long", "Float", "Double")
SNAPSHOTS: Final = simple_snapshots(
    *(SimpleArraySerializer(NumberSerializer(name.upper()), _snapshot_class(name)) for name in _NUMBERS),
    SimpleArraySerializer(CharSerializer(), _snapshot_class("Char")),
    StringValueArraySerializer(),
    NullValueArraySerializer(),
    LongValueWithProperHashCodeSerializer(),
)
VERSIONS: Final = {name: declared_versions(name, {2: "1.7", 3: "1.8"}) for name in SNAPSHOTS}
