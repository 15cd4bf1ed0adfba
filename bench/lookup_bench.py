"""Look-ups of one of 5,000,000 keys, reads of 100,000 keys, and look-ups in an object store, in processes without Spark.

The savepoint is canonical, and copied to the native formats of the heap and of RocksDB. Targets: 2 s for the first look-up of a
new process, 50 ms for later look-ups; 100,000 keys take at most 1.3 times the CPU time of a full read, and at most half of it if
they are in a tenth of the key groups.

The object store has a latency of 20 ms, and a savepoint with 200 tables of 64 MB, of which only the table of the key has content.
Targets: one key takes 0.5 s, 6 requests, 1 MB. The manifest of the store is an object, or inline as Flink writes up to 20 kB. The
client of the object store asks for the length of each object first, which is a request.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from apart import result_of
from effort import effort
from figures import Figure
from object_store import object_store

CACHE = Path(__file__).parent.parent / ".cache" / "bench"
KEYS, WANTED, REPEATS = 5_000_000, 100_000, effort(5, 3)
KEY_GROUPS = 128
LATENCY = 0.02
FORMATS = {"canonical": None, "heap": "hashmap", "RocksDB": "rocksdb"}


def savepoint(form: str) -> Path:
    """Return the directory of the savepoint in a format, written first if it is not there."""
    from tests.interop.bench_savepoints import bench_savepoint  # a module of the tests; new processes don't need it

    source, backend = bench_savepoint("long_long"), FORMATS[form]
    if backend is None:
        return source
    target = CACHE / f"long_long-lookup-{backend}"
    if not (target / "_metadata").exists():
        convert = ["convert", str(source), str(target), "--format", "native", "--backend", backend]
        subprocess.run([sys.executable, "-m", "state_processor.cli", *convert], check=True, stdout=subprocess.DEVNULL)
    return target


def look_up(path: str) -> dict[str, float]:
    """Look keys up in this new process, and return seconds."""
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
    near = least_cpu(lambda: read(sp, path, keys=keys_in_a_tenth()), WANTED)
    return {"first": first, "warm": statistics.median(warm), "full": full, "some": some, "near": near}


@cache
def keys_in_a_tenth() -> list[int]:
    """Return keys in the first tenth of the key groups."""
    from state_processor.backends.state.key_groups import key_group

    groups = key_group(np.arange(KEYS), KEY_GROUPS)  # the hash code of a small number is the number
    keys: list[int] = np.flatnonzero(groups < KEY_GROUPS // 10)[:WANTED].tolist()
    return keys


def read(sp: Any, path: str, **options: Any) -> int:
    """Return the number of read rows."""
    return sum(batch.num_rows for batch in sp.arrow.read_state(path, "bench", "value", **options))


def least_cpu(action: Callable[[], int], expected: int) -> float:
    """Return the minimum CPU seconds of several runs after a warm-up."""
    runs = []
    for _ in range(REPEATS + 1):
        before = time.process_time()
        if action() != expected:
            raise AssertionError(f"{expected} rows expected")
        runs.append(time.process_time() - before)
    return min(runs[1:])


def times_of(command: list[str]) -> tuple[float, float]:
    """Return the wall time and the CPU seconds of a process."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def look_up_remotely(url: str, path: str) -> float:
    """Look a key up in an object store, and return seconds. The same look-up in local files loads modules and kernels before."""
    import state_processor as sp
    from tests.interop.many_tables import STATE, UID, a_key, value_of

    key = a_key()
    for where in (path, url):
        start = time.perf_counter()
        found = sp.arrow.lookup(where, UID, key, STATE).states[STATE].to_pylist()
        seconds = time.perf_counter() - start
        if found != [{"key": key, "value": value_of(key)}]:
            raise AssertionError(f"key {key}: found {len(found)} rows")
    return seconds


def in_object_store() -> list[Figure]:
    """Print a row for each place of the manifest."""
    from tests.interop.many_tables import many_tables

    titles = ("look-up", "requests", "kB")
    print(f"{'200 tables, 20 ms':24}" + "".join(f"{title:>13}" for title in titles))
    figures = []
    for place in ("inline", "object"):
        with tempfile.TemporaryDirectory() as directory:
            target = many_tables(Path(directory), inline=place == "inline")
            runs = []
            for _ in range(REPEATS):
                with object_store(Path(directory), LATENCY) as store:
                    runs.append(result_of(__file__, target, store.url.replace("?", f"/{target.name}?")))
        seconds = statistics.median(runs)
        cells = (f"{seconds:.2f} s", f"{store.count}", f"{store.sent / 1e3:.0f}")
        print(f"{'manifest: ' + place:24}" + "".join(f"{cell:>13}" for cell in cells), flush=True)
        what = f"look-up in an object store, 200 tables, manifest: {place}"
        figures += [
            Figure(what, seconds, "s", None, 0.5),
            Figure(f"{what}, requests", store.count, "", None, 6),
            Figure(f"{what}, bytes", store.sent / 1e6, "MB", None, 1),
        ]
    return figures


def main() -> list[Figure]:
    """Print a row for each format."""
    titles = ("first", "get", "CPU", "warm", "full read", "100,000 keys", "ratio", "in a tenth", "ratio")
    print(f"{'5,000,000 keys':16}" + "".join(f"{title:>13}" for title in titles))
    figures = []
    for form in FORMATS:
        path = str(savepoint(form))
        get = [sys.executable, "-m", "state_processor.cli", "get", path, "--uid", "bench", str(KEYS // 3)]
        by_command = [times_of(get) for _ in range(1 + REPEATS)][1:]  # the first may have to compile kernels
        f = result_of(__file__, path)
        in_a_tenth = f"read of 100,000 keys in a tenth of the key groups, {form}"
        command_time, command_cpu = (statistics.median(times) for times in zip(*by_command, strict=True))
        cells = (
            *(f"{seconds:.2f} s" for seconds in (f["first"], command_time, command_cpu)),
            f"{1000 * f['warm']:.1f} ms",
            *(f"{seconds:.2f} s" for seconds in (f["full"], f["some"])),
            f"{f['some'] / f['full']:.2f}",
            f"{f['near']:.2f} s",
            f"{f['near'] / f['full']:.2f}",
        )
        print(f"{form:16}" + "".join(f"{cell:>13}" for cell in cells), flush=True)
        figures += [
            Figure(f"first look-up, {form}", f["first"], "s", None, 2),
            Figure(f"state-processor get, {form}", command_time, "s", None, 2),
            Figure(f"state-processor get, {form}", command_cpu, "CPU s"),
            Figure(f"look-up, {form}", 1000 * f["warm"], "ms", None, 50),
            Figure(f"read of 100,000 keys, {form}", f["some"], "CPU s", (f["full"], "a full read"), 1.3),
            Figure(in_a_tenth, f["near"], "CPU s", (f["full"], "a full read"), 0.5),
        ]
    return figures + in_object_store()


if __name__ == "__main__":
    path, *urls = sys.argv[1:]
    print(json.dumps(look_up_remotely(urls[0], path) if urls else look_up(path)))
