"""Writing one subtask's keyed state as the files of a new store of RocksDB. Flink: ``RocksNativeFullSnapshotStrategy``.

Each state is a column family, with the framed entries of the canonical format as keys and values. Timers are a column family for
each queue (``RocksDBPriorityQueueSetFactory``), with empty values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from state_processor.backends.files.ordered_threads import at_once
from state_processor.backends.files.storage import Storage
from state_processor.backends.formats import entry_framing as framing
from state_processor.backends.formats.rocksdb_store import Store
from state_processor.backends.formats.sst.erased_table import ErasedKeys
from state_processor.backends.formats.sst.manifest import Manifest, TableFile
from state_processor.backends.metadata import handles as h
from state_processor.backends.write.blobs import GroupState
from state_processor.backends.write.carried_files import (
    COPIES,
    BaseStore,
    OpenSink,
    carried_stream,
    entries_below,
    entries_of_group,
    entries_of_keys,
)
from state_processor.backends.write.keyed_writer import KeyedStateWriter, KeyedSubtask
from state_processor.backends.write.new_store import NewStore
from state_processor.backends.write.sorted_entries import EntryRun, entries_as_they_come
from state_processor.serializers.io import DataOutput

ROCKSDB: Final = "rocksdb"
FORST: Final = "forst"
UNNUMBERED: Final = 0
"""The number of the checkpoint of a store until the commit of the savepoint sets it."""
_RUN_BYTES: Final = 64 << 20
"""So many bytes of entries are sorted at a time. More entries of a key group and state become files that overlap."""
_INLINE_BYTES: Final = 20 << 10
"""Files up to this size are kept in ``_metadata`` (Flink: ``execution.checkpointing.storage.fs.memory-threshold``)."""
_FORST_DIRECTORY: Final = "/op_attempt_0/db"
_LOOKUP_BYTES: Final = 16 << 10
"""So many bytes of a column family are read in the time of a look-up."""
_COPIED_AT_ONCE: Final = 8 << 20
_Kept = tuple[TableFile, h.StreamStateHandle | None]
"""A table of the source savepoint that stays, possibly without some entries; ``None`` if no entry of it is left."""


class KeyedStateStoreWriter(KeyedStateWriter):
    """Writes the store of one subtask.

    ``directory``: an empty directory for the store, whose files are copied to the savepoint at the end. ``open_sink``: opens the
    files of the savepoint. ``backend``: the state backend: :data:`ROCKSDB` or :data:`FORST`. ``base``: the store of the source
    savepoint that states are kept of.
    """

    def __init__(
        self,
        directory: Path,
        open_sink: OpenSink,
        backend: str,
        subtask: KeyedSubtask,
        base: BaseStore | None = None,
    ) -> None:
        super().__init__(subtask)
        self._open_sink = open_sink
        self._where = subtask.context
        self._is_forst = backend == FORST
        self._backend_id = str(uuid4())
        families = [state.name for state in self.header.states]
        self._base = base
        self._opened = None if base is None else base.open(subtask.context)
        self._manifest = None if base is None or self._opened is None else self._opened.manifest.only(base.kept)
        self._erases = base is not None and base.erases
        if self._erases and self._manifest is not None:
            self._manifest = self._manifest.with_numbers_for_all()
        self._store = NewStore(directory, families, self.prefix, self.context, self._manifest)
        self._erased: dict[int, list[bytes]] = {}
        patched = base.patched if base is not None else frozenset()
        self._patched = frozenset(i for i, name in enumerate(families) if name in patched)
        scanned = base.scanned if base is not None else frozenset()
        self._scanned = frozenset(i for i, name in enumerate(families) if name in scanned)
        self._run = EntryRun(self.prefix)
        self._is_cut = False

    def close(self) -> h.IncrementalRemoteKeyedStateHandle:
        """Complete the store, copy its files to the savepoint, and return the handle."""
        self._end_run()
        manifest, carried = self._kept_files()
        paths = self._store.close(manifest)
        if self._is_forst:
            _mark_forst(paths)
        files = (*carried, *(h.LocalFile(path.name, self._stored(path)) for path in paths))
        target = DataOutput()
        self.header.write(target)
        meta = self._kept("meta", target.to_bytes())
        return native_handle(self._backend_id, self.key_groups, meta, files)

    def _begin(self, before: GroupState | None, place: GroupState) -> None:
        self._end_run()

    def delete(self, key_group: int, state_id: int, markers: npt.NDArray[np.uint8]) -> bool:
        """See :class:`~state_processor.backends.write.keyed_writer.KeyedStateWriter`."""
        if state_id not in self._patched:
            return False
        if self._erases:
            self._erased.setdefault(state_id, []).extend(key for keys, _ in entries_as_they_come(markers) for key in keys)
        elif state_id not in self._scanned:
            self._store.delete(state_id, markers)
        return True

    def stored(self, key_group: int, state_id: int, markers: Sequence[npt.NDArray[np.uint8]]) -> Iterator[npt.NDArray[np.uint8]]:
        """Yield entries of the source savepoint: the entries of marked keys, or the whole key group if a scan takes less time."""
        name, store = self.header.states[state_id].name, self._of_base()
        size = sum(file.size for file in store.family(name).files) // len(self.key_groups)
        keys = [key for blob in markers for keys, _ in entries_as_they_come(blob) for key in keys]
        if state_id in self._scanned or len(keys) * _LOOKUP_BYTES > size:
            yield from entries_of_group(store, name, key_group, self.prefix)
        else:
            for key in keys:
                yield from entries_below(store, name, key, self.prefix)

    def delete_stored(self, state_id: int, entries: npt.NDArray[np.uint8]) -> None:
        """Delete the entries of a state whose keys are not the beginnings of its entries."""
        if state_id in self._scanned and not self._erases:
            self._store.delete(state_id, entries, are_entries=True)

    def replaced(self, state_id: int, markers: npt.NDArray[np.uint8]) -> Iterable[tuple[bytes, bytes]]:
        """See :class:`~state_processor.backends.write.keyed_writer.KeyedStateWriter`."""
        if state_id not in self._patched:
            return ()
        keys = (key for keys, _ in entries_as_they_come(markers) for key in keys)
        name = self.header.states[state_id].name
        return entries_of_keys(self._of_base(), name, keys, self.prefix)

    def _of_base(self) -> Store:
        """Return the store of the source savepoint, with the patched column families."""
        assert self._opened is not None
        return self._opened

    def _check(self, data: npt.NDArray[np.uint8], place: GroupState) -> npt.NDArray[np.int64]:
        return super()._check(data, place) if place[1] in self._patched else self._run.add(data, place[0])

    def _append(self, data: npt.NDArray[np.uint8], last: int) -> None:
        assert self._place is not None
        if self._place[1] in self._patched:
            self._store.put(self._place[1], data)
        elif self._run.size >= _RUN_BYTES:
            self._is_cut = True
            self._write_run()

    def _end_run(self) -> None:
        """Write the rest of a key group."""
        if self._run.size:
            self._write_run()
        self._is_cut = False

    def _write_run(self) -> None:
        """Sort and write entries. Keys that occur twice are next to each other, unless the key group is cut into several runs."""
        assert self._place is not None
        key_group, state_id = self._place
        data, (spans, order, repeated) = self._run.data, self._run.sorted()
        result = np.array([framing.OK if repeated < 0 else framing.DUPLICATE, repeated], dtype=np.int64)
        if self._is_cut:
            result = self._seen.check(data, key_group, self.prefix)
        if result[framing.STATUS] != framing.OK:
            raise self._refused(data, key_group, state_id, result)
        self._store.add(state_id, data, spans, order)
        self._run.clear()

    def _kept_files(self) -> tuple[Manifest | None, list[h.LocalFile]]:
        """Take over the files that stay from the source savepoint, without the entries that are erased."""
        base, manifest = self._base, self._manifest
        if base is None or manifest is None:
            return None, []
        streams = base.kept_files(manifest)
        erased = {
            self.header.states[i].name: ErasedKeys(keys, self.prefix, are_timers=i in self._scanned)
            for i, keys in self._erased.items()
        }
        places = [(number, file) for number, family in manifest.families.items() for file in family.files]

        def keep(place: tuple[int, TableFile]) -> _Kept:
            family, file = place
            without = self._without(file, erased.get(manifest.families[family].name))
            if without is not None:
                return without
            stream = streams[file.name]
            return file, carried_stream(base.snapshot, stream, self._open_sink, self._where, shares_files=base.shares_files)

        carried = at_once(keep, places, COPIES)
        by_family: dict[int, list[TableFile]] = {number: [] for number in manifest.families}
        for (number, _), (file, stream) in zip(places, carried, strict=True):
            if stream is not None:
                by_family[number].append(file)
        files = [h.LocalFile(file.name, stream) for file, stream in carried if stream is not None]
        return manifest.with_files(by_family), files

    def _without(self, file: TableFile, keys: ErasedKeys | None) -> _Kept | None:
        """Write a table without erased entries; return ``None`` if nothing in the table is erased."""
        if keys is None:
            return None
        assert self._manifest is not None
        erased = keys.without(self._of_base().table(file))
        if erased is None or erased.is_empty:
            return None if erased is None else (file, None)
        number = self._manifest.spare_number(file)
        if file.size <= _INLINE_BYTES:
            data = bytearray()
            file = erased.write(data.extend, number)
            return file, self._kept(file.name, bytes(data))
        with self._open_sink("store") as sink:
            file = erased.write(sink.write, number)
        return file, h.RelativeFileStateHandle(sink.name, sink.size)

    def _stored(self, path: Path) -> h.StreamStateHandle:
        """Copy a file to the savepoint, and remove it."""
        if path.stat().st_size <= _INLINE_BYTES:
            return self._kept(path.name, path.read_bytes())
        with self._open_sink("store") as sink:
            if not sink.copy(Storage().open(str(path))):
                with path.open("rb") as file:
                    while data := file.read(_COPIED_AT_ONCE):
                        sink.write(data)
        path.unlink()
        return h.RelativeFileStateHandle(sink.name, sink.size)

    def _kept(self, name: str, data: bytes) -> h.StreamStateHandle:
        if len(data) <= _INLINE_BYTES:
            return h.ByteStreamStateHandle(f"{self._backend_id}/{name}", data)
        with self._open_sink("store") as sink:
            sink.write(data)
        return h.RelativeFileStateHandle(sink.name, sink.size)


def _mark_forst(paths: Iterable[Path]) -> None:
    """Name a working directory as ForSt does in its options: nothing else distinguishes its files from files of RocksDB."""
    for path in paths:
        if path.name.startswith("OPTIONS-"):
            head, section, rest = path.read_text("utf-8").partition("[DBOptions]\n")
            path.write_text(f"{head}{section}  db_log_dir={_FORST_DIRECTORY}\n{rest}", "utf-8")


def native_handle(
    backend_id: str, key_groups: h.KeyGroupRange, meta: h.StreamStateHandle, files: tuple[h.LocalFile, ...]
) -> h.IncrementalRemoteKeyedStateHandle:
    """Return the handle of a store in a native savepoint, whose files are all its own: none is shared with checkpoints.

    The number of the checkpoint is :data:`UNNUMBERED`.
    """
    size = meta.state_size + sum(file.stream.state_size for file in files)
    return h.IncrementalRemoteKeyedStateHandle(
        h.INCREMENTAL_V2, UNNUMBERED, backend_id, key_groups, meta, (), files, size, str(uuid4())
    )
