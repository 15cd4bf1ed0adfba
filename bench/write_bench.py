"""Bootstrapping a savepoint through Spark, compared with writing the same rows to Parquet, in one session.

Targets: at most twice Parquet's CPU time after warm-up, and at most 700 MB in a Python worker.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from apart import result_of
from effort import effort
from figures import Figure
from processes import usage
from pyspark.sql import DataFrame, SparkSession
from read_bench import session

import state_processor as sp

TARGET = Path(__file__).parent.parent / ".cache" / "bench" / "written"
WARM_UPS, REPEATS = 2, effort(5, 3)
CORES = 2
TARGET_RATIO = 2
T = sp.Types
POJO = {"id": T.LONG(), "name": T.STRING(), "city": T.STRING(), "score": T.DOUBLE(), "level": T.INT(), "active": T.BOOLEAN()}
TYPES = {
    "long_long": (T.LONG(), T.LONG()),
    "string_pojo": (T.STRING(), T.POJO("io.stateprocessor.interop.Customer", POJO)),
}


def rows(spark: SparkSession, kind: str, count: int | None = None, changed: int = 0) -> DataFrame:
    """Return the rows to write: the rows of the savepoints of the reading benchmark.

    Parameters
    ----------
    spark, kind
        The session, and the kind of values.
    count
        Number of rows, if it differs from that benchmark.
    changed
        Every this number of keys, the value differs; 0 for no differences.
    """
    if kind == "long_long":
        value = f"7 * id + if({changed} > 0 and id % {max(1, changed)} = 0, 4, 3)"
        return spark.range(count or 5_000_000, numPartitions=CORES).selectExpr("id AS key", f"{value} AS value")
    score = f"id / 8.0D + if({changed} > 0 and id % {max(1, changed)} = 0, 1, 0)"
    fields = (
        f"'id', id, 'name', concat('Customer ', id), 'city', concat('City ', id % 997), 'score', {score}, "
        "'level', cast(id % 100 AS int), 'active', id % 2 = 0"
    )
    pojo = f"named_struct({fields}) AS value"
    return spark.range(count or 1_000_000, numPartitions=CORES).selectExpr("concat('user-', lpad(id, 7, '0')) AS key", pojo)


@dataclass
class Medians:
    """The medians of one way to write."""

    cpu: float
    wall: float
    mb: float


def measure(warm_ups: int = WARM_UPS, repeats: int = REPEATS, **writes: Callable[[], object]) -> dict[str, Medians]:
    """Write in several ways: return medians of interleaved rounds after some warm-up rounds."""
    runs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in writes}
    for name in [*writes] * (warm_ups + repeats):
        shutil.rmtree(TARGET, ignore_errors=True)
        before, start = usage(), time.perf_counter()
        writes[name]()
        wall, cpu = time.perf_counter() - start, usage().cpu_seconds - before.cpu_seconds
        runs[name].append((cpu, wall, sum(p.stat().st_size for p in TARGET.rglob("*") if p.is_file()) / 1e6))
    return {
        name: Medians(*(statistics.median(figures) for figures in zip(*found[warm_ups:], strict=True)))
        for name, found in runs.items()
    }


def bench(kind: str) -> dict[str, object]:
    """Measure one kind of rows."""
    spark = session(CORES)
    frame = rows(spark, kind)
    count = frame.count()
    key, value = TYPES[kind]

    def savepoint() -> None:
        writer = sp.SavepointWriter.new(spark)
        summary = writer.with_keyed_state("bench", frame, key_type=key, states={"value": value}, parallelism=4).write(TARGET)
        if summary.entries != count:
            raise AssertionError(f"{summary.entries} of {count} rows were written")

    found = measure(ours=savepoint, parquet=lambda: frame.write.parquet(str(TARGET)))
    shutil.rmtree(TARGET, ignore_errors=True)
    return {name: asdict(medians) for name, medians in found.items()} | {"rows": count, "peak": usage().peak_worker_bytes}


def main() -> list[Figure]:
    """Measure both kinds, each in a separate process, and print a table."""
    figures = []
    print(f"{'written':32} {'rows/s':>12} {'MB':>7} {'CPU s':>7} {'Parquet':>8} {'ratio':>6} {'peak MB':>8}")
    for kind in TYPES:
        r = result_of(__file__, kind)
        ours, parquet = r["ours"], r["parquet"]
        print(
            f"{kind:32} {r['rows'] / ours['wall']:12,.0f} {ours['mb']:7.0f} {ours['cpu']:7.2f} {parquet['cpu']:8.2f}"
            f" {ours['cpu'] / parquet['cpu']:6.2f} {r['peak'] / 1e6:8.0f}",
            flush=True,
        )
        figures.append(Figure(f"write {kind}", ours["cpu"], "CPU s", (parquet["cpu"], "Parquet"), TARGET_RATIO))
        figures.append(Figure(f"write {kind}, worker", r["peak"] / 1e6, "MB", None, 700))
    return figures


if __name__ == "__main__":
    print(json.dumps(bench(sys.argv[1])))
