"""Serializers and data types of Flink SQL's values as Java objects, in snapshots of the table serializers.

The classes are the same in Flink 1.18 to 2.3, except ``MapDataSerializer``. Its version number of 1.20 is written; it occurs
if a map is an element of an array or of a map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.io import DataInput
from state_processor.serializers.java.object_input import JavaClass, JavaInstance, JavaObject, class_name, read_java_object
from state_processor.serializers.java.object_output import BOX_CLASSES, JavaArray, JavaClassDescription, write_java_object
from state_processor.serializers.table.binary_slots import null_bytes
from state_processor.serializers.table.logical_type_objects import CLASSES, ONE_SERIALIZER, logical_type, type_instance
from state_processor.serializers.table.logical_types import PACKAGE, ArrayType, LogicalType, MapType, MultisetType, RowType
from state_processor.serializers.table.single_values import TABLE
from state_processor.serializers.table.type_descriptors import DATA, SERIALIZER, TYPE, descriptor_of, find_descriptor

_Maker = Callable[[Any], JavaInstance]


def serializer_object(type_: LogicalType) -> JavaObject:
    """Return the serializer of a type's values as a Java object (Flink: ``InternalSerializers.create``).

    Functions that the serializer uses for reading single fields are omitted: Flink makes a new serializer from the stored types.

    Raises
    ------
    UnsupportedFormatError
        See :func:`~.table.logical_type_objects.type_object`.
    """
    return _object(_serializer(type_), _SERIALIZERS)


def _object(content: JavaInstance, classes: Iterable[JavaClassDescription]) -> JavaObject:
    known = {**CLASSES, **{described.name: described for described in classes}}
    return read_java_object(DataInput(write_java_object(content, known)))


def _serializer(type_: LogicalType) -> JavaInstance:
    codecs = descriptor_of(type_).codecs
    if codecs is None:
        return _CONTAINERS[type(type_)](type_)
    described = codecs.java_serializer
    return JavaInstance(described.name, {name: getattr(type_, name) for _, name in described.fields})


_ELEMENT_GETTER: Final = "Lorg/apache/flink/table/data/ArrayData$ElementGetter;"
_ARRAY: Final = JavaClassDescription(
    f"{TABLE}ArrayDataSerializer",
    1,
    ((ONE_SERIALIZER, "eleSer"), (TYPE, "eleType"), (_ELEMENT_GETTER, "elementGetter")),
    SERIALIZER,
)


def _array_serializer(type_: ArrayType) -> JavaInstance:
    fields = {"eleSer": _serializer(type_.element), "eleType": type_instance(type_.element), "elementGetter": None}
    return JavaInstance(_ARRAY.name, fields)


_MAP: Final = JavaClassDescription(
    f"{TABLE}MapDataSerializer",
    4073842523628732956,
    (
        (_ELEMENT_GETTER, "keyGetter"),
        (ONE_SERIALIZER, "keySerializer"),
        (TYPE, "keyType"),
        (_ELEMENT_GETTER, "valueGetter"),
        (ONE_SERIALIZER, "valueSerializer"),
        (TYPE, "valueType"),
    ),
    SERIALIZER,
)


def _map_serializer(type_: MapType) -> JavaInstance:
    fields: dict[str, Any] = {"keyGetter": None, "valueGetter": None}
    fields |= {"keySerializer": _serializer(type_.key), "keyType": type_instance(type_.key)}
    fields |= {"valueSerializer": _serializer(type_.value), "valueType": type_instance(type_.value)}
    return JavaInstance(_MAP.name, fields)


_PAGED: Final = JavaClassDescription(f"{TABLE}PagedTypeSerializer", parent=SERIALIZER)
_ABSTRACT_ROW: Final = JavaClassDescription(f"{TABLE}AbstractRowDataSerializer", parent=_PAGED.name)
_BINARY_ROW: Final = JavaClassDescription(
    f"{TABLE}BinaryRowDataSerializer", 1, (("I", "fixedLengthPartSize"), ("I", "numFields")), _ABSTRACT_ROW.name
)
_ROW: Final = JavaClassDescription(
    f"{TABLE}RowDataSerializer",
    1,
    (
        (f"L{_BINARY_ROW.name.replace('.', '/')};", "binarySerializer"),
        ("[Lorg/apache/flink/table/data/RowData$FieldGetter;", "fieldGetters"),
        (f"[{ONE_SERIALIZER}", "fieldSerializers"),
        (f"[{TYPE}", "types"),
    ),
    _ABSTRACT_ROW.name,
)


def _row_serializer(type_: RowType) -> JavaInstance:
    arity = len(type_.fields)
    binary = JavaInstance(_BINARY_ROW.name, {"fixedLengthPartSize": null_bytes(arity) + 8 * arity, "numFields": arity})
    serializers = JavaArray(f"[L{SERIALIZER};", [_serializer(t) for t in type_.types])
    types = JavaArray(f"[L{PACKAGE}LogicalType;", [type_instance(t) for t in type_.types])
    fields = {"binarySerializer": binary, "fieldGetters": None, "fieldSerializers": serializers, "types": types}
    return JavaInstance(_ROW.name, fields)


_SERIALIZERS: Final = (_ARRAY, _MAP, _PAGED, _ABSTRACT_ROW, _BINARY_ROW, _ROW)
_CONTAINERS: Final[dict[type, _Maker]] = {
    ArrayType: _array_serializer,
    MultisetType: lambda t: _map_serializer(t.as_map),
    MapType: _map_serializer,
    RowType: _row_serializer,
}
"""Serializers of types with nested types. Other types have theirs in their descriptor."""


# Data types

_TYPES_OF_DATA: Final = "org.apache.flink.table.types."
_DATA_TYPE: Final = JavaClassDescription(
    f"{_TYPES_OF_DATA}DataType", -4138822262654336147, (("Ljava/lang/Class;", "conversionClass"), (TYPE, "logicalType"))
)
_ATOMIC: Final = JavaClassDescription(f"{_TYPES_OF_DATA}AtomicDataType", 1911869481579848498, parent=_DATA_TYPE.name)
_COLLECTION: Final = JavaClassDescription(
    f"{_TYPES_OF_DATA}CollectionDataType",
    2464825922057708215,
    ((f"L{_DATA_TYPE.name.replace('.', '/')};", "elementDataType"),),
    _DATA_TYPE.name,
)
_DATA_TYPES: Final = (
    *(_DATA_TYPE, _ATOMIC, _COLLECTION),
    *BOX_CLASSES,
    *(JavaClassDescription(f"{DATA}{name}", 0, flags=0) for name in ("StringData", "DecimalData", "TimestampData")),
    JavaClassDescription("[J", 8655923659555304851),
    JavaClassDescription("long", 0, flags=0),
)


def data_type_object(type_: LogicalType) -> JavaObject:
    """Return the data type of single values in Flink's internal form (Flink: ``DataTypeUtils.toInternalDataType``).

    An array is one of numbers without nulls, ``long[]``.

    Raises
    ------
    UnsupportedFormatError
        If values of the type have parts.
    """
    if isinstance(type_, ArrayType):
        content = _data_type(_COLLECTION, "[J", type_)
        content.fields["elementDataType"] = _data_type(_ATOMIC, "long", type_.element)
    else:
        content = _data_type(_ATOMIC, _conversion_class(type_), type_)
    return _object(content, _DATA_TYPES)


def _data_type(described: JavaClassDescription, conversion: str, type_: LogicalType) -> JavaInstance:
    return JavaInstance(described.name, {"conversionClass": JavaClass(conversion), "logicalType": type_instance(type_)})


def _conversion_class(type_: LogicalType) -> str:
    known = find_descriptor(type_)
    if known is None or known.codecs is None or not known.codecs.value_class:
        raise UnsupportedFormatError(f"a data type of {type_} can't be made; expected a number, a text, a time or an interval")
    return known.codecs.value_class


def type_of_data_type(content: Any) -> LogicalType:
    """Return the logical type of a Java object of ``org.apache.flink.table.types.DataType``."""
    if not isinstance(content, JavaInstance) or "logicalType" not in content.fields:
        raise UnsupportedFormatError(f"Java class {class_name(content)} is not a DataType of Flink SQL")
    return logical_type(content.get("logicalType"))
