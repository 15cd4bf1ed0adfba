"""The difference of two incremental checkpoints of RocksDB with 10,000,000 keys, 1,000 of them changed; also in full.

Flink writes the checkpoints. The changed keys are either neighbours in one key group, or scattered over all. Targets: at most 0.1
of the CPU time of a full comparison; bytes that were read against the files that only one checkpoint has. The old value of a
changed key is in a file that both checkpoints have: a comparison has to read the index of this file, and one block for each
changed key unless the keys are neighbours.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

import numpy as np
from apart import result_of
from effort import effort
from figures import Figure
from processes import usage

KEYS, CHANGED, REPEATS = effort(10_000_000, 1_000_000), 1000, effort(3, 1)
KEY_GROUPS = 128


def changed_keys() -> dict[str, list[int]]:
    """Return the keys that change: neighbours in a store, and keys of all places."""
    from state_processor.backends.state.key_groups import key_group

    first = np.arange(KEYS // 2, KEYS // 2 + 4 * CHANGED * KEY_GROUPS // 2)
    hashes = (first ^ first >> 32).astype(np.int32)
    neighbours = first[key_group(hashes, KEY_GROUPS) == 7][:CHANGED].tolist()
    scattered = random.Random(1).sample(range(KEYS), CHANGED)
    return {"neighbours": neighbours, "scattered": scattered}


def compare(old: str, new: str) -> dict[str, float]:
    """Compare two checkpoints in this new process."""
    import state_processor as sp

    found = {}
    for name, full in (("incremental", False), ("full", True)):
        runs = []
        for _ in range(REPEATS + 1):
            before, start = usage().cpu_seconds, time.perf_counter()
            changes = sum(batch.num_rows for batch in sp.arrow.diff(old, new, "bench", "value", full=full))
            runs.append((usage().cpu_seconds - before, time.perf_counter() - start))
            if changes != CHANGED:
                raise AssertionError(f"{changes} changes, expected {CHANGED}")
        found[name], found[f"{name} wall"] = (min(times) for times in zip(*runs[1:], strict=True))
    (summary,) = (row for row in sp.arrow.diff_summary(old, new, "bench").to_pylist() if row["state_name"] == "value")
    found["read"], found["stored"] = summary["bytes_read"], summary["bytes_stored"]
    return found


def differing_bytes(old: Path, new: Path) -> int:
    """Return the bytes of the files that one of two checkpoints uses, and the other does not; without ``_metadata``."""
    import state_processor as sp

    both = {str(old), str(new)}
    used = (
        (use.size, both.intersection(use.snapshots)) for use in sp.files(old.parent.parent) if Path(use.path).name != "_metadata"
    )
    return sum(size for size, users in used if len(users) == 1)


def main() -> list[Figure]:
    """Print a row for each kind of change."""
    from tests.interop.bench_savepoints import bench_checkpoints

    changed = changed_keys()
    paths = bench_checkpoints(KEYS, changed)
    titles = ("incremental", "full", "ratio", "read", "differ", "ratio", "stored")
    print(f"{f'{KEYS:,} keys':20}" + "".join(f"{title:>13}" for title in titles))
    figures = []
    for name in changed:
        old, new = paths["before"], paths[name]
        found = result_of(__file__, old, new)
        differ = differing_bytes(old, new)
        cells = (
            *(f"{found[n]:.2f} CPU s" for n in ("incremental", "full")),
            f"{found['incremental'] / found['full']:.3f}",
            *(f"{size / 1e6:.2f} MB" for size in (found["read"], differ)),
            f"{found['read'] / differ:.2f}",
            f"{found['stored'] / 1e6:.1f} MB",
        )
        print(f"{f'{CHANGED:,} {name}':20}" + "".join(f"{cell:>13}" for cell in cells), flush=True)
        what = f"difference of {KEYS:,} keys, {CHANGED:,} {name} changed"
        figures += [
            Figure(what, found["incremental"], "CPU s", (found["full"], "a full comparison"), 0.1),
            Figure(what, found["read"] / 1e6, "MB read", (differ / 1e6, "files of one checkpoint alone")),
            Figure(what, found["read"] / 1e6, "MB read", (found["stored"] / 1e6, "files of both")),
        ]
    return figures


if __name__ == "__main__":
    print(json.dumps(compare(*sys.argv[1:])))
