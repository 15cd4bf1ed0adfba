"""``./dev demo``: show the savepoint of a small shop with Spark, change a state, and write a new savepoint."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from state_processor import arrow, sample_savepoint
from state_processor.command_line import render_records
from state_processor.errors import StateProcessorError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from state_processor import SavepointReader

_QUIET: Final = """\
status = error
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c: %m%n
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Show the savepoint; return 2 if it does not exist."""
    description = "Read a real savepoint of a small shop, change it, write a new one."
    parser = argparse.ArgumentParser(prog="./dev demo", description=description)
    parser.add_argument("savepoint", nargs="?", default=sample_savepoint(), help="the savepoint")
    path = parser.parse_args(arguments).savepoint
    try:
        arrow.operators(path)  # Spark takes seconds to start
    except StateProcessorError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    with quiet_session() as spark:
        from state_processor import SavepointReader

        reader = SavepointReader.read(spark, path)
        show_contents(reader)
        show_states(reader)
        show_analysis(spark, reader)
        show_changes(spark, reader)
    return 0


@contextmanager
def quiet_session() -> Iterator[SparkSession]:
    """Run a local Spark session that logs errors only, and whose workers run this Python."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory() as directory:
        log4j = Path(directory, "log4j2.properties")
        log4j.write_text(_QUIET, "utf-8")
        spark = (
            SparkSession.builder.master("local[2]")
            .appName("state-processor demo")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={log4j.as_uri()}")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .getOrCreate()
        )
        try:
            yield spark
        finally:
            spark.stop()


def show_contents(reader: SavepointReader) -> None:
    """Show the operators and states, whose types come from the savepoint."""
    heading("reader.operators()", f"what is in {reader.path}")
    show(reader.operators().select("operator_uid", "operator_uid_hash", "operator_parallelism", "operator_total_size_in_bytes"))
    heading("reader.states()", "types come from the savepoint, not from the job's classes")
    show(reader.states().select("operator_uid", "state_name", "state_kind", "key_type", "map_key_type", "value_type", "ttl"))


def show_states(reader: SavepointReader) -> None:
    """Show states of all kinds as tables."""
    heading('reader.read_keyed_state("orders")', "all keyed states of an operator side by side, one row per key")
    show(reader.read_keyed_state("orders").orderBy("key").limit(5))
    heading('reader.read_keyed_state("orders", "items")', "a map state, one row per entry")
    show(reader.read_keyed_state("orders", "items").orderBy("key", "map_key").limit(5))
    heading('reader.read_timers("orders")', "timers")
    show(reader.read_timers("orders").orderBy("timestamp", "key").limit(3))
    heading('reader.read_broadcast_state("catalog", "discounts")', "broadcast state")
    show(reader.read_broadcast_state("catalog", "discounts").orderBy("key").limit(3))


def show_analysis(spark: SparkSession, reader: SavepointReader) -> None:
    """Run Spark SQL over a state, as over any table."""
    reader.read_keyed_state("orders").createOrReplaceTempView("orders")
    query = "SELECT profile.tier, count(*) AS customers, sum(total) AS total FROM orders GROUP BY 1 ORDER BY 1 NULLS LAST"
    heading(query, "Spark SQL over state")
    show(spark.sql(query))


def show_changes(spark: SparkSession, reader: SavepointReader) -> None:
    """Write a savepoint with a bonus for the customers of one tier; all other state is the same byte by byte."""
    from state_processor import SavepointReader, SavepointWriter

    totals = reader.read_keyed_state("orders").where("profile.tier = 'GOLD'")
    bonus = totals.selectExpr("key", "total + 1000 AS value")
    query = """reader.read_keyed_state("orders").where("profile.tier = 'GOLD'").selectExpr("key", "total + 1000 AS value")"""
    heading(f"bonus = {query}", "new values of a state, for some keys")
    show(totals.selectExpr("key", "total AS before", "total + 1000 AS after").orderBy("key").limit(5))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "savepoint-with-bonus")
        writer = SavepointWriter.from_existing(spark, reader.path)
        summary = writer.update_keyed_state("orders", "total", bonus).write(path)
        call = 'SavepointWriter.from_existing(spark, path).update_keyed_state("orders", "total", bonus).write(new)'
        heading(call, "a new savepoint, which Flink restores")
        print(summary)
        written = SavepointReader.read(spark, path)
        before, after = (r.read_keyed_state("orders").select("key", "profile.tier", "total") for r in (reader, written))
        joined = before.withColumnRenamed("total", "before").join(after.select("key", after.total.alias("after")), "key")
        heading('SavepointReader.read(spark, new).read_keyed_state("orders")', "the changed totals, and the others as they were")
        show(joined.orderBy("key").limit(8))


def heading(call: str, text: str) -> None:
    """Print a title: the call that returns the table below it, and a description."""
    print(f"\n{text}\n>>> {call}")


def show(frame: DataFrame) -> None:
    """Print a DataFrame as a table that fits the terminal."""
    print(render_records(frame.columns, frame.toArrow().to_pylist()), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
