"""Types of Flink SQL and the serializers of their values as Java objects: the content of snapshots of the table serializers.

The classes are the same in Flink 1.18 to 2.3, except ``MapDataSerializer``. Its version number of 1.20 is written; it occurs
if a map is an element of an array or of a map.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.io import DataInput
from state_processor.serializers.java.object_input import JavaClass, JavaEnum, JavaInstance, JavaObject, read_java_object
from state_processor.serializers.java.object_output import JavaArray, JavaClassDescription, JavaList, write_java_object
from state_processor.serializers.table.atomic_types import ATOMIC
from state_processor.serializers.table.logical_types import (
    MAP_VIEW,
    PACKAGE,
    ArrayType,
    AtomicType,
    BytesType,
    DateType,
    DecimalType,
    IntervalType,
    LogicalType,
    MapType,
    MultisetType,
    RowField,
    RowType,
    TextType,
    TimestampType,
    TimeType,
)
from state_processor.serializers.table.type_classes import FIELDS, TYPE, TYPE_CLASSES, TypeField, class_of, signature

_RUNTIME: Final = "org.apache.flink.table.runtime.typeutils."
_BASE: Final = "org.apache.flink.api.common.typeutils."
_SINGLETON: Final = f"{_BASE}base.TypeSerializerSingleton"
_SERIALIZER: Final = f"{_BASE}TypeSerializer"
_ONE_SERIALIZER: Final = "Lorg/apache/flink/api/common/typeutils/TypeSerializer;"
_ELEMENT_GETTER: Final = "Lorg/apache/flink/table/data/ArrayData$ElementGetter;"
_TEXT: Final = "Ljava/lang/String;"
_LIST: Final = "java.util.Collections$UnmodifiableList"
_TYPES_OF_DATA: Final = "org.apache.flink.table.types."
_DATA: Final = "org.apache.flink.table.data."

_Maker = Callable[[Any], JavaInstance]


_DESCRIPTIONS: Final = (
    JavaClassDescription(f"{PACKAGE}LogicalType", 1, (("Z", "isNullable"), (signature("LogicalTypeRoot"), "typeRoot"))),
    *(known.description for known in TYPE_CLASSES.values()),
    JavaClassDescription(
        f"{PACKAGE}RawType", 1, (("Ljava/lang/Class;", "clazz"), (_ONE_SERIALIZER, "serializer")), f"{PACKAGE}LogicalType"
    ),
    JavaClassDescription(MAP_VIEW.class_name, 0, flags=0),
    JavaClassDescription(f"{PACKAGE}RowType$RowField", 1, ((_TEXT, "description"), (_TEXT, "name"), (TYPE, "type"))),
    JavaClassDescription("java.util.Collections$UnmodifiableCollection", 1820017752578914078, (("Ljava/util/Collection;", "c"),)),
    JavaClassDescription(
        _LIST, -283967356065247728, (("Ljava/util/List;", "list"),), "java.util.Collections$UnmodifiableCollection"
    ),
    JavaClassDescription(_SERIALIZER),
    JavaClassDescription(_SINGLETON, 8766687317209282373, parent=_SERIALIZER),
    JavaClassDescription(f"{_RUNTIME}DecimalDataSerializer", 1, (("I", "precision"), ("I", "scale")), _SERIALIZER),
    JavaClassDescription(f"{_RUNTIME}TimestampDataSerializer", 1, (("I", "precision"),), _SERIALIZER),
    JavaClassDescription(
        f"{_RUNTIME}ArrayDataSerializer",
        1,
        ((_ONE_SERIALIZER, "eleSer"), (TYPE, "eleType"), (_ELEMENT_GETTER, "elementGetter")),
        _SERIALIZER,
    ),
    JavaClassDescription(
        f"{_RUNTIME}MapDataSerializer",
        4073842523628732956,
        (
            (_ELEMENT_GETTER, "keyGetter"),
            (_ONE_SERIALIZER, "keySerializer"),
            (TYPE, "keyType"),
            (_ELEMENT_GETTER, "valueGetter"),
            (_ONE_SERIALIZER, "valueSerializer"),
            (TYPE, "valueType"),
        ),
        _SERIALIZER,
    ),
    JavaClassDescription(f"{_RUNTIME}PagedTypeSerializer", parent=_SERIALIZER),
    JavaClassDescription(f"{_RUNTIME}AbstractRowDataSerializer", parent=f"{_RUNTIME}PagedTypeSerializer"),
    JavaClassDescription(
        f"{_RUNTIME}BinaryRowDataSerializer",
        1,
        (("I", "fixedLengthPartSize"), ("I", "numFields")),
        f"{_RUNTIME}AbstractRowDataSerializer",
    ),
    JavaClassDescription(
        f"{_RUNTIME}RowDataSerializer",
        1,
        (
            (f"L{_RUNTIME.replace('.', '/')}BinaryRowDataSerializer;", "binarySerializer"),
            ("[Lorg/apache/flink/table/data/RowData$FieldGetter;", "fieldGetters"),
            (f"[{_ONE_SERIALIZER}", "fieldSerializers"),
            (f"[{TYPE}", "types"),
        ),
        f"{_RUNTIME}AbstractRowDataSerializer",
    ),
)

_DATA_TYPE: Final = f"L{_TYPES_OF_DATA.replace('.', '/')}DataType;"
_NUMBER: Final = "java.lang.Number"
_BOXED: Final = {
    "BOOLEAN": ("java.lang.Boolean", "Z", -3665804199014368530),
    "TINYINT": ("java.lang.Byte", "B", -7183698231559129828),
    "SMALLINT": ("java.lang.Short", "S", 7515723908773894738),
    "INT": ("java.lang.Integer", "I", 1360826667806852920),
    "BIGINT": ("java.lang.Long", "J", 4290774380558885855),
    "FLOAT": ("java.lang.Float", "F", -2671257302660747028),
    "DOUBLE": ("java.lang.Double", "D", -9172774392245257468),
}
"""Classes of single numbers: name, type of the field ``value``, version number."""
_DATA_TYPES: Final = (
    JavaClassDescription(
        f"{_TYPES_OF_DATA}DataType",
        -4138822262654336147,
        (("Ljava/lang/Class;", "conversionClass"), (TYPE, "logicalType")),
    ),
    JavaClassDescription(
        f"{_TYPES_OF_DATA}CollectionDataType",
        2464825922057708215,
        ((_DATA_TYPE, "elementDataType"),),
        f"{_TYPES_OF_DATA}DataType",
    ),
    JavaClassDescription(f"{_TYPES_OF_DATA}AtomicDataType", 1911869481579848498, parent=f"{_TYPES_OF_DATA}DataType"),
    JavaClassDescription(_NUMBER, -8742448824652078965),
    *(
        JavaClassDescription(name, uid, ((value, "value"),), "" if name == "java.lang.Boolean" else _NUMBER)
        for name, value, uid in _BOXED.values()
    ),
    *(JavaClassDescription(_DATA + name, 0, flags=0) for name in ("StringData", "DecimalData", "TimestampData")),
    JavaClassDescription("[J", 8655923659555304851),
    JavaClassDescription("long", 0, flags=0),
)

_SINGLETONS: Final = {
    **{atomic.name: (atomic.serializer_class, atomic.serializer_uid) for atomic in ATOMIC.values()},
    "TEXT": (f"{_RUNTIME}StringDataSerializer", 1),
    "BYTES": (f"{_BASE}base.array.BytePrimitiveArraySerializer", 1),
}
"""Serializers without fields, by the SQL name of an atomic type or a name for other types: class and version number."""

CLASSES: Final = {
    **{d.name: d for d in (*_DESCRIPTIONS, *_DATA_TYPES)},
    **{name: JavaClassDescription(name, uid, parent=_SINGLETON) for name, uid in _SINGLETONS.values()},
}
"""Descriptions of all classes that types and serializers consist of, by name."""


def type_object(type_: LogicalType) -> JavaObject:
    """Return a type as a Java object of ``org.apache.flink.table.types.logical``.

    Raises
    ------
    UnsupportedFormatError
        If its class is a user class; only Java can make such an object.
    """
    return _object(type_instance(type_))


def serializer_object(type_: LogicalType) -> JavaObject:
    """Return the serializer of a type's values as a Java object (Flink: ``InternalSerializers.create``).

    Functions that the serializer uses for reading single fields are omitted: Flink makes a new serializer from the stored types.

    Raises
    ------
    UnsupportedFormatError
        See :func:`type_object`.
    """
    return _object(_serializer(type_))


def data_type_object(type_: LogicalType) -> JavaObject:
    """Return the data type of single values in Flink's internal form (Flink: ``DataTypeUtils.toInternalDataType``).

    An array is one of numbers without nulls, ``long[]``.

    Raises
    ------
    UnsupportedFormatError
        If values of the type have parts.
    """
    if isinstance(type_, ArrayType):
        element = _data_type("AtomicDataType", JavaClass("long"), type_.element)
        content = _data_type("CollectionDataType", JavaClass("[J"), type_)
        content.fields["elementDataType"] = element
        return _object(content)
    return _object(_data_type("AtomicDataType", JavaClass(_conversion_class(type_)), type_))


def _data_type(name: str, conversion: JavaClass, type_: LogicalType) -> JavaInstance:
    return JavaInstance(_TYPES_OF_DATA + name, {"conversionClass": conversion, "logicalType": type_instance(type_)})


def _conversion_class(type_: LogicalType) -> str:
    match type_:
        case AtomicType(name=name) if name in _BOXED:
            return _BOXED[name][0]
        case DateType() | TimeType():
            return _BOXED["INT"][0]
        case IntervalType(in_months=in_months):
            return _BOXED["INT" if in_months else "BIGINT"][0]
        case TextType():
            return f"{_DATA}StringData"
        case DecimalType():
            return f"{_DATA}DecimalData"
        case TimestampType():
            return f"{_DATA}TimestampData"
    raise UnsupportedFormatError(f"a data type of {type_} can't be made; expected a number, a text, a time or an interval")


def _object(content: JavaInstance) -> JavaObject:
    return read_java_object(DataInput(write_java_object(content, CLASSES)))


# Types


def type_instance(type_: LogicalType) -> JavaInstance:
    """Return a type as a part of another Java object."""
    if replace(type_, nullable=True) == MAP_VIEW:
        return _logical("RawType", "RAW", type_, clazz=JavaClass(MAP_VIEW.class_name), serializer=_singleton("NULL"))
    known = class_of(type_)
    return _logical(known.name, known.root, type_, **{f.name: _content(f, getattr(type_, f.attribute)) for f in known.fields})


def _logical(name: str, root: str, type_: LogicalType, **fields: Any) -> JavaInstance:
    constant = JavaEnum(f"{PACKAGE}LogicalTypeRoot", root)
    return JavaInstance(PACKAGE + name, {"isNullable": type_.nullable, "typeRoot": constant, **fields})


def _content(field: TypeField, value: Any) -> Any:
    if field.enum:
        return JavaEnum(PACKAGE + field.enum, value)
    if field.form == TYPE:
        return type_instance(value)
    if field.form == FIELDS:
        fields = JavaList([_field(f) for f in value])
        return JavaInstance(_LIST, {"c": fields, "list": fields})
    return value


def _field(field: RowField) -> JavaInstance:
    values = {"description": field.description, "name": field.name, "type": type_instance(field.type)}
    return JavaInstance(f"{PACKAGE}RowType$RowField", values)


# Serializers


def _singleton(name: str) -> JavaInstance:
    return JavaInstance(_SINGLETONS[name][0])


def _serializer(type_: LogicalType) -> JavaInstance:
    class_of(type_)  # refuses types of user classes
    return _SERIALIZER_MAKERS[type(type_)](type_)


def _array_serializer(type_: ArrayType) -> JavaInstance:
    fields = {"eleSer": _serializer(type_.element), "eleType": type_instance(type_.element), "elementGetter": None}
    return JavaInstance(f"{_RUNTIME}ArrayDataSerializer", fields)


def _map_serializer(type_: MapType) -> JavaInstance:
    fields: dict[str, Any] = {"keyGetter": None, "valueGetter": None}
    fields |= {"keySerializer": _serializer(type_.key), "keyType": type_instance(type_.key)}
    fields |= {"valueSerializer": _serializer(type_.value), "valueType": type_instance(type_.value)}
    return JavaInstance(f"{_RUNTIME}MapDataSerializer", fields)


def _row_serializer(type_: RowType) -> JavaInstance:
    arity = len(type_.fields)
    slots = (arity + 63 + 8) // 64 * 8 + 8 * arity
    binary = JavaInstance(f"{_RUNTIME}BinaryRowDataSerializer", {"fixedLengthPartSize": slots, "numFields": arity})
    serializers = JavaArray(f"[L{_SERIALIZER};", [_serializer(t) for t in type_.types])
    types = JavaArray(f"[L{PACKAGE}LogicalType;", [type_instance(t) for t in type_.types])
    fields = {"binarySerializer": binary, "fieldGetters": None, "fieldSerializers": serializers, "types": types}
    return JavaInstance(f"{_RUNTIME}RowDataSerializer", fields)


_SERIALIZER_MAKERS: Final[dict[type, _Maker]] = {
    AtomicType: lambda t: _singleton(t.name),
    TextType: lambda t: _singleton("TEXT"),
    BytesType: lambda t: _singleton("BYTES"),
    DateType: lambda t: _singleton("INT"),
    TimeType: lambda t: _singleton("INT"),
    DecimalType: lambda t: JavaInstance(f"{_RUNTIME}DecimalDataSerializer", {"precision": t.precision, "scale": t.scale}),
    TimestampType: lambda t: JavaInstance(f"{_RUNTIME}TimestampDataSerializer", {"precision": t.precision}),
    IntervalType: lambda t: _singleton("INT" if t.in_months else "BIGINT"),
    ArrayType: _array_serializer,
    MultisetType: lambda t: _map_serializer(t.as_map),
    MapType: _map_serializer,
    RowType: _row_serializer,
}
