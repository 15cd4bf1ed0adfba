"""Files of a snapshot as Python streams, for libraries that expect streams."""

from __future__ import annotations

import io
import os

from state_processor.backends.files.storage import StoredFile


class FileStream(io.RawIOBase):
    """Stream over a file.

    Parameters
    ----------
    file
        The file. Reads raise its errors.
    """

    def __init__(self, file: StoredFile) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position, and return it."""
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._file.size}[whence]
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Return ``size`` bytes, or fewer at the end of the file."""
        left = max(0, self._file.size - self._position)
        data = bytes(self._file.read(self._position, left if size < 0 else min(size, left)))
        self._position += len(data)
        return data
