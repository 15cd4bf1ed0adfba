"""Machine code of kernels: files in folders that may be shared, linked by LLVM, and functions that call it without Numba.

A file has the digest of its content, and an object file that defines its symbol. Its name has a digest of all content compiled
into the kernel. One process at a time compiles: it has the lock of the folder.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import IntEnum
from functools import cache
from logging import getLogger
from operator import index
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final
from uuid import uuid4

import numpy as np

from state_processor.serializers.kernel.signatures import ArgumentType, Array
from state_processor.support.locks import process_lock

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def doubt_of(status: os.stat_result, *, entries_are_safe: bool = False) -> str | None:
    """Return why other users could change a file or a directory.

    ``status``: the owner and the rights of the file. ``entries_are_safe``: whether a directory that others write is accepted if
    its sticky bit keeps them from replacing the files of this user.

    Returns: the reason; ``None`` if only this user and root can change the file.
    """
    if status.st_uid not in (os.geteuid(), 0):
        return f"belongs to user {status.st_uid}"
    if status.st_mode & _OTHERS_WRITE and not (entries_are_safe and status.st_mode & stat.S_ISVTX):
        return "can be written by other users"
    return None


def doubt_of_folder(folder: Path) -> str | None:
    """Return why other users could put files into a directory, or replace a directory above it.

    ``folder``: the directory. Links are followed: the directories that hold them count too.

    Returns: the first path that others can change, and how; ``None`` if others can change none of them.
    """
    try:
        resolved = folder.resolve(strict=True)
        for part in (resolved, *resolved.parents, *folder.absolute().parents):
            if doubt := doubt_of(part.stat(), entries_are_safe=part != resolved):
                return f"{part} {doubt}"
    except OSError as error:
        return str(error)
    return None


def read_trusted(file: Path) -> bytes | None:
    """Return the content of a file, or ``None`` if other users can change the file."""
    with open(file, "rb") as opened:
        return opened.read() if doubt_of(os.fstat(opened.fileno())) is None else None


def make_private(folder: Path, mode: int) -> None:
    """Make a directory and the missing directories above it with the same rights; the process's umask may take rights away."""
    for missing in reversed([part for part in (folder, *folder.parents) if not part.exists()]):
        missing.mkdir(mode=mode, exist_ok=True)


def write_private(file: Path, content: bytes) -> None:
    """Write a new file that other users may read, but not change, whatever the process's umask is."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as opened:
        opened.write(content)


FOLDER_SETTING: Final = "STATE_PROCESSOR_CACHE"
PACKAGE: Final = "state_processor"
_LOG: Final = getLogger(PACKAGE)


@cache
def cache_folders() -> tuple[Path, ...]:
    """Return the folders for compiled kernels in the order of lookup. New kernels go into the last, if it can be written.

    The first is ``STATE_PROCESSOR_CACHE``, if it is set. If it is not set or can't be written, the next is ``state-processor`` in
    the user's cache or, if this can't be written, a folder below the system's directory for temporary files. Compiled code
    runs in this process: a folder that other users can change is omitted, with a warning.
    """
    folder_setting = os.environ.get(FOLDER_SETTING)
    first: tuple[Path, ...] = ()
    if folder_setting:
        folder = Path(folder_setting) / _versions()
        writable = _is_writable(folder, 0o755)
        first = (folder,) if _is_trusted(folder) else ()
        if first and writable:
            return first
    return *first, *_own_folders()


def writable_folder() -> Path | None:
    """Return the folder for new compiled kernels; ``None`` if none can be written."""
    folders = cache_folders()
    return folders[-1] if folders and os.access(folders[-1], os.W_OK) else None


def _versions() -> str:
    """Return the versions of all software that compiled code depends on."""
    from importlib.metadata import version

    return f"python{sys.version_info[0]}.{sys.version_info[1]}-numba{version('numba')}-numpy{version('numpy')}"


def _is_writable(folder: Path, mode: int) -> bool:
    """Make a folder with these rights, unless it exists, and check if files can be written there."""
    with suppress(OSError):
        make_private(folder, mode)
        return os.access(folder, os.W_OK)
    return False


def _is_trusted(folder: Path) -> bool:
    """Check that only this user and root can change a folder; warn if others can, unless the folder does not exist."""
    if not folder.exists():
        return False
    doubt = doubt_of_folder(folder)
    if doubt is not None:
        _LOG.warning(
            "compiled kernels in %s are not used: %s; only you and root may own and write it and the directories above it: "
            "see chown and chmod go-w, or set %s to another directory",
            folder,
            doubt,
            FOLDER_SETTING,
        )
    return doubt is None


def _own_folders() -> Iterator[Path]:
    """Yield the first usable folder of this user, if any."""
    import tempfile

    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    in_cache = [Path(home, "state-processor", "kernels")] if os.path.isabs(home) else []
    for base in (*in_cache, Path(tempfile.gettempdir(), f"state-processor-kernels-{os.getuid()}")):
        folder = base / _versions()
        if _is_writable(folder, 0o700) and _is_trusted(folder):
            yield folder
            return


def content_stamp(kernel: Any) -> str:
    """Return a digest of all that is compiled into a kernel: the kernels that it calls, and the constants that they read.

    Names of modules count as well as their content, because stored code finds the functions that it calls by name.
    """
    digest = hashlib.sha256()
    kernels = [kernel]
    for called in kernels:  # which grows
        function = called.py_func
        digest.update(module_stamp(function.__module__) + f"{function.__qualname__} {called.options}".encode())
        for name in sorted(set(_names(function.__code__))):
            value: Any = function.__globals__.get(name)
            if hasattr(value, "py_func"):
                if value not in kernels:
                    kernels.append(value)
            elif isinstance(value, ModuleType) and value.__name__.startswith(PACKAGE):
                digest.update(module_stamp(value.__name__))
            elif isinstance(value, type) and value.__module__.startswith(PACKAGE):
                digest.update(module_stamp(value.__module__))
            elif hasattr(value, "kernel_stamp"):
                digest.update(value.kernel_stamp.encode())
            elif isinstance(value, (bool, int, float, str, bytes, tuple)):
                digest.update(f"{name}={value!r}".encode())
    return digest.hexdigest()


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


@cache
def module_stamp(name: str) -> bytes:
    """Return the name of a module and a digest of its source. The module's loader reads the source, also in a wheel or zip."""
    module: Any = sys.modules[name]
    return name.encode() + hashlib.sha256(module.__loader__.get_data(module.__file__)).digest()


@cache
def log_compilation() -> None:
    """Log that kernels are compiled: once for each folder and version of the package, without a folder once per process."""
    folder = writable_folder()
    if folder is not None:
        try:
            write_private(folder / f"announced-{sys.modules[PACKAGE].__version__}", b"")
        except FileExistsError:
            return
        except OSError:  # the disk is full, perhaps
            pass
        _LOG.warning(
            "compiling kernels, which takes some seconds; they are kept in %s. 'state-processor warm-up' compiles all",
            folder,
        )
    else:
        reason = f"{cache_folders()[0]} can't be written" if cache_folders() else "there is no writable directory for them"
        advice = f"set {FOLDER_SETTING} to one that can be"
        _LOG.warning("compiling kernels, which takes some seconds in every process, as %s; %s", reason, advice)


_NAME: Final = "lock"
_MOST_SECONDS: Final = 300.0
"""Limit of the wait for another process, which may be stopped; then this process compiles too."""
_PAUSE: Final = 0.02


class OneProcess:
    """A block that may take a lock. The lock is released when the outermost block ends.

    One thread of a process at a time is in such blocks: callers hold the lock of machine code.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._file: int | None = None
        os.register_at_fork(after_in_child=self._forget)

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *problem: object) -> None:
        self._depth -= 1
        if not self._depth and self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)  # closing would leave it to a process that was forked in between
            os.close(self._file)
            self._file = None

    def acquire(self, folder: Path) -> bool:
        """Wait for the lock of a folder. Return False if this process has a lock already, or the folder has no locks."""
        if self._file is not None or not self._depth:
            return False
        try:
            self._file = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._wait(self._file)
        except OSError:  # a file system without locks: each process compiles
            self._close()
            return False
        return True

    def _wait(self, file: int) -> None:
        start = time.monotonic()
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() - start > _MOST_SECONDS:
                    raise
            else:
                return
            if time.monotonic() - start < _PAUSE:
                _LOG.info("waiting for another process, which compiles kernels")
            time.sleep(_PAUSE)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _forget(self) -> None:
        self._close()
        self._depth = 0


one_process: Final = OneProcess()
"""The lock of this process."""


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
    sources = (loader.get_data(str(here.with_name(name))) for name in (here.name, "generation.py", "pipeline.py"))
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
    dtype, dimensions = np.dtype(type_.number.name), type_.dimensions
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
