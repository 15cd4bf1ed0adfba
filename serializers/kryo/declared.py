"""The Java types that serializers stand for, where users describe a field with one."""

from __future__ import annotations

from typing import Final

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core import basic
from state_processor.serializers.errors import OptionError
from state_processor.serializers.kryo.classes import register_kryo_class, user_class
from state_processor.serializers.kryo.types import BOXES, JavaType


def java_type_of(serializer: TypeSerializer) -> JavaType:
    """The Java type that a serializer stands for in :func:`register_kryo_class`."""
    name = _java_name(serializer)
    if name is None:
        raise OptionError(
            f"{serializer} stands for no Java type here: give the field's type as Java source has it, such as 'java.lang.String'"
        )
    return name


def _java_name(serializer: TypeSerializer) -> JavaType | None:
    from state_processor.serializers.core import arrays, collections, enums, pojo
    from state_processor.serializers.kryo.serializer import KryoSerializer

    match serializer:
        case basic.NumberSerializer() | basic.CharSerializer():
            return JavaType(str(serializer).lower())
        case KryoSerializer():
            return serializer.declared
        case collections.MapSerializer():
            return JavaType("java.util.Map", (_boxed(serializer.key), _boxed(serializer.value.inner)))
        case collections.SetSerializer():
            inner = serializer.element
            return JavaType("java.util.Set", (_boxed(inner.inner if isinstance(inner, collections.NullFlagged) else inner),))
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


_JAVA_NAMES: Final = {
    "STRING": "java.lang.String",
    "BYTES": "[B",
    "BIG_INT": "java.math.BigInteger",
    "BIG_DEC": "java.math.BigDecimal",
    "DATE": "java.util.Date",
    "SQL_DATE": "java.sql.Date",
    "SQL_TIME": "java.sql.Time",
    "SQL_TIMESTAMP": "java.sql.Timestamp",
    "INSTANT": "java.time.Instant",
    "LOCAL_DATE": "java.time.LocalDate",
    "LOCAL_TIME": "java.time.LocalTime",
    "LOCAL_DATE_TIME": "java.time.LocalDateTime",
}
