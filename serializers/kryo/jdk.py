"""Table of classes of the JDK: layouts of their contents, columns, and conversions from and to columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Literal

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.core.temporal import InstantSerializer, LocalDateSerializer, LocalDateTimeSerializer
from state_processor.serializers.core.time_values import (
    Instant,
    LocalDate,
    LocalDateTime,
    LocalTime,
    to_instant,
    to_local_date,
    to_local_date_time,
    to_local_time,
)
from state_processor.serializers.java.types import BOXES, PRIMITIVES, JavaType
from state_processor.serializers.kryo import converters, java_time, jdk_layouts, layouts
from state_processor.serializers.kryo.classes import KryoMap, user_class
from state_processor.serializers.kryo.layouts import (
    BYTE,
    COUNTED,
    INT,
    LONG,
    POSITIVE_INT,
    POSITIVE_LONG,
    PRIMITIVE_LAYOUTS,
    STRING,
    Layout,
    by_fields,
    converted,
    fixed,
    nothing,
    optional,
    optional_field,
    sequence,
)
from state_processor.serializers.kryo.wire import KRYO_2, KRYO_5

TEXT: Final = "text"
"""A column of text: ``str`` of the plain value."""


@dataclass(frozen=True, slots=True)
class JdkClass:
    """A row of the table."""

    layouts: Mapping[int, Layout]  # layout of the content in each supported version of Kryo
    # converter of a value from a column, text or JSON. It raises ``ValueError``, ``TypeError`` or ``ArithmeticError``.
    make: Callable[[Any], Any] = converters.same
    show: Callable[[Any], Any] = converters.same  # returns the plain value of a content
    # the serializer with the column of values, or :data:`TEXT`; ``None`` for a column of JSON
    column: TypeSerializer | Literal["text"] | None = TEXT
    # whether the class is final. Kryo omits the class name if a field, an array element or a type argument is declared with it.
    final: bool = False


def _both_versions(
    layout: Layout, make: Callable[[Any], Any], show: Callable[[Any], Any] = converters.same, **flags: Any
) -> JdkClass:
    return JdkClass({KRYO_2: layout, KRYO_5: layout}, make, show, **flags)


def _each_version(
    kryo_2: Layout, kryo_5: Layout, make: Callable[[Any], Any], show: Callable[[Any], Any] = converters.same, **flags: Any
) -> JdkClass:
    return JdkClass({KRYO_2: kryo_2, KRYO_5: kryo_5}, make, show, **flags)


def _java_time(of: Any, fields: Mapping[str, str], *kryo_5: Layout) -> JdkClass:
    """Return the row of a final class of ``java.time``: its fields in Kryo 2, and its parts in Kryo 5."""
    return _each_version(by_fields(of, fields), sequence(of, *kryo_5), of.of, str, final=True)


def _primitive(name: str, make: Callable[[Any], Any]) -> JdkClass:
    column = TEXT if name == "char" else NumberSerializer(name.upper())
    return _both_versions(PRIMITIVE_LAYOUTS[BOXES[name]], make, column=column, final=True)


_INSTANT: Final = InstantSerializer()
_LOCAL_DATE: Final = LocalDateSerializer()
_LOCAL_DATE_TIME: Final = LocalDateTimeSerializer()
_ZONES: Final[dict[type, str]] = {java_time.Offset: "java.time.ZoneOffset", java_time.Region: "java.time.ZoneRegion"}

TABLE: Final[dict[str, JdkClass]] = {
    "java.lang.Boolean": _primitive("boolean", converters.boolean),
    "java.lang.Byte": _primitive("byte", converters.integer(8)),
    "java.lang.Character": _primitive("char", converters.character),
    "java.lang.Short": _primitive("short", converters.integer(16)),
    "java.lang.Integer": _primitive("int", converters.integer(32)),
    "java.lang.Long": _primitive("long", converters.integer(64)),
    "java.lang.Float": _primitive("float", converters.float_32),
    "java.lang.Double": _primitive("double", float),
    "java.lang.String": _both_versions(STRING, converters.text, final=True),
    "java.lang.StringBuilder": _each_version(COUNTED, STRING, converters.text, final=True),
    "java.lang.StringBuffer": _each_version(COUNTED, STRING, converters.text, final=True),
    "java.lang.Void": _both_versions(nothing(None), converters.empty(None), column=None),
    "java.lang.Class": _each_version(jdk_layouts.CLASS_2, jdk_layouts.CLASS_5, converters.text, final=True),
    "java.math.BigInteger": _both_versions(jdk_layouts.BIG_INTEGER, converters.big_integer),
    "java.math.BigDecimal": _both_versions(jdk_layouts.BIG_DECIMAL, converters.big_decimal),
    "java.net.InetSocketAddress": _both_versions(jdk_layouts.ADDRESS, converters.address),
    "java.net.URI": _both_versions(STRING, converters.text, final=True),
    "java.net.URL": JdkClass({KRYO_5: STRING}, converters.text),
    "java.sql.Date": _both_versions(POSITIVE_LONG, converters.day_millis, converters.day, column=_LOCAL_DATE),
    "java.sql.Time": _both_versions(POSITIVE_LONG, converters.time_of_day_millis, converters.clock),
    "java.sql.Timestamp": _each_version(jdk_layouts.TIMESTAMP_2, jdk_layouts.TIMESTAMP_5, to_instant, column=_INSTANT),
    "java.text.SimpleDateFormat": _both_versions(
        jdk_layouts.DATE_FORMAT, converters.nothing_new("java.text.SimpleDateFormat"), attrgetter("value"), column=None
    ),
    "java.util.BitSet": _both_versions(jdk_layouts.BITS, jdk_layouts.Bits.of, attrgetter("bits"), column=None),
    "java.util.Currency": _both_versions(STRING, converters.text, final=True),
    "java.util.Date": _both_versions(jdk_layouts.MILLIS, converters.instant_of_millis, column=_INSTANT),
    "java.util.GregorianCalendar": _both_versions(
        jdk_layouts.CALENDAR, jdk_layouts.Calendar.of, attrgetter("time"), column=_INSTANT
    ),
    "java.util.JumboEnumSet": _both_versions(
        jdk_layouts.ENUM_SET, converters.nothing_new("java.util.JumboEnumSet"), attrgetter("constants"), column=None
    ),
    "java.util.RegularEnumSet": _both_versions(
        jdk_layouts.ENUM_SET, converters.nothing_new("java.util.RegularEnumSet"), attrgetter("constants"), column=None
    ),
    "java.util.SimpleTimeZone": _both_versions(STRING, converters.text),
    "sun.util.calendar.ZoneInfo": _both_versions(STRING, converters.text),
    "java.util.Locale": _each_version(jdk_layouts.LOCALE_2, jdk_layouts.LOCALE_5, jdk_layouts.Locale.of, str, final=True),
    "java.util.OptionalDouble": _each_version(
        optional_field(fixed("d"), float("nan")), optional(fixed("d")), float, column=NumberSerializer("DOUBLE"), final=True
    ),
    "java.util.OptionalInt": _each_version(
        optional_field(INT, 0), optional(fixed("i")), converters.integer(32), column=NumberSerializer("INT"), final=True
    ),
    "java.util.OptionalLong": _each_version(
        optional_field(LONG, 0), optional(fixed("q")), converters.integer(64), column=NumberSerializer("LONG"), final=True
    ),
    "java.util.UUID": _each_version(jdk_layouts.UUID_2, jdk_layouts.UUID_5, converters.uuid, final=True),
    "java.util.regex.Pattern": _each_version(
        jdk_layouts.PATTERN_2, jdk_layouts.PATTERN_5, jdk_layouts.Pattern.of, attrgetter("pattern"), final=True
    ),
    "java.util.Collections$EmptyList": _both_versions(nothing([]), converters.empty([]), column=None),
    "java.util.Collections$EmptySet": _both_versions(nothing([]), converters.empty([]), column=None),
    "java.util.Collections$EmptyMap": _both_versions(nothing(KryoMap()), converters.empty(KryoMap()), column=None),
    "java.util.Collections$ReverseComparator": _both_versions(nothing("reverse order"), converters.same, column=None),
    "java.lang.String$CaseInsensitiveComparator": _both_versions(nothing("case-insensitive order"), converters.same, column=None),
    "java.util.concurrent.atomic.AtomicBoolean": _both_versions(
        converted(INT, bool, int), converters.boolean, column=NumberSerializer("BOOLEAN")
    ),
    "java.util.concurrent.atomic.AtomicInteger": _both_versions(INT, converters.integer(32), column=NumberSerializer("INT")),
    "java.util.concurrent.atomic.AtomicLong": _both_versions(LONG, converters.integer(64), column=NumberSerializer("LONG")),
    "java.time.Duration": _java_time(java_time.Duration, {"seconds": "long", "nanos": "int"}, fixed("q"), POSITIVE_INT),
    "java.time.Instant": _each_version(
        by_fields(Instant, {"seconds": "long", "nanos": "int"}),
        sequence(Instant, POSITIVE_LONG, POSITIVE_INT),
        to_instant,
        column=_INSTANT,
        final=True,
    ),
    "java.time.LocalDate": _each_version(
        by_fields(LocalDate, {"year": "int", "month": "short", "day": "short"}),
        jdk_layouts.LOCAL_DATE_5,
        to_local_date,
        column=_LOCAL_DATE,
        final=True,
    ),
    "java.time.LocalTime": _each_version(
        by_fields(LocalTime, {"hour": "byte", "minute": "byte", "second": "byte", "nano": "int"}),
        jdk_layouts.LOCAL_TIME_5,
        to_local_time,
        final=True,
    ),
    "java.time.LocalDateTime": _each_version(
        by_fields(LocalDateTime, {"date": "java.time.LocalDate", "time": "java.time.LocalTime"}),
        jdk_layouts.LOCAL_DATE_TIME_5,
        to_local_date_time,
        column=_LOCAL_DATE_TIME,
        final=True,
    ),
    "java.time.MonthDay": _java_time(java_time.MonthDay, {"month": "int", "day": "int"}, BYTE, BYTE),
    "java.time.OffsetDateTime": _java_time(
        java_time.OffsetDateTime,
        {"dateTime": "java.time.LocalDateTime", "offset": "java.time.ZoneOffset"},
        jdk_layouts.LOCAL_DATE_TIME_5,
        jdk_layouts.OFFSET,
    ),
    "java.time.OffsetTime": _java_time(
        java_time.OffsetTime,
        {"time": "java.time.LocalTime", "offset": "java.time.ZoneOffset"},
        jdk_layouts.LOCAL_TIME_5,
        jdk_layouts.OFFSET,
    ),
    "java.time.Period": _java_time(
        java_time.Period, {"years": "int", "months": "int", "days": "int"}, POSITIVE_INT, POSITIVE_INT, POSITIVE_INT
    ),
    "java.time.Year": _java_time(java_time.Year, {"year": "int"}, POSITIVE_INT),
    "java.time.YearMonth": _java_time(java_time.YearMonth, {"year": "int", "month": "int"}, POSITIVE_INT, BYTE),
    "java.time.ZonedDateTime": _each_version(
        by_fields(
            java_time.ZonedDateTime,
            {"dateTime": "java.time.LocalDateTime", "offset": "java.time.ZoneOffset", "zone": "java.time.ZoneId"},
            _ZONES,
            lambda v: (v.date_time, v.known_offset, v.zone),
        ),
        jdk_layouts.ZONED_5,
        java_time.ZonedDateTime.of,
        str,
        final=True,
    ),
    "java.time.ZoneOffset": _each_version(
        by_fields(java_time.Offset, {"totalSeconds": "int"}), jdk_layouts.OFFSET, java_time.Offset.of, str, final=True
    ),
    "java.time.ZoneRegion": _each_version(
        by_fields(java_time.Region, {"id": "java.lang.String"}),
        converted(STRING, java_time.Region, str),
        java_time.Region.of,
        str,
    ),
}
"""Classes that values may be of, by name."""

EMPTY: Final = frozenset(name for name in TABLE if "Empty" in name or "Comparator" in name)
"""Classes whose objects take zero bytes."""

_DECLARED_AS: Final = {**layouts.NEW_OF, "java.time.ZoneId": "java.time.ZoneRegion"}
"""Classes with the columns of values that are declared with an interface or an abstract class."""


def zone_class(value: java_time.Offset | java_time.Region) -> str:
    """Return the class of a ``ZoneId``."""
    return _ZONES[type(value)]


def column_of(name: str) -> TypeSerializer | Literal["text"] | None:
    """Return the column of values that are declared with a class, a primitive type or an interface, as ``JdkClass.column``."""
    row = TABLE.get(BOXES.get(name, name)) or TABLE.get(_DECLARED_AS.get(name, name))
    return None if row is None else row.column


def is_final(name: str) -> bool:
    """Return True for a class without subclasses; Kryo omits its name in values that are declared with it."""
    if name.startswith("["):
        element = name.lstrip("[")
        return element in PRIMITIVES.values() or is_final(element[1:-1])
    row = TABLE.get(name)
    if name == layouts.OPTIONAL or (row is not None and row.final):
        return True
    described = user_class(name)
    return described is not None and described.name == name and described.final


def is_known(name: str) -> bool:
    """Return True if values declared with a class or interface can be read, with any class of the JDK that fits."""
    return (
        name in TABLE
        or name in layouts.OPEN
        or layouts.is_collection(name)
        or layouts.is_map(name)
        or name in (layouts.AS_LIST, layouts.OPTIONAL, layouts.SINGLETON_MAP)
        or name in layouts.SINGLETONS
        or user_class(name) is not None
        or (name.startswith("[") and (JavaType(name).component in PRIMITIVES or is_known(JavaType(name).component)))
    )
