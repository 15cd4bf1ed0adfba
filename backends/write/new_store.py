"""A new store of RocksDB: sorted entries of column families become SST files, and a manifest that lists them.

Files are written with ``rocksdict``, whose RocksDB is newer than the versions in Flink. Their format and checksums are such that
the versions in Flink open them: 6.20.3 (since Flink 1.14) and 8.10.0 (since 2.0).

A store may keep column families of a store of the source savepoint, in the same files. RocksDB does not see these files: it
opens a manifest with the column families alone, and continues its numbers. Changes become files above the kept files. The kept
files are added to the manifest at the end, and need not be copied before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import rocksdict

from state_processor.backends.formats.sst.beginnings import behind
from state_processor.backends.formats.sst.manifest import Manifest, read_manifest, write_manifest
from state_processor.backends.write.sorted_entries import Pairs
from state_processor.serializers.errors import ScratchSpaceError

_FILE_BYTES: Final = 64 << 20
"""About the size of a file, as RocksDB's default option ``target_file_size_base`` sets it."""
_TABLE_FORMAT: Final = 5
_OTHERS: Final = re.compile(r"(?P<kind>MANIFEST|CURRENT|OPTIONS)(?:-\d+)?")
"""Files that are not tables; the newest file of each kind counts."""
_CHANGES_BYTES: Final = 128 << 20
"""Changes of a column family are kept in memory up to this size; more changes become several files."""


def table_options() -> Any:
    """Return options of column families, whose tables each RocksDB since 6.20 reads."""
    table = rocksdict.BlockBasedOptions()
    table.set_format_version(_TABLE_FORMAT)
    table.set_checksum_type(rocksdict.ChecksumType.crc32c())
    options = rocksdict.Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_disable_auto_compactions(True)
    options.set_compression_type(rocksdict.DBCompressionType.snappy())
    return options


class NewStore:
    """A store that is being written.

    Parameters
    ----------
    directory
        An empty directory.
    families
        The column families, in addition to the empty ``default`` that each store has.
    context
        Operator and subtask, for error messages.
    base
        The kept column families of another store, with their files.
    """

    def __init__(self, directory: Path, families: Sequence[str], context: str, base: Manifest | None = None) -> None:
        self._directory = directory
        self._context = context
        self._families = [_Family(directory, number) for number in range(len(families))]
        self._names = families
        self._base = base

    def add(self, family: int, entries: Iterable[Pairs]) -> None:
        """Write entries, whose keys ascend, to a column family.

        If they do not follow the entries of earlier calls, files overlap, and are merged at the end.

        Raises
        ------
        ScratchSpaceError
            If the disk is full.
        """
        with self._reporting():
            self._families[family].add(entries)

    def put(self, family: int, entries: Iterable[Pairs]) -> None:
        """Put entries above the entries of a column family; see :meth:`add`."""
        with self._reporting():
            handle = self._store.get_column_family_handle(self._names[family])
            for keys, values in entries:
                batch = rocksdict.WriteBatch(raw_mode=True)
                for key, value in zip(keys, values, strict=True):
                    batch.put(key, value, handle)
                self._write(batch)

    def delete(self, family: int, markers: Iterable[Pairs]) -> None:
        """Delete entries that a column family has; see :meth:`add`.

        ``markers`` come from :mod:`~state_processor.backends.write.tombstones`: whole keys, or prefixes of keys.
        """
        with self._reporting():
            handle = self._store.get_column_family_handle(self._names[family])
            for keys, are_whole in markers:
                batch = rocksdict.WriteBatch(raw_mode=True)
                for key, is_whole in zip(keys, are_whole, strict=True):
                    if is_whole[-1]:
                        batch.delete(key, handle)
                    else:
                        batch.delete_range(key, behind(key), handle)
                self._write(batch)

    def close(self, base: Manifest | None = None) -> list[Path]:
        """Complete the store and return its files, without the files of the other store.

        Parameters
        ----------
        base
            The kept files of the other store; by default all files.

        Raises
        ------
        ScratchSpaceError
            If the disk is full.
        """
        with self._reporting():
            live = self._complete()
            if self._base is not None:
                (path,) = (path for kind, path in self._others.items() if kind == "MANIFEST")
                path.write_bytes(write_manifest(read_manifest(path.read_bytes(), str(path)).above(base or self._base)))
        return [*(self._path / name for name in sorted(live)), *self._others.values()]

    @property
    def _path(self) -> Path:
        return self._directory / "store"

    @property
    def _others(self) -> dict[str, Path]:
        return {match["kind"]: path for path in sorted(self._path.iterdir()) if (match := _OTHERS.fullmatch(path.name))}

    @cached_property
    def _store(self) -> Any:
        if self._base is not None:
            name = f"MANIFEST-{self._base.next_file:06}"
            hidden = replace(self._base.without_files(), next_file=self._base.next_file + 1)
            self._path.mkdir()
            (self._path / name).write_bytes(write_manifest(hidden))
            (self._path / "CURRENT").write_text(f"{name}\n")
        options = table_options()
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        families = {name: table_options() for name in self._names}
        for of_family in families.values():
            of_family.set_write_buffer_size(_CHANGES_BYTES)
        return rocksdict.Rdict(str(self._path), options, families)

    def _write(self, batch: Any) -> None:
        without_log: Any = rocksdict.WriteOptions()  # whose stubs call its properties methods
        without_log.disable_wal = True
        self._store.write(batch, without_log)

    def _complete(self) -> set[str]:
        """Make the store, and return the names of its tables."""
        store = self._store
        try:
            for name, family in zip(self._names, self._families, strict=True):
                column_family = store.get_column_family(name)
                family.ingest(column_family)
                column_family.flush()
            return {file["name"].lstrip("/") for file in store.live_files()}
        finally:
            store.close()

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Translate errors of RocksDB (plain exceptions) and of its files."""
        try:
            yield
        except Exception as problem:
            if type(problem) is not Exception and not isinstance(problem, OSError):
                raise
            raise ScratchSpaceError(
                f"{self._context}RocksDB can't write to {self._directory}: {problem}. Set STATE_PROCESSOR_SCRATCH to a directory "
                "on a disk with more room"
            ) from problem


class _Family:
    """The files of a column family."""

    def __init__(self, directory: Path, number: int) -> None:
        self._stem = str(directory / str(number))
        self._paths: list[str] = []
        self._writer: Any = None
        self._last = b""
        self.overlap = False

    def add(self, entries: Iterable[Pairs]) -> None:
        for keys, values in entries:
            overlap = keys[0] <= self._last
            if self._writer is None or overlap or self._writer.file_size() >= _FILE_BYTES:
                self.overlap |= overlap
                self._next_file()
            put = self._writer.__setitem__
            for key, value in zip(keys, values, strict=True):
                put(key, value)
            self._last = keys[-1]

    def ingest(self, family: Any) -> None:
        """Move the files into a store."""
        paths = self.complete()
        if paths:
            options = rocksdict.IngestExternalFileOptions()
            options.set_move_files(True)
            family.ingest_external_file(paths, options)
            if self.overlap:
                family.compact_range(None, None)

    def complete(self) -> list[str]:
        """Complete the files and return their paths."""
        self._finish()
        return self._paths

    def _next_file(self) -> None:
        self._finish()
        self._paths.append(f"{self._stem}-{len(self._paths)}.sst")
        self._writer = rocksdict.SstFileWriter(table_options())
        self._writer.open(self._paths[-1])

    def _finish(self) -> None:
        if self._writer is not None:
            self._writer.finish()
            self._writer = None
