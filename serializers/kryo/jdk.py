"""Table of classes of the JDK: layouts of their contents, and conversions from and to columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

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
from state_processor.serializers.kryo import containers, converters, java_time, jdk_layouts
from state_processor.serializers.kryo.classes import user_class
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
from state_processor.serializers.kryo.values import KryoMap
from state_processor.serializers.kryo.wire import KRYO_2, KRYO_5


@dataclass(frozen=True, slots=True)
class JdkClass:
    """A row of the table.

    Parameters
    ----------
    layouts
        Layout of the content in each supported version of Kryo.
    make
        Converter of a value from a column, text or JSON. It raises ``ValueError``, ``TypeError`` or ``ArithmeticError``.
    show
        Returns the plain value of a content.
    """

    layouts: Mapping[int, Layout]
    make: Callable[[Any], Any] = converters.same
    show: Callable[[Any], Any] = converters.same


def _both(layout: Layout, make: Callable[[Any], Any], show: Callable[[Any], Any] = converters.same) -> JdkClass:
    return JdkClass({KRYO_2: layout, KRYO_5: layout}, make, show)


def _each(kryo_2: Layout, kryo_5: Layout, make: Callable[[Any], Any], show: Callable[[Any], Any] = converters.same) -> JdkClass:
    return JdkClass({KRYO_2: kryo_2, KRYO_5: kryo_5}, make, show)


def _primitive(name: str, make: Callable[[Any], Any]) -> JdkClass:
    return _both(PRIMITIVE_LAYOUTS[BOXES[name]], make)


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
    "java.lang.String": _both(STRING, converters.text),
    "java.lang.StringBuilder": _each(COUNTED, STRING, converters.text),
    "java.lang.StringBuffer": _each(COUNTED, STRING, converters.text),
    "java.lang.Void": _both(nothing(None), converters.empty(None)),
    "java.lang.Class": _each(jdk_layouts.CLASS_2, jdk_layouts.CLASS_5, converters.text),
    "java.math.BigInteger": _both(jdk_layouts.BIG_INTEGER, converters.big_integer),
    "java.math.BigDecimal": _both(jdk_layouts.BIG_DECIMAL, converters.big_decimal),
    "java.net.InetSocketAddress": _both(jdk_layouts.ADDRESS, converters.address),
    "java.net.URI": _both(STRING, converters.text),
    "java.net.URL": JdkClass({KRYO_5: STRING}, converters.text),
    "java.sql.Date": _both(POSITIVE_LONG, converters.day_millis, converters.day),
    "java.sql.Time": _both(POSITIVE_LONG, converters.time_of_day_millis, converters.clock),
    "java.sql.Timestamp": _each(jdk_layouts.TIMESTAMP_2, jdk_layouts.TIMESTAMP_5, to_instant),
    "java.text.SimpleDateFormat": _both(
        jdk_layouts.DATE_FORMAT, converters.nothing_new("java.text.SimpleDateFormat"), attrgetter("value")
    ),
    "java.util.BitSet": _both(jdk_layouts.BITS, jdk_layouts.Bits.of, attrgetter("bits")),
    "java.util.Currency": _both(STRING, converters.text),
    "java.util.Date": _both(jdk_layouts.MILLIS, converters.instant_of_millis),
    "java.util.GregorianCalendar": _both(jdk_layouts.CALENDAR, jdk_layouts.Calendar.of, attrgetter("time")),
    "java.util.JumboEnumSet": _both(
        jdk_layouts.ENUM_SET, converters.nothing_new("java.util.JumboEnumSet"), attrgetter("constants")
    ),
    "java.util.RegularEnumSet": _both(
        jdk_layouts.ENUM_SET, converters.nothing_new("java.util.RegularEnumSet"), attrgetter("constants")
    ),
    "java.util.SimpleTimeZone": _both(STRING, converters.text),
    "sun.util.calendar.ZoneInfo": _both(STRING, converters.text),
    "java.util.Locale": _each(jdk_layouts.LOCALE_2, jdk_layouts.LOCALE_5, jdk_layouts.Locale.of, str),
    "java.util.OptionalDouble": _each(optional_field(fixed("d"), float("nan")), optional(fixed("d")), float),
    "java.util.OptionalInt": _each(optional_field(INT, 0), optional(fixed("i")), converters.integer(32)),
    "java.util.OptionalLong": _each(optional_field(LONG, 0), optional(fixed("q")), converters.integer(64)),
    "java.util.UUID": _each(jdk_layouts.UUID_2, jdk_layouts.UUID_5, converters.uuid),
    "java.util.regex.Pattern": _each(jdk_layouts.PATTERN_2, jdk_layouts.PATTERN_5, jdk_layouts.Pattern.of, attrgetter("pattern")),
    "java.util.Collections$EmptyList": _both(nothing([]), converters.empty([])),
    "java.util.Collections$EmptySet": _both(nothing([]), converters.empty([])),
    "java.util.Collections$EmptyMap": _both(nothing(KryoMap()), converters.empty(KryoMap())),
    "java.util.Collections$ReverseComparator": _both(nothing("reverse order"), converters.same),
    "java.lang.String$CaseInsensitiveComparator": _both(nothing("case-insensitive order"), converters.same),
    "java.util.concurrent.atomic.AtomicBoolean": _both(converted(INT, bool, int), converters.boolean),
    "java.util.concurrent.atomic.AtomicInteger": _both(INT, converters.integer(32)),
    "java.util.concurrent.atomic.AtomicLong": _both(LONG, converters.integer(64)),
    "java.time.Duration": _each(
        by_fields(java_time.Duration, {"seconds": "long", "nanos": "int"}),
        sequence(java_time.Duration, fixed("q"), POSITIVE_INT),
        java_time.Duration.of,
        str,
    ),
    "java.time.Instant": _each(
        by_fields(Instant, {"seconds": "long", "nanos": "int"}), sequence(Instant, POSITIVE_LONG, POSITIVE_INT), to_instant
    ),
    "java.time.LocalDate": _each(
        by_fields(LocalDate, {"year": "int", "month": "short", "day": "short"}), jdk_layouts.LOCAL_DATE_5, to_local_date
    ),
    "java.time.LocalTime": _each(
        by_fields(LocalTime, {"hour": "byte", "minute": "byte", "second": "byte", "nano": "int"}),
        jdk_layouts.LOCAL_TIME_5,
        to_local_time,
    ),
    "java.time.LocalDateTime": _each(
        by_fields(LocalDateTime, {"date": "java.time.LocalDate", "time": "java.time.LocalTime"}),
        jdk_layouts.LOCAL_DATE_TIME_5,
        to_local_date_time,
    ),
    "java.time.MonthDay": _each(
        by_fields(java_time.MonthDay, {"month": "int", "day": "int"}),
        sequence(java_time.MonthDay, BYTE, BYTE),
        java_time.MonthDay.of,
        str,
    ),
    "java.time.OffsetDateTime": _each(
        by_fields(java_time.OffsetDateTime, {"dateTime": "java.time.LocalDateTime", "offset": "java.time.ZoneOffset"}),
        sequence(java_time.OffsetDateTime, jdk_layouts.LOCAL_DATE_TIME_5, jdk_layouts.OFFSET_5),
        java_time.OffsetDateTime.of,
        str,
    ),
    "java.time.OffsetTime": _each(
        by_fields(java_time.OffsetTime, {"time": "java.time.LocalTime", "offset": "java.time.ZoneOffset"}),
        sequence(java_time.OffsetTime, jdk_layouts.LOCAL_TIME_5, jdk_layouts.OFFSET_5),
        java_time.OffsetTime.of,
        str,
    ),
    "java.time.Period": _each(
        by_fields(java_time.Period, {"years": "int", "months": "int", "days": "int"}),
        sequence(java_time.Period, POSITIVE_INT, POSITIVE_INT, POSITIVE_INT),
        java_time.Period.of,
        str,
    ),
    "java.time.Year": _each(
        by_fields(java_time.Year, {"year": "int"}), sequence(java_time.Year, POSITIVE_INT), java_time.Year.of, str
    ),
    "java.time.YearMonth": _each(
        by_fields(java_time.YearMonth, {"year": "int", "month": "int"}),
        sequence(java_time.YearMonth, POSITIVE_INT, BYTE),
        java_time.YearMonth.of,
        str,
    ),
    "java.time.ZonedDateTime": _each(
        by_fields(
            java_time.ZonedDateTime,
            {"dateTime": "java.time.LocalDateTime", "offset": "java.time.ZoneOffset", "zone": "java.time.ZoneId"},
            _ZONES,
            lambda v: (v.date_time, v.known_offset, v.zone),
        ),
        jdk_layouts.ZONED_5,
        java_time.ZonedDateTime.of,
        str,
    ),
    "java.time.ZoneOffset": _each(
        by_fields(java_time.Offset, {"totalSeconds": "int"}), jdk_layouts.OFFSET_5, java_time.Offset.of, str
    ),
    "java.time.ZoneRegion": _each(
        by_fields(java_time.Region, {"id": "java.lang.String"}),
        converted(STRING, java_time.Region, str),
        java_time.Region.of,
        str,
    ),
}
"""Classes whose objects are all equal to one value."""

EMPTY: Final = frozenset(name for name in TABLE if "Empty" in name or "Comparator" in name)
"""Classes whose objects take zero bytes."""

FINAL: Final = frozenset(
    {
        *BOXES.values(),
        *(f"java.lang.{name}" for name in ("String", "StringBuilder", "StringBuffer", "Class")),
        "java.net.URI",
        *(f"java.util.{name}" for name in ("UUID", "Locale", "Currency", "regex.Pattern")),
        *(f"java.util.Optional{kind}" for kind in ("", "Int", "Long", "Double")),
        *(name for name in TABLE if name.startswith("java.time.") and name != "java.time.ZoneRegion"),
    }
)
"""Final classes. Kryo omits the class name if a field, an array element or a type argument is declared with one."""


def zone_class(value: java_time.Offset | java_time.Region) -> str:
    """Return the class of a ``ZoneId``."""
    return _ZONES[type(value)]


def is_final(name: str) -> bool:
    """Return True for a class without subclasses; Kryo omits its name in values that are declared with it."""
    if name.startswith("["):
        element = name.lstrip("[")
        return element in PRIMITIVES.values() or is_final(element[1:-1])
    if name in FINAL:
        return True
    described = user_class(name)
    return described is not None and described.name == name and described.final


def is_known(name: str) -> bool:
    """Return True if values declared with a class or interface can be read, with any class of the JDK that fits."""
    return (
        name in TABLE
        or name in containers.OPEN
        or containers.is_collection(name)
        or containers.is_map(name)
        or name in (containers.AS_LIST, containers.OPTIONAL, containers.SINGLETON_MAP)
        or name in containers.SINGLETONS
        or user_class(name) is not None
        or (name.startswith("[") and (JavaType(name).component in PRIMITIVES or is_known(JavaType(name).component)))
    )
