"""Options, mapped types, durations and times with a zone (flink-scala-api: ``OptionSerializer``, ``MappedSerializer``, …)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from string import hexdigits
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa

from state_processor.errors import InvalidRowError
from state_processor.plugins.flink_scala_api.parts import (
    MAPPERS,
    SERIALIZERS,
    NullMarked,
    PartsSnapshot,
    parts_snapshot,
    prefixed_hash,
    simple_name,
)
from state_processor.serializers import (
    DataInput,
    DataOutput,
    DecodeOptions,
    NumberSerializer,
    SimpleSerializer,
    StringSerializer,
    TypeSerializer,
    TypeSerializerSnapshot,
    simple_snapshots,
)
from state_processor.serializers.extension import (
    BytesSerializer,
    Codec,
    DelegatingSerializer,
    EitherValue,
    EncodedValues,
    FieldsCodec,
    FixedWidthCodec,
    Hashes,
    LocalDateTimeSerializer,
    NothingSerializer,
    Op,
    OptionSerializer,
    ScalaEitherSerializer,
    SimpleDelegatingSerializer,
    Some,
    big_endian,
    characters,
    emit_choice,
    fields_in_order,
    fold_long,
    nested_snapshots,
    signed,
    string_hash,
    text,
)

if TYPE_CHECKING:
    from state_processor.serializers.extension import Column, DecodeBuilder, EncodeBuilder

MAPPED_SNAPSHOT: Final = f"{SERIALIZERS}MappedSerializer$MappedSerializerSnapshot"
UUID_MAPPER: Final = f"{MAPPERS}UuidMapper"
_NIL: Final = str(UUID(int=0))
_DASHES: Final = [at for at, character in enumerate(_NIL) if character == "-"]
_DIGITS: Final = [at for at, character in enumerate(_NIL) if character != "-"]
_COUNT: Final = 4
_UUID_SIZE: Final = 16
_LAST_HALF: Final = 15
_HEX: Final = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), dtype=np.uint8).reshape(-1, 2)
"""Two digits of each byte."""
_HALVES: Final = np.array([int(chr(c), 16) if chr(c) in hexdigits else 255 for c in range(256)], dtype=np.uint8)
"""The number of each digit; 255 for other characters."""
UNITS: Final = ("NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS")
"""``TimeUnit``, in the order of its constants."""


class FlinkxOptionSerializer(OptionSerializer):
    """``Option``: the bytes of Flink's own serializer."""

    snapshot_class = f"{SERIALIZERS}ScalaOptionSerializerSnapshot"

    def hash_code(self, value: Some | None) -> int:
        """Return the hash that Scala 2.13 and Scala 3 generate."""
        return string_hash("None") if value is None else prefixed_hash("Some", (self.element,), (value.value,))


class FlinkxEitherSerializer(ScalaEitherSerializer):
    """``Either``: the bytes of Flink's own serializer."""

    snapshot_class = f"{SERIALIZERS}ScalaEitherSerializerSnapshot"

    def hash_code(self, value: EitherValue) -> int:
        """Return the hash that Scala 2.13 and Scala 3 generate."""
        name = "Left" if value.is_left else "Right"
        return prefixed_hash(name, (self._chosen(value.is_left),), (value.value,))


# Mapped types


class MappedSerializer(DelegatingSerializer):
    """A value that a ``TypeMapper`` converts to another type, which is written. Columns contain the other type.

    ``mapper``: the Java class of the mapper. The classes of the library are known: big numbers and ``UUID``.
    """

    def __init__(self, mapper: str, stored: TypeSerializer) -> None:
        super().__init__(stored)
        self.mapper = mapper
        self.stored = stored

    def __str__(self) -> str:
        return f"MAPPED<{simple_name(self.mapper)},{self.stored}>"

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return (self.stored,)

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        (stored,) = children
        return _mapped_by(self.mapper, stored)

    def snapshot(self) -> TypeSerializerSnapshot:
        return _MAPPED(MAPPED_SNAPSHOT, (self.mapper,), [self.stored.snapshot()])


class UuidSerializer(FixedWidthCodec, MappedSerializer):
    """``UUID``, mapped to an array of 16 bytes. A column contains its text."""

    def __init__(self, mapper: str, stored: TypeSerializer) -> None:
        super().__init__(mapper, stored)
        self.length = self.min_size = _COUNT + _UUID_SIZE

    def read(self, source: DataInput) -> UUID:
        start, data = source.position, self.stored.read(source)
        if len(data) != _UUID_SIZE:
            raise source.corrupt(f"a UUID of {_UUID_SIZE} bytes expected, found {len(data)}", start)
        return UUID(bytes=data)

    def write(self, value: UUID, target: DataOutput) -> None:
        self.stored.write(value.bytes, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def to_column(self, value: UUID, options: DecodeOptions) -> str:
        return str(value)

    def from_column(self, value: Any) -> UUID:
        return value if isinstance(value, UUID) else UUID(value)

    def column_of(self, values: EncodedValues) -> pa.Array:
        if (signed(values, 0, _COUNT) != _UUID_SIZE).any():
            raise ValueError(f"a UUID has {_UUID_SIZE} bytes")
        digits_text = np.full((len(values), len(_NIL)), ord("-"), dtype=np.uint8)
        digits_text[:, _DIGITS] = _HEX[values[:, _COUNT:]].reshape(-1, 2 * _UUID_SIZE)
        return text(digits_text)

    def bytes_of(self, column: pa.Array) -> EncodedValues:
        digits_text = characters(column, len(_NIL))
        halves = _HALVES[digits_text[:, _DIGITS]].reshape(-1, _UUID_SIZE, 2)
        if (halves > _LAST_HALF).any() or (digits_text[:, _DASHES] != ord("-")).any():
            raise ValueError("a UUID in another form")
        return np.hstack([big_endian(np.full(len(digits_text), _UUID_SIZE), _COUNT), halves[:, :, 0] << 4 | halves[:, :, 1]])

    @property
    def column_parts(self) -> Sequence[tuple[str, Codec]]:
        return ()

    def hashes_of(self, values: EncodedValues) -> Hashes:
        """Return ``UUID.hashCode``: of both halves, exclusive or."""
        return fold_long(signed(values, _COUNT, 12) ^ signed(values, 12, 20))


def _mapped_by(mapper: str, stored: TypeSerializer) -> MappedSerializer:
    is_uuid = mapper == UUID_MAPPER and isinstance(stored, BytesSerializer)
    return UuidSerializer(mapper, stored) if is_uuid else MappedSerializer(mapper, stored)


def _mapped(snapshot: PartsSnapshot) -> TypeSerializer:
    return _mapped_by(snapshot.names[0], snapshot.nested[0].restore_serializer())


_MAPPED: Final = parts_snapshot(_mapped, 2, names=1, nested=("",))


# Times


class _TimeUnitSerializer(SimpleSerializer):
    """``TimeUnit``: the number of a constant."""

    length = min_size = 4

    def __str__(self) -> str:
        return "TIME_UNIT"

    def read(self, source: DataInput) -> str:
        start, number = source.position, source.read_int()
        if not 0 <= number < len(UNITS):
            raise source.corrupt(f"a unit of time has a number below {len(UNITS)}, found {number}", start)
        return UNITS[number]

    def write(self, value: str, target: DataOutput) -> None:
        if value not in UNITS:
            raise InvalidRowError(f"expected a unit of {', '.join(UNITS)}, found {value!r}")
        target.write_int(UNITS.index(value))

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        builder.enum(column, [unit.encode() for unit in UNITS])

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.enum(column, [unit.encode() for unit in UNITS])


class DurationValue(NamedTuple):
    """A duration: a number of units. An infinite or undefined duration is without number."""

    length: int | None
    unit: str


class DateTimeWithZone(NamedTuple):
    """A date and time, and its zone or offset."""

    date_time: Any
    zone: Any


class FiniteDurationSerializer(SimpleDelegatingSerializer):
    """``FiniteDuration``: a long and the unit."""

    snapshot_class = f"{SERIALIZERS}FiniteDurationSerializerSnapshot"
    content = FieldsCodec(DurationValue, {"length": NumberSerializer("LONG"), "unit": _TimeUnitSerializer()})

    def __str__(self) -> str:
        return "FINITE_DURATION"


_NULL_DURATION: Final = 0xFF
_INFINITE: Final = {1: "UNDEFINED", 2: "INFINITE", 3: "MINUS_INFINITE"}


class DurationSerializer(SimpleSerializer):
    """``Duration``: a byte, 0 for a finite one, which follows; null is possible."""

    snapshot_class = f"{SERIALIZERS}DurationSerializerSnapshot"
    min_size = 1
    _finite = FiniteDurationSerializer.content

    def __str__(self) -> str:
        return "DURATION"

    def read(self, source: DataInput) -> DurationValue | None:
        start, form = source.position, source.read_unsigned_byte()
        if form == _NULL_DURATION:
            return None
        if form in _INFINITE:
            return DurationValue(None, _INFINITE[form])
        if form:
            raise source.corrupt(f"a duration begins with a byte from 0 to 3, or 255 for null; found {form}", start)
        duration: DurationValue = self._finite.read(source)
        return duration

    def write(self, value: DurationValue | None, target: DataOutput) -> None:
        if value is None:
            target.write_byte(_NULL_DURATION)
        elif value.length is None:
            forms = [form for form, unit in _INFINITE.items() if unit == value.unit]
            if not forms:
                raise InvalidRowError(
                    f"a duration without length is one of {', '.join(_INFINITE.values())}, found {value.unit!r}"
                )
            target.write_byte(forms[0])
        else:
            target.write_byte(0)
            self._finite.write(value, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self._finite.arrow_type(options)

    def to_column(self, value: DurationValue | None, options: DecodeOptions) -> Any:
        return None if value is None else self._finite.to_column(value, options)

    def from_column(self, value: Any) -> DurationValue | None:
        if value is None:
            return None
        length, unit = fields_in_order(value, ("length", "unit"), f"a value of {self}")
        if length is None:
            return DurationValue(None, unit)
        duration: DurationValue = self._finite.from_column({"length": length, "unit": unit})
        return duration

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        length, unit = column.child(0), column.child(1)

        def infinite(form: int) -> None:
            builder.op(Op.VALID, column)
            builder.fill_nulls(length)
            builder.text(unit, _INFINITE[form])

        branches: list[Callable[[], None] | None] = [None] * (_NULL_DURATION + 1)
        branches[0] = partial(self._finite.emit_decode, builder, column)
        for form in _INFINITE:
            branches[form] = partial(infinite, form)
        branches[_NULL_DURATION] = partial(builder.fill_nulls, column)
        emit_choice(builder, column, branches)


class ZoneIdSerializer(SimpleDelegatingSerializer):
    """``ZoneId``: its id as text, or null."""

    snapshot_class = f"{SERIALIZERS}ZoneIdSerializerSnapshot"
    content = StringSerializer()

    def __str__(self) -> str:
        return "ZONE_ID"


class ZoneOffsetSerializer(SimpleDelegatingSerializer):
    """``ZoneOffset``: its seconds, or null. A column contains the seconds."""

    snapshot_class = f"{SERIALIZERS}ZoneOffsetSerializerSnapshot"
    content = NullMarked(NumberSerializer("INT"))
    length = 4

    def __str__(self) -> str:
        return "ZONE_OFFSET"

    def hash_code(self, value: int | None) -> int:
        """Return ``ZoneOffset.hashCode``: the seconds."""
        return 0 if value is None else value


class ZonedDateTimeSerializer(SimpleDelegatingSerializer):
    """``ZonedDateTime``: a local date and time, and the id of the zone. Both are null for null."""

    snapshot_class = f"{SERIALIZERS}ZonedDateTimeSerializerSnapshot"
    content = FieldsCodec(DateTimeWithZone, {"date_time": LocalDateTimeSerializer(), "zone": StringSerializer()})

    def __str__(self) -> str:
        return "ZONED_DATE_TIME"


class OffsetDateTimeSerializer(SimpleDelegatingSerializer):
    """``OffsetDateTime``: a local date and time, and the seconds of the offset. Both are null for null."""

    snapshot_class = f"{SERIALIZERS}OffsetDateTimeSerializerSnapshot"
    content = FieldsCodec(
        DateTimeWithZone, {"date_time": LocalDateTimeSerializer(), "offset_seconds": NullMarked(NumberSerializer("INT"))}
    )

    def __str__(self) -> str:
        return "OFFSET_DATE_TIME"


SNAPSHOTS: Final[Mapping[str, type[TypeSerializerSnapshot]]] = {
    MAPPED_SNAPSHOT: _MAPPED,
    **simple_snapshots(
        FiniteDurationSerializer(),
        DurationSerializer(),
        ZoneIdSerializer(),
        ZoneOffsetSerializer(),
        ZonedDateTimeSerializer(),
        OffsetDateTimeSerializer(),
        NothingSerializer(f"{SERIALIZERS}NothingSerializerSnapshot"),
    ),
    **nested_snapshots(FlinkxOptionSerializer, FlinkxEitherSerializer),
}
