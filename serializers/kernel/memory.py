"""Unaligned loads and stores that the kernels are made of.

Numba can index arrays of one element type only; the kernels read big-endian numbers of any width at any offset and
write little-endian ones into regions of one arena. Each intrinsic here becomes a single machine load, store or prefetch.
None of them checks bounds: the kernels do that once per field, before the access.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from state_processor.serializers.kernel.compiler import Intrinsic, kernel
from state_processor.serializers.kernel.interpreter import loader, storer

MIN_I32: Final = -(2**31)
MAX_I32: Final = 2**31 - 1
MIN_I64: Final = -(2**63)
MAX_I64: Final = 2**63 - 1
NOT_ASCII: Final = -0x7F7F7F7F7F7F7F80
"""The bits of eight bytes, as a signed long, that no ASCII character has."""

# Arguments of LLVM's prefetch
_TO_WRITE: Final = 1
_TO_KEEP: Final = 3
_DATA: Final = 1


def _pointer(context: Any, builder: Any, signature: Any, args: Any, bits: int) -> Any:
    from llvmlite import ir

    data = builder.extract_value(args[0], context.data_model_manager[signature.args[0]].get_field_position("data"))
    return builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(bits).as_pointer())


def _loader(bits: int, *, signed: bool, big_endian: bool) -> Any:
    def load(typingctx: Any, array: Any, offset: Any) -> Any:
        from llvmlite import ir
        from numba.core import types

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.load(_pointer(context, builder, signature, args, bits), align=1)
            if big_endian:
                value = builder.bswap(value)
            if bits == 64:
                return value
            widen = builder.sext if signed else builder.zext
            return widen(value, ir.IntType(64))

        return types.int64(array, types.int64), codegen

    return Intrinsic(load, loader(bits, signed=signed, big_endian=big_endian))


def _storer(bits: int, *, big_endian: bool) -> Any:
    def store(typingctx: Any, array: Any, offset: Any, value: Any) -> Any:
        from llvmlite import ir
        from numba.core import types

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            number = args[2]
            if bits != 64:
                number = builder.trunc(number, ir.IntType(bits))
            if big_endian:
                number = builder.bswap(number)
            builder.store(number, _pointer(context, builder, signature, args, bits), align=1)
            return context.get_dummy_value()

        return types.void(array, types.int64, types.int64), codegen

    return Intrinsic(store, storer(bits, big_endian=big_endian))


def _prefetch(typingctx: Any, array: Any, element: Any) -> Any:
    from llvmlite import ir
    from numba.core import types

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _pointer(context, builder, signature, args, 8)
        number = ir.IntType(32)
        of_data = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [address.type], of_data)
        builder.call(function, [address, number(_TO_WRITE), number(_TO_KEEP), number(_DATA)])
        return context.get_dummy_value()

    return types.void(array, types.int64), codegen


load_be_i16 = _loader(16, signed=True, big_endian=True)
load_be_u16 = _loader(16, signed=False, big_endian=True)
load_be_i32 = _loader(32, signed=True, big_endian=True)
load_be_i64 = _loader(64, signed=True, big_endian=True)
load_i16 = _loader(16, signed=True, big_endian=False)
load_i32 = _loader(32, signed=True, big_endian=False)
load_i64 = _loader(64, signed=True, big_endian=False)
store_i16 = _storer(16, big_endian=False)
store_i32 = _storer(32, big_endian=False)
store_i64 = _storer(64, big_endian=False)
store_be_i16 = _storer(16, big_endian=True)
store_be_i32 = _storer(32, big_endian=True)
store_be_i64 = _storer(64, big_endian=True)
prefetch: Any = Intrinsic(_prefetch, lambda array, element: None)
"""Asks for the memory of an element of an array, counted over its dimensions, so that a later access need not wait for it."""


@kernel
def pointed(buf, slot, begin, end):  # type: ignore[no-untyped-def]
    """Return the position and the size of the value that a slot points to; size -1 if it is not inside of the region."""
    size = load_i32(buf, slot)
    offset = load_i32(buf, slot + 4)
    if size < 0 or offset < 0 or offset + size > end - begin:
        return begin, np.int64(-1)
    return begin + offset, size
