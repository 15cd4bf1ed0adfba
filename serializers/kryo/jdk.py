"""The table of the JDK's classes: how each is read, written, shown and made from a column's value."""

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
from state_processor.serializers.kryo import containers, contents, making, times
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
from state_processor.serializers.kryo.types import BOXES, PRIMITIVES, JavaType
from state_processor.serializers.kryo.values import KryoMap
from state_processor.serializers.kryo.wire import KRYO_2, KRYO_5


@dataclass(frozen=True, slots=True)
class JdkClass:
    """A row of the table.

    Parameters
    ----------
    layouts
        How each version of Kryo writes the content; a version that isn't here doesn't write the class in a way that is known.
    make
        The content from a column's value, its text, or JSON. It raises ``ValueError``, ``TypeError`` or ``ArithmeticError``.
    show
        The plain value of a content.
    """

    layouts: Mapping[int, Layout]
    make: Callable[[Any], Any] = making.same
    show: Callable[[Any], Any] = making.same


def _both(layout: Layout, make: Callable[[Any], Any], show: Callable[[Any], Any] = making.same) -> JdkClass:
    return JdkClass({KRYO_2: layout, KRYO_5: layout}, make, show)


def _each(kryo_2: Layout, kryo_5: Layout, make: Callable[[Any], Any], show: Callable[[Any], Any] = making.same) -> JdkClass:
    return JdkClass({KRYO_2: kryo_2, KRYO_5: kryo_5}, make, show)


def _primitive(name: str, make: Callable[[Any], Any]) -> JdkClass:
    return _both(PRIMITIVE_LAYOUTS[BOXES[name]], make)


_ZONES: Final[dict[type, str]] = {times.Offset: "java.time.ZoneOffset", times.Region: "java.time.ZoneRegion"}

TABLE: Final[dict[str, JdkClass]] = {
    "java.lang.Boolean": _primitive("boolean", making.boolean),
    "java.lang.Byte": _primitive("byte", making.integer(8)),
    "java.lang.Character": _primitive("char", making.character),
    "java.lang.Short": _primitive("short", making.integer(16)),
    "java.lang.Integer": _primitive("int", making.integer(32)),
    "java.lang.Long": _primitive("long", making.integer(64)),
    "java.lang.Float": _primitive("float", making.float_32),
    "java.lang.Double": _primitive("double", float),
    "java.lang.String": _both(STRING, making.text),
    "java.lang.StringBuilder": _each(COUNTED, STRING, making.text),
    "java.lang.StringBuffer": _each(COUNTED, STRING, making.text),
    "java.lang.Void": _both(nothing(None), making.empty(None)),
    "java.lang.Class": _each(contents.CLASS_2, contents.CLASS_5, making.text),
    "java.math.BigInteger": _both(contents.BIG_INTEGER, making.big_integer),
    "java.math.BigDecimal": _both(contents.BIG_DECIMAL, making.big_decimal),
    "java.net.InetSocketAddress": _both(contents.ADDRESS, making.address),
    "java.net.URI": _both(STRING, making.text),
    "java.net.URL": JdkClass({KRYO_5: STRING}, making.text),
    "java.sql.Date": _both(POSITIVE_LONG, making.day_millis, making.day),
    "java.sql.Time": _both(POSITIVE_LONG, making.time_of_day_millis, making.clock),
    "java.sql.Timestamp": _each(contents.TIMESTAMP_2, contents.TIMESTAMP_5, to_instant),
    "java.text.SimpleDateFormat": _both(
        contents.DATE_FORMAT, making.nothing_new("java.text.SimpleDateFormat"), attrgetter("value")
    ),
    "java.util.BitSet": _both(contents.BITS, contents.Bits.of, attrgetter("bits")),
    "java.util.Currency": _both(STRING, making.text),
    "java.util.Date": _both(contents.MILLIS, making.instant_of_millis),
    "java.util.GregorianCalendar": _both(contents.CALENDAR, contents.Calendar.of, attrgetter("time")),
    "java.util.JumboEnumSet": _both(contents.ENUM_SET, making.nothing_new("java.util.JumboEnumSet"), attrgetter("constants")),
    "java.util.RegularEnumSet": _both(contents.ENUM_SET, making.nothing_new("java.util.RegularEnumSet"), attrgetter("constants")),
    "java.util.SimpleTimeZone": _both(STRING, making.text),
    "sun.util.calendar.ZoneInfo": _both(STRING, making.text),
    "java.util.Locale": _each(contents.LOCALE_2, contents.LOCALE_5, contents.Locale.of, str),
    "java.util.OptionalDouble": _each(optional_field(fixed("d"), float("nan")), optional(fixed("d")), float),
    "java.util.OptionalInt": _each(optional_field(INT, 0), optional(fixed("i")), making.integer(32)),
    "java.util.OptionalLong": _each(optional_field(LONG, 0), optional(fixed("q")), making.integer(64)),
    "java.util.UUID": _each(contents.UUID_2, contents.UUID_5, making.uuid),
    "java.util.regex.Pattern": _each(contents.PATTERN_2, contents.PATTERN_5, contents.Pattern.of, attrgetter("pattern")),
    "java.util.Collections$EmptyList": _both(nothing([]), making.empty([])),
    "java.util.Collections$EmptySet": _both(nothing([]), making.empty([])),
    "java.util.Collections$EmptyMap": _both(nothing(KryoMap()), making.empty(KryoMap())),
    "java.util.Collections$ReverseComparator": _both(nothing("reverse order"), making.same),
    "java.lang.String$CaseInsensitiveComparator": _both(nothing("case-insensitive order"), making.same),
    "java.util.concurrent.atomic.AtomicBoolean": _both(converted(INT, bool, int), making.boolean),
    "java.util.concurrent.atomic.AtomicInteger": _both(INT, making.integer(32)),
    "java.util.concurrent.atomic.AtomicLong": _both(LONG, making.integer(64)),
    "java.time.Duration": _each(
        by_fields(times.Duration, {"seconds": "long", "nanos": "int"}),
        sequence(times.Duration, fixed("q"), POSITIVE_INT),
        times.Duration.of,
        str,
    ),
    "java.time.Instant": _each(
        by_fields(Instant, {"seconds": "long", "nanos": "int"}), sequence(Instant, POSITIVE_LONG, POSITIVE_INT), to_instant
    ),
    "java.time.LocalDate": _each(
        by_fields(LocalDate, {"year": "int", "month": "short", "day": "short"}), contents.LOCAL_DATE_5, to_local_date
    ),
    "java.time.LocalTime": _each(
        by_fields(LocalTime, {"hour": "byte", "minute": "byte", "second": "byte", "nano": "int"}),
        contents.LOCAL_TIME_5,
        to_local_time,
    ),
    "java.time.LocalDateTime": _each(
        by_fields(LocalDateTime, {"date": "java.time.LocalDate", "time": "java.time.LocalTime"}),
        contents.LOCAL_DATE_TIME_5,
        to_local_date_time,
    ),
    "java.time.MonthDay": _each(
        by_fields(times.MonthDay, {"month": "int", "day": "int"}), sequence(times.MonthDay, BYTE, BYTE), times.MonthDay.of, str
    ),
    "java.time.OffsetDateTime": _each(
        by_fields(times.OffsetDateTime, {"dateTime": "java.time.LocalDateTime", "offset": "java.time.ZoneOffset"}),
        sequence(times.OffsetDateTime, contents.LOCAL_DATE_TIME_5, contents.OFFSET_5),
        times.OffsetDateTime.of,
        str,
    ),
    "java.time.OffsetTime": _each(
        by_fields(times.OffsetTime, {"time": "java.time.LocalTime", "offset": "java.time.ZoneOffset"}),
        sequence(times.OffsetTime, contents.LOCAL_TIME_5, contents.OFFSET_5),
        times.OffsetTime.of,
        str,
    ),
    "java.time.Period": _each(
        by_fields(times.Period, {"years": "int", "months": "int", "days": "int"}),
        sequence(times.Period, POSITIVE_INT, POSITIVE_INT, POSITIVE_INT),
        times.Period.of,
        str,
    ),
    "java.time.Year": _each(by_fields(times.Year, {"year": "int"}), sequence(times.Year, POSITIVE_INT), times.Year.of, str),
    "java.time.YearMonth": _each(
        by_fields(times.YearMonth, {"year": "int", "month": "int"}),
        sequence(times.YearMonth, POSITIVE_INT, BYTE),
        times.YearMonth.of,
        str,
    ),
    "java.time.ZonedDateTime": _each(
        by_fields(
            times.ZonedDateTime,
            {"dateTime": "java.time.LocalDateTime", "offset": "java.time.ZoneOffset", "zone": "java.time.ZoneId"},
            _ZONES,
            lambda v: (v.date_time, v.known_offset, v.zone),
        ),
        contents.ZONED_5,
        times.ZonedDateTime.of,
        str,
    ),
    "java.time.ZoneOffset": _each(by_fields(times.Offset, {"totalSeconds": "int"}), contents.OFFSET_5, times.Offset.of, str),
    "java.time.ZoneRegion": _each(
        by_fields(times.Region, {"id": "java.lang.String"}), converted(STRING, times.Region, str), times.Region.of, str
    ),
}
"""Classes whose objects are one value."""

EMPTY: Final = frozenset(name for name in TABLE if "Empty" in name or "Comparator" in name)
"""Classes whose objects take no bytes."""

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
"""Final classes, which Kryo leaves out where a field, an element of an array or a type argument is declared with one."""


def zone_class(value: times.Offset | times.Region) -> str:
    """The class of a ``ZoneId``."""
    return _ZONES[type(value)]


def is_final(name: str) -> bool:
    """Whether a class has no subclasses: values that are declared with it stand without their class."""
    if name.startswith("["):
        element = name.lstrip("[")
        return element in PRIMITIVES.values() or is_final(element[1:-1])
    if name in FINAL:
        return True
    described = user_class(name)
    return described is not None and described.name == name and described.final


def is_known(name: str) -> bool:
    """Whether values that are declared to be of a class or interface can be read, whatever JDK class they have."""
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
