"""A new store of RocksDB: sorted entries of column families become SST files, and a manifest that lists them.

Files are written with ``rocksdict``, whose RocksDB is newer than those of Flink. Their format and checksums are such that those
open them: 6.20.3, which Flink has since 1.14, and 8.10.0, since 2.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from state_processor.backends.write.sorted_entries import Pairs
from state_processor.serializers.errors import ScratchSpaceError

_TABLE_FORMAT: Final = 5
"""The newest that RocksDB 6.20 reads."""
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
        import rocksdict  # here, since few writes need it

        directory = self._directory / "store"
        with self._reporting():
            options = _options()
            options.create_if_missing(True)
            options.create_missing_column_families(True)
            store = rocksdict.Rdict(str(directory), options, {name: _options() for name in self._names})
            try:
                for name, family in zip(self._names, self._families, strict=True):
                    family.ingest(store.get_column_family(name))
                live = {file["name"].lstrip("/") for file in store.live_files()}
            finally:
                store.close()
        others = {match["kind"]: path for path in sorted(directory.iterdir()) if (match := _OTHERS.fullmatch(path.name))}
        return [*(directory / name for name in sorted(live)), *others.values()]

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
        self._overlap = False

    def add(self, entries: Iterable[Pairs]) -> None:
        for pairs in entries:
            overlap = pairs[0][0] <= self._last
            if self._writer is None or overlap or self._writer.file_size() >= _FILE_BYTES:
                self._overlap |= overlap
                self._next_file()
            put = self._writer.__setitem__
            for key, value in pairs:
                put(key, value)
            self._last = pairs[-1][0]

    def ingest(self, family: Any) -> None:
        """Move the files into a store."""
        import rocksdict

        self._finish()
        if self._paths:
            options = rocksdict.IngestExternalFileOptions()
            options.set_move_files(True)
            family.ingest_external_file(self._paths, options)
            if self._overlap:
                family.compact_range(None, None)

    def _next_file(self) -> None:
        import rocksdict

        self._finish()
        self._paths.append(f"{self._stem}-{len(self._paths)}.sst")
        self._writer = rocksdict.SstFileWriter(_options())
        self._writer.open(self._paths[-1])

    def _finish(self) -> None:
        if self._writer is not None:
            self._writer.finish()
            self._writer = None


def _options() -> Any:
    import rocksdict

    table = rocksdict.BlockBasedOptions()
    table.set_format_version(_TABLE_FORMAT)
    table.set_checksum_type(rocksdict.ChecksumType.crc32c())
    options = rocksdict.Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_disable_auto_compactions(True)
    options.set_compression_type(rocksdict.DBCompressionType.snappy())
    return options
