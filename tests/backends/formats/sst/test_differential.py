"""Random stores are read as RocksDB reads them, entry by entry."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.backends.formats.sst.campaign import MAKERS, Make, compare
from tests.interop.selection import EVERY_CASE

SEEDS = 50 if EVERY_CASE else 30
INTERPRETED = 3
"""Seeds whose stores are read by interpreted kernels."""

OF_ALL = {
    *(f"version {version}" for version in range(2, 7)),
    *(f"checksum {kind}" for kind in range(5)),
    *(f"compression {kind}" for kind in (0, 1, 4, 5, 7)),
    *(f"index {kind}" for kind in (0, 1, 2)),
    *(f"level {level}" for level in range(4)),
    *("handles delta", "handles whole", "separators keys", "separators internal keys", "hash index of blocks"),
    *("sequence number global", "sequence number of each entry", "range deletions", "entries 0", "entries 1"),
    *("1 column families", "2 column families"),
}
"""What the stores of each maker have, in addition to what only some makers write."""
OF_SOME = {
    "make_by_rocksdb": {"partitioned filter"},
    "make_by_both": {"partitioned filter", "entries 2", "entries 7"},
    "make_by_hand": {"entries 2", "entries 7", "index 3"},
    "make_with_zlib": {"entries 2", "entries 7", "index 3", "compression 2"},
}


@pytest.mark.parametrize("make", MAKERS)
def test_random_stores(make: Make, tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    entries = 0
    for seed in range(SEEDS):
        of_store, found = compare(make, seed, tmp_path / str(seed), interpreted=seed < INTERPRETED)
        seen += of_store
        entries += found
    expected = OF_ALL | OF_SOME[make.__name__]
    if "compression 2" in expected:
        expected -= {f"compression {kind}" for kind in (0, 1, 4, 5, 7)}
    assert seen.keys() >= expected, expected - seen.keys()
    assert entries > 1000
