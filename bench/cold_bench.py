"""The first actions of a new process: session, metadata, first read, first write, and the Python processes that Spark starts.

Each figure comes from a separate process. Parquet's first query, in another process, shows the cost of Spark itself. Kernels are
already compiled.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from apart import result_of
from effort import effort
from figures import Figure
from processes import command_lines, usage

ROOT = Path(__file__).parent.parent
SAVEPOINT = str(ROOT / "tests" / "fixtures" / "2.3.0" / "orders-rocksdb-canonical" / "savepoint")
REPEATS = effort(3, 1)
_READ = "import state_processor as sp, sys; print(sp.arrow.read_state(sys.argv[1], 'orders', 'total').read_all().num_rows)"
_FORMATS = {"canonical": "rocksdb-canonical", "HashMap": "hashmap-native", "RocksDB": "rocksdb-native"}
_SAMPLING_SECONDS = 0.01


class Steps:
    """Wall time and CPU time of named steps, and the Python processes that each step starts."""

    def __init__(self) -> None:
        self.figures: dict[str, dict[str, Any]] = {}
        self._seen: dict[int, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def run(self, name: str, action: Callable[[], Any]) -> Any:
        """Run an action and record its figures."""
        known, before, start = set(self._seen), usage().cpu_seconds, time.perf_counter()
        result = action()
        wall, cpu = time.perf_counter() - start, usage().cpu_seconds - before
        started = [_module(line) for pid, line in self._seen.items() if pid not in known]
        self.figures[name] = {"wall": wall, "cpu": cpu, "processes": sorted(filter(None, started))}
        return result

    def finish(self) -> dict[str, dict[str, Any]]:
        """Stop sampling and return the figures by step."""
        self._stop.set()
        self._thread.join()
        return self.figures

    def _sample(self) -> None:
        while not self._stop.wait(_SAMPLING_SECONDS):
            self._seen |= command_lines()


def _module(command: str) -> str | None:
    """Return the module that a Python process runs, ``None`` for other processes."""
    words = command.split("\0")
    return words[words.index("-m") + 1] if "-m" in words and "python" in words[0] else None


def _collect(reader: Any, table: str) -> Any:
    return getattr(reader, table)().collect()


def _write(writer: Any, rows: Any, target: str) -> Any:
    return writer.update_keyed_state("orders", "total", rows).write(target)


def flink_steps() -> dict[str, dict[str, Any]]:
    """Read metadata and a state, and write a savepoint, each twice."""
    steps = Steps()
    spark = steps.run("session", _session)
    sp = steps.run("import", lambda: __import__("state_processor"))
    reader = steps.run("SavepointReader.read", lambda: sp.SavepointReader.read(spark, SAVEPOINT))
    for table in ("operators", "states", "handles"):
        steps.run(f"{table}()", partial(_collect, reader, table))
    for which in ("first", "second"):
        steps.run(f"{which} read", lambda: reader.read_keyed_state("orders", "total").agg({"value": "sum"}).collect())
    rows = spark.range(1000).selectExpr("cast(id AS string) AS key", "id AS value")
    for which in ("first", "second", "third"):
        writer = sp.SavepointWriter.from_existing(spark, SAVEPOINT)
        target = tempfile.mkdtemp() + "/savepoint"
        steps.run(f"{which} write", partial(_write, writer, rows, target))
    target = tempfile.mkdtemp() + "/savepoint"
    steps.run("write of 64 states", lambda: _many_states(sp, spark, target))
    return steps.finish()


def _many_states(sp: Any, spark: Any, target: str) -> None:
    """Write 64 states of ten operators."""
    rows = spark.range(1000).selectExpr("cast(id AS string) AS key", "id AS value")
    writer = sp.SavepointWriter.new(spark)
    for number in range(64):
        names = {"value": f"state-{number}"}
        writer.with_keyed_state(f"operator-{number % 10}", rows, "key", states={"value": sp.Types.LONG()}, columns=names)
    writer.write(target)


def parquet_steps() -> dict[str, dict[str, Any]]:
    """Run the first queries on a Parquet file."""
    steps = Steps()
    spark = steps.run("session", _session)
    target = tempfile.mkdtemp() + "/parquet"
    rows = spark.range(1000).selectExpr("cast(id AS string) AS key", "id AS value")
    rows.write.parquet(target)
    for which in ("first", "second"):
        steps.run(f"{which} read", lambda: spark.read.parquet(target).agg({"value": "sum"}).collect())
    return steps.finish()


def _session() -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
    spark = builder.getOrCreate()
    spark.range(10).count()
    return spark


def small_work() -> list[Figure]:
    """Return the CPU seconds of whole processes that read or print 50 rows without Spark."""
    from lookup_bench import times_of

    fixtures = ROOT / "tests" / "fixtures" / "2.3.0"
    figures = []
    for format_, name in _FORMATS.items():
        path = str(fixtures / f"orders-{name}" / "savepoint")
        commands = {
            "a read of 50 rows": ["-c", _READ, path],
            "state-processor show, 50 rows": ["-m", "state_processor.cli", "show", path, "--uid", "orders", "--state", "total"],
        }
        for what, arguments in commands.items():
            found = [times_of([sys.executable, *arguments])[1] for _ in range(REPEATS + 2)]
            figures.append(Figure(f"{what}, {format_}", statistics.median(found[1:]), "CPU s", None, 0.5))
            print(f"{what}, {format_}: {statistics.median(found[1:]):.2f} CPU s")
    return figures


_RUNS = {"flink": flink_steps, "parquet": parquet_steps}


def main() -> list[Figure]:
    """Print the medians of several processes."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in _RUNS:
        runs = [result_of(__file__, name) for _ in range(REPEATS)]
        print(f"{name}: wall and CPU seconds, Python processes started")
        found[name] = {}
        for step in runs[0]:
            wall, cpu = (statistics.median(run[step][unit] for run in runs) for unit in ("wall", "cpu"))
            found[name][step] = {"wall": wall, "cpu": cpu}
            processes = runs[-1][step]["processes"]
            counts = ", ".join(f"{processes.count(p)} x {p}" for p in dict.fromkeys(processes))
            print(f"  {step:22} {wall:6.2f} {cpu:6.2f}  {counts}")
    return small_work() + _figures(found["flink"], found["parquet"])


def _figures(ours: dict[str, dict[str, float]], parquet: dict[str, dict[str, float]]) -> list[Figure]:
    """Return CPU seconds: wall time depends on other load of the machine."""
    cpu = {step: figures["cpu"] for step, figures in ours.items()}
    first_read = cpu["first read"] - parquet["first read"]["cpu"]
    first_write = cpu["first write"] - cpu["third write"]
    return [
        Figure("a session with one trivial query", cpu["session"], "CPU s"),
        Figure("SavepointReader.read", cpu["SavepointReader.read"], "CPU s", None, 0.5),
        *(Figure(table, cpu[table], "CPU s", None, 1) for table in ("operators()", "states()", "handles()")),
        Figure("the first read, beyond Parquet's first", first_read, "CPU s", None, 1.5),
        Figure("the first write, beyond the third", first_write, "CPU s", None, 3),
        Figure("a write of 64 states", cpu["write of 64 states"], "CPU s", (cpu["third write"], "one state"), 3),
    ]


if __name__ == "__main__":
    print(json.dumps(_RUNS[sys.argv[1]]()))
