"""The cache of compiled kernels: keyed by the content of all that is compiled into them.

Numba's own cache stores compiled code next to the module. It compiles again when that module changes, but not when a function in
another module changes that the code calls. It refuses to compile if neither that folder nor a home can be written. It writes its
index of a function's variants as a whole, so that simultaneous writes of several processes lose variants. Here each
variant is a file whose name identifies its content.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from state_processor.serializers.kernel.compiling.cache import PACKAGE, cache_folders, log_compilation, writable_folder
from state_processor.serializers.kernel.compiling.cache_lock import one_process
from state_processor.serializers.kernel.compiling.trusted_files import read_trusted, write_private

_DIGEST: Final = hashlib.sha256().digest_size


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
        self._name = f"{function.__module__.removeprefix(f'{PACKAGE}.')}.{function.__qualname__}"
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
            write_private(new, hashlib.sha256(content).digest() + content)
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
        """Return the content of a file in one of the folders; ``None`` if no such file is whole and safe from other users."""
        for folder in cache_folders():
            with suppress(OSError):
                found = read_trusted(folder / name)
                if found is not None and hashlib.sha256(found[_DIGEST:]).digest() == found[:_DIGEST]:
                    return pickle.loads(found[_DIGEST:])
        return None
