"""Values that are not decoded: their raw bytes, where something else tells where they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kernel.opcodes import Op

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder


class OpaqueSerializer(TypeSerializer):
    """A value that fills its part of an entry, as bytes. Inside another value, or back to back with others, it has no end.

    Parameters
    ----------
    name
        The type as the serializer in whose place this stands names it.
    snapshot
        That serializer's snapshot.
    reason
        Why values are not decoded.
    """

    smallest = 0

    def __init__(self, name: str, snapshot: TypeSerializerSnapshot, reason: str) -> None:
        self.name = name
        self.reason = reason
        self._snapshot = snapshot

    def __str__(self) -> str:
        return self.name

    def read(self, source: DataInput) -> bytes:
        return source.read_bytes(source.remaining)

    def write(self, value: bytes, target: DataOutput) -> None:
        target.write_bytes(value)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(Op.REST, column, left=0)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.raw(column, null=None)

    def snapshot(self) -> TypeSerializerSnapshot:
        return self._snapshot


def filling(serializer: TypeSerializer) -> TypeSerializer:
    """What reads a value that fills its part of an entry: raw bytes where the serializer itself can't find their end.

    The column is the same as that of the serializer. One that only needs to know that its values fill the part has a method
    ``filling``.
    """
    known: Callable[[], TypeSerializer] | None = getattr(serializer, "filling", None)
    if known is not None:
        return known()
    raw: Callable[[], OpaqueSerializer] | None = getattr(serializer, "raw", None)
    return raw() if raw is not None and not getattr(serializer, "can_find_end", True) else serializer


def reason_end_unknown(serializer: TypeSerializer) -> str:
    """Why the end of a serializer's values can't be found; empty where it can.

    Looks at the serializer and all inside it, for the attribute ``can_find_end``.
    """
    return next(_reasons(serializer, set()), "")


def _reasons(part: Any, seen: set[int]) -> Iterator[str]:
    if isinstance(part, TypeSerializer):
        if id(part) in seen:
            return
        seen.add(id(part))
        if not getattr(part, "can_find_end", True):
            yield str(getattr(part, "reason", "")) or f"the end of a value of type {part} can't be found"
        for inner in vars(part).values():
            yield from _reasons(inner, seen)
    elif isinstance(part, (list, tuple)):
        for inner in part:
            yield from _reasons(inner, seen)
    elif isinstance(part, Mapping):
        for inner in part.values():
            yield from _reasons(inner, seen)
    elif hasattr(type(part), "__dataclass_fields__"):
        for name in type(part).__dataclass_fields__:
            yield from _reasons(getattr(part, name), seen)
