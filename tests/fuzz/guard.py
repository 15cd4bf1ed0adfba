"""Memory whose neighbours can't be touched: a kernel that leaves its buffers ends the process at once."""

from __future__ import annotations

import ctypes
import math
import mmap
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from state_processor.backends.files import snappy
from state_processor.backends.formats import key_group_file
from state_processor.backends.formats.sst import family_scan, table
from state_processor.backends.formats.sst.block_format import RawBlocks
from state_processor.serializers.kernel.decode import arena as arenas
from state_processor.serializers.kernel.decode.decoder import ColumnDecoder

_PAGE: Final = mmap.PAGESIZE
_NO_ACCESS: Final = 0
_CANARY: Final = 0xA5
_MOST_KEPT: Final = 64
"""Pages of mappings that are kept for other arrays."""
_libc = ctypes.CDLL(None, use_errno=True)


class CanaryError(Exception):
    """Bytes between the columns of an arena were written."""


class _Lease:
    """Pages between two inaccessible pages, which arrays of numpy lease one after the other: a new mapping takes longer."""

    _free: ClassVar[defaultdict[int, list[mmap.mmap]]] = defaultdict(list)

    def __init__(self, size: int) -> None:
        self._pages = max(1, -(-size // _PAGE))
        free = self._free[self._pages]
        self._memory = free.pop() if free else self._mapped()
        end = _address(self._memory) + (self._pages + 1) * _PAGE
        self.__array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (end - size, False), "version": 3}

    def _mapped(self) -> mmap.mmap:
        memory = mmap.mmap(-1, (self._pages + 2) * _PAGE)
        begin = _address(memory)
        for page in (begin, begin + (self._pages + 1) * _PAGE):
            if _libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(_PAGE), _NO_ACCESS):
                raise OSError(ctypes.get_errno(), "mprotect")
        return memory

    def __del__(self) -> None:
        if self._pages <= _MOST_KEPT:
            self._free[self._pages].append(self._memory)


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def guarded(size: int) -> npt.NDArray[np.uint8]:
    """Return ``size`` bytes that end at an inaccessible page; another inaccessible page precedes them."""
    return np.asarray(_Lease(size))


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

    of_raw = RawBlocks.of.__func__  # type: ignore[attr-defined]

    def guarded_raw(cls: type[RawBlocks], data: Any, *arguments: Any) -> Any:
        return of_raw(cls, guarded_copy(data), *arguments)

    def guarded_plain(data: Any, where: str) -> Any:
        return guarded_copy(decompress(data, where))

    with (
        patch.object(ColumnDecoder, "entries", guarded_entries),
        patch.object(ColumnDecoder, "rows", guarded_rows),
        patch.object(key_group_file, "view", guarded_copy),
        patch.object(snappy, "decompress", guarded_plain),
        patch.object(RawBlocks, "of", classmethod(guarded_raw)),
        patch.object(family_scan, "np", _GuardedNumpy()),
        patch.object(table, "np", _GuardedNumpy()),
        patch.object(arenas, "allocate", _canaries),
        patch.object(arenas.Arena, "to_batch", _checked(arenas.Arena.to_batch)),
    ):
        yield


class _GuardedNumpy:
    """The module ``numpy`` with guarded arrays."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, shape: Any, dtype: Any) -> Any:
        size = (math.prod(shape) if isinstance(shape, tuple) else int(shape)) * np.dtype(dtype).itemsize
        return guarded(size).view(dtype).reshape(shape)

    def zeros(self, shape: Any, dtype: Any) -> Any:
        found = self.empty(shape, dtype)
        found[...] = 0
        return found


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
