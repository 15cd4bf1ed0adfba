"""Inline state of a large ``_metadata``. It stays in the file until it is needed."""

from __future__ import annotations

from typing import Protocol


class MetadataFile(Protocol):
    """File that is read in parts."""

    @property
    def size(self) -> int:
        """Length in bytes."""

    def read(self, offset: int, length: int) -> memoryview:
        """Return exactly ``length`` bytes from ``offset``."""


class StoredPart:
    """A part of a file that behaves like its bytes: it has a length and slices, and ``bytes(part)`` reads all of it.

    ``offset`` and ``size``: position of the part in the file.
    """

    __slots__ = ("_file", "_offset", "_size")

    __hash__ = None  # type: ignore[assignment]  # like a view of an array

    def __init__(self, file: MetadataFile, offset: int, size: int) -> None:
        self._file, self._offset, self._size = file, offset, size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> memoryview:
        start, stop, _ = part.indices(self._size)
        return self._file.read(self._offset + start, max(0, stop - start))

    def __bytes__(self) -> bytes:
        return bytes(self[:])

    def __eq__(self, other: object) -> bool:
        return self[:] == (other[:] if isinstance(other, StoredPart) else other)
