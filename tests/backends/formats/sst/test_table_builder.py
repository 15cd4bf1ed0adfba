"""New tables: RocksDB reads each entry of them, by iteration and by look-ups, and compacts them."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
import rocksdict

import state_processor as sp
from state_processor.backends.formats.sst import block_kernels as k
from state_processor.backends.formats.sst.manifest import Family, Manifest, TableFile, write_manifest
from state_processor.backends.formats.sst.table_builder import COMPARATOR, Entries, TableBuilder, tag
from state_processor.errors import OptionError
from tests.interop.selection import EVERY_CASE

Pairs = Sequence[tuple[bytes, bytes]]


def entries_of(pairs: Pairs, tags: Sequence[int], rng: random.Random) -> Entries:
    """Return entries that are anywhere in memory, with their order."""
    places = list(range(len(pairs)))
    rng.shuffle(places)
    data, spans, order = bytearray(), [], [0] * len(pairs)
    for line, place in enumerate(places):
        key, value = pairs[place]
        spans.append((len(data), len(data) + len(key), len(data) + len(key), len(data) + len(key) + len(value)))
        data += key + value
        order[place] = line
    content = np.frombuffer(bytes(data), dtype=np.uint8)
    return Entries(content, np.array(spans, np.int64), np.array(order, np.int64), np.array(tags, np.int64))


def built(path: Path, pairs: Pairs, rng: random.Random, parts: int = 1) -> TableFile:
    bounds = sorted({0, len(pairs), *(rng.randrange(len(pairs) + 1) for _ in range(parts - 1))})
    with path.open("wb") as file:
        table = TableBuilder(file.write, int(path.stem), (1, "state"))
        for begin, end in pairwise(bounds):
            table.add(entries_of(pairs[begin:end], [tag(0, k.VALUE_TYPE)], rng))
        return table.close(6, 1)


def opened(directory: Path, *files: TableFile, last_sequence: int = 0, **options: Any) -> Any:
    """Open a store of some tables with RocksDB; return it and its column family."""
    families = {0: Family("default", COMPARATOR), 1: Family("state", COMPARATOR, files)}
    (directory / "MANIFEST-000900").write_bytes(write_manifest(Manifest(families, 901, last_sequence, 1)))
    (directory / "CURRENT").write_text("MANIFEST-000900\n")
    plain = rocksdict.Options(raw_mode=True)
    plain.set_paranoid_checks(True)
    store = rocksdict.Rdict(str(directory), plain, {"state": rocksdict.Options(raw_mode=True)}, **options)
    return store, store.get_column_family("state")


def random_pairs(rng: random.Random) -> Pairs:
    count = rng.choice([1, 2, 15, 16, 17, 300, 3000])
    longest, largest = rng.choice([(1, 0), (8, 8), (40, 100), (3000, 5000), (9, 60)])
    makers = (
        rng.randbytes,
        bytes,
        lambda n: (b"repeating, " * (n // 8 + 1))[:n],
        lambda n: rng.randbytes(n // 9 + 1) * 9,
    )
    pairs = {}
    for _ in range(count if largest < 5000 else min(count, 300)):
        beginning = rng.choice([b"", b"the same beginning ", b"\xff\xff", bytes(12)])
        key = bytes([1, rng.randrange(3)]) + beginning + rng.randbytes(rng.randrange(longest + 1))
        pairs[key] = rng.choice(makers)(rng.randrange(largest + 1))
    return sorted(pairs.items())


@pytest.mark.parametrize("seed", range(400 if EVERY_CASE else 40))
def test_rocksdb_reads_every_entry(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    pairs = random_pairs(rng)
    file = built(tmp_path / "000007.sst", pairs, rng, parts=rng.randrange(1, 5))
    assert (file.size, file.smallest[:-8], file.largest[:-8]) == (
        (tmp_path / "000007.sst").stat().st_size,
        pairs[0][0],
        pairs[-1][0],
    )
    store, family = opened(tmp_path, file)
    assert list(family.items()) == pairs
    for key, value in rng.sample(pairs, min(30, len(pairs))):
        assert family[key] == value
        assert family.get(key + b"\0") == dict(pairs).get(key + b"\0")
    if rng.random() < 0.3:
        family.compact_range(None, None)
        assert list(family.items()) == pairs
    store.close()


@pytest.mark.parametrize(("key", "value"), [(1, 0), (1 << 20, 10), (10, 64 << 20), (3, 65535), (3, 65536), (3, 65537)])
def test_sizes(key: int, value: int, tmp_path: Path) -> None:
    rng = random.Random(1)
    pairs = [(bytes([i]) * key, rng.randbytes(100) + bytes(max(0, value - 100)) if value else b"") for i in range(1, 4)]
    file = built(tmp_path / "000007.sst", pairs, rng)
    store, family = opened(tmp_path, file)
    assert list(family.items()) == pairs
    store.close()


def test_deletions_hide_older_entries(tmp_path: Path) -> None:
    rng = random.Random(2)
    old = [(b"\1" + bytes([i]), b"old") for i in range(100)]
    below = built(tmp_path / "000007.sst", old, rng)
    changes = [(b"\1" + bytes([i]), b"" if i % 2 else b"new") for i in range(40)]
    tags = [tag(5, k.DELETION) if i % 2 else tag(6, k.VALUE_TYPE) for i in range(40)]
    with (tmp_path / "000008.sst").open("wb") as stream:
        table = TableBuilder(stream.write, 8, (1, "state"))
        table.add(entries_of(changes, tags, rng))
        table.delete(b"\1\x1e", b"\1\x3c", 5)
        above = table.close(0, 2)
    assert above.sequences == (5, 6)
    assert above.largest[:-8] == b"\1\x3c"
    store, family = opened(tmp_path, below, above, last_sequence=6)
    expected = {key: value for key, value in old if not b"\1\x1e" <= key < b"\1\x3c"}
    for key, value in changes:
        if value:
            expected[key] = value
        else:
            expected.pop(key, None)
    assert dict(family.items()) == expected
    family.compact_range(None, None)
    assert dict(family.items()) == expected
    store.close()


def test_properties_count_what_is_there(tmp_path: Path) -> None:
    rng = random.Random(3)
    pairs = [(b"\1%05d" % i, rng.randbytes(50)) for i in range(1000)]
    file = built(tmp_path / "000007.sst", pairs, rng)
    store, family = opened(tmp_path, file)
    assert family.property_value("rocksdb.estimate-num-keys") == "1000"
    properties = family.property_value("rocksdb.aggregated-table-properties")
    assert "# entries=1000" in properties
    assert f"raw key size={1000 * (6 + 8)}" in properties
    assert f"raw value size={1000 * 50}" in properties
    store.close()


def test_equal_input_gives_equal_files_and_other_input_another_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RocksDB names cached blocks after the session: two tables with one name and other blocks would be mixed up."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    pairs = [(b"\1" + bytes([i]), b"value") for i in range(40)]
    contents, sessions = [], []
    for name, values in (("a/000007.sst", pairs), ("b/000007.sst", pairs), ("c/000007.sst", pairs[1:]), ("d/000008.sst", pairs)):
        path = tmp_path / name
        path.parent.mkdir()
        built(path, values, random.Random(0))
        contents.append(path.read_bytes())
        sessions += re.findall(rb"creating\.session\.identity.*?([0-9A-Z]{20})", contents[-1], re.DOTALL)
    assert contents[0] == contents[1]
    assert len({*sessions}) == 3
    assert len(sessions) == 4


def test_time_of_creation_has_to_be_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(OptionError, match="SOURCE_DATE_EPOCH='yesterday': expected seconds since 1970-01-01 UTC"):
        built(tmp_path / "000007.sst", [(b"\1a", b"b")], random.Random(0))


@pytest.mark.parametrize("backend", ["rocksdb", "forst"])
def test_files_of_equal_writes_are_equal(
    backend: Literal["rocksdb", "forst"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    written = []
    rows = pa.table({"key": range(20_000), "value": [f"{key:x}" for key in range(20_000)]})
    for name in ("a", "b"):
        writer = sp.arrow.SavepointWriter.new(flink_version="2.0").with_keyed_state("numbers", rows, parallelism=2)
        writer.write(tmp_path / name, format="native", backend=backend)
        written.append(sorted(p.read_bytes() for p in (tmp_path / name).rglob("*") if p.is_file() and p.name != "_metadata"))
    assert written[0] == written[1]
    assert len(written[0]) == 2
