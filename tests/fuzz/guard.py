"""Memory whose neighbours can't be touched: a kernel that leaves its buffers ends the process at once."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from state_processor.backends.files import snappy
from state_processor.backends.formats import canonical
from state_processor.serializers.kernel.decode import arena as arenas
from state_processor.serializers.kernel.decode.decoder import ColumnDecoder

_PAGE: Final = mmap.PAGESIZE
_NO_ACCESS: Final = 0
_CANARY: Final = 0xA5
_libc = ctypes.CDLL(None, use_errno=True)


class CanaryError(Exception):
    """Bytes between the columns of an arena were written."""


def guarded(size: int) -> npt.NDArray[np.uint8]:
    """Return ``size`` bytes that end at an inaccessible page; another inaccessible page precedes them."""
    pages = -(-size // _PAGE)
    memory = mmap.mmap(-1, (pages + 2) * _PAGE)
    whole = np.frombuffer(memory, dtype=np.uint8)
    begin = whole.ctypes.data
    for page in (begin, begin + (pages + 1) * _PAGE):
        if _libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(_PAGE), _NO_ACCESS):
            raise OSError(ctypes.get_errno(), "mprotect")
    end = (pages + 1) * _PAGE
    return whole[end - size : end]


def guarded_copy(data: Any) -> npt.NDArray[np.uint8]:
    """Return a read-only copy of bytes in guarded memory."""
    copy = guarded(len(data))
    copy[:] = np.frombuffer(data, dtype=np.uint8)
    copy.flags.writeable = False
    return copy


@contextmanager
def guards() -> Iterator[None]:
    """Guard the inputs of the kernels that index and decode entries, and their outputs."""
    entries, rows, decompress = ColumnDecoder.entries, ColumnDecoder.rows, snappy.decompress

    def guarded_entries(self: ColumnDecoder, buffer: Any, *arguments: Any) -> Any:
        return entries(self, guarded_copy(buffer), *arguments)

    def guarded_rows(self: ColumnDecoder, buffer: Any, *arguments: Any) -> Any:
        return rows(self, guarded_copy(buffer), *arguments)

    def guarded_plain(data: Any, where: str) -> Any:
        return guarded_copy(decompress(data, where))

    with (
        patch.object(ColumnDecoder, "entries", guarded_entries),
        patch.object(ColumnDecoder, "rows", guarded_rows),
        patch.object(canonical, "view", guarded_copy),
        patch.object(snappy, "decompress", guarded_plain),
        patch.object(arenas, "allocate", _canaries),
        patch.object(arenas.Arena, "to_batch", _checked(arenas.Arena.to_batch)),
    ):
        yield


def _canaries(size: int) -> npt.NDArray[np.uint8]:
    memory = guarded(size)
    memory[:] = _CANARY
    return memory


def _checked(to_batch: Any) -> Any:
    def check(self: arenas.Arena, rows: int) -> Any:
        for begin, end in self.gaps():
            if (self.memory[begin:end] != _CANARY).any():
                raise CanaryError(f"bytes {begin} to {end} of an arena of {len(self.memory)} belong to no column")
        return to_batch(self, rows)

    return check
