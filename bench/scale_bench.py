"""Writing and reading of 1, 10 and 50 million keys: CPU time per million rows and memory stay the same.

Each figure comes from a session of its own, whose workers and JVM have first read or written a small savepoint. Targets: CPU time
per million rows and the peak of a worker within 15 % of those of the smallest savepoint, 500 MB in the driver's Python process.
One key with a list of 5,000,000 elements and one with a map of 1,000,000 entries are written and read as well, and two workers of
a standalone cluster are compared with one. Each has one core of the machine: its JVM and its Python process would take two.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from apart import result_of
from effort import effort
from figures import Figure
from processes import hold_on_cores, peak_bytes, usage
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from read_bench import session

import state_processor as sp

CACHE = Path(__file__).parent.parent / ".cache" / "bench" / "scale"
MILLIONS = effort((1, 10, 50), (1, 10))
FORMATS: dict[str, dict[str, Any]] = {"canonical": {}, "rocksdb": {"format": "native", "backend": "rocksdb"}}
CORES = 2
LOCAL = f"local[{CORES}]"
WORKERS = "local-cluster[{},1,2048]"
EXECUTOR = "CoarseGrainedExecutorBackend"
T = sp.Types
SIZES = {"list": 5_000_000, "map": 1_000_000}
ELEMENTS = {
    "list": (sp.ListState(T.LONG()), "array(0L)"),
    "map": (sp.MapState(T.LONG(), T.LONG()), "map(0L, 0L)"),
}
COLUMNS = {
    "list": ("cast(id AS int) AS list_index", "id AS list_value"),
    "map": ("id AS map_key", "id AS map_value"),
}


def write(spark: SparkSession, target: Path, keys: int, form: str) -> None:
    """Write a savepoint in which key n holds 7 n + 3."""
    shutil.rmtree(target, ignore_errors=True)
    rows = spark.range(keys, numPartitions=CORES).selectExpr("id AS key", "7 * id + 3 AS value")
    writer = sp.SavepointWriter.new(spark).with_keyed_state("bench", rows, states={"value": T.LONG()}, parallelism=4)
    summary = writer.write(target, **FORMATS[form])
    if summary.entries != keys:
        raise AssertionError(f"{summary.entries} of {keys} rows were written")


def read(spark: SparkSession, path: Path, keys: int) -> None:
    """Sum the values of that savepoint."""
    values = sp.SavepointReader.read(spark, path).read_keyed_state("bench", "value")
    found = values.agg(f.count("*"), f.sum("value")).first()
    if tuple(found) != (keys, 7 * keys * (keys - 1) // 2 + 3 * keys):
        raise AssertionError(f"{keys} keys were written, read were {found}")


def write_large_key(spark: SparkSession, target: Path, what: str) -> None:
    """Write a state in which one key has all elements, and another has one."""
    small = Path(f"{target}-small")
    for path in (small, target):
        shutil.rmtree(path, ignore_errors=True)
    state, value = ELEMENTS[what]
    one = spark.sql(f"SELECT 2L AS key, {value} AS value")
    sp.SavepointWriter.new(spark).with_keyed_state("bench", one, states={"value": state}, parallelism=1).write(small)
    rows = spark.range(SIZES[what], numPartitions=CORES).selectExpr("1L AS key", *COLUMNS[what])
    sp.SavepointWriter.from_existing(spark, small).update_keyed_state("bench", "value", rows).write(target)


def read_large_key(spark: SparkSession, path: Path, what: str) -> None:
    """Sum the elements of the key."""
    count = SIZES[what]
    values = sp.SavepointReader.read(spark, path).read_keyed_state("bench", "value").where("key = 1")
    found = values.agg(f.count("*"), f.sum(f"{what}_value")).first()
    if tuple(found) != (count, count * (count - 1) // 2):
        raise AssertionError(f"{count} elements were written, read were {found}")


def measure(action: Callable[[], None]) -> dict[str, float]:
    """Return CPU time and wall time of an action, and the peaks of this process and of the largest worker."""
    before, start = usage(), time.perf_counter()
    action()
    after = usage()
    return {
        "cpu": after.cpu_seconds - before.cpu_seconds,
        "wall": time.perf_counter() - start,
        "worker": after.peak_worker_bytes / 1e6,
        "driver": peak_bytes(os.getpid()) / 1e6,
    }


def run(name: str, form: str, size: str, master: str) -> dict[str, float]:
    """Measure one action in this process."""
    spark = session(CORES, master)
    target = CACHE / f"{form}-{size}"
    if size.isdigit():
        keys, small = int(size) * 1_000_000, CACHE / f"{form}-small-{name}"
        for _ in range(2):
            write(spark, small, 200_000, form)
        if name == "write":
            return measure(lambda: write(spark, target, keys, form))
        for _ in range(2):
            read(spark, small, 200_000)
        if master != LOCAL:
            hold_on_cores(EXECUTOR)
        return measure(lambda: read(spark, target, keys))
    act = write_large_key if name == "write" else read_large_key
    return measure(lambda: act(spark, target, size))


def main() -> list[Figure]:
    """Measure each format and size, and print a table."""
    figures: list[Figure] = []
    peaks: dict[str, float] = {}
    print(f"{'savepoint':28} {'CPU s/M rows':>12} {'wall s':>8} {'worker MB':>10} {'driver MB':>10}")
    for form in FORMATS:
        for name in ("write", "read"):
            runs = {size: result_of(__file__, name, form, size, LOCAL) for size in MILLIONS}
            first = runs[MILLIONS[0]]
            peaks[name] = max(peaks.get(name, 0), *(found["worker"] for found in runs.values()))
            for size, found in runs.items():
                _print(f"{name} {form} {size} M keys", found, found["cpu"] / size)
                figures += _figures(f"{name} {form} {size} M keys", found, size, first)
    for what in SIZES:
        for name in ("write", "read"):
            found = result_of(__file__, name, "canonical", what, LOCAL)
            label = f"{name} {what} of {SIZES[what] / 1e6:g} M"
            _print(label, found, found["cpu"] / SIZES[what] * 1e6)
            figures.append(Figure(f"{label}, worker", found["worker"], "MB", (peaks[name], "many keys"), 1.15))
    figures.append(_speed_up(MILLIONS[-1]))
    for form in FORMATS:
        shutil.rmtree(CACHE / f"{form}-{MILLIONS[-1]}", ignore_errors=True)
    return figures


def _speed_up(size: int) -> Figure:
    """Compare reads by one worker and by two workers of a standalone cluster, which have one core each."""
    one, two = (result_of(__file__, "read", "canonical", size, WORKERS.format(workers))["wall"] for workers in (1, 2))
    print(f"{f'read of {size} M keys, cluster':28} {one:.2f} s by one worker, {two:.2f} s by two")
    return Figure(f"read of {size} M keys by two workers", one / two, "times as fast as by one", None, 1.8, at_least=True)


def _print(label: str, found: dict[str, float], per_million: float) -> None:
    print(f"{label:28} {per_million:12.3f} {found['wall']:8.1f} {found['worker']:10.0f} {found['driver']:10.0f}", flush=True)


def _figures(label: str, found: dict[str, float], size: int, first: dict[str, float]) -> list[Figure]:
    smallest = f"{MILLIONS[0]} M keys"
    per_million, reference = found["cpu"] / size, first["cpu"] / MILLIONS[0]
    return [
        Figure(f"{label}, per million", per_million, "CPU s", (reference, smallest), 1.15),
        Figure(f"{label}, worker", found["worker"], "MB", (first["worker"], smallest), 1.15),
        Figure(f"{label}, driver", found["driver"], "MB", None, 500),
    ]


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:])))
