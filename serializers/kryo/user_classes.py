"""Java classes and serializers: the classes that users describe, and the serializers that Flink infers for fields.

Flink's ``TypeExtractor`` decides most types by the Java class. There are two exceptions:

* ``LocalDate``, ``LocalTime`` and ``LocalDateTime`` belong to Kryo in all versions up to 2.3. Flink has serializers for them, but
  its extractor does not use them. It uses the serializers of ``Instant``, ``java.util.Date`` and the types of ``java.sql``.
* A ``List<T>``, ``Set<T>`` or ``Map<K,V>`` belongs to Kryo in Flink 1.x. Flink 2.x has serializers for it if the type arguments
  are plain classes, and allows null everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.arrays import GenericArraySerializer, SimpleArraySerializer
from state_processor.serializers.core.basic import CharSerializer, NumberSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer, SetSerializer
from state_processor.serializers.core.enums import EnumSerializer
from state_processor.serializers.core.nullable import EitherSerializer, NullableSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.rows import TupleSerializer
from state_processor.serializers.core.scalars import SCALARS
from state_processor.serializers.java.types import BOXES, JavaType, KryoClass
from state_processor.serializers.kryo.classes import user_class
from state_processor.serializers.kryo.objects import KryoReader, KryoWriter
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.registry import register
from state_processor.serializers.traversal import fold
from state_processor.support.errors import InvalidRowError, OptionError, UnsupportedFormatError, foreign_errors
from state_processor.support.late import require


def register_kryo_class(
    class_name: str,
    fields: Mapping[str, Any] | Sequence[str] | Callable[[KryoReader], Any] | None,
    *,
    final: bool | None = None,
    write: Callable[[KryoWriter, Any], None] | None = None,
) -> None:
    """Describe a class of Kryo values, so that values can be decoded and new ones written.

    Parameters
    ----------
    class_name
        The Java class, with ``$`` before nested classes.
    fields
        A mapping: the class's fields, including inherited ones, without static or transient ones, with the declared type of
        each: Java source with full class names (``"long"``, ``"java.lang.Long"``, ``"java.util.List<java.lang.String>"``,
        ``"int[]"``), or a serializer. A serializer of numbers stands for the primitive and not for its box.
        A sequence: an enum's constants in their order.
        A function: reads the format of a Kryo serializer of the job, and returns Python values.
        ``None``: an interface or abstract class. Its subclasses need descriptions too.
    final
        True if the class is declared ``final``; records are final. Kryo omits the class of values in fields of that type. By
        default true for enums (pass false if constants have class bodies), and false for other classes.
    write
        In addition to a function that reads: the function that writes a value in the format of the job's Kryo serializer. Without
        it new values of the class can't be written.

    Raises
    ------
    OptionError
        If the type of a field is not a type.
    """
    if fields is None:
        _describe(KryoClass(class_name, abstract=True))
    elif callable(fields):
        _describe(KryoClass(class_name, read=fields, final=bool(final), write=write))
    elif isinstance(fields, Mapping):
        types = tuple((name, _java_type(type_)) for name, type_ in fields.items())
        _describe(KryoClass(class_name, types, final=bool(final)))
    else:
        _describe(KryoClass(class_name, constants=tuple(fields), final=final is None or final))


def _describe(described: KryoClass) -> None:
    register(lambda registered: registered.with_kryo_class(described))


def _java_type(type_: Any) -> JavaType:
    return JavaType.parse(type_) if isinstance(type_, str) else java_type_of(type_)


def java_type_of(serializer: TypeSerializer) -> JavaType:
    """Return the Java type that a serializer describes in :func:`register_kryo_class`."""
    name = _java_name(serializer)
    if name is None:
        raise OptionError(
            f"{serializer} does not map to a Java type: give the type of the field as in Java source, such as 'java.lang.String'"
        )
    return name


def _java_name(serializer: TypeSerializer) -> JavaType | None:
    match serializer:
        case NumberSerializer() | CharSerializer():
            return JavaType(str(serializer).lower())
        case KryoSerializer():
            return serializer.declared
        case MapSerializer():
            return JavaType("java.util.Map", (_boxed(serializer.key), _boxed(serializer.value.inner)))
        case SetSerializer():
            return JavaType("java.util.Set", (_boxed(serializer.element.inner),))
        case ListSerializer():
            return JavaType("java.util.List", (_boxed(serializer.element),))
        case SimpleArraySerializer():
            element = java_type_of(serializer.element).name
            return JavaType.parse(f"{element}[]")
        case EnumSerializer():
            if user_class(serializer.enum_class) is None:
                register_kryo_class(serializer.enum_class, serializer.names)
            return JavaType(serializer.enum_class)
        case PojoSerializer() if user_class(serializer.class_name) is not None:
            return JavaType(serializer.class_name)
    simple = _JAVA_NAMES.get(str(serializer))
    return JavaType(simple) if simple else None


def _boxed(serializer: TypeSerializer) -> JavaType:
    type_ = java_type_of(serializer)
    return JavaType(BOXES.get(type_.name, type_.name), type_.arguments)


_JAVA_NAMES: Final = {name: scalar.java_class for name, scalar in SCALARS.items() if scalar.boxed_class is None}


# Messages of Protocol Buffers, as ``ProtobufSerializer`` of chill writes them: a length, and the message


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
            parsed = json_format.ParseDict(content, self.message_class()())
        if parsed.SerializeToString(deterministic=True) != message.SerializeToString(deterministic=True):
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


# Types that Flink infers

_ARGUMENTS: Final[dict[type[TypeSerializer], tuple[bool, ...]]] = {
    ListSerializer: (False,),
    SetSerializer: (True,),
    MapSerializer: (False, True),
}
"""Collections, and whether they write a null flag before each type argument's values; without a flag the argument is nullable."""
_WITH_ARGUMENTS: Final = (ListSerializer, MapSerializer, SetSerializer, TupleSerializer, EitherSerializer)
LEFT_TO_KRYO: Final = tuple(type(scalar.serializer) for scalar in SCALARS.values() if not scalar.extracted)
"""Types that Flink has serializers for, but its extractor does not use them."""

_FLINK_2: Final = 2


def inferred_by_flink(type_: TypeSerializer, major: int) -> TypeSerializer:
    """Return the serializer that Flink infers for a type in a Java class.

    ``type_``: the type. The types inside POJOs, tuples, ``Either``, arrays and collections are inferred too. A ``NULLABLE``, and
    a type without a generic class in Java, is used exactly as given. ``major``: the major version of Flink.
    """
    return fold(type_, lambda _, part, inner: _inferred(part, inner, major))


def _inferred(type_: TypeSerializer, inner: Callable[[TypeSerializer], list[TypeSerializer]], major: int) -> TypeSerializer:
    if isinstance(type_, (PojoSerializer, TupleSerializer, EitherSerializer, GenericArraySerializer)):
        return type_.with_children(inner(type_))
    if type(type_) in _ARGUMENTS:
        return KryoSerializer(str(java_type_of(type_))) if major < _FLINK_2 else _collection(type_, inner)
    return KryoSerializer(str(java_type_of(type_))) if isinstance(type_, LEFT_TO_KRYO) else type_


def _collection(type_: TypeSerializer, inner: Callable[[TypeSerializer], list[TypeSerializer]]) -> TypeSerializer:
    """Return the type that Flink 2.x infers for a collection."""
    if any(isinstance(g, _WITH_ARGUMENTS) or (isinstance(g, KryoSerializer) and g.declared.arguments) for g in type_.children):
        raise OptionError(
            f"{type_}: Flink 2.x infers no serializer for collections of types with type arguments (lists of lists, of tuples), "
            'it leaves the whole to Kryo; give KRYO("java.util.List"), or "java.util.Set" or "java.util.Map", the field\'s class'
        )
    flagged = _ARGUMENTS[type(type_)]
    arguments = [a if has_flag else _nullable(a) for a, has_flag in zip(inner(type_), flagged, strict=True)]
    return NullableSerializer(type_.with_children(arguments))


def _nullable(type_: TypeSerializer) -> TypeSerializer:
    return type_ if isinstance(type_, NullableSerializer) else NullableSerializer(type_)
