"""Codecs of Java objects (``ObjectOutputStream``) in the bytes of connectors.

Flink: ``JavaSerializer``, ``SerializedCheckpointData`` (``MessageAcknowledgingSourceBase``), ``TimestampedFileInputSplit``
(``ContinuousFileReaderOperator``). Java replaces dates and times of ``java.time`` by objects of the class ``java.time.Ser``: a
number for the class, and the fields. Kryo has the same fields, so their layouts are the layouts of Kryo.
"""

from __future__ import annotations

import ctypes
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

from state_processor.backends.connectors.choices import Kept, Versions
from state_processor.backends.connectors.codecs import Codec, Content, Hex, Mapped, Utf
from state_processor.serializers.big_numbers import to_java_bytes, to_text, to_unscaled_and_scale
from state_processor.serializers.core.basic import StringSerializer
from state_processor.serializers.core.time_values import (
    Instant,
    LocalDate,
    LocalDateTime,
    to_instant,
    to_local_date,
    to_local_date_time,
    to_local_time,
)
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.object_input import JavaClass, JavaEnum, JavaInstance, class_name, read_java_object
from state_processor.serializers.java.object_output import (
    BOX_CLASSES,
    ENUMERATION,
    EXTERNAL,
    NUMBER,
    WRITES_MORE,
    JavaArray,
    JavaClassDescription,
    JavaText,
    write_java_object,
)
from state_processor.serializers.kryo.java_time import (
    Duration,
    MonthDay,
    Offset,
    OffsetDateTime,
    OffsetTime,
    Period,
    Region,
    Year,
    YearMonth,
    ZonedDateTime,
)
from state_processor.serializers.kryo.jdk_layouts import OFFSET, local_time
from state_processor.serializers.kryo.layouts import Layout, ObjectInput, ObjectOutput, fixed, sequence
from state_processor.serializers.kryo.wire import KRYO_2, KryoInput, KryoOutput
from state_processor.support.errors import InvalidRowError, StateProcessorError, UnsupportedFormatError
from state_processor.support.mappings import index_by_name, map_values

# Dates and times

_REPLACEMENT: Final = "java.time.Ser"


def _numbers(kind: Callable[..., Any], form: str) -> Layout:
    """Return the layout of a tuple of numbers, by their formats of ``struct``."""
    return sequence(kind, *map(fixed, form))


def _read_zone(reader: ObjectInput) -> Offset | Region:
    start, kind = reader.source.position, reader.byte()
    if kind not in (_REGION, _OFFSET):
        raise reader.source.corrupt(f"a time zone of kind {kind}; expected {_REGION} or {_OFFSET}", start)
    zone: Offset | Region = (_OF_REGION if kind == _REGION else OFFSET).read(reader)
    return zone


def _write_zone(writer: ObjectOutput, value: Offset | Region) -> None:
    is_region = isinstance(value, Region)
    writer.byte(_REGION if is_region else _OFFSET)
    (_OF_REGION if is_region else OFFSET).write(writer, value)


_REGION: Final = 7
_OFFSET: Final = 8

_OF_REGION: Final = Layout(lambda r: Region(r.source.read_utf()), lambda w, v: w.target.write_utf(v.id))
_DATE: Final = _numbers(LocalDate, "ibb")
_TIME: Final = local_time(fixed("i"))
_DATE_TIME: Final = sequence(LocalDateTime, _DATE, _TIME)
_ZONED: Final = sequence(
    ZonedDateTime, _DATE_TIME, OFFSET, Layout(_read_zone, _write_zone), take=lambda v: (v.date_time, v.known_offset, v.zone)
)


class _TimeClass(NamedTuple):
    number: int
    layout: Layout
    of_text: Callable[[str], Any]


_TIMES: Final[Mapping[str, _TimeClass]] = {
    "java.time.Duration": _TimeClass(1, _numbers(Duration, "qi"), Duration.of),
    "java.time.Instant": _TimeClass(2, _numbers(Instant, "qi"), to_instant),
    "java.time.LocalDate": _TimeClass(3, _DATE, to_local_date),
    "java.time.LocalTime": _TimeClass(4, _TIME, to_local_time),
    "java.time.LocalDateTime": _TimeClass(5, _DATE_TIME, to_local_date_time),
    "java.time.ZonedDateTime": _TimeClass(6, _ZONED, ZonedDateTime.of),
    "java.time.ZoneRegion": _TimeClass(_REGION, _OF_REGION, Region.of),
    "java.time.ZoneOffset": _TimeClass(_OFFSET, OFFSET, Offset.of),
    "java.time.OffsetTime": _TimeClass(9, sequence(OffsetTime, _TIME, OFFSET), OffsetTime.of),
    "java.time.OffsetDateTime": _TimeClass(10, sequence(OffsetDateTime, _DATE_TIME, OFFSET), OffsetDateTime.of),
    "java.time.Year": _TimeClass(11, _numbers(Year, "i"), Year.of),
    "java.time.YearMonth": _TimeClass(12, _numbers(YearMonth, "ib"), YearMonth.of),
    "java.time.MonthDay": _TimeClass(13, _numbers(MonthDay, "bb"), MonthDay.of),
    "java.time.Period": _TimeClass(14, _numbers(Period, "iii"), Period.of),
}
"""The classes. The text of a value is that of Java's ``toString``."""


def time_content(data: bytes) -> tuple[str, str] | None:
    """Return the class and the text of the data of a replacement, or ``None`` if the class is another one of ``java.time``."""
    source = DataInput(data, _REPLACEMENT)
    reader: Any = KryoInput(source, KRYO_2)  # numbers of fixed width are big-endian in both
    number = source.read_byte()
    for name, kind in _TIMES.items():
        if kind.number == number:
            time = kind.layout.read(reader)
            if not source.at_end():
                raise source.corrupt(f"{source.remaining} bytes are left over")
            return name, str(time)
    return None


def time_data(name: str, text: Any) -> bytes:
    """Return the data of the replacement of a value."""
    if not isinstance(text, str):
        raise InvalidRowError(f"a value of {name} is text such as Java prints it, found {text!r}")
    kind, target = _TIMES[name], DataOutput()
    writer: Any = KryoOutput(target, KRYO_2)
    writer.byte(kind.number)
    kind.layout.write(writer, kind.of_text(text))
    return target.to_bytes()


# Objects

OBJECTS: Final = "[Ljava.lang.Object;"
STRING_TYPE: Final = "Ljava/lang/String;"
CLASS: Final = "class"
VALUE: Final = "value"


def described(*descriptions: JavaClassDescription) -> dict[str, JavaClassDescription]:
    """Return descriptions by name."""
    return index_by_name(descriptions)


_BIG_INTEGER: Final = JavaClassDescription(
    "java.math.BigInteger",
    -8287574255936472291,
    (
        *(("I", name) for name in ("bitCount", "bitLength", "firstNonzeroByteNum", "lowestSetBit", "signum")),
        ("[B", "magnitude"),
    ),
    NUMBER,
    WRITES_MORE,
)
_BIG_DECIMAL: Final = JavaClassDescription(
    "java.math.BigDecimal", 6108874887143696463, (("I", "scale"), ("Ljava/math/BigInteger;", "intVal")), NUMBER, WRITES_MORE
)
JDK: Final = described(
    *BOX_CLASSES,
    _BIG_INTEGER,
    _BIG_DECIMAL,
    JavaClassDescription("java.util.Date", 7523967970034938905, flags=WRITES_MORE),
    JavaClassDescription("java.sql.Date", 1511598038487230103, parent="java.util.Date"),
    JavaClassDescription("java.sql.Time", 8397324403548013681, parent="java.util.Date"),
    JavaClassDescription("java.sql.Timestamp", 2745179027874758501, (("I", "nanos"),), "java.util.Date"),
    JavaClassDescription("java.util.UUID", -4856846361193249489, (("J", "leastSigBits"), ("J", "mostSigBits"))),
    JavaClassDescription(_REPLACEMENT, -7683839454370182990, flags=EXTERNAL),
    JavaClassDescription("[B", -5984413125824719648),
    JavaClassDescription("[I", 5600894804908749477),
    JavaClassDescription("[J", 8655923659555304851),
    JavaClassDescription("[[B", 5475560301672258359),
    JavaClassDescription(OBJECTS, -8012369246846506644),
    JavaClassDescription("java.util.HashMap", 362498820763181265, (("F", "loadFactor"), ("I", "threshold")), flags=WRITES_MORE),
    JavaClassDescription("java.lang.Enum", 0, flags=ENUMERATION),
)
"""Classes of the JDK, whose numbers and fields are part of its specification."""


# Values of columns


@dataclass(frozen=True, slots=True)
class ScalarClass:
    """A class of single values: how its object becomes content, and content an object."""

    to_content: Callable[[JavaInstance], Content]
    to_object: Callable[[Content], Any]


def _boxed(name: str) -> ScalarClass:
    return ScalarClass(lambda instance: instance.get("value"), lambda value: JavaInstance(name, {"value": value}))


def big_integer(number: int) -> JavaInstance:
    """Return a ``BigInteger``."""
    magnitude = to_java_bytes(abs(number)).lstrip(b"\0")
    names = {"bitCount": -1, "bitLength": -1, "firstNonzeroByteNum": -2, "lowestSetBit": -2}
    signs = {"signum": (number > 0) - (number < 0), "magnitude": byte_array(magnitude)}
    return JavaInstance(_BIG_INTEGER.name, names | signs)


def byte_array(data: bytes) -> JavaArray:
    """Return a ``byte[]``."""
    return JavaArray("[B", [byte - 256 if byte > 127 else byte for byte in data])


def array_bytes(array: Any) -> bytes:
    """Return the content of a ``byte[]``."""
    return bytes(byte & 0xFF for byte in array)


def _unscaled(instance: JavaInstance) -> int:
    return int(instance.get("signum")) * int.from_bytes(array_bytes(instance.get("magnitude")), "big")


def _big_decimal(text: Content) -> JavaInstance:
    unscaled, scale = to_unscaled_and_scale(Decimal(text))
    return JavaInstance(_BIG_DECIMAL.name, {"scale": scale, "intVal": big_integer(unscaled)})


def _milliseconds(instance: JavaInstance) -> int:
    return int.from_bytes(instance.annotations[0], "big", signed=True)


def _float_content(instance: JavaInstance) -> float:
    """Return the shortest number that is this float, as Java prints it."""
    value: float = instance.get("value")
    shorter = (float(f"{value:.{digits}g}") for digits in range(1, 10))
    return next((number for number in shorter if ctypes.c_float(number).value == value), value)


def _uuid(text: Content) -> JavaInstance:
    most, least = struct.unpack(">qq", uuid.UUID(text).bytes)
    return JavaInstance("java.util.UUID", {"leastSigBits": least, "mostSigBits": most})


def _uuid_text(instance: JavaInstance) -> str:
    return str(uuid.UUID(bytes=struct.pack(">qq", instance.get("mostSigBits"), instance.get("leastSigBits"))))


def _date(name: str) -> ScalarClass:
    return ScalarClass(
        _milliseconds,
        lambda value: JavaInstance(name, annotations=[value.to_bytes(8, "big", signed=True)]),
    )


_BOXED: Final = ("Byte", "Short", "Integer", "Long", "Double", "Boolean", "Character")
SCALARS: Final[Mapping[str, ScalarClass]] = {
    **{f"java.lang.{name}": _boxed(f"java.lang.{name}") for name in _BOXED},
    "java.lang.Float": ScalarClass(_float_content, lambda value: JavaInstance("java.lang.Float", {"value": value})),
    "java.util.UUID": ScalarClass(_uuid_text, _uuid),
    _BIG_INTEGER.name: ScalarClass(_unscaled, big_integer),
    _BIG_DECIMAL.name: ScalarClass(
        lambda instance: to_text(_unscaled(instance.get("intVal")), instance.get("scale")), _big_decimal
    ),
    **{name: _date(name) for name in ("java.util.Date", "java.sql.Date", "java.sql.Time")},
    "java.sql.Timestamp": ScalarClass(
        lambda instance: {"epochMillis": _milliseconds(instance), "nanos": instance.get("nanos")},
        lambda value: JavaInstance(
            "java.sql.Timestamp", {"nanos": value["nanos"]}, [value["epochMillis"].to_bytes(8, "big", signed=True)]
        ),
    ),
}
"""Numbers are numbers; decimals are their digits; dates are milliseconds since 1970; values of ``java.time`` are their text."""


def _scalar_content(value: Any) -> Content:
    if value is None:
        return None
    if isinstance(value, str):
        return {CLASS: "java.lang.String", VALUE: value}
    if isinstance(value, list):
        return {CLASS: "[B", VALUE: array_bytes(value).hex()}
    name = class_name(value)
    if name == _REPLACEMENT and (time := time_content(value.annotations[0])) is not None:
        return dict(zip((CLASS, VALUE), time, strict=True))
    return {CLASS: name, VALUE: SCALARS[name].to_content(value)} if name in SCALARS else {CLASS: name}


def _scalar_object(content: Content) -> Any:
    if content is None:
        return None
    name, value = content[CLASS], content.get(VALUE)
    if name == "java.lang.String" and isinstance(value, str):
        return JavaText(value)
    if name == "[B":
        return byte_array(bytes.fromhex(value))
    if name in _TIMES:
        return JavaInstance(_REPLACEMENT, annotations=[time_data(name, value)])
    if name not in SCALARS or VALUE not in content:
        classes = ", ".join((*SCALARS, *_TIMES, "java.lang.String", "[B"))
        raise UnsupportedFormatError(f"a value of the Java class {name} can't be written; the classes are {classes}")
    return SCALARS[name].to_object(value)


# Codecs


@dataclass(frozen=True, slots=True)
class JavaObjectCodec:
    """An object stream: ``to_content`` and ``to_object`` interpret the object; ``classes`` describes the classes to write."""

    to_content: Callable[[Any], Content]
    to_object: Callable[[Content], Any]
    classes: Mapping[str, JavaClassDescription]
    min_size: int = 5

    def read(self, source: DataInput) -> Content:
        start = source.position
        content = read_java_object(source).content
        try:
            return self.to_content(content)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise source.corrupt(f"unexpected Java object of {class_name(content)}: {error}", start) from error

    def write(self, content: Content, target: DataOutput) -> None:
        target.write_bytes(write_java_object(self.to_object(content), self.classes))


@dataclass(frozen=True, slots=True)
class HexText:
    """A value whose bytes are hexadecimal text, in Java's modified UTF-8."""

    codec: Codec
    min_size: int = 2

    def read(self, source: DataInput) -> Content:
        start = source.position
        try:
            data = bytes.fromhex(Utf().read(source))
        except ValueError as error:
            raise source.corrupt(f"not hexadecimal text: {error}", start) from None
        inner = DataInput(data, f"{source.source}, text at offset {start}")
        content = self.codec.read(inner)
        if not inner.at_end():
            raise inner.corrupt(f"{inner.remaining} bytes are left over")
        return content

    def write(self, content: Content, target: DataOutput) -> None:
        data = DataOutput()
        self.codec.write(content, data)
        target.write_utf(data.to_bytes().hex())


def _row_content(row: Any) -> Content:
    return None if row is None else list(map(_scalar_content, row))


def _row_object(content: Content) -> Any:
    if content is None:
        return None
    before: dict[Any, JavaInstance] = {}
    return JavaArray(OBJECTS, [_constant(_scalar_object(element), before) for element in content])


_SMALL: Final = range(-128, 128)
_CACHED: Final[Mapping[str, range]] = {
    **{f"java.lang.{name}": _SMALL for name in ("Byte", "Short", "Integer", "Long")},
    "java.lang.Boolean": range(2),
}
_CACHED_DIGITS: Final = range(17)


def _constant(value: Any, before: dict[Any, JavaInstance]) -> Any:
    """Return an object, or the equal object before it if Java has only one: ``valueOf`` keeps small numbers.

    The digits of a ``BigDecimal`` come from ``BigInteger.valueOf``. A stream refers to an object that it already has.
    """
    if not isinstance(value, JavaInstance):
        return value
    if value.class_name == _BIG_DECIMAL.name:
        digits = value.get("intVal")
        magnitude = tuple(digits.get("magnitude").elements)
        if len(magnitude) <= 1 and all(byte in _CACHED_DIGITS for byte in magnitude):
            value.fields["intVal"] = before.setdefault((digits.get("signum"), magnitude), digits)
    elif value.class_name in _CACHED and value.get("value") in _CACHED[value.class_name]:
        return before.setdefault((value.class_name, value.get("value")), value)
    return value


ROW: Final = JavaObjectCodec(_row_content, _row_object, JDK)
"""An ``Object[]`` of values of columns, or null."""
ROW_TEXT: Final = Kept(HexText(ROW))


def single(row: Codec) -> Mapped:
    """Return the codec of the only element of a row."""
    return Mapped(row, _only, lambda content: [content])


def _only(row: list[Content]) -> Content:
    (element,) = row
    return element


ALL_LEFT: Final = Hex(None)


SERIALIZER: Final = "org.apache.flink.runtime.state.JavaSerializer"
_OBJECT: Final = "object"
_ACKNOWLEDGED: Final = "org.apache.flink.runtime.state.SerializedCheckpointData"
_DATA: Final = "serializedData"
_IDS: Final = "ids"


def _content(content: Any) -> Content:
    if isinstance(content, list):
        return list(map(_content, content))
    if isinstance(content, JavaEnum):
        return {CLASS: content.class_name, "constant": content.constant}
    if isinstance(content, JavaClass):
        return {CLASS: "java.lang.Class", "name": content.name}
    if isinstance(content, bytes):
        return content.hex()
    if not isinstance(content, JavaInstance):
        return content
    fields = {CLASS: content.class_name} | map_values(_content, content.fields)
    if content.class_name == _ACKNOWLEDGED:
        data = array_bytes(content.get(_DATA))
        return fields | {_DATA: data.hex(), _IDS: _texts(data, content.get("numIds"))}
    return fields | ({"data": _content(content.annotations)} if content.annotations else {})


def _texts(data: bytes, count: int) -> list[str | None] | None:
    """Return the ids of messages if they are texts, as for RabbitMQ."""
    source = DataInput(data)
    try:
        ids = [StringSerializer().read(source) for _ in range(min(count, len(data)))]
    except StateProcessorError:
        return None
    return ids if source.at_end() and len(ids) == count else None


def _object(content: Content) -> Any:
    raise UnsupportedFormatError("Java objects can only be written unchanged: restore their content")


_STATE: Final = Kept(JavaObjectCodec(lambda content: {_OBJECT: _content(content)}, _object, {}))
LAYOUTS: Final[Mapping[str, Versions]] = {SERIALIZER: {0: _STATE}}
