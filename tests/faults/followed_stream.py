"""A query of Spark that keeps a Delta table equal to a state: ``python -m tests.faults.followed_stream CHECKPOINTS TABLE QUERY``.

It ends when it is killed or, with ``--once``, when it has read all checkpoints.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import state_processor as sp
from tests import spark_jvms

STARTED = "the query has started"
"""Printed when Spark runs and the query is started: on a busy machine Spark may take a minute until then."""
COLUMNS = ["key", "value"]
UID, STATE = "totals", "total"


def apply_step(table: str, rows: pa.Table) -> None:
    """Apply the changes of one checkpoint to the table."""
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


def start(spark: SparkSession, checkpoints: Path, table: Path, query: Path, trigger: dict[str, Any]) -> StreamingQuery:
    """Start the query, from all values of the newest checkpoint."""

    def apply(batch: DataFrame, _: int) -> None:
        rows = batch.toArrow()
        for checkpoint in sorted(pc.unique(rows["_checkpoint_id"]).to_pylist()):
            apply_step(str(table), rows.filter(pc.equal(rows["_checkpoint_id"], checkpoint)))

    source = spark.readStream.format("flink-savepoint-changes").option("uid", UID).option("state", STATE)
    changes = source.option("startingCheckpoint", "snapshot").load(str(checkpoints))
    sink = changes.writeStream.foreachBatch(apply).option("checkpointLocation", str(query))
    return sink.trigger(**trigger).start()


def main() -> None:
    """Run the query; start it again if a checkpoint was removed while it was read."""
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoints", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("query", type=Path)
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("SPARK_SUBMIT_OPTS", spark_jvms.options())
    builder = SparkSession.builder.master("local[1]").config("spark.sql.shuffle.partitions", "1")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    sp.register(spark)
    trigger = {"availableNow": True} if options.once else {"processingTime": "0 seconds"}
    while True:
        try:
            running = start(spark, options.checkpoints, options.table, options.query, trigger)
            print(STARTED, flush=True)
            running.awaitTermination()
        except Exception as error:
            if "was removed while it was" not in str(error) and "does not have a whole checkpoint" not in str(error):
                raise
            print("removed while it was read", flush=True)
            time.sleep(0.2)
        else:
            return


if __name__ == "__main__":
    main()
