"""The table of the JDK's classes: how each is read, written, shown and made from a column's value."""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from operator import attrgetter, index
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from state_processor.serializers.basic import unscaled_and_scale
from state_processor.serializers.io import encode_modified_utf8
from state_processor.serializers.java_objects import read_java_object
from state_processor.serializers.kryo import times
from state_processor.serializers.kryo.classes import unknown_class, user_class
from state_processor.serializers.kryo.layouts import (
    BOOLEAN,
    BYTE,
    COUNTED,
    INT,
    LONG,
    POSITIVE_INT,
    POSITIVE_LONG,
    PRIMITIVE_LAYOUTS,
    STRING,
    TEXT,
    Layout,
    by_fields,
    converted,
    fixed,
    java_stream,
    nothing,
    optional,
    optional_field,
    sequence,
)
from state_processor.serializers.kryo.types import BOXES, PRIMITIVES, UNBOXED, JavaType
from state_processor.serializers.kryo.values import BigInteger, KryoMap
from state_processor.serializers.kryo.wire import KRYO_2, KRYO_5
from state_processor.serializers.temporal import (
    Instant,
    LocalDate,
    LocalDateTime,
    LocalTime,
    exact_millis,
    to_instant,
    to_local_date,
    to_local_date_time,
    to_local_time,
)

if TYPE_CHECKING:
    from state_processor.serializers.kryo.reader import KryoReader
    from state_processor.serializers.kryo.writer import KryoWriter

_DAY_MS: Final = 86_400_000
_WORD: Final = (1 << 64) - 1
_LARGEST_BIT: Final = (1 << 31) - 1


# Containers

_UTIL: Final = "java.util."


def _of_util(*names: str) -> frozenset[str]:
    return frozenset(_UTIL + name for name in names)


AS_LIST: Final = "java.util.Arrays$ArrayList"
OPTIONAL: Final = "java.util.Optional"
IMMUTABLE: Final = _of_util(*(f"ImmutableCollections${name}" for name in ("List12", "ListN", "Set12", "SetN", "SubList")))
"""Collections that Kryo 5 knows to hold no null."""
ORDERED_SETS: Final = _of_util("TreeSet", "PriorityQueue")
"""Collections with a comparator."""
ORDERED_MAPS: Final = _of_util("TreeMap")
COLLECTIONS: Final = (
    _of_util(
        *("ArrayList", "LinkedList", "Vector", "Stack", "ArrayDeque", "HashSet", "LinkedHashSet", "IdentityHashMap$KeySet"),
        *(
            f"Collections$Unmodifiable{kind}"
            for kind in ("Collection", "List", "RandomAccessList", "Set", "SortedSet", "NavigableSet")
        ),
        *(f"Collections$Synchronized{kind}" for kind in ("Collection", "List", "RandomAccessList", "Set", "SortedSet")),
        *("Collections$SetFromMap", "Collections$CopiesList", "HashMap$KeySet", "HashMap$Values"),
        *("LinkedHashMap$LinkedKeySet", "LinkedHashMap$LinkedValues", "TreeMap$KeySet", "TreeMap$Values"),
        *("ArrayList$SubList", "AbstractList$SubList", "AbstractList$RandomAccessSubList", "SubList", "RandomAccessSubList"),
        *(f"concurrent.CopyOnWriteArray{kind}" for kind in ("List", "Set")),
        *(f"concurrent.{name}" for name in ("ConcurrentLinkedQueue", "ConcurrentLinkedDeque", "LinkedBlockingQueue")),
        *(f"concurrent.{name}" for name in ("LinkedBlockingDeque", "ConcurrentSkipListSet", "ConcurrentHashMap$KeySetView")),
    )
    | {"org.apache.avro.generic.GenericData$Array", AS_LIST}
    | IMMUTABLE
    | ORDERED_SETS
)
MAPS: Final = (
    _of_util(
        *("HashMap", "LinkedHashMap", "Hashtable", "Properties", "IdentityHashMap", "WeakHashMap", "EnumMap"),
        *("concurrent.ConcurrentHashMap", "ImmutableCollections$Map1", "ImmutableCollections$MapN"),
        *(f"Collections$Unmodifiable{kind}Map" for kind in ("", "Sorted", "Navigable")),
        *(f"Collections$Synchronized{kind}Map" for kind in ("", "Sorted")),
    )
    | ORDERED_MAPS
)
SINGLETONS: Final = _of_util("Collections$SingletonList", "Collections$SingletonSet")
SINGLETON_MAP: Final = "java.util.Collections$SingletonMap"

NEW_OF: Final = {
    **dict.fromkeys(_of_util("Collection", "List", "AbstractList", "AbstractCollection"), "java.util.ArrayList"),
    **dict.fromkeys(_of_util("Set", "AbstractSet"), "java.util.HashSet"),
    **dict.fromkeys(_of_util("SortedSet", "NavigableSet"), "java.util.TreeSet"),
    **dict.fromkeys(_of_util("Queue", "Deque"), "java.util.LinkedList"),
    **dict.fromkeys(_of_util("Map", "AbstractMap"), "java.util.HashMap"),
    **dict.fromkeys(_of_util("SortedMap", "NavigableMap"), "java.util.TreeMap"),
    "java.util.concurrent.ConcurrentMap": "java.util.concurrent.ConcurrentHashMap",
    "java.lang.Iterable": "java.util.ArrayList",
    "java.util.TimeZone": "sun.util.calendar.ZoneInfo",
    "java.util.Calendar": "java.util.GregorianCalendar",
    "java.util.EnumSet": "java.util.RegularEnumSet",
}
"""The class that new values get where a field is declared with an interface or an abstract class."""

_OPEN: Final = frozenset(
    {
        *(f"java.lang.{name}" for name in ("Object", "Number", "Comparable", "CharSequence", "Iterable")),
        "java.io.Serializable",
        "java.time.ZoneId",
        *_of_util("TimeZone", "Calendar", "EnumSet"),
    }
)
"""Types whose values can be of any of the classes known here."""

_COLLECTION_TYPES: Final = _of_util(
    *("Collection", "List", "Set", "SortedSet", "NavigableSet", "Queue", "Deque", "AbstractList", "AbstractCollection"),
    "AbstractSet",
)
_MAP_TYPES: Final = _of_util("Map", "SortedMap", "NavigableMap", "AbstractMap", "concurrent.ConcurrentMap")


def is_collection(name: str) -> bool:
    """Whether a class or interface holds elements one after the other."""
    return (name in COLLECTIONS and name != AS_LIST) or name in _COLLECTION_TYPES


def is_map(name: str) -> bool:
    """Whether a class or interface holds keys and values."""
    return name in MAPS or name in _MAP_TYPES


# Contents of their own


class Calendar(NamedTuple):
    """``java.util.GregorianCalendar``."""

    zone: str
    time: Instant
    lenient: bool
    first_day_of_week: int
    minimal_days: int
    gregorian_change: int

    @classmethod
    def of(cls, value: Any) -> Calendar:
        """A point in time in a calendar as Java makes them, in UTC."""
        return cls("UTC", to_instant(value), True, 1, 1, -12_219_292_800_000)


class Pattern(NamedTuple):
    """``java.util.regex.Pattern``; Kryo 2 leaves out the flags."""

    pattern: str | None
    flags: int = 0

    def __str__(self) -> str:
        return str(self.pattern)

    @classmethod
    def of(cls, value: Any) -> Pattern:
        """From the regular expression."""
        return cls(_text(value))


class Locale(NamedTuple):
    """``java.util.Locale``; Kryo 5 leaves out script and extensions."""

    language: str
    country: str
    variant: str
    script: str = ""
    extensions: str = ""

    def __str__(self) -> str:
        return "_".join(part for part in self[:3] if part)

    @classmethod
    def of(cls, value: Any) -> Locale:
        """From text like ``de_DE``."""
        language, country, variant = [*_text(value).split("_", 2), "", ""][:3]
        return cls(language, country, variant)


class Bits(NamedTuple):
    """``java.util.BitSet``: the set bits, and of how many words Kryo 2 wrote it."""

    bits: list[int]
    words: int = 0

    @property
    def needed(self) -> int:
        """The words up to the last set bit."""
        return max(self.bits, default=-1) // 64 + 1

    @classmethod
    def of(cls, value: Any) -> Bits:
        """From the numbers of the set bits."""
        bits = sorted({index(bit) for bit in value})
        if bits and not 0 <= bits[0] <= bits[-1] < _LARGEST_BIT:
            raise ValueError(f"a BitSet has bits from 0 to {_LARGEST_BIT - 1}")
        return cls(bits)


class EnumSet(NamedTuple):
    """``java.util.EnumSet``: the class of the enum, and constants."""

    enum_class: str
    constants: list[str | None]


# Layouts


def _read_big_integer(reader: KryoReader) -> BigInteger | None:
    size = reader.varint()
    if size == 0:
        return None
    return BigInteger(int.from_bytes(reader.source.read_bytes(size - 1, "big integer"), "big", signed=True))


def _write_big_integer(writer: KryoWriter, value: int | None) -> None:
    if value is None:
        writer.varint(0)
        return
    size = (value if value >= 0 else ~value).bit_length() // 8 + 1
    writer.varint(size + 1)
    writer.target.write_bytes(int(value).to_bytes(size, "big", signed=True))


def _read_big_decimal(reader: KryoReader) -> Decimal | None:
    unscaled = _read_big_integer(reader)
    if unscaled is None:
        return None
    return Decimal((int(unscaled < 0), Decimal(unscaled).as_tuple().digits, -reader.int_()))


def _write_big_decimal(writer: KryoWriter, value: Decimal | None) -> None:
    if value is None:
        writer.varint(0)
        return
    unscaled, scale = unscaled_and_scale(value)
    _write_big_integer(writer, unscaled)
    writer.int_(scale)


def _read_bits(reader: KryoReader) -> Bits:
    words = [reader.fixed("Q") for _ in range(reader.count("words of a bit set", reader.varint(), 8))]
    return Bits([64 * i + bit for i, word in enumerate(words) for bit in range(64) if word >> bit & 1], len(words))


def _write_bits(writer: KryoWriter, value: Bits) -> None:
    size = value.needed if writer.version == KRYO_5 else max(1, value.words, value.needed)
    words = [0] * size
    for bit in value.bits:
        words[bit // 64] |= 1 << bit % 64
    writer.varint(size)
    for word in words:
        writer.fixed("Q", word)


def _constants(enum_class: str | None, reader_or_writer: Any) -> Any:
    described = user_class(enum_class) if enum_class else None
    if described is None or described.constants is None:
        raise unknown_class(str(enum_class), reader_or_writer.where)
    return described


def _read_enum_set(reader: KryoReader) -> EnumSet:
    described = _constants(reader.class_(), reader)
    count = reader.count("enum constants", reader.positive_int())
    return EnumSet(described.name, [reader.constant(described) for _ in range(count)])


def _write_enum_set(writer: KryoWriter, value: EnumSet) -> None:
    described = _constants(value.enum_class, writer)
    writer.class_(value.enum_class)
    writer.positive_int(len(value.constants))
    for constant in value.constants:
        writer.constant(described, constant)


def _read_class_2(reader: KryoReader) -> str | None:
    name = reader.class_()
    primitive = reader.byte()
    return UNBOXED.get(name, name) if name and primitive == 1 else name


def _write_class_2(writer: KryoWriter, name: str | None) -> None:
    writer.class_(BOXES.get(name, name) if name else None)
    writer.byte(name in PRIMITIVES)


def _read_class_5(reader: KryoReader) -> str | None:
    name = reader.class_()
    return UNBOXED[name] if name in UNBOXED and reader.boolean() else name


def _write_class_5(writer: KryoWriter, name: str | None) -> None:
    boxed = BOXES.get(name, name) if name else None
    writer.class_(boxed)
    if boxed in UNBOXED:
        writer.boolean(name in PRIMITIVES)


def _read_address(reader: KryoReader) -> str:
    return f"{reader.text()}:{reader.positive_int()}"


def _write_address(writer: KryoWriter, value: str) -> None:
    host, _, port = value.rpartition(":")
    writer.string(host)
    writer.positive_int(int(port))


def _uuid_text(words: tuple[int, int]) -> str:
    return str(uuid.UUID(int=(words[0] & _WORD) << 64 | words[1] & _WORD))


def _uuid_words(text: str) -> tuple[int, int]:
    number = uuid.UUID(text).int
    return number >> 64, number & _WORD


def _read_local_time_5(reader: KryoReader) -> LocalTime:
    parts = []
    for _ in range(3):
        part = reader.byte()
        if part < 0:
            parts.append(~part)
            break
        parts.append(part)
    else:
        return LocalTime(parts[0], parts[1], parts[2], reader.positive_int())
    hour, minute, second = [*parts, 0, 0][:3]
    return LocalTime(hour, minute, second, 0)


def _write_local_time_5(writer: KryoWriter, time: LocalTime) -> None:
    parts = list(time[:3])
    if time.nano == 0:
        while len(parts) > 1 and parts[-1] == 0:
            parts.pop()
        parts[-1] = ~parts[-1]
    for part in parts:
        writer.byte(part)
    if time.nano:
        writer.positive_int(time.nano)


def _read_offset_5(reader: KryoReader) -> times.Offset:
    quarters = reader.byte()
    return times.Offset(reader.fixed("i") if quarters == 127 else quarters * 900)


def _write_offset_5(writer: KryoWriter, offset: times.Offset) -> None:
    quarters, rest = divmod(offset.seconds, 900)
    if rest:
        writer.byte(127)
        writer.fixed("i", offset.seconds)
    else:
        writer.byte(quarters)


_LOCALE_CLASS: Final = (
    bytes.fromhex("aced000573720010")
    + b"java.util.Locale"
    + bytes.fromhex("7ef811609c30f9ec03000649")
    + b"\0\x08hashcodeL\0\x07countryt\0\x12Ljava/lang/String;"
    + b"".join(
        b"L" + struct.pack(">H", len(name)) + name + b"q\0\x7e\0\x01"
        for name in (b"extensions", b"language", b"script", b"variant")
    )
    + bytes.fromhex("7870ffffffff")
)
"""A ``Locale`` in Java serialization up to its text: the description of its class, and the hash code that isn't known."""
_FIRST_TEXT_HANDLE: Final = 0x7E0003


def _read_locale_2(reader: KryoReader) -> Locale:
    content = read_java_object(reader.source).content
    return Locale(*(str(content.get(name)) for name in Locale._fields))


def _write_locale_2(writer: KryoWriter, value: Locale) -> None:
    target, texts = writer.target, [value.country, value.extensions, value.language, value.script, value.variant]
    target.write_bytes(_LOCALE_CLASS)
    seen: dict[str, int] = {}
    for text in texts:  # Java keeps one string of each of these texts
        if text in seen:
            target.write_bytes(b"q")
            target.write_int(seen[text])
        else:
            seen[text] = _FIRST_TEXT_HANDLE + len(seen)
            raw = encode_modified_utf8(text)
            target.write_bytes(b"t")
            target.write_short(len(raw))
            target.write_bytes(raw)
    target.write_bytes(b"x")


_BITS: Final = Layout(_read_bits, _write_bits)
_ENUM_SET: Final = Layout(_read_enum_set, _write_enum_set)
_MILLIS: Final = converted(POSITIVE_LONG, lambda millis: Instant(millis // 1000, millis % 1000 * 1_000_000), exact_millis)
_LOCAL_DATE_5: Final = sequence(LocalDate, POSITIVE_INT, BYTE, BYTE)
_LOCAL_TIME_5: Final = Layout(_read_local_time_5, _write_local_time_5)
_LOCAL_DATE_TIME_5: Final = sequence(LocalDateTime, _LOCAL_DATE_5, _LOCAL_TIME_5)
_OFFSET_5: Final = Layout(_read_offset_5, _write_offset_5)
_ZONES: Final[dict[type, str]] = {times.Offset: "java.time.ZoneOffset", times.Region: "java.time.ZoneRegion"}
_DATE_FORMAT: Final = java_stream(lambda content: str(content.get("pattern")))


# Values from columns, text and JSON


def _same(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _boolean(value: Any) -> bool:
    if value not in (True, False):
        raise ValueError(f"{value!r} is neither true nor false")
    return bool(value)


def _integer(bits: int) -> Callable[[Any], int]:
    def make(value: Any) -> int:
        number = index(value)
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise ValueError(f"{number} has more than {bits} bits")
        return number

    return make


def _character(value: Any) -> str:
    if len(_text(value)) != 1 or ord(value) > 0xFFFF:
        raise ValueError(f"{value!r} is not one UTF-16 unit")
    return str(value)


def _float_32(value: Any) -> float:
    struct.pack("<f", float(value))
    return float(value)


def _big_integer(value: Any) -> BigInteger:
    number = Decimal(value)
    if number != number.to_integral_value():
        raise ValueError(f"{value} is no whole number")
    return BigInteger(number)


def _big_decimal(value: Any) -> Decimal:
    number = Decimal(value)
    if not number.is_finite():
        raise ValueError(f"{value} is no decimal number")
    return number


def _instant_of_millis(value: Any) -> Instant:
    found = to_instant(value)
    exact_millis(found)
    return found


def _time_of_day_millis(value: Any) -> int:
    return exact_millis(Instant(*divmod(to_local_time(value).nano_of_day, 1_000_000_000)))


def _clock(millis: int) -> str:
    text = str(Instant(millis % _DAY_MS // 1000, millis % 1000 * 1_000_000))
    return text[text.index("T") + 1 : -1]


def _address(value: Any) -> str:
    found = re.fullmatch(r"(.*):(\d{1,5})", _text(value))
    if found is None or int(found[2]) > 0xFFFF:
        raise ValueError(f"{value!r} is not like host:80")
    return str(value)


def _none_of(what: str) -> Callable[[Any], Any]:
    def make(value: Any) -> Any:
        raise ValueError(f"new values of {what} can't be written")

    return make


def _empty(content: Any) -> Callable[[Any], Any]:
    def make(value: Any) -> Any:
        if value:
            raise ValueError(f"{value!r} is not empty")
        return content

    return make


# The table


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
    make: Callable[[Any], Any] = _same
    show: Callable[[Any], Any] = _same


def _both(layout: Layout, make: Callable[[Any], Any], show: Callable[[Any], Any] = _same) -> JdkClass:
    return JdkClass({KRYO_2: layout, KRYO_5: layout}, make, show)


def _each(kryo_2: Layout, kryo_5: Layout, make: Callable[[Any], Any], show: Callable[[Any], Any] = _same) -> JdkClass:
    return JdkClass({KRYO_2: kryo_2, KRYO_5: kryo_5}, make, show)


def _primitive(name: str, make: Callable[[Any], Any]) -> JdkClass:
    return _both(PRIMITIVE_LAYOUTS[BOXES[name]], make)


TABLE: Final[dict[str, JdkClass]] = {
    "java.lang.Boolean": _primitive("boolean", _boolean),
    "java.lang.Byte": _primitive("byte", _integer(8)),
    "java.lang.Character": _primitive("char", _character),
    "java.lang.Short": _primitive("short", _integer(16)),
    "java.lang.Integer": _primitive("int", _integer(32)),
    "java.lang.Long": _primitive("long", _integer(64)),
    "java.lang.Float": _primitive("float", _float_32),
    "java.lang.Double": _primitive("double", float),
    "java.lang.String": _both(STRING, _text),
    "java.lang.StringBuilder": _each(COUNTED, STRING, _text),
    "java.lang.StringBuffer": _each(COUNTED, STRING, _text),
    "java.lang.Void": _both(nothing(None), _empty(None)),
    "java.lang.Class": _each(Layout(_read_class_2, _write_class_2), Layout(_read_class_5, _write_class_5), _text),
    "java.math.BigInteger": _both(Layout(_read_big_integer, _write_big_integer), _big_integer),
    "java.math.BigDecimal": _both(Layout(_read_big_decimal, _write_big_decimal), _big_decimal),
    "java.net.InetSocketAddress": _both(Layout(_read_address, _write_address), _address),
    "java.net.URI": _both(STRING, _text),
    "java.net.URL": JdkClass({KRYO_5: STRING}, _text),
    "java.sql.Date": _both(
        POSITIVE_LONG, lambda v: to_local_date(v).epoch_day * _DAY_MS, lambda v: LocalDate.of_epoch_day(v // _DAY_MS)
    ),
    "java.sql.Time": _both(POSITIVE_LONG, _time_of_day_millis, _clock),
    "java.sql.Timestamp": _each(
        converted(
            sequence(lambda millis, nano: Instant(millis // 1000, nano), POSITIVE_LONG, POSITIVE_INT),
            _same,
            lambda v: (v.seconds * 1000 + v.nano // 1_000_000, v.nano),
        ),
        converted(
            sequence(lambda millis, nano: Instant(millis // 1000, nano), POSITIVE_LONG, POSITIVE_INT),
            _same,
            lambda v: (v.seconds * 1000, v.nano),
        ),
        to_instant,
    ),
    "java.text.SimpleDateFormat": _both(_DATE_FORMAT, _none_of("java.text.SimpleDateFormat"), attrgetter("value")),
    "java.util.BitSet": _both(_BITS, Bits.of, lambda v: v.bits),
    "java.util.Currency": _both(STRING, _text),
    "java.util.Date": _both(_MILLIS, _instant_of_millis),
    "java.util.GregorianCalendar": _both(
        sequence(Calendar, TEXT, _MILLIS, BOOLEAN, POSITIVE_INT, POSITIVE_INT, LONG), Calendar.of, lambda v: v.time
    ),
    "java.util.JumboEnumSet": _both(_ENUM_SET, _none_of("java.util.JumboEnumSet"), lambda v: v.constants),
    "java.util.RegularEnumSet": _both(_ENUM_SET, _none_of("java.util.RegularEnumSet"), lambda v: v.constants),
    "java.util.SimpleTimeZone": _both(STRING, _text),
    "sun.util.calendar.ZoneInfo": _both(STRING, _text),
    "java.util.Locale": _each(
        Layout(_read_locale_2, _write_locale_2),
        converted(
            sequence(lambda *parts: Locale(*(part or "" for part in parts)), STRING, STRING, STRING), _same, lambda v: v[:3]
        ),
        Locale.of,
        str,
    ),
    "java.util.OptionalDouble": _each(optional_field(fixed("d"), float("nan")), optional(fixed("d")), float),
    "java.util.OptionalInt": _each(optional_field(INT, 0), optional(fixed("i")), _integer(32)),
    "java.util.OptionalLong": _each(optional_field(LONG, 0), optional(fixed("q")), _integer(64)),
    "java.util.UUID": _each(
        converted(sequence(lambda *words: words, LONG, LONG), _uuid_text, lambda v: [_wrapped(word) for word in _uuid_words(v)]),
        converted(sequence(lambda *words: words, fixed("Q"), fixed("Q")), _uuid_text, _uuid_words),
        lambda v: str(v if isinstance(v, uuid.UUID) else uuid.UUID(_text(v))),
    ),
    "java.util.regex.Pattern": _each(
        converted(STRING, Pattern, lambda v: v.pattern), sequence(Pattern, STRING, POSITIVE_INT), Pattern.of, lambda v: v.pattern
    ),
    "java.util.Collections$EmptyList": _both(nothing([]), _empty([])),
    "java.util.Collections$EmptySet": _both(nothing([]), _empty([])),
    "java.util.Collections$EmptyMap": _both(nothing(KryoMap()), _empty(KryoMap())),
    "java.util.Collections$ReverseComparator": _both(nothing("reverse order"), _same),
    "java.lang.String$CaseInsensitiveComparator": _both(nothing("case-insensitive order"), _same),
    "java.util.concurrent.atomic.AtomicBoolean": _both(converted(INT, bool, int), _boolean),
    "java.util.concurrent.atomic.AtomicInteger": _both(INT, _integer(32)),
    "java.util.concurrent.atomic.AtomicLong": _both(LONG, _integer(64)),
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
        by_fields(LocalDate, {"year": "int", "month": "short", "day": "short"}), _LOCAL_DATE_5, to_local_date
    ),
    "java.time.LocalTime": _each(
        by_fields(LocalTime, {"hour": "byte", "minute": "byte", "second": "byte", "nano": "int"}), _LOCAL_TIME_5, to_local_time
    ),
    "java.time.LocalDateTime": _each(
        by_fields(LocalDateTime, {"date": "java.time.LocalDate", "time": "java.time.LocalTime"}),
        _LOCAL_DATE_TIME_5,
        to_local_date_time,
    ),
    "java.time.MonthDay": _each(
        by_fields(times.MonthDay, {"month": "int", "day": "int"}), sequence(times.MonthDay, BYTE, BYTE), times.MonthDay.of, str
    ),
    "java.time.OffsetDateTime": _each(
        by_fields(times.OffsetDateTime, {"dateTime": "java.time.LocalDateTime", "offset": "java.time.ZoneOffset"}),
        sequence(times.OffsetDateTime, _LOCAL_DATE_TIME_5, _OFFSET_5),
        times.OffsetDateTime.of,
        str,
    ),
    "java.time.OffsetTime": _each(
        by_fields(times.OffsetTime, {"time": "java.time.LocalTime", "offset": "java.time.ZoneOffset"}),
        sequence(times.OffsetTime, _LOCAL_TIME_5, _OFFSET_5),
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
        converted(
            sequence(lambda *parts: parts, _LOCAL_DATE_TIME_5, TEXT),
            lambda parts: times.ZonedDateTime(parts[0], None, times.zone_of(parts[1])),
            lambda v: (v.date_time, str(v.zone)),
        ),
        times.ZonedDateTime.of,
        str,
    ),
    "java.time.ZoneOffset": _each(by_fields(times.Offset, {"totalSeconds": "int"}), _OFFSET_5, times.Offset.of, str),
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
        *_of_util("UUID", "Locale", "Currency", "Optional", "OptionalInt", "OptionalLong", "OptionalDouble", "regex.Pattern"),
        *(name for name in TABLE if name.startswith("java.time.") and name != "java.time.ZoneRegion"),
    }
)
"""Final classes, which Kryo leaves out where a field, an element of an array or a type argument is declared with one."""


def _wrapped(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


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
        or name in _OPEN
        or is_collection(name)
        or is_map(name)
        or name in (AS_LIST, OPTIONAL, SINGLETON_MAP)
        or name in SINGLETONS
        or user_class(name) is not None
        or (name.startswith("[") and (JavaType(name).component in PRIMITIVES or is_known(JavaType(name).component)))
    )
