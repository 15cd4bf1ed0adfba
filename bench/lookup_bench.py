"""Look-ups of one key among 5,000,000, and reads of 100,000 of them, in processes without Spark.

The savepoint is canonical, and copied to the native formats of the heap and of RocksDB. Targets: 2 s for the first look-up of a
new process, 50 ms for others; 100,000 keys take at most 1.3 times the CPU time of a full read. RocksDB's process is included.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures import Figure
from processes import usage

CACHE = Path(__file__).parent.parent / ".cache" / "bench"
KEYS, WANTED, REPEATS = 5_000_000, 100_000, 5
FORMATS = {"canonical": None, "heap": "hashmap", "RocksDB": "rocksdb"}


def savepoint(form: str) -> Path:
    """Return the directory of the savepoint in a format, written first if it is not there."""
    from bench_savepoints import bench_savepoint  # of the tests, which a new process does without

    source, backend = bench_savepoint("long_long"), FORMATS[form]
    if backend is None:
        return source
    target = CACHE / f"long_long-lookup-{backend}"
    if not (target / "_metadata").exists():
        convert = ["convert", str(source), str(target), "--format", "native", "--backend", backend]
        subprocess.run([sys.executable, "-m", "state_processor.cli", *convert], check=True, stdout=subprocess.DEVNULL)
    return target


def look_up(path: str) -> dict[str, float]:
    """Look keys up in this process, which is new, and return seconds."""
    begin = time.perf_counter()
    import state_processor as sp

    def one(key: int) -> float:
        start = time.perf_counter()
        found = sp.arrow.lookup(path, "bench", key).states["value"].to_pylist()
        if found != [{"key": key, "value": 7 * key + 3}]:
            raise AssertionError(f"key {key}: found {found}")
        return time.perf_counter() - start

    one(KEYS // 2)
    first = time.perf_counter() - begin
    warm = [one(random.randrange(KEYS)) for _ in range(50)]
    keys = random.sample(range(KEYS), WANTED)
    full = least_cpu(lambda: read(sp, path), KEYS)
    some = least_cpu(lambda: read(sp, path, keys=keys), WANTED)
    return {"first": first, "warm": statistics.median(warm), "full": full, "some": some}


def read(sp: Any, path: str, **options: Any) -> int:
    """Return the number of rows that are read."""
    return sum(batch.num_rows for batch in sp.arrow.read_state(path, "bench", "value", **options))


def least_cpu(action: Callable[[], int], expected: int) -> float:
    """Return the least CPU seconds of several runs, after one that warms up."""
    runs = []
    for _ in range(REPEATS + 1):
        before = usage().cpu_seconds
        if action() != expected:
            raise AssertionError(f"{expected} rows expected")
        runs.append(usage().cpu_seconds - before)
    return min(runs[1:])


def main() -> list[Figure]:
    """Print a row for each format."""
    print(f"{'5,000,000 keys':16}{'first':>10}{'warm':>10}{'full read':>12}{'100,000 keys':>14}{'ratio':>8}")
    figures = []
    for form in FORMATS:
        command = [sys.executable, __file__, str(savepoint(form))]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        f = json.loads(done.stdout.splitlines()[-1])
        times = f"{f['first']:8.2f} s{1000 * f['warm']:7.1f} ms{f['full']:10.2f} s{f['some']:12.2f} s"
        print(f"{form:16}{times}{f['some'] / f['full']:8.2f}", flush=True)
        figures += [
            Figure(f"first look-up, {form}", f["first"], "s", None, 2),
            Figure(f"look-up, {form}", 1000 * f["warm"], "ms", None, 50),
            Figure(f"read of 100,000 keys, {form}", f["some"], "CPU s", (f["full"], "a full read"), 1.3),
        ]
    return figures


if __name__ == "__main__":
    print(json.dumps(look_up(sys.argv[1])))
