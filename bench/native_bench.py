"""Native RocksDB savepoints compared with canonical ones, in one session: writes from rows, patches of some keys, and restores.

Targets: at most 3 times the CPU time of a canonical write. A patch takes at most 5 % of a canonical patch, not counting the cost
without other keys, and writes at most 1 % of the bytes in addition to copied files. Flink restores them in at most a fifth of the
time of canonical savepoints, and in at most 1.3 times the time of its own native savepoint of the same state. A read of 4 GB
takes at most 400 MB in a process without Spark, and in a Python worker of Spark; ``--quick`` leaves it out.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import write_bench
from apart import result_of
from effort import effort, is_quick
from figures import Figure
from processes import peak_bytes, usage
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from read_bench import session
from write_bench import CORES, TARGET, TYPES, Medians, rows

import state_processor as sp
from tests.interop import flink
from tests.interop.bench_savepoints import VERSION, bench_savepoint

BASES = TARGET.parent / "native"
CHANGED = 1000
PARALLELISM = 2
"""Parallelism of Flink's own savepoint, and of the restoring job."""
ROUNDS = effort(4, 2)
"""Number of restores; the first does not count, because the JVM loads classes."""
TARGETS = {"written": 3.0, "patched": 0.05}
RESTORED = {"canonical": 0.2, "Flink's own": 1.3}
"""Targets for the time of restores relative to other savepoints."""
LARGE = BASES / "large"
LARGE_KEYS, LARGE_VALUE, LARGE_ROWS = 4_000_000, 1024, 16_384
"""Keys of the large store, bytes of each value, and rows of a batch."""
FORMATS: Final[dict[str, Any]] = {"canonical": {}, "native": {"format": "native", "backend": "rocksdb"}}


def measured(write: Callable[[], object]) -> Medians:
    """Return the medians of three runs, or of one run, after a warm-up."""
    return write_bench.measure(warm_ups=1, repeats=effort(3, 1), write=write)["write"]


def base(kind: str, name: str) -> Path:
    """Return the directory of one of our savepoints."""
    return BASES / f"{kind}-{name}"


def bench(kind: str) -> dict[str, object]:
    """Measure one kind of rows."""
    spark = session(CORES)
    frame = rows(spark, kind)
    key, value = TYPES[kind]
    changed = frame.limit(CHANGED).cache()
    changed.count()

    def new(frame: DataFrame) -> sp.SavepointWriter:
        writer = sp.SavepointWriter.new(spark)
        return writer.with_keyed_state("bench", frame, key_type=key, states={"value": value}, parallelism=PARALLELISM)

    def patched(path: Path, options: dict[str, Any]) -> Medians:
        def write() -> None:
            sp.SavepointWriter.from_existing(spark, path).update_keyed_state("bench", "value", changed).write(TARGET, **options)

        return measured(write)

    result: dict[str, object] = {}
    for name, options in FORMATS.items():
        path, alone = base(kind, name), base(kind, f"{name}-alone")
        for directory in (path, alone):
            shutil.rmtree(directory, ignore_errors=True)
        everything = new(frame)
        written = measured(lambda: everything.write(TARGET, **options))  # noqa: B023 - called at once
        everything.write(path, **options)
        new(changed).write(alone, **options)
        least = patched(alone, options)
        more = patched(path, options)
        known = {sha256(file.read_bytes()).digest() for file in path.iterdir()}
        size = sum(file.stat().st_size for file in TARGET.iterdir() if sha256(file.read_bytes()).digest() not in known)
        medians = {"written": written, "patched": more, "least": least}
        result[name] = {what: asdict(found) for what, found in medians.items()} | {"new": size / 1e6}
    shutil.rmtree(TARGET, ignore_errors=True)
    return result | {"peak": usage().peak_worker_bytes}


def restored(kind: str) -> dict[str, float]:
    """Return the median seconds of Flink from the submission of a job until all of its tasks run."""
    paths = {name: base(kind, name) for name in FORMATS} | {"Flink's own": bench_savepoint(kind, "native")}
    arguments = [str(ROUNDS), kind, *map(str, paths.values())]
    printed = flink.run(VERSION, "BenchRestore", arguments, heap="2g", timeout=1800, short=False)
    rounds = [list(map(float, line.split())) for line in printed.splitlines()[-ROUNDS + 1 :]]
    return {name: statistics.median(times) for name, times in zip(paths, zip(*rounds, strict=True), strict=True)}


def write_large() -> None:
    """Write a native savepoint with random values, which compression does not make smaller."""
    shutil.rmtree(LARGE, ignore_errors=True)
    schema = pa.schema({"key": pa.int64(), "value": pa.binary()})

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, LARGE_KEYS, LARGE_ROWS):
            keys = range(first, min(first + LARGE_ROWS, LARGE_KEYS))
            bounds = pa.array(range(0, (len(keys) + 1) * LARGE_VALUE, LARGE_VALUE), pa.int32())
            content = pa.py_buffer(os.urandom(len(keys) * LARGE_VALUE))
            values = pa.Array.from_buffers(pa.binary(), len(keys), [None, bounds.buffers()[1], content])
            yield pa.RecordBatch.from_arrays([pa.array(keys, pa.int64()), values], schema=schema)

    rows = pa.RecordBatchReader.from_batches(schema, batches())
    writer = sp.arrow.SavepointWriter.new()
    writer = writer.with_keyed_state("bench", rows, key_type=sp.Types.LONG(), states={"value": sp.Types.BYTES()}, parallelism=1)
    writer.write(LARGE, **FORMATS["native"])


def read_large(how: str) -> dict[str, float]:
    """Read the large store in this process or in a worker of Spark; return the peak memory, and the CPU time."""
    before = usage().cpu_seconds
    if how == "worker":
        values = sp.SavepointReader.read(session(1), LARGE).read_keyed_state("bench", "value")
        rows, size = values.agg(f.count("*"), f.sum(f.length("value"))).collect()[0]
        peak = usage().peak_worker_bytes
    else:
        rows = size = 0
        for batch in sp.arrow.read_state(LARGE, "bench", "value"):
            rows += batch.num_rows
            size += pc.sum(pc.binary_length(batch.column("value"))).as_py()
        peak = peak_bytes(os.getpid())
    if (rows, size) != (LARGE_KEYS, LARGE_KEYS * LARGE_VALUE):
        raise AssertionError(f"{rows} rows with {size} bytes were read")
    return {"peak": peak / 1e6, "cpu": usage().cpu_seconds - before}


def large() -> list[Figure]:
    """Measure the memory of reads of the large store."""
    write_large()
    figures = []
    for how in ("process", "worker"):
        found = result_of(__file__, "large", how)
        label = f"read of {LARGE_KEYS * LARGE_VALUE / 1e9:.1f} GB of RocksDB, {how}"
        print(f"{label:56} {found['cpu']:7.2f} {found['peak']:8.0f} MB", flush=True)
        figures.append(Figure(f"native {label}", found["peak"], "MB", None, 400))
    return figures


def main() -> list[Figure]:
    """Measure both kinds, each in a separate process, and print a table."""
    figures = []
    print(f"{'native and canonical':40} {'MB':>7} {'MB':>7} {'CPU s':>7} {'CPU s':>7} {'ratio':>6} {'peak MB':>8}")
    for kind in TYPES:
        r = result_of(__file__, kind)
        for what, target in TARGETS.items():
            ours, other = (r[name][what] for name in ("native", "canonical"))
            print(
                f"{f'{kind} {what}':40} {ours['mb']:7.0f} {other['mb']:7.0f} {ours['cpu']:7.2f} {other['cpu']:7.2f}"
                f" {ours['cpu'] / other['cpu']:6.2f} {r['peak'] / 1e6:8.0f}",
                flush=True,
            )
            if what == "written":
                figures.append(Figure(f"native {kind} {what}", ours["cpu"], "CPU s", (other["cpu"], "canonical"), target))
        beyond, others = (r[name]["patched"]["cpu"] - r[name]["least"]["cpu"] for name in ("native", "canonical"))
        label = f"{kind} patched, beyond a patch of {CHANGED} keys"
        print(f"{label:56} {beyond:7.2f} {others:7.2f} {beyond / others:6.2f}", flush=True)
        what = f"native {label}"
        figures.append(Figure(what, beyond, "CPU s", (others, "canonical"), TARGETS["patched"]))
        new, all_bytes = r["native"]["new"], r["native"]["patched"]["mb"]
        print(f"{f'{kind} patched, not copied':40} {new:7.2f} {r['canonical']['new']:7.2f}", flush=True)
        figures.append(Figure(f"native {kind} patched, bytes that are not copied", new, "MB", (all_bytes, "all"), 0.01))
        times = restored(kind)
        for name, target in RESTORED.items():
            label = f"{kind} restored, and {name}"
            print(f"{label:56} {times['native']:7.2f} {times[name]:7.2f} {times['native'] / times[name]:6.3f}", flush=True)
            figures.append(Figure(f"native {kind} restored by Flink", times["native"], "s", (times[name], name), target))
    if not is_quick():
        figures += large()
    shutil.rmtree(BASES, ignore_errors=True)
    return figures


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    print(json.dumps(read_large(*rest) if kind == "large" else bench(kind)))
