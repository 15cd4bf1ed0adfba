"""Messages of Protocol Buffers that a serializer of its own writes: their size, and the message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow as pa

from state_processor.errors import OptionError, UnsupportedFormatError
from state_processor.plugins.protobuf import messages
from state_processor.serializers import (
    DataInput,
    DataOutput,
    DecodeOptions,
    SchemaCompatibility,
    TypeSerializer,
    TypeSerializerSnapshot,
    register_snapshot,
)
from state_processor.serializers.extension import DescribedSerializer

Sized = Literal["int", "varint"]

STATEFUN_SNAPSHOT: Final = "org.apache.flink.statefun.flink.common.protobuf.ProtobufTypeSerializerSnapshot"


class ProtobufSerializer(DescribedSerializer):
    """A message: its size and its bytes. A column is a struct with its fields.

    ``described``: the snapshot. ``message``: the class of messages, or with ``descriptor_set`` their name; see
    :func:`~.messages.message_class`. ``sized``: ``int`` for a size of four bytes, ``varint`` for ``writeDelimitedTo``.
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
    def message_class(self) -> Any:
        """The Python class of messages."""
        return messages.message_class(self.message, self.descriptor_set)

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
        return messages.arrow_type(self.message_class.DESCRIPTOR)

    def to_column(self, value: bytes, options: DecodeOptions) -> Any:
        message_type = self.message_class
        return messages.to_column(messages.parsed(message_type, value, str(self)))

    def from_column(self, value: Any) -> bytes:
        return value if isinstance(value, bytes) else messages.from_column(self.message_class, value)


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
            messages.message_class(message, descriptors)
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
    messages.message_class(message, descriptor_set)
    register_snapshot(snapshot_class, OwnSnapshots(message, descriptor_set, size, snapshot_bytes))


SNAPSHOTS: Final = {STATEFUN_SNAPSHOT: StatefunProtobufSnapshot}
