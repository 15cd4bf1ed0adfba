"""``./dev bench scale --keys 10 50 100``: millions of keys without Spark. CPU time for each key and memory are constant.

For each size and format, a savepoint is written, read, patched, compared with the patched one, converted to the other format, and
some of its keys are looked up. Each action has a process of its own. Directories are removed as soon as no action needs them: the
disk has to hold two savepoints of the largest size. Targets: the CPU time from one size to the next grows by at most 10 % more
than the number of keys, and the peak of memory by at most 15 %.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from apart import result_of
from figures import Figure
from processes import peak_bytes

import state_processor as sp

CACHE = Path(__file__).parent.parent / ".cache" / "bench" / "many-keys"
FORMATS: Final[dict[str, dict[str, Any]]] = {"canonical": {}, "native": {"format": "native", "backend": "rocksdb"}}
MILLION: Final = 1_000_000
CHANGED, LOOKED_UP = 1000, 100
SLOPE, MEMORY = 1.1, 1.15
SCHEMA = pa.schema([("key", pa.int64()), ("value", pa.int64())])


def rows(count: int, first: int = 0, added: int = 3) -> pa.RecordBatchReader:
    """Return rows with the value 7 n + 3 for key n."""

    def batches() -> Iterator[pa.RecordBatch]:
        for begin in range(first, first + count, MILLION):
            keys = np.arange(begin, min(begin + MILLION, first + count), dtype=np.int64)
            yield pa.record_batch([pa.array(keys), pa.array(7 * keys + added)], schema=SCHEMA)

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


def path_of(form: str, millions: int, what: str = "") -> Path:
    """Return the directory of a savepoint."""
    return CACHE / f"{form}-{millions}{what}"


def write(form: str, millions: int) -> int:
    """Write a savepoint; return the number of its entries."""
    writer = sp.arrow.SavepointWriter.new()
    writer = writer.with_keyed_state("bench", rows(millions * MILLION), states={"value": sp.Types.LONG()}, parallelism=4)
    return int(writer.write(path_of(form, millions), **FORMATS[form]).entries)


def read(form: str, millions: int) -> int:
    """Return the number of rows of a savepoint, whose values are summed."""
    count = total = 0
    for batch in sp.arrow.read_state(path_of(form, millions), "bench", "value"):
        count += batch.num_rows
        total += int(np.from_dlpack(batch.column("value")).sum())
    keys = millions * MILLION
    if total != 7 * keys * (keys - 1) // 2 + 3 * keys:
        raise AssertionError(f"the sum of the values is {total}")
    return count


def patch(form: str, millions: int) -> int:
    """Write a savepoint with other values of some keys; return the number of keys."""
    writer = sp.arrow.SavepointWriter.from_existing(path_of(form, millions))
    changed = rows(CHANGED, first=MILLION // 2, added=4)
    writer.update_keyed_state("bench", "value", changed).write(path_of(form, millions, "-patched"), **FORMATS[form])
    return millions * MILLION


def compare(form: str, millions: int) -> int:
    """Return the number of keys, after a comparison with the patched savepoint."""
    paths = (path_of(form, millions), path_of(form, millions, "-patched"))
    changes = sum(batch.num_rows for batch in sp.arrow.diff(*paths, "bench", "value"))
    if changes != CHANGED:
        raise AssertionError(f"{changes} keys differ")
    shutil.rmtree(paths[1])
    return millions * MILLION


def convert(form: str, millions: int) -> int:
    """Write the savepoint in the other format; return the number of its entries."""
    (other,) = FORMATS.keys() - {form}
    target = path_of(form, millions, "-converted")
    sp.arrow.SavepointWriter.from_existing(path_of(form, millions)).write(target, **FORMATS[other])
    shutil.rmtree(target)
    return millions * MILLION


def look_up(form: str, millions: int) -> int:
    """Look up keys; return the number of all keys."""
    keys = [number * millions * MILLION // LOOKED_UP for number in range(LOOKED_UP)]
    batches = sp.arrow.read_state(path_of(form, millions), "bench", "value", keys=keys)
    if sum(batch.num_rows for batch in batches) != LOOKED_UP:
        raise AssertionError("keys are missing")
    return millions * MILLION


ACTIONS: Final[dict[str, Callable[[str, int], int]]] = {
    "write": write,
    "read": read,
    "patch": patch,
    "compare": compare,
    "convert": convert,
    "look up": look_up,
}


def run(action: str, form: str, millions: int) -> dict[str, float]:
    """Measure an action in this process."""
    start, wall = time.process_time(), time.perf_counter()
    if ACTIONS[action](form, millions) != millions * MILLION:
        raise AssertionError(f"{action}: {form} savepoint of {millions} million keys has another number of entries")
    return {
        "cpu": time.process_time() - start,
        "wall": time.perf_counter() - wall,
        "mb": peak_bytes(os.getpid()) / 1e6,
        "gb": stored_bytes(path_of(form, millions)) / 1e9,
    }


def stored_bytes(directory: Path) -> int:
    """Return the size of the files below a directory."""
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def main(sizes: Sequence[int] = (10, 100)) -> list[Figure]:
    """Measure all actions with stores of some million keys, and print a table."""
    figures: list[Figure] = []
    runs: dict[tuple[str, str], list[dict[str, float]]] = {}
    print(f"{'million keys':28} {'CPU s':>8} {'wall s':>8} {'µs each':>8} {'MB':>7} {'GB':>6}")
    try:
        for size in sorted(sizes):
            for form in FORMATS:
                for action in ACTIONS:
                    result = result_of(__file__, action, form, size)
                    runs.setdefault((action, form), []).append(result)
                    _print(f"{action} {form}, {size}", result, size)
                shutil.rmtree(CACHE)
    finally:
        shutil.rmtree(CACHE, ignore_errors=True)
    for (action, form), results in runs.items():
        for (less, before), (more, after) in pairwise(zip(sorted(sizes), results, strict=True)):
            label = f"{action} {form}, {more} million keys"
            figures.append(Figure(label, after["cpu"] / more, "µs each", (before["cpu"] / less, f"{less} million"), SLOPE))
            figures.append(Figure(f"{label}, peak", after["mb"], "MB", (before["mb"], f"{less} million"), MEMORY))
    return figures


def _print(label: str, result: dict[str, float], size: int) -> None:
    times = f"{result['cpu']:8.2f} {result['wall']:8.1f} {result['cpu'] / size:8.3f}"
    print(f"{label:28} {times} {result['mb']:7.0f} {result['gb']:6.1f}", flush=True)


if __name__ == "__main__":
    name, form, size = sys.argv[1:]
    print(json.dumps(run(name, form, int(size))))
