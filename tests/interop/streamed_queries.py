"""Queries of Spark over numbered events, and the loop of their state through Flink and back.

``python -m tests.interop.streamed_queries 1000000`` runs the loop of a count with so many keys, and goes back to Spark with a
processor in Java; with ``--python``, with one in Python. Without a number, it writes the checkpoints that tests and docs read.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from pyspark.sql.functions import expr
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import state_processor as sp
from tests import archives
from tests.interop import flink
from tests.interop.flink_jars import tool

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERSION = "2.3.0"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
TIMER = 1_000_000_000_000
"""Milliseconds after all events."""
DAY = 86_400_000


def events(spark: SparkSession, start: int, end: int, keys: int) -> DataFrame:
    """The events of these numbers, as ``StreamedEvents`` in Java has them."""
    return spark.range(start, end, numPartitions=2).selectExpr(
        f"concat('user ', (id + id DIV 9) % {keys}) AS customer",
        "id % 97 AS amount",
        "concat('item ', id % 3) AS item",
        "timestamp_millis((id + 1) * 7000) AS time",
    )


class Query:
    """A query in a directory of its own: it has a checkpoint, an input that grows, and results."""

    def __init__(self, spark: SparkSession, where: Path, keys: int) -> None:
        self.spark = spark
        self.keys = keys
        self.checkpoint = where / "checkpoint"
        self.input = where / "input"
        self.results = where / "results"

    def feed(self, start: int, end: int) -> None:
        """Add events."""
        events(self.spark, start, end, self.keys).write.mode("append").parquet(str(self.input))

    def stream(self) -> DataFrame:
        """The input as a stream."""
        return self.untimed().withWatermark("time", "60 seconds")

    def untimed(self) -> DataFrame:
        """The input as a stream without a watermark."""
        schema = "customer string, amount bigint, item string, time timestamp"
        return self.spark.readStream.schema(schema).parquet(str(self.input))

    def run(self, df: DataFrame, mode: str = "append", *, once: bool = False) -> None:
        """Take all events there are, and stop. A query with processing time does not stop by itself: it takes them ``once``."""
        writer = df.writeStream.outputMode(mode).option("checkpointLocation", str(self.checkpoint))
        writer = writer.trigger(once=True) if once else writer.trigger(availableNow=True)
        writer = writer.format("parquet").option("path", str(self.results)) if mode == "append" else writer.format("noop")
        for attempt in range(5):
            try:
                writer.start().awaitTermination()
                return
            except StreamingQueryException as failure:  # Spark gives Python ten seconds to start, and has no setting for it
                if attempt == 4 or "Python worker failed to connect back" not in str(failure):
                    raise

    def state(self) -> sp.StreamingCheckpoint:
        """The state at the end of the last run."""
        return sp.StreamingCheckpoint(self.spark, self.checkpoint)


class Counts(StatefulProcessor):
    """A running count per key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        before = self.count.get()
        count = (before[0] if before else 0) + sum(1 for _ in rows)
        self.count.update((count,))
        yield Row(customer=key[0], count=count)

    def handleInitialState(self, key: Any, initialState: Row, timerValues: Any) -> None:
        self.count.update((initialState["count"],))

    def close(self) -> None:
        """Nothing is open."""


class Totals(StatefulProcessor):
    """Variables of all kinds, as ``Totals`` in Java has them, and a timer."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "n bigint")
        self.amounts = handle.getListState("amounts", "amount bigint")
        self.digits = handle.getMapState("digits", "digit bigint", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        (count,) = self.count.get() or (0,)
        for row in rows:
            count += 1
            self.amounts.appendValue((row.amount,))
            digit = (row.amount % 10,)
            self.digits.updateValue(digit, ((self.digits.getValue(digit) or (0,))[0] + 1,))
        self.count.update((count,))
        self.handle.registerTimer(TIMER)
        yield Row(customer=key[0], count=count)

    def handleInitialState(self, key: Any, initialState: Row, timerValues: Any) -> None:
        self.count.update((initialState["count"],))
        self.amounts.put([(amount,) for amount in initialState.amounts])
        for digit, number in dict(initialState.digits).items():
            self.digits.updateValue((digit,), (number,))
        self.handle.registerTimer(initialState.timer)

    def close(self) -> None:
        """Nothing is open."""


class Expiring(StatefulProcessor):
    """Variables with time-to-live: a sum, amounts, and a structure by digit."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.recent = handle.getValueState("recent", "sum bigint", ttlDurationMs=DAY)
        self.amounts = handle.getListState("amounts", "amount bigint", ttlDurationMs=DAY)
        self.digits = handle.getMapState("digits", "digit bigint", "n bigint, last bigint", ttlDurationMs=DAY)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        total = (self.recent.get() or (0,))[0]
        for row in rows:
            total += row.amount
            self.amounts.appendValue((row.amount,))
            self.digits.updateValue((row.amount % 10,), (1, row.amount))
        self.recent.update((total,))
        yield Row(customer=key[0], count=total)

    def handleInitialState(self, key: Any, initialState: Row, timerValues: Any) -> None:
        self.recent.update((initialState.recent,))

    def close(self) -> None:
        """Nothing is open."""


class Awkward(StatefulProcessor):
    """Names that Spark uses itself in a value without time-to-live, and a timer."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "value bigint, ttlExpirationMs bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        self.count.update((sum(1 for _ in rows), 7))
        self.handle.registerTimer(4 * TIMER)
        yield Row(customer=key[0], count=0)

    def close(self) -> None:
        """Nothing is open."""


def with_state(query: Query, processor: StatefulProcessor, initial: DataFrame | None = None) -> DataFrame:
    """The query with a processor, from its own state or from the first rows of another's."""
    return _with_processor(query.stream(), processor, initial)


def with_expiring_state(query: Query, initial: DataFrame | None = None) -> DataFrame:
    """The query with variables that expire."""
    return _with_processor(query.stream(), Expiring(), initial, "processingTime")


def _with_processor(
    stream: DataFrame, processor: StatefulProcessor, initial: DataFrame | None = None, time_mode: str = "eventTime"
) -> DataFrame:
    first = None if initial is None else initial.groupBy("customer")
    return stream.groupBy("customer").transformWithState(processor, "customer string, count bigint", "update", time_mode, first)


def streamed(
    savepoint: Path | None, to: Path, job: str, keys: int, start: int, end: int, version: str = VERSION, **more: Any
) -> dict[str, Any]:
    """Real Flink goes on from a savepoint with the events of these numbers, and takes its next one."""
    asked = {"savepoint": savepoint and str(savepoint), "to": str(to), "job": job, "keys": keys, "from": start, "until": end}
    (answer,) = flink.streamed(version, [{"backend": "rocksdb", **asked, **more}])
    return answer


def _counted(query: Query, initial: DataFrame) -> DataFrame:
    return with_state(query, Counts(), initial)


def _counted_in_java(query: Query, initial: DataFrame) -> DataFrame:
    """The same, without a call of Python for each key."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    counts: Any = query.spark._jvm
    stream: Any = query.stream()
    result = counts.io.stateprocessor.interop.SparkCounts.counted(stream._jdf, initial._jdf)
    return ClassicDataFrame(result, query.spark)


def first_counts(spark: SparkSession, where: Path, keys: int) -> sp.StreamingCheckpoint:
    """Count the first events per key, and return the state."""
    first = Query(spark, where, keys)
    first.feed(0, 2 * keys)
    first.run(first.stream().groupBy("customer").count(), "update")
    return first.state()


def count_loop(
    spark: SparkSession,
    where: Path,
    keys: int,
    first: sp.StreamingCheckpoint,
    note: Callable[[str], None] = lambda _: None,
    counted: Callable[[Query, DataFrame], DataFrame] = _counted,
    version: str = VERSION,
) -> DataFrame:
    """A count per key has begun in Spark, goes on in Flink, and comes back; return its state at the end."""
    last = Query(spark, where / "last", keys)
    writer = sp.SavepointWriter.new(spark, max_parallelism=128, flink_version=version.rpartition(".")[0])
    writer.with_keyed_state("main", first.read_state(), key="customer", states={"count": sp.Types.LONG()})
    writer.write(where / "savepoint")
    note("savepoint written")
    answer = streamed(where / "savepoint", where / "flink", "totals", keys, 2 * keys, 3 * keys, version)
    note("job of Flink")
    counts = sp.SavepointReader.read(spark, answer["savepoint"]).read_keyed_state("main", "count")
    last.feed(3 * keys, 5 * keys)
    last.run(counted(last, counts.selectExpr("key AS customer", "value AS count")), "update")
    note("transformWithState in Spark")
    return last.state().read_state("count")


def _in_batches(key: Any, batches: Iterator[Any], state: Any) -> Iterator[Any]:
    """A count per key with a timeout, for ``applyInPandasWithState``."""
    import pandas as pd

    count = (state.get[0] if state.exists else 0) + sum(map(len, batches))
    state.update((count,))
    state.setTimeoutTimestamp(TIMER)
    yield pd.DataFrame({"customer": [key[0]], "count": [count]})


def _joined(stream: DataFrame) -> DataFrame:
    right = stream.selectExpr("customer AS buyer", "time AS bought", "item AS other")
    return stream.join(
        right,
        expr("customer = buyer AND bought BETWEEN time AND time + INTERVAL 20 SECONDS"),
    )


SPECIMENS: dict[str, tuple[str, Callable[[DataFrame], DataFrame]]] = {
    "aggregates": (
        "update",
        lambda stream: stream.groupBy("customer").agg(
            expr("COUNT(*)"), expr("SUM(amount)"), expr("AVG(amount)"), expr("MIN(amount)"), expr("MAX(item)")
        ),
    ),
    "windows": (
        "append",
        lambda stream: stream.groupBy(expr("window(time, '60 seconds') AS window"), "customer").agg(expr("SUM(amount) AS sum")),
    ),
    "sessions": (
        "append",
        lambda stream: stream.groupBy(expr("session_window(time, '30 seconds') AS window"), "customer").agg(
            expr("SUM(amount) AS sum")
        ),
    ),
    "distinct": ("append", lambda stream: stream.dropDuplicatesWithinWatermark(["customer"])),
    "join": ("append", _joined),
    "groups": (
        "update",
        lambda stream: stream.groupBy("customer").applyInPandasWithState(
            _in_batches, "customer string, count bigint", "count bigint", "update", "EventTimeTimeout"
        ),
    ),
    "variables": ("update", lambda stream: _with_processor(stream, Totals())),
    "expiring": ("update", lambda stream: _with_processor(stream, Expiring(), None, "processingTime")),
    "awkward": (
        "update",
        lambda stream: (
            stream.selectExpr("customer AS Count", "item AS timestamp")
            .groupBy("Count", "timestamp")
            .transformWithState(Awkward(), "customer string, count bigint", "update", "processingTime")
        ),
    ),
    "several": (
        "append",
        lambda stream: (
            stream.dropDuplicates(["customer", "time"]).groupBy(expr("window(time, '60 seconds')"), "customer").count()
        ),
    ),
}
"""Queries with state, and their output modes."""
PROCESSING_TIME = ("expiring", "awkward")


_KEPT: dict[tuple[Any, ...], Path] = {}
"""Checkpoints of specimens that this process has run, by name and settings."""


def specimen(
    spark: SparkSession, name: str, where: Path | None = None, settings: Mapping[str, str] = MappingProxyType({})
) -> Path:
    """Run a query, and return its checkpoint. Checkpoints of ``transformWithState`` can't be moved.

    Without a place, the query runs once in a process, and all its tests have one checkpoint.
    """
    if where is None:
        run = (name, *settings.items())
        if run not in _KEPT:
            _KEPT[run] = specimen(spark, name, Path(tempfile.mkdtemp(prefix="streamed-")), settings)
        return _KEPT[run]
    query = Query(spark, where, 5)
    query.feed(0, 40)
    mode, build = SPECIMENS[name]
    before = {setting: spark.conf.get(setting, None) for setting in {PROVIDER: ROCKSDB, **settings}}
    for setting, value in {PROVIDER: ROCKSDB, **settings}.items():
        spark.conf.set(setting, value)
    query.run(build(query.untimed() if name == "aggregates" else query.stream()), mode, once=name in PROCESSING_TIME)
    for setting, previous in before.items():
        if previous is None:
            spark.conf.unset(setting)
        else:
            spark.conf.set(setting, previous)
    return query.checkpoint


def generate(spark: SparkSession) -> None:
    """Store the checkpoints of the specimens that can be moved as fixtures."""
    with tempfile.TemporaryDirectory(prefix="streamed-") as where:
        stored = Path(where, "stored")
        stored.mkdir()
        for name in SPECIMENS.keys() - {"variables", *PROCESSING_TIME}:
            checkpoint = specimen(spark, name, Path(where, name))
            shutil.rmtree(checkpoint / "sources")  # paths of the input
            checkpoint.rename(stored / name)
        archives.pack(archives.ARCHIVES / "streaming" / spark.version / "checkpoints.tar.xz", list(stored.iterdir()))


def main(keys: int | None, *, python: bool) -> None:
    """Run the loop of a count, and print what each step took; without keys, write the fixtures."""
    from pyspark.sql import SparkSession as Session

    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="streamed-") as where:
        spark = (
            Session.builder.master("local[2]")
            .config("spark.driver.memory", "3g")
            .config("spark.driver.extraClassPath", str(_java_processor(Path(where, "classes"))))
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .config(PROVIDER, ROCKSDB)
            .getOrCreate()
        )
        if keys is None:
            generate(spark)
        else:
            _run_loop(spark, Path(where), keys, _counted if python else _counted_in_java)
        spark.stop()


def _java_processor(classes: Path) -> Path:
    jars = Path(pyspark.__file__).with_name("jars")
    source = Path(__file__).with_name("java") / "spark" / "io" / "stateprocessor" / "interop" / "SparkCounts.java"
    subprocess.run((tool("javac"), "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), str(source)), check=True, timeout=300)
    return classes


def _run_loop(spark: SparkSession, where: Path, keys: int, counted: Callable[[Query, DataFrame], DataFrame]) -> None:
    started = time.monotonic()

    def note(step: str) -> None:
        nonlocal started
        print(f"{time.monotonic() - started:8.1f} s  {step}", flush=True)
        started = time.monotonic()

    first = first_counts(spark, where / "first", keys)
    note("aggregation in Spark")
    result = count_loop(spark, where, keys, first, note, counted)
    expected = events(spark, 0, 5 * keys, keys).groupBy("customer").count()
    different = result.exceptAll(expected).count() + expected.exceptAll(result).count()
    print(f"{result.count()} keys, {different} different from a run without interruption")


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    main(numbers[0] if numbers else None, python="--python" in sys.argv)
