"""State of PyFlink jobs, and the serializers of single values that PyFlink exchanges with Python.

The serializers are those of Flink's package ``…typeutils.serializers.python``. State is byte arrays from Python's coders,
pickles, and rows of one field as keys (PyFlink: ``state_impl``).
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot, register_simple
from state_processor.serializers.big_numbers import to_decimal
from state_processor.serializers.codec import VARIABLE, Codec
from state_processor.serializers.core.arrays import (
    BytesSerializer,
    GenericArraySerializer,
    PrimitiveArraySerializer,
    SimpleArraySerializer,
)
from state_processor.serializers.core.basic import NumberSerializer, PythonCoder
from state_processor.serializers.core.collections import JoinedListCodec, ListCodec, ListSerializer, MapSerializer, NullFlagged
from state_processor.serializers.core.rows import ROW_KINDS, RowSerializer, RowValue, TupleSerializer
from state_processor.serializers.core.scalars import scalar_type_of
from state_processor.serializers.core.templates import DelegatingSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kernel.columns import DISCARD
from state_processor.serializers.kernel.opcodes import Op
from state_processor.serializers.registry import provide_snapshots
from state_processor.serializers.runtime.wrapping import TtlSerializer, TtlValue
from state_processor.serializers.table.binary_values import OfSqlType, decode_text, encode_text, present_decimal, to_unscaled
from state_processor.serializers.table.logical_types import DecimalType
from state_processor.serializers.table.single_values import (
    DateDataSerializer,
    NumbersSnapshot,
    StringDataSerializer,
    TimeDataSerializer,
    TimestampDataSerializer,
)
from state_processor.serializers.traversal import transform
from state_processor.support.errors import StateProcessorError, UndecodableValueError, UnsupportedFormatError

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

# Single values

PYTHON: Final = "org.apache.flink.table.runtime.typeutils.serializers.python."


class ByteArrayWrapperSerializer(BytesSerializer):
    """``ByteArrayWrapper``: a count and the bytes. PyFlink wraps arrays because Java does not compare arrays by content."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshot_class = "org.apache.flink.streaming.api.utils.ByteArrayWrapperSerializer$ByteArrayWrapperSerializerSnapshot"


class PythonDateSerializer(DateDataSerializer):
    """A day: days since 1970 (Flink: ``DateSerializer`` of the Python package)."""

    snapshot_class = f"{PYTHON}DateSerializer$DateSerializerSnapshot"


class PythonTimeSerializer(TimeDataSerializer):
    """A time of day: its milliseconds (Flink: ``TimeSerializer`` of the Python package)."""

    snapshot_class = f"{PYTHON}TimeSerializer$TimeSerializerSnapshot"


class PythonBigDecimalSerializer(StringDataSerializer):
    """A decimal of any size as its text (Flink: ``BigDecSerializer`` of the Python package)."""

    snapshot_class = f"{PYTHON}BigDecSerializer$BigDecSerializerSnapshot"

    def __str__(self) -> str:
        return "BIG_DEC"


DECIMAL_SNAPSHOT: Final = f"{PYTHON}DecimalDataSerializer$DecimalSerializerSnapshot"


class PythonDecimalSerializer(OfSqlType, TypeSerializer):
    """A decimal as its text (Flink: ``DecimalDataSerializer`` of the Python package)."""

    type: DecimalType
    min_size = 5

    def __init__(self, precision: int, scale: int, snapshot_class: str = DECIMAL_SNAPSHOT) -> None:
        self.type = DecimalType(precision, scale)
        self._snapshot_class = snapshot_class

    def read(self, source: DataInput) -> Decimal:
        start = source.position
        text = decode_text(source.read_bytes(source.read_int(), "decimal"))
        try:
            return Decimal(text)
        except InvalidOperation:
            raise source.corrupt(f"expected a decimal, found {text!r}", start) from None

    def write(self, value: Decimal, target: DataOutput) -> None:
        to_unscaled(value, self.type)
        data = encode_text(str(value))
        target.write_int(len(data))
        target.write_bytes(data)

    def from_column(self, value: Any) -> Decimal:
        return to_decimal(to_unscaled(value, self.type), self.type.scale)

    def to_column(self, value: Decimal, options: DecodeOptions) -> Decimal:
        return present_decimal(value, self.type)

    def snapshot(self) -> TypeSerializerSnapshot:
        return PythonDecimalSerializerSnapshot(self._snapshot_class, [self.type.precision, self.type.scale])


class PythonDecimalSerializerSnapshot(NumbersSnapshot):
    """Snapshot of :class:`PythonDecimalSerializer`."""

    current_version = 1
    names = ("precision", "scale")
    serializer = PythonDecimalSerializer


TIMESTAMP_SNAPSHOT: Final = f"{PYTHON}TimestampSerializer$TimestampSerializerSnapshot"


class PythonTimestampSerializer(TimestampDataSerializer):
    """``java.sql.Timestamp`` as the table runtime writes timestamps (Flink: ``TimestampSerializer`` of the Python package)."""

    def __init__(self, precision: int, snapshot_class: str = TIMESTAMP_SNAPSHOT) -> None:
        super().__init__(precision, snapshot_class)

    def snapshot(self) -> TypeSerializerSnapshot:
        return PythonTimestampSerializerSnapshot(self._snapshot_class, [self.type.precision])


class PythonTimestampSerializerSnapshot(NumbersSnapshot):
    """Snapshot of :class:`PythonTimestampSerializer`."""

    current_version = 1
    names = ("precision",)
    serializer = PythonTimestampSerializer


register_simple(StringDataSerializer(f"{PYTHON}StringSerializer$StringSerializerSnapshot"))
register_simple(PythonBigDecimalSerializer())
register_simple(PythonDateSerializer())
register_simple(PythonTimeSerializer())
provide_snapshots((DECIMAL_SNAPSHOT, f"{PYTHON}DecimalSerializer$DecimalSerializerSnapshot"), PythonDecimalSerializerSnapshot)
provide_snapshots((TIMESTAMP_SNAPSHOT,), PythonTimestampSerializerSnapshot)
register_simple(ByteArrayWrapperSerializer())


# Coders of state

_MILLISECONDS: Final = 3


class _DecimalTextSerializer(PythonBigDecimalSerializer):
    """A decimal of any size, encoded as its text in Python."""

    def from_column(self, value: Any) -> str:
        return str(value)


class _PythonListSerializer(ListCodec, TypeSerializer):
    """A list: a count, then for each element a byte 1 and the element, or a byte 0 for null."""

    element: NullFlagged[TypeSerializer]

    def __init__(self, element: TypeSerializer) -> None:
        super().__init__(NullFlagged(element, null_when=False))

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return (self.element.inner,)

    def with_children(self, children: Sequence[Any]) -> Self:
        (element,) = children
        return type(self)(element)

    def snapshot(self) -> TypeSerializerSnapshot:
        return ListSerializer(self.element.inner).snapshot()


_SCALARS: Final[dict[PythonCoder, Callable[[TypeSerializer], TypeSerializer]]] = {
    PythonCoder.SAME: lambda t: t,
    PythonCoder.TEXT: lambda t: StringDataSerializer(),
    PythonCoder.LONG: lambda t: NumberSerializer("LONG"),
    PythonCoder.DECIMAL_TEXT: lambda t: _DecimalTextSerializer(),
    PythonCoder.DATE: lambda t: PythonDateSerializer(),
    PythonCoder.TIME: lambda t: PythonTimeSerializer(),
    PythonCoder.TIMESTAMP: lambda t: TimestampDataSerializer(_MILLISECONDS),
}

_NESTED: Final[dict[type[TypeSerializer], Callable[[Any], TypeSerializer]]] = {
    PrimitiveArraySerializer: lambda t: ListSerializer(python_coder(t.element)),
    SimpleArraySerializer: lambda t: _PythonListSerializer(python_coder(t.element)),
    GenericArraySerializer: lambda t: _PythonListSerializer(python_coder(t.element)),
    ListSerializer: lambda t: _PythonListSerializer(python_coder(t.element)),
    MapSerializer: lambda t: MapSerializer(python_coder(t.key), python_coder(t.value.inner)),
    TupleSerializer: lambda t: TupleSerializer(list(map(python_coder, t.fields))),
    RowSerializer: lambda t: RowSerializer(list(map(python_coder, t.fields)), t.names),
}
"""Coders of types with nested types, as in PyFlink's ``from_type_info``."""


def python_coder(type_: TypeSerializer) -> TypeSerializer:
    """Return the serializer that reads and writes values of a type like PyFlink's workers."""
    scalar = scalar_type_of(type_)
    maker = _NESTED.get(type(type_)) if scalar is None else _SCALARS.get(scalar.python_coder)
    if maker is None:
        raise UnsupportedFormatError(f"PyFlink lacks a coder for values of type {type_}")
    return maker(type_)


def load_pickle(content: bytes) -> Any:
    """Return the object of a pickle."""
    try:
        return pickle.loads(content)
    except Exception as error:
        raise UndecodableValueError(f"the pickle of {len(content)} bytes can't be loaded: {error!r}") from error


def json_of(value: Any) -> str:
    """Return the JSON of an object."""
    try:
        _check_keys(value)
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UndecodableValueError(
            f"a pickled {type(value).__name__} does not fit JSON ({error}): name its type, unpickle=Types.…, or read the bytes "
            "and load them with sp.pyflink.load_pickle"
        ) from None


def _check_keys(value: Any) -> None:
    """Refuse keys that ``json.dumps`` would convert to text."""
    if isinstance(value, dict):
        unfit_key = next((key for key in value if not isinstance(key, str)), None)
        if unfit_key is not None:
            raise TypeError(f"the key {unfit_key!r} is not text")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
        _check_keys(inner)


class PickleSerializer(BytesSerializer):
    """A pickle that is loaded, as JSON text or as a value of a type.

    ``declared``: the type; ``None`` for JSON text.
    """

    never_null = False  # None of Python

    def __init__(self, declared: TypeSerializer | None) -> None:
        super().__init__()
        self.declared = declared

    def __str__(self) -> str:
        return f"PICKLE<{self.declared or 'JSON'}>"

    def read(self, source: DataInput) -> Any:
        value = load_pickle(super().read(source))
        if self.declared is None:
            return json_of(value)
        try:
            accepted = None if value is None else self.declared.from_column(value)
            column_value = (
                None
                if value is None
                else self.declared.to_column(self.declared.deserialize(self.declared.serialize(accepted)), _PLAIN)
            )
            pa.array([column_value], self.declared.arrow_type(_PLAIN))
        except StateProcessorError:
            raise
        except Exception as error:
            raise UndecodableValueError(f"a pickled {type(value).__name__} is no {self.declared}: {error!r}") from None
        return accepted

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string() if self.declared is None else self.declared.arrow_type(options)

    def to_column(self, value: Any, options: DecodeOptions) -> Any:
        return value if value is None or self.declared is None else self.declared.to_column(value, options)

    def emit_decode(self, builder: Any, column: Any) -> None:
        TypeSerializer.emit_decode(self, builder, column)

    def emit_encode(self, builder: Any, column: Any) -> None:
        raise UndecodableValueError("pickles are written as bytes: leave unpickle out")


_PLAIN = DecodeOptions()


def loading_pickles(coder: TypeSerializer, declared: TypeSerializer | None) -> TypeSerializer:
    """Return a coder whose byte arrays are loaded as pickles, and shown as values of a type or as JSON text."""
    return transform(coder, lambda part: PickleSerializer(declared) if type(part) is BytesSerializer else part)


PYTHON_PREFIX: Final = "python-state-"
"""Prefix of the names of PyFlink's states in snapshots (PyFlink: ``BeamStateHandler``)."""
_ONE: Final = (1).to_bytes(4, "big")


class FramedSerializer(DelegatingSerializer):
    """A value of a Python coder in a byte array: the number of bytes, and the value, which uses all of them.

    ``array``: the serializer of the byte array, from the snapshot.
    """

    child_names = ("",)
    content: TypeSerializer

    def __init__(self, inner: TypeSerializer, array: TypeSerializer) -> None:
        super().__init__(inner)
        self.array = array
        self.length, self.min_size = VARIABLE, 4

    def __str__(self) -> str:
        return str(self.content)

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return (self.content,)

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        (content,) = children
        return self._copy_with(content=content)

    def read(self, source: DataInput) -> Any:
        part = _frame(source)
        value = self.content.read(part)
        if not part.at_end():
            raise part.corrupt(f"{part.remaining} bytes are left over after a value of type {self}")
        return value

    def skip(self, source: DataInput) -> None:
        _frame(source)

    def write(self, value: Any, target: DataOutput) -> None:
        data = self.content.serialize(value)
        target.write_int(len(data))
        target.write_bytes(data)

    @property
    def writes_null(self) -> bool:
        return False  # Java has null instead of a byte array then; the coder's bytes for None do not matter

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        if column is DISCARD:
            builder.op(Op.BYTES, DISCARD)
            return
        with builder.frame():
            self.content.emit_decode(builder, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(Op.REQUIRE, column)
        with builder.frame():
            self.content.emit_encode(builder, column)

    key_from_column = Codec.key_from_column
    emit_encode_key = Codec.emit_encode_key

    def snapshot(self) -> TypeSerializerSnapshot:
        return self.array.snapshot()


def _frame(source: DataInput) -> DataInput:
    """Skip a byte array, and return the input of its bytes."""
    size = source.read_count("bytes")
    begin = source.position
    source.skip(size)
    return DataInput(source.data, source.source, begin, begin + size, flink_major=source.flink_major)


class OneElementSerializer(ListSerializer):
    """A value as Java's list of one element, with its count, as on the heap."""

    def __str__(self) -> str:
        return str(self.element)

    def read(self, source: DataInput) -> Any:
        start = source.position
        count = source.read_int()
        if count != 1:
            raise source.corrupt(f"expected a value as a list of one element, found {count}: the state is of another kind", start)
        return self.element.read(source)

    def skip(self, source: DataInput) -> None:
        self.read(source)

    def write(self, value: Any, target: DataOutput) -> None:
        target.write_bytes(_ONE)
        self.element.write(value, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.element.arrow_type(options)

    def to_column(self, value: Any, options: DecodeOptions) -> Any:
        return self.element.to_column(value, options)

    def from_column(self, value: Any) -> Any:
        return self.element.from_column(value)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        for byte in _ONE:
            builder.expect(byte)
        self.element.emit_decode(builder, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.bytes(_ONE)
        self.element.emit_encode(builder, column)


class JoinedPiecesCodec(JoinedListCodec):
    """The elements of a list state, in pieces with commas between them.

    Python adds all elements of a bundle of records as one piece: a byte array with one element after the other. With time-to-live
    all elements of a piece share its time.
    """

    def __init__(self, element: TypeSerializer) -> None:
        super().__init__(element)
        check_element(element)

    def read(self, source: DataInput) -> list[Any]:
        values: list[Any] = []
        start = source.position
        while not source.at_end():
            if source.position > start and source.read_unsigned_byte() != ord(","):
                raise source.corrupt("a comma between list elements expected", source.position - 1)
            values += _piece(self.element, source)
        return values

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        with builder.joined(column):
            _emit_piece(self.element, builder, column.child(0))


class CountedPiecesSerializer(ListSerializer):
    """The same pieces after their count, as on the heap."""

    def __init__(self, element: TypeSerializer) -> None:
        super().__init__(element)
        check_element(element)

    def read(self, source: DataInput) -> list[Any]:
        values: list[Any] = []
        for _ in range(source.read_count("list elements", self.element.min_size)):
            values += _piece(self.element, source)
        return values

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        with builder.counted(column, min_size=self.element.min_size):
            _emit_piece(self.element, builder, column.child(0))


def _framed(element: Codec) -> FramedSerializer:
    framed = element.value if isinstance(element, TtlSerializer) else element
    assert isinstance(framed, FramedSerializer)
    return framed


def check_element(element: TypeSerializer) -> None:
    """Refuse elements without bytes, because their number in a piece is ambiguous."""
    if not _framed(element).content.min_size:
        raise UnsupportedFormatError(f"elements of type {element} may be empty: their number in a list state is ambiguous")


def _piece(element: Codec, source: DataInput) -> Iterator[Any]:
    """Read the elements of one piece, each with its time if it has one."""
    is_timed_ = isinstance(element, TtlSerializer)
    last_access = source.read_long() if is_timed_ else 0
    part, inner = _frame(source), _framed(element).content
    while not part.at_end():
        value = inner.read(part)
        yield TtlValue(last_access, value) if is_timed_ else value


def _emit_piece(element: Codec, builder: DecodeBuilder, column: Column) -> None:
    inner = _framed(element).content
    if not isinstance(element, TtlSerializer):
        with builder.frame(), builder.until_end():
            inner.emit_decode(builder, column)
        return
    time, value = builder.register(), builder.register()
    builder.op(Op.MARK, register=time)
    builder.skip(element.nested[0].length)
    with builder.frame(), builder.until_end():
        if builder.options.ttl:  # the time of the piece is read again for each element
            builder.op(Op.MARK, register=value)
            builder.op(Op.MOVE, register=time)
            element.emit_time(builder, column)
            builder.op(Op.MOVE, register=value)
            inner.emit_decode(builder, column.child(1))
        else:
            inner.emit_decode(builder, column)


class PythonKeySerializer(TypeSerializer):
    """The key of a PyFlink job, in Java a row of one field."""

    child_names = ("",)

    def __init__(self, row: RowSerializer) -> None:
        self.row = row
        self.min_size = row.min_size

    @property
    def content(self) -> TypeSerializer:
        """The serializer of the key itself."""
        return self.row.fields[0]

    def __str__(self) -> str:
        return str(self.content)

    @property
    def children(self) -> Sequence[TypeSerializer]:
        return (self.content,)

    def with_children(self, children: Sequence[TypeSerializer]) -> TypeSerializer:
        return PythonKeySerializer(self.row._copy_with(fields=tuple(children)))

    def read(self, source: DataInput) -> Any:
        return self.row.read(source).fields[0]

    def skip(self, source: DataInput) -> None:
        self.row.skip(source)

    def write(self, value: Any, target: DataOutput) -> None:
        self.row.write(_row(value), target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.content.arrow_type(options)

    def to_column(self, value: Any, options: DecodeOptions) -> Any:
        return None if value is None else self.content.to_column(value, options)

    def from_column(self, value: Any) -> Any:
        return None if value is None else self.content.from_column(value)

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        mask = builder.register()
        builder.op(Op.MASK, register=mask, bits=self.row.mask_bits)
        with builder.unless(Op.MASK_NULL, column, register=mask, nulls=column, bit=self.row.mask_bits - 1):
            self.content.emit_decode(builder, column)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(Op.REQUIRE, column)
        builder.bytes(bytes(self.row.min_size))
        self.content.emit_encode(builder, column)

    def snapshot(self) -> TypeSerializerSnapshot:
        return self.row.snapshot()

    def hash_code(self, value: Any) -> int:
        return self.row.hash_code(_row(value))


def _row(key: Any) -> RowValue:
    return RowValue(ROW_KINDS[0], (key,))


def python_key(serializer: TypeSerializer) -> TypeSerializer:
    """Return the serializer of the key in a row of one field; for other types the serializer itself."""
    if isinstance(serializer, RowSerializer) and len(serializer.fields) == 1:
        return PythonKeySerializer(serializer)
    return serializer


def framed(inner: TypeSerializer, written: TypeSerializer) -> TypeSerializer:
    """Return the serializer of Python values for a snapshot's byte arrays, with their time-to-live."""
    if isinstance(written, TtlSerializer):
        return TtlSerializer(written.nested[0], framed(inner, written.value))
    if isinstance(written, FramedSerializer):
        written = written.array
    if not isinstance(written, BytesSerializer):
        raise UnsupportedFormatError(f"expected byte arrays as values of PyFlink, found {written}")
    return FramedSerializer(inner, written)
