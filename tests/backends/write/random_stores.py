"""Random new stores and changed ones, read by RocksDB: ``python -m tests.backends.write.random_stores --stores 10000``."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from unittest import mock

import numpy as np
import rocksdict

from state_processor.backends.formats.sst.key_set import behind
from state_processor.backends.write import store_writer
from state_processor.backends.write.sorted_entries import order_of_keys
from state_processor.backends.write.store_writer import NewStore
from tests.backends.formats.sst.stores import manifest_of, read_by_kernels

Contents = dict[str, dict[bytes, bytes]]
"""The entries of each column family."""

_NAMES: Final = ("state", "with space", "Zustand-ü", "a/b", "_timer_state/event_window-timers", "x" * 300, "")
_BEGINNINGS: Final = (b"", b"the same beginning ", b"\xff\xff", bytes(12), b"\0\0\0\0\0\0\0\1")


def framed(entries: Iterable[tuple[bytes, bytes]]) -> np.ndarray[Any, Any]:
    """Return entries with a length before each key and value."""
    return np.frombuffer(b"".join(len(part).to_bytes(4, "big") + part for entry in entries for part in entry), dtype=np.uint8)


def compare(seed: int, directory: Path) -> Counter[str]:
    """Make a store, and possibly a second one with changes; compare them with RocksDB, and return what they have."""
    rng = random.Random(seed)
    prefix = rng.choice([1, 2])
    number = rng.choice([1, 1, 1, 2, 3, 5, 5, 30])
    names = [f"{i} {rng.choice(_NAMES)}" for i in range(number)]
    contents: Contents = {name: {} for name in names}
    counts: Counter[str] = Counter()
    with mock.patch.multiple(
        store_writer, _FILE_BYTES=rng.choice([1 << 10, 1 << 14, 64 << 20]), _CHANGES_BYTES=rng.choice([1, 1 << 27])
    ):
        first = directory / "first"
        first.mkdir(parents=True)
        store = NewStore(first, names, prefix, f"seed {seed}, ")
        _fill(rng, store, contents, prefix, counts)
        store.close()
        counts += assert_same(first, contents, f"seed {seed}")
        if rng.random() < 0.5:
            second = directory / "second"
            second.mkdir()
            _change(rng, first, second, contents, prefix, counts)
            counts += assert_same(second, contents, f"seed {seed}, changed", compacts=rng.random() < 0.3)
    return counts


def _fill(rng: random.Random, store: NewStore, contents: Contents, prefix: int, counts: Counter[str]) -> None:
    """Add entries of random key groups, possibly in parts that overlap."""
    size = rng.choice([0, 1, 16, 17, 100, 400, 3000]) // (4 if len(contents) > 5 else 1)
    empty = {name for name in contents if rng.random() < 0.2}
    for group in sorted(rng.sample(range(128), rng.choice([1, 2, 8]))):
        for family, name in enumerate(contents):
            entries = {} if name in empty else _entries(rng, group.to_bytes(prefix, "big"), rng.randrange(size + 1))
            contents[name] |= entries
            parts = 1 if rng.random() < 0.8 else rng.randrange(2, 5)
            counts["stores that are merged"] += parts > 1 and len(entries) > 1
            shuffled = rng.sample(sorted(entries.items()), len(entries))
            bounds = sorted({0, len(shuffled), *(rng.randrange(len(shuffled) + 1) for _ in range(parts - 1))})
            for begin, end in pairwise(bounds):
                data = framed(shuffled[begin:end])
                store.add(family, data, order_of_keys(data, 0))


def _entries(rng: random.Random, group: bytes, count: int) -> dict[bytes, bytes]:
    longest, largest = rng.choice([(1, 0), (8, 8), (40, 100), (3000, 5000), (9, 60), (12, 4096), (3, 1 << 20)])
    count = min(count, {5000: 60, 4096: 60, 1 << 20: 3}.get(largest, count))
    values = (rng.randbytes, bytes, lambda n: (b"repeating, " * (n // 8 + 1))[:n], lambda n: rng.randbytes(n // 9 + 1) * 9)
    beginning = rng.choice(_BEGINNINGS)
    keys = [group + beginning + rng.randbytes(rng.randrange(longest + 1)) for _ in range(count)]
    return {key: rng.choice(values)(rng.randrange(largest + 1)) for key in keys}


def _change(rng: random.Random, base: Path, target: Path, contents: Contents, prefix: int, counts: Counter[str]) -> None:
    """Write changes of some column families above the files of a store, new families too; other families may go."""
    manifest = manifest_of(base)
    names = [name for name in contents if rng.random() < 0.9]
    manifest = manifest.only(frozenset(names))
    changed = [name for name in names if rng.random() < 0.7] + [f"new {i}" for i in range(rng.randrange(3))]
    for name in contents.keys() - {*names}:
        del contents[name]
    store = NewStore(target, changed, prefix, "changed, ", manifest)
    for family, name in enumerate(changed):
        entries = contents.setdefault(name, {})
        for _ in range(rng.randrange(3)):
            counts += _delete(rng, store, family, entries, prefix)
        put = _entries(rng, rng.randrange(128).to_bytes(prefix, "big"), rng.randrange(40))
        put |= dict.fromkeys(rng.sample(sorted(entries), min(len(entries), rng.randrange(9))), b"changed")
        pairs = rng.sample(sorted(put.items()), len(put))
        for part in (pairs[::2], pairs[1::2]):
            if part:
                store.put(family, framed(part))
        entries |= put
    for path in base.glob("*.sst"):
        shutil.copy(path, target)
    store.close()


def _delete(rng: random.Random, store: NewStore, family: int, entries: dict[bytes, bytes], prefix: int) -> Counter[str]:
    """Delete some keys, and keys with some beginnings."""
    keys = rng.sample(sorted(entries), min(len(entries), rng.choice([0, 1, 30])))
    keys += [bytes(prefix) + rng.randbytes(3) for _ in range(rng.randrange(3))]
    whole = keys[::2]
    beginnings = {key[: rng.randrange(prefix + 1, len(key) + 2)] for key in keys[1::2]}
    if keys:
        store.delete(family, framed([*((key, b"\1") for key in whole), *((key, b"\0") for key in sorted(beginnings))]))
    for key in [key for key in entries if key in whole or any(b <= key < behind(b) for b in beginnings)]:
        del entries[key]
    return Counter({"deleted ranges": len(beginnings), "deleted keys": len(whole)})


def assert_same(
    directory: Path, contents: Mapping[str, Mapping[bytes, bytes]], where: str, *, compacts: bool = False
) -> Counter[str]:
    """Compare all entries with those that RocksDB and this project read, and return what the store has."""
    expected = {name: sorted(entries.items()) for name, entries in contents.items()}
    for name, entries in expected.items():
        assert read_by_kernels(directory, name) == entries, f"{where}, {name}, read by this project"
    options = rocksdict.Options(raw_mode=True)
    options.set_paranoid_checks(True)
    families = {name: rocksdict.Options(raw_mode=True) for name in contents}
    mode = rocksdict.AccessType.read_write() if compacts else rocksdict.AccessType.read_only(False)
    store = rocksdict.Rdict(str(directory), options, families, mode)
    try:
        for name, entries in expected.items():
            family = store.get_column_family(name)
            assert list(family.items()) == entries, f"{where}, {name}"
            for key, value in entries[:: max(1, len(entries) // 5)]:
                assert family[key] == value, f"{where}, {name}"
            if compacts:
                family.compact_range(None, None)
                assert list(family.items()) == entries, f"{where}, {name}, compacted"
    finally:
        store.close()
    sizes = {
        "entries": sum(map(len, expected.values())),
        "column families": len(expected),
        "files": sum(1 for _ in manifest_of(directory).files),
    }
    empty = sum(not entries for entries in expected.values())
    return Counter(sizes) + Counter({"stores": 1, "empty column families": empty, "stores that are compacted": int(compacts)})


def main() -> int:
    """Make stores with ascending seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: %(default)s)")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    seed = options.first
    while counts["stores"] + counts["failed"] < options.stores:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
            try:
                counts += compare(seed, Path(directory))
            except Exception:
                counts["failed"] += 1
                print(f"seed {seed}\n{traceback.format_exc()[-3000:]}", flush=True)
        seed += 1
        if seed % 200 == 0:
            print(f"seeds {options.first} to {seed - 1}: {dict(counts)}", flush=True)
    print(f"seeds {options.first} to {seed - 1}: {dict(counts)}")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
