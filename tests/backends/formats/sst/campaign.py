"""Random stores, read by this project and by RocksDB: ``python -m tests.backends.formats.sst.campaign --seeds 10000``."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import numpy as np

from state_processor.backends.formats.framing import ENTRY_FIELDS
from state_processor.backends.formats.sst import block_kernels as k
from state_processor.backends.formats.sst.block_format import RawBlocks
from state_processor.backends.formats.sst.family_scan import stored_entries
from state_processor.backends.formats.sst.key_set import KeySet
from state_processor.backends.formats.sst.table import Table
from tests.backends.formats.sst import stores
from tests.serializers.harness import interpreted_kernels

Make = Callable[[Path, random.Random], list[str]]
MAKERS: Final[tuple[Make, ...]] = (stores.make_by_rocksdb, stores.make_by_both, stores.make_by_hand, stores.make_with_zlib)


def compare(make: Make, seed: int, directory: Path, *, interpreted: bool = False) -> tuple[Counter[str], int]:
    """Make a store and compare what is read with what RocksDB reads; return what the store has, and its number of entries."""
    rng = random.Random(seed)
    families = make(directory, rng)
    seen, found = Counter({f"{min(len(families), 2)} column families": 1}), 0
    for family in families:
        where = f"seed {seed} of {make.__name__}, {family}"
        bounds = (b"", stores.LAST)
        if rng.random() < 0.4:
            one, other = sorted((stores.keys(rng)(), stores.keys(rng)()))
            bounds = one, other
        expected = stores.read_by_rocksdb(directory, family, *bounds)
        with interpreted_kernels() if interpreted else nullcontext():
            assert stores.read_by_kernels(directory, family, *bounds) == expected, where
            wanted = sorted({key for key, _ in rng.sample(expected, min(len(expected), 3))} | {stores.keys(rng)()})
            chosen = [(key, value) for key, value in expected if key in wanted]
            assert _read_keys(directory, family, wanted, *bounds) == chosen, f"{where}, keys"
        found += len(expected)
    tables = stores.tables_of(directory)
    for file in stores.manifest_of(directory).files:
        seen.update({f"level {min(file.level, 3)}", *_of_table(tables(file))})
    return seen, found


def _read_keys(directory: Path, family: str, keys: Sequence[bytes], lower: bytes, upper: bytes) -> stores.Pairs:
    """Read the entries of some keys."""
    data = np.frombuffer(b"".join(keys) + bytes(k.SLACK), dtype=np.uint8)
    ends = np.cumsum([len(key) for key in keys])
    entries = np.zeros((len(keys), ENTRY_FIELDS), dtype=np.int64)
    entries[:, k.KEY], entries[:, k.KEY_END] = ends - [len(key) for key in keys], ends
    return stores.read_by_kernels(directory, family, lower, upper, KeySet.of(data, entries, 0, 0))


def _of_table(table: Table) -> set[str]:
    """Return the features of a table that a reader has to know."""
    kinds = {int(data[end]) for data, rows in stored_entries(table, 0) for end in rows[:, k.KEY_END].tolist()}
    blocks = table.blocks().rows[:, [k.OFFSET, k.SIZE]]
    assert not table.format.checksum or table.verify() > len(blocks)
    compressions: set[int] = set()
    hashed = False
    for offset, size in blocks[:3].tolist():
        hashed |= table.plain_block((offset, size))[-1] >= 0x80
        stored = np.frombuffer(table.stream.read(offset, size + 5), dtype=np.uint8)
        zero, length = np.zeros(1, dtype=np.int64), np.array([size], dtype=np.int64)
        compressions.add(int(RawBlocks.of(stored, zero, zero, length, "").places[0, k.KIND]))
    return {
        f"version {table.version}",
        f"checksum {table.format.checksum}",
        f"index {int.from_bytes(table.properties[b'rocksdb.block.based.table.index.type'], 'little')}",
        f"handles {'delta' if table.is_delta else 'whole'}",
        f"separators {'keys' if table.keys_are_exact else 'internal keys'}",
        f"sequence number {'global' if table.sequence >= 0 else 'of each entry'}",
        *(["hash index of blocks"] if hashed else []),
        *(["range deletions"] if table.deletions else []),
        *(["partitioned filter"] if any(name.startswith(b"partitionedfilter.") for name in table._meta) else []),
        *(f"entries {kind}" for kind in kinds),
        *(f"compression {kind}" for kind in compressions),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: %(default)s)")
    options = parser.parse_args()
    seen: Counter[str] = Counter()
    entries = failed = 0
    work = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    for seed in range(options.first, options.first + options.seeds):
        for make in MAKERS:
            directory = work / f"{make.__name__}-{seed}"
            try:
                of_store, found = compare(make, seed, directory)
            except Exception:
                failed += 1
                print(f"seed {seed} of {make.__name__}\n{traceback.format_exc()}", flush=True)
                if directory.exists():
                    shutil.copytree(directory, Path(tempfile.gettempdir()) / "failed-stores" / directory.name, dirs_exist_ok=True)
                continue
            finally:
                for made in work.glob(f"{make.__name__}-{seed}*"):
                    shutil.rmtree(made)
            seen += of_store
            entries += found
        if (seed + 1) % 100 == 0:
            print(f"{seed + 1 - options.first} seeds, {entries} entries, {failed} failures", flush=True)
    shutil.rmtree(work)
    print("\n".join(f"{what:40} {count}" for what, count in sorted(seen.items())))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
