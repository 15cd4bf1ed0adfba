"""A query of Spark that keeps tables equal to a state: :func:`follow` runs it in a process that is killed.

Two tables follow. A Delta table is written as the documentation shows it: a micro-batch that Spark repeats changes nothing. A
ledger has each micro-batch exactly once, and compares each change with the value that it has: a change that is lost or comes
twice ends the query.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import state_processor as sp
from tests import spark_jvms

COLUMNS: Final = ["key", "value"]
UID, STATE = "totals", "total"
_SETTINGS: Final[dict[str, bool | float | int | str | None]] = {
    "spark.driver.memory": "512m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",  # compiling takes longer than a few hundred rows
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.catalogImplementation": "in-memory",
}
_TRANSIENT: Final = ("was removed while it was", "does not have a whole checkpoint")


def apply_step(table: str, rows: pa.Table) -> None:
    """Apply the changes of one checkpoint to the Delta table."""
    if pc.any(rows["_full"]).as_py():
        present = rows.filter(pc.is_valid(rows["_change"]))
        write_deltalake(table, present.select(COLUMNS), mode="overwrite", schema_mode="overwrite")
        return
    values = {name: f"s.{name}" for name in COLUMNS}
    (
        DeltaTable(table)
        .merge(rows.select(["_change", *COLUMNS]), "t.key = s.key", source_alias="s", target_alias="t")
        .when_matched_delete(predicate="s._change = 'delete'")
        .when_matched_update(values)
        .when_not_matched_insert(values, predicate="s._change <> 'delete'")
        .execute()
    )


class Ledger:
    """A Parquet file with the values, and the number of the last micro-batch in its footer: one rename commits both."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> tuple[int, dict[Any, Any]]:
        """Return the number of the last micro-batch, and the values by key."""
        if not self._path.exists():
            return -1, {}
        table = pq.read_table(self._path)
        assert table.schema.metadata is not None
        return int(table.schema.metadata[b"batch"]), dict(zip(*(table[n].to_pylist() for n in COLUMNS), strict=True))

    def apply(self, batch: int, rows: pa.Table) -> None:
        """Apply a micro-batch, unless it has been applied.

        Raises
        ------
        AssertionError
            If a change does not begin with the value that the ledger has.
        """
        last, values = self.read()
        if batch <= last:
            return
        for row in sorted(rows.to_pylist(), key=lambda r: int(r["_checkpoint_id"])):
            if row["_full"]:
                values = {r["key"]: r["value"] for r in rows.to_pylist() if r["_change"]}
                break
            _apply(values, row)
        schema = pa.schema([(n, pa.int64()) for n in COLUMNS], {"batch": str(batch)})
        written = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        pq.write_table(pa.table([pa.array(values.keys()), pa.array(values.values())], schema=schema), written)
        written.replace(self._path)


def _apply(values: dict[Any, Any], row: Mapping[str, Any]) -> None:
    key, kind = row["key"], row["_change"]
    known = (kind != "insert") == (key in values) and values.get(key) == row["before"]
    assert known, f"a change is lost or comes twice: {row}, and the ledger has {values.get(key)}"
    if kind == "delete":
        del values[key]
    else:
        values[key] = row["value"]


def start(spark: SparkSession, places: Mapping[str, Path], note: Callable[[str], None], *, to_the_end: bool) -> StreamingQuery:
    """Start the query, from all values of the newest checkpoint; see :func:`follow`."""
    trigger: dict[str, Any] = {"availableNow": True} if to_the_end else {"processingTime": "0 seconds"}
    ledger = Ledger(places["ledger"])

    def apply(batch: DataFrame, number: int) -> None:
        rows = batch.toArrow()
        for checkpoint in sorted(pc.unique(rows["_checkpoint_id"]).to_pylist()):
            apply_step(str(places["table"]), rows.filter(pc.equal(rows["_checkpoint_id"], checkpoint)))
        ledger.apply(number, rows)
        ids = pc.unique(rows["_checkpoint_id"]).to_pylist()
        note(json.dumps({"batch": number, "rows": rows.num_rows, "checkpoints": ids, "full": any(rows["_full"].to_pylist())}))

    source = spark.readStream.format("flink-savepoint-changes").option("uid", UID).option("state", STATE).option("before", "true")
    changes = source.option("startingCheckpoint", "snapshot").option("maxCheckpointsPerTrigger", "5")
    sink = changes.load(str(places["checkpoints"])).writeStream.foreachBatch(apply)
    return sink.option("checkpointLocation", str(places["query"])).trigger(**trigger).start()


def session(python: str) -> SparkSession:
    """Start Spark as cheaply as it goes.

    Args:
        python: of the workers, see :func:`tests.spark_python.interpreter`.
    """
    os.environ["PYSPARK_PYTHON"] = python
    os.environ.setdefault("SPARK_SUBMIT_OPTS", spark_jvms.options())
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", spark_jvms.LAUNCHER)
    spark = SparkSession.builder.master("local[1]").config(map=_SETTINGS).getOrCreate()
    sp.register(spark)
    return spark


def follow(spark: SparkSession, places: Mapping[str, Path], note: Callable[[str], None], *, to_the_end: bool) -> None:
    """Run the query; start it again if a checkpoint was removed while it was read.

    Args:
        spark: the session.
        places: the directory ``checkpoints``, the ``table`` of Delta, the file ``ledger``, and Spark's checkpoint ``query``.
        note: takes a line for each micro-batch.
        to_the_end: whether it ends when it has read all checkpoints.
    """
    while True:
        try:
            start(spark, places, note, to_the_end=to_the_end).awaitTermination()
        except Exception as error:
            if not is_transient(error):
                raise
            note("removed while it was read")
            time.sleep(0.2)
        else:
            return


def is_transient(error: Exception) -> bool:
    """Return whether a query has failed because Flink removed a checkpoint while a task read it."""
    return any(text in str(error) for text in _TRANSIENT)
