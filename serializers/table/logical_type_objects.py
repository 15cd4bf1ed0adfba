"""Types, serializers and data types of Flink SQL as Java objects, in snapshots of the table serializers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from state_processor.serializers.io import MAX_NESTING, DataInput
from state_processor.serializers.java.object_input import (
    JavaClass,
    JavaEnum,
    JavaInstance,
    JavaObject,
    class_name,
    elements,
    read_java_object,
)
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
    DistinctType,
    LinkedListType,
    LogicalType,
    MapType,
    MultisetType,
    RawType,
    RowField,
    RowType,
    StructuredType,
    escape,
)
from state_processor.serializers.table.single_values import TABLE
from state_processor.serializers.table.type_descriptors import (
    DATA,
    FIELDS,
    SERIALIZER,
    SINGLETON,
    SQL_TYPES,
    TYPE,
    SqlType,
    TypeField,
    codecs_of,
    descriptor_of,
    find_descriptor,
    signature,
)
from state_processor.support.errors import UnsupportedFormatError
from state_processor.support.mappings import index_by_name

# Types from Java objects

MAX_NESTED: Final = 100_000
"""Limit of nested types in one type. Shared parts count each time, so that a small file can't describe a huge type."""


class _Converter:
    """Conversion from Java objects, without recursion and with a limited number of types."""

    def __init__(self) -> None:
        self._count = 0
        self._open: set[int] = set()

    def type(self, content: Any) -> LogicalType:
        maker = _TYPES.get(class_name(content).removeprefix(PACKAGE)) if isinstance(content, JavaInstance) else None
        if maker is None:
            raise UnsupportedFormatError(f"Java class {class_name(content)} is not a supported type of Flink SQL")
        self._count += 1
        if id(content) in self._open or self._count > MAX_NESTED:
            raise UnsupportedFormatError(f"a type contains itself or more than {MAX_NESTED} others")
        if len(self._open) >= MAX_NESTING:
            raise UnsupportedFormatError(f"a type of Flink SQL is nested more than {MAX_NESTING} levels deep")
        self._open.add(id(content))
        result = maker(self, content, content.get("isNullable"))
        self._open.discard(id(content))
        return result

    def part(self, field: TypeField, content: JavaInstance) -> Any:
        if field.enum:
            return _name_of(content, field.name)
        value = content.get(field.name)
        if field.form == TYPE:
            return self.type(value)
        return self.fields(value) if field.form == FIELDS else value

    def fields(self, content: Any) -> tuple[RowField, ...]:
        attributes = map(_instance, elements(content))
        return tuple(RowField(e.get("name"), self.type(e.get("type")), e.get("description")) for e in attributes)


def _instance(content: Any) -> JavaInstance:
    if not isinstance(content, JavaInstance):
        raise UnsupportedFormatError(f"Java class {class_name(content)} is not a supported part of a type of Flink SQL")
    return content


def _structured(converter: _Converter, content: JavaInstance, nullable: bool) -> LogicalType:
    inherited = content.get("superType")
    own_fields = converter.fields(content.get("attributes"))
    above = converter.type(inherited) if inherited is not None else None
    fields = (*above.fields, *own_fields) if isinstance(above, RowType) else own_fields
    implementation = _implementation(content)
    if implementation in _LISTS:
        fields = _with_list(fields, content, *_LISTS[implementation])
    return StructuredType(fields, _identifier(content), implementation, nullable=nullable)


_LISTS: Final = {"org.apache.flink.table.runtime.functions.aggregate.LagAggFunction$LagAcc": ("buffer", "defaultValue")}
"""Accumulators with a ``LinkedList``: the attribute of the list, and the attribute with the type of its elements."""


def _with_list(fields: Sequence[RowField], content: JavaInstance, name: str, like: str) -> tuple[RowField, ...]:
    """Return fields with the elements of a list.

    A serializer without the field ``hasNullMask`` is of Flink 1.14 or earlier; its class does not show whether it writes a mask.
    """
    attributes = list(map(_instance, elements(content.get("attributes"))))
    types = {attribute.get("name"): attribute.get("type") for attribute in attributes}
    element = next((f.type for f in fields if f.name == like), None)
    raw = types.get(name)
    serializer = raw.fields.get("serializer") if isinstance(raw, JavaInstance) else None
    has_mask = serializer.fields.get("hasNullMask") if isinstance(serializer, JavaInstance) else None
    with_list = []
    for field in fields:
        type_ = field.type
        if field.name == name and isinstance(type_, RawType) and element is not None:
            type_ = LinkedListType(type_.class_name, element, has_mask, nullable=type_.nullable)
        with_list.append(replace(field, type=type_))
    return tuple(with_list)


def _implementation(content: JavaInstance) -> str:
    """Return the class name. Snapshots of 2.1 and later may contain only the name, for classes that are not available."""
    implementation = content.fields.get("implementationClass")
    if isinstance(implementation, JavaClass):
        return implementation.name
    return str(content.fields.get("className") or "")


def _identifier(content: JavaInstance) -> str:
    identifier = content.get("objectIdentifier")
    if identifier is None:
        return ""
    parts = (_instance(identifier).fields.get(n) for n in ("catalogName", "databaseName", "objectName"))
    return ".".join(escape(p) for p in parts if p)


def _name_of(content: JavaInstance, name: str) -> str:
    value = content.get(name)
    if isinstance(value, JavaEnum):
        return value.constant
    return value.name if isinstance(value, JavaClass) else class_name(value)


_Maker = Callable[[_Converter, JavaInstance, bool], LogicalType]


def _maker_of(sql_type: SqlType) -> _Maker:
    return lambda converter, content, nullable: sql_type.make(
        nullable, {f.attribute: converter.part(f, content) for f in sql_type.fields}
    )


def _raw(of: str) -> _Maker:
    return lambda converter, content, nullable: RawType(_name_of(content, of), nullable=nullable)


_TYPES: Final[dict[str, _Maker]] = {
    **{sql_type.java_class: _maker_of(sql_type) for sql_type in SQL_TYPES},
    "StructuredType": _structured,
    "DistinctType": lambda converter, content, nullable: DistinctType(
        _identifier(content), converter.type(content.get("sourceType")), nullable=nullable
    ),
    "RawType": _raw("clazz"),
    "AnyType": _raw("clazz"),
    "TypeInformationRawType": _raw("typeInfo"),
    "TypeInformationAnyType": _raw("typeInfo"),
}
"""Every class of Flink SQL's types that a serializer can have; an error names any other class."""


def logical_type(content: Any) -> LogicalType:
    """Return the type from a Java object of ``org.apache.flink.table.types.logical``."""
    return _Converter().type(content)


# Java objects from types

_TEXT: Final = "Ljava/lang/String;"
_LIST: Final = "java.util.Collections$UnmodifiableList"
ONE_SERIALIZER: Final = f"L{SERIALIZER.replace('.', '/')};"
"""The signature of a field that is a serializer."""
_NULL: Final = codecs_of(AtomicType("NULL")).java_serializer
_DESCRIPTIONS: Final = (
    JavaClassDescription(f"{PACKAGE}LogicalType", 1, (("Z", "isNullable"), (signature("LogicalTypeRoot"), "typeRoot"))),
    *(sql_type.description for sql_type in SQL_TYPES),
    JavaClassDescription(
        f"{PACKAGE}RawType", 1, (("Ljava/lang/Class;", "clazz"), (ONE_SERIALIZER, "serializer")), f"{PACKAGE}LogicalType"
    ),
    JavaClassDescription(MAP_VIEW.class_name, 0, flags=0),
    JavaClassDescription(f"{PACKAGE}RowType$RowField", 1, ((_TEXT, "description"), (_TEXT, "name"), (TYPE, "type"))),
    JavaClassDescription("java.util.Collections$UnmodifiableCollection", 1820017752578914078, (("Ljava/util/Collection;", "c"),)),
    JavaClassDescription(
        _LIST, -283967356065247728, (("Ljava/util/List;", "list"),), "java.util.Collections$UnmodifiableCollection"
    ),
    JavaClassDescription(SERIALIZER),
    JavaClassDescription(SINGLETON, 8766687317209282373, parent=SERIALIZER),
    *(sql_type.codecs.java_serializer for sql_type in SQL_TYPES if sql_type.codecs),
)
CLASSES: Final = index_by_name(_DESCRIPTIONS)
"""Descriptions of the classes that types consist of, and of the serializers of values without parts, by name."""


def type_object(type_: LogicalType) -> JavaObject:
    """Return a type as a Java object of ``org.apache.flink.table.types.logical``."""
    return read_java_object(DataInput(write_java_object(type_instance(type_), CLASSES)))


def type_instance(type_: LogicalType) -> JavaInstance:
    """Return a type as a part of another Java object."""
    if replace(type_, nullable=True) == MAP_VIEW:
        return _logical("RawType", "RAW", type_, clazz=JavaClass(MAP_VIEW.class_name), serializer=JavaInstance(_NULL.name))
    descriptor = descriptor_of(type_)
    return _logical(
        descriptor.java_class,
        descriptor.root,
        type_,
        **{f.name: _content(f, getattr(type_, f.attribute)) for f in descriptor.fields},
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
        fields = JavaList(list(map(_field, value)))
        return JavaInstance(_LIST, {"c": fields, "list": fields})
    return value


def _field(field: RowField) -> JavaInstance:
    values = {"description": field.description, "name": field.name, "type": type_instance(field.type)}
    return JavaInstance(f"{PACKAGE}RowType$RowField", values)


_ValueMaker = Callable[[Any], JavaInstance]


def serializer_object(type_: LogicalType) -> JavaObject:
    """Return the serializer of a type's values as a Java object (Flink: ``InternalSerializers.create``).

    Functions that the serializer uses for reading single fields are omitted: Flink makes a new serializer from the stored types.
    """
    return _object(_serializer(type_), _SERIALIZERS)


def _object(content: JavaInstance, classes: Iterable[JavaClassDescription]) -> JavaObject:
    classes_by_name = {**CLASSES, **index_by_name(classes)}
    return read_java_object(DataInput(write_java_object(content, classes_by_name)))


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
    serializers = JavaArray(f"[L{SERIALIZER};", list(map(_serializer, type_.types)))
    types = JavaArray(f"[L{PACKAGE}LogicalType;", list(map(type_instance, type_.types)))
    fields = {"binarySerializer": binary, "fieldGetters": None, "fieldSerializers": serializers, "types": types}
    return JavaInstance(_ROW.name, fields)


_SERIALIZERS: Final = (_ARRAY, _MAP, _PAGED, _ABSTRACT_ROW, _BINARY_ROW, _ROW)
_CONTAINERS: Final[dict[type, _ValueMaker]] = {
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
    descriptor = find_descriptor(type_)
    if descriptor is None or descriptor.codecs is None or not descriptor.codecs.value_class:
        raise UnsupportedFormatError(f"a data type of {type_} can't be made; expected a number, a text, a time or an interval")
    return descriptor.codecs.value_class


def type_of_data_type(content: Any) -> LogicalType:
    """Return the logical type of a Java object of ``org.apache.flink.table.types.DataType``."""
    if not isinstance(content, JavaInstance) or "logicalType" not in content.fields:
        raise UnsupportedFormatError(f"Java class {class_name(content)} is not a DataType of Flink SQL")
    return logical_type(content.get("logicalType"))
