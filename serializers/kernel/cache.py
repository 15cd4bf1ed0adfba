"""The cache of compiled kernels: keyed by the content of all that is compiled into them, in a folder that may be shared.

Numba by itself stores compiled code beside the module, and compiles anew when that module changes, but not when a function
that it calls from another module does; and it refuses to compile where neither that folder nor a home can be written.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from logging import getLogger
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, ClassVar, Final

import numba
import numpy as np
from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache, _CacheLocator

_FOLDER_SETTING: Final = "STATE_PROCESSOR_CACHE"
_PACKAGE: Final = "state_processor"
_LOG: Final = getLogger(_PACKAGE)
_VERSIONS: Final = f"python{sys.version_info[0]}.{sys.version_info[1]}-numba{numba.__version__}-numpy{np.__version__}"


@cache
def cache_folder() -> Path | None:
    """Return the folder of compiled kernels; ``None`` where no folder can be written, so that each process compiles its kernels.

    It is ``STATE_PROCESSOR_CACHE``, which may be shared and read-only, or ``state-processor`` in the user's cache, or, where
    that can't be written, a folder that only the user can access below the system's directory for temporary files.
    """
    given = os.environ.get(_FOLDER_SETTING)
    if given:
        return Path(given) / _VERSIONS
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if os.path.isabs(home):
        folder = Path(home, "state-processor", "kernels", _VERSIONS)
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
    return _temporary_folder()


def _temporary_folder() -> Path | None:
    """Return a folder that nobody else can write: compiled code that is loaded from it runs in this process."""
    folder = Path(tempfile.gettempdir(), f"state-processor-kernels-{os.getuid()}")
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if folder.is_dir() and not folder.is_symlink() and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return folder / _VERSIONS
    return None


def content_stamp(function: Callable[..., Any]) -> str:
    """Return a digest of all that is compiled into a function: its module, the functions it calls, the constants it reads.

    Names of modules count as well as their content: stored code finds the functions that it calls by them.
    """
    digest = hashlib.sha256(_module_stamp(function.__module__))
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


class _ContentLocator(_CacheLocator):  # type: ignore[misc]
    """The location of a compiled function in the cache folder, under the function's place and the digest of its content."""

    def __init__(self, folder: Path, function: Callable[..., Any]) -> None:
        self._folder = folder
        self._stamp = content_stamp(function)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return self._stamp[:16]

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _ContentLocator | None:
        folder = cache_folder()
        return None if folder is None else cls(folder, py_func)


class _ContentCacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes: ClassVar[Any] = [_ContentLocator]  # type: ignore[misc]


class KernelCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function, in :func:`cache_folder`; a folder that can't be written is only read."""

    _impl_class = _ContentCacheImpl

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return stored compiled code, or ``None``; a folder that can't be read counts as empty."""
        found = None
        with suppress(OSError):
            found = super().load_overload(sig, target_context)
        if found is None:
            log_compilation()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store compiled code if the folder can be written."""
        with suppress(OSError):
            super().save_overload(sig, data)


class NoKernelCache(NullCache):  # type: ignore[misc]
    """The cache of a process that has no folder: it finds nothing."""

    def load_overload(self, sig: Any, target_context: Any) -> None:
        """Return ``None``."""
        log_compilation()


@cache
def log_compilation() -> None:
    """Log that kernels are compiled, once per process: the first read takes much longer than others for it."""
    folder = cache_folder()
    with suppress(OSError):
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    if folder is not None and os.access(folder, os.W_OK):
        _LOG.warning("compiling kernels, which takes up to a minute; they are kept in %s", folder)
    else:
        reason = "there is no writable directory for them" if folder is None else f"{folder} can't be written"
        advice = f"set {_FOLDER_SETTING} to one that can be"
        _LOG.warning("compiling kernels, which takes up to a minute in every process, as %s; %s", reason, advice)
