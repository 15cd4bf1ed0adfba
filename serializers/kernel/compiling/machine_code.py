"""Machine code of kernels: files in the cache, which LLVM links, and functions that call it. Numba is not imported.

A file has the digest of its content, and an object file that defines one symbol.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import IntEnum
from functools import cache
from operator import index
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import numpy as np

from state_processor.serializers.kernel.compiling.cache import (
    PACKAGE,
    cache_folders,
    log_compilation,
    one_process,
    read_trusted,
    writable_folder,
    write_private,
)
from state_processor.serializers.kernel.signatures import ArgumentType, Array
from state_processor.support.locks import process_lock

_DIGEST: Final = hashlib.sha256().digest_size

RESULT_WORDS: Final = 2
"""The words before the arguments: the type of the result, and the result."""
SHAPE_WORD: Final = 3
"""The word of numpy's ``PyArrayInterface`` that has the address of the shape."""
DATA_WORD: Final = 5
"""The word of numpy's ``PyArrayInterface`` that has the address of the data."""
_ALLOCATES: Final = b"NRT_"
"""Numba's prefix of functions that make arrays."""


class ResultKind(IntEnum):
    """Types of results."""

    NONE = 0
    NUMBER = 1
    TRUTH = 2


class MachineCode:
    """The machine code of one kernel.

    ``function`` and ``stamp``: the kernel, and the digest of all that is compiled into it. ``types``: its arguments.
    ``compiled``: returns an object file that defines the symbol that it receives. ``provide_memory``: defines Numba's functions
    that make arrays.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        stamp: str,
        types: Sequence[ArgumentType],
        compiled: Callable[[str], bytes],
        provide_memory: Callable[[], None],
    ) -> None:
        variant = "\n".join([stamp, _compiler_stamp(), *map(repr, types), *_target()])
        digest = hashlib.sha256(variant.encode()).hexdigest()[:32]
        self._symbol = f"kernel_{digest}"
        self._file = f"{_name_of_files(function)}{digest}.kernel"
        self._compiled = compiled
        self._provide_memory = provide_memory

    def address(self) -> tuple[int, bool]:
        """Return the address of the kernel, and whether this process compiled it. It waits for another process that does."""
        with lock, one_process:
            content = self._stored()
            folder = writable_folder()
            if content is None and folder is not None and one_process.acquire(folder):
                content = self._stored()
            compiled_now = content is None
            if content is None:
                log_compilation()
                content = self._compiled(self._symbol)
                self._store(content, folder)
            if _ALLOCATES in content:
                self._provide_memory()
            return _linked(content, self._symbol), compiled_now

    def is_stored(self) -> bool:
        """Return whether one of the folders has a file of the kernel."""
        return any((folder / self._file).is_file() for folder in cache_folders())

    def _stored(self) -> bytes | None:
        """Return the content of a file in one of the folders; ``None`` if no such file is whole and safe from other users."""
        for folder in cache_folders():
            with suppress(OSError):
                content = read_trusted(folder / self._file)
                if content is None or self._symbol.encode() not in content:
                    continue
                if hashlib.sha256(content[_DIGEST:]).digest() == content[:_DIGEST]:
                    return content[_DIGEST:]
        return None

    def _store(self, content: bytes, folder: Path | None) -> None:
        """Store compiled code if a folder can be written."""
        if folder is None:
            return
        new = folder / f"{uuid4().hex[:16]}.new"
        try:
            write_private(new, hashlib.sha256(content).digest() + content)
            new.replace(folder / self._file)
        except OSError:  # the disk is full, perhaps
            with suppress(OSError):
                new.unlink()


def _name_of_files(function: Callable[..., Any]) -> str:
    """Return the begin of the names of a kernel's files."""
    return f"{function.__module__.removeprefix(f'{PACKAGE}.')}.{function.__qualname__}-"


def has_files_of(function: Callable[..., Any]) -> bool:
    """Return whether a folder has machine code of a kernel, perhaps of another version. LLVM is not imported for this answer."""
    begin = _name_of_files(function)
    for folder in cache_folders():
        with suppress(OSError):
            if any(name.startswith(begin) for name in os.listdir(folder)):
                return True
    return False


lock: Final = process_lock()
"""Held while a kernel is loaded or compiled."""


@cache
def _compiler_stamp() -> str:
    """Return a digest of the modules that compile kernels, which are not imported for it."""
    loader: Any = __spec__.loader
    here = Path(__file__)
    sources = (loader.get_data(str(here.with_name(name))) for name in (here.name, "pipeline.py"))
    return hashlib.sha256(b"\n".join(sources)).hexdigest()


_SETTINGS: Final = ("NUMBA_OPT", "NUMBA_ENABLE_AVX", "NUMBA_LOOP_VECTORIZE", "NUMBA_SLP_VECTORIZE")
"""Environment variables of Numba that change the machine code."""


@cache
def _target() -> tuple[str, ...]:
    """Return the processor that Numba compiles for, and its options."""
    from llvmlite import binding

    name = os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES", "" if name.lower() == "generic" else None)
    if features is None:
        features = binding.get_host_cpu_features().flatten()
    return binding.get_process_triple(), name, features, *(os.environ.get(name, "") for name in _SETTINGS)


@cache
def _engine() -> Any:
    """Return LLVM's linker for this process."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine()
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


def _linked(content: bytes, symbol: str) -> int:
    from llvmlite import binding

    engine = _engine()
    engine.add_object_file(binding.ObjectFileRef.from_data(content))
    engine.finalize_object()
    address: int = engine.get_function_address(symbol)
    return address


_pointer_of: Any = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)
_pointer_of.restype = ctypes.c_void_p

_CONTIGUOUS_AND_ALIGNED: Final = 0x101
_WRITABLE: Final = 0x400


class Calls:
    """Calls of machine code with arguments of Python. Other threads of Python run meanwhile.

    ``address``: the address of the function. ``types``: its arguments.
    """

    def __init__(self, address: int, types: Sequence[ArgumentType]) -> None:
        self._call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(address)
        self._words = ctypes.c_int64 * (RESULT_WORDS + len(types))
        self._arguments = [_reader_of(type_) for type_ in types]

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        if len(arguments) != len(self._arguments):
            raise TypeError(f"a kernel expects {len(self._arguments)} arguments, found {len(arguments)}")
        interfaces: list[Any] = []
        words = self._words(0, 0, *[read(argument, interfaces) for read, argument in zip(self._arguments, arguments)])  # noqa: B905
        if self._call(ctypes.addressof(words)):
            raise MemoryError("a kernel can't make an array: memory is missing")
        kind, result = words[0], words[1]
        if kind == ResultKind.NUMBER:
            return result
        return bool(result) if kind == ResultKind.TRUTH else None


def _reader_of(type_: ArgumentType) -> Callable[[Any, list[Any]], int]:
    """Return a function that makes a word of an argument, and keeps what has to live as long as the call."""
    if not isinstance(type_, Array):
        return _truth if type_.name == "boolean" else _number_of(np.dtype(type_.name))
    dtype, dimensions = np.dtype(type_.of.name), type_.dimensions
    flags = _CONTIGUOUS_AND_ALIGNED | (0 if type_.only_read else _WRITABLE)

    def read(argument: Any, interfaces: list[Any]) -> int:
        if (
            not isinstance(argument, np.ndarray)
            or argument.dtype != dtype
            or argument.ndim != dimensions
            or argument.flags.num & flags != flags
        ):
            raise TypeError(f"a kernel expects {type_}, found {_described(argument)}")
        interface = argument.__array_struct__
        interfaces.append(interface)
        return _pointer_of(interface, None)  # type: ignore[no-any-return]

    return read


def _number_of(dtype: np.dtype[Any]) -> Callable[[Any, list[Any]], int]:
    limits = np.iinfo(dtype)
    smallest, largest = int(limits.min), int(limits.max)

    def read(argument: Any, _: list[Any]) -> int:
        number = index(argument)
        if not smallest <= number <= largest:
            raise OverflowError(f"a kernel expects a number of {dtype}, found {number}")
        return number

    return read


def _truth(argument: Any, _: list[Any]) -> int:
    return bool(argument)


def _described(argument: Any) -> str:
    if not isinstance(argument, np.ndarray):
        return f"an object of {type(argument).__name__}"
    flags = ", ".join(name for name in ("C_CONTIGUOUS", "ALIGNED", "WRITEABLE") if argument.flags[name])
    return f"an array of {argument.dtype}, {argument.ndim} dimensions, flags {flags}"
