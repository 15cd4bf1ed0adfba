"""Flink's State Processor API reading the savepoints of ``./dev bench read``, if ``FLINK_STATE_PROCESSOR_JAR`` names its jar.

The jar (``flink-state-processor-api``, with the version of the savepoints) is in Maven's central repository, not in the package
index. CPU seconds refer to a whole process: start of the JVM and of Flink's MiniCluster, and the read. They are compared with
``sp.arrow`` reading the same rows in a new process.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from figures import Figure

from tests.interop.bench_savepoints import VERSION, bench_savepoint

JAR: Final = "FLINK_STATE_PROCESSOR_JAR"
CASES: Final = {
    "long_long canonical": ("long_long", "canonical"),
    "long_long RocksDB": ("long_long", "native"),
    "string_pojo canonical": ("string_pojo", "canonical"),
}
_OURS: Final = """\
import sys
import state_processor as sp
print(sum(batch.num_rows for batch in sp.arrow.read_state(sys.argv[1], "bench", "value")))
"""


def main() -> list[Figure]:
    """Print a row for each savepoint, or a notice without the jar."""
    if JAR not in os.environ:
        print(f"Flink's State Processor API: not measured; {JAR} names its jar, flink-state-processor-api-{VERSION}.jar")
        return []
    figures = []
    print(f"{'read in a new process':28} {'CPU s':>7} {'Flink':>7} {'ratio':>6}")
    for name, (kind, variant) in CASES.items():
        path = str(bench_savepoint(kind, variant))
        flink, rows = _cpu_seconds(lambda p=path, k=kind, v=variant: _with_flink(p, k, v))  # type: ignore[misc]
        ours, same = _cpu_seconds(lambda p=path: _with_arrow(p))  # type: ignore[misc]
        if rows != same:
            raise AssertionError(f"{name}: Flink reads {rows} rows, sp.arrow {same}")
        print(f"{name:28} {ours:7.2f} {flink:7.2f} {ours / flink:6.2f}", flush=True)
        figures.append(Figure(f"read {name} with sp.arrow", ours, "CPU s", (flink, f"Flink {VERSION}")))
    return figures


def _with_flink(path: str, kind: str, variant: str) -> int:
    from tests.interop import flink  # of the tests

    jar = Path(os.environ[JAR])
    compiled = flink._compiled(VERSION, [flink.SOURCES / "state_api"], [flink.classes(VERSION), jar])
    backend = "rocksdb" if variant == "native" else "hashmap"
    printed = flink.run(VERSION, "ReadBench", [path, kind, backend], heap="3g", class_path=[compiled, jar], short=False)
    return int(printed.split()[-1])


def _with_arrow(path: str) -> int:
    return int(subprocess.run([sys.executable, "-c", _OURS, path], check=True, capture_output=True, text=True).stdout)


def _cpu_seconds(action: Callable[[], int]) -> tuple[float, int]:
    action()  # compiles missing kernels
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    rows = action()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, rows
