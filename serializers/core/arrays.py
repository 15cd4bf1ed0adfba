"""Arrays of primitives, of strings and of objects (Flink: ``…typeutils.base.array`` and ``GenericArraySerializer``)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from state_processor.serializers.base import (
    CompositeTypeSerializerSnapshot,
    SchemaCompatibility,
    SimpleSerializer,
    TypeSerializer,
    TypeSerializerSnapshot,
    register_simple,
)
from state_processor.serializers.core.basic import (
    CharSerializer,
    NumberSerializer,
    PythonCoder,
    ScalarType,
    StringSerializer,
    register_scalars,
)
from state_processor.serializers.core.collections import ListCodec, NullFlagged
from state_processor.serializers.core.templates import DelegatingCodec, DelegatingSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java import hashing
from state_processor.serializers.java.types import BOXES
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.registry import BASE, provide_snapshots
from state_processor.serializers.traversal import ELEMENT
from state_processor.support.errors import UnsupportedFormatError

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

ARRAY: Final = f"{BASE}array."
GENERIC_ARRAY_SNAPSHOT: Final = f"{BASE}GenericArraySerializerSnapshot"
GENERIC_ARRAY_CONFIG_SNAPSHOT: Final = f"{BASE}GenericArraySerializerConfigSnapshot"

_BOXED: Final = {box: name.upper() for name, box in BOXES.items()}


def _no_key(serializer: TypeSerializer) -> UnsupportedFormatError:
    return UnsupportedFormatError(
        f"{serializer}: an array's hashCode depends on the object in memory; Flink refuses arrays as keys, so they have no key "
        "groups"
    )


class SimpleArraySerializer(DelegatingCodec, SimpleSerializer):
    """An array whose elements need no configuration: a count and the elements.

    Parameters
    ----------
    element
        The serializer of an element: a number, a character or a string.
    """

    def __init__(self, element: TypeSerializer, snapshot_class: str) -> None:
        DelegatingCodec.__init__(self, ListCodec(element))
        SimpleSerializer.__init__(self, snapshot_class)
        self.element = element

    def __str__(self) -> str:
        return f"{self.element}_ARRAY"

    def hash_code(self, value: Any) -> int:
        raise _no_key(self)

    def content_hash(self, value: Any) -> int:
        """Return ``Arrays.hashCode``, the rule of arrays inside rows. An array itself hashes by identity and can't be a key."""
        return hashing.of_units(map(self.element.hash_code, value), start=1)


class PrimitiveArraySerializer(SimpleArraySerializer):
    """``boolean[]``, ``short[]``, ``int[]``, ``long[]``, ``float[]``, ``double[]`` and ``char[]``."""

    def __init__(self, name: str) -> None:
        element = CharSerializer() if name == "CHAR" else NumberSerializer(name)
        super().__init__(element, _primitive_snapshot_class(name))

    def skip(self, source: DataInput) -> None:
        source.skip(source.read_count("array elements", self.element.length) * self.element.length)


class BytesSerializer(SimpleSerializer):
    """``byte[]``: a count and the bytes."""

    never_null = True
    min_size = 4

    def __init__(self) -> None:
        super().__init__(_primitive_snapshot_class("BYTE"))

    def __str__(self) -> str:
        return "BYTES"

    def read(self, source: DataInput) -> bytes:
        return source.read_bytes(source.read_count("bytes"))

    def skip(self, source: DataInput) -> None:
        source.skip(source.read_count("bytes"))

    def write(self, value: bytes, target: DataOutput) -> None:
        target.write_int(len(value))
        target.write_bytes(value)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def from_column(self, value: Any) -> bytes:
        if isinstance(value, int):
            raise TypeError  # ``bytes(n)`` returns n zeros
        return bytes.fromhex(value) if isinstance(value, str) else bytes(value)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.op(Op.BYTES, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(Op.BYTES, column)

    def hash_code(self, value: Any) -> int:
        raise _no_key(self)

    def content_hash(self, value: bytes) -> int:
        """Return ``Arrays.hashCode``, the rule of arrays inside rows. An array itself hashes by identity and can't be a key."""
        return hashing.of_units(struct.unpack(f"{len(value)}b", value), start=1)


class GenericArraySerializer(DelegatingSerializer):
    """An array of objects: a count, then for each element a byte (1: present, 0: null) and the element.

    ``element``: the serializer of an element that is not null. ``component_class``: the Java class of the elements.
    ``snapshot_class`` and ``version``: class and version of the snapshot, if an older Flink wrote it.
    """

    child_names = (ELEMENT,)

    def __init__(
        self,
        element: TypeSerializer,
        component_class: str,
        snapshot_class: str = GENERIC_ARRAY_SNAPSHOT,
        version: int | None = None,
    ) -> None:
        super().__init__(ListCodec(NullFlagged(element, null_when=False)))
        self.element = element
        self.component_class = component_class
        self._snapshot_class = snapshot_class
        self._version = version

    def __str__(self) -> str:
        boxed = _BOXED.get(self.component_class)
        return f"BOXED_{boxed}_ARRAY" if boxed else f"OBJECT_ARRAY<{self.element}>"

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return (self.element,)

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        (element,) = children
        return GenericArraySerializer(element, self.component_class, self._snapshot_class, self._version)

    def hash_code(self, value: Any) -> int:
        raise _no_key(self)

    def snapshot(self) -> TypeSerializerSnapshot:
        return GenericArraySerializerSnapshot(self.component_class, self.element.snapshot(), self._snapshot_class, self._version)


class GenericArraySerializerSnapshot(CompositeTypeSerializerSnapshot):
    """Snapshot of :class:`GenericArraySerializer`.

    Its class name is the current one or the one of Flink 1.7 (``…ConfigSnapshot``, version 2).
    """

    nested_names = GenericArraySerializer.child_names

    def __init__(
        self,
        component_class: str,
        element: TypeSerializerSnapshot,
        class_name: str = GENERIC_ARRAY_SNAPSHOT,
        version: int | None = None,
    ) -> None:
        super().__init__(class_name, [element], version, version if version == 2 else None)
        self.component_class = component_class

    def read_outer(self, source: DataInput) -> None:
        self.component_class = source.read_utf()

    def write_outer(self, target: DataOutput) -> None:
        target.write_utf(self.component_class)

    def create_serializer(self, nested: Sequence[TypeSerializer]) -> TypeSerializer:
        return GenericArraySerializer(nested[0], self.component_class, self.class_name, self.version)

    def continues_as(self, new: TypeSerializerSnapshot) -> bool:
        return new.class_name in (self.class_name, GENERIC_ARRAY_SNAPSHOT)

    def resolve_outer(self, new: GenericArraySerializerSnapshot) -> SchemaCompatibility:
        if self.component_class == new.component_class:
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.incompatible(
            f"an array of {self.component_class} was written, one of {new.component_class} is required"
        )


def _primitive_snapshot_class(name: str) -> str:
    serializer = f"{name.capitalize()}PrimitiveArraySerializer"
    return f"{ARRAY}{serializer}${serializer}Snapshot"


def string_array() -> SimpleArraySerializer:
    """Return the serializer of ``String[]``, with null elements (Flink: ``StringArraySerializer``)."""
    return SimpleArraySerializer(StringSerializer(), f"{ARRAY}StringArraySerializer$StringArraySerializerSnapshot")


SCALARS: Final = (ScalarType(BytesSerializer(), "[B", PythonCoder.SAME, (pa.binary(), pa.large_binary())),)

register_scalars(SCALARS)
for _name in _BOXED.values():
    if _name != "BYTE":
        register_simple(PrimitiveArraySerializer(_name))
register_simple(string_array())
provide_snapshots((GENERIC_ARRAY_SNAPSHOT, GENERIC_ARRAY_CONFIG_SNAPSHOT), GenericArraySerializerSnapshot)
