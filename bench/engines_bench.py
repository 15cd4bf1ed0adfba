"""The same writes without Spark, with Spark and, for new savepoints, by a job of Flink, each in a new process.

Targets: 10 keys are changed in 1.5 seconds, 5,000,000 entries Long→Long are written in 4 CPU seconds, and 1,000,000 entries
String→POJO in 3. Start of the process, of Spark's JVM and of Flink's MiniCluster are included. The job of Flink puts the same
entries into its state, and takes a savepoint. Flink's State Processor API runs such a job, too.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from apart import result_of
from effort import effort
from figures import Figure
from processes import peak_bytes, usage

import state_processor as sp

ROOT: Final = Path(__file__).parent.parent
SAVEPOINT: Final = str(ROOT / "tests" / "fixtures" / "2.3.0" / "orders-rocksdb-canonical" / "savepoint")
REPEATS: Final = effort(5, 1)
PATCH: Final = "patch of 10 keys"
COUNTS: Final = {"long_long": 5_000_000, "string_pojo": 1_000_000}
TARGETS: Final = {"long_long": 4, "string_pojo": 3}
LONG, STRING = sp.Types.LONG(), sp.Types.STRING()
_BATCH: Final = 1 << 18
_CHANGES: Final = [{"key": f"key-{i}", "value": i} for i in range(10)]


def batches(kind: str, count: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ``write_bench`` without Spark."""
    for begin in range(0, count, _BATCH):
        numbers = pa.array(range(begin, min(count, begin + _BATCH)), pa.int64())
        if kind == "long_long":
            yield pa.record_batch({"key": numbers, "value": pc.add(pc.multiply(numbers, 7), 3)})
            continue
        text, no_separator = numbers.cast(pa.string()), ""
        rest = pc.subtract(numbers, pc.multiply(pc.divide(numbers, 997), 997)).cast(pa.string())
        hundreds = pc.subtract(numbers, pc.multiply(pc.divide(numbers, 100), 100)).cast(pa.int32())
        fields = {
            "id": numbers,
            "name": pc.binary_join_element_wise("Customer ", text, no_separator),
            "city": pc.binary_join_element_wise("City ", rest, no_separator),
            "score": pc.divide(numbers.cast(pa.float64()), 8.0),
            "level": hundreds,
            "active": pc.equal(pc.bit_wise_and(numbers, 1), 0),
        }
        keys = pc.binary_join_element_wise("user-", pc.utf8_lpad(text, 7, "0"), no_separator)
        yield pa.record_batch({"key": keys, "value": pa.StructArray.from_arrays(list(fields.values()), list(fields))})


def write(kind: str, engine: str) -> dict[str, float]:
    """Write in this process; return the CPU seconds of all processes, and the peak memory of this one."""
    with tempfile.TemporaryDirectory() as directory:
        writer, given = _writer(kind, engine)
        if kind == PATCH:
            writer.update_keyed_state("orders", "total", given).write(directory)
        else:
            key, value = _types(kind)
            writer.with_keyed_state("bench", given, key_type=key, states={"value": value}, parallelism=4).write(directory)
        return {"cpu": usage().cpu_seconds, "peak": peak_bytes(os.getpid())}


def _writer(kind: str, engine: str) -> tuple[Any, Any]:
    if engine == "arrow":
        if kind == PATCH:
            return sp.arrow.SavepointWriter.from_existing(SAVEPOINT), _CHANGES
        given = batches(kind, COUNTS[kind])
        first = next(given)
        stream = pa.RecordBatchReader.from_batches(first.schema, (batch for some in ([first], given) for batch in some))
        return sp.arrow.SavepointWriter.new(), stream
    from read_bench import session
    from write_bench import CORES, rows

    spark = session(CORES)
    if kind == PATCH:
        return sp.SavepointWriter.from_existing(spark, SAVEPOINT), pa.Table.from_pylist(_CHANGES)
    return sp.SavepointWriter.new(spark), rows(spark, kind)


def _types(kind: str) -> tuple[Any, Any]:
    if kind == "long_long":
        return LONG, LONG
    fields = {"id": LONG, "name": STRING, "city": STRING, "score": sp.Types.DOUBLE(), "level": sp.Types.INT()}
    fields["active"] = sp.Types.BOOLEAN()
    return STRING, sp.Types.POJO("io.stateprocessor.interop.Customer", fields)


def _with_flink(kind: str) -> dict[str, float]:
    from tests.interop import bench_savepoints, flink

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as directory:
        arguments = [directory, kind, str(COUNTS[kind]), "hashmap-canonical"]
        flink.run(bench_savepoints.VERSION, "BenchSavepoint", arguments, heap="6g", timeout=1800, short=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def _medians(kind: str, ways: dict[str, Callable[[], dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Run the ways in turn, after one round that is not counted."""
    found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for number in range(REPEATS + 1):
        for way, run in ways.items():
            start = time.perf_counter()
            result = run()
            if number:
                found[way].append(result | {"wall": time.perf_counter() - start})
    medians = {way: {n: statistics.median(run[n] for run in runs) for n in runs[0]} for way, runs in found.items()}
    told = "; ".join(f"{way} {m['cpu']:.2f} CPU s, {m['wall']:.1f} s" for way, m in medians.items())
    print(f"{kind:16} {told}", flush=True)
    return medians


def main() -> list[Figure]:
    """Print and return the figures of each kind of write."""
    figures = []
    for kind in (PATCH, *COUNTS):
        ways: dict[str, Callable[[], dict[str, float]]] = {
            engine: (lambda k=kind, e=engine: result_of(__file__, k, e))  # type: ignore[misc]
            for engine in ("arrow", "spark")
        }
        if kind in COUNTS:
            ways["flink"] = lambda k=kind: _with_flink(k)  # type: ignore[misc]
        found = _medians(kind, ways)
        ours = found["arrow"]
        if kind == PATCH:
            figures.append(Figure(kind, ours["wall"], "s", None, 1.5))
            figures.append(Figure(kind, ours["wall"], "s", (found["spark"]["wall"], "Spark")))
            continue
        figures.append(Figure(f"write {kind}", ours["cpu"], "CPU s", None, TARGETS[kind]))
        figures += [Figure(f"write {kind}", ours["cpu"], "CPU s", (found[way]["cpu"], way.title())) for way in ("spark", "flink")]
        figures.append(Figure(f"write {kind}, peak", ours["peak"] / 1e6, "MB", None, 700))
    return figures


if __name__ == "__main__":
    print(json.dumps(write(*sys.argv[1:])))
