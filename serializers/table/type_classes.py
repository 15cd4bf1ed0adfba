"""Java classes of the types of Flink SQL: one descriptor for each. Reading and writing of Java objects follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, Final

from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.java.object_output import JavaClassDescription
from state_processor.serializers.records import dataclass
from state_processor.serializers.table.atomic_types import ATOMIC
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
    """A field of a Java class.

    Parameters
    ----------
    name
        Its name in Java.
    attribute
        The attribute of the type.
    form
        :data:`NUMBER`, :data:`TYPE` or :data:`FIELDS`; empty for a constant of an enumeration.
    enum
        The Java class of the enumeration.
    """

    name: str
    attribute: str
    form: str = NUMBER
    enum: str = ""

    @property
    def signature(self) -> str:
        """The signature of the field in a stream."""
        return signature(self.enum) if self.enum else self.form


@dataclass(frozen=True, slots=True)
class TypeClass:
    """The Java class of a type.

    Parameters
    ----------
    name
        Its name in the package of types.
    root
        The constant of ``LogicalTypeRoot``.
    type
        The class of the type here.
    fields
        The fields in the order of a stream.
    attributes
        Attributes that tell the types of this Java class from other types of the class here.
    uid
        The ``serialVersionUID``.
    """

    name: str
    root: str
    type: type[LogicalType]
    fields: tuple[TypeField, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    uid: int = 1

    def make(self, nullable: bool, found: Mapping[str, Any]) -> LogicalType:
        """Return the type with attributes from the fields of a Java object."""
        arguments = {f.name for f in fields(self.type)}
        given = {name: value for name, value in self.attributes.items() if name in arguments}
        return self.type(**given, **found, nullable=nullable)

    def describes(self, type_: LogicalType) -> bool:
        """Return whether a type is of this Java class."""
        return type(type_) is self.type and all(getattr(type_, name) == value for name, value in self.attributes.items())

    @property
    def description(self) -> JavaClassDescription:
        """The description of the class in a stream."""
        described = tuple((f.signature, f.name) for f in self.fields)
        return JavaClassDescription(PACKAGE + self.name, self.uid, described, f"{PACKAGE}LogicalType")


_LENGTH: Final = (TypeField("length", "length"),)
_PRECISION: Final = TypeField("precision", "precision")
_OF_TIMESTAMP: Final = (_PRECISION, TypeField("kind", "kind", enum="TimestampKind"))
_ELEMENT: Final = (TypeField("elementType", "element", TYPE),)

TYPE_CLASSES: Final = {
    known.name: known
    for known in (
        *(TypeClass(a.type_class, a.root, AtomicType, attributes={"name": a.name}, uid=a.type_uid) for a in ATOMIC.values()),
        TypeClass("CharType", "CHAR", TextType, _LENGTH, {"name": "CHAR"}),
        TypeClass("VarCharType", "VARCHAR", TextType, _LENGTH, {"name": "VARCHAR"}),
        TypeClass("BinaryType", "BINARY", BytesType, _LENGTH, {"name": "BINARY"}),
        TypeClass("VarBinaryType", "VARBINARY", BytesType, _LENGTH, {"name": "VARBINARY"}),
        TypeClass("DateType", "DATE", DateType),
        TypeClass("TimeType", "TIME_WITHOUT_TIME_ZONE", TimeType, (_PRECISION,)),
        TypeClass("DecimalType", "DECIMAL", DecimalType, (_PRECISION, TypeField("scale", "scale"))),
        TypeClass("TimestampType", "TIMESTAMP_WITHOUT_TIME_ZONE", TimestampType, _OF_TIMESTAMP, {"local_zoned": False}),
        TypeClass(
            "LocalZonedTimestampType", "TIMESTAMP_WITH_LOCAL_TIME_ZONE", TimestampType, _OF_TIMESTAMP, {"local_zoned": True}
        ),
        TypeClass(
            "YearMonthIntervalType",
            "INTERVAL_YEAR_MONTH",
            IntervalType,
            (
                TypeField("yearPrecision", "precision"),
                TypeField("resolution", "resolution", enum="YearMonthIntervalType$YearMonthResolution"),
            ),
            {"in_months": True},
        ),
        TypeClass(
            "DayTimeIntervalType",
            "INTERVAL_DAY_TIME",
            IntervalType,
            (
                TypeField("dayPrecision", "precision"),
                TypeField("fractionalPrecision", "fraction"),
                TypeField("resolution", "resolution", enum="DayTimeIntervalType$DayTimeResolution"),
            ),
            {"in_months": False},
        ),
        TypeClass("ArrayType", "ARRAY", ArrayType, _ELEMENT),
        TypeClass("MultisetType", "MULTISET", MultisetType, _ELEMENT),
        TypeClass("MapType", "MAP", MapType, (TypeField("keyType", "key", TYPE), TypeField("valueType", "value", TYPE))),
        TypeClass("RowType", "ROW", RowType, (TypeField("fields", "fields", FIELDS),)),
    )
}
"""The Java classes by name. Types of user classes are only read (:mod:`~.table.logical_type_objects`)."""


def class_of(type_: LogicalType) -> TypeClass:
    """Return the Java class of a type.

    Raises
    ------
    UnsupportedFormatError
        If the type is of a user class.
    """
    found = next((known for known in TYPE_CLASSES.values() if known.describes(type_)), None)
    if found is None:
        raise UnsupportedFormatError(f"{type_} is of a user class: it can be carried over from a savepoint, but not made")
    return found
