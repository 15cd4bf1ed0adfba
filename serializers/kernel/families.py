"""Families of instructions: functions that a loop calls by their addresses.

A loop contains the instructions that most programs need. Each family of other instructions is a function. It is compiled when a
program first has one of them, so that the first row of a state does not wait for the compilation of unused types. The loop
passes its tables in memory: eight arrays as arguments would take longer than most instructions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from state_processor.serializers.kernel.compiler import Addresses, Intrinsic, OnDemand, on_demand
from state_processor.serializers.kernel.opcodes import CODE, FAMILIES, FAMILY, FAMILY_SHIFT
from state_processor.serializers.kernel.signatures import Array, int64

_ARGUMENTS: Final = (int64,) * 4

family: Final = on_demand(*_ARGUMENTS)
"""Decorator of a family: a function of where the tables are, the index of the instruction, the position, and the end.

It runs the instruction, or instructions of the family while one follows another. It returns the index of the next instruction,
the position after them, and the status; in the decode kernel also the column that has no room. A status other than ``OK`` stops
the run.
"""


def tables_in_memory(*members: Array) -> tuple[Any, Any]:
    """Return two functions for kernels: one that stores arrays of these types and returns where, one that loads them from there.

    They are stored as long as the function runs that stores them.
    """

    def store(typingctx: Any, tables: Any) -> Any:
        from llvmlite import ir
        from numba.core import cgutils, types

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.ptrtoint(cgutils.alloca_once_value(builder, args[0]), ir.IntType(64))

        return types.int64(_tuple_of(members)), codegen

    def load(typingctx: Any, address: Any) -> Any:
        from numba.core import types

        layout = _tuple_of(members)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.load(builder.inttoptr(args[0], context.get_value_type(layout).as_pointer()))

        return layout(types.int64), codegen

    return Intrinsic(store, _same, str(members)), Intrinsic(load, _same, str(members))


def _same(tables: Any) -> Any:
    """Store or load tables for interpreted kernels, whose address of the tables is the tables themselves."""
    return tables


def _tuple_of(members: tuple[Array, ...]) -> Any:
    from numba.core import types

    return types.Tuple([member.numba_type() for member in members])


def caller(results: int) -> Any:
    """Return a function for kernels that calls a family, whose address is its first argument, and returns so many numbers."""

    def call(typingctx: Any, address: Any, tables: Any, pc: Any, pos: Any, end: Any) -> Any:
        from numba.core import cgutils, types

        result, arguments = types.UniTuple(types.int64, results), (types.int64,) * len(_ARGUMENTS)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            function = context.call_conv.get_function_type(result, arguments)
            pointer = builder.inttoptr(args[0], function.as_pointer())
            status, value = context.call_conv.call_function(builder, pointer, result, arguments, args[1:])
            with cgutils.if_unlikely(builder, status.is_error):
                context.call_conv.return_status_propagate(builder, status)
            return value

        return result(types.int64, *arguments), codegen

    return Intrinsic(call, lambda family, *arguments: family(*arguments), str(results))


def addresses(families: Mapping[int, OnDemand], instructions: npt.NDArray[np.int64], feed: OnDemand | None = None) -> Addresses:
    """Return the families of a program's instructions by their numbers, and behind them ``feed``.

    Parameters
    ----------
    families, instructions
        All families, and the instructions of the program.
    feed
        The function that finds the entries to decode; ``None`` if they are known.
    """
    named = set((instructions[:, CODE] & FAMILY).tolist())
    used = {family >> FAMILY_SHIFT: families[family] for family in named & families.keys()}
    return Addresses([*(used.get(at) for at in range(FAMILIES)), feed])
