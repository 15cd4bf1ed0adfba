"""Numba's form of kernels, which compiles them. Importing this module imports Numba."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from numba.core import types
from numba.core.compiler import Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic

from state_processor.serializers.kernel.compiling.pipeline import KernelCompiler, PartCompiler, Whole


class Compilable(Protocol):
    """A function to compile, with Numba's options; see :class:`~state_processor.serializers.kernel.compiler.Kernel`."""

    py_func: Callable[..., Any]
    options: dict[str, Any]
    made: Any


class _PartDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A function that kernels call, for types of arguments without their constants."""

    def __init__(self, kernel: Compilable) -> None:
        super().__init__(kernel.py_func, {}, kernel.options, pipeline_class=PartCompiler)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return how other kernels call the function with arguments of these types."""
        return super().get_call_template(list(map(types.unliteral, args)), kws)

    def add_overload(self, cres: Any) -> None:
        """Keep compiled code out of the table of functions that Python calls."""
        self.overloads[tuple(cres.signature.args)] = cres


def dispatcher_of(kernel: Compilable) -> Any:
    """Return the dispatcher of a function; threads that ask at the same time get the same."""
    with global_compiler_lock:
        if kernel.made is None:
            kernel.made = _PartDispatcher(kernel)
        return kernel.made


def object_code(kernel: Compilable, arguments: Sequence[Any], symbol: str, *, from_python: bool) -> bytes:
    """Compile a function for types of arguments, and return an object file that defines ``symbol``.

    ``from_python``: the symbol is a function for :class:`~state_processor.serializers.kernel.compiling.machine_code.Calls`.
    Otherwise kernels call it.
    """
    with global_compiler_lock, _without_collection():
        flags = Flags()
        cpu_target.options.parse_as_flags(flags, kernel.options)
        whole = Whole(cpu_target.target_context.codegen(), symbol, from_python=from_python)
        compile_extra(
            cpu_target.typing_context,
            cpu_target.target_context,
            kernel.py_func,
            args=tuple(arguments),
            return_type=None,
            flags=flags,
            locals={},
            library=whole,
            pipeline_class=KernelCompiler,
        )
        return whole.object_code


@contextmanager
def _without_collection() -> Iterator[None]:
    """Run a block without the garbage collector: the compiler keeps almost all of its many objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def provide_memory() -> None:
    """Define the functions of Numba that make arrays, for kernels that are loaded."""
    with global_compiler_lock:
        rtsys.initialize(cpu_target.target_context)


def type_of_intrinsic(definition: Callable[..., Any]) -> tuple[Any, Any]:
    """Return an intrinsic of Numba and its type in kernels. Keep the intrinsic as long as the type is used."""
    instruction = intrinsic(definition)
    context = cpu_target.typing_context
    context.refresh()
    return instruction, context.resolve_value_type(instruction)
