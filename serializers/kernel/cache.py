"""Where compiled kernels are kept, in folders that may be shared, and digests of all that is compiled into them.

:mod:`state_processor.serializers.kernel.stored_kernels` writes and reads them.
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
from typing import Any, Final

FOLDER_SETTING: Final = "STATE_PROCESSOR_CACHE"
PACKAGE: Final = "state_processor"
_LOG: Final = getLogger(PACKAGE)


@cache
def cache_folders() -> tuple[Path, ...]:
    """Return the folders where compiled kernels are looked for; new ones go into the last, if it can be written.

    The first is ``STATE_PROCESSOR_CACHE``, if it is set. If that can't be written, or is not set, there is ``state-processor`` in
    the user's cache or, where that can't be written, a folder that only the user can access below the system's directory for
    temporary files.
    """
    given = os.environ.get(FOLDER_SETTING)
    first = (Path(given) / _versions(),) if given else ()
    if first and _is_writable(first[0]):
        return first
    own = _own_folder()
    return first if own is None else (*first, own)


def writable_folder() -> Path | None:
    """Return the folder where new compiled kernels are kept; ``None`` if there is none that can be written."""
    folders = cache_folders()
    return folders[-1] if folders and os.access(folders[-1], os.W_OK) else None


def _versions() -> str:
    """Return the versions of all that compiled code depends on."""
    import numba
    import numpy as np

    return f"python{sys.version_info[0]}.{sys.version_info[1]}-numba{numba.__version__}-numpy{np.__version__}"


def _is_writable(folder: Path) -> bool:
    """Make a folder, and check if files can be written there."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        return os.access(folder, os.W_OK)
    return False


def _own_folder() -> Path | None:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if os.path.isabs(home):
        folder = Path(home, "state-processor", "kernels", _versions())
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
            own = folder / _versions()
            return own if _is_writable(own) else None
    return None


def content_stamp(function: Callable[..., Any], options: str = "") -> str:
    """Return a digest of all that is compiled into a function: its module, the functions it calls, the constants it reads.

    Names of modules count as well as their content: stored code finds the functions that it calls by them. ``options`` are those
    of the compiler.
    """
    digest = hashlib.sha256(module_stamp(function.__module__) + options.encode())
    for name in sorted(set(_names(function.__code__))):
        value: Any = function.__globals__.get(name)
        if isinstance(value, ModuleType) and value.__name__.startswith(PACKAGE):
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
    """Return the name of a module and a digest of its source, which its loader reads: it may be in a wheel or zip."""
    module: Any = sys.modules[name]
    return name.encode() + hashlib.sha256(module.__loader__.get_data(module.__file__)).digest()


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
