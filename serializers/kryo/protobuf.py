"""Messages of Protocol Buffers in Kryo's bytes, as ``ProtobufSerializer`` of chill writes them: a length, and the message.

The package ``protobuf`` decodes messages; it is needed from the first value on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from state_processor.serializers.kryo.reader import KryoReader
from state_processor.serializers.kryo.user_classes import register_kryo_class
from state_processor.serializers.kryo.writer import KryoWriter
from state_processor.support.errors import InvalidRowError, OptionError, UnsupportedFormatError, foreign_errors
from state_processor.support.late import require


def register_protobuf(class_name: str, message: Any, descriptor_set: bytes | None = None) -> None:
    """Describe a class of Protocol Buffers whose values Kryo wrote with ``ProtobufSerializer`` of chill.

    A column contains the message as JSON, with the names of the ``.proto`` file. Numbers of 64 bits are text in this JSON.

    Parameters
    ----------
    class_name
        The Java class, with ``$`` before nested classes.
    message
        The class that ``protoc`` generated for Python, or with ``descriptor_set`` the full name of the message in the ``.proto``
        files (``"acme.Order"``).
    descriptor_set
        The content of a file of ``protoc --include_imports --descriptor_set_out=FILE``.

    Raises
    ------
    OptionError
        The package ``protobuf`` is missing, or the descriptor set does not have the message.
    """
    layout = _Messages(class_name, message, descriptor_set)
    layout.message_class()
    register_kryo_class(class_name, layout.read, write=layout.write)


@dataclass(frozen=True, slots=True)
class _Messages:
    """The messages of a class."""

    class_name: str
    message: Any
    descriptor_set: bytes | None

    def message_class(self) -> Any:
        """Return the Python class of the messages."""
        require("google.protobuf", "protobuf", "messages of Protocol Buffers")
        try:
            return self.message if self.descriptor_set is None else _class_of(self.descriptor_set, self.message)
        except Exception as error:  # of protobuf, for a name or a set that it does not accept
            raise OptionError(f"the descriptor set does not have the message {self.message!r}: {error}") from None

    def read(self, reader: KryoReader) -> dict[str, Any]:
        """Read a message as JSON."""
        from google.protobuf import json_format

        context = f"{reader.where}, message {self.class_name}"
        size = reader.varint()
        data = reader.source.read_bytes(reader.count("bytes of a message", size))
        with foreign_errors(context):
            message = self.message_class().FromString(data)
            content: dict[str, Any] = json_format.MessageToDict(message, preserving_proto_field_name=True)
            again = json_format.ParseDict(content, self.message_class()())
        if again.SerializeToString(deterministic=True) != message.SerializeToString(deterministic=True):
            raise UnsupportedFormatError(
                f"{context}: it has fields that the registered message does not have; register the version of the job"
            )
        return content

    def write(self, writer: KryoWriter, value: Any) -> None:
        """Write a message from JSON."""
        from google.protobuf import json_format

        try:
            message = json_format.ParseDict(value, self.message_class()())
        except (json_format.ParseError, TypeError, AttributeError, ValueError) as error:
            raise InvalidRowError(f"expected a message {self.class_name}, found {value!r}: {error}") from None
        data = message.SerializeToString(deterministic=True)
        writer.varint(len(data))
        writer.target.write_bytes(data)


@cache
def _class_of(descriptor_set: bytes, name: str) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
