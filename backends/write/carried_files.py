"""Files and stores of the source savepoint that the new one keeps: copies, or references.

A checkpoint may refer to files of a claimed savepoint as if they were its own (Flink's bug FLINK-39964). Its ``_metadata`` gets
the absolute paths of these files, as Flink versions without the bug record them. Nothing is copied: the files stay in the
savepoint. The job owns them since it claimed the savepoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final, Protocol
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from state_processor.backends.files.changes import FileSink
from state_processor.backends.files.location import Location
from state_processor.backends.files.recorded_paths import storage_and_parts
from state_processor.backends.formats.entry_framing import frame_entries
from state_processor.backends.formats.rocksdb_store import Store, open_store
from state_processor.backends.formats.sst.key_set import behind
from state_processor.backends.formats.sst.manifest import Manifest
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import write_metadata
from state_processor.backends.metadata.streams import StateStream, StreamInFile, recorded_files, with_streams
from state_processor.backends.write.staging import Staging
from state_processor.support.errors import WriteError

COPIES: Final = 8
"""So many files are copied at a time."""
_COPIED_AT_ONCE: Final = 4 << 20


class OpenSink(Protocol):
    """Opener of a new file of the savepoint. The purpose is part of its name: letters and hyphens."""

    def __call__(self, role: str) -> AbstractContextManager[FileSink]:
        """Return the file; it is removed on failure."""


def carried_stream(
    snapshot: Snapshot, stream: h.StreamStateHandle, open_sink: OpenSink, context: str, *, shares_files: bool
) -> h.StreamStateHandle:
    """Return the handle that the new savepoint has for a file of a store of the source savepoint.

    ``snapshot`` and ``stream``: the source savepoint, and the file. Bytes in ``_metadata`` stay there. ``open_sink``: opens the
    copy. ``context``: operator and subtask, for error messages. ``shares_files``: whether the handle refers to the file where it
    is, if possible.
    """
    if isinstance(stream, h.ByteStreamStateHandle):
        return stream
    opened = snapshot.open(stream, context)
    shared = shared_file(opened) if shares_files else None
    if shared is not None:
        return shared
    with open_sink("store") as sink:
        return copy_stream(opened, sink)


def copy_stream(stream: StateStream, sink: FileSink) -> h.RelativeFileStateHandle:
    """Copy a stream, whatever is in it, into a new file; offsets in it stay the same.

    A whole file is copied by its storage, where that can do it.
    """
    file = stream.whole_file
    if file is None or not sink.copy(file):
        for offset in range(0, stream.size, _COPIED_AT_ONCE):
            sink.write(stream.read(offset, min(_COPIED_AT_ONCE, stream.size - offset)))
    sink.close()
    return h.RelativeFileStateHandle(sink.name, sink.size)


def shared_file(stream: StateStream) -> h.FileStateHandle | None:
    """Return a handle of a stream's file where it is; ``None`` if the file has other content."""
    file = stream.whole_file
    if file is None:
        return None
    location = Location.parse(file.path)
    return h.FileStateHandle(stream.size, f"file:{location.path}" if location.is_local else file.path.partition("?")[0])


@dataclass(frozen=True)
class BaseStore:
    """A store of the source savepoint; it can be pickled."""

    snapshot: Snapshot
    handle: h.IncrementalRemoteKeyedStateHandle  # the files of the store
    kept_families: frozenset[str]  # the column families that stay
    patched: frozenset[str] = frozenset()  # the kept column families that get changes
    # the kept column families that are read to find the entries of a key: keys of timers begin with their time
    scanned: frozenset[str] = frozenset()
    shares_files: bool = False  # whether the files that stay are referred to where they are, and not copied
    # whether the entries that changes replace or delete leave the files. Otherwise they stay below the changes.
    erases: bool = False

    @property
    def moved_bytes(self) -> int:
        """The size of the files of the store, if they are copied or scanned."""
        return 0 if self.shares_files and not self.scanned else self.handle.state_size

    def open(self, context: str) -> Store:
        """Open the store: its manifest is read, and tables when entries are asked for."""
        return open_store(self.snapshot, self.handle, context)

    def kept_files(self, manifest: Manifest) -> dict[str, h.StreamStateHandle]:
        """Return the tables of a manifest, by local name."""
        streams = self.handle.streams_by_name
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


def is_moved(snapshot: Snapshot) -> bool:
    """Return whether files that a snapshot records by absolute path are elsewhere now, so that Flink does not find them."""
    return any(_place(snapshot.relocation.locate(path)) != _place(path) for path in recorded_files(snapshot.metadata))


def refer_to_claimed(snapshot: Snapshot) -> None:
    """Record where the files of the claimed savepoint are, in a new ``_metadata`` that replaces the present one at once."""
    if is_moved(snapshot):
        raise WriteError(f"{snapshot.directory} was moved: Flink looks for its files where they were recorded.\nMove it back")
    directory = Location.parse(snapshot.directory)

    def referred(stream: StreamInFile) -> h.StreamStateHandle:
        if not isinstance(stream, h.RelativeFileStateHandle) or stream.path not in snapshot.relocation.reused:
            return stream
        opened = snapshot.open(stream)
        is_own = Location.parse(opened.path or "").parent == directory
        return stream if is_own else shared_file(opened) or stream

    metadata = replace(snapshot.metadata, operators=with_streams(snapshot.metadata.operators, referred))
    staging = Staging(snapshot.directory, uuid4().hex[:16], snapshot.storage, replaces=True)
    staging.prepare()
    try:
        staging.commit(write_metadata(metadata), {})
    except BaseException as failure:
        staging.give_up(failure)
        raise


def _place(path: str) -> tuple[str, ...]:
    return storage_and_parts(Location.parse(path))
