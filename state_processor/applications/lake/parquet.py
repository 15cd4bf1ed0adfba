"""A Parquet file that is replaced as a whole: its footer records the position.

A new file is written beside the old one, and moved to its place. Several processes may do this at once. Their hidden files name
them: a mark is there while a process writes, and a claim while it moves its file. Before the move, a process looks for the claims
of others, and reads the position again. Another position, or another claim, is a conflict. Files of processes that have ended are
removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from state_processor.applications.lake.targets import Changes, ConflictError, Position
from state_processor.errors import MissingFileError, StateProcessorError, WriteError
from state_processor.snapshots import (
    FileSink,
    Location,
    Storage,
    is_gone,
    make_directory,
    move_file,
    remove_file,
    storage_errors,
    this_process,
)

_ROWS: Final = "state-processor.row-count"
_MARK: Final = "-open"
_CLAIM: Final = "-claim"
_LONGEST_CLAIM: Final = timedelta(minutes=10)
"""A claim stands for as long as it takes to list a directory and to move a file; this is much longer."""
_LONGEST_WRITE: Final = timedelta(days=1)
"""Files of other machines that are older are left over."""


class ParquetTarget:
    """A Parquet file.

    ``place``: its path, or its URL. ``options``: settings of the storage.
    """

    def __init__(self, place: str, options: Mapping[str, str]) -> None:
        location = Location.given(place)
        self._place = str(location)
        self._storage = Storage(options)
        self._filesystem, self._path = self._storage.filesystem(self._place)
        self._position: Position | None = None

    def position(self) -> Position | None:
        """Return the position in the footer, without the shape of rows if another program has written the file again."""
        self._position = self._stored_position()
        return self._position

    def _stored_position(self) -> Position | None:
        with storage_errors(self._place, kind=WriteError):
            self._storage.forget_listings(self._place)
            if self._filesystem.get_file_info(self._path).type.name == "NotFound":
                return None
            with self._filesystem.open_input_file(self._path) as file:
                footer = pq.read_metadata(file)
        properties = {k.decode(): v.decode("utf-8", "replace") for k, v in (footer.metadata or {}).items()}
        position = Position.of_properties(properties)
        if position is None:
            raise WriteError(f"{self._place} is a file of another program; choose a new file")
        if properties.get(_ROWS) != str(footer.num_rows):  # programs that change rows keep what the schema has, and only that
            return replace(position, shape={})
        return position

    def schema(self) -> pa.Schema:
        """Return the columns."""
        with storage_errors(self._place, kind=WriteError), self._filesystem.open_input_file(self._path) as file:
            return pq.read_schema(file).remove_metadata()

    def replace(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], position: Position) -> None:
        """Write a new file, and then move it to the place of the old one."""
        file_schema = schema.with_metadata(position.properties())
        with _Replacement(self._storage, self._place).begun() as replacement:
            with storage_errors(self._place, doing="written", kind=WriteError):
                _, path = self._storage.filesystem(replacement.file)
                with self._filesystem.open_output_stream(path) as file, pq.ParquetWriter(file, file_schema) as writer:
                    rows = 0
                    for batch in batches:
                        writer.write_batch(batch)
                        rows += batch.num_rows
                    writer.add_key_value_metadata({_ROWS: str(rows)})
            replacement.claim()
            stored = self._stored_position()
            if stored != self._position:
                state_of_place = "is gone" if stored is None else f"has {stored.checkpoint}"
                raise ConflictError(f"{self._place} {state_of_place}: another process has changed it meanwhile")
            move_file(self._storage, replacement.file, self._place)
        self._position = position

    def apply(self, changes: Changes, position: Position) -> None:
        """Write a new file with the rows of the old one, without the changed rows, and the new rows."""
        self.replace(changes.rows.schema, self._changed(changes), position)

    def _changed(self, changes: Changes) -> Iterator[pa.RecordBatch]:
        with self._filesystem.open_input_file(self._path) as file:
            yield from changes.applied_to(pq.ParquetFile(file).iter_batches())


class _Replacement:
    """A file that takes the place of another one, with its mark and its claim."""

    def __init__(self, storage: Storage, place: str) -> None:
        directory, slash, name = place.rpartition("/")
        self._storage, self._place, self._directory = storage, place, directory
        self._prefix = f".{name}."
        self.file = f"{directory}{slash}{self._prefix}{uuid4().hex}"

    @contextmanager
    def begun(self) -> Iterator[_Replacement]:
        """Put the mark and, in the end, remove all files."""
        make_directory(self._storage, self._directory)
        self._put(_MARK)
        try:
            self._sweep()
            yield self
        finally:
            with suppress(StateProcessorError):  # the first error is raised; the next write removes the files
                for role in ("", _CLAIM, _MARK):
                    remove_file(self._storage, self.file + role)

    def claim(self) -> None:
        """Put the claim."""
        self._put(_CLAIM)
        for path in self._files_of_other_writes():
            if path.endswith(_CLAIM) and not self._is_over(path, _LONGEST_CLAIM):
                raise ConflictError(
                    f"{self._place}: another process is writing it ({Location.parse(path).name}). If the process was killed on "
                    "another machine, remove this file, or try again in ten minutes"
                )

    def _put(self, role: str) -> None:
        with FileSink(self._storage, self.file + role) as sink:
            sink.write(this_process())

    def _files_of_other_writes(self) -> list[str]:
        """Return the files of other writes."""
        self._storage.forget_listings(self._directory)
        name = Location.parse(self.file).name
        entries = self._storage.list(self._directory)
        return [e.path for e in entries if e.name.startswith(self._prefix) and not e.name.startswith(name)]

    def _sweep(self) -> None:
        """Remove the files of writes that were killed. A file without a mark belongs to none."""
        paths = self._files_of_other_writes()
        marks = [path for path in paths if path.endswith(_MARK)]
        for path in [*(path for path in paths if not path.endswith(_MARK)), *marks]:
            mark = path.removesuffix(_CLAIM).removesuffix(_MARK) + _MARK
            if mark not in marks or self._is_over(mark, _LONGEST_WRITE):
                remove_file(self._storage, path)

    def _is_over(self, sign: str, longest: timedelta) -> bool:
        """Return whether the process of a mark or claim has ended, or the file is older than this write by too much."""
        try:
            owner = self._storage.read_all(sign)
        except MissingFileError:  # its write has just ended
            return False
        times: list[datetime | None] = list(map(self._storage.modified, (sign, self.file + _MARK)))
        sign_time, mark_time = times
        return is_gone(owner) or (sign_time is not None and mark_time is not None and mark_time - sign_time > longest)
