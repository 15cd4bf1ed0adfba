"""New stores: RocksDB reads every entry of random stores, and of stores with entries of extreme sizes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from state_processor.backends.formats.sst.block_writing_kernels import BLOCK_BYTES
from state_processor.backends.write import store_writer
from state_processor.backends.write.sorted_entries import order_of_keys
from state_processor.backends.write.store_writer import NewStore
from tests.backends.write.random_stores import assert_same, compare, framed
from tests.interop.selection import EVERY_CASE


@pytest.mark.parametrize("seed", range(400 if EVERY_CASE else 25))
def test_rocksdb_reads_random_stores(seed: int, tmp_path: Path) -> None:
    assert compare(seed, tmp_path)["stores"] > 0


def _assert_stored(directory: Path, *groups: dict[bytes, bytes]) -> None:
    """Write entries, a call for each part, and compare them with RocksDB's."""
    store = NewStore(directory, ["state"], 1, "sizes, ")
    for entries in groups:
        data = framed(entries.items())
        store.add(0, data, order_of_keys(data, 0))
    store.close()
    assert_same(directory, {"state": {key: value for entries in groups for key, value in entries.items()}}, "sizes")


@pytest.mark.parametrize("compresses", [True, False])
def test_entries_of_every_size_around_a_block(compresses: bool, tmp_path: Path) -> None:
    """Blocks end before an entry that does not fit, or behind one that is larger; lengths of 128 and 16,384 take a byte more."""
    rng = random.Random(1)
    sizes = [*range(110, 135), *range(BLOCK_BYTES - 480, BLOCK_BYTES + 40), *range(16_370, 16_390), *range(65_500, 65_540)]
    values = {b"\1%06d" % i: b"x" * size if compresses else rng.randbytes(size) for i, size in enumerate(sizes)}
    keys = {b"\2" + (b"k" * size if compresses else rng.randbytes(size)): b"" for size in sizes}
    _assert_stored(tmp_path, values, keys)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((1, 0), (1 << 20, 0)),
        ((1 << 20, 10), (1, 0)),
        ((1 << 20, 1 << 20), (3, 3)),
        ((3, 3), (8, 64 << 20)),
        ((1 << 20, 0), (1 << 20, 0)),
    ],
)
def test_small_and_large_entries_follow_each_other(first: tuple[int, int], then: tuple[int, int], tmp_path: Path) -> None:
    """The arrays of a table grow between two calls, with an unfinished block and a last key in them."""
    parts = [{bytes([group]) * key: bytes(value)} for group, (key, value) in enumerate((first, then, first), start=1)]
    _assert_stored(tmp_path, *parts)


def test_a_key_that_the_last_key_before_continues(tmp_path: Path) -> None:
    """It belongs before that key, in a file of its own."""
    _assert_stored(tmp_path, {b"\1\xff\xff\0\x91": b"first"}, {b"\1\xff\xff": b"second"})


def test_only_a_key_group_as_key(tmp_path: Path) -> None:
    _assert_stored(tmp_path, *({bytes([group]): b""} for group in range(128)))


def test_long_keys_that_agree_until_their_last_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block has its last key in the index: neither it nor the first one of the next block can be shortened."""
    monkeypatch.setattr(store_writer, "_FILE_BYTES", 1 << 16)
    _assert_stored(tmp_path, {b"\1" + b"k" * 5000 + i.to_bytes(2, "big"): b"value" * 900 for i in range(300)})
