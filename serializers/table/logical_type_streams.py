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
from state_processor.serializers.java.object_output import (
    BOX_CLASSES,
    JavaArray,
    JavaClassDescription,
    JavaList,
    write_java_object,
)
from state_processor.serializers.table.binary_slots import null_bytes
from state_processor.serializers.table.logical_types import (
    MAP_VIEW,
    PACKAGE,
    ArrayType,
    AtomicType,
    LogicalType,
    MapType,
    MultisetType,
    RowField,
    RowType,
)
from state_processor.serializers.table.single_values import TABLE
from state_processor.serializers.table.type_descriptors import (
    FIELDS,
    SERIALIZER,
    SINGLETON,
    SQL_TYPES,
    TYPE,
    TypeField,
    descriptor_of,
    find_descriptor,
    signature,
)

_ONE_SERIALIZER: Final = f"L{SERIALIZER.replace('.', '/')};"
_ELEMENT_GETTER: Final = "Lorg/apache/flink/table/data/ArrayData$ElementGetter;"
_TEXT: Final = "Ljava/lang/String;"
_LIST: Final = "java.util.Collections$UnmodifiableList"
_TYPES_OF_DATA: Final = "org.apache.flink.table.types."
_DATA: Final = "org.apache.flink.table.data."

_Maker = Callable[[Any], JavaInstance]


_DESCRIPTIONS: Final = (
    JavaClassDescription(f"{PACKAGE}LogicalType", 1, (("Z", "isNullable"), (signature("LogicalTypeRoot"), "typeRoot"))),
    *(known.description for known in SQL_TYPES),
    JavaClassDescription(
        f"{PACKAGE}RawType", 1, (("Ljava/lang/Class;", "clazz"), (_ONE_SERIALIZER, "serializer")), f"{PACKAGE}LogicalType"
    ),
    JavaClassDescription(MAP_VIEW.class_name, 0, flags=0),
    JavaClassDescription(f"{PACKAGE}RowType$RowField", 1, ((_TEXT, "description"), (_TEXT, "name"), (TYPE, "type"))),
    JavaClassDescription("java.util.Collections$UnmodifiableCollection", 1820017752578914078, (("Ljava/util/Collection;", "c"),)),
    JavaClassDescription(
        _LIST, -283967356065247728, (("Ljava/util/List;", "list"),), "java.util.Collections$UnmodifiableCollection"
    ),
    JavaClassDescription(SERIALIZER),
    JavaClassDescription(SINGLETON, 8766687317209282373, parent=SERIALIZER),
    JavaClassDescription(
        f"{TABLE}ArrayDataSerializer",
        1,
        ((_ONE_SERIALIZER, "eleSer"), (TYPE, "eleType"), (_ELEMENT_GETTER, "elementGetter")),
        SERIALIZER,
    ),
    JavaClassDescription(
        f"{TABLE}MapDataSerializer",
        4073842523628732956,
        (
            (_ELEMENT_GETTER, "keyGetter"),
            (_ONE_SERIALIZER, "keySerializer"),
            (TYPE, "keyType"),
            (_ELEMENT_GETTER, "valueGetter"),
            (_ONE_SERIALIZER, "valueSerializer"),
            (TYPE, "valueType"),
        ),
        SERIALIZER,
    ),
    JavaClassDescription(f"{TABLE}PagedTypeSerializer", parent=SERIALIZER),
    JavaClassDescription(f"{TABLE}AbstractRowDataSerializer", parent=f"{TABLE}PagedTypeSerializer"),
    JavaClassDescription(
        f"{TABLE}BinaryRowDataSerializer",
        1,
        (("I", "fixedLengthPartSize"), ("I", "numFields")),
        f"{TABLE}AbstractRowDataSerializer",
    ),
    JavaClassDescription(
        f"{TABLE}RowDataSerializer",
        1,
        (
            (f"L{TABLE.replace('.', '/')}BinaryRowDataSerializer;", "binarySerializer"),
            ("[Lorg/apache/flink/table/data/RowData$FieldGetter;", "fieldGetters"),
            (f"[{_ONE_SERIALIZER}", "fieldSerializers"),
            (f"[{TYPE}", "types"),
        ),
        f"{TABLE}AbstractRowDataSerializer",
    ),
)

_DATA_TYPE: Final = f"L{_TYPES_OF_DATA.replace('.', '/')}DataType;"
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
    *BOX_CLASSES,
    *(JavaClassDescription(_DATA + name, 0, flags=0) for name in ("StringData", "DecimalData", "TimestampData")),
    JavaClassDescription("[J", 8655923659555304851),
    JavaClassDescription("long", 0, flags=0),
)

_OF_VALUES: Final = {known.codecs.java_serializer.name: known.codecs.java_serializer for known in SQL_TYPES if known.codecs}
CLASSES: Final = {**{d.name: d for d in (*_DESCRIPTIONS, *_DATA_TYPES)}, **_OF_VALUES}
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
    known = find_descriptor(type_)
    if known is None or known.codecs is None or not known.codecs.value_class:
        raise UnsupportedFormatError(f"a data type of {type_} can't be made; expected a number, a text, a time or an interval")
    return known.codecs.value_class


def _object(content: JavaInstance) -> JavaObject:
    return read_java_object(DataInput(write_java_object(content, CLASSES)))


# Types


def type_instance(type_: LogicalType) -> JavaInstance:
    """Return a type as a part of another Java object."""
    if replace(type_, nullable=True) == MAP_VIEW:
        return _logical("RawType", "RAW", type_, clazz=JavaClass(MAP_VIEW.class_name), serializer=_serializer(AtomicType("NULL")))
    known = descriptor_of(type_)
    return _logical(
        known.java_class, known.root, type_, **{f.name: _content(f, getattr(type_, f.attribute)) for f in known.fields}
    )


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


def _serializer(type_: LogicalType) -> JavaInstance:
    codecs = descriptor_of(type_).codecs
    if codecs is None:
        return _CONTAINERS[type(type_)](type_)
    described = codecs.java_serializer
    return JavaInstance(described.name, {name: getattr(type_, name) for _, name in described.fields})


def _array_serializer(type_: ArrayType) -> JavaInstance:
    fields = {"eleSer": _serializer(type_.element), "eleType": type_instance(type_.element), "elementGetter": None}
    return JavaInstance(f"{TABLE}ArrayDataSerializer", fields)


def _map_serializer(type_: MapType) -> JavaInstance:
    fields: dict[str, Any] = {"keyGetter": None, "valueGetter": None}
    fields |= {"keySerializer": _serializer(type_.key), "keyType": type_instance(type_.key)}
    fields |= {"valueSerializer": _serializer(type_.value), "valueType": type_instance(type_.value)}
    return JavaInstance(f"{TABLE}MapDataSerializer", fields)


def _row_serializer(type_: RowType) -> JavaInstance:
    arity = len(type_.fields)
    slots = null_bytes(arity) + 8 * arity
    binary = JavaInstance(f"{TABLE}BinaryRowDataSerializer", {"fixedLengthPartSize": slots, "numFields": arity})
    serializers = JavaArray(f"[L{SERIALIZER};", [_serializer(t) for t in type_.types])
    types = JavaArray(f"[L{PACKAGE}LogicalType;", [type_instance(t) for t in type_.types])
    fields = {"binarySerializer": binary, "fieldGetters": None, "fieldSerializers": serializers, "types": types}
    return JavaInstance(f"{TABLE}RowDataSerializer", fields)


_CONTAINERS: Final[dict[type, _Maker]] = {
    ArrayType: _array_serializer,
    MultisetType: lambda t: _map_serializer(t.as_map),
    MapType: _map_serializer,
    RowType: _row_serializer,
}
