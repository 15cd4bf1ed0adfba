"""Tables without the entries of some keys, as RocksDB and this project read them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rocksdict

from state_processor.backends.formats.sst import block_kernels as k
from state_processor.backends.formats.sst.erased_table import without
from state_processor.backends.formats.sst.family_scan import plain_content
from state_processor.backends.formats.sst.key_set import Beginnings, behind
from state_processor.backends.formats.sst.manifest import Manifest, TableFile, write_manifest
from state_processor.backends.formats.sst.plain_blocks import block_entries, read_varint
from state_processor.backends.formats.sst.table import Table
from state_processor.support.errors import UnsupportedFormatError
from tests.backends.formats.sst import stores
from tests.backends.formats.sst import table_writer as w

SEEDS = 60
ENTRIES = [w.Entry(b"key %03d" % i, i + 1, w.VALUE, b"value %03d" % i) for i in range(300)]


def erased_store(directory: Path, keys: Beginnings) -> tuple[int, int]:
    """Leave keys out of all tables of a store, and return how many tables change and how many there are."""
    manifest = stores.manifest_of(directory).with_numbers_for_all()
    open_table, files, changed = stores.tables_of(directory), {}, 0
    for number, family in manifest.families.items():
        found = [(file, without(open_table(file), keys)) for file in family.files]
        changed += sum(table is not None for _, table in found)
        left = [(file, table) for file, table in found if table is None or not table.is_empty]
        files[number] = [file if t is None else written(directory, t.write, manifest.spare_number(file)) for file, t in left]
    store(directory, manifest.with_files(files))
    return changed, len(list(manifest.files))


def written(directory: Path, write: Callable[..., TableFile], number: int) -> TableFile:
    with (directory / f"{number:06}.sst").open("wb") as out:
        file = write(out.write, number)
    assert file.size == (directory / file.name).stat().st_size
    return file


def store(directory: Path, manifest: Manifest) -> None:
    (directory / "MANIFEST-999999").write_bytes(write_manifest(manifest))
    (directory / "CURRENT").write_text("MANIFEST-999999\n")


def entries_of(table: Table) -> Iterator[tuple[bytes, bytes]]:
    for offset, size in table.blocks().rows[:, [k.OFFSET, k.SIZE]].tolist():
        yield from block_entries(table.plain_block((offset, size)), table.context)


def counts_of(table: Table) -> list[int]:
    names = (b"num.entries", b"deleted.keys", b"merge.operands", b"num.range-deletions", b"num.data.blocks", b"raw.value.size")
    return [read_varint(table.properties.get(b"rocksdb." + name, b"")) for name in names]


@pytest.mark.parametrize("make", [stores.make_by_rocksdb, stores.make_by_hand])
def test_rocksdb_reads_and_compacts_what_is_left(make: Callable[[Path, random.Random], list[str]], tmp_path: Path) -> None:
    kept = changed = 0
    for seed in range(SEEDS):
        rng = random.Random(seed)
        directory = tmp_path / str(seed)
        families = make(directory, rng)
        before = {family: stores.read_by_rocksdb(directory, family) for family in families}
        known = sorted({key for pairs in before.values() for key, _ in pairs if key.strip(b"\xff")})
        if not known:
            continue
        chosen = rng.sample(known, min(len(known), rng.choice((1, 1, 5, 50))))
        begins = [key[: rng.randrange(1, len(key) + 1)] if rng.random() < 0.2 else key for key in chosen]
        keys = Beginnings(key for key in begins if key.strip(b"\xff"))
        if not keys:
            continue
        some, tables = 0, 0
        with suppress(UnsupportedFormatError):  # a range deletion ends at an erased key
            some, tables = erased_store(directory, keys)
            assert some, seed
        if not some:
            continue
        changed, kept = changed + some, kept + tables - some
        for table in map(stores.tables_of(directory), stores.manifest_of(directory).files):
            assert without(table, keys) is None, seed
        after = {family: [p for p in pairs if keys.covering(p[0]) is None] for family, pairs in before.items()}
        for family, expected in after.items():
            assert stores.read_by_kernels(directory, family) == expected, (seed, family)
            assert stores.read_by_rocksdb(directory, family) == expected, (seed, family)
        if make is stores.make_by_rocksdb:
            compact(directory, families)
            assert {family: stores.read_by_rocksdb(directory, family) for family in families} == after, seed
    assert changed > 50
    assert kept > 20


def compact(directory: Path, families: Sequence[str]) -> None:
    """RocksDB counts the entries of tables when it compacts them, and compares the counts with the properties."""
    options = rocksdict.Options(raw_mode=True)
    opened = rocksdict.Rdict(str(directory), options, {name: rocksdict.Options(raw_mode=True) for name in families})
    for name in families:
        opened.get_column_family(name).compact_range(None, None)
    opened.close()


@pytest.mark.parametrize("version", range(2, 7))
@pytest.mark.parametrize("checksum", [0, 1, 2, 4])
def test_other_blocks_are_copied_and_counts_are_those_of_a_new_table(version: int, checksum: int, tmp_path: Path) -> None:
    layout = w.Layout(version=version, checksum=checksum, compression=w.SNAPPY, is_delta=version > 3, keys_are_exact=version > 2)
    gone = (b"key 000", b"key 117", b"key 118", b"key 299")
    entries = [*ENTRIES, w.Entry(b"key 050", 900, w.DELETION), w.Entry(b"key 117", 901, w.MERGE, b"x")]
    left = [entry for entry in entries if entry.key not in gone]
    old, expected = (open_written(tmp_path, given, layout, i + 10) for i, given in enumerate((entries, left)))
    erased = without(old, Beginnings(gone))
    assert erased is not None
    file = written(tmp_path, erased.write, 20)
    table = stores.tables_of(tmp_path)(file)
    assert list(entries_of(table)) == list(entries_of(expected))
    assert counts_of(table)[:4] + counts_of(table)[5:] == counts_of(expected)[:4] + counts_of(expected)[5:]
    assert (file.smallest, file.largest) == (expected.file.smallest, expected.file.largest)
    assert table.version == min(version, 5)
    assert len(erased.changed) <= 4
    content = b"".join(part.tobytes() for part in plain_content(table)) + (tmp_path / file.name).read_bytes()
    assert not any(key in content for key in gone)


def open_written(directory: Path, entries: Sequence[w.Entry], layout: w.Layout, number: int = 10, **made: Any) -> Table:
    data = w.TableWriter(layout).write(entries)
    file = replace(w.table_file(number, 1, entries, len(data)), **made)
    (directory / file.name).write_bytes(data)
    return stores.tables_of(directory)(file)


def test_a_table_without_the_keys_stays(tmp_path: Path) -> None:
    table = open_written(tmp_path, ENTRIES, w.Layout())
    assert without(table, Beginnings([b"key 0001", b"key 3", b"a", b"z"])) is None


def test_a_table_of_one_key_becomes_empty(tmp_path: Path) -> None:
    erased = without(open_written(tmp_path, ENTRIES[7:8], w.Layout()), Beginnings([b"key 007"]))
    assert erased is not None
    assert erased.is_empty


def test_details_of_the_old_file_are_dropped(tmp_path: Path) -> None:
    details = ((5, b"\1"), (7, b"checksum"), (12, b"id"), (13, b"\2"), (15, b"\3"))
    erased = without(open_written(tmp_path, ENTRIES, w.Layout(), details=details), Beginnings([b"key 007"]))
    assert erased is not None
    assert written(tmp_path, erased.write, 11).details == ((5, b"\1"), (13, b"\2"))


def test_range_deletions_lose_the_keys_in_their_bounds(tmp_path: Path) -> None:
    deletions = [w.Entry(b"key 007", 900, w.RANGE_DELETION, b"key 008"), w.Entry(b"key 020", 901, w.RANGE_DELETION, b"key 030")]
    table = open_written(tmp_path, [*ENTRIES[10:], *deletions], w.Layout())
    erased = without(table, Beginnings([b"key 007", b"key 020"]))
    assert erased is not None
    assert [(key[:-8], end) for key, end in erased.deletions] == [(b"key 021", b"key 030")]
    file = written(tmp_path, erased.write, 11)
    assert file.smallest[:-8] == b"key 010"
    with pytest.raises(UnsupportedFormatError, match="a range deletion ends at an erased key"):
        without(table, Beginnings([b"key 030"]))


def test_beginnings() -> None:
    found = Beginnings([b"b", b"ba", b"a\xff", b"c"])
    assert len(found) == 3
    assert [found.covering(key) for key in (b"", b"a", b"a\xff\0", b"bz", b"c", b"d")] == [None, None, b"a\xff", b"b", b"c", None]
    assert found.between(b"ba", b"bz") == [b"b"]
    assert found.between(b"az", b"b") == [b"a\xff", b"b"]
    assert found.between(b"d", b"e") == []
    assert behind(b"a\xff") == b"b"


def test_searched_bytes_are_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers have additional space, where memory may hold what was erased elsewhere."""
    table = open_written(tmp_path, ENTRIES[:40], w.Layout(compression=w.SNAPPY))
    monkeypatch.setattr(np, "empty", lambda shape, dtype=float: np.full(shape, 0x7A7A7A7A & np.iinfo(dtype).max, dtype))
    content = b"\0".join(part.tobytes() for part in plain_content(table))
    monkeypatch.undo()
    assert b"value 039" in content
    assert b"zz" not in content
