"""Classes that write themselves and whose layout is known: Flink's values, Hadoop's writables, and classes of users.

Flink: ``org.apache.flink.types``. Hadoop: ``org.apache.hadoop.io``, ``WritableUtils``, ``AbstractMapWritable``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import pyarrow as pa

from state_processor.serializers.base import SchemaCompatibility, SimpleSerializer, TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.codec import Codec
from state_processor.serializers.core import basic
from state_processor.serializers.core.arrays import BytesSerializer
from state_processor.serializers.core.scalars import SCALARS
from state_processor.serializers.core.templates import DelegatingSerializer, FieldsCodec
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.registry import RUNTIME, current_registrations, provide_snapshots, register
from state_processor.support.doors import registering
from state_processor.support.errors import InvalidRowError, OptionError, UnsupportedFormatError
from state_processor.support.mappings import inverted, map_values

HADOOP: Final = "org.apache.hadoop.io."
FLINK: Final = "org.apache.flink.types."


def read_vlong(source: DataInput) -> int:
    """Read an integer of variable length (Hadoop: ``WritableUtils.readVLong``)."""
    first = source.read_byte()
    if first >= -112:
        return first
    negative = first < -120
    value = int.from_bytes(source.read_bytes(-(first + (120 if negative else 112)), "integer"), "big")
    return ~value if negative else value


def write_vlong(value: int, target: DataOutput) -> None:
    """Write what :func:`read_vlong` reads."""
    if -112 <= value <= 127:
        target.write_byte(value)
        return
    magnitude = ~value if value < 0 else value
    size = (magnitude.bit_length() + 7) // 8
    target.write_byte(-size - (120 if value < 0 else 112))
    target.write_bytes(magnitude.to_bytes(size, "big"))


class VariableIntegerSerializer(SimpleSerializer):
    """``VIntWritable`` and ``VLongWritable``."""

    min_size = 1

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits = bits

    def __str__(self) -> str:
        return "VINT" if self.bits == 32 else "VLONG"

    def read(self, source: DataInput) -> int:
        start, value = source.position, read_vlong(source)
        if not -(1 << (self.bits - 1)) <= value < 1 << (self.bits - 1):
            raise source.corrupt(f"{value} has more than {self.bits} bits", start)
        return value

    def write(self, value: int, target: DataOutput) -> None:
        write_vlong(value, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.int32() if self.bits == 32 else pa.int64()


class HadoopTextSerializer(SimpleSerializer):
    """``Text``: the number of bytes as an integer of variable length, and UTF-8."""

    min_size = 1

    def __str__(self) -> str:
        return "HADOOP_TEXT"

    def read(self, source: DataInput) -> str:
        start, size = source.position, read_vlong(source)
        if not 0 <= size <= source.remaining:
            raise source.corrupt(f"{size} bytes of text announced, {source.remaining} left", start)
        try:
            return source.read_bytes(size, "text").decode()
        except UnicodeDecodeError as error:
            raise source.corrupt(f"not text: {error}", start) from None

    def write(self, value: str, target: DataOutput) -> None:
        data = value.encode()
        write_vlong(len(data), target)
        target.write_bytes(data)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()


class EmptySerializer(SimpleSerializer):
    """``NullWritable``. Its only value is null, in zero bytes."""

    min_size = 0

    def __str__(self) -> str:
        return "EMPTY"

    def read(self, source: DataInput) -> None:
        return None

    def write(self, value: Any, target: DataOutput) -> None:
        if value is not None:
            raise InvalidRowError(f"a NullWritable is null, found {value!r}")

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.null()


class FixedBytesSerializer(SimpleSerializer):
    """A fixed number of bytes, such as ``MD5Hash``."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.length = self.min_size = size

    def __str__(self) -> str:
        return f"BYTES({self.length})"

    def read(self, source: DataInput) -> bytes:
        return source.read_bytes(self.length)

    def write(self, value: bytes, target: DataOutput) -> None:
        if len(value) != self.length:
            raise InvalidRowError(f"expected {self.length} bytes, found {len(value)}")
        target.write_bytes(value)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()


# Maps of any writables

_IN_MAPS: Final = (
    *("ArrayWritable", "BooleanWritable", "BytesWritable", "FloatWritable", "IntWritable", "LongWritable", "MapWritable"),
    *("MD5Hash", "NullWritable", "ObjectWritable", "SortedMapWritable", "Text", "TwoDArrayWritable", "VIntWritable"),
    "VLongWritable",
)
_MAP_IDS: Final = {number: HADOOP + name for number, name in enumerate(_IN_MAPS, -127)}
"""The numbers that classes have in a ``MapWritable``; other classes get 1, 2, and so on."""


class MapWritableSerializer(SimpleSerializer):
    """``MapWritable`` and ``SortedMapWritable``: classes with numbers, and entries whose key and value follow their class.

    A column contains JSON: a list of entries with ``key`` and ``value``, each of them an object with the class as its only name.
    """

    min_size = 5

    def __str__(self) -> str:
        return "MAP_WRITABLE"

    def read(self, source: DataInput) -> list[dict[str, Any]]:
        names = dict(_MAP_IDS)
        for _ in range(source.read_byte()):
            number = source.read_byte()
            names[number] = source.read_utf()
        count = source.read_count("entries", 2)
        with source.nested("maps"):
            return [{"key": self._read(source, names), "value": self._read(source, names)} for _ in range(count)]

    def _read(self, source: DataInput, names: Mapping[int, str]) -> dict[str, Any]:
        start, number = source.position, source.read_byte()
        if number not in names:
            raise source.corrupt(f"class {number} of a map is not registered", start)
        name = names[number]
        return {name: _json(_element(name).read(source))}

    def write(self, value: Sequence[Mapping[str, Any]], target: DataOutput) -> None:
        numbers = inverted(_MAP_IDS)
        new: list[str] = []
        for entry in value:
            for name in (*entry["key"], *entry["value"]):
                if name not in numbers:
                    new.append(name)
                    numbers[name] = len(new)
        target.write_byte(len(new))
        for name in new:
            target.write_byte(numbers[name])
            target.write_utf(name)
        target.write_int(len(value))
        for entry in value:
            for part in ("key", "value"):
                ((name, content),) = entry[part].items()
                target.write_byte(numbers[name])
                _element(name).write(_of_json(name, content), target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def to_column(self, value: Any, options: DecodeOptions) -> str:
        return json.dumps(value, ensure_ascii=False)

    def from_column(self, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) else value


def _element(name: str) -> Codec:
    codec = known_class(name)
    if codec is None:
        raise UnsupportedFormatError(f"a map holds a {name}, whose layout is not known: call register_value_class({name!r}, …)")
    return codec


def _json(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value._asdict() if hasattr(value, "_asdict") else value


def _of_json(name: str, content: Any) -> Any:
    serializer = known_class(name)
    binary = isinstance(serializer, BytesSerializer | FixedBytesSerializer) and isinstance(content, str)
    return bytes.fromhex(content) if binary else content


# The table

_PRIMITIVES: Final = ("Boolean", "Byte", "Short", "Int", "Long", "Float", "Double")
_BASIC: Final = {name: SCALARS[name.upper()].serializer for name in _PRIMITIVES}
_MAP: Final = MapWritableSerializer()
KNOWN: Final[Mapping[str, Codec]] = {
    **{f"{HADOOP}{name}Writable": serializer for name, serializer in _BASIC.items()},
    f"{HADOOP}VIntWritable": VariableIntegerSerializer(32),
    f"{HADOOP}VLongWritable": VariableIntegerSerializer(64),
    f"{HADOOP}Text": HadoopTextSerializer(),
    f"{HADOOP}BytesWritable": BytesSerializer(),
    f"{HADOOP}NullWritable": EmptySerializer(),
    f"{HADOOP}MD5Hash": FixedBytesSerializer(16),
    f"{HADOOP}MapWritable": _MAP,
    f"{HADOOP}SortedMapWritable": _MAP,
    **{f"{FLINK}{name}Value": serializer for name, serializer in _BASIC.items()},
    f"{FLINK}CharValue": SCALARS["CHAR"].serializer,
    f"{FLINK}StringValue": basic.StringValueSerializer(),
    f"{FLINK}NullValue": basic.VoidSerializer(),
}
"""Serializers of the bytes of a value, by its class."""


def known_class(name: str) -> Codec | None:
    """Return the serializer of the bytes of a class that writes itself; ``None`` if its layout is not known."""
    registered: Codec | None = current_registrations().value_classes.get(name)
    return registered or KNOWN.get(name)


def register_value_class(class_name: str, fields: Mapping[str, Codec | str] | Codec) -> None:
    """Describe a class that writes itself: a ``Writable`` of Hadoop, or a ``Value`` of Flink.

    Parameters
    ----------
    class_name
        The Java class, with ``$`` before nested classes.
    fields
        What its method ``write`` writes, in this order: names, and for each name a serializer (``Types.LONG()``) or another such
        class (``"org.apache.hadoop.io.Text"``). A column is a struct of them. Or one serializer for the whole value.

    Raises
    ------
    OptionError
        If the layout of a named class is not known.
    """
    if isinstance(fields, Mapping):
        parts = map_values(_part, fields)
        serializer: Codec = FieldsCodec(_parts, parts)
    else:
        serializer = fields
    register(lambda registered: registered.with_value_class(class_name, serializer))


def _part(field: Codec | str) -> Codec:
    if not isinstance(field, str):
        return field
    codec = known_class(field)
    if codec is None:
        raise OptionError(f"the layout of {field} is not known; the known classes are {', '.join(KNOWN)}")
    return codec


def _parts(*parts: Any) -> tuple[Any, ...]:
    return parts


class _UserCode(NamedTuple):
    """Name of a serializer of values that write themselves, and the method that writes them."""

    name: str
    method: str


_USER_CODE: Final = {
    f"{RUNTIME}ValueSerializer$ValueSerializerSnapshot": _UserCode("VALUE", "Value.write"),
    f"{RUNTIME}CopyableValueSerializer$CopyableValueSerializerSnapshot": _UserCode("COPYABLE_VALUE", "Value.write"),
    f"{RUNTIME}WritableSerializer$WritableSerializerSnapshot": _UserCode("WRITABLE", "Writable.write"),
}


class UserCodeSerializer(TypeSerializer):
    """Serializer of a class that writes itself (Flink: ``ValueSerializer``, ``CopyableValueSerializer``, ``WritableSerializer``).

    Only the class defines the layout of its bytes. The layout is not known, so that a value can be neither decoded nor skipped.

    ``type_class``: the user's Java class. ``snapshot_class``: the snapshot class of one of the three serializers.
    """

    min_size = 0

    def __init__(self, type_class: str, snapshot_class: str) -> None:
        self.type_class = type_class
        self._snapshot_class = snapshot_class

    def __str__(self) -> str:
        return f"{_USER_CODE[self._snapshot_class].name}<{self.type_class}>"

    @property
    def self_delimiting(self) -> bool:
        return False

    @property
    def reason(self) -> str:
        return (
            f"the layout of {self.type_class} is defined by its method {_USER_CODE[self._snapshot_class].method}; "
            f"call {registering(f'register_value_class({self.type_class!r}, …)')} with what it writes"
        )

    def _refuse(self) -> NoReturn:
        raise UnsupportedFormatError(f"{self}: {self.reason}")

    def read(self, source: DataInput) -> Any:
        self._refuse()

    def write(self, value: Any, target: DataOutput) -> None:
        self._refuse()

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def snapshot(self) -> TypeSerializerSnapshot:
        return GenericTypeSerializerSnapshot(self._snapshot_class, self.type_class)


class SelfWrittenSerializer(DelegatingSerializer):
    """Serializer of a class that writes itself in a known layout (:mod:`~state_processor.serializers.core.self_written`).

    ``type_class`` and ``snapshot_class``: as for :class:`UserCodeSerializer`. ``content``: the serializer of the bytes.
    """

    def __init__(self, type_class: str, content: Codec, snapshot_class: str) -> None:
        super().__init__(content)
        self.type_class = type_class
        self._snapshot_class = snapshot_class

    def __str__(self) -> str:
        return f"{_USER_CODE[self._snapshot_class].name}<{self.type_class}>"

    @property
    def children(self) -> Sequence[Codec]:
        return ()

    def with_children(self, children: Sequence[Codec]) -> TypeSerializer:
        return self

    def snapshot(self) -> TypeSerializerSnapshot:
        return GenericTypeSerializerSnapshot(self._snapshot_class, self.type_class)


class GenericTypeSerializerSnapshot(TypeSerializerSnapshot):
    """Snapshot of a serializer that is configured with one class (Flink: ``GenericTypeSerializerSnapshot``)."""

    current_version = 2

    def __init__(self, class_name: str, type_class: str, version: int | None = None) -> None:
        super().__init__(class_name, version)
        self.type_class = type_class

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> GenericTypeSerializerSnapshot:
        return cls(class_name, source.read_utf(), version)

    def write(self, target: DataOutput) -> None:
        target.write_utf(self.type_class)

    def restore_serializer(self) -> TypeSerializer:
        content = known_class(self.type_class)
        if content is not None:
            return SelfWrittenSerializer(self.type_class, content, self.class_name)
        return UserCodeSerializer(self.type_class, self.class_name)

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, GenericTypeSerializerSnapshot)
        if self.type_class == new.type_class:
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.incompatible(f"values of {self.type_class} were written, {new.type_class} is required")


provide_snapshots(_USER_CODE, GenericTypeSerializerSnapshot)
