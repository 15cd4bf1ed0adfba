"""Opening the files of an embedded store (RocksDB, ForSt) with RocksDB.

A handle's files are brought together under the names they had in Flink: local files as links, others as copies that all
processes of the host share (:mod:`~state_processor.backends.files.scratch`). What was taken out of the handle is compared with
what RocksDB finds: a manifest that was cut off still opens, but with fewer files.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow.fs as pafs

from state_processor.backends.files.location import Location
from state_processor.backends.files.missing_files import absent, incomplete
from state_processor.backends.files.scratch import Scratch, scratch_space
from state_processor.backends.formats import framing
from state_processor.backends.formats.entry_runs import Block
from state_processor.backends.formats.rocksdb_process import RocksDbError, close_later, rocksdb_call
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.state_stream import StateStream
from state_processor.serializers.errors import (
    CorruptSnapshotError,
    MissingFileError,
    ScratchSpaceError,
    StateProcessorError,
    UnsupportedFormatError,
)

_OPEN_STORES: Final = 4
_FETCHES: Final = 8

_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_READ: Final = re.compile(r"\d+\.(?:sst|blob)|MANIFEST-\d+|CURRENT")
"""The files that RocksDB opens. ``OPTIONS`` is not among them: it has no checksum, and damage in it crashes RocksDB."""
_LOG_NAME: Final = re.compile(r"\d+\.log")
_SCRATCH_PATH: Final = re.compile(r"\S*/(?=(\d+\.sst|MANIFEST-\d+|CURRENT)\b)")
_OPTIONS: Final = """\
[Version]
  rocksdb_version=8.10.0
  options_file_version=1.1
[DBOptions]
[CFOptions "default"]
  merge_operator={id=StringAppendTESTOperator;delimiter=,;}
[TableOptions/BlockBasedTable "default"]
"""
"""What Flink sets for every column family that matters to a reader: list states are joined with commas."""


class Store:
    """An open store.

    Parameters
    ----------
    directory
        Where its files are.
    handle
        The handle they belong to.
    context
        Operator and subtask, for messages.
    origins
        Local name to a description of the file in the snapshot.
    """

    def __init__(
        self, directory: Path, handle: h.IncrementalRemoteKeyedStateHandle, context: str, origins: dict[str, str]
    ) -> None:
        self._context = context
        self._origins = origins
        self._handle = handle
        self._directory = str(directory)
        options = directory / "options" / "OPTIONS-000001"
        options.parent.mkdir(exist_ok=True)
        if not options.exists():
            options.write_text(_OPTIONS)
        try:
            opened, _ = rocksdb_call(self._where(), do="open", directory=self._directory)
        except RocksDbError as e:
            raise self._translated(e) from None
        self.families = frozenset(opened["families"])
        live = frozenset(opened["files"])
        unknown = sorted(f.local_name for f in handle.files if f.local_name.endswith(".sst") and f.local_name not in live)
        if unknown:
            raise CorruptSnapshotError(
                f"{self._where()}: its manifest ({self._origin('MANIFEST')}) does not know {', '.join(unknown[:5])}"
                f"{' and more' if len(unknown) > 5 else ''}; the manifest is cut off or belongs to another store"
            )

    @property
    def description(self) -> str:
        """Name of the store in messages."""
        return f"store {self._handle.backend_id} of checkpoint {self._handle.checkpoint_id}"

    def blocks(self, family: str, lower: bytes, upper: bytes, prefix: int) -> Iterator[Block]:
        """Yield the entries of a column family from ``lower`` to before ``upper``, a few megabytes at a time.

        Parameters
        ----------
        family
            The column family, which is the state's name.
        lower, upper
            Bounds of the keys.
        prefix
            Bytes of the key group in front of each key.

        Raises
        ------
        CorruptSnapshotError
            If the store has no such column family, or a file is damaged.
        """
        if family not in self.families:
            raise CorruptSnapshotError(
                f"{self._where()}: state {family!r} is registered, but the store has no column family for it"
            )
        while True:
            try:
                answer, buffer = rocksdb_call(
                    f"{self._where()}, state {family!r}",
                    do="read", directory=self._directory, family=family, lower=lower.hex(), upper=upper.hex(),
                )  # fmt: skip
            except RocksDbError as e:
                raise self._translated(e, f", state {family!r}") from None
            if answer["rows"]:
                yield buffer, None, self._entries(buffer, answer["rows"], family, prefix)
            if answer["end"]:
                return
            lower = bytes.fromhex(answer["next"])

    def _entries(self, buffer: npt.NDArray[np.uint8], rows: int, name: str, prefix: int) -> npt.NDArray[np.int64]:
        entries = np.empty((rows, framing.ENTRY_FIELDS), dtype=np.int64)
        problem = framing.index_pairs(buffer, prefix, entries)
        if problem == framing.BAD_KEY_GROUP:
            raise CorruptSnapshotError(f"{self._where()}, state {name!r}: a key is shorter than its key group prefix")
        if problem != framing.DONE:
            raise CorruptSnapshotError(f"{self._where()}, state {name!r}: RocksDB's process gives other bytes than entries")
        return entries

    def _where(self) -> str:
        return f"{self._context}, {self.description}"

    def _origin(self, name: str) -> str:
        return next((o for n, o in self._origins.items() if n.startswith(name)), "which is not in the snapshot")

    def _translated(self, error: Exception, what: str = "") -> StateProcessorError:
        """Translate an error of RocksDB: names of files in the scratch space become those of the snapshot."""
        message = " ".join(_SCRATCH_PATH.sub("", str(error)).split())
        files = [f"{n} is {self._origins[n]}" for n in dict.fromkeys(_mentioned(message)) if n in self._origins]
        told = f"{self._where()}{what}: RocksDB reports: {message}{'; ' if files else ''}{', '.join(files)}"
        kind = MissingFileError if "No such file" in message else CorruptSnapshotError
        return kind(f"{told}. A file of the snapshot is missing, damaged or not the one that was written")


def behind(beginning: bytes) -> bytes:
    """Return the least key behind all that begin with these bytes; the first is of a key group, which is never 0xFF."""
    stem = beginning.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1])


def _mentioned(message: str) -> list[str]:
    return re.findall(r"\d+\.sst|MANIFEST-\d+|CURRENT", message)


_stores: OrderedDict[tuple[str, h.IncrementalRemoteKeyedStateHandle], Store] = OrderedDict()
_stores_lock = threading.Lock()


def open_store(snapshot: Snapshot, handle: h.IncrementalRemoteKeyedStateHandle, context: str) -> Store:
    """Open the store of a handle. The last few stay open, since tasks of one process read neighbouring key groups.

    Parameters
    ----------
    snapshot
        Gives access to the files.
    handle
        The files of the store.
    context
        Operator and subtask, for messages.

    Raises
    ------
    MissingFileError
        If a file is not there, or has another length than recorded.
    CorruptSnapshotError
        If RocksDB can't open the files.
    ScratchSpaceError
        If there is no room for copies.
    """
    key = (snapshot.directory, handle)
    with _stores_lock:
        store = _stores.pop(key, None)
        if store is None:
            store = _open(snapshot, handle, context)
        _stores[key] = store
        while len(_stores) > _OPEN_STORES:
            _stores.popitem(last=False)
        return store


def close_stores() -> None:
    """Close the stores that are kept open and remove their directories, as far as nobody reads them."""
    with _stores_lock:
        _stores.clear()


def _reset_in_fork() -> None:
    global _stores_lock
    _stores_lock = threading.Lock()  # a thread of the parent may have held it
    _stores.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_fork)


def _open(snapshot: Snapshot, handle: h.IncrementalRemoteKeyedStateHandle, context: str) -> Store:
    scratch = scratch_space(snapshot.scratch)
    directory = scratch.directory()
    try:
        store = Store(directory, handle, context, materialize(snapshot, handle, scratch, directory, context))
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    weakref.finalize(store, _remove, directory, os.getpid())
    return store


def _remove(directory: Path, owner: int) -> None:
    if os.getpid() == owner:
        close_later(str(directory))
        shutil.rmtree(directory, ignore_errors=True)


def materialize(
    snapshot: Snapshot, handle: h.IncrementalRemoteKeyedStateHandle, scratch: Scratch, directory: Path, context: str
) -> dict[str, str]:
    """Bring the files together in ``directory``; what each is in the snapshot, by local name."""
    streams: dict[str, StateStream] = {}
    for file in handle.files:
        if not _FILE_NAME.fullmatch(file.local_name) or file.local_name.startswith("."):
            raise CorruptSnapshotError(f"{context}: {file.local_name!r} is not the name of a RocksDB file")
        if _LOG_NAME.fullmatch(file.local_name) and file.stream.state_size:
            raise UnsupportedFormatError(f"{context}: {file.local_name} is a write-ahead log, which Flink does not use")
        if not _READ.fullmatch(file.local_name):
            continue
        streams[file.local_name] = snapshot.open(file.stream, f"{context}, {file.local_name}")
    with ThreadPoolExecutor(_FETCHES) as pool:
        sliced = {f.local_name for f in handle.files if isinstance(f.stream, h.SegmentFileStateHandle)}
        tasks = [
            pool.submit(_place, snapshot, stream, name not in sliced, scratch, directory / name, f"{context}, {name}")
            for name, stream in streams.items()
        ]
        for task in tasks:
            task.result()
    return {name: stream.describe() for name, stream in streams.items()}


def _place(snapshot: Snapshot, stream: StateStream, whole: bool, scratch: Scratch, target: Path, context: str) -> None:
    """Put one file, or a slice of one, under its local name."""
    try:
        if stream.path is None:
            scratch.write(target, stream.read())
        else:
            _place_file(snapshot, stream, stream.path, whole, scratch, target, context)
    except ScratchSpaceError as error:
        raise ScratchSpaceError(f"{context}: {error}") from error


def _place_file(
    snapshot: Snapshot, stream: StateStream, path: str, whole: bool, scratch: Scratch, target: Path, context: str
) -> None:
    filesystem, inner = snapshot.storage.filesystem(path)
    info = filesystem.get_file_info(inner)
    if info.type is not pafs.FileType.File:
        raise MissingFileError(absent(f"{context}: {path}"))
    if whole and info.size != stream.size:
        raise MissingFileError(incomplete(f"{context}: {path}", info.size, stream.size))
    location = Location.parse(path)
    if whole and location.is_local:
        target.symlink_to(os.path.abspath(location.path))
        return
    key = f"{path}\0{stream.start}\0{stream.size}\0{info.mtime_ns}"
    scratch.link_copy(key, stream.size, stream.read, target)
