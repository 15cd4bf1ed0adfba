"""Numba's form of kernels, which compiles a function or loads its compiled code. Importing this module imports Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, cpu_target
from numba.extending import intrinsic

from state_processor.serializers.kernel.compiling.cache_lock import one_process
from state_processor.serializers.kernel.compiling.stored_kernels import KernelCache

if TYPE_CHECKING:
    from state_processor.serializers.kernel.compiler import Kernel


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function that its callers link, without optimization and machine code of its own."""

    def _optimize_final_module(self) -> None:
        """Leave the optimization to the callers, which optimize all their parts."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Link the parts of this part. Return 0: no function has an address."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> _Part:
        """The receiver of :meth:`set_env`."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: a kernel needs no objects of Python."""


class _PartCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler with a :class:`_Part` for the code."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *others: Any) -> None:
        super().__init__(typingctx, targetctx, _Part(targetctx.codegen(), "part"), *others)


class KernelDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A function that one process at a time compiles, for types of arguments without their constants."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel.py_func, {}, kernel.options, pipeline_class=_PartCompiler if kernel.is_part else Compiler)
        if not kernel.is_part:
            self._cache = KernelCache(kernel.py_func, kernel.kernel_stamp)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return how other kernels call the function with arguments of these types."""
        return super().get_call_template([types.unliteral(argument) for argument in args], kws)

    def compile(self, sig: Any) -> Any:
        """Compile the function for types of arguments, or load it from the cache."""
        with global_compiler_lock, one_process:
            return super().compile(sig)

    def compile_once(self, arguments: tuple[Any, ...]) -> None:
        """Compile the function for these types, unless it is compiled."""
        with global_compiler_lock:  # another thread may compile it
            if not self.overloads:
                self.compile(arguments)

    def compile_only(self, arguments: tuple[Any, ...]) -> None:
        """Compile the function for these types, and no others."""
        with global_compiler_lock:
            self.compile_once(arguments)
            self.disable_compile()

    def address(self, arguments: tuple[Any, ...]) -> int:
        """Return the address of the compiled function for these types."""
        found: Any = self.overloads[arguments]
        address: int = found.library.get_pointer_to_function(found.fndesc.llvm_func_name)
        return address


class _UncallableDispatcher(KernelDispatcher):
    """A function that Python can't call."""

    def add_overload(self, cres: Any) -> None:
        """Keep compiled code out of the table of functions that Python calls."""
        self.overloads[tuple(cres.signature.args)] = cres


def dispatcher_of(kernel: Kernel) -> Any:
    """Return the dispatcher of a function; threads that ask at the same time get the same."""
    with global_compiler_lock:
        if kernel.made is None:
            made = _UncallableDispatcher if "no_cpython_wrapper" in kernel.options else KernelDispatcher
            kernel.made = made(kernel)
        return kernel.made


def type_of_intrinsic(definition: Callable[..., Any]) -> tuple[Any, Any]:
    """Return an intrinsic of Numba and its type in kernels. Keep the intrinsic as long as the type is used."""
    made = intrinsic(definition)
    context = cpu_target.typing_context
    context.refresh()
    return made, context.resolve_value_type(made)
