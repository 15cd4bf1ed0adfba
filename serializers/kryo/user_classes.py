"""Descriptions of classes that users register, and the Java types of serializers that describe fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core import arrays, basic, collections, enums, pojo
from state_processor.serializers.core.scalars import SCALARS
from state_processor.serializers.java.types import BOXES, JavaType, KryoClass
from state_processor.serializers.kryo.classes import user_class
from state_processor.serializers.kryo.reader import KryoReader
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.kryo.writer import KryoWriter
from state_processor.serializers.user_registrations import register
from state_processor.support.errors import OptionError


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
        case basic.NumberSerializer() | basic.CharSerializer():
            return JavaType(str(serializer).lower())
        case KryoSerializer():
            return serializer.declared
        case collections.MapSerializer():
            return JavaType("java.util.Map", (_boxed(serializer.key), _boxed(serializer.value.inner)))
        case collections.SetSerializer():
            return JavaType("java.util.Set", (_boxed(serializer.element.inner),))
        case collections.ListSerializer():
            return JavaType("java.util.List", (_boxed(serializer.element),))
        case arrays.SimpleArraySerializer():
            element = java_type_of(serializer.element).name
            return JavaType.parse(f"{element}[]")
        case enums.EnumSerializer():
            if user_class(serializer.enum_class) is None:
                register_kryo_class(serializer.enum_class, serializer.names)
            return JavaType(serializer.enum_class)
        case pojo.PojoSerializer() if user_class(serializer.class_name) is not None:
            return JavaType(serializer.class_name)
    simple = _JAVA_NAMES.get(str(serializer))
    return JavaType(simple) if simple else None


def _boxed(serializer: TypeSerializer) -> JavaType:
    type_ = java_type_of(serializer)
    return JavaType(BOXES.get(type_.name, type_.name), type_.arguments)


_JAVA_NAMES: Final = {name: scalar.java_class for name, scalar in SCALARS.items() if scalar.boxed_class is None}
