"""Messages of Protocol Buffers as columns: structs with the fields of the ``.proto`` file. Serializers of Stateful Functions.

The package ``protobuf`` parses messages and descriptors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Final, Literal

import pyarrow as pa

from state_processor.errors import InvalidRowError, OptionError, UnsupportedFormatError
from state_processor.serializers import (
    DataInput,
    DataOutput,
    DecodeOptions,
    SchemaCompatibility,
    TypeSerializer,
    TypeSerializerSnapshot,
    register_snapshot,
)
from state_processor.serializers.extension import (
    BytesSerializer,
    DelegatingCodec,
    DescribedSerializer,
    LeafSerializer,
    declared_versions,
    require,
)

_UNSIGNED: Final = pa.decimal128(20, 0)


def message_class(message: Any, descriptor_set: bytes | None = None) -> Any:
    """Return the Python class of a message.

    ``message``: the class itself, or with ``descriptor_set`` the full name of the message (``"acme.Order"``). ``descriptor_set``:
    the content of a file of ``protoc --include_imports --descriptor_set_out=FILE``.
    """
    require("google.protobuf", "protobuf", "messages of Protocol Buffers")
    try:
        generated = message if descriptor_set is None else _class_of(descriptor_set, message)
        generated.DESCRIPTOR.full_name  # noqa: B018 - an attribute of generated classes
    except Exception as error:  # of protobuf, for a name or a set that it does not accept
        problem = "is not a class that protoc generated" if descriptor_set is None else "is not in the descriptor set"
        raise OptionError(f"the message {message!r} {problem}: {error}") from None
    return generated


@cache
def _class_of(descriptor_set: bytes, name: str) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    waiting = {file.name: file for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file}
    while waiting:
        ready = [file for file in waiting.values() if waiting.keys().isdisjoint(file.dependency)]
        if not ready:
            raise ValueError(f"the files {', '.join(waiting)} import each other")
        for file in ready:
            pool.Add(waiting.pop(file.name))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def arrow_type(descriptor: Any) -> pa.DataType:
    """Return the type of a column of messages; text (JSON) for a message that contains itself."""
    if _is_recursive(descriptor, ()):
        return pa.string()
    return pa.struct([(field.name, _field_type(field)) for field in descriptor.fields])


def _is_recursive(descriptor: Any, above: tuple[str, ...]) -> bool:
    if descriptor.full_name in above:
        return True
    inside = (field.message_type for field in descriptor.fields if field.message_type is not None)
    return any(_is_recursive(inner, (*above, descriptor.full_name)) for inner in inside)


def _field_type(field: Any) -> pa.DataType:
    if _is_map(field):
        key, value = field.message_type.fields
        return pa.map_(_single_type(key), _single_type(value))
    single = _single_type(field)
    return pa.list_(single) if _is_repeated(field) else single


def _single_type(field: Any) -> pa.DataType:
    if field.message_type is not None:
        return arrow_type(field.message_type)
    return _types()[field.type]


@cache
def _types() -> Mapping[int, pa.DataType]:
    """Return the types of columns by the types of fields."""
    from google.protobuf.descriptor import FieldDescriptor as F

    return {
        **dict.fromkeys((F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32), pa.int32()),
        **dict.fromkeys((F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64, F.TYPE_UINT32, F.TYPE_FIXED32), pa.int64()),
        **dict.fromkeys((F.TYPE_UINT64, F.TYPE_FIXED64), _UNSIGNED),
        **dict.fromkeys((F.TYPE_STRING, F.TYPE_ENUM), pa.string()),
        F.TYPE_BYTES: pa.binary(),
        F.TYPE_BOOL: pa.bool_(),
        F.TYPE_FLOAT: pa.float32(),
        F.TYPE_DOUBLE: pa.float64(),
    }


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _is_repeated(field: Any) -> bool:
    """Return whether a field has many values; versions of protobuf before 6.31 lack the attribute."""
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


# Bytes to columns


def parsed(message_type: Any, data: bytes, context: str) -> Any:
    """Return the message in some bytes."""
    from google.protobuf.message import DecodeError

    name = message_type.DESCRIPTOR.full_name
    try:
        message = message_type.FromString(data)
    except DecodeError as error:
        raise UnsupportedFormatError(f"{context}: not a message {name}: {error}") from None
    unknown = next(_unknown_fields(message, name), None)
    if unknown is not None:
        raise UnsupportedFormatError(f"{context}: {unknown}; use the version of the .proto file that the job has")
    return message


def _unknown_fields(message: Any, path: str) -> Iterator[str]:
    """Yield descriptions of the fields that a message has and its class lacks."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    for unknown in UnknownFieldSet(message):
        yield f"the message {path} has a field with number {unknown.field_number} that its description lacks"
    for field, value in message.ListFields():
        if field.message_type is not None:
            inside = value.values() if _is_map(field) else value if _is_repeated(field) else [value]
            for inner in inside:
                if hasattr(inner, "ListFields"):
                    yield from _unknown_fields(inner, f"{path}.{field.name}")


def to_column(message: Any) -> Any:
    """Return a message as a column of :func:`arrow_type` has it."""
    from google.protobuf import json_format

    if _is_recursive(message.DESCRIPTOR, ()):
        return json_format.MessageToJson(message, preserving_proto_field_name=True, indent=None)
    return {field.name: _field_value(message, field) for field in message.DESCRIPTOR.fields}


def _field_value(message: Any, field: Any) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if _is_map(field):
        of_value = field.message_type.fields_by_name["value"]
        return [(key, _single_value(of_value, value[key])) for key in sorted(value)]
    return [_single_value(field, v) for v in value] if _is_repeated(field) else _single_value(field, value)


def _single_value(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return to_column(value)
    if field.enum_type is not None:
        constant = field.enum_type.values_by_number.get(value)
        return str(value) if constant is None else constant.name
    return Decimal(value) if _types()[field.type] == _UNSIGNED else value


# Columns to bytes


def from_column(message_type: Any, value: Any) -> bytes:
    """Return the bytes of a message from a column's value."""
    name = message_type.DESCRIPTOR.full_name
    try:
        message = message_type()
        _fill(message, value)
        return bytes(message.SerializeToString(deterministic=True))
    except InvalidRowError:
        raise
    except Exception as error:  # of protobuf, for values that a field does not accept
        raise InvalidRowError(f"expected a message {name}, found {value!r}: {error}") from None


def _fill(message: Any, value: Any) -> None:
    from google.protobuf import json_format

    if isinstance(value, str) and _is_recursive(message.DESCRIPTOR, ()):
        json_format.ParseDict(json.loads(value), message)
        return
    fields = message.DESCRIPTOR.fields_by_name
    for name in value:
        if name not in fields:
            names = ", ".join(fields)
            raise InvalidRowError(f"the message {message.DESCRIPTOR.full_name} lacks a field {name!r}; it has: {names}")
    for name, part in value.items():
        if part is not None:
            _set(message, fields[name], part)


def _set(message: Any, field: Any, value: Any) -> None:
    if _is_map(field):
        _set_map(getattr(message, field.name), field, value)
    elif _is_repeated(field):
        target = getattr(message, field.name)
        for element in value:
            if field.message_type is not None:
                _fill(target.add(), element)
            else:
                target.append(_scalar(field, element))
    elif field.message_type is not None:
        target = getattr(message, field.name)
        target.SetInParent()
        _fill(target, value)
    else:
        setattr(message, field.name, _scalar(field, value))


def _set_map(target: Any, field: Any, value: Any) -> None:
    of_key, of_value = field.message_type.fields
    for key, part in value.items() if isinstance(value, Mapping) else value:
        if of_value.message_type is not None:
            _fill(target[_scalar(of_key, key)], part)
        else:
            target[_scalar(of_key, key)] = _scalar(of_value, part)


def _scalar(field: Any, value: Any) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        constant = field.enum_type.values_by_name.get(value)
        return int(value) if constant is None else constant.number
    return int(value) if isinstance(value, Decimal) else value


# Serializers that write the size of a message and the message

Sized = Literal["int", "varint"]
STATEFUN_SNAPSHOT: Final = "org.apache.flink.statefun.flink.common.protobuf.ProtobufTypeSerializerSnapshot"


class ProtobufSerializer(DescribedSerializer):
    """A message: its size and its bytes. A column is a struct with its fields.

    ``described``: the snapshot. ``message``: the class of messages, or with ``descriptor_set`` their name; see
    :func:`message_class`. ``sized``: ``int`` for a size of four bytes, ``varint`` for ``writeDelimitedTo``.
    """

    def __init__(
        self, described: TypeSerializerSnapshot, message: Any, descriptor_set: bytes | None, sized: Sized = "int"
    ) -> None:
        super().__init__(described)
        self.message = message
        self.descriptor_set = descriptor_set
        self.sized = sized
        self.min_size = 4 if sized == "int" else 1

    def __str__(self) -> str:
        return f"PROTOBUF<{self.message if isinstance(self.message, str) else self.message.DESCRIPTOR.full_name}>"

    @property
    def undescribed(self) -> tuple[str, str]:
        return str(self), f"the generated class of {self} decides"

    @property
    def message_type(self) -> Any:
        """The Python class of messages."""
        return message_class(self.message, self.descriptor_set)

    def _size(self, source: DataInput) -> int:
        start = source.position
        size = source.read_int() if self.sized == "int" else source.read_unsigned_varint()
        if not 0 <= size <= source.remaining:
            raise source.corrupt(f"a message of {size} bytes announced, {source.remaining} left", start)
        return size

    def read(self, source: DataInput) -> bytes:
        return source.read_bytes(self._size(source), "message")

    def skip(self, source: DataInput) -> None:
        source.skip(self._size(source), "message")

    def write(self, value: bytes, target: DataOutput) -> None:
        if self.sized == "int":
            target.write_int(len(value))
        else:
            target.write_unsigned_varint(len(value))
        target.write_bytes(value)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return arrow_type(self.message_type.DESCRIPTOR)

    def to_column(self, value: bytes, options: DecodeOptions) -> Any:
        return to_column(parsed(self.message_type, value, str(self)))

    def from_column(self, value: Any) -> bytes:
        return value if isinstance(value, bytes) else from_column(self.message_type, value)


class StatefunProtobufSnapshot(TypeSerializerSnapshot):
    """Snapshot of a class of messages in Stateful Functions. It contains the descriptors of the message.

    ``class_name``: the Java class of the snapshot. ``data``: a message with the Java class (1), the name of the message (2) and
    the descriptors (3).
    """

    current_version = 1

    def __init__(self, class_name: str, data: bytes, version: int | None = None) -> None:
        super().__init__(class_name, version)
        self.data = data

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> StatefunProtobufSnapshot:
        return cls(class_name, source.read_bytes(source.read_count("bytes of a serializer snapshot")), version)

    def write(self, target: DataOutput) -> None:
        target.write_int(len(self.data))
        target.write_bytes(self.data)

    def restore_serializer(self) -> TypeSerializer:
        _, message, descriptors = self._parts()
        try:
            message_class(message, descriptors)
        except OptionError as error:
            raise UnsupportedFormatError(f"messages {message} of Stateful Functions: {error}") from None
        return ProtobufSerializer(self, message, descriptors)

    def _parts(self) -> tuple[str, str, bytes]:
        """Return the Java class, the name of the message, and the descriptors."""
        source, parts = DataInput(self.data, self.class_name), {1: b"", 2: b"", 3: b""}
        while not source.at_end():
            start, tag = source.position, source.read_unsigned_varint()
            size = source.read_unsigned_varint()
            if tag & 7 != 2 or tag >> 3 not in parts:
                raise source.corrupt(f"unknown field {tag >> 3} of a serializer snapshot", start)
            parts[tag >> 3] = source.read_bytes(size, "field")
        try:
            return parts[1].decode(), parts[2].decode(), parts[3]
        except UnicodeDecodeError as error:
            raise source.corrupt(f"a name that is not text: {error}", 0) from None

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, StatefunProtobufSnapshot)
        written, new_type = self._parts()[0], new._parts()[0]
        if written == new_type:
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.incompatible(f"messages of {written} were written, {new_type} is required")


@dataclass(frozen=True, slots=True)
class OwnSnapshots:
    """Reader of the snapshots of a serializer of a job: bytes that it keeps.

    ``message``, ``descriptor_set`` and ``sized``: as for :class:`ProtobufSerializer`.
    """

    message: Any
    descriptor_set: bytes | None
    sized: Sized
    payload: int  # how many bytes the snapshot has after its version

    def read(self, class_name: str, version: int, source: DataInput) -> TypeSerializerSnapshot:
        """Read the snapshot at ``source``."""
        return _OwnSnapshot(class_name, version, source.read_bytes(self.payload, "serializer snapshot"), self)


class _OwnSnapshot(TypeSerializerSnapshot):
    def __init__(self, class_name: str, version: int, payload: bytes, registered: OwnSnapshots) -> None:
        super().__init__(class_name, version)
        self.payload = payload
        self.registered = registered

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> TypeSerializerSnapshot:
        raise source.corrupt(f"{class_name} is read by its registration")

    def write(self, target: DataOutput) -> None:
        target.write_bytes(self.payload)

    def restore_serializer(self) -> TypeSerializer:
        by = self.registered
        return ProtobufSerializer(self, by.message, by.descriptor_set, by.sized)


def register_protobuf_serializer(
    snapshot_class: str, message: Any, descriptor_set: bytes | None = None, *, size: Sized = "int", snapshot_bytes: int = 0
) -> None:
    """Describe a serializer of the job that writes the size of a message and the message.

    Parameters
    ----------
    snapshot_class
        The Java class of its snapshot, with ``$`` before nested classes.
    message
        The class that ``protoc`` generated for Python, or with ``descriptor_set`` the full name of the message.
    descriptor_set
        The content of a file of ``protoc --include_imports --descriptor_set_out=FILE``.
    size
        ``"int"`` for ``writeInt(size)``, ``"varint"`` for ``writeDelimitedTo``.
    snapshot_bytes
        How many bytes ``writeSnapshot`` writes; none in a ``SimpleTypeSerializerSnapshot``.

    Raises
    ------
    OptionError
        The package ``protobuf`` is missing, or the descriptor set does not have the message.
    """
    if size not in ("int", "varint"):
        raise OptionError(f"size is {size!r}; expected 'int' or 'varint'")
    message_class(message, descriptor_set)
    register_snapshot(snapshot_class, OwnSnapshots(message, descriptor_set, size, snapshot_bytes))


# Values and messages of Stateful Functions

_CORE: Final = "org.apache.flink.statefun.flink.core."
REMOTE_VALUE_SNAPSHOT: Final = f"{_CORE}types.remote.RemoteValueSerializerSnapshot"
MESSAGE_SNAPSHOT: Final = f"{_CORE}message.MessageTypeSerializer$Snapshot"


class RemoteValueSerializer(DelegatingCodec, LeafSerializer):
    """A value of a remote function: the bytes that the function's SDK wrote. Its type name is in the snapshot."""

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__(BytesSerializer())
        self.namespace = namespace
        self.name = name

    def __str__(self) -> str:
        return f"REMOTE_VALUE<{self.namespace}/{self.name}>"

    def snapshot(self) -> TypeSerializerSnapshot:
        return RemoteValueSnapshot(REMOTE_VALUE_SNAPSHOT, self.namespace, self.name)


class RemoteValueSnapshot(TypeSerializerSnapshot):
    """Snapshot of :class:`RemoteValueSerializer`."""

    current_version = 1

    def __init__(self, class_name: str, namespace: str, name: str, version: int | None = None) -> None:
        super().__init__(class_name, version)
        self.namespace = namespace
        self.name = name

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> RemoteValueSnapshot:
        return cls(class_name, source.read_utf(), source.read_utf(), version)

    def write(self, target: DataOutput) -> None:
        target.write_utf(self.namespace)
        target.write_utf(self.name)

    def restore_serializer(self) -> TypeSerializer:
        return RemoteValueSerializer(self.namespace, self.name)

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, RemoteValueSnapshot)
        if (self.namespace, self.name) == (new.namespace, new.name):
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.incompatible(
            f"{self.restore_serializer()} was written, {new.restore_serializer()} is required"
        )


class MessageSerializer(DelegatingCodec, DescribedSerializer):
    """A message between functions: the bytes of the message ``Envelope`` of Stateful Functions.

    ``described``: the snapshot: it names the serializer of payloads.
    """

    def __init__(self, described: MessageSnapshot) -> None:
        DelegatingCodec.__init__(self, BytesSerializer())
        DescribedSerializer.__init__(self, described)

    def __str__(self) -> str:
        return "STATEFUN_MESSAGE"


class MessageSnapshot(TypeSerializerSnapshot):
    """Snapshot of :class:`MessageSerializer`: the kind of payloads, and since version 2 a class that serializes them."""

    current_version = 2

    def __init__(self, class_name: str, kind: str, payload_class: str | None = None, version: int | None = None) -> None:
        super().__init__(class_name, version)
        self.kind = kind
        self.payload_class = payload_class

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> MessageSnapshot:
        kind = source.read_utf()
        payload_class = source.read_utf() if version > 1 and source.read_boolean() else None
        return cls(class_name, kind, payload_class, version)

    def write(self, target: DataOutput) -> None:
        target.write_utf(self.kind)
        if self.version > 1:
            target.write_boolean(self.payload_class is not None)
            if self.payload_class is not None:
                target.write_utf(self.payload_class)

    def restore_serializer(self) -> TypeSerializer:
        return MessageSerializer(self)

    def _resolve(self, new: TypeSerializerSnapshot) -> SchemaCompatibility:
        assert isinstance(new, MessageSnapshot)
        if (self.kind, self.payload_class) == (new.kind, new.payload_class):
            return SchemaCompatibility.compatible_as_is()
        return SchemaCompatibility.incompatible(
            f"payloads were serialized by {self.payload_class or self.kind}, {new.payload_class or new.kind} is required"
        )


# Snapshot classes of Stateful Functions, and the releases that first wrote their versions

_ADVICE: Final = "restore it with that version of Stateful Functions, and take a new savepoint with a later one"

SNAPSHOTS: Final = {
    STATEFUN_SNAPSHOT: StatefunProtobufSnapshot,
    REMOTE_VALUE_SNAPSHOT: RemoteValueSnapshot,
    MESSAGE_SNAPSHOT: MessageSnapshot,
}
_RELEASES: Final = {STATEFUN_SNAPSHOT: {1: "2.0"}, REMOTE_VALUE_SNAPSHOT: {1: "3.0"}, MESSAGE_SNAPSHOT: {1: "2.0", 2: ""}}
VERSIONS: Final = {n: declared_versions(n, versions, None, "Stateful Functions", _ADVICE) for n, versions in _RELEASES.items()}
