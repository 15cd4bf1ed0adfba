"""Kernels that run as the Python functions that they are written as. Numba takes longer to load than a few rows to decode.

Numba's arithmetic has 64 bits, whatever the width of an element. So an interpreted kernel reads numpy's 64-bit numbers from
memory, which wrap in the same way, and calls the Python form of each intrinsic (``compiler.Intrinsic``). A process interprets
kernels until they have read :data:`MOST_WORK` bytes and lines of tables. Before that, a call with much work runs stored
machine code, if there is any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import cache
from struct import Struct
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from state_processor.serializers.kernel.signatures import ArgumentType

MOST_WORK: Final = 1 << 17
"""Lines of arrays that the kernels of a process read in Python: it takes a fraction of the time to load Numba."""

_LARGE: Final = 1 << 14
"""Lines of arrays that a call reads in the time to load stored machine code, about."""
_CALL: Final = 64
"""Work of a call without arrays."""
_PART: Final = 8
"""A kernel that reads an array in part reads about one of so many lines."""
_WIDTHS: Final = {16: "h", 32: "i", 64: "q"}


class Memory:
    """Bytes of an array, read as 64-bit numbers."""

    __slots__ = ("view",)

    def __init__(self, array: npt.NDArray[np.uint8]) -> None:
        self.view = memoryview(array)  # type: ignore[arg-type]  # of numpy's types before Python 3.12

    def __len__(self) -> int:
        return len(self.view)

    def __getitem__(self, index: Any) -> np.int64:
        return np.int64(self.view[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.view[index] = int(value) & 0xFF


def loader(bits: int, *, signed: bool, big_endian: bool) -> Callable[[Memory, Any], np.int64]:
    """Return the Python form of an unaligned load."""
    code = _WIDTHS[bits]
    load = Struct((">" if big_endian else "<") + (code if signed else code.upper())).unpack_from
    return lambda memory, offset: np.int64(load(memory.view, offset)[0])


def storer(bits: int, *, big_endian: bool) -> Callable[[Memory, Any, Any], None]:
    """Return the Python form of an unaligned store."""
    store = Struct((">" if big_endian else "<") + _WIDTHS[bits].upper()).pack_into
    mask = (1 << bits) - 1
    return lambda memory, offset, value: store(memory.view, offset, int(value) & mask)


class Interpreter:
    """Decides which calls of kernels are interpreted.

    ``budget``: lines of arrays that kernels may still read in Python.
    """

    def __init__(self, budget: int = MOST_WORK) -> None:
        self.budget = budget
        self.loads = True
        """Whether stored machine code is loaded for calls with much work."""

    def takes(self, types: tuple[Any, ...], arguments: tuple[Any, ...]) -> bool:
        """Return whether a call is interpreted, and count its work."""
        if self.budget > 0:
            self.budget -= _work_of(types, arguments)
        return self.budget > 0

    def loads_for(self, types: tuple[Any, ...], arguments: tuple[Any, ...]) -> bool:
        """Return whether a call takes longer in Python than stored machine code takes to load."""
        return self.loads and _work_of(types, arguments) >= _LARGE

    def stop(self) -> None:
        """Compile all further kernels."""
        self.budget = 0


def _work_of(types: tuple[Any, ...], arguments: tuple[Any, ...]) -> int:
    """Return how many lines of arrays a call reads, about."""
    work = _CALL
    for type_, argument in zip(types, arguments, strict=True):
        if isinstance(argument, np.ndarray) and (type_.only_read or type_.in_part):
            work += len(argument) // _PART if type_.in_part else len(argument)
    return work


interpreter: Final = Interpreter()
"""The interpreter of this process."""


_namespaces: Final[dict[int, dict[str, Any]]] = {}
"""Names of modules for interpreted kernels, by the identity of the names for compiled ones."""


def in_python(function: Any) -> FunctionType:
    """Return a kernel's function for a kernel that is interpreted.

    It calls the Python forms of kernels, and has plain numbers for the members of enumerations, which compare ten times as fast.
    """
    compiled = function.__globals__
    names = _namespaces.get(id(compiled))
    if names is None:
        names = _namespaces[id(compiled)] = dict(compiled)  # complete at any time: modules may refer to each other
        for name, value in list(names.items()):
            if isinstance(value, type) and issubclass(value, IntEnum):
                names[name] = SimpleNamespace(**{member.name: int(member) for member in value})
            elif not isinstance(value, ModuleType) and hasattr(value, "in_python"):
                names[name] = value.in_python
    return FunctionType(function.__code__, names, function.__name__)


def interpret(function: Callable[..., Any], types: tuple[ArgumentType, ...], arguments: Sequence[Any]) -> Any:
    """Call the Python function of a kernel with arguments that behave as in compiled code."""
    operands = map(_interpreted, types, arguments)
    with np.errstate(over="ignore"):
        return function(*operands)


_dtype: Final = cache(np.dtype)
"""Types of arrays by name; numpy computes the name of a type again for each comparison."""


def _interpreted(type_: Any, argument: Any) -> Any:
    if isinstance(argument, list):  # of functions, which compiled kernels call by addresses
        return argument
    if isinstance(argument, np.ndarray):
        if argument.dtype != _dtype(type_.number.name) or argument.ndim != type_.dimensions or not argument.flags.c_contiguous:
            raise TypeError(f"a kernel expects {type_}, found an array of {argument.dtype}, {argument.ndim} dimensions")
        if not type_.only_read and not argument.flags.writeable:
            raise TypeError(f"a kernel writes {type_}, found an array that can't be written")
        if argument.dtype == np.uint8:
            return Memory(argument)
        return argument.astype(np.int64) if argument.dtype == np.int32 and type_.only_read else argument
    return bool(argument) if type_.name == "boolean" else _dtype(type_.name).type(argument)
