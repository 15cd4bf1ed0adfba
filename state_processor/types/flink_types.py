"""Types as PyFlink names them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from state_processor.serializers.avro import records as avro
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core import arrays, basic, collections, enums, nullable, pojo, rows
from state_processor.serializers.core.scalars import SCALARS
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.kryo.user_classes import inferred_by_flink, java_type_of
from state_processor.serializers.runtime import namespaces
from state_processor.serializers.table import rowdata
from state_processor.serializers.table.logical_types import (
    ArrayType,
    AtomicType,
    BytesType,
    DateType,
    DecimalType,
    IntervalType,
    LogicalType,
    MapType,
    RowField,
    RowType,
    TextType,
    TimestampType,
)
from state_processor.serializers.table.type_descriptors import parse_logical_type
from state_processor.serializers.traversal import within_limits
from state_processor.support.errors import OptionError

_MICROS: Final = 6

_SPARK: Final[dict[str, Callable[[Any], LogicalType]]] = {
    "BooleanType": lambda t: AtomicType("BOOLEAN"),
    "ByteType": lambda t: AtomicType("TINYINT"),
    "ShortType": lambda t: AtomicType("SMALLINT"),
    "IntegerType": lambda t: AtomicType("INT"),
    "LongType": lambda t: AtomicType("BIGINT"),
    "FloatType": lambda t: AtomicType("FLOAT"),
    "DoubleType": lambda t: AtomicType("DOUBLE"),
    "NullType": lambda t: AtomicType("NULL"),
    "StringType": lambda t: TextType(),
    "CharType": lambda t: TextType("CHAR", t.length),
    "VarcharType": lambda t: TextType("VARCHAR", t.length),
    "BinaryType": lambda t: BytesType(),
    "DateType": lambda t: DateType(),
    "TimestampType": lambda t: TimestampType(_MICROS, True),
    "TimestampNTZType": lambda t: TimestampType(_MICROS),
    "DecimalType": lambda t: DecimalType(t.precision, t.scale),
    "YearMonthIntervalType": lambda t: IntervalType("YEAR_TO_MONTH"),
    "DayTimeIntervalType": lambda t: IntervalType("DAY_TO_SECOND"),
    "ArrayType": lambda t: ArrayType(_nullable(t.elementType, t.containsNull)),
    "MapType": lambda t: MapType(_nullable(t.keyType, False), _nullable(t.valueType, t.valueContainsNull)),
    "StructType": lambda t: RowType(tuple(RowField(f.name, _nullable(f.dataType, f.nullable)) for f in t.fields)),
}
"""From the names of Spark's types."""


def sql_type(type_: Any) -> LogicalType:
    """Return a type of Flink SQL.

    ``type_``: SQL text such as ``DECIMAL(10, 2) NOT NULL``, a type of Spark's, or a type as it is.
    """
    if isinstance(type_, LogicalType):
        return type_
    if isinstance(type_, str):
        return parse_logical_type(type_)
    maker = _SPARK.get(type(type_).__name__) if type(type_).__module__.startswith("pyspark.") else None
    if maker is None:
        raise OptionError(f"{type_!r} is not a type of Flink SQL; give SQL text such as 'BIGINT NOT NULL', or a type of Spark")
    return maker(type_)


def row_type(fields: Any) -> RowType:
    """Return a row of Flink SQL.

    ``fields``: SQL text, ``ROW<id BIGINT NOT NULL, name STRING>`` or the text inside the brackets; a mapping from names to
    arguments of :func:`sql_type`; a list of such arguments, for fields ``f0``, ``f1``, …; or a ``StructType`` of Spark's.
    """
    if isinstance(fields, str):
        text = fields.strip()
        fields = parse_logical_type(text if text[:3].upper() == "ROW" and text[3:].lstrip()[:1] in ("<", "(") else f"ROW<{text}>")
    elif isinstance(fields, Mapping):
        fields = RowType(tuple(RowField(name, sql_type(type_)) for name, type_ in fields.items()))
    elif isinstance(fields, Sequence):
        fields = RowType.of(*map(sql_type, fields))
    parsed = sql_type(fields)
    if not isinstance(parsed, RowType):
        raise OptionError(f"{parsed} is not a row; name its fields, as in ROW<id BIGINT, name STRING>")
    return parsed


def _nullable(type_: Any, nullable: bool) -> LogicalType:
    return replace(sql_type(type_), nullable=nullable)


_BOXED: Final = {name: scalar.boxed_class for name, scalar in SCALARS.items() if scalar.boxed_class is not None}


class Types:
    """The serializers that Flink uses for types, with the names of PyFlink's ``Types``.

    Examples
    --------
    >>> str(Types.MAP(Types.STRING(), Types.LIST(Types.LONG())))
    'MAP<STRING,LIST<LONG>>'
    >>> str(Types.ROW_NAMED(["name", "score"], [Types.STRING(), Types.DOUBLE()]))
    'ROW<name STRING,score DOUBLE>'
    """

    # The methods are named as PyFlink's are.
    # ruff: noqa: N802

    # Numbers, text

    @staticmethod
    def BOOLEAN() -> TypeSerializer:
        """Return the type of ``boolean``."""
        return SCALARS["BOOLEAN"].serializer

    @staticmethod
    def BYTE() -> TypeSerializer:
        """Return the type of ``byte``, 8 bits."""
        return SCALARS["BYTE"].serializer

    @staticmethod
    def SHORT() -> TypeSerializer:
        """Return the type of ``short``, 16 bits."""
        return SCALARS["SHORT"].serializer

    @staticmethod
    def INT() -> TypeSerializer:
        """Return the type of ``int``, 32 bits."""
        return SCALARS["INT"].serializer

    @staticmethod
    def LONG() -> TypeSerializer:
        """Return the type of ``long``, 64 bits."""
        return SCALARS["LONG"].serializer

    @staticmethod
    def FLOAT() -> TypeSerializer:
        """Return the type of ``float``, 32 bits."""
        return SCALARS["FLOAT"].serializer

    @staticmethod
    def DOUBLE() -> TypeSerializer:
        """Return the type of ``double``, 64 bits."""
        return SCALARS["DOUBLE"].serializer

    @staticmethod
    def CHAR() -> TypeSerializer:
        """Return the type of ``char``, one UTF-16 unit."""
        return SCALARS["CHAR"].serializer

    @staticmethod
    def STRING() -> TypeSerializer:
        """Return the type of ``java.lang.String``, or null."""
        return SCALARS["STRING"].serializer

    @staticmethod
    def BIG_INT() -> TypeSerializer:
        """Return the type of ``BigInteger``."""
        return SCALARS["BIG_INT"].serializer

    @staticmethod
    def BIG_DEC() -> TypeSerializer:
        """Return the type of ``BigDecimal``.

        Numbers of different scales are different keys in Java: 1.1 and 1.10. In a column of text, each number has the scale that
        it is written with. In a column of ``decimal(p,s)`` all have the scale ``s``: new state is written with it, and
        such columns are refused as keys of stored entries.
        """
        return SCALARS["BIG_DEC"].serializer

    # Dates and times

    @staticmethod
    def DATE() -> TypeSerializer:
        """Return the type of ``java.util.Date``."""
        return SCALARS["DATE"].serializer

    @staticmethod
    def SQL_DATE() -> TypeSerializer:
        """Return the type of ``java.sql.Date``: the day in the zone of the job's JVM, which ``time_zone`` names."""
        return SCALARS["SQL_DATE"].serializer

    @staticmethod
    def SQL_TIME() -> TypeSerializer:
        """Return the type of ``java.sql.Time``: the time of day in the zone of the job's JVM, which ``time_zone`` names."""
        return SCALARS["SQL_TIME"].serializer

    @staticmethod
    def SQL_TIMESTAMP() -> TypeSerializer:
        """Return the type of ``java.sql.Timestamp``."""
        return SCALARS["SQL_TIMESTAMP"].serializer

    @staticmethod
    def INSTANT() -> TypeSerializer:
        """Return the type of ``java.time.Instant``."""
        return SCALARS["INSTANT"].serializer

    @staticmethod
    def LOCAL_DATE() -> TypeSerializer:
        """Return the type of ``java.time.LocalDate``."""
        return SCALARS["LOCAL_DATE"].serializer

    @staticmethod
    def LOCAL_TIME() -> TypeSerializer:
        """Return the type of ``java.time.LocalTime``."""
        return SCALARS["LOCAL_TIME"].serializer

    @staticmethod
    def LOCAL_DATE_TIME() -> TypeSerializer:
        """Return the type of ``java.time.LocalDateTime``."""
        return SCALARS["LOCAL_DATE_TIME"].serializer

    # Arrays

    @staticmethod
    def BYTES() -> TypeSerializer:
        """Return the type of ``byte[]``."""
        return SCALARS["BYTES"].serializer

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeSerializer:
        """Return the type of ``byte[]``. PyFlink keeps pickled values in it; they stay bytes here."""
        return SCALARS["BYTES"].serializer

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeSerializer) -> TypeSerializer:
        """Return the type of arrays of a primitive type, such as ``int[]``.

        Raises
        ------
        OptionError
            If the element is not primitive.
        """
        name = _primitive_name(element_type, "PRIMITIVE_ARRAY")
        return arrays.BytesSerializer() if name == "BYTE" else arrays.PrimitiveArraySerializer(name)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeSerializer) -> TypeSerializer:
        """Return the type of ``String[]``, or an array of boxed numbers such as ``Integer[]``, which may hold nulls.

        Raises
        ------
        OptionError
            If the element is neither text nor primitive.
        """
        if isinstance(element_type, basic.StringSerializer):
            return arrays.string_array()
        return arrays.GenericArraySerializer(element_type, _BOXED[_primitive_name(element_type, "BASIC_ARRAY")])

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeSerializer, component_class: str | None = None) -> TypeSerializer:
        """Return the type of arrays of objects; ``component_class`` is their Java class, if the type does not determine it.

        Raises
        ------
        OptionError
            If it is needed.
        """
        return within_limits(arrays.GenericArraySerializer(element_type, component_class or _java_class(element_type)))

    # Collections and composites

    @staticmethod
    def LIST(element_type: TypeSerializer) -> TypeSerializer:
        """Return the type of ``List``."""
        return within_limits(collections.ListSerializer(element_type))

    @staticmethod
    def SET(element_type: TypeSerializer) -> TypeSerializer:
        """Return the type of ``Set`` (Flink 2.0 and later)."""
        return within_limits(collections.SetSerializer(element_type))

    @staticmethod
    def MAP(key_type: TypeSerializer, value_type: TypeSerializer) -> TypeSerializer:
        """Return the type of ``Map``."""
        return within_limits(collections.MapSerializer(key_type, value_type))

    @staticmethod
    def TUPLE(field_types: Sequence[TypeSerializer]) -> TypeSerializer:
        """Return the type of ``Tuple1`` to ``Tuple25``."""
        types = tuple(field_types)
        _check_size("TUPLE", types, 25)
        return within_limits(rows.TupleSerializer(types))

    @staticmethod
    def ROW(field_types: Sequence[TypeSerializer]) -> TypeSerializer:
        """Return the type of ``Row`` with fields by position."""
        return within_limits(rows.RowSerializer(field_types))

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[TypeSerializer]) -> TypeSerializer:
        """Return the type of ``Row`` with named fields.

        Raises
        ------
        OptionError
            If there are not as many names as types.
        """
        names, types = tuple(field_names), tuple(field_types)
        if len(names) != len(types):
            raise OptionError(f"Types.ROW_NAMED: {len(names)} names for {len(types)} types")
        return within_limits(rows.RowSerializer(types, names))

    @staticmethod
    def EITHER(left_type: TypeSerializer, right_type: TypeSerializer) -> TypeSerializer:
        """Return the type of Flink's ``Either``."""
        return within_limits(nullable.EitherSerializer(left_type, right_type))

    @staticmethod
    def NULLABLE(inner_type: TypeSerializer) -> TypeSerializer:
        """Return a type in Flink's ``NullableSerializer``, for serializers without null."""
        return within_limits(nullable.NullableSerializer(inner_type))

    # Namespaces of window state

    @staticmethod
    def TIME_WINDOW() -> TypeSerializer:
        """Return the type of Flink's ``TimeWindow``: the namespace of time and session windows."""
        return namespaces.TimeWindowSerializer()

    @staticmethod
    def GLOBAL_WINDOW() -> TypeSerializer:
        """Return the type of Flink's ``GlobalWindow``."""
        return namespaces.GlobalWindowSerializer()

    # Flink SQL

    @staticmethod
    def ROW_DATA(fields: Any) -> TypeSerializer:
        """Return the type of rows of Flink SQL (``RowData``): the keys and most values in the state of SQL's operators.

        Parameters
        ----------
        fields
            ``"id BIGINT NOT NULL, name STRING"``, a mapping from names to SQL types, a list of SQL types (fields ``f0``,
            ``f1``, …), or a ``StructType`` of Spark's. Flink compares the types, whether they are nullable or not among them, and
            not the names; a savepoint does not hold them, and is read with ``f0``, ``f1``, …. Timestamps of Spark's are
            ``TIMESTAMP_LTZ(6)``, those without a zone ``TIMESTAMP(6)``. Maps inside of arrays or maps need Flink 1.20 or newer.

        Raises
        ------
        OptionError
            If it is something else.
        """
        return rowdata.RowDataSerializer(row_type(fields))

    @staticmethod
    def ARRAY_DATA(element_type: Any) -> TypeSerializer:
        """Return the type of arrays of Flink SQL (``ArrayData``); the element is SQL text or a type of Spark's."""
        return rowdata.ArrayDataSerializer(ArrayType(sql_type(element_type)))

    @staticmethod
    def MAP_DATA(key_type: Any, value_type: Any) -> TypeSerializer:
        """Return the type of maps of Flink SQL (``MapData``); key and value are SQL text or types of Spark's."""
        return rowdata.MapDataSerializer(MapType(sql_type(key_type), sql_type(value_type)))

    @staticmethod
    def SQL_DATA(type_: Any) -> TypeSerializer:
        """Return the type of single values of Flink SQL in internal form.

        That is ``StringData`` for ``"STRING"``, ``TimestampData`` for ``"TIMESTAMP(3)"``, and so on.

        Raises
        ------
        OptionError
            If it is text or bytes with a length: a savepoint does not record the length of single values.
        """
        logical_type = sql_type(type_)
        if isinstance(logical_type, TextType | BytesType) and logical_type.summary != type(logical_type)().summary:
            raise OptionError(
                f"Types.SQL_DATA({str(logical_type)!r}): the serializer of a single value does not keep the length, and "
                f"can't check it; declare {type(logical_type)()} and check the column, or make it a field of a ROW_DATA"
            )
        return rowdata.internal_serializer(logical_type)

    # The user's own classes

    @staticmethod
    def ENUM(class_name: str, names: Sequence[str]) -> TypeSerializer:
        """Return the type of a Java enum with its constants in the order of declaration."""
        return enums.EnumSerializer(class_name, names)

    @staticmethod
    def POJO(
        class_name: str,
        fields: Mapping[str, TypeSerializer],
        subclasses: Mapping[str, Mapping[str, TypeSerializer]] | None = None,
    ) -> TypeSerializer:
        """Return the type of a POJO or Java record; the names of nested classes have a ``$``: ``com.acme.Job$Order``.

        Fields have the types that are given, word for word. For a class as Java declares it, with fields that are lists, sets,
        maps, or dates and times of ``java.time``, see :meth:`INFERRED`.

        Parameters
        ----------
        class_name, fields
            The class.
        subclasses
            The subclasses that the job registers (``pipeline.serialization-config``, ``registerPojoType``) in the order in which
            it does, each with the fields that it adds. Columns of such values have a field ``_class`` with the class of
            each value; null means ``class_name``. Structs to write may lack ``_class`` and the fields of subclasses. Fields of
            other classes are null.

        Raises
        ------
        OptionError
            If a subclass has a field of the class.
        """
        return within_limits(pojo.PojoSerializer.of(class_name, fields, subclasses))

    @staticmethod
    def INFERRED(declared: TypeSerializer, flink_version: str = "1.20") -> TypeSerializer:
        """Return the type that Flink infers for a class or field as Java declares it (Flink: ``TypeExtractor``).

        Unless the job declares the type of a field (``@TypeInfo``), a ``LocalDate``, ``LocalTime`` or ``LocalDateTime`` is
        Kryo's in all versions; a ``List<T>``, ``Set<T>`` or ``Map<K,V>`` is Kryo's in Flink 1.x, and a collection with room for
        nulls in Flink 2.x. Classes without a serializer of Flink, such as ``Duration`` and ``ZonedDateTime``, are
        ``KRYO("java.time.Duration")`` in the first place.

        Parameters
        ----------
        declared
            A POJO, or the type of a field; the types inside POJOs, tuples, arrays and collections are inferred as well. A
            ``NULLABLE`` is taken word for word.
        flink_version
            The Flink of the job: ``"1.20"``, ``"2.3"``; only the major version matters.

        Raises
        ------
        OptionError
            If the version does not exist; if, for Flink 2.x, collections are inside of collections (Flink leaves them to Kryo);
            if, for Flink 1.x, elements are of a class that ``register_kryo_class`` has to describe.

        Examples
        --------
        >>> str(Types.INFERRED(Types.LIST(Types.STRING()), "1.20"))
        'KRYO<java.util.List<java.lang.String>>'
        >>> str(Types.INFERRED(Types.LIST(Types.STRING()), "2.3"))
        'NULLABLE<LIST<NULLABLE<STRING>>>'
        """
        from state_processor.backends.write.assembly import metadata_version  # reads skip what writes

        metadata_version(flink_version)
        return inferred_by_flink(declared, int(flink_version.split(".")[0]))

    @staticmethod
    def AVRO(schema: str | Mapping[str, Any], class_name: str | None = None) -> TypeSerializer:
        """Return the type of Avro records by their schema, as JSON text or parsed: ``GenericRecord``, or a generated class."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return avro.AvroSerializer(text, class_name) if class_name else avro.AvroSerializer(text)

    @staticmethod
    def KRYO(class_name: str) -> TypeSerializer:
        """Return the type of a class that Flink serializes with Kryo (Java: ``Types.GENERIC``; not in PyFlink).

        Parameters
        ----------
        class_name
            The Java class: one of the JDK's, or one that :func:`~state_processor.serializers.register_kryo_class` describes.
            Type arguments set the type of the column, and Flink ignores them: a ``java.util.ArrayList`` is a
            column of JSON, where whole numbers need their class to be written, a ``java.util.ArrayList<java.lang.Long>`` a list
            of numbers.

        Examples
        --------
        >>> str(Types.KRYO("java.util.HashMap<java.lang.String, java.lang.Long>"))
        'KRYO<java.util.HashMap<java.lang.String,java.lang.Long>>'
        """
        return KryoSerializer(class_name)


def _check_size(name: str, fields: Sequence[TypeSerializer], most: int) -> None:
    if not 1 <= len(fields) <= most:
        raise OptionError(f"Types.{name}: {len(fields)} fields; 1 to {most} are possible")


def _primitive_name(element: TypeSerializer, name_of_type: str) -> str:
    name = str(element)
    if name not in _BOXED:
        raise OptionError(f"Types.{name_of_type} of {name}: the element has to be one of {', '.join(_BOXED)}")
    return name


def _java_class(element: TypeSerializer) -> str:
    for attribute in ("class_name", "tuple_class", "enum_class", "type_class"):
        name = getattr(element, attribute, None)
        if name:
            return str(name)
    if isinstance(element, rows.RowSerializer):
        return "org.apache.flink.types.Row"
    java = java_type_of(element).name
    return _BOXED.get(java.upper(), java)
