"""Native savepoints of RocksDB against canonical ones, in one session: written from rows, and patches of some keys.

Targets: at most 3 times the CPU time of a canonical write; a patch at most 5 % of that of a canonical patch, and at most 1 % of
the bytes beside those that are copied.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from typing import Any, Final

import write_bench
from effort import effort
from figures import Figure
from processes import usage
from read_bench import session
from write_bench import CORES, TARGET, TYPES, Medians, rows

import state_processor as sp

BASES = TARGET.parent / "native"
CHANGED = 1000
TARGETS = {"written": 3.0, "patched": 0.05}
FORMATS: Final[dict[str, Any]] = {"canonical": {}, "native": {"format": "native", "backend": "rocksdb"}}


def measured(write: Callable[[], object]) -> Medians:
    """Return the medians of three runs, or of one, after one to warm up."""
    return write_bench.measure(warm_ups=1, repeats=effort(3, 1), write=write)["write"]


def bench(kind: str) -> dict[str, object]:
    """Measure one kind of rows."""
    spark = session(CORES)
    frame = rows(spark, kind)
    key, value = TYPES[kind]
    changed = frame.limit(CHANGED).cache()
    changed.count()
    result: dict[str, object] = {}
    for name, options in FORMATS.items():
        base = BASES / f"{kind}-{name}"
        shutil.rmtree(base, ignore_errors=True)
        new = sp.SavepointWriter.new(spark).with_keyed_state("bench", frame, key_type=key, states={"value": value}, parallelism=4)
        written = measured(lambda: new.write(TARGET, **options))  # noqa: B023 - called at once
        new.write(base, **options)
        known = {sha256(path.read_bytes()).digest() for path in base.iterdir()}
        patched = measured(
            lambda: sp.SavepointWriter.from_existing(spark, base)  # noqa: B023
            .update_keyed_state("bench", "value", changed)
            .write(TARGET, **options)  # noqa: B023
        )
        more = sum(path.stat().st_size for path in TARGET.iterdir() if sha256(path.read_bytes()).digest() not in known)
        result[name] = {"written": asdict(written), "patched": asdict(patched), "new": more / 1e6}
        shutil.rmtree(base)
    shutil.rmtree(TARGET, ignore_errors=True)
    return result | {"peak": usage().peak_worker_bytes}


def main() -> list[Figure]:
    """Measure both kinds, each in a separate process, and print a table."""
    figures = []
    print(f"{'native and canonical':32} {'MB':>7} {'MB':>7} {'CPU s':>7} {'CPU s':>7} {'ratio':>6} {'peak MB':>8}")
    for kind in TYPES:
        command = [sys.executable, __file__, kind]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        r = json.loads(done.stdout.splitlines()[-1])
        for what, target in TARGETS.items():
            ours, other = (r[name][what] for name in ("native", "canonical"))
            print(
                f"{f'{kind} {what}':32} {ours['mb']:7.0f} {other['mb']:7.0f} {ours['cpu']:7.2f} {other['cpu']:7.2f}"
                f" {ours['cpu'] / other['cpu']:6.2f} {r['peak'] / 1e6:8.0f}",
                flush=True,
            )
            figures.append(Figure(f"native {kind} {what}", ours["cpu"], "CPU s", (other["cpu"], "canonical"), target))
        new, all_bytes = r["native"]["new"], r["native"]["patched"]["mb"]
        print(f"{f'{kind} patched, not copied':32} {new:7.2f} {r['canonical']['new']:7.2f}", flush=True)
        figures.append(Figure(f"native {kind} patched, bytes that are not copied", new, "MB", (all_bytes, "all"), 0.01))
    return figures


if __name__ == "__main__":
    print(json.dumps(bench(sys.argv[1])))
