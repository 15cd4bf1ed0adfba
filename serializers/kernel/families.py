"""Families of instructions: what a loop leaves to other functions, which it calls by their addresses.

A loop has the instructions that most programs need. Each family of others is a function that is compiled when a program first
has one of them, so that the first row of a state does not wait for the compilation of types that it does not have. The loop
hands over its tables in memory: passing eight arrays as arguments would take longer than most instructions do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from state_processor.serializers.kernel.compiler import OnDemand
from state_processor.serializers.kernel.opcodes import CODE, FAMILIES, FAMILY, FAMILY_SHIFT

ARGUMENTS: Final = (types.int64,) * 4
"""Types of the arguments of a family: where the tables are, the index of the instruction, the position, and the end."""


def tables_in_memory(*members: Any) -> tuple[Any, Any]:
    """Return two functions for kernels: one that stores arrays of these types and returns where, one that loads them from there.

    They are stored as long as the function runs that stores them.
    """
    layout = types.Tuple(members)

    def store(typingctx: Any, tables: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.ptrtoint(cgutils.alloca_once_value(builder, args[0]), ir.IntType(64))

        return types.int64(layout), codegen

    def load(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.load(builder.inttoptr(args[0], context.get_value_type(layout).as_pointer()))

        return layout(types.int64), codegen

    return _stamped(store, layout), _stamped(load, layout)


def caller(results: int) -> Any:
    """Return a function for kernels that calls a family, whose address is its first argument, and returns so many numbers."""
    result = types.UniTuple(types.int64, results)

    def call(typingctx: Any, address: Any, tables: Any, pc: Any, pos: Any, end: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            function = context.call_conv.get_function_type(result, ARGUMENTS)
            pointer = builder.inttoptr(args[0], function.as_pointer())
            status, found = context.call_conv.call_function(builder, pointer, result, ARGUMENTS, args[1:])
            with cgutils.if_unlikely(builder, status.is_error):
                context.call_conv.return_status_propagate(builder, status)
            return found

        return result(types.int64, *ARGUMENTS), codegen

    return _stamped(call, result)


def _stamped(definition: Any, type_: Any) -> Any:
    """Return an intrinsic of Numba; its type is a part of the content of kernels that use it."""
    found: Any = intrinsic(definition)
    found.kernel_stamp = f"{__name__} {type_}"
    return found


def addresses(families: Mapping[int, OnDemand], instructions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the addresses of the families that a program has instructions of, and 0 for others."""
    found = np.zeros(FAMILIES, dtype=np.int64)
    for family in np.unique(instructions[:, CODE] & FAMILY).tolist():
        if family in families:
            found[family >> FAMILY_SHIFT] = families[family].address()
    return found
