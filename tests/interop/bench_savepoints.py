"""Large savepoints for the benchmarks, written once by real Flink and kept in .cache/bench.

``python -m tests.interop.bench_savepoints long_long canonical`` prints the directory of one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.interop import flink, flink_jars

VERSION = "1.20.5"
KEYS = {"long_long": 5_000_000, "string_pojo": 1_000_000}
"""The kinds, with the number of keys each has. Both hold one VALUE state ``value`` of operator ``bench``."""
SETTINGS = dict.fromkeys(("state.backend.incremental", "execution.checkpointing.incremental"), "true")
CLAIM = dict.fromkeys(("execution.savepoint-restore-mode", "execution.state-recovery.claim-mode"), "CLAIM")
VARIANTS = {"canonical": "hashmap-canonical", "native": "rocksdb-native"}


def bench_savepoint(kind: str, variant: str = "canonical") -> Path:
    """Return the directory of a large savepoint (the one with ``_metadata``), written first if it is not there.

    Args:
        kind: ``long_long`` (key n holds 7 n + 3) or ``string_pojo`` (key ``user-`` and seven digits of n holds a POJO of six
            fields: id, name, city, score, level, active).
        variant: ``canonical`` (written by the hashmap backend) or ``native`` (RocksDB's files).

    Raises
    ------
        KeyError: the kind or variant does not exist. flink.FlinkError: Flink could not write it.
    """
    keys, backend = KEYS[kind], VARIANTS[variant]
    target = flink_jars.CACHE / "bench" / f"{kind}-{backend}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=target.parent) as output:
            flink.run(VERSION, "BenchSavepoint", [output, kind, str(keys), backend], heap="6g", timeout=1800, short=False)
            (written,) = Path(output).glob("savepoint-*")
            shutil.move(written, target)
    return target


def bench_checkpoints(keys: int, changed: Mapping[str, Sequence[int]]) -> dict[str, Path]:
    """Return incremental checkpoints of RocksDB that Flink wrote, written first if they are not there.

    Args:
        keys: the number of keys of the checkpoint ``before`` (key n holds 7 n + 3).
        changed: by the name of a later checkpoint, the keys that hold another value there. Each is the next one after ``before``.
    """
    target = flink_jars.CACHE / "bench" / f"checkpoints-{keys}"
    paths = {name: target / name for name in ("before", *changed)}
    if not all(path.is_dir() for path in paths.values()):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=target.parent) as output:
            arguments = [output, "long_long", str(keys), VARIANTS["native"]]
            flink.run(VERSION, "BenchSavepoint", arguments, heap="6g", timeout=3600, short=False)
            (written,) = Path(output).glob("savepoint-*")
            paths["before"].symlink_to(_checkpoint(written, target, []))
        for name, some in changed.items():
            paths[name].symlink_to(_checkpoint(paths["before"].resolve(), target, some))
    return {name: path.resolve() for name, path in paths.items()}


def _checkpoint(start: Path, target: Path, changed: Sequence[int]) -> Path:
    """Restore a snapshot, change the values of keys, and take a checkpoint that shares its files; the snapshot stays."""
    steps = [{"operator": "bench", "state": "value", "key": key, "value": -key - 1} for key in changed]
    state = {"name": "value", "kind": "VALUE", "value_type": "LONG"}
    settings = SETTINGS | (CLAIM if start.name.startswith("chk-") else {})
    with tempfile.TemporaryDirectory(prefix=".", dir=target.parent) as saved:
        shutil.copytree(start.parent, saved, copy_function=os.link, dirs_exist_ok=True)
        request = flink.request(
            [{"uid": "bench", "key_type": "LONG", "states": [state]}],
            start,
            backend="rocksdb",
            steps=steps,
            savepoint_to=target,
            format="incremental",
            settings=settings,
            printed=False,
        )
        (answer,) = flink.restore(VERSION, [request], timeout=3600)
        if "error" in answer:
            raise flink.FlinkError(answer["error"])
        for file in Path(saved).rglob("*"):  # Flink removes a checkpoint that a job claims after the next one
            kept = start.parent / file.relative_to(saved)
            if file.is_file() and not kept.exists():
                kept.parent.mkdir(parents=True, exist_ok=True)
                os.link(file, kept)
    return Path(answer["savepoint"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(KEYS))
    parser.add_argument("variant", choices=sorted(VARIANTS), nargs="?", default="canonical")
    arguments = parser.parse_args()
    print(bench_savepoint(arguments.kind, arguments.variant))
