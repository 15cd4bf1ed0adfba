"""Large savepoints for the benchmarks, written once by real Flink and kept in .cache/bench.

``python -m tests.interop.bench_savepoints long_long canonical`` prints the directory of one.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from tests.interop import flink

VERSION = "1.20.5"
KEYS = {"long_long": 5_000_000, "string_pojo": 1_000_000}
"""The kinds, with the number of keys each has. Both hold one VALUE state ``value`` of operator ``bench``."""
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
    target = flink.CACHE / "bench" / f"{kind}-{backend}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=target.parent) as output:
            flink.run(VERSION, "BenchSavepoint", [output, kind, str(keys), backend], heap="6g", timeout=1800, short=False)
            (written,) = Path(output).glob("savepoint-*")
            shutil.move(written, target)
    return target


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(KEYS))
    parser.add_argument("variant", choices=sorted(VARIANTS), nargs="?", default="canonical")
    arguments = parser.parse_args()
    print(bench_savepoint(arguments.kind, arguments.variant))
