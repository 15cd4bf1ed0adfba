"""Reads through Spark compared with reads of the same rows from Parquet, in one session, and reads in one process.

Targets for canonical savepoints: at most 1.5 times Parquet's CPU time after warm-up and 1.15 times ``least``. ``least`` is the
CPU time of a Python data source with the same prepared rows: it is Spark's own share, and a lower bound for all readers with this
API.

Targets for files of RocksDB: 0.85 CPU seconds for 5,000,000 numbers through Spark, and 0.75 for 1,000,000 POJOs. In a process
without Spark, a read takes at most 1.3 times the CPU time of the canonical savepoint after warm-up, and 1.6 times including the
start of the process.

Targets for both: at most 600 MB in a Python worker, and two cores at least 1.7 times as fast as one. One key is read in well
under a second, from only its key group.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import decode_bench
import pyarrow as pa
from apart import result_of
from arrow_source import ArrowFileDataSource
from effort import effort
from figures import Figure
from lookup_bench import times_of
from processes import usage
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import state_processor as sp
from tests.interop.bench_savepoints import VARIANTS, bench_savepoint

CACHE = Path(__file__).parent.parent / ".cache" / "bench"
WARM_UPS, REPEATS = effort(6, 4), effort(7, 3)
SUMS = {"long_long": ("value",), "string_pojo": ("value.id", "value.score", "value.level")}
ONE_KEY = {"long_long": 4_000_000, "string_pojo": "user-0400000"}
STORES_IN_SPARK = {"long_long": 0.85, "string_pojo": 0.75}
"""Most CPU seconds for files of RocksDB."""
IN_PROCESS = "in process"
WITHOUT_SPARK = (
    "import sys, state_processor as sp; print(sum(b.num_rows for b in sp.arrow.read_state(sys.argv[1], 'bench', 'value')))"
)


@dataclass
class Medians:
    """The medians of one way to read one savepoint."""

    rows: int
    cpu: float
    wall: float


def session(cores: int, master: str | None = None) -> SparkSession:
    """Return a session without log output whose workers run this interpreter; by default a local session."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(master or f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", str(cores))
        .getOrCreate()
    )
    sp.register(spark)
    return spark


def aggregate(frame: DataFrame, kind: str) -> tuple[int, ...]:
    """Count the rows and sum the numbers, so that every value is used."""
    return tuple(frame.agg(f.count("*"), *(f.sum(c) for c in SUMS[kind])).collect()[0])


def measure(kind: str, **reads: Callable[[], DataFrame]) -> dict[str, Medians]:
    """Read the same rows in several ways: return medians of interleaved rounds after two warm-up rounds."""
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in reads}
    results = {}
    for name in [*reads] * (WARM_UPS + REPEATS):
        before, start = usage(), time.perf_counter()
        results[name] = aggregate(reads[name](), kind)
        runs[name].append((usage().cpu_seconds - before.cpu_seconds, time.perf_counter() - start))
        if len(set(results.values())) > 1:
            raise AssertionError(f"reads of the same rows differ: {results}")
    rows = next(iter(results.values()))[0]
    return {
        name: Medians(rows, *(statistics.median(figures) for figures in zip(*found[WARM_UPS:], strict=True)))
        for name, found in runs.items()
    }


def parquet_copy(spark: SparkSession, kind: str, path: Path) -> Path:
    """Return the path of the same rows as Parquet; they are written once."""
    target = CACHE / f"{kind}.parquet"
    if not (target / "_SUCCESS").exists():
        shutil.rmtree(target, ignore_errors=True)
        sp.SavepointReader.read(spark, path).read_keyed_state("bench", "value").write.parquet(str(target))
    return target


def arrow_copy(kind: str, path: Path) -> Path:
    """Return the path of a file with the same rows as record batches; it is written once.

    Writing it also compiles the kernels, so that their memory is not measured.
    """
    target = CACHE / f"{kind}.arrow"
    if not target.exists():
        batches = sp.arrow.read_state(str(path), "bench", "value")
        first = next(batches)
        with pa.ipc.new_file(str(target) + ".new", first.schema) as file:
            for batch in itertools.chain([first], batches):
                file.write_batch(batch)
        Path(str(target) + ".new").rename(target)
    return target


def bench(kind: str, variant: str, cores: int) -> dict[str, Any]:
    """Measure one savepoint with a number of cores."""
    path = bench_savepoint(kind, variant)
    spark = session(cores)
    canonical = bench_savepoint(kind, "canonical")
    ready, copy = arrow_copy(kind, canonical), parquet_copy(spark, kind, canonical)
    spark.dataSource.register(ArrowFileDataSource)
    reads: dict[str, Callable[[], DataFrame]] = {
        "ours": lambda: sp.SavepointReader.read(spark, path).read_keyed_state("bench", "value"),
        "parquet": lambda: spark.read.parquet(str(copy)),
        "least": lambda: spark.read.format("arrow-file").load(str(ready)),
    }
    if cores == 1:  # only for its wall time
        reads = {"ours": reads["ours"]}
    figures: dict[str, Any] = {name: asdict(found) for name, found in measure(kind, **reads).items()}
    figures["peak"] = usage().peak_worker_bytes
    figures["mb"] = sum(p.stat().st_size for p in path.rglob("*") if p.is_file()) / 1e6
    key = ONE_KEY[kind]
    reader = sp.SavepointReader.read(spark, path)
    one = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        rows = reader.read_keyed_state("bench", "value", keys=[key]).collect()
        one.append(time.perf_counter() - start)
        if [row.key for row in rows] != [key]:
            raise AssertionError(f"one row with key {key!r} expected, found {rows}")
    figures["one_key"] = statistics.median(one)
    return figures


def in_process(kind: str) -> dict[str, float]:
    """Return the CPU seconds of reads of each variant in this process: medians of interleaved reads after warm-up."""
    runs: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    paths = {variant: str(bench_savepoint(kind, variant)) for variant in VARIANTS}
    for variant in [*VARIANTS] * (WARM_UPS + 3 * REPEATS):
        start = time.process_time()
        for _ in sp.arrow.read_state(paths[variant], "bench", "value"):
            pass
        runs[variant].append(time.process_time() - start)
    return {variant: statistics.median(found[WARM_UPS:]) for variant, found in runs.items()}


def whole_process(kind: str) -> dict[str, float]:
    """Return the CPU seconds of new processes that read each variant without Spark: medians of interleaved runs."""
    runs: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for variant in [*VARIANTS] * (1 + REPEATS):  # the first may have to compile kernels
        path = str(bench_savepoint(kind, variant))
        runs[variant].append(times_of([sys.executable, "-c", WITHOUT_SPARK, path])[1])
    return {variant: statistics.median(found[1:]) for variant, found in runs.items()}


def without_spark() -> list[Figure]:
    """Compare reads of files of RocksDB with reads of canonical savepoints, without Spark, and print a row for each."""
    figures = []
    print(f"{'without Spark, CPU s':24}" + "".join(f"{t:>12}" for t in ("canonical", "native", "ratio")))
    for kind in SUMS:
        for how, seconds, most in (
            (IN_PROCESS, result_of(__file__, kind, IN_PROCESS, 0), 1.3),
            ("new process", whole_process(kind), 1.6),
        ):
            canonical, native = seconds["canonical"], seconds["native"]
            print(f"{kind + ' ' + how:24}{canonical:12.3f}{native:12.3f}{native / canonical:12.2f}", flush=True)
            figures.append(Figure(f"sp.arrow, {kind} native, {how}", native, "CPU s", (canonical, "canonical"), most))
    return figures


def main() -> list[Figure]:
    """Measure each savepoint with one core and with two, each in a separate process, and print a table."""
    titles = ("rows/s", "MB/s", "CPU s", "Parquet", "ratio", "least", "peak MB", "2 cores", "one key")
    print(f"{'savepoint':24}" + "".join(f"{t:>12}" for t in titles))
    figures = []
    for kind in SUMS:
        for variant in VARIANTS:
            results = {cores: result_of(__file__, kind, variant, cores) for cores in effort((1, 2), (2,))}
            two = results[2]
            ours, parquet = two["ours"], two["parquet"]
            least = two["least"]["cpu"]
            cells = (
                f"{ours['rows'] / ours['wall']:,.0f}",
                f"{two['mb'] / ours['wall']:.0f}",
                f"{ours['cpu']:.2f}",
                f"{parquet['cpu']:.2f}",
                f"{ours['cpu'] / parquet['cpu']:.2f}",
                f"{least:.2f}",
                f"{two['peak'] / 1e6:.0f}",
                f"{results[1]['ours']['wall'] / ours['wall']:.2f}x" if 1 in results else "",
                f"{two['one_key']:.2f} s",
            )
            print(f"{kind + ' ' + variant:24}" + "".join(f"{c:>12}" for c in cells), flush=True)
            what = f"read {kind} {variant}"
            is_canonical = variant == "canonical"
            if not is_canonical:
                figures.append(Figure(what, ours["cpu"], "CPU s", None, STORES_IN_SPARK[kind]))
            figures += [
                Figure(what, ours["cpu"], "CPU s", (parquet["cpu"], "Parquet"), 1.5 if is_canonical else None),
                Figure(what, ours["cpu"], "CPU s", (least, "ready-made batches"), 1.15 if is_canonical else None),
                Figure(f"{what}, worker", two["peak"] / 1e6, "MB", None, 600),
                Figure(f"{what}, one key", two["one_key"], "s", None, 1),
            ]
    return figures + without_spark() + decode_bench.main()


if __name__ == "__main__":
    found = in_process(sys.argv[1]) if sys.argv[2] == IN_PROCESS else bench(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    print(json.dumps(found))
