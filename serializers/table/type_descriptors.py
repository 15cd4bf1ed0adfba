"""The types of Flink SQL: one row for each type. Its text, its Java objects and the codecs of its values follow from the row.

Rows of types with nested types lack codecs. The modules of binary rows, of serializers and of Python's rows have them: these
codecs look up the codecs of nested types here.

:func:`parse_logical_type` parses types in SQL syntax: ``ROW<id BIGINT NOT NULL, name STRING>`` (Flink: ``LogicalTypeParser``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.arrays import BytesSerializer
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.io import MAX_NESTING
from state_processor.serializers.java.object_output import JavaClassDescription
from state_processor.serializers.java.types import BOXES
from state_processor.serializers.registry import BASE
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
    MAX_LENGTH,
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
from state_processor.serializers.table.python_state import PythonDateSerializer, PythonDecimalSerializer, PythonTimeSerializer
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
from state_processor.support.errors import OptionError, UnsupportedFormatError
from state_processor.support.mappings import by_each_key, names_of, only_keys

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
    # its names in SQL, of one or two words; empty if its text has a syntax of its own (:data:`_OF_OWN_SYNTAX`)
    names: tuple[str, ...] = ()
    uid: int = 1  # the ``serialVersionUID`` of the Java class

    def make(self, nullable: bool, parameters: Mapping[str, Any]) -> LogicalType:
        """Return the type with attributes from the fields of a Java object, or from SQL text."""
        arguments = set(names_of(fields(self.type)))
        arguments_of_type = only_keys(self.attributes, arguments)
        return self.type(**arguments_of_type, **parameters, nullable=nullable)

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


def find_descriptor(type_: LogicalType) -> SqlType | None:
    """Return the row of a type; ``None`` if the type is of a user class."""
    for sql_type in SQL_TYPES:
        if sql_type.type is type(type_) and sql_type.describes(type_):
            return sql_type
    return None


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


# Types in SQL syntax

_TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^']|'')*')|([A-Za-z_]\w*)|([0-9]+)|([<>(),]))")
_ZONED: Final = ("TIME", "TIMESTAMP")
"""Types with an optional zone behind their precision."""
_NANOS: Final = 9
_YEARS: Final = ("YEAR", "MONTH")
_UNITS: Final = (*_YEARS, "DAY", "HOUR", "MINUTE", "SECOND")

_LONGEST: Final[Mapping[str, Callable[[], LogicalType]]] = {"STRING": TextType, "BYTES": BytesType}
"""Names of types with the greatest length."""
_NAMED: Final = by_each_key((sql_type.names, sql_type) for sql_type in SQL_TYPES)


def parse_logical_type(text: str) -> LogicalType:
    """Parse the text of a type.

    Parameters
    ----------
    text
        A type of Flink SQL. Names of fields that are not identifiers are quoted with backticks.

    Raises
    ------
    OptionError
        If it is not a type; the message gives the position.
    """
    parser = _Parser(text)
    type_ = parser.type()
    parser.end()
    return type_


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    def type(self) -> LogicalType:
        """Parse a type and its suffixes: ``NOT NULL``, ``ARRAY``, ``MULTISET``."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self._problem(f"more than {MAX_NESTING} types nested in one another", self._position)
        type_ = self._nullable(self._plain())
        while (word := self._peek().upper()) in ("ARRAY", "MULTISET"):
            self._next()
            type_ = self._nullable(ArrayType(type_) if word == "ARRAY" else MultisetType(type_))
        self._depth -= 1
        return type_

    def end(self) -> None:
        if self._text[self._position :].strip():
            raise self._problem("expected the end of the text", self._position)

    def _nullable(self, type_: LogicalType) -> LogicalType:
        if self._take("NOT"):
            self._expect("NULL")
            return replace(type_, nullable=False)
        self._take("NULL")
        return type_

    def _plain(self) -> LogicalType:
        start = self._position
        word = self._next().upper()
        if word in _LONGEST:
            return _LONGEST[word]()
        if word in _OF_OWN_SYNTAX:
            return _OF_OWN_SYNTAX[word](self)
        if word in _NAMED:
            return self._named(word)
        raise self._problem(f"{word!r} is not a type of Flink SQL", start)

    def _named(self, name: str) -> LogicalType:
        """Parse the rest of a name, numbers in parentheses, and a zone."""
        longer = f"{name} {self._peek().upper()}"
        if longer in _NAMED:
            self._next()
        sql_type = _NAMED.get(longer, _NAMED[name])
        parameters = sql_type.numbers
        numbers = self._numbers(*(p.default for p in parameters)) if parameters else ()
        type_ = sql_type.make(True, {p.attribute: number for p, number in zip(parameters, numbers, strict=True)})
        if name in _ZONED:
            type_ = self._zoned(type_)
        if isinstance(type_, TimeType | TimestampType) and type_.precision > _NANOS:
            raise self._problem(f"{type_.precision} digits of a second, more than nine", self._position)
        return type_

    def _numbers(self, *defaults: int) -> list[int]:
        """Parse numbers in parentheses, at most as many as there are defaults."""
        start = self._position
        if not self._take("("):
            return list(defaults)
        numbers = [self._number()]
        while self._take(","):
            numbers.append(self._number())
        self._expect(")")
        if len(numbers) > len(defaults):
            raise self._problem(f"{len(numbers)} numbers where {len(defaults)} may be", start)
        return numbers + list(defaults[len(numbers) :])

    def _number(self) -> int:
        start = self._position
        token = self._next()
        if not token.isdecimal() or int(token) > MAX_LENGTH:
            raise self._problem("expected a number", start)
        return int(token)

    def _zoned(self, type_: LogicalType) -> LogicalType:
        """Parse the zone behind a time of day or a timestamp."""
        if isinstance(type_, TimestampType) and self._take("WITH"):
            self._words("LOCAL", "TIME", "ZONE")
            type_ = replace(type_, local_zoned=True)
        elif self._take("WITHOUT"):
            self._words("TIME", "ZONE")
        return type_

    def _words(self, *words: str) -> None:
        for word in words:
            self._expect(word)

    def _interval(self) -> LogicalType:
        start = self._position
        first, of_first = self._unit()
        last, of_last = self._unit() if self._take("TO") else (first, of_first)
        if (first in _YEARS) != (last in _YEARS) or _UNITS.index(first) > _UNITS.index(last):
            raise self._problem(f"an interval from {first} to {last} does not exist", start)
        default = IntervalType(first if first == last else f"{first}_TO_{last}")
        precision = of_first if of_first is not None and first in ("YEAR", "DAY") else default.precision
        fraction = of_last if of_last is not None and last == "SECOND" else default.fraction
        return IntervalType(default.resolution, precision, fraction)

    def _unit(self) -> tuple[str, int | None]:
        start = self._position
        word = self._next().upper()
        if word not in _UNITS:
            raise self._problem(f"expected one of {', '.join(_UNITS)}", start)
        return word, self._numbers(0)[0] if self._peek() == "(" else None

    def _array(self) -> LogicalType:
        (element,) = self._inside(1)
        return ArrayType(element)

    def _multiset(self) -> LogicalType:
        (element,) = self._inside(1)
        return MultisetType(element)

    def _map(self) -> LogicalType:
        return MapType(*self._inside(2))

    def _inside(self, count: int) -> list[LogicalType]:
        self._expect("<")
        types = [self.type()]
        while len(types) < count:
            self._expect(",")
            types.append(self.type())
        self._expect(">")
        return types

    def _row(self) -> LogicalType:
        start = self._position
        opening = self._next()
        if opening not in ("<", "("):
            raise self._problem("expected the fields of a ROW in angle brackets", start)
        closing = ">" if opening == "<" else ")"
        fields: list[RowField] = []
        if not self._take(closing):
            fields.append(self._field())
            while self._take(","):
                fields.append(self._field())
            self._expect(closing)
        return RowType(tuple(fields))

    def _field(self) -> RowField:
        start = self._position
        name = self._next()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        elif not name[0].isalpha() and name[0] != "_":
            raise self._problem("expected the name of a field", start)
        type_ = self.type()
        description = self._next()[1:-1].replace("''", "'") if self._peek().startswith("'") else None
        return RowField(name, type_, description)

    def _take(self, token: str) -> bool:
        is_next = self._peek().upper() == token
        if is_next:
            self._next()
        return is_next

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise self._problem(f"expected {token!r}", self._position)

    def _peek(self) -> str:
        match = _TOKEN.match(self._text, self._position)
        return match[0].strip() if match else ""

    def _next(self) -> str:
        match = _TOKEN.match(self._text, self._position)
        if match is None:
            raise self._problem("unexpected end, or unexpected character", self._position)
        self._position = match.end()
        return match[0].strip()

    def _problem(self, problem: str, position: int) -> OptionError:
        return OptionError(f"type {self._text!r}, at character {position}: {problem}")


_OF_OWN_SYNTAX: Final[dict[str, Callable[[_Parser], LogicalType]]] = {
    "INTERVAL": _Parser._interval,
    "ARRAY": _Parser._array,
    "MULTISET": _Parser._multiset,
    "MAP": _Parser._map,
    "ROW": _Parser._row,
}
"""Intervals, and types with nested types."""
