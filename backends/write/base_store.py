"""Stores of the source savepoint whose column families stay unchanged, or get changes on top."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from state_processor.backends.formats.entry_framing import frame_entries
from state_processor.backends.formats.rocksdb_store import Store, open_store
from state_processor.backends.formats.sst.key_set import behind
from state_processor.backends.formats.sst.manifest import Manifest
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot


@dataclass(frozen=True)
class BaseStore:
    """A store of the source savepoint; it can be pickled.

    Parameters
    ----------
    snapshot
        The source savepoint.
    handle
        The files of the store.
    kept
        The column families that stay.
    patched
        The kept column families that get changes.
    scanned
        The kept column families that are read to find the entries of a key: keys of timers begin with their time.
    shares_files
        Whether the files that stay are referred to where they are, and not copied.
    erases
        Whether the entries that changes replace or delete leave the files. Otherwise they stay below the changes.
    """

    snapshot: Snapshot
    handle: h.IncrementalRemoteKeyedStateHandle
    kept: frozenset[str]
    patched: frozenset[str] = frozenset()
    scanned: frozenset[str] = frozenset()
    shares_files: bool = False
    erases: bool = False

    @property
    def moved_bytes(self) -> int:
        """The size of the files of the store, if they are copied or scanned."""
        return 0 if self.shares_files and not self.scanned else self.handle.state_size

    def open(self, context: str) -> Store:
        """Open the store: its manifest is read, and tables when entries are asked for.

        Raises
        ------
        CorruptSnapshotError
            If the manifest is damaged, or lists files that the snapshot does not have.
        UnsupportedFormatError
            If keys of the store are not in the order of their bytes, or it has blob files.
        """
        return open_store(self.snapshot, self.handle, context)

    def kept_files(self, manifest: Manifest) -> dict[str, h.StreamStateHandle]:
        """Return the tables of a manifest, by local name."""
        streams = {file.local_name: file.stream for file in self.handle.files}
        return {file.name: streams[file.name] for file in manifest.files}


def entries_of_keys(store: Store, family: str, markers: Iterable[bytes], prefix: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of a column family whose keys begin with one of the markers; ``prefix`` bytes are the key group."""
    for marker in markers:
        for buffer, _, spans in store.blocks(family, marker, behind(marker), prefix):
            for begin, end, value, last, _ in spans.tolist():
                yield marker[:prefix] + bytes(buffer[begin:end]), bytes(buffer[value:last])


def entries_below(store: Store, family: str, beginning: bytes, prefix: int) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield the entries whose keys begin with some bytes, framed; the first ``prefix`` bytes are the key group."""
    key_group = int.from_bytes(beginning[:prefix], "big")
    for buffer, _, spans in store.blocks(family, beginning, behind(beginning), prefix):
        sizes = spans[:, 1] - spans[:, 0] + spans[:, 3] - spans[:, 2]
        out = np.empty(int(sizes.sum()) + len(spans) * (8 + prefix), dtype=np.uint8)
        order = np.arange(len(spans), dtype=np.int64)
        frame_entries(buffer, np.ascontiguousarray(spans), order, np.full(len(spans), key_group, np.int32), prefix, out)
        yield out


def entries_of_group(store: Store, family: str, key_group: int, prefix: int) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield the entries of a key group in a column family, framed, a few megabytes at a time."""
    return entries_below(store, family, key_group.to_bytes(prefix, "big"), prefix)
