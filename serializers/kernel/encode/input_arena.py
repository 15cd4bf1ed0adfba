"""Arrow columns as the encode kernel sees them: copied into one arena, so that all offsets refer to the same array.

The loop hands over its tables to families of instructions. Long texts of digits are converted to two's complement before, which
takes Python less than quadratic time.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.big_numbers import to_java_bytes, to_unscaled_and_scale
from state_processor.serializers.kernel.columns import Column, ColumnTree
from state_processor.serializers.kernel.compiler import kernel
from state_processor.serializers.kernel.families import caller, tables_in_memory
from state_processor.serializers.kernel.memory import load_i32, store_i32, store_i64
from state_processor.serializers.kernel.signatures import int64, read, uint8, written
from state_processor.serializers.text_grammar import to_number, to_whole_number

PROGRAM: Final = read(int64, 2)
BYTES: Final = read(uint8)
COLUMNS: Final = read(int64, 2)
REGISTERS: Final = written(int64)
OUTPUT: Final = written(uint8)

LARGEST_FIXED: Final = 16
"""Bytes that the loop finds room for before each instruction, so that instructions of a fixed size need no check."""

store_tables, load_tables = tables_in_memory(PROGRAM, BYTES, BYTES, COLUMNS, REGISTERS, REGISTERS, REGISTERS, OUTPUT)
"""prog, consts, arena, cols, idx, stop, regs, out"""

run_family: Final = caller(3)
"""Returns the index of the next instruction, the position after it, and the status. The end is that of the output."""

# Fields of a row of the column table
LEVEL: Final = 0  # register that holds the current slot
VALIDITY: Final = 1  # arena offset: one byte a slot, 0 for null; -1 where no slot is null
DATA: Final = 2  # arena offset: values, or int32 offsets (one more than slots)
VAR: Final = 3  # arena offset of text and bytes
FIELDS: Final = 4

_ALIGNMENT: Final = 8
_PADDING: Final = 16  # the kernel loads eight bytes at a time

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]


def level_of(column: Column) -> int:
    """Return the register with the slot of a column: 0 for the row, else the register of the enclosing list or map."""
    return 0 if column.element_of is None else column.element_of.index + 1


class InputArena:
    """The memory of one batch to encode.

    ``tree``: the columns of the program. ``batch``: columns of exactly those types, in that order. ``numbers``: for the columns,
    by number, with digits of numbers of any size: whether these are whole.
    """

    def __init__(self, tree: ColumnTree, batch: pa.RecordBatch, numbers: Mapping[int, bool]) -> None:
        self.table = np.full((max(len(tree.all), 1), FIELDS), -1, dtype=np.int64)
        self._pieces: list[Bytes] = []
        self._size = 0
        self._numbers = numbers
        for column, array in zip(tree.roots, batch.columns, strict=True):
            self._add(column, array)
        self._put(np.zeros(_PADDING, dtype=np.uint8))
        self.memory = np.empty(self._size, dtype=np.uint8)
        at = 0
        for piece in self._pieces:
            self.memory[at : at + len(piece)] = piece
            at += -(-len(piece) // _ALIGNMENT) * _ALIGNMENT
        self._pieces.clear()

    def _put(self, data: Bytes) -> int:
        start = self._size
        self._pieces.append(data)
        self._size += -(-len(data) // _ALIGNMENT) * _ALIGNMENT
        return start

    def _add(self, column: Column, array: pa.Array) -> None:
        entry = self.table[column.index]
        entry[LEVEL] = level_of(column)
        validity = _validity(array)
        if validity is not None:
            entry[VALIDITY] = self._put(validity)
        type_ = array.type
        if pa.types.is_struct(type_):
            for number, child in enumerate(column.children):
                self._add(child, array.field(number))
        elif pa.types.is_list(type_) or pa.types.is_map(type_):
            offsets = _offsets(array)
            entry[DATA] = self._put((offsets - offsets[0]).view(np.uint8))
            first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
            values = [array.keys, array.items] if pa.types.is_map(type_) else [array.values]
            for child, inner in zip(column.children, values, strict=True):
                self._add(child, inner.slice(first, count))
        elif pa.types.is_string(type_) or pa.types.is_binary(type_):
            offsets = _offsets(array)
            text = _bytes(array.buffers()[2])[int(offsets[0]) : int(offsets[-1])]
            offsets = offsets - offsets[0]
            if column.index in self._numbers:
                offsets, text = without_long_numbers(offsets, text, whole=self._numbers[column.index])
            entry[DATA] = self._put(offsets.view(np.uint8))
            entry[VAR] = self._put(text)
        elif not pa.types.is_null(type_):
            entry[DATA] = self._put(_fixed(array))


def _bytes(buffer: pa.Buffer | None) -> Bytes:
    return np.zeros(0, dtype=np.uint8) if buffer is None else np.frombuffer(buffer, dtype=np.uint8)


def _validity(array: pa.Array) -> Bytes | None:
    if not array.null_count:
        return None
    if pa.types.is_null(array.type):
        return np.zeros(len(array), dtype=np.uint8)
    bits = np.unpackbits(_bytes(array.buffers()[0]), bitorder="little")
    return bits[array.offset : array.offset + len(array)]


def _offsets(array: pa.Array) -> Offsets:
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array) + 1, dtype=np.int32)
    return np.frombuffer(buffer, dtype=np.int32)[array.offset : array.offset + len(array) + 1]


def _fixed(array: pa.Array) -> Bytes:
    data = _bytes(array.buffers()[1])
    if pa.types.is_boolean(array.type):
        return np.unpackbits(data, bitorder="little")[array.offset : array.offset + len(array)]
    width = array.type.bit_width // 8
    return data[array.offset * width : (array.offset + len(array)) * width]


LONG_TEXT: Final = 2048
"""Most bytes of a text whose digits the kernel multiplies itself, which takes quadratic time."""
LONG_MARK: Final = 0xFF
"""First byte of a number that is not text. No text in UTF-8 starts with it; the scale in eight bytes and the number follow."""

_SCALE: Final = struct.Struct("<q")


def without_long_numbers(offsets: Offsets, text: Bytes, *, whole: bool) -> tuple[Offsets, Bytes]:
    """Return the offsets and bytes of a column of digits with its long numbers in the form that :data:`LONG_MARK` begins.

    A text that is not a number, or too large for the type, does not change; the kernel refuses it.

    ``offsets`` and ``text``: where the texts begin and end, and their bytes.
    """
    if not (np.diff(offsets) > LONG_TEXT).any():
        return offsets, text
    pieces = [text[begin:end].tobytes() for begin, end in pairwise(offsets)]
    pieces = [_converted(piece, whole) if len(piece) > LONG_TEXT else piece for piece in pieces]
    sizes = np.cumsum([0, *map(len, pieces)], dtype=np.int32)
    return sizes, np.frombuffer(b"".join(pieces), dtype=np.uint8)


def _converted(text: bytes, whole: bool) -> bytes:
    try:
        digits = text.decode("ascii")
        unscaled, scale = (to_whole_number(digits), 0) if whole else to_unscaled_and_scale(to_number(digits))
    except ValueError:
        return text
    return bytes([LONG_MARK]) + _SCALE.pack(scale) + to_java_bytes(unscaled)


_KINDS: Final = 4


@kernel
def is_null(arena, cols, col, slot):  # type: ignore[no-untyped-def]
    """Return True if a slot of a column is null."""
    validity = cols[col, VALIDITY]
    return validity >= 0 and arena[validity + slot] == 0


@kernel
def text_at(arena, cols, col, slot):  # type: ignore[no-untyped-def]
    """Return begin and end of a text or of bytes in the arena."""
    data = cols[col, DATA] + 4 * slot
    return cols[col, VAR] + load_i32(arena, data), cols[col, VAR] + load_i32(arena, data + 4)


@kernel
def copy(source, begin, end, out, pos):  # type: ignore[no-untyped-def]
    """Copy bytes and return the offset after them."""
    for i in range(begin, end):
        out[pos + i - begin] = source[i]
    return pos + end - begin


@kernel
def row_kind(arena, cols, col, idx, consts, names):  # type: ignore[no-untyped-def]
    """Return the number of the row kind in a column; a null is an insertion. Return -1 for an unknown kind."""
    if col < 0:
        return 0
    slot = idx[cols[col, LEVEL]]
    if is_null(arena, cols, col, slot):
        return 0
    begin, end = text_at(arena, cols, col, slot)
    if end - begin == 2:
        for kind in range(_KINDS):
            if arena[begin] == consts[names + 2 * kind] and arena[begin + 1] == consts[names + 2 * kind + 1]:
                return kind
    return -1


@kernel
def zeros(out, pos, size):  # type: ignore[no-untyped-def]
    """Write ``size`` zeros, up to seven more if they fit. Return the offset after them."""
    end = pos + size
    while pos + 8 <= end:
        store_i64(out, pos, 0)
        pos += 8
    while pos < end:
        out[pos] = 0
        pos += 1
    return end


@kernel
def point(out, slot, begin, at, size):  # type: ignore[no-untyped-def]
    """Write size and position of bytes in a region into a slot."""
    store_i32(out, slot, size)
    store_i32(out, slot + 4, at - begin)
