"""Writes and reads of 1, 5 and 20 million keys: CPU time per million rows and memory are constant.

The slope is the CPU time per million keys from one size to the next. It is measured in one session that interleaves the sizes,
after Java has compiled its code: the speed of a machine drifts from minute to minute. (The fixed cost of a query, and of a task
until its first batch is full, is some tenths of a second: much for a million keys, little for ten.) Reporting of free pages is
off (see :mod:`free_pages`). Memory is measured in a separate session for each size. Targets: each slope is within 15 % of the
first; the peak of a worker is at most 15 % above the peak with the smallest savepoint; the driver's Python process has at most
500 MB. One key with a list of 5,000,000 elements and one key with a map of 1,000,000 entries are also written and read. Two
workers of a standalone cluster are compared with one. Each worker is pinned to one core; its JVM and its Python process would use
two. Workers read the savepoint several times before the measurement: each of two JVMs runs half of the rows, and needs more reads
to compile its code.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from apart import result_of
from effort import effort
from figures import Figure
from free_pages import held_free_pages
from processes import hold_on_cores, peak_bytes, usage
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from read_bench import session

import state_processor as sp

CACHE = Path(__file__).parent.parent / ".cache" / "bench" / "scale"
MILLIONS = effort((1, 5, 20), (1, 4, 10))
WARM_UPS, TURNS = effort(((6, 2, 1), 3), ((4, 1, 1), 2))
"""Number of warm-up runs of each size, and number of turns."""
IN_A_TURN = (6, 4, 1)
"""Number of measurements of each size in a turn."""
CLUSTER_WARM_UPS, CLUSTER_RUNS = 8, 5
FORMATS: dict[str, dict[str, Any]] = {"canonical": {}, "rocksdb": {"format": "native", "backend": "rocksdb"}}
MILLION = 1_000_000
CORES = 2
LOCAL = f"local[{CORES}]"
WORKERS = "local-cluster[{},1,2048]"
EXECUTOR = "CoarseGrainedExecutorBackend"
T = sp.Types
SLOPES = "slopes"
SIZES = {"list": 5_000_000, "map": 1_000_000}
ELEMENTS: dict[str, tuple[sp.ListState | sp.MapState, str]] = {
    "list": (sp.ListState(T.LONG()), "array(0L)"),
    "map": (sp.MapState(T.LONG(), T.LONG()), "map(0L, 0L)"),
}
COLUMNS = {
    "list": ("cast(id AS int) AS list_index", "id AS list_value"),
    "map": ("id AS map_key", "id AS map_value"),
}


def write(spark: SparkSession, target: Path, keys: int, form: str) -> None:
    """Write a savepoint with the value 7 n + 3 for key n."""
    shutil.rmtree(target, ignore_errors=True)
    rows = spark.range(keys, numPartitions=CORES).selectExpr("id AS key", "7 * id + 3 AS value")
    writer = sp.SavepointWriter.new(spark).with_keyed_state("bench", rows, states={"value": T.LONG()}, parallelism=4)
    summary = writer.write(target, **FORMATS[form])
    if summary.entries != keys:
        raise AssertionError(f"{summary.entries} of {keys} rows were written")


def read(spark: SparkSession, path: Path, keys: int) -> None:
    """Sum the values of that savepoint."""
    values = sp.SavepointReader.read(spark, path).read_keyed_state("bench", "value")
    found = values.agg(f.count("*"), f.sum("value")).collect()[0]
    if tuple(found) != (keys, 7 * keys * (keys - 1) // 2 + 3 * keys):
        raise AssertionError(f"{keys} keys were written, read were {found}")


def write_large_key(spark: SparkSession, target: Path, what: str) -> None:
    """Write a state with all elements in one key, and one element in another key."""
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
    found = values.agg(f.count("*"), f.sum(f"{what}_value")).collect()[0]
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


def run(name: str, form: str, size: str, master: str) -> dict[str, Any]:
    """Measure one action in this process."""
    spark = session(CORES, master)
    if size in SIZES:
        act = write_large_key if name == "write" else read_large_key
        return measure(lambda: act(spark, CACHE / f"{form}-{size}", size))

    def keys(millions: int) -> dict[str, float]:
        """Write a number of keys, or read the written keys."""
        count = millions * MILLION
        target = CACHE / f"{form}-{count}"
        return measure(lambda: write(spark, target, count, form) if name == "write" else read(spark, target, count))

    for _ in range(WARM_UPS[0]):
        keys(MILLIONS[0])
    if size == SLOPES:
        return slopes(keys)
    if master == LOCAL:
        return keys(int(size))
    hold_on_cores(EXECUTOR)
    runs = [keys(int(size)) for _ in range(CLUSTER_WARM_UPS + CLUSTER_RUNS)][CLUSTER_WARM_UPS:]
    return {part: statistics.median(found[part] for found in runs) for part in runs[0]}


def slopes(act: Callable[[int], dict[str, float]]) -> dict[str, Any]:
    """Measure all sizes in turns, and return the CPU time of each and the slopes between them."""
    for size, times in zip(MILLIONS[1:], WARM_UPS[1:], strict=True):
        for _ in range(times):
            act(size)
    turn = [size for size, times in zip(MILLIONS, IN_A_TURN, strict=True) for _ in range(times)]
    runs: dict[int, list[float]] = {size: [] for size in MILLIONS}
    for size in turn * TURNS:
        runs[size].append(act(size)["cpu"])
    cpu = [statistics.fmean(runs[size]) for size in MILLIONS]
    return {"cpu": cpu, "slopes": [(c - a) / (n - m) for (a, m), (c, n) in pairwise(zip(cpu, MILLIONS, strict=True))]}


def main() -> list[Figure]:
    """Measure each format and size, and print a table."""
    figures: list[Figure] = []
    peaks: dict[str, float] = {}
    print(f"{'savepoint':28} {'CPU s':>8} {'wall s':>8} {'worker MB':>10} {'driver MB':>10}")
    for form in FORMATS:
        for name in ("write", "read"):
            runs = {size: result_of(__file__, name, form, size, LOCAL) for size in MILLIONS}
            peaks[name] = max(peaks.get(name, 0), *(found["worker"] for found in runs.values()))
            for size, found in runs.items():
                _print(f"{name} {form} {size} M keys", found)
            figures += _memory(f"{name} {form}", runs)
            with held_free_pages():
                figures += _slopes(f"{name} {form}", result_of(__file__, name, form, SLOPES, LOCAL))
    for what in SIZES:
        for name in ("write", "read"):
            found = result_of(__file__, name, "canonical", what, LOCAL)
            label = f"{name} {what} of {SIZES[what] / 1e6:g} M"
            _print(label, found)
            figures.append(Figure(f"{label}, worker", found["worker"], "MB", (peaks[name], "many keys"), 1.15))
    figures.append(_speed_up(MILLIONS[-1]))
    for form in FORMATS:
        shutil.rmtree(CACHE / f"{form}-{MILLIONS[-1] * MILLION}", ignore_errors=True)
    return figures


def _speed_up(size: int) -> Figure:
    """Compare reads with one worker and with two workers of a standalone cluster, with one core each."""
    one, two = (result_of(__file__, "read", "canonical", size, WORKERS.format(workers))["wall"] for workers in (1, 2))
    print(f"{f'read of {size} M keys, cluster':28} {one:.2f} s by one worker, {two:.2f} s by two")
    return Figure(f"read of {size} M keys by two workers", one / two, "times as fast as by one", None, 1.8, at_least=True)


def _print(label: str, found: dict[str, float]) -> None:
    cells = f"{found['cpu']:8.2f} {found['wall']:8.1f} {found['worker']:10.0f} {found['driver']:10.0f}"
    print(f"{label:28} {cells}", flush=True)


def _target(against: tuple[float, str] | None) -> float | None:
    return None if against is None else 1.15


def _memory(label: str, runs: dict[int, dict[str, float]]) -> Iterator[Figure]:
    smallest = MILLIONS[0]
    for size, found in runs.items():
        against = None if size == smallest else (runs[smallest]["worker"], f"{smallest} M keys")
        yield Figure(f"{label} {size} M keys, worker", found["worker"], "MB", against, _target(against))
        yield Figure(f"{label} {size} M keys, driver", found["driver"], "MB", None, 500)


def _slopes(label: str, found: dict[str, Any]) -> Iterator[Figure]:
    for size, cpu in zip(MILLIONS, found["cpu"], strict=True):
        yield Figure(f"{label} {size} M keys", cpu, "CPU s")
    first = found["slopes"][0]
    for number, ((less, more), slope) in enumerate(zip(pairwise(MILLIONS), found["slopes"], strict=True)):
        against = (first, f"{MILLIONS[0]} to {MILLIONS[1]} M keys") if number else None
        what = f"{label}, per million from {less} to {more} M keys"
        print(f"{what}: {slope:.3f} CPU s", flush=True)
        yield Figure(what, slope, "CPU s", against, _target(against), both_ways=True)


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:])))
