"""Files that stay open after Flink has removed them, so that running requests can finish."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

from state_processor.backends.files.location import Location
from state_processor.backends.files.storage import OpenFile, Storage


class KeptFiles(Storage):
    """Access to the files of one checkpoint. A file is opened once, and stays open as long as this object is in use."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self._kept: dict[str, OpenFile] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("open files of a server can't be pickled")

    def _open(self, path: str | os.PathLike[str], context: str) -> OpenFile:
        name = str(Location.parse(path))
        kept = self._kept.get(name)
        if kept is None:
            opened = super()._open(path, context)
            with self._lock:
                kept = self._kept.setdefault(name, opened)
        return kept

    def size_if_file(self, path: str | os.PathLike[str]) -> int | None:
        """Return the length of a file, also after its removal; ``None`` if it is not a file."""
        kept = self._kept.get(str(Location.parse(path)))
        return super().size_if_file(path) if kept is None else kept.size

    def is_file(self, path: str | os.PathLike[str]) -> bool:
        """Return whether a path is a file, or was one when it was opened."""
        return str(Location.parse(path)) in self._kept or super().is_file(path)
