"""The types of Flink SQL: one row for each type. Its text, its Java objects and the codecs of its values follow from the row.

Rows of types with nested types lack codecs. The modules of binary rows, of serializers and of Python's rows have them: these
codecs look up the codecs of nested types here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.arrays import BytesSerializer
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.flink_packages import BASE
from state_processor.serializers.java.object_output import JavaClassDescription
from state_processor.serializers.java.types import BOXES
from state_processor.serializers.table.binary_slots import (
    BytesSlot,
    DateSlot,
    DecimalSlot,
    NullSlot,
    NumberSlot,
    Slot,
    TextSlot,
    TimeSlot,
    TimestampSlot,
    VariantSlot,
)
from state_processor.serializers.table.logical_types import (
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
    RowType,
    TextType,
    TimestampType,
    TimeType,
)
from state_processor.serializers.table.python_values import PythonDateSerializer, PythonDecimalSerializer, PythonTimeSerializer
from state_processor.serializers.table.single_values import (
    DATA_VIEW,
    TABLE,
    BitmapSerializer,
    DateDataSerializer,
    DecimalDataSerializer,
    NullSerializer,
    StringDataSerializer,
    TimeDataSerializer,
    TimestampDataSerializer,
    VariantSerializer,
)
from state_processor.support.errors import UnsupportedFormatError

SERIALIZER: Final = "org.apache.flink.api.common.typeutils.TypeSerializer"
SINGLETON: Final = f"{BASE}TypeSerializerSingleton"
DATA: Final = "org.apache.flink.table.data."

NUMBER: Final = "I"
"""The form of a field that is an int."""
FIELDS: Final = "Ljava/util/List;"
"""The form of the fields of a row."""


def signature(name: str) -> str:
    """Return the signature of a class of the package of types."""
    return f"L{(PACKAGE + name).replace('.', '/')};"


TYPE: Final = signature("LogicalType")
"""The form of a field that is a type."""


@dataclass(frozen=True, slots=True)
class TypeField:
    """A field of the Java class of a type."""

    name: str
    attribute: str
    form: str = NUMBER  # :data:`NUMBER`, :data:`TYPE` or :data:`FIELDS`; empty for a constant of an enumeration
    enum: str = ""  # the Java class of the enumeration
    default: int = 0  # the number if it is left out in SQL text or in a compiled plan

    @property
    def signature(self) -> str:
        """The signature of the field in a stream."""
        return signature(self.enum) if self.enum else self.form


@dataclass(frozen=True, slots=True)
class Codecs:
    """How the values of types without nested types are stored."""

    serializer: Callable[[Any], TypeSerializer]  # make the serializer of Flink SQL (Flink: ``InternalSerializers.create``)
    slot: Callable[[Any], Slot]  # make the slot in a binary row or array
    java_serializer: JavaClassDescription  # the serializer as a Java object. Its fields are attributes of the type.
    # make the serializer of PyFlink's table runtime (Flink: ``PythonTypeUtils.toInternalSerializer``); ``None`` if PyFlink has
    # none
    python: Callable[[Any], TypeSerializer] | None = None
    # the class of single values in Flink's internal form; empty if values of the type are not written alone
    value_class: str = ""
    number: str = ""  # the Java type of a number: ``BYTE``, ``INT`` and so on; empty for other values


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type of Flink SQL."""

    java_class: str  # its Java class in the package of types
    root: str  # the constant of ``LogicalTypeRoot``
    type: type[LogicalType]  # the class of the type here
    codecs: Codecs | None = None  # the codecs of its values; ``None`` for types with nested types
    fields: tuple[TypeField, ...] = ()  # the fields of the Java class in the order of a stream
    # attributes that tell the types of this Java class from other types of the class here
    attributes: Mapping[str, Any] = field(default_factory=dict)
    # its names in SQL, of one or two words; empty if its text has a syntax of its own (:mod:`~.table.logical_type_text`)
    names: tuple[str, ...] = ()
    uid: int = 1  # the ``serialVersionUID`` of the Java class

    def make(self, nullable: bool, found: Mapping[str, Any]) -> LogicalType:
        """Return the type with attributes from the fields of a Java object, or from SQL text."""
        arguments = {f.name for f in fields(self.type)}
        arguments_of_type = {name: value for name, value in self.attributes.items() if name in arguments}
        return self.type(**arguments_of_type, **found, nullable=nullable)

    def describes(self, type_: LogicalType) -> bool:
        """Return whether a type, of the class :attr:`type`, is of this Java class."""
        return all(getattr(type_, name) == value for name, value in self.attributes.items())

    @property
    def numbers(self) -> tuple[TypeField, ...]:
        """The numbers in parentheses behind the name in SQL."""
        return tuple(f for f in self.fields if f.form == NUMBER and not f.enum)

    @property
    def description(self) -> JavaClassDescription:
        """The description of the Java class in a stream."""
        described = tuple((f.signature, f.name) for f in self.fields)
        return JavaClassDescription(PACKAGE + self.java_class, self.uid, described, f"{PACKAGE}LogicalType")


# Codecs


def _singleton(name: str, uid: int = 1) -> JavaClassDescription:
    """Return the Java class of a serializer without fields."""
    return JavaClassDescription(name, uid, parent=SINGLETON)


def _number(number: str) -> Codecs:
    return Codecs(
        serializer=lambda t: NumberSerializer(number),
        slot=lambda t: NumberSlot(t, number),
        java_serializer=_singleton(f"{BASE}{number.capitalize()}Serializer"),
        python=lambda t: NumberSerializer(number),
        value_class=BOXES[number.lower()],
        number=number,
    )


_INT: Final = _number("INT")
_LONG: Final = _number("LONG")
_TEXT: Final = Codecs(
    serializer=lambda t: StringDataSerializer(),
    slot=TextSlot,
    java_serializer=_singleton(f"{TABLE}StringDataSerializer"),
    python=lambda t: StringDataSerializer(),
    value_class=f"{DATA}StringData",
)
_BYTES: Final = Codecs(
    serializer=lambda t: BytesSerializer(),
    slot=BytesSlot,
    java_serializer=_singleton(f"{BASE}array.BytePrimitiveArraySerializer"),
    python=lambda t: BytesSerializer(),
)
_TIMESTAMP: Final = Codecs(
    serializer=lambda t: TimestampDataSerializer(t.precision),
    slot=TimestampSlot,
    java_serializer=JavaClassDescription(f"{TABLE}TimestampDataSerializer", 1, ((NUMBER, "precision"),), SERIALIZER),
    python=lambda t: TimestampDataSerializer(t.precision).shown_as(t),
    value_class=f"{DATA}TimestampData",
)


# Types


def _atomic(java_class: str, codecs: Codecs, *names: str, root: str = "", uid: int = 1) -> SqlType:
    """Return a type without parameters; its names in SQL are ``names``, its own name first."""
    return SqlType(java_class, root or names[0], AtomicType, codecs, (), {"name": names[0]}, names, uid)


def _sized(java_class: str, type_: type[LogicalType], codecs: Codecs, *names: str) -> SqlType:
    """Return a type of text or bytes with a length."""
    length = TypeField("length", "length", default=1)
    return SqlType(java_class, names[0], type_, codecs, (length,), {"name": names[0]}, names)


_OF_TIMESTAMP: Final = (TypeField("precision", "precision", default=6), TypeField("kind", "kind", enum="TimestampKind"))
_ELEMENT: Final = (TypeField("elementType", "element", TYPE),)

SQL_TYPES: Final = (
    _atomic("BooleanType", _number("BOOLEAN"), "BOOLEAN"),
    _atomic("TinyIntType", _number("BYTE"), "TINYINT"),
    _atomic("SmallIntType", _number("SHORT"), "SMALLINT"),
    _atomic("IntType", _INT, "INT", "INTEGER", root="INTEGER"),
    _atomic("BigIntType", _LONG, "BIGINT"),
    _atomic("FloatType", _number("FLOAT"), "FLOAT"),
    _atomic("DoubleType", _number("DOUBLE"), "DOUBLE", "DOUBLE PRECISION"),
    _atomic(
        "NullType",
        Codecs(lambda t: NullSerializer(), NullSlot, _singleton(f"{DATA_VIEW}NullSerializer", -5381596724707742625)),
        "NULL",
    ),
    _atomic(
        "VariantType",
        Codecs(lambda t: VariantSerializer(), VariantSlot, _singleton(f"{BASE}VariantSerializer", 5163454885762653491)),
        "VARIANT",
        uid=-7525210688776332292,
    ),
    _atomic(
        "BitmapType",
        Codecs(lambda t: BitmapSerializer(), BytesSlot, _singleton(f"{BASE}BitmapSerializer", 7562101549559034581)),
        "BITMAP",
    ),
    _sized("CharType", TextType, _TEXT, "CHAR"),
    _sized("VarCharType", TextType, _TEXT, "VARCHAR", "CHAR VARYING"),
    _sized("BinaryType", BytesType, _BYTES, "BINARY"),
    _sized("VarBinaryType", BytesType, _BYTES, "VARBINARY", "BINARY VARYING"),
    SqlType(
        "DateType",
        "DATE",
        DateType,
        replace(_INT, serializer=lambda t: DateDataSerializer(), slot=DateSlot, python=lambda t: PythonDateSerializer()),
        names=("DATE",),
    ),
    SqlType(
        "TimeType",
        "TIME_WITHOUT_TIME_ZONE",
        TimeType,
        replace(
            _INT, serializer=lambda t: TimeDataSerializer(t.precision), slot=TimeSlot, python=lambda t: PythonTimeSerializer()
        ),
        (TypeField("precision", "precision"),),
        names=("TIME",),
    ),
    SqlType(
        "DecimalType",
        "DECIMAL",
        DecimalType,
        Codecs(
            serializer=lambda t: DecimalDataSerializer(t.precision, t.scale),
            slot=DecimalSlot,
            java_serializer=JavaClassDescription(
                f"{TABLE}DecimalDataSerializer", 1, ((NUMBER, "precision"), (NUMBER, "scale")), SERIALIZER
            ),
            python=lambda t: PythonDecimalSerializer(t.precision, t.scale),
            value_class=f"{DATA}DecimalData",
        ),
        (TypeField("precision", "precision", default=10), TypeField("scale", "scale")),
        names=("DECIMAL", "DEC", "NUMERIC"),
    ),
    SqlType(
        "TimestampType",
        "TIMESTAMP_WITHOUT_TIME_ZONE",
        TimestampType,
        _TIMESTAMP,
        _OF_TIMESTAMP,
        {"local_zoned": False},
        ("TIMESTAMP",),
    ),
    SqlType(
        "LocalZonedTimestampType",
        "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
        TimestampType,
        _TIMESTAMP,
        _OF_TIMESTAMP,
        {"local_zoned": True},
        ("TIMESTAMP_LTZ",),
    ),
    SqlType(
        "YearMonthIntervalType",
        "INTERVAL_YEAR_MONTH",
        IntervalType,
        replace(_INT, python=None),
        (
            TypeField("yearPrecision", "precision"),
            TypeField("resolution", "resolution", enum="YearMonthIntervalType$YearMonthResolution"),
        ),
        {"in_months": True},
    ),
    SqlType(
        "DayTimeIntervalType",
        "INTERVAL_DAY_TIME",
        IntervalType,
        replace(_LONG, python=None),
        (
            TypeField("dayPrecision", "precision"),
            TypeField("fractionalPrecision", "fraction"),
            TypeField("resolution", "resolution", enum="DayTimeIntervalType$DayTimeResolution"),
        ),
        {"in_months": False},
    ),
    SqlType("ArrayType", "ARRAY", ArrayType, None, _ELEMENT),
    SqlType("MultisetType", "MULTISET", MultisetType, None, _ELEMENT),
    SqlType("MapType", "MAP", MapType, None, (TypeField("keyType", "key", TYPE), TypeField("valueType", "value", TYPE))),
    SqlType("RowType", "ROW", RowType, None, (TypeField("fields", "fields", FIELDS),)),
)
"""All types but those of user classes, which are only read (:mod:`~.table.logical_type_objects`)."""


_OF_CLASS: Final = {
    type_: [sql_type for sql_type in SQL_TYPES if sql_type.type is type_] for type_ in {k.type for k in SQL_TYPES}
}


def find_descriptor(type_: LogicalType) -> SqlType | None:
    """Return the row of a type; ``None`` if the type is of a user class."""
    return next((sql_type for sql_type in _OF_CLASS.get(type(type_), ()) if sql_type.describes(type_)), None)


def descriptor_of(type_: LogicalType) -> SqlType:
    """Return the row of a type."""
    descriptor = find_descriptor(type_)
    if descriptor is None:
        raise UnsupportedFormatError(f"{type_} is of a user class: it can be carried over from a savepoint, but not made")
    return descriptor


def codecs_of(type_: LogicalType) -> Codecs:
    """Return the codecs of the values of a type without nested types."""
    codecs = descriptor_of(type_).codecs
    assert codecs is not None, f"{type_} has nested types"
    return codecs
