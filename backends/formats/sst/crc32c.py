"""The checksum CRC32C, as RocksDB stores it: of blocks of tables and of records of manifests.

Kernels use the instruction of the processor for it, if the processor has it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from state_processor.serializers.kernel.compiler import Intrinsic, entry_point, kernel
from state_processor.serializers.kernel.memory import load_i64
from state_processor.serializers.kernel.signatures import int64, partly_read, read, uint8, written

_POLYNOMIAL: Final = 0x82F63B78
_MASK_DELTA: Final = 0xA282EAD8


# The instruction of processors


class _Instruction(NamedTuple):
    """A feature of processors that has the instruction, and the name and operands of the instruction in LLVM."""

    feature: str
    name: str
    value_bits: int


_INSTRUCTIONS: Final = {
    "x86_64": _Instruction("+crc32", "llvm.x86.sse42.crc32.64.64", 64),
    "aarch64": _Instruction("+crc", "llvm.aarch64.crc32cx", 32),
}


def _instruction(context: Any) -> _Instruction | None:
    """Return the instruction of the processor that code is generated for, if it has one."""
    triple, _, features = context.codegen().magic_tuple()
    instruction = _INSTRUCTIONS.get(triple.partition("-")[0])
    return instruction if instruction is not None and instruction.feature in features.split(",") else None


def _has_instruction(typingctx: Any) -> Any:
    from numba.core import types

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_constant(types.boolean, _instruction(context) is not None)

    return types.boolean(), codegen


def _of_word(typingctx: Any, value: Any, word: Any) -> Any:
    from llvmlite import ir
    from numba.core import types

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        instruction = _instruction(context)
        if instruction is None:
            return args[0]
        number = ir.IntType(instruction.value_bits)
        kind = ir.FunctionType(number, [number, ir.IntType(64)])
        function = builder.module.declare_intrinsic(instruction.name, (), kind)
        value = args[0] if instruction.value_bits == 64 else builder.trunc(args[0], number)
        result = builder.call(function, [value, args[1]])
        return result if instruction.value_bits == 64 else builder.zext(result, ir.IntType(64))

    return types.int64(types.int64, types.int64), codegen


has_instruction: Any = Intrinsic(_has_instruction, lambda: False)
"""Returns whether :data:`crc32c_of_word` computes a checksum; the compiler knows the answer."""
crc32c_of_word: Any = Intrinsic(_of_word, lambda value, word: value)
"""Returns the checksum ``value`` after eight more bytes, the little-endian number ``word``."""


# Checksums


def _tables() -> npt.NDArray[np.int64]:
    """Return tables that take eight bytes at a time: line ``i`` is for a byte that is ``i`` bytes before the last one."""
    tables = np.zeros((8, 256), dtype=np.int64)
    rest = np.arange(256, dtype=np.int64)
    for _ in range(8):
        rest = (rest >> 1) ^ (_POLYNOMIAL * (rest & 1))
    tables[0] = rest
    for i in range(1, 8):
        tables[i] = tables[0][tables[i - 1] & 0xFF] ^ (tables[i - 1] >> 8)
    return tables


TABLES: Final = _tables()


@kernel
def _masked(value, data, at, end, tables):  # type: ignore[no-untyped-def]
    """Return the masked checksum of some bytes. ``value`` is the checksum of the bytes before ``at``."""
    if has_instruction():
        while at + 8 <= end:
            value = crc32c_of_word(value, load_i64(data, at))
            at += 8
    while at + 8 <= end:
        word = load_i64(data, at)
        low = (word & 0xFFFFFFFF) ^ value
        high = (word >> 32) & 0xFFFFFFFF
        value = (
            tables[7, low & 0xFF]
            ^ tables[6, (low >> 8) & 0xFF]
            ^ tables[5, (low >> 16) & 0xFF]
            ^ tables[4, low >> 24]
            ^ tables[3, high & 0xFF]
            ^ tables[2, (high >> 8) & 0xFF]
            ^ tables[1, (high >> 16) & 0xFF]
            ^ tables[0, high >> 24]
        )
        at += 8
    while at < end:
        value = tables[0, (value ^ data[at]) & 0xFF] ^ (value >> 8)
        at += 1
    value ^= 0xFFFFFFFF
    return (((value >> 15) | (value << 17)) + _MASK_DELTA) & 0xFFFFFFFF


@kernel
def masked_crc32c(data, begin, end, tables):  # type: ignore[no-untyped-def]
    """Return the checksum of the bytes from ``begin`` to ``end``, masked as RocksDB stores it (RocksDB: ``crc32c::Mask``)."""
    return _masked(np.int64(0xFFFFFFFF), data, begin, end, tables)


@kernel
def masked_crc32c_of_three(data, begin, end, second, second_end, third, third_end, tables):  # type: ignore[no-untyped-def]
    """Return the masked checksums of three parts of some bytes.

    The result of the instruction takes three cycles. The processor starts one each cycle if the next does not need the result.
    """
    size = min(end - begin, second_end - second, third_end - third)
    value = np.int64(0xFFFFFFFF)
    value_of_second = value
    value_of_third = value
    at = np.int64(0)
    if has_instruction():
        while at + 8 <= size:
            value = crc32c_of_word(value, load_i64(data, begin + at))
            value_of_second = crc32c_of_word(value_of_second, load_i64(data, second + at))
            value_of_third = crc32c_of_word(value_of_third, load_i64(data, third + at))
            at += 8
    return (
        _masked(value, data, begin + at, end, tables),
        _masked(value_of_second, data, second + at, second_end, tables),
        _masked(value_of_third, data, third + at, third_end, tables),
    )


@entry_point(partly_read(uint8), read(int64, 2), read(int64, 2), written(int64))
def _checksums(data, spans, tables, checksums):  # type: ignore[no-untyped-def]
    for i in range(len(spans)):
        checksums[i] = masked_crc32c(data, spans[i, 0], spans[i, 1], tables)


def masked_checksums(data: npt.NDArray[np.uint8], spans: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the checksums of parts of some bytes, masked as RocksDB stores them.

    ``spans``: a line for each part: where it begins and ends in ``data``.
    """
    checksums = np.empty(len(spans), dtype=np.int64)
    _checksums(data, spans, TABLES, checksums)
    return checksums


def masked_checksum(data: npt.NDArray[np.uint8], begin: int, end: int) -> int:
    """Return the masked checksum of the bytes from ``begin`` to ``end``."""
    return int(masked_checksums(data, np.array([[begin, end]], dtype=np.int64))[0])
