"""Layouts of single classes of the JDK, and contents that hold more than their columns."""

from __future__ import annotations

import struct
import uuid
from decimal import Decimal
from operator import index
from typing import Any, Final, NamedTuple

from state_processor.serializers.big_numbers import to_decimal
from state_processor.serializers.core.basic import unscaled_and_scale
from state_processor.serializers.core.time_values import Instant, LocalDate, LocalDateTime, LocalTime, exact_millis, to_instant
from state_processor.serializers.io import encode_modified_utf8
from state_processor.serializers.java.object_input import read_java_object
from state_processor.serializers.java.types import BOXES, PRIMITIVES, UNBOXED
from state_processor.serializers.kryo import java_time
from state_processor.serializers.kryo.classes import BigInteger, unknown_class, user_class
from state_processor.serializers.kryo.converters import same, text
from state_processor.serializers.kryo.layouts import (
    BOOLEAN,
    BYTE,
    LONG,
    POSITIVE_INT,
    POSITIVE_LONG,
    STRING,
    TEXT,
    Layout,
    ObjectInput,
    ObjectOutput,
    converted,
    fixed,
    java_stream,
    sequence,
)
from state_processor.serializers.kryo.wire import KRYO_5

_WORD: Final = (1 << 64) - 1
_LARGEST_BIT: Final = (1 << 31) - 1


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
        """Convert a point in time, for Java's default calendar in UTC."""
        return cls("UTC", to_instant(value), True, 1, 1, -12_219_292_800_000)


class Pattern(NamedTuple):
    """``java.util.regex.Pattern``; Kryo 2 omits the flags."""

    pattern: str | None
    flags: int = 0

    def __str__(self) -> str:
        return str(self.pattern)

    @classmethod
    def of(cls, value: Any) -> Pattern:
        """Convert the text of a regular expression."""
        return cls(text(value))


class Locale(NamedTuple):
    """``java.util.Locale``; Kryo 5 omits script and extensions."""

    language: str
    country: str
    variant: str
    script: str = ""
    extensions: str = ""

    def __str__(self) -> str:
        return "_".join(part for part in self[:3] if part)

    @classmethod
    def of(cls, value: Any) -> Locale:
        """Convert text like ``de_DE``."""
        language, country, variant = [*text(value).split("_", 2), "", ""][:3]
        return cls(language, country, variant)


class Bits(NamedTuple):
    """``java.util.BitSet``: the set bits, and the number of words that Kryo 2 wrote."""

    bits: list[int]
    words: int = 0

    @property
    def needed(self) -> int:
        """The words up to the last set bit."""
        return max(self.bits, default=-1) // 64 + 1

    @classmethod
    def of(cls, value: Any) -> Bits:
        """Convert the numbers of the set bits."""
        bits = sorted(set(map(index, value)))
        if bits and not 0 <= bits[0] <= bits[-1] < _LARGEST_BIT:
            raise ValueError(f"expected bits of a BitSet, from 0 to {_LARGEST_BIT - 1}")
        return cls(bits)


class EnumSet(NamedTuple):
    """``java.util.EnumSet``: the class of the enum, and constants."""

    enum_class: str
    constants: list[str | None]


# Layouts


def _read_big_integer(reader: ObjectInput) -> BigInteger | None:
    size = reader.varint()
    if size == 0:
        return None
    return BigInteger(int.from_bytes(reader.source.read_bytes(size - 1, "big integer"), "big", signed=True))


def _write_big_integer(writer: ObjectOutput, value: int | None) -> None:
    if value is None:
        writer.varint(0)
        return
    size = (value if value >= 0 else ~value).bit_length() // 8 + 1
    writer.varint(size + 1)
    writer.target.write_bytes(int(value).to_bytes(size, "big", signed=True))


def _read_big_decimal(reader: ObjectInput) -> Decimal | None:
    unscaled = _read_big_integer(reader)
    if unscaled is None:
        return None
    return to_decimal(unscaled, reader.int_())


def _write_big_decimal(writer: ObjectOutput, value: Decimal | None) -> None:
    if value is None:
        writer.varint(0)
        return
    unscaled, scale = unscaled_and_scale(value)
    _write_big_integer(writer, unscaled)
    writer.int_(scale)


def _read_bits(reader: ObjectInput) -> Bits:
    words = [reader.fixed("Q") for _ in range(reader.count("words of a bit set", reader.varint(), 8))]
    bits = []
    for i, word in enumerate(words):
        bits += [64 * i + bit for bit in range(64) if word >> bit & 1]
    return Bits(bits, len(words))


def _write_bits(writer: ObjectOutput, value: Bits) -> None:
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


def _read_enum_set(reader: ObjectInput) -> EnumSet:
    described = _constants(reader.class_(), reader)
    count = reader.count("enum constants", reader.positive_int())
    return EnumSet(described.name, [reader.constant(described) for _ in range(count)])


def _write_enum_set(writer: ObjectOutput, value: EnumSet) -> None:
    described = _constants(value.enum_class, writer)
    writer.class_(value.enum_class)
    writer.positive_int(len(value.constants))
    for constant in value.constants:
        writer.constant(described, constant)


def _read_class_2(reader: ObjectInput) -> str | None:
    name = reader.class_()
    primitive = reader.byte()
    return UNBOXED.get(name, name) if name and primitive == 1 else name


def _write_class_2(writer: ObjectOutput, name: str | None) -> None:
    writer.class_(BOXES.get(name, name) if name else None)
    writer.byte(name in PRIMITIVES)


def _read_class_5(reader: ObjectInput) -> str | None:
    name = reader.class_()
    return UNBOXED[name] if name in UNBOXED and reader.boolean() else name


def _write_class_5(writer: ObjectOutput, name: str | None) -> None:
    boxed = BOXES.get(name, name) if name else None
    writer.class_(boxed)
    if boxed in UNBOXED:
        writer.boolean(name in PRIMITIVES)


def _read_address(reader: ObjectInput) -> str:
    return f"{reader.text()}:{reader.positive_int()}"


def _write_address(writer: ObjectOutput, value: str) -> None:
    host, _, port = value.rpartition(":")
    writer.string(host)
    writer.positive_int(int(port))


def _pair(*words: int) -> tuple[int, ...]:
    return words


def _uuid_text(words: tuple[int, int]) -> str:
    return str(uuid.UUID(int=(words[0] & _WORD) << 64 | words[1] & _WORD))


def _uuid_words(content: str) -> tuple[int, ...]:
    return struct.unpack(">qq", uuid.UUID(content).bytes)


def local_time(nano: Layout) -> Layout:
    """Return the layout of hour, minute, second and nanosecond. The complement of a part says that the parts after it are 0."""

    def read(reader: ObjectInput) -> LocalTime:
        parts: list[int] = []
        while len(parts) < 3:
            part = reader.byte()
            if part < 0:
                hour, minute, second = (*parts, ~part, 0, 0)[:3]
                return LocalTime(hour, minute, second, 0)
            parts.append(part)
        hour, minute, second = parts
        return LocalTime(hour, minute, second, nano.read(reader))

    def write(writer: ObjectOutput, time: LocalTime) -> None:
        parts = list(time[:3])
        if not time.nano:
            while len(parts) > 1 and not parts[-1]:
                parts.pop()
            parts[-1] = ~parts[-1]
        for part in parts:
            writer.byte(part)
        if time.nano:
            nano.write(writer, time.nano)

    return Layout(read, write)


_QUARTER: Final = 900
_NO_QUARTER: Final = 127
"""An offset is a number of quarters of an hour in a byte. This byte says that its seconds follow."""


def _read_offset(reader: ObjectInput) -> java_time.Offset:
    quarters = reader.byte()
    return java_time.Offset(reader.fixed("i") if quarters == _NO_QUARTER else quarters * _QUARTER)


def _write_offset(writer: ObjectOutput, offset: java_time.Offset) -> None:
    quarters, rest = divmod(offset.seconds, _QUARTER)
    writer.byte(_NO_QUARTER if rest else quarters)
    if rest:
        writer.fixed("i", offset.seconds)


def _text_field(name: bytes) -> bytes:
    return b"L" + struct.pack(">H", len(name)) + name + b"q\0\x7e\0\x01"


_LOCALE_CLASS: Final = (
    bytes.fromhex("aced000573720010")
    + b"java.util.Locale"
    + bytes.fromhex("7ef811609c30f9ec03000649")
    + b"\0\x08hashcodeL\0\x07countryt\0\x12Ljava/lang/String;"
    + b"".join(map(_text_field, (b"extensions", b"language", b"script", b"variant")))
    + bytes.fromhex("7870ffffffff")
)
"""A ``Locale`` in Java serialization up to its text: the description of its class, and a hash code that is not yet computed."""
_FIRST_TEXT_HANDLE: Final = 0x7E0003


def _read_locale_2(reader: ObjectInput) -> Locale:
    content = read_java_object(reader.source).content
    return Locale(*(str(content.get(name)) for name in Locale._fields))


def _write_locale_2(writer: ObjectOutput, value: Locale) -> None:
    target, parts = writer.target, [value.country, value.extensions, value.language, value.script, value.variant]
    target.write_bytes(_LOCALE_CLASS)
    seen: dict[str, int] = {}
    for part in parts:  # Java writes equal texts once
        if part in seen:
            target.write_bytes(b"q")
            target.write_int(seen[part])
        else:
            seen[part] = _FIRST_TEXT_HANDLE + len(seen)
            raw = encode_modified_utf8(part)
            target.write_bytes(b"t")
            target.write_short(len(raw))
            target.write_bytes(raw)
    target.write_bytes(b"x")


def _locale(*parts: str | None) -> Locale:
    return Locale(*(part or "" for part in parts))


def _of_millis(millis: int) -> Instant:
    return Instant(millis // 1000, millis % 1000 * 1_000_000)


def _whole_millis(value: Instant) -> int:
    return value.seconds * 1000 + value.nano // 1_000_000


def _sql_timestamp(millis: int, nano: int) -> Instant:
    return Instant(millis // 1000, nano)


def _zoned_5(date_time: LocalDateTime, zone: str) -> java_time.ZonedDateTime:
    return java_time.ZonedDateTime(date_time, None, java_time.zone_of(zone))


BIG_INTEGER: Final = Layout(_read_big_integer, _write_big_integer)
BIG_DECIMAL: Final = Layout(_read_big_decimal, _write_big_decimal)
BITS: Final = Layout(_read_bits, _write_bits)
ENUM_SET: Final = Layout(_read_enum_set, _write_enum_set)
CLASS_2: Final = Layout(_read_class_2, _write_class_2)
CLASS_5: Final = Layout(_read_class_5, _write_class_5)
ADDRESS: Final = Layout(_read_address, _write_address)
UUID_2: Final = converted(sequence(_pair, LONG, LONG), _uuid_text, _uuid_words)
UUID_5: Final = converted(sequence(_pair, fixed("q"), fixed("q")), _uuid_text, _uuid_words)
LOCALE_2: Final = Layout(_read_locale_2, _write_locale_2)
LOCALE_5: Final = converted(sequence(_locale, STRING, STRING, STRING), same, lambda locale: locale[:3])
PATTERN_2: Final = converted(STRING, Pattern, lambda pattern: pattern.pattern)
PATTERN_5: Final = sequence(Pattern, STRING, POSITIVE_INT)
MILLIS: Final = converted(POSITIVE_LONG, _of_millis, exact_millis)
TIMESTAMP_2: Final = sequence(_sql_timestamp, POSITIVE_LONG, POSITIVE_INT, take=lambda v: (_whole_millis(v), v.nano))
TIMESTAMP_5: Final = sequence(_sql_timestamp, POSITIVE_LONG, POSITIVE_INT, take=lambda v: (v.seconds * 1000, v.nano))
CALENDAR: Final = sequence(Calendar, TEXT, MILLIS, BOOLEAN, POSITIVE_INT, POSITIVE_INT, LONG)
LOCAL_DATE_5: Final = sequence(LocalDate, POSITIVE_INT, BYTE, BYTE)
LOCAL_TIME_5: Final = local_time(POSITIVE_INT)
LOCAL_DATE_TIME_5: Final = sequence(LocalDateTime, LOCAL_DATE_5, LOCAL_TIME_5)
OFFSET: Final = Layout(_read_offset, _write_offset)
ZONED_5: Final = sequence(_zoned_5, LOCAL_DATE_TIME_5, TEXT, take=lambda v: (v.date_time, str(v.zone)))
DATE_FORMAT: Final = java_stream(lambda content: str(content.get("pattern")))
