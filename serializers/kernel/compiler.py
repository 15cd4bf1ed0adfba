"""Compilation of kernels.

Three kinds of functions differ in who calls them: other kernels (``@kernel``), Python (``@entry_point``), or other kernels by an
address that they are given (``@on_demand``), so that a program does not pay for the compilation of what it does not need. What
Numba generates by default for every function costs more time than most of these functions: code for calls from Python and C, and
a variant for each constant argument. Functions for other kernels have none of both.

Numba counts references to every array that goes into a function, with atomic operations that cost more than what most of
these functions do: dropping the counts makes decoding strings four times as fast. A kernel only borrows its arguments, so it
needs no counts; only a function that makes arrays does. It must not return an array either: views are not kept alive.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Final

from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from state_processor.serializers.kernel.cache import KernelCache, content_stamp
from state_processor.serializers.kernel.cache_lock import one_process

Function = Callable[..., Any]

_OPTIONS: Final = {"nopython": True, "nogil": True, "boundscheck": None, "error_model": "numpy", "no_cfunc_wrapper": True}


if hasattr(os, "register_at_fork"):
    # A process that is forked while another thread compiles would wait for that thread, which it does not have.
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )


class _Compiled(CPUDispatcher):  # type: ignore[misc]
    """A function that one process at a time compiles, for types of arguments without their constants."""

    def __init__(self, function: Function, allocates: bool, **options: Any) -> None:
        options = {**_OPTIONS, "_nrt": allocates, **options}
        super().__init__(function, {}, options)
        self.kernel_stamp = content_stamp(function, repr(options))
        self._cache = KernelCache(function, self.kernel_stamp)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return how other kernels call the function with arguments of these types."""
        return super().get_call_template([types.unliteral(argument) for argument in args], kws)

    def compile(self, sig: Any) -> Any:
        """Compile the function for types of arguments, or load what is in the cache."""
        with global_compiler_lock, one_process:
            return super().compile(sig)


class _ForKernels(_Compiled):
    """A function that Python can't call."""

    def __init__(self, function: Function, allocates: bool, inlined: bool = False) -> None:
        super().__init__(function, allocates, no_cpython_wrapper=True, forceinline=inlined)

    def add_overload(self, cres: Any) -> None:
        """Keep compiled code from the table of those that Python calls."""
        self.overloads[tuple(cres.signature.args)] = cres

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        raise TypeError(f"only kernels call {self.py_func.__name__}; decorate functions that Python calls with entry_point")


def kernel(function: Function) -> Any:
    """Compile a function for other kernels that makes no arrays."""
    return _ForKernels(function, allocates=False)


def inlined_kernel(function: Function) -> Any:
    """Compile a function as a part of its caller: other calls pass seven or nine words for each array."""
    return _ForKernels(function, allocates=False, inlined=True)


def allocating_kernel(function: Function) -> Any:
    """Compile a function for other kernels that makes arrays."""
    return _ForKernels(function, allocates=True)


class DeclaredKernel:
    """A function that is compiled once, for arguments of declared types, when it is first needed.

    Parameters
    ----------
    arguments
        Numba's types of the arguments.
    compiled
        The function.
    """

    def __init__(self, arguments: tuple[Any, ...], compiled: _Compiled) -> None:
        wrapper: Any = self
        update_wrapper(wrapper, compiled.py_func)
        self._arguments = arguments
        self._compiled = compiled

    @property
    def stats(self) -> Any:
        """Numba's counts of what was found in the cache."""
        return self._compiled.stats

    def compile(self) -> None:
        """Compile the function, unless this process or the cache has its code."""
        with global_compiler_lock:  # another thread may compile it
            if not self._compiled.overloads:
                self._compiled.compile(self._arguments)


class EntryPoint(DeclaredKernel):
    """A kernel that Python calls; arrays that are only read may be writable, other differences are a ``TypeError``."""

    def __call__(self, *arguments: Any) -> Any:
        """Run the function, compiled."""
        if not self._compiled.overloads:
            self.compile()
        return self._compiled(*arguments)

    def compile(self) -> None:
        """Compile the function, and no other variant of it."""
        with global_compiler_lock:
            super().compile()
            self._compiled.disable_compile()


class OnDemand(DeclaredKernel):
    """A kernel that others call by its address."""

    def address(self) -> int:
        """Return the address of the function, compiled."""
        self.compile()
        found: Any = self._compiled.overloads[self._arguments]
        address: int = found.library.get_pointer_to_function(found.fndesc.llvm_func_name)
        return address


def entry_point(*arguments: Any, allocates: bool = False) -> Callable[[Function], EntryPoint]:
    """Compile a function that Python calls with arguments of these types; ``allocates`` if it makes arrays."""
    return lambda function: EntryPoint(arguments, _Compiled(function, allocates))


def on_demand(*arguments: Any) -> Callable[[Function], OnDemand]:
    """Compile a function that kernels call by its address, when :meth:`OnDemand.address` is first asked for."""
    return lambda function: OnDemand(arguments, _ForKernels(function, allocates=False))


def read(type_: Any, dimensions: int = 1) -> Any:
    """Return the type of an array that a kernel only reads."""
    return types.Array(type_, dimensions, "C", readonly=True)


def written(type_: Any, dimensions: int = 1) -> Any:
    """Return the type of an array that a kernel writes."""
    return types.Array(type_, dimensions, "C")
