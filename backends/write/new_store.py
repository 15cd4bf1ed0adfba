"""A new store of RocksDB: sorted entries of column families become tables, and a manifest lists them.

A store may keep column families of a store of the source savepoint, in the same files. Changes become tables of level 0, with
higher sequence numbers. The kept files are added to the manifest at the end, and need not be copied before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import IO, Final

import numpy as np
import numpy.typing as npt

from state_processor.backends.files.storage import Storage
from state_processor.backends.formats.entry_framing import entry_spans, frame_entries, frame_keys
from state_processor.backends.formats.framing import KEY_GROUP
from state_processor.backends.formats.sst.block_kernels import DELETION, TAG_BYTES, VALUE_TYPE
from state_processor.backends.formats.sst.family_scan import FamilyScan
from state_processor.backends.formats.sst.key_set import behind
from state_processor.backends.formats.sst.manifest import DEFAULT_FAMILY, Family, Manifest, TableFile, write_manifest
from state_processor.backends.formats.sst.table import Table
from state_processor.backends.formats.sst.table_builder import COMPARATOR, Entries, TableBuilder, tag
from state_processor.backends.metadata.streams import StateStream
from state_processor.backends.write.sorted_entries import first_of_keys, order_of_keys
from state_processor.support.errors import ScratchSpaceError

_Bytes = npt.NDArray[np.uint8]
_Markers = tuple[_Bytes, bool]
"""Framed markers; True if all of them are whole keys."""

_FILE_BYTES: Final = 64 << 20
"""About the size of a file, as RocksDB's default option ``target_file_size_base`` sets it."""
_CHANGES_BYTES: Final = 128 << 20
"""Changes of a column family are kept in memory up to this size; more changes become several files."""
_LAST_LEVEL: Final = 6
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

    def add(self, family: int, data: _Bytes, spans: npt.NDArray[np.int64], order: npt.NDArray[np.int64]) -> None:
        """Write the framed entries of a key group to a column family, in the order of their keys.

        If they do not follow the entries of earlier calls, files overlap, and are merged at the end.
        """
        with self._reporting():
            self._add(self._families[family], data, spans, order)

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
            return [*(self._path(file.number) for family in self._families for file in family.files), *self._others(base)]

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:06}.sst"

    # Entries of new column families

    def _add(self, family: _Family, data: _Bytes, spans: npt.NDArray[np.int64], order: npt.NDArray[np.int64]) -> None:
        entries = Entries(data, spans, order, np.array([tag(0, VALUE_TYPE)]))
        first, last = (entries.key(row)[:-TAG_BYTES] for row in (0, len(spans) - 1))  # tags would order a key behind longer ones
        if family.table is not None and first <= family.last:
            self._finish(family)
            family.runs += 1
        row, step = 0, max(1, _FILE_BYTES // 4 * len(spans) // max(1, len(data)))
        while row < len(spans):
            if family.table is None or family.table.size >= _FILE_BYTES:
                self._finish(family)
                self._begin(family)
                if family.runs > 1:  # files that overlap are in level 0, and none has the sequence numbers of another
                    entries = replace(entries, tags=np.array([tag(next(self._sequences), VALUE_TYPE)]))
            assert family.table is not None
            stop = min(row + step, len(spans))
            family.table.add(entries, row, stop)
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
            frame_entries(buffer, np.ascontiguousarray(entries), order, groups, self._prefix, framed)
            self._add(family, framed, entry_spans(framed), order)
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
        spans = entry_spans(data)
        order = order_of_keys(data, spans, 0)
        order = order[first_of_keys(data, spans, order)]  # an entry that is put replaces the older one, which need not be deleted
        is_put = spans[order, 0] < sum(map(len, family.puts))
        tags = np.where(is_put, tag(putting, VALUE_TYPE), tag(deleting, DELETION))
        self._begin(family)
        assert family.table is not None
        family.table.add(Entries(data, spans, order, tags))
        for beginning in sorted(beginnings):
            family.table.delete(beginning, behind(beginning), deleting)
        self._finish(family, is_change=True)
        family.puts, family.markers, family.held = [], [], 0

    # Files next to tables

    def _others(self, base: Manifest | None) -> Iterator[Path]:
        """Write the manifest and the files beside it."""
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
        names = [DEFAULT_FAMILY, *(family.name for family in self._families)]
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
