"""Java's ``hashCode`` of whole columns of keys: with numpy and one kernel for the usual types, value by value for others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.codec import Codec
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.enums import EnumSerializer
from state_processor.serializers.core.nullable import NullableSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.rows import ROW_KIND_FIELD, ROW_KINDS, RowSerializer, TupleSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.java.hashing import EncodedValues, Hashes, fold_long
from state_processor.serializers.kernel.compiler import entry_point, kernel
from state_processor.serializers.kernel.encode.conversion import conform
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.serializers.kernel.encode.loop import BEGIN, END
from state_processor.serializers.kernel.encode.text import code_point, utf8_size
from state_processor.serializers.kernel.memory import load_i32
from state_processor.serializers.kernel.outcomes import log_fallback
from state_processor.serializers.kernel.signatures import boolean, int32, int64, read, uint8, written
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.serializers.runtime.wrapping import WrappingSerializer
from state_processor.serializers.table.python_state import PythonKeySerializer
from state_processor.serializers.table.rowdata import BinaryDataSerializer
from state_processor.serializers.table.single_values import BinaryRowDataSerializer, StringDataSerializer
from state_processor.serializers.traversal import outermost_of, walk
from state_processor.support.errors import UNWRITABLE, InvalidRowError, UnsupportedFormatError, why_unwritable
from state_processor.support.late import pc

_INTEGERS: Final = frozenset({"BYTE", "SHORT", "INT"})
_FLOAT_NAN: Final = 0x7FC00000
_DOUBLE_NAN: Final = 0x7FF8000000000000
_MURMUR_SEED: Final = 42
_SIZE: Final = 4


def require_hash_code(serializer: Codec) -> None:
    """Check that a rule of Flink or of the JDK, and not code of the job, defines the ``hashCode`` of keys."""
    for part in outermost_of((PojoSerializer, KryoSerializer, EnumSerializer), serializer):
        raise UnsupportedFormatError(
            f"keys of type {serializer}: the hashCode of {part} is code of its class and decides the key group of each key; "
            'give it as key_hash, for instance key_hash=HashRule("Objects.hash", ("tenant", "id"))'
        )


def has_known_hash(serializer: Codec) -> bool:
    """Return whether ``hashCode`` is a rule for whole columns, for all values of the type."""
    options = DecodeOptions()
    return all(_vectorized(part, pa.nulls(0, part.arrow_type(options))) is not None for part in walk(serializer))


def hash_codes(serializer: Codec, keys: pa.Array, column: str = "key") -> Hashes:
    """Return ``hashCode`` of every key of a column.

    ``serializer``: the key's serializer. ``keys``: the keys, of a type that
    :func:`~state_processor.serializers.kernel.encode.conversion.bind` allows. ``column``: name of the column in errors.
    """
    array = conform(serializer, keys, column)
    if array.null_count:
        row = int(np.flatnonzero(pc.is_null(array).to_numpy(zero_copy_only=False))[0])
        problem = InvalidRowError(f"column {column} of row {row} is null; a key can't be null")
        problem.row = row
        raise problem
    return column_hashes(serializer, array)


def column_hashes(serializer: Codec, array: pa.Array) -> Hashes:
    """Return ``hashCode`` of the values of a column that has the serializer's own type; 0 for null."""
    hashes = _vectorized(serializer, array)
    if hashes is None:
        return _one_by_one(serializer, array)
    return np.where(_nulls(array), np.int32(0), hashes) if array.null_count else hashes


def _nulls(array: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.is_null(array).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _one_by_one(serializer: Codec, array: pa.Array) -> Hashes:
    log_fallback("hashed", serializer)
    codes = np.zeros(len(array), dtype=np.int32)
    for row, value in enumerate(array.to_pylist()):
        if value is None:
            continue
        try:
            accepted = serializer.from_column(value)
        except UNWRITABLE as problem:
            error = InvalidRowError(f"key {value!r} of row {row} does not fit: {why_unwritable(problem, serializer, value)}")
            error.row = row
            raise error from problem
        codes[row] = serializer.hash_code(accepted)
    return codes


def _vectorized(serializer: Codec, array: pa.Array) -> Hashes | None:
    """Return the hashes if a rule for whole columns exists, else ``None``; hashes of null slots are undefined."""
    if isinstance(serializer, NullableSerializer):
        return _vectorized(serializer.inner, array)
    if type(serializer) is NumberSerializer:
        return _numbers(str(serializer), array)
    if isinstance(serializer, StringSerializer):
        return _strings(array)
    if type(serializer) is TupleSerializer:
        return polynomial([column_hashes(f, _child(array, i)) for i, f in enumerate(serializer.fields)], 0)
    if type(serializer) is RowSerializer:
        return _rows(serializer, array)
    if isinstance(serializer, PythonKeySerializer):
        return _rows(serializer.row, pa.StructArray.from_arrays([array], names=["f0"]))
    if isinstance(serializer, WrappingSerializer):
        return _vectorized(serializer.content, array)
    if isinstance(serializer, BinaryDataSerializer):
        return _binary(serializer, array)
    if isinstance(serializer, BinaryRowDataSerializer | StringDataSerializer):
        return _murmur(array, signed_rest=isinstance(serializer, StringDataSerializer))
    return _of_present(array, lambda present: _encoded(serializer, present))


def _encoded(serializer: Codec, array: pa.Array) -> Hashes | None:
    """Return the hashes of a column without nulls from the bytes of its values, if the serializer has such a rule."""

    def encode() -> EncodedValues:
        return encode_column(serializer, array).data.reshape(len(array), serializer.length)

    return serializer.hash_encoded(encode)


def _child(array: pa.StructArray, index: int) -> pa.Array:
    return pc.struct_field(array, index) if array.null_count else array.field(index)


def polynomial(parts: Sequence[Hashes], start: int, factor: int = 31) -> Hashes:
    """Return ``factor * hash + part`` over all parts, from ``start`` on."""
    code = np.full(len(parts[0]) if parts else 0, start, dtype=np.int32)
    with np.errstate(over="ignore"):
        for part in parts:
            code = code * np.int32(factor) + part
    return code


def _numbers(name: str, array: pa.Array) -> Hashes:
    if array.null_count:
        array = array.fill_null(False if name == "BOOLEAN" else 0)
    values = array.to_numpy(zero_copy_only=False)
    if name in _INTEGERS:
        return np.asarray(values, dtype=np.int32)
    if name == "LONG":
        return fold_long(values)
    if name == "BOOLEAN":
        return np.where(values, np.int32(1231), np.int32(1237)).astype(np.int32)
    if name == "FLOAT":
        return np.where(np.isnan(values), np.int32(_FLOAT_NAN), np.ascontiguousarray(values).view(np.int32)).astype(np.int32)
    return fold_long(np.where(np.isnan(values), np.int64(_DOUBLE_NAN), np.ascontiguousarray(values).view(np.int64)))


def _strings(array: pa.Array) -> Hashes:
    codes = np.zeros(len(array), dtype=np.int32)
    offsets, text = array.buffers()[1:]
    if len(array) and text is not None:
        starts = np.frombuffer(offsets, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
        _hash_strings(np.frombuffer(text, dtype=np.uint8), starts.astype(np.int64), codes)
    return codes


@entry_point(read(uint8), read(int64), written(int32))
def _hash_strings(text, starts, codes):  # type: ignore[no-untyped-def]
    """Return ``String.hashCode`` of UTF-8 texts: over UTF-16 units."""
    for row in range(len(codes)):
        code = np.uint32(0)
        i = np.int64(starts[row])
        end = np.int64(starts[row + 1])
        while i < end:
            byte = text[i]
            if byte < 0x80:
                code = np.uint32(code * np.uint32(31) + np.uint32(byte))
                i += 1
                continue
            width = utf8_size(byte)
            point = code_point(text, i, width)
            i += width
            if point >= 0x10000:
                point -= 0x10000
                code = np.uint32(code * np.uint32(31) + np.uint32(0xD800 + (point >> 10)))
                point = 0xDC00 + (point & 0x3FF)
            code = np.uint32(code * np.uint32(31) + np.uint32(point))
        codes[row] = np.int32(code)


def _binary(serializer: BinaryDataSerializer, array: pa.Array) -> Hashes | None:
    """Return ``hashCode`` of binary rows, arrays and maps: over their bytes, as in keys."""

    def hash_present(present: pa.Array) -> Hashes:
        encoded = encode_column(serializer, present, as_keys=True)
        codes = np.zeros(len(present), dtype=np.int32)
        _hash_words(encoded.data, encoded.entries[:, BEGIN] + _SIZE, encoded.entries[:, END].copy(), True, codes)
        return codes

    return _of_present(array, hash_present)


def _of_present(array: pa.Array, hashes: Callable[[pa.Array], Hashes | None]) -> Hashes | None:
    """Return the hashes of a column from the hashes of its values that are not null."""
    if not array.null_count:
        return hashes(array)
    rows = np.flatnonzero(~_nulls(array))
    hash_codes = hashes(array.take(pa.array(rows)))
    if hash_codes is None:
        return None
    codes = np.zeros(len(array), dtype=np.int32)
    codes[rows] = hash_codes
    return codes


def _murmur(array: pa.Array, *, signed_rest: bool) -> Hashes:
    """Return the hash of texts or bytes; with ``signed_rest``, bytes after the last whole word are hashed as signed numbers."""
    codes = np.zeros(len(array), dtype=np.int32)
    offsets, content = array.buffers()[1:]
    if len(array) and content is not None:
        bounds = np.frombuffer(offsets, dtype=np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
        _hash_words(np.frombuffer(content, dtype=np.uint8), bounds[:-1], bounds[1:], signed_rest, codes)
    return codes


@kernel
def _mixed(code, word):  # type: ignore[no-untyped-def]
    word = (word * 0xCC9E2D51) & 0xFFFFFFFF
    word = ((word << 15) | (word >> 17)) & 0xFFFFFFFF
    code ^= (word * 0x1B873593) & 0xFFFFFFFF
    code = ((code << 13) | (code >> 19)) & 0xFFFFFFFF
    return (code * 5 + 0xE6546B64) & 0xFFFFFFFF


@entry_point(read(uint8), read(int64), read(int64), boolean, written(int32))
def _hash_words(data, begins, ends, rest, codes):  # type: ignore[no-untyped-def]
    """Apply Flink's ``MurmurHashUtils`` over words of four bytes and, with ``rest``, over each byte after them."""
    for row in range(len(codes)):
        code = np.int64(_MURMUR_SEED)
        at = begins[row]
        end = ends[row]
        while at + 4 <= end:
            code = _mixed(code, load_i32(data, at) & 0xFFFFFFFF)
            at += 4
        while rest and at < end:
            byte = np.int64(data[at])
            code = _mixed(code, byte if byte < 0x80 else byte | 0xFFFFFF00)
            at += 1
        code ^= end - begins[row]
        code ^= code >> 16
        code = (code * 0x85EBCA6B) & 0xFFFFFFFF
        code ^= code >> 13
        code = (code * 0xC2B2AE35) & 0xFFFFFFFF
        codes[row] = np.int32(code ^ (code >> 16))


def _rows(serializer: RowSerializer, array: pa.Array) -> Hashes | None:
    """Return ``Row.hashCode`` of rows whose fields are scalars or rows; ``None`` for others."""
    kind_index = array.type.get_field_index(ROW_KIND_FIELD)
    first = 0 if kind_index < 0 else 1
    parts = []
    for number, field in enumerate(serializer.fields):
        child = _child(array, first + number)
        codes = _vectorized(field, child)
        if codes is None:
            return None
        with np.errstate(over="ignore"):
            codes = codes + np.int32(31)
        parts.append(np.where(_nulls(child), np.int32(0), codes).astype(np.int32) if child.null_count else codes)
    code = polynomial(parts, 1) if parts else np.ones(len(array), dtype=np.int32)
    if kind_index >= 0:
        kinds = pc.index_in(_child(array, kind_index), pa.array(ROW_KINDS)).fill_null(0).to_numpy(zero_copy_only=False)
        with np.errstate(over="ignore"):
            code = code + np.int32(31) * kinds.astype(np.int32)
    return code
