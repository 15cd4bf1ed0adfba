"""A Spark data source of prepared record batches: the minimum cost of a Python data source."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType


class ArrowFileDataSource(DataSource):
    """Reads an Arrow file in two tasks. Option ``path``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "arrow-file"

    def schema(self) -> StructType:
        """Return the schema of the file."""
        with pa.memory_map(self.options["path"]) as source:
            return from_arrow_schema(pa.ipc.open_file(source).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader."""
        return _Reader(self.options["path"])


class _Reader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> list[InputPartition]:  # type: ignore[override]
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        file = pa.ipc.open_file(pa.memory_map(self._path))
        for i in range(partition.value, file.num_record_batches, 2):
            yield file.get_batch(i)
