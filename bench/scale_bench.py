"""Writing and reading of 1, 10 and 50 million keys: CPU time per million rows and memory stay the same.

Each figure comes from a session of its own, which has first written or read a million keys six times, so that Java has compiled
what it runs. A query costs something however few rows it has, and that is measured in the same session with 1,000 keys: CPU time
per million rows is what a savepoint takes beyond it. Targets: CPU time per million rows within 15 % of that of the smallest
savepoint, neither more nor less, the peak of a worker at most 15 % above, 500 MB in the driver's Python process.
One key with a list of 5,000,000 elements and one with a map of 1,000,000 entries are written and read as well, and two workers of
a standalone cluster are compared with one. Each has one core of the machine: its JVM and its Python process would take two.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
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
WARM_UPS, REPEATS = effort((6, 7), (4, 3))
REPEATED_MILLIONS = 30
FEW_KEYS = 1_000
FORMATS: dict[str, dict[str, Any]] = {"canonical": {}, "rocksdb": {"format": "native", "backend": "rocksdb"}}
MILLION = 1_000_000
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
    if size.isdigit():
        return run_keys(spark, name, form, int(size), master)
    act = write_large_key if name == "write" else read_large_key
    return measure(lambda: act(spark, CACHE / f"{form}-{size}", size))


def run_keys(spark: SparkSession, name: str, form: str, millions: int, master: str) -> dict[str, float]:
    """Measure writing of many keys, or reading of what has been written, and the same of few, as medians where it is quick."""

    def act(keys: int) -> dict[str, float]:
        target = savepoint(form, keys)
        return measure(lambda: write(spark, target, keys, form) if name == "write" else read(spark, target, keys))

    def repeated(times: int, keys: int) -> dict[str, float]:
        runs = [act(keys) for _ in range(times)]
        return {part: statistics.median(found[part] for found in runs) for part in runs[0]}

    for _ in range(WARM_UPS):
        act(FEW_KEYS)
        act(MILLION)
    if master != LOCAL:
        hold_on_cores(EXECUTOR)
    share = repeated(REPEATS, FEW_KEYS)["cpu"]
    found = repeated(min(REPEATS, 1 + REPEATED_MILLIONS // millions), millions * MILLION)
    return found | {"beyond": (found["cpu"] - share) / millions}


def savepoint(form: str, keys: int) -> Path:
    """Return the path of a savepoint with so many keys."""
    return CACHE / f"{form}-{keys}"


def main() -> list[Figure]:
    """Measure each format and size, and print a table."""
    figures: list[Figure] = []
    peaks: dict[str, float] = {}
    print(f"{'savepoint':28} {'CPU s':>8} {'s/M rows':>9} {'wall s':>8} {'worker MB':>10} {'driver MB':>10}")
    for form in FORMATS:
        for name in ("write", "read"):
            runs = {size: result_of(__file__, name, form, size, LOCAL) for size in MILLIONS}
            first = runs[MILLIONS[0]]
            peaks[name] = max(peaks.get(name, 0), *(found["worker"] for found in runs.values()))
            for size, found in runs.items():
                _print(f"{name} {form} {size} M keys", found, found["beyond"])
                figures += _figures(f"{name} {form} {size} M keys", found, None if found is first else first)
    for what in SIZES:
        for name in ("write", "read"):
            found = result_of(__file__, name, "canonical", what, LOCAL)
            label = f"{name} {what} of {SIZES[what] / 1e6:g} M"
            _print(label, found, found["cpu"] / SIZES[what] * MILLION)
            figures.append(Figure(f"{label}, worker", found["worker"], "MB", (peaks[name], "many keys"), 1.15))
    figures.append(_speed_up(MILLIONS[-1]))
    for form in FORMATS:
        shutil.rmtree(savepoint(form, MILLIONS[-1] * MILLION), ignore_errors=True)
    return figures


def _speed_up(size: int) -> Figure:
    """Compare reads by one worker and by two workers of a standalone cluster, which have one core each."""
    one, two = (result_of(__file__, "read", "canonical", size, WORKERS.format(workers))["wall"] for workers in (1, 2))
    print(f"{f'read of {size} M keys, cluster':28} {one:.2f} s by one worker, {two:.2f} s by two")
    return Figure(f"read of {size} M keys by two workers", one / two, "times as fast as by one", None, 1.8, at_least=True)


def _print(label: str, found: dict[str, float], per_million: float) -> None:
    cells = f"{found['cpu']:8.2f} {per_million:9.3f} {found['wall']:8.1f} {found['worker']:10.0f} {found['driver']:10.0f}"
    print(f"{label:28} {cells}", flush=True)


def _figures(label: str, found: dict[str, float], first: dict[str, float] | None) -> list[Figure]:
    def against(part: str) -> tuple[float, str] | None:
        return None if first is None else (first[part], f"{MILLIONS[0]} M keys")

    target = None if first is None else 1.15
    beyond = f"{label}, per million beyond {FEW_KEYS:,} keys"
    return [
        Figure(label, found["cpu"], "CPU s"),
        Figure(beyond, found["beyond"], "CPU s", against("beyond"), target, both_ways=True),
        Figure(f"{label}, worker", found["worker"], "MB", against("worker"), target),
        Figure(f"{label}, driver", found["driver"], "MB", None, 500),
    ]


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:])))
