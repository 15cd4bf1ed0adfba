"""The cache of compiled kernels: keyed by the content of all that is compiled into them, in folders that may be shared.

Numba by itself stores compiled code beside the module, and compiles anew when that module changes, but not when a function
that it calls from another module does; and it refuses to compile where neither that folder nor a home can be written. Its
index of a function's variants is written as a whole, so that processes that write at the same time lose each other's. Here each
variant is a file, whose name tells what it holds.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from logging import getLogger
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final
from uuid import uuid4

import numba
import numpy as np
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from state_processor.serializers.kernel.cache_lock import one_process

FOLDER_SETTING: Final = "STATE_PROCESSOR_CACHE"
_PACKAGE: Final = "state_processor"
_LOG: Final = getLogger(_PACKAGE)
_VERSIONS: Final = f"python{sys.version_info[0]}.{sys.version_info[1]}-numba{numba.__version__}-numpy{np.__version__}"


_DIGEST: Final = hashlib.sha256().digest_size


@cache
def cache_folders() -> tuple[Path, ...]:
    """Return the folders where compiled kernels are looked for; new ones go into the last, if it can be written.

    The first is ``STATE_PROCESSOR_CACHE``, if it is set. If that can't be written, or is not set, there is ``state-processor`` in
    the user's cache or, where that can't be written, a folder that only the user can access below the system's directory for
    temporary files.
    """
    given = os.environ.get(FOLDER_SETTING)
    first = (Path(given) / _VERSIONS,) if given else ()
    if first and _is_writable(first[0]):
        return first
    own = _own_folder()
    return first if own is None else (*first, own)


def writable_folder() -> Path | None:
    """Return the folder where new compiled kernels are kept; ``None`` if there is none that can be written."""
    folders = cache_folders()
    return folders[-1] if folders and os.access(folders[-1], os.W_OK) else None


def _is_writable(folder: Path) -> bool:
    """Make a folder, and check if files can be written there."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        return os.access(folder, os.W_OK)
    return False


def _own_folder() -> Path | None:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if os.path.isabs(home):
        folder = Path(home, "state-processor", "kernels", _VERSIONS)
        if _is_writable(folder):
            return folder
    return _temporary_folder()


def _temporary_folder() -> Path | None:
    """Return a folder that nobody else can write: compiled code that is loaded from it runs in this process."""
    folder = Path(tempfile.gettempdir(), f"state-processor-kernels-{os.getuid()}")
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if folder.is_dir() and not folder.is_symlink() and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return folder / _VERSIONS if _is_writable(folder / _VERSIONS) else None
    return None


def content_stamp(function: Callable[..., Any], options: str = "") -> str:
    """Return a digest of all that is compiled into a function: its module, the functions it calls, the constants it reads.

    Names of modules count as well as their content: stored code finds the functions that it calls by them. ``options`` are those
    of the compiler.
    """
    digest = hashlib.sha256(_module_stamp(function.__module__) + options.encode())
    for name in sorted(set(_names(function.__code__))):
        value: Any = function.__globals__.get(name)
        if isinstance(value, ModuleType) and value.__name__.startswith(_PACKAGE):
            digest.update(_module_stamp(value.__name__))
        elif isinstance(value, type) and value.__module__.startswith(_PACKAGE):
            digest.update(_module_stamp(value.__module__))
        elif hasattr(value, "kernel_stamp"):
            digest.update(value.kernel_stamp.encode())
        elif isinstance(getattr(value, "_defn", None), Callable):  # type: ignore[arg-type]
            digest.update(_module_stamp(value._defn.__module__))  # an intrinsic of Numba
        elif isinstance(value, (bool, int, float, str, bytes, tuple)):
            digest.update(f"{name}={value!r}".encode())
    return digest.hexdigest()


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


@cache
def _module_stamp(name: str) -> bytes:
    """Return the name of a module and a digest of its source, which its loader reads: it may be in a wheel or zip."""
    module: Any = sys.modules[name]
    return name.encode() + hashlib.sha256(module.__loader__.get_data(module.__file__)).digest()


class KernelCache(NullCache):  # type: ignore[misc]
    """The compiled variants of one function, in the form of Numba's caches.

    Parameters
    ----------
    function
        The function.
    stamp
        The digest of its content.
    """

    def __init__(self, function: Callable[..., Any], stamp: str) -> None:
        self._name = f"{function.__module__.removeprefix(f'{_PACKAGE}.')}.{function.__qualname__}"
        self._stamp = stamp

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return stored compiled code, or ``None`` if this process has to compile; waits for another one that does."""
        target_context.refresh()
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
            new.write_bytes(hashlib.sha256(content).digest() + content)
            new.replace(folder / self._file_name(sig, data.codegen))
        except OSError:  # the disk is full, perhaps
            with suppress(OSError):
                new.unlink()

    def _file_name(self, sig: Any, codegen: Any) -> str:
        """Return a name for the function, its content, the types of arguments and the CPU."""
        variant = "\n".join([self._stamp, *map(str, sig), *map(str, codegen.magic_tuple())])
        return f"{self._name}-{hashlib.sha256(variant.encode()).hexdigest()[:32]}.kernel"

    @staticmethod
    def _stored(name: str) -> Any:
        """Return the content of a file in one of the folders; ``None`` if there is none that can be read as a whole."""
        for folder in cache_folders():
            with suppress(OSError):
                found = (folder / name).read_bytes()
                if hashlib.sha256(found[_DIGEST:]).digest() == found[:_DIGEST]:
                    return pickle.loads(found[_DIGEST:])
        return None


@cache
def log_compilation() -> None:
    """Log that kernels are compiled, once per process: the first read takes longer than others for it."""
    folder = writable_folder()
    if folder is not None:
        _LOG.warning("compiling kernels, which takes some seconds; they are kept in %s", folder)
    else:
        reason = f"{cache_folders()[0]} can't be written" if cache_folders() else "there is no writable directory for them"
        advice = f"set {FOLDER_SETTING} to one that can be"
        _LOG.warning("compiling kernels, which takes some seconds in every process, as %s; %s", reason, advice)
