"""Random stores are read as RocksDB reads them, entry by entry."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.backends.formats.sst import stores
from tests.serializers.harness import interpreted_kernels

SEEDS = 100
INTERPRETED = 10
"""Seeds whose stores are read by interpreted kernels, too."""


@pytest.mark.parametrize("make", [stores.make_by_rocksdb, stores.make_by_hand])
def test_random_stores(make: Callable[[Path, random.Random], list[str]], tmp_path: Path) -> None:
    found = 0
    for seed in range(SEEDS):
        rng = random.Random(seed)
        directory = tmp_path / str(seed)
        for family in make(directory, rng):
            bounds = (b"", stores.LAST)
            if rng.random() < 0.4:
                one, other = sorted((stores.keys(rng)(), stores.keys(rng)()))
                bounds = one, other
            expected = stores.read_by_rocksdb(directory, family, *bounds)
            assert stores.read_by_kernels(directory, family, *bounds) == expected, f"seed {seed}, {family}"
            if seed < INTERPRETED:
                with interpreted_kernels():
                    assert stores.read_by_kernels(directory, family, *bounds) == expected, f"seed {seed}, {family}"
            found += len(expected)
    assert found > 1000
