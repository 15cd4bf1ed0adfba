"""A new store of RocksDB: sorted entries of column families become SST files, and a manifest that lists them.

Files are written with ``rocksdict``, whose RocksDB is newer than those of Flink. Their format and checksums are such that those
open them: 6.20.3, which Flink has since 1.14, and 8.10.0, since 2.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import rocksdict

from state_processor.backends.files.scratch import scratch_space
from state_processor.backends.formats.rocksdb_process import RocksDbError, rocksdb_call
from state_processor.backends.formats.rocksdb_server import table_options
from state_processor.backends.formats.rocksdb_store import materialize
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.write.sorted_entries import Pairs
from state_processor.serializers.errors import CorruptSnapshotError, ScratchSpaceError

_FILE_BYTES: Final = 64 << 20
"""About the size of a file, which is that of RocksDB's default options (``target_file_size_base``)."""
_OTHERS: Final = re.compile(r"(?P<kind>MANIFEST|CURRENT|OPTIONS)(?:-\d+)?")
"""Files beside tables; of each kind it is the newest that counts."""


class NewStore:
    """A store that is being written.

    Parameters
    ----------
    directory
        An empty directory.
    families
        The column families, beside the empty ``default`` that each store has.
    context
        Operator and subtask, for error messages.
    """

    def __init__(self, directory: Path, families: Sequence[str], context: str) -> None:
        self._directory = directory
        self._context = context
        self._families = [_Family(directory, number) for number in range(len(families))]
        self._names = families

    def add(self, family: int, entries: Iterable[Pairs]) -> None:
        """Write entries, whose keys ascend, to a column family.

        Where they do not follow those of the calls before, files overlap, and are merged at the end.

        Raises
        ------
        ScratchSpaceError
            If there is no room.
        """
        with self._reporting():
            self._families[family].add(entries)

    def close(self) -> list[Path]:
        """Complete the store and return its files.

        Raises
        ------
        ScratchSpaceError
            If there is no room.
        """
        directory = self._directory / "store"
        with self._reporting():
            live = self._complete(directory)
        others = {match["kind"]: path for path in sorted(directory.iterdir()) if (match := _OTHERS.fullmatch(path.name))}
        return [*(directory / name for name in sorted(live)), *others.values()]

    def _complete(self, directory: Path) -> set[str]:
        """Make the store, and return the names of its tables."""
        options = table_options()
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        store = rocksdict.Rdict(str(directory), options, {name: table_options() for name in self._names})
        try:
            for name, family in zip(self._names, self._families, strict=True):
                family.ingest(store.get_column_family(name))
            return {file["name"].lstrip("/") for file in store.live_files()}
        finally:
            store.close()

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Translate errors of RocksDB, which are plain exceptions."""
        try:
            yield
        except Exception as problem:
            if type(problem) is not Exception:
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


@dataclass(frozen=True)
class BaseStore:
    """A store of the source savepoint, and the column families of it that stay as they are; it can be pickled."""

    snapshot: Snapshot
    handle: h.IncrementalRemoteKeyedStateHandle
    kept: frozenset[str]


class EditedStore(NewStore):
    """A store that has column families of another one, in the same files, beside those that are written.

    Parameters
    ----------
    directory, families, context
        See :class:`NewStore`; the families are all that the new store has.
    base
        The other store.
    """

    def __init__(self, directory: Path, families: Sequence[str], context: str, base: BaseStore) -> None:
        super().__init__(directory, families, context)
        self._base = base

    def _complete(self, directory: Path) -> set[str]:
        base, context = self._base, self._context.removesuffix(": ")
        directory.mkdir()
        materialize(base.snapshot, base.handle, scratch_space(base.snapshot.scratch), directory, context)
        written = {name: family for name, family in zip(self._names, self._families, strict=True) if family.complete()}
        try:
            answer, _, _ = rocksdb_call(
                context,
                do="change",
                directory=str(directory),
                families=list(self._names),
                kept=sorted(base.kept),
                files={name: family.complete() for name, family in written.items()},
                merged=[name for name, family in written.items() if family.overlap],
            )
        except RocksDbError as problem:
            raise CorruptSnapshotError(f"{context}: the store of the source savepoint can't be changed: {problem}") from None
        return set(answer["tables"])
