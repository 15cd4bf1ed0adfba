"""Numba's form of kernels, which compiles a function or loads its compiled code. Importing this module imports Numba."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol
from uuid import uuid4

from numba.core import types
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps
from numba.extending import intrinsic

from state_processor.serializers.kernel.compiling.cache import (
    PACKAGE,
    cache_folders,
    log_compilation,
    module_stamp,
    one_process,
    read_trusted,
    writable_folder,
    write_private,
)
from state_processor.serializers.kernel.compiling.pipeline import KernelCompiler, PartCompiler

_DIGEST: Final = hashlib.sha256().digest_size


class Compilable(Protocol):
    """A function to compile, with Numba's options; see :class:`~state_processor.serializers.kernel.compiler.Kernel`."""

    py_func: Callable[..., Any]
    options: dict[str, Any]
    is_part: bool
    made: Any

    @property
    def kernel_stamp(self) -> str:
        """Digest of all that is compiled into the function."""


class KernelCache(NullCache):  # type: ignore[misc]
    """The compiled variants of one function, in the form of Numba's caches.

    ``stamp``: the digest of its content.
    """

    def __init__(self, function: Callable[..., Any], stamp: str) -> None:
        self._name = f"{function.__module__.removeprefix(f'{PACKAGE}.')}.{function.__qualname__}"
        self._stamp = stamp

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return stored compiled code, or ``None`` if this process has to compile; waits for another one that does.

        Loaded code needs Numba's memory management, and not its tables of types and functions, which take longer to make than all
        else. The compiler makes them.
        """
        rtsys.initialize(target_context)
        name = self._file_name(sig, target_context.codegen())
        data = self._stored(name)
        folder = writable_folder()
        if data is None and folder is not None and one_process.acquire(folder):
            data = self._stored(name)
        if data is None:
            log_compilation()
            return None
        return CompileResult._rebuild(target_context, *data)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store compiled code if a folder can be written."""
        folder = writable_folder()
        if folder is None:
            return
        content = dumps(data._reduce())
        new = folder / f"{uuid4().hex[:16]}.new"
        try:
            write_private(new, hashlib.sha256(content).digest() + content)
            new.replace(folder / self._file_name(sig, data.codegen))
        except OSError:  # the disk is full, perhaps
            with suppress(OSError):
                new.unlink()

    def _file_name(self, sig: Any, codegen: Any) -> str:
        """Return a name for the function, its content, the passes of the compiler, the types of arguments and the CPU."""
        passes = module_stamp(KernelCompiler.__module__).hex()
        variant = "\n".join([self._stamp, passes, *map(str, sig), *map(str, codegen.magic_tuple())])
        return f"{self._name}-{hashlib.sha256(variant.encode()).hexdigest()[:32]}.kernel"

    @staticmethod
    def _stored(name: str) -> Any:
        """Return the content of a file in one of the folders; ``None`` if no such file is whole and safe from other users."""
        for folder in cache_folders():
            with suppress(OSError):
                content = read_trusted(folder / name)
                if content is not None and hashlib.sha256(content[_DIGEST:]).digest() == content[:_DIGEST]:
                    return pickle.loads(content[_DIGEST:])
        return None


class KernelDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A function that one process at a time compiles, for types of arguments without their constants."""

    def __init__(self, kernel: Compilable) -> None:
        super().__init__(kernel.py_func, {}, kernel.options, pipeline_class=PartCompiler if kernel.is_part else KernelCompiler)
        if not kernel.is_part:
            self._cache = KernelCache(kernel.py_func, kernel.kernel_stamp)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return how other kernels call the function with arguments of these types."""
        return super().get_call_template(list(map(types.unliteral, args)), kws)

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
        compiled: Any = self.overloads[arguments]
        address: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
        return address


class _UncallableDispatcher(KernelDispatcher):
    """A function that Python can't call."""

    def add_overload(self, cres: Any) -> None:
        """Keep compiled code out of the table of functions that Python calls."""
        self.overloads[tuple(cres.signature.args)] = cres


def dispatcher_of(kernel: Compilable) -> Any:
    """Return the dispatcher of a function; threads that ask at the same time get the same."""
    with global_compiler_lock:
        if kernel.made is None:
            dispatcher = _UncallableDispatcher if "no_cpython_wrapper" in kernel.options else KernelDispatcher
            kernel.made = dispatcher(kernel)
        return kernel.made


def type_of_intrinsic(definition: Callable[..., Any]) -> tuple[Any, Any]:
    """Return an intrinsic of Numba and its type in kernels. Keep the intrinsic as long as the type is used."""
    instruction = intrinsic(definition)
    context = cpu_target.typing_context
    context.refresh()
    return instruction, context.resolve_value_type(instruction)
