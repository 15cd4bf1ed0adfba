"""Keys of one state and key group that are too many for memory: their fingerprints are in a file until the key group ends.

A full table of fingerprints is written to the file, sorted by the first bits of the fingerprints. When the key group ends, the
fingerprints with the same first bits are read from all tables together. Two equal ones are a key that occurs twice. The keys
behind the first table are written, too: the message of the error names the key.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from state_processor.backends.formats.entry_framing import KeyFilter, entry_spans, find_key, first_repeated, frame_keys, with_room
from state_processor.support.errors import ScratchSpaceError

MOST_KEYS: Final = 1 << 20
"""Number of keys of a full table, which takes 32 MB."""
MOST_MEMORY: Final = 128 << 20
"""Memory of a table to which the keys of a large blob are added, and of its fingerprints in the order of their first bits."""
_PARTS: Final = 256
_PART_SHIFT: Final = np.uint64(56)
_LENGTHS: Final = 8
"""Bytes of the two lengths of a framed entry."""

_Bytes = npt.NDArray[np.uint8]
_Fingerprints = npt.NDArray[np.uint64]


class SpilledKeys:
    """Keys of one state and key group, in files. ``directory``: an empty directory for the files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._prints, self._keys = directory / "fingerprints", directory / "keys"
        self._bounds: list[npt.NDArray[np.int64]] = []
        self._key_sizes: list[int] = []

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Translate errors of the disk."""
        try:
            yield
        except OSError as problem:
            raise ScratchSpaceError(
                f"keys of a large key group can't be written to {self._directory}: {problem}. Set STATE_PROCESSOR_SCRATCH to a "
                "directory on a disk with more room"
            ) from problem

    def add_table(self, keys: KeyFilter) -> None:
        """Write the fingerprints of a table."""
        prints = keys.fingerprints()
        parts = (prints[:, 0] >> _PART_SHIFT).astype(np.uint8)
        begin = int(self._bounds[-1][-1]) if self._bounds else 0
        with self._prints.open("ab") as file:
            file.write(prints[np.argsort(parts, kind="stable")].data)
        self._bounds.append(begin + np.append(0, np.cumsum(np.bincount(parts, minlength=_PARTS))))

    def add_keys(self, entries: _Bytes) -> None:
        """Write the keys of framed entries that come behind the first table."""
        keys = np.ascontiguousarray(entry_spans(entries)[:, :2])
        framed = np.empty(int((keys[:, 1] - keys[:, 0]).sum()) + _LENGTHS * len(keys), dtype=np.uint8)
        frame_keys(entries, keys, framed)
        with self._keys.open("ab") as file:
            file.write(framed.data)
        self._key_sizes.append(len(framed))

    def repeated(self) -> _Bytes | None:
        """Return a key that occurs twice, as a framed entry; other entries may follow."""
        for prints in self._of_parts():
            row = int(first_repeated(prints, with_room(np.zeros((2, 2), dtype=np.uint64), len(prints))))
            if row >= 0:
                return self._key_of(prints[row])
        return None

    def remove(self) -> None:
        """Remove the files."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _of_parts(self) -> Iterator[_Fingerprints]:
        """Yield the fingerprints of all tables, those with the same first bits together."""
        sizes = np.diff(np.sum(self._bounds, axis=0))
        with self._prints.open("rb") as file:
            part = 0
            while part < _PARTS:
                stop = part + max(1, int(np.searchsorted(np.cumsum(sizes[part:]), MOST_KEYS, side="right")))
                pieces = []
                for bounds in self._bounds:
                    begin, end = int(bounds[part]), int(bounds[stop])
                    file.seek(16 * begin)
                    pieces.append(np.frombuffer(file.read(16 * (end - begin)), dtype=np.uint64).reshape(-1, 2))
                yield np.concatenate(pieces)
                part = stop

    def _key_of(self, fingerprint: _Fingerprints) -> _Bytes:
        """Return a key with a fingerprint, as a framed entry; other entries may follow."""
        with self._keys.open("rb") as file:
            for size in self._key_sizes:
                data = np.frombuffer(file.read(size), dtype=np.uint8)
                position = int(find_key(data, *fingerprint))
                if position >= 0:
                    return data[position:]
        raise OSError(f"{self._keys}: expected the keys behind the first table, found other bytes")
