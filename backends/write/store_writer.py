"""Writing one subtask's keyed state as the files of a new store of RocksDB. Flink: ``RocksNativeFullSnapshotStrategy``.

Each state is a column family, with the framed entries of the canonical format as keys and values. Timers are a column family for
each queue (``RocksDBPriorityQueueSetFactory``), with empty values. The sorted entries of column families become tables. A
manifest lists the tables.

A store may keep column families of a store of the source savepoint, in the same files. Changes become tables of level 0, with
higher sequence numbers. The kept files are added to the manifest at the end, and need not be copied before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from typing import IO, Final
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from state_processor.backends.files.ordered_threads import at_once
from state_processor.backends.files.storage import Storage
from state_processor.backends.formats import entry_framing as framing
from state_processor.backends.formats.entry_framing import entry_spans, frame_entries, frame_keys, spans_at
from state_processor.backends.formats.framing import KEY_GROUP
from state_processor.backends.formats.rocksdb_store import Store
from state_processor.backends.formats.sst.block_kernels import DELETION, VALUE_TYPE
from state_processor.backends.formats.sst.erased_table import ErasedKeys
from state_processor.backends.formats.sst.family_scan import FamilyScan
from state_processor.backends.formats.sst.key_set import behind
from state_processor.backends.formats.sst.manifest import DEFAULT_FAMILY, Family, Manifest, TableFile, write_manifest
from state_processor.backends.formats.sst.table import Table
from state_processor.backends.formats.sst.table_builder import COMPARATOR, Entries, TableBuilder, tag
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.streams import StateStream
from state_processor.backends.write.carried_files import (
    COPIES,
    BaseStore,
    OpenSink,
    carried_stream,
    entries_below,
    entries_of_group,
    entries_of_keys,
)
from state_processor.backends.write.entry_encoder import GroupState
from state_processor.backends.write.keyed_writer import KeyedStateWriter, KeyedSubtask
from state_processor.backends.write.sorted_entries import EntryRun, entries_as_they_come, first_of_keys, order_of_keys
from state_processor.serializers.io import DataOutput
from state_processor.support.errors import ScratchSpaceError
from state_processor.support.mappings import names_of

ROCKSDB: Final = "rocksdb"
FORST: Final = "forst"
UNNUMBERED: Final = 0
"""The number of the checkpoint of a store until the commit of the savepoint sets it."""
_RUN_BYTES: Final = 128 << 20
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
        self._subtask_context = subtask.context
        self._is_forst = backend == FORST
        self._backend_id = str(uuid4())
        families = names_of(self.header.states)
        self._base = base
        self._opened = None if base is None else base.open(subtask.context)
        self._manifest = None if base is None or self._opened is None else self._opened.manifest.only(base.kept_families)
        self._erases = base is not None and base.erases
        if self._erases and self._manifest is not None:
            self._manifest = self._manifest.with_numbers_for_all()
        self._store = NewStore(directory, families, self.prefix, self.context, self._manifest)
        self._erased: dict[int, list[bytes]] = {}
        self._patched = _ids_of(families, frozenset() if base is None else base.patched)
        self._scanned = _ids_of(families, frozenset() if base is None else base.scanned)
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
        meta = self._store_file("meta", target.to_bytes())
        return native_handle(self._backend_id, self.key_groups, meta, files)

    def _begin(self, before: GroupState | None, place: GroupState) -> None:
        self._end_run()

    def delete(self, key_group: int, state_id: int, markers: npt.NDArray[np.uint8]) -> bool:
        """See :class:`~state_processor.backends.write.keyed_writer.KeyedStateWriter`."""
        if state_id not in self._patched:
            return False
        if self._erases:
            self._erased.setdefault(state_id, []).extend(_keys(markers))
        elif state_id not in self._scanned:
            self._store.delete(state_id, markers)
        return True

    def stored(self, key_group: int, state_id: int, markers: Sequence[npt.NDArray[np.uint8]]) -> Iterator[npt.NDArray[np.uint8]]:
        """Yield entries of the source savepoint: the entries of marked keys, or the whole key group if a scan takes less time."""
        name, store = self.header.states[state_id].name, self._of_base()
        size = sum(file.size for file in store.family(name).files) // len(self.key_groups)
        keys = list(chain.from_iterable(map(_keys, markers)))
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
        return entries_of_keys(self._of_base(), self.header.states[state_id].name, _keys(markers), self.prefix)

    def _of_base(self) -> Store:
        """Return the store of the source savepoint, with the patched column families."""
        assert self._opened is not None
        return self._opened

    def _check(self, data: npt.NDArray[np.uint8], place: GroupState) -> npt.NDArray[np.int64]:
        return super()._check(data, place) if place[1] in self._patched else self._run.add(data, place[0])

    def _reserve(self, entries: int, size: int) -> None:
        assert self._place is not None
        if self._place[1] in self._patched:
            super()._reserve(entries, size)
        elif size < _RUN_BYTES:
            self._run.reserve(entries, size)

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
        data, (starts, repeated) = self._run.data, self._run.sorted()
        result = np.array([framing.OK if repeated < 0 else framing.DUPLICATE, repeated], dtype=np.int64)
        if self._is_cut:
            result = self._seen.check(data, key_group, self.prefix)
        if result[framing.STATUS] != framing.OK:
            raise self._refused(data, key_group, state_id, result)
        self._store.add(state_id, data, starts)
        self._run.clear()

    def _kept_files(self) -> tuple[Manifest | None, list[h.LocalFile]]:
        """Take over the files that stay from the source savepoint, without the entries that are erased."""
        base, manifest = self._base, self._manifest
        if base is None or manifest is None:
            return None, []
        streams = base.kept_files(manifest)
        erased = {}
        for state_id, keys in self._erased.items():
            name = self.header.states[state_id].name
            erased[name] = ErasedKeys(keys, self.prefix, are_timers=state_id in self._scanned)
        places: list[tuple[int, TableFile]] = []
        for number, family in manifest.families.items():
            places += [(number, file) for file in family.files]

        def keep(place: tuple[int, TableFile]) -> _Kept:
            family, file = place
            without = self._without(file, erased.get(manifest.families[family].name))
            if without is not None:
                return without
            stream = streams[file.name]
            return file, carried_stream(
                base.snapshot, stream, self._open_sink, self._subtask_context, shares_files=base.shares_files
            )

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
            return file, self._store_file(file.name, bytes(data))
        with self._open_sink("store") as sink:
            file = erased.write(sink.write, number)
        return file, h.RelativeFileStateHandle(sink.name, sink.size)

    def _stored(self, path: Path) -> h.StreamStateHandle:
        """Copy a file to the savepoint, and remove it."""
        if path.stat().st_size <= _INLINE_BYTES:
            return self._store_file(path.name, path.read_bytes())
        with self._open_sink("store") as sink:
            if not sink.copy(Storage().open(str(path))):
                with path.open("rb") as file:
                    while data := file.read(_COPIED_AT_ONCE):
                        sink.write(data)
        path.unlink()
        return h.RelativeFileStateHandle(sink.name, sink.size)

    def _store_file(self, name: str, data: bytes) -> h.StreamStateHandle:
        if len(data) <= _INLINE_BYTES:
            return h.ByteStreamStateHandle(f"{self._backend_id}/{name}", data)
        with self._open_sink("store") as sink:
            sink.write(data)
        return h.RelativeFileStateHandle(sink.name, sink.size)


def _ids_of(families: Sequence[str], names: Collection[str]) -> frozenset[int]:
    return frozenset(i for i, name in enumerate(families) if name in names)


def _keys(markers: npt.NDArray[np.uint8]) -> Iterator[bytes]:
    """Yield the keys of framed markers."""
    return chain.from_iterable(keys for keys, _ in entries_as_they_come(markers))


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


_Bytes = npt.NDArray[np.uint8]
_Markers = tuple[_Bytes, bool]
"""Framed markers; True if all of them are whole keys."""

_FILE_BYTES: Final = 64 << 20
"""About the size of a file, as RocksDB's default option ``target_file_size_base`` sets it."""
_CHANGES_BYTES: Final = 128 << 20
"""Changes of a column family are kept in memory up to this size; more changes become several files."""
_LAST_LEVEL: Final = 6
_LINES: Final = 1 << 13
"""So many entries are added to a table at a time: their places in memory fit into the processor's cache."""
_LENGTHS: Final = 8
"""Bytes of the two lengths of a framed entry."""
_BEHIND_ALL: Final = b"\xff" * 3
"""A bound behind all keys: they begin with a key group."""
_OPTIONS: Final = """\
# Options of the tables in this directory. RocksDB does not need this file.

[Version]
  rocksdb_version=8.10.0
  options_file_version=1.1

[DBOptions]
  create_if_missing=false

"""
_FAMILY_OPTIONS: Final = """\
[CFOptions "{name}"]
  compression=kSnappyCompression
  comparator=leveldb.BytewiseComparator

[TableOptions/BlockBasedTable "{name}"]
  format_version=5
  checksum=kCRC32c

"""


class NewStore:
    """A store that is being written.

    ``directory``: an empty directory. ``families``: the column families, in addition to the empty ``default`` that each store
    has. ``prefix``: bytes of the key group before each key. ``context``: operator and subtask, for error messages. ``base``: the
    kept column families of another store, with their files.
    """

    def __init__(self, directory: Path, families: Sequence[str], prefix: int, context: str, base: Manifest | None = None) -> None:
        self._directory = directory
        self._prefix = prefix
        self._context = context
        self._base = base or Manifest({0: Family(DEFAULT_FAMILY, COMPARATOR)})
        self._files = count(self._base.next_file)
        self._sequences = count(self._base.last_sequence + 1)
        new = count(self._base.largest_family + 1)
        numbers = {family.name: number for number, family in self._base.families.items()}
        numbered = [(numbers[name] if name in numbers else next(new), name) for name in families]
        self._families = [_Family(number, name) for number, name in numbered]

    def add(self, family: int, data: _Bytes, starts: npt.NDArray[np.uint32]) -> None:
        """Write the framed entries of a key group to a column family.

        ``starts``: where the entries start in ``data``, in the order of their keys. If these do not follow the entries of earlier
        calls, files overlap, and are merged at the end.
        """
        with self._reporting():
            self._add(self._families[family], data, starts)

    def put(self, family: int, entries: _Bytes) -> None:
        """Put framed entries above the entries of a column family; see :meth:`add`."""
        with self._reporting():
            self._change(self._families[family], puts=[entries])

    def delete(self, family: int, markers: _Bytes, *, are_entries: bool = False) -> None:
        """Delete entries that a column family has; see :meth:`add`.

        ``family`` and ``markers``: the column family, and framed markers of :mod:`~state_processor.backends.write.tombstones`:
        whole keys, or beginnings of keys. ``are_entries``: whether ``markers`` are the entries themselves.
        """
        with self._reporting():
            self._change(self._families[family], markers=[(markers, are_entries)])

    def close(self, base: Manifest | None = None) -> list[Path]:
        """Complete the store and return its files, without the files of the other store.

        ``base``: the kept files of the other store; by default all files.
        """
        with self._reporting():
            for family in self._families:
                self._flush(family)
                self._finish(family)
                if family.runs > 1:
                    self._merge(family)
            files = chain.from_iterable(family.files for family in self._families)
            return [*(self._path(file.number) for file in files), *self._other_files(base)]

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:06}.sst"

    # Entries of new column families

    def _add(self, family: _Family, data: _Bytes, starts: npt.NDArray[np.uint32]) -> None:
        tags = np.array([tag(0, VALUE_TYPE)])
        first, last = (data[begin:end].tobytes() for begin, end in spans_at(data, starts[[0, -1]])[:, :2].tolist())
        if family.table is not None and first <= family.last:
            self._finish(family)
            family.runs += 1
        row, step = 0, max(1, _FILE_BYTES // 4 * len(starts) // max(1, len(data)))
        while row < len(starts):
            if family.table is None or family.table.size >= _FILE_BYTES:
                self._finish(family)
                self._begin(family)
                if family.runs > 1:  # files that overlap are in level 0, and none has the sequence numbers of another
                    tags = np.array([tag(next(self._sequences), VALUE_TYPE)])
            assert family.table is not None
            stop = min(row + step, len(starts))
            for line in range(row, stop, _LINES):
                family.table.add(_entries_at(data, starts[line : min(line + _LINES, stop)], tags))
            row = stop
        family.last = last

    def _begin(self, family: _Family) -> None:
        number = next(self._files)
        family.stream = self._path(number).open("wb", buffering=0)
        family.table = TableBuilder(family.stream.write, number, (family.number, family.name))

    def _finish(self, family: _Family, *, is_change: bool = False) -> None:
        """Complete the file of a column family."""
        if family.table is not None and family.stream is not None:
            level = 0 if is_change or family.runs > 1 else _LAST_LEVEL
            family.files.append(family.table.close(level, len(family.files) + 1))
            family.stream.close()
            family.table = family.stream = None

    def _merge(self, family: _Family) -> None:
        """Merge the files of a column family that overlap."""
        files = family.files
        context = f"{self._context}new store, state {family.name!r}"
        storage = Storage()

        def opened(file: TableFile) -> Table:
            path = str(self._path(file.number))
            return Table(StateStream(storage.open(path), 0, file.size, path, path), file, f"{context}, {file.name}")

        family.files, family.runs, family.last = [], 1, b""
        for buffer, entries in FamilyScan(files, opened, self._prefix, context, None).blocks(b"", _BEHIND_ALL):
            sizes = entries[:, 1] - entries[:, 0] + entries[:, 3] - entries[:, 2]
            framed = np.empty(int(sizes.sum()) + len(entries) * (8 + self._prefix), dtype=np.uint8)
            groups = entries[:, KEY_GROUP].astype(np.int32)
            order = np.arange(len(entries), dtype=np.int64)
            starts = frame_entries(buffer, np.ascontiguousarray(entries), order, groups, self._prefix, framed)
            self._add(family, framed, starts[:-1].astype(np.uint32))
        self._finish(family)
        for file in files:
            self._path(file.number).unlink()

    # Changes of kept column families

    def _change(self, family: _Family, puts: Sequence[_Bytes] = (), markers: Sequence[_Markers] = ()) -> None:
        family.puts += [data for data in puts if len(data)]
        family.markers += [(data, are_entries) for data, are_entries in markers if len(data)]  # keys may lack timers
        family.held += sum(map(len, (*puts, *(data for data, _ in markers))))
        if family.held >= _CHANGES_BYTES:
            self._flush(family)

    def _flush(self, family: _Family) -> None:
        """Write the changes of a column family to a file. Deletions are older than the entries that are put."""
        if not family.puts and not family.markers:
            return
        deleting, putting = next(self._sequences), next(self._sequences)
        whole, beginnings = _split(family.markers)
        data = np.concatenate([*family.puts, *whole])
        starts = order_of_keys(data, 0)
        starts = starts[first_of_keys(data, starts)]  # an entry that is put replaces the older one, which need not be deleted
        is_put = starts < sum(map(len, family.puts))
        tags = np.where(is_put, tag(putting, VALUE_TYPE), tag(deleting, DELETION))
        self._begin(family)
        assert family.table is not None
        family.table.add(_entries_at(data, starts, tags))
        for beginning in sorted(beginnings):
            family.table.delete(beginning, behind(beginning), deleting)
        self._finish(family, is_change=True)
        family.puts, family.markers, family.held = [], [], 0

    # Files next to tables

    def _other_files(self, base: Manifest | None) -> Iterator[Path]:
        """Write the manifest, CURRENT and OPTIONS."""
        families = dict(self._base.without_files().families)
        families.setdefault(0, Family(DEFAULT_FAMILY, COMPARATOR))
        for family in self._families:
            of_base = families.get(family.number) or Family(family.name, COMPARATOR)
            families[family.number] = replace(of_base, files=tuple(family.files))
        number, options = next(self._files), next(self._files)
        manifest = Manifest(families, next(self._files), next(self._sequences) - 1, max([self._base.largest_family, *families]))
        texts = {
            f"MANIFEST-{number:06}": write_manifest(manifest.above(base or self._base)),
            "CURRENT": f"MANIFEST-{number:06}\n".encode(),
            f"OPTIONS-{options:06}": self._options().encode(),
        }
        for name, content in texts.items():
            path = self._directory / name
            path.write_bytes(content)
            yield path

    def _options(self) -> str:
        names = [DEFAULT_FAMILY, *names_of(self._families)]
        return _OPTIONS + "".join(_FAMILY_OPTIONS.format(name=name) for name in names)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Translate errors of the disk."""
        try:
            yield
        except OSError as problem:
            raise ScratchSpaceError(
                f"{self._context}files of RocksDB can't be written to {self._directory}: {problem}. Set STATE_PROCESSOR_SCRATCH "
                "to a directory on a disk with more room"
            ) from problem


@dataclass
class _Family:
    """A column family: its files, and the file that is being written.

    ``runs`` is the number of parts whose keys ascend, ``last`` the last key; ``puts`` and ``markers`` wait for a file.
    """

    number: int
    name: str
    files: list[TableFile] = field(default_factory=list)
    table: TableBuilder | None = None
    stream: IO[bytes] | None = None
    runs: int = 1
    last: bytes = b""
    puts: list[_Bytes] = field(default_factory=list)
    markers: list[_Markers] = field(default_factory=list)
    held: int = 0


def _entries_at(data: _Bytes, starts: npt.NDArray[np.uint32], tags: npt.NDArray[np.int64]) -> Entries:
    """Return framed entries, whose starts are in the order of their keys, for a table."""
    return Entries(data, spans_at(data, starts), np.arange(len(starts), dtype=np.int64), tags)


def _split(markers: Sequence[_Markers]) -> tuple[list[_Bytes], set[bytes]]:
    """Return the markers that are whole keys, framed as entries without a value, and the beginnings of keys."""
    whole, beginnings = [np.empty(0, dtype=np.uint8)], set()
    for data, are_entries in markers:
        spans = entry_spans(data)
        is_whole = np.ones(len(spans), dtype=bool) if are_entries else data[spans[:, 3] - 1] != 0
        keys = spans[is_whole, :2]
        framed = np.empty(int((keys[:, 1] - keys[:, 0]).sum()) + _LENGTHS * len(keys), dtype=np.uint8)
        frame_keys(data, np.ascontiguousarray(keys), framed)
        whole.append(framed)
        beginnings |= {data[begin:end].tobytes() for begin, end in spans[~is_whole, :2].tolist()}
    return whole, beginnings
