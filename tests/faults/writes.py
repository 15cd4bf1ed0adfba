"""Writes without Spark: as ``df.write.format("flink-savepoint")`` does it (plan, tasks, commit), and by ``sp.arrow``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa

import state_processor as sp
from state_processor.options.data_sources import SinkOptions
from state_processor.spark.schemas import spark_schema
from state_processor.spark.sink import SavepointSink
from tests.state_processor.samples import ORDERS, ORDERS_PATH, expected_values

_TASKS: Final = 3
APIS: Final = ("sink", "arrow", "arrow, native")
"""The sink of Spark's data source, and the writer without Spark: of canonical savepoints, and of files of RocksDB."""
STORE_PATH: Final = str(ORDERS.parent / "orders-rocksdb-native" / "savepoint")
"""A native savepoint of RocksDB with the same content as that of ``ORDERS_PATH``."""


@dataclass(frozen=True)
class Write:
    """Write of a savepoint: its base with new keys ``new-…`` in the state ``total`` of operator ``orders``.

    Parameters
    ----------
    target
        The directory, as a path or URL.
    first, end
        Numbers of the new keys.
    overwrite
        Whether a savepoint that is there is replaced.
    base
        The source savepoint.
    api
        One of :data:`APIS`.
    """

    target: str
    first: int = 0
    end: int = 300
    overwrite: bool = False
    base: str = ORDERS_PATH
    api: str = "sink"

    @property
    def expected(self) -> dict[str, Any]:
        """What the state holds afterwards, by key."""
        return expected_values(ORDERS, "orders", "total") | {f"new-{i}": i for i in range(self.first, self.end)}

    def run(self) -> None:
        """Write it in this process."""
        if self.api != "sink":
            writer = sp.arrow.SavepointWriter.from_existing(self.base)
            writer.update_keyed_state("orders", "total", pa.Table.from_batches(self._batches(0, 1)))
            formats: dict[str, Any] = {"format": "native", "backend": "rocksdb"} if self.api == "arrow, native" else {}
            writer.write(self.target, overwrite=self.overwrite, **formats)
            return
        sink = self.begun()
        try:
            sink.commit([sink.write(iter(self._batches(task))) for task in range(_TASKS)])
        except BaseException:
            sink.abort([])  # so does Spark
            raise

    def begun(self) -> SavepointSink:
        """Return the sink, whose directory is prepared."""
        with patch.object(os, "getppid", os.getpid):  # the processes of Spark are this one
            return self.plan()

    def plan(self) -> SavepointSink:
        """Return the sink, made in a child of Spark."""
        options = {"path": self.target, "uid": "orders", "state": "total", "base": self.base}
        return SavepointSink(SinkOptions.parse(options), spark_schema(self._batches(0)[0].schema), self.overwrite)

    def _batches(self, task: int, tasks: int = _TASKS) -> list[pa.RecordBatch]:
        numbers = range(self.first + task, self.end, tasks)
        columns = {"key": [f"new-{i}" for i in numbers], "value": pa.array(numbers, pa.int64())}
        return pa.Table.from_pydict(columns).to_batches(max_chunksize=40)


def digests_of_base() -> dict[str, bytes]:
    """Files of the bases with their bytes."""
    return {f"{base}/{p.name}": p.read_bytes() for base in (ORDERS_PATH, STORE_PATH) for p in Path(base).iterdir()}
