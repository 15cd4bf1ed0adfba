"""The instruction of processors for the checksum CRC32C, as a function of kernels."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from state_processor.serializers.kernel.compiler import Intrinsic


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
    found = _INSTRUCTIONS.get(triple.partition("-")[0])
    return found if found is not None and found.feature in features.split(",") else None


def _has_instruction(typingctx: Any) -> Any:
    from numba.core import types

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_constant(types.boolean, _instruction(context) is not None)

    return types.boolean(), codegen


def _of_word(typingctx: Any, value: Any, word: Any) -> Any:
    from llvmlite import ir
    from numba.core import types

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = _instruction(context)
        if found is None:
            return args[0]
        number = ir.IntType(found.value_bits)
        kind = ir.FunctionType(number, [number, ir.IntType(64)])
        function = builder.module.declare_intrinsic(found.name, (), kind)
        value = args[0] if found.value_bits == 64 else builder.trunc(args[0], number)
        result = builder.call(function, [value, args[1]])
        return result if found.value_bits == 64 else builder.zext(result, ir.IntType(64))

    return types.int64(types.int64, types.int64), codegen


has_instruction: Any = Intrinsic(_has_instruction, lambda: False)
"""Returns whether :data:`crc32c_of_word` computes a checksum; the compiler knows the answer."""
crc32c_of_word: Any = Intrinsic(_of_word, lambda value, word: value)
"""Returns the checksum ``value`` after eight more bytes, the little-endian number ``word``."""
