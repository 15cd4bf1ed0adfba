"""A Parquet file that is replaced as a whole: its footer records the position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from state_processor.backends.files.location import Location
from state_processor.backends.files.storage import Storage, storage_errors
from state_processor.lake.targets import Changes, Position
from state_processor.serializers.errors import WriteError


class ParquetTarget:
    """A Parquet file.

    Parameters
    ----------
    place
        Its path, or its URL.
    options
        Settings of the storage.
    """

    def __init__(self, place: str, options: Mapping[str, str]) -> None:
        location = Location.given(place)
        self._place = str(location)
        self._filesystem, self._path = Storage(options).filesystem(self._place)

    def position(self) -> Position | None:
        """Return the position in the footer."""
        with storage_errors(self._place, kind=WriteError):
            if self._filesystem.get_file_info(self._path).type.name == "NotFound":
                return None
            with self._filesystem.open_input_file(self._path) as file:
                metadata = pq.read_schema(file).metadata or {}
        position = Position.of_properties({k.decode(): v.decode("utf-8", "replace") for k, v in metadata.items()})
        if position is None:
            raise WriteError(f"{self._place} is a file of another program; choose a new file")
        return position

    def schema(self) -> pa.Schema:
        """Return the columns."""
        with storage_errors(self._place, kind=WriteError), self._filesystem.open_input_file(self._path) as file:
            return pq.read_schema(file).remove_metadata()

    def replace(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], position: Position) -> None:
        """Write a new file, and then move it to the place of the old one."""
        own = schema.with_metadata(position.properties())
        directory, slash, name = self._path.rpartition("/")
        temporary = f"{directory}{slash}.{name}.{uuid4().hex}"
        with storage_errors(self._place, doing="written", kind=WriteError):
            self._filesystem.create_dir(directory, recursive=True)
            self._remove_leftovers(directory, f".{name}.")
            try:
                with self._filesystem.open_output_stream(temporary) as file, pq.ParquetWriter(file, own) as writer:
                    for batch in batches:
                        writer.write_batch(batch)
                self._filesystem.move(temporary, self._path)
            except BaseException:
                with suppress(OSError):
                    self._filesystem.delete_file(temporary)
                raise

    def _remove_leftovers(self, directory: str, prefix: str) -> None:
        """Remove the files of writes that were killed."""
        for info in self._filesystem.get_file_info(pafs.FileSelector(directory)):
            if info.base_name.startswith(prefix):
                self._filesystem.delete_file(info.path)

    def apply(self, changes: Changes, position: Position) -> None:
        """Write a new file with the rows of the old one, without the changed rows, and the new rows."""
        self.replace(changes.rows.schema, self._changed(changes), position)

    def _changed(self, changes: Changes) -> Iterator[pa.RecordBatch]:
        with self._filesystem.open_input_file(self._path) as file:
            yield from changes.applied_to(pq.ParquetFile(file).iter_batches())
