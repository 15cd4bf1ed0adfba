"""Compilation of kernels: the interface of :mod:`state_processor.serializers.kernel.compiling`, which no other module imports.

Three kinds of functions have different callers: other kernels (``@kernel``), Python (``@entry_point``), or other kernels by
address (``@on_demand``), so that a program compiles only functions that it needs. By default Numba generates code for calls from
Python and C, and a variant for each constant argument. This costs more time than most of these functions. Functions for other
kernels omit both. Functions of the first kind have no machine code of their own either: LLVM optimizes them in their callers.

Numba counts references to every array that a function receives, with atomic operations that cost more than the work of most of
these functions. Without the counts, strings are decoded four times as fast. A kernel only borrows its arguments, so it
needs no counts; only a function that makes arrays does. It must not return an array either: views are not kept alive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from state_processor.serializers.kernel.compiling.machine_code import (
    FOLDER_SETTING,
    Calls,
    MachineCode,
    cache_folders,
    content_stamp,
    has_files_of,
    lock,
    module_stamp,
    writable_folder,
)
from state_processor.serializers.kernel.interpreter import in_python, interpret, interpreter
from state_processor.serializers.kernel.signatures import ArgumentType
from state_processor.support.locks import cached_property

__all__ = [
    "FOLDER_SETTING",
    "Addresses",
    "DeclaredKernel",
    "EntryPoint",
    "Intrinsic",
    "OnDemand",
    "allocating_kernel",
    "cache_folders",
    "entry_point",
    "inlined_kernel",
    "kernel",
    "on_demand",
    "writable_folder",
]

Function = Callable[..., Any]

_OPTIONS: Final = {"nopython": True, "nogil": True, "boundscheck": None, "error_model": "numpy", "no_cpython_wrapper": True}


class Kernel:
    """A function that Numba compiles when Python, or a kernel that calls it, needs it. Numba is not imported before.

    ``allocates``: it makes arrays. ``is_part``: it is compiled as a part of the kernels that call it, with ``inlined`` in place
    of the call.
    """

    def __init__(self, function: Function, *, allocates: bool = False, is_part: bool = False, inlined: bool = False) -> None:
        wrapper: Any = self
        update_wrapper(wrapper, function)
        self.py_func = function
        self.options = {**_OPTIONS, "_nrt": allocates, "forceinline": inlined, "no_cfunc_wrapper": is_part}
        self.numba_form: Any = None
        """Its Numba form, if it was already needed."""

    def __call__(self, *arguments: Any) -> Any:
        """Run the function in Python, for a kernel that is interpreted."""
        return self.in_python(*arguments)

    @cached_property
    def kernel_stamp(self) -> str:
        """Digest of all that is compiled into the function. Interpreted kernels need none."""
        return content_stamp(self)

    @cached_property
    def in_python(self) -> Function:
        """The function in Python, for a kernel that is interpreted."""
        return in_python(self.py_func)

    @property
    def dispatcher(self) -> Any:
        """Numba's form of the function."""
        if self.numba_form is None:
            from state_processor.serializers.kernel.compiling.pipeline import dispatcher_of

            return dispatcher_of(self)
        return self.numba_form

    @property
    def _numba_type_(self) -> Any:
        """Numba's type of the function where another kernel calls it."""
        return self.dispatcher._numba_type_


class Intrinsic:
    """A function for kernels that is defined by its machine code: an intrinsic of Numba.

    ``definition``: numba calls it with the types of arguments. It returns the signature and the function that generates the code,
    and imports Numba's modules itself. ``in_python``: the same in Python. ``content``: content that the definition depends on
    in addition to its module.
    """

    def __init__(self, definition: Function, in_python: Function, content: str = "") -> None:
        self._definition = definition
        self.in_python = in_python
        self._content = content

    @cached_property
    def kernel_stamp(self) -> str:
        """As of :class:`Kernel`."""
        return module_stamp(self._definition.__module__).hex() + self._content

    def __call__(self, *arguments: Any) -> Any:
        """Do the same in Python, for a kernel that is interpreted."""
        return self.in_python(*arguments)

    @cached_property
    def _numba_types(self) -> tuple[Any, Any]:
        from state_processor.serializers.kernel.compiling.pipeline import type_of_intrinsic

        return type_of_intrinsic(self._definition)

    @property
    def _numba_type_(self) -> Any:
        """Numba's type of the function where a kernel calls it; Numba holds the lock of its compiler then."""
        return self._numba_types[1]


def kernel(function: Function) -> Any:
    """Compile a function for other kernels that makes no arrays."""
    return Kernel(function, is_part=True)


def inlined_kernel(function: Function) -> Any:
    """Compile a function as a part of its caller: other calls pass two or three words for each array."""
    return Kernel(function, is_part=True, inlined=True)


def allocating_kernel(function: Function) -> Any:
    """Compile a function for other kernels that makes arrays."""
    return Kernel(function, is_part=True, allocates=True)


class DeclaredKernel:
    """A function that is compiled once, for arguments of declared types, when it is first needed."""

    _from_python = False
    is_new = False
    """Whether this process compiled the function. Otherwise the function was loaded, or not needed yet."""

    def __init__(self, arguments: tuple[ArgumentType, ...], function: Kernel) -> None:
        wrapper: Any = self
        update_wrapper(wrapper, function.py_func)
        self._arguments = arguments
        self._function = function

    @cached_property
    def _code(self) -> MachineCode:
        return MachineCode(
            self._function.py_func, self._function.kernel_stamp, self._arguments, self._object_code, _provide_memory
        )

    @cached_property
    def address(self) -> int:
        """The address of the function, compiled by this process or loaded from the cache."""
        with lock:
            loaded = vars(self).get("address")  # by another thread
            if loaded is None:
                loaded, self.is_new = self._code.address()
                vars(self)["address"] = loaded
            return loaded  # type: ignore[no-any-return]

    @cached_property
    def is_stored(self) -> bool:
        """Whether the machine code was stored when a call first asked."""
        return has_files_of(self._function.py_func) and self._code.is_stored()

    def compile(self) -> None:
        """Compile the function, unless this process or the cache has its code."""
        _ = self.address

    def _object_code(self, symbol: str) -> bytes:
        from state_processor.serializers.kernel.compiling.pipeline import object_code

        types = [argument.numba_type() for argument in self._arguments]
        return object_code(self._function, types, symbol, from_python=self._from_python)


def _provide_memory() -> None:
    from state_processor.serializers.kernel.compiling.pipeline import provide_memory

    provide_memory()


class EntryPoint(DeclaredKernel):
    """A kernel that Python calls; arrays that are only read may be writable, other differences are a ``TypeError``."""

    _from_python = True

    @cached_property
    def _compiled(self) -> Calls:
        """The compiled function."""
        if interpreter.budget > 0 and not self.is_stored:
            interpreter.stop()
        return Calls(self.address, self._arguments)

    def _runs_stored(self, arguments: tuple[Any, ...]) -> bool:
        """Return whether a call runs machine code that is loaded, or that is stored if the call has much work.

        Otherwise a function that the kernel calls by its address would be compiled for a call that Python runs in less time.
        """
        is_loaded = "_compiled" in vars(self)
        loads = interpreter.loads if is_loaded else interpreter.loads_for(self._arguments, arguments)
        return loads and (is_loaded or self.is_stored) and all(a.are_stored for a in arguments if isinstance(a, Addresses))

    def __call__(self, *arguments: Any) -> Any:
        """Run the function: interpreted as long as a process has little work for kernels, then compiled."""
        if interpreter.takes(self._arguments, arguments) and not self._runs_stored(arguments):
            converted = [a.interpreted if isinstance(a, Addresses) else a for a in arguments]
            return interpret(self._function.in_python, self._arguments, converted)
        if Addresses in map(type, arguments):
            return self._compiled(*(a.compiled if isinstance(a, Addresses) else a for a in arguments))
        return self._compiled(*arguments)

    def compile(self) -> None:
        """Compile the function, and no longer interpret any."""
        _ = self._compiled


class OnDemand(DeclaredKernel):
    """A kernel that others call by its address, and in Python as a function."""

    @property
    def interpreted(self) -> Function:
        """The function for kernels that are interpreted."""
        return self._function.in_python


class Addresses:
    """Functions that a kernel calls by their addresses; 0 for ``None``. Interpreted kernels receive the functions instead."""

    def __init__(self, functions: Sequence[OnDemand | None]) -> None:
        self._functions = functions

    @cached_property
    def compiled(self) -> npt.NDArray[np.int64]:
        """The argument of compiled kernels."""
        return np.array([0 if function is None else function.address for function in self._functions], dtype=np.int64)

    @property
    def interpreted(self) -> list[Any]:
        """The argument of interpreted kernels."""
        return [0 if function is None else function.interpreted for function in self._functions]

    @cached_property
    def are_stored(self) -> bool:
        """Whether the machine code of all functions is loaded, or was stored when a call first asked."""
        return all(function is None or function.is_stored for function in self._functions)


def entry_point(*arguments: ArgumentType, allocates: bool = False) -> Callable[[Function], EntryPoint]:
    """Compile a function that Python calls with arguments of these types; ``allocates`` if it makes arrays."""
    return lambda function: EntryPoint(arguments, Kernel(function, allocates=allocates))


def on_demand(*arguments: ArgumentType) -> Callable[[Function], OnDemand]:
    """Compile a function that kernels call by its address, when :meth:`OnDemand.address` is first asked for."""
    return lambda function: OnDemand(arguments, Kernel(function))
