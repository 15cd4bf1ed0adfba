"""A process that reads stores with RocksDB for :mod:`~tests.fuzz.targets.deceptions`: damaged stores can end it.

It gets the directory of a store and the name of a column family in a line each, and answers with a pickle: the entries, or
the error.
"""

from __future__ import annotations

import pickle
import struct
import sys
from pathlib import Path
from typing import Any

from tests.backends.formats.sst import stores


def answer(directory: str, family: str) -> Any:
    try:
        return stores.read_by_rocksdb(Path(directory), family)
    except Exception as refusal:  # rocksdict raises Exception itself
        return f"{refusal}"


def main() -> None:
    out = sys.stdout.buffer
    while line := sys.stdin.readline():
        data = pickle.dumps(answer(line.rstrip("\n"), sys.stdin.readline().rstrip("\n")))
        out.write(struct.pack(">q", len(data)) + data)
        out.flush()


if __name__ == "__main__":
    main()
