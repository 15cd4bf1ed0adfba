"""Tables of every layout, and the errors of damaged and unsupported tables."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from state_processor.backends.formats.sst import family_scan
from state_processor.backends.formats.sst.family_scan import FamilyScan
from state_processor.backends.formats.sst.manifest import TableFile
from state_processor.support.errors import (
    CorruptSnapshotError,
    StateProcessorError,
    UndecodableValueError,
    UnsupportedFormatError,
)
from tests.backends.formats.sst import stores
from tests.backends.formats.sst import table_writer as w
from tests.serializers.harness import interpreted_kernels

ENTRIES = [w.Entry(i.to_bytes(4, "big"), i + 1, w.VALUE, bytes([i % 256]) * (i % 50)) for i in range(600)]
EXPECTED = [(e.key, e.value) for e in ENTRIES]


def read(directory: Path, *files: TableFile, prefix: int = 0) -> list[tuple[bytes, bytes]]:
    scan = FamilyScan(files, stores.tables_of(directory), prefix, "store")
    return [
        (data[key:key_end].tobytes(), data[value:value_end].tobytes())
        for data, rows in scan.blocks(b"", stores.LAST)
        for key, key_end, value, value_end, _ in rows.tolist()
    ]


def written(
    directory: Path, entries: Sequence[w.Entry], layout: w.Layout | None = None, number: int = 10, level: int = 1, **made: Any
) -> TableFile:
    data = w.TableWriter(layout or w.Layout()).write(entries)
    file = replace(w.table_file(number, level, entries, len(data)), **made)
    (directory / file.name).write_bytes(data)
    return file


@pytest.mark.parametrize("version", range(2, 7))
@pytest.mark.parametrize("checksum", range(5))
@pytest.mark.parametrize("compression", [w.NONE, w.SNAPPY, w.ZLIB, w.LZ4, w.LZ4HC, w.ZSTD])
def test_versions_checksums_and_compressions(version: int, checksum: int, compression: int, tmp_path: Path) -> None:
    layout = w.Layout(version=version, checksum=checksum, compression=compression, is_delta=version > 3)
    assert read(tmp_path, written(tmp_path, ENTRIES, layout)) == EXPECTED


@pytest.mark.parametrize("index", [w.BINARY, w.HASH, w.PARTITIONED, w.WITH_FIRST_KEY])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("delta", [True, False])
@pytest.mark.parametrize("interval", [1, 4, 16])
def test_indexes(index: int, exact: bool, delta: bool, interval: int, tmp_path: Path) -> None:
    layout = w.Layout(index=index, keys_are_exact=exact, is_delta=delta, index_restart_interval=interval)
    assert read(tmp_path, written(tmp_path, ENTRIES, layout)) == EXPECTED


@pytest.mark.parametrize("interval", [1, 2, 16])
def test_hash_indexes_of_data_blocks(interval: int, tmp_path: Path) -> None:
    layout = w.Layout(hashed=True, restart_interval=interval, block_bytes=2000)
    assert read(tmp_path, written(tmp_path, ENTRIES, layout)) == EXPECTED


def test_an_ingested_table_has_the_sequence_number_of_the_manifest(tmp_path: Path) -> None:
    old = written(tmp_path, [w.Entry(b"a", 5, w.VALUE, b"old"), w.Entry(b"b", 9, w.VALUE, b"kept")])
    given = [w.Entry(b"a", 0, w.VALUE, b"new"), w.Entry(b"b", 0, w.VALUE, b"older")]
    new = written(tmp_path, given, w.Layout(ingested=True), number=11, level=0, sequences=(7, 7))
    assert read(tmp_path, old, new) == [(b"a", b"new"), (b"b", b"kept")]


def test_operands_are_joined_with_commas_and_deletions_end_them(tmp_path: Path) -> None:
    entries = [
        w.Entry(b"a", 1, w.VALUE, b"1"),
        w.Entry(b"a", 2, w.MERGE, b"2"),
        w.Entry(b"a", 3, w.MERGE, b""),
        w.Entry(b"b", 4, w.MERGE, b"before"),
        w.Entry(b"b", 5, w.SINGLE_DELETION),
        w.Entry(b"b", 6, w.MERGE, b"after"),
        w.Entry(b"c", 7, w.VALUE, b""),
        w.Entry(b"c", 8, w.MERGE, b"x"),
    ]
    assert read(tmp_path, written(tmp_path, entries)) == [(b"a", b"1,2,"), (b"b", b"after"), (b"c", b",x")]


def test_versions_of_a_key_that_fill_many_blocks(tmp_path: Path) -> None:
    entries = [w.Entry(b"key", i + 1, w.MERGE, b"%d" % i) for i in range(3000)]
    before = [w.Entry(b"a", 1, w.VALUE, b"a"), *entries, w.Entry(b"z", 1, w.VALUE, b"z")]
    found = read(tmp_path, written(tmp_path, before, w.Layout(block_bytes=64)))
    assert found == [(b"a", b"a"), (b"key", b",".join(b"%d" % i for i in range(3000))), (b"z", b"z")]


def test_many_versions_of_a_short_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions need lines of the table, and hardly any room for keys."""
    monkeypatch.setattr(family_scan, "_MOST_ROWS", 4)
    monkeypatch.setattr(family_scan, "_MOST_KEYS", 1 << 18)
    file = written(tmp_path, [w.Entry(b"key", i + 1, w.MERGE, b"%d" % i) for i in range(3000)])
    assert read(tmp_path, file) == [(b"key", b",".join(b"%d" % i for i in range(3000)))]
    monkeypatch.setattr(family_scan, "_MOST_VERSIONS", 4000)
    with pytest.raises(UndecodableValueError, match="a key has more than about 1000 entries that were not compacted"):
        read(tmp_path, file)


@pytest.mark.parametrize("rows", [4, 100])
def test_rounds_that_have_no_room_are_smaller(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family_scan, "_MOST_ROWS", rows)
    files = [written(tmp_path, ENTRIES[i::3], number=10 + i, level=0) for i in range(3)]
    assert read(tmp_path, *files) == EXPECTED


def test_a_round_ends_by_decompressed_bytes(tmp_path: Path) -> None:
    """The blocks of a few kilobytes on the disk have 16 MB each."""
    value = bytes(16 << 20)
    entries = [w.Entry(bytes([i]), i + 1, w.VALUE, value) for i in range(5)]
    file = written(tmp_path, entries, w.Layout(compression=w.ZSTD, block_bytes=1))
    assert file.size < 20_000
    scan = FamilyScan([file], stores.tables_of(tmp_path), 0, "store")
    sizes = [(len(rows), len(data)) for data, rows in scan.blocks(b"", stores.LAST)]
    assert [rows for rows, _ in sizes] == [1] * 5
    assert max(size for _, size in sizes) < 24 << 20


def test_the_key_group_is_in_front_of_the_key(tmp_path: Path) -> None:
    file = written(tmp_path, ENTRIES)
    scan = FamilyScan([file], stores.tables_of(tmp_path), 2, "store")
    [(data, rows)] = scan.blocks(b"\0\0\x01", b"\0\0\x01\x03")
    assert [(data[a:b].tobytes(), g) for a, b, _, _, g in rows.tolist()] == [(b"\x01" + bytes([i]), 0) for i in range(3)]
    with pytest.raises(CorruptSnapshotError, match="a key is shorter than its key group prefix"):
        read(tmp_path, written(tmp_path, [w.Entry(b"a", 1, w.VALUE)]), prefix=2)


@pytest.mark.parametrize(
    ("layout", "told"),
    [
        (w.Layout(version=1), "its format version is 1; supported are versions 2 to 6"),
        (w.Layout(version=7), "its format version is 7; supported are versions 2 to 6"),
        (w.Layout(properties={b"rocksdb.comparator": b"leveldb.BytewiseComparator.u64ts"}), "user-defined timestamps"),
        (w.Layout(properties={b"rocksdb.comparator": b"rocksdb.ReverseBytewiseComparator"}), "not in the order of their bytes"),
        (w.Layout(properties={b"rocksdb.merge.operator": b"uint64add", b"rocksdb.merge.operands": b"\1"}), "'uint64add' is not"),
        (w.Layout(properties={b"rocksdb.block.based.table.index.type": b"\x09\0\0\0"}), "index is of the unknown type 9"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_refused_by_name(layout: w.Layout, told: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFormatError, match=f"000010.sst: .*{told}.*canonical savepoint"):
        read(tmp_path, written(tmp_path, ENTRIES[:5], layout))


@pytest.mark.parametrize(
    ("kind", "told"),
    [(0x11, "a reference to a blob file"), (0x14, "a deletion with a timestamp"), (0x16, "a wide column"), (99, "type 99")],
)
def test_entries_that_flink_does_not_write(kind: int, told: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFormatError, match=rf"it has .*{told}\. Flink does not write this"):
        read(tmp_path, written(tmp_path, [w.Entry(b"a", 1, kind, b"x")]))


class _Mixed(w.TableWriter):
    """Writes blocks with one compression after the other."""

    def put(self, content: bytes, compression: int | None = None) -> tuple[int, int]:
        kinds = (w.SNAPPY, w.ZSTD, w.LZ4, w.ZLIB, w.NONE)
        return super().put(content, kinds[len(self.data) % len(kinds)] if compression is None else compression)


@pytest.mark.parametrize("checksum", [0, 1, 4])
def test_blocks_of_a_table_have_different_compressions(checksum: int, tmp_path: Path) -> None:
    rng = random.Random(checksum)
    entries = [w.Entry(i.to_bytes(4, "big"), i + 1, w.VALUE, rng.randbytes(rng.randrange(30))) for i in range(600)]
    data = _Mixed(w.Layout(checksum=checksum)).write(entries)
    file = w.table_file(10, 1, entries, len(data))
    (tmp_path / file.name).write_bytes(data)
    assert read(tmp_path, file) == [(e.key, e.value) for e in entries]
    with interpreted_kernels():
        assert read(tmp_path, file) == [(e.key, e.value) for e in entries]


def test_a_compression_that_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(w, "compressed", lambda content, kind: content)
    with pytest.raises(UnsupportedFormatError, match="blocks are compressed by bzip2"):
        read(tmp_path, written(tmp_path, ENTRIES, w.Layout(compression=3)))


def test_plain_tables(tmp_path: Path) -> None:
    file = written(tmp_path, ENTRIES)
    data = (tmp_path / file.name).read_bytes()
    (tmp_path / file.name).write_bytes(data[:-8] + (0x8242229663BF9564).to_bytes(8, "little"))
    with pytest.raises(UnsupportedFormatError, match="it is a plain table"):
        read(tmp_path, file)


def test_keys_out_of_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [w.Entry(b"b", 1, w.VALUE), w.Entry(b"a", 2, w.VALUE), w.Entry(b"c", 3, w.VALUE)]
    monkeypatch.setattr(w.Entry, "order", property(lambda self: self.sequence))
    file = replace(written(tmp_path, entries, w.Layout(compression=w.NONE)), smallest=b"a" + bytes(8), largest=b"c" + bytes(8))
    with pytest.raises(CorruptSnapshotError, match="its keys are not in order"):
        read(tmp_path, file)


@pytest.mark.parametrize("other", [slice(0, 200), slice(400, 600), slice(200, 399), slice(201, 400), slice(250, 300)])
def test_another_table_has_the_place_of_a_table(other: slice, tmp_path: Path) -> None:
    file = written(tmp_path, ENTRIES[200:400])
    assert read(tmp_path, file) == EXPECTED[200:400]
    lower, upper = (i.to_bytes(4, "big") for i in (200, 400))
    written(tmp_path, ENTRIES[other])
    for bounds in [(b"", stores.LAST), (lower, upper)]:
        scan = FamilyScan([file], stores.tables_of(tmp_path), 0, "store")
        with pytest.raises(CorruptSnapshotError, match=r"000010\.sst: its first or last key is not the one that the manifest"):
            list(scan.blocks(*bounds))


@pytest.mark.parametrize("other", [slice(0, 200), slice(400, 600), slice(200, 300), slice(299, 301)])
@pytest.mark.parametrize("layout", [w.Layout(), w.Layout(index=w.PARTITIONED), w.Layout(block_bytes=1 << 20)])
def test_a_look_up_refuses_another_table(other: slice, layout: w.Layout, tmp_path: Path) -> None:
    file = written(tmp_path, ENTRIES[200:400], layout)
    key = ENTRIES[300].key
    scan = FamilyScan([file], stores.tables_of(tmp_path), 0, "store")
    assert sum(len(rows) for _, rows in scan.blocks(key, key + b"\0")) == 1
    written(tmp_path, ENTRIES[other], layout)
    scan = FamilyScan([file], stores.tables_of(tmp_path), 0, "store")
    with pytest.raises(CorruptSnapshotError, match=r"000010\.sst: its first or last key is not the one that the manifest"):
        list(scan.blocks(key, key + b"\0"))


def test_a_separator_before_the_last_key_of_its_block(tmp_path: Path) -> None:
    class Misplacing(w.TableWriter):
        def _index(self, entries: Sequence[tuple[bytes, tuple[int, int], bytes]]) -> tuple[int, int]:
            changed = [
                (first[:-8], place, first) if i == 3 else (key, place, first) for i, (key, place, first) in enumerate(entries)
            ]
            return super()._index(changed)

    data = Misplacing(w.Layout()).write(ENTRIES)
    file = w.table_file(10, 1, ENTRIES, len(data))
    (tmp_path / file.name).write_bytes(data)
    table = stores.tables_of(tmp_path)(file)
    separator = table.blocks().separator(3)
    scan = FamilyScan([file], stores.tables_of(tmp_path), 0, "store")
    with pytest.raises(CorruptSnapshotError, match="its keys are not between the separators that the index has for it"):
        list(scan.blocks(b"", separator + b"\0"))


@pytest.mark.parametrize("index", [w.BINARY, w.PARTITIONED])
@pytest.mark.parametrize("checksum", [1, 2, 3, 4])
def test_all_checksums_are_verified(index: int, checksum: int, tmp_path: Path) -> None:
    deletion = w.Entry(b"a", 999, w.RANGE_DELETION, b"b")
    file = written(tmp_path, [*ENTRIES, deletion], w.Layout(index=index, checksum=checksum, compression=w.NONE))
    path = tmp_path / file.name
    data = path.read_bytes()
    table = stores.tables_of(tmp_path)(file)
    rows = table.blocks().rows
    blocks = table.verify()
    assert blocks == len(rows) + 2  # properties and range deletions
    assert table._index_handle is not None
    for offset in (int(rows[0, 2]), int(rows[-1, 2]), table._meta[b"rocksdb.range_del"][0], table._index_handle[0]):
        path.write_bytes(data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :])
        with pytest.raises(CorruptSnapshotError, match=rf"000010\.sst, block at {offset}: its checksum is 0x"):
            stores.tables_of(tmp_path)(file).verify()


@pytest.mark.parametrize("checksum", [1, 2, 3, 4])
@pytest.mark.parametrize("version", [5, 6])
def test_every_damaged_byte_is_noticed(checksum: int, version: int, tmp_path: Path) -> None:
    """Of the footer, only padding may have other bytes; since version 6, that has a checksum too."""
    layout = w.Layout(version=version, checksum=checksum, properties={b"rocksdb.merge.operator": b"nullptr"})
    file = written(tmp_path, ENTRIES[:30], layout)
    data = (tmp_path / file.name).read_bytes()
    rng = random.Random(checksum)
    with (tmp_path / file.name).open("r+b", buffering=0) as stored:  # a byte is written faster than a file
        for at in (*range(len(data) - 53), *range(len(data) - 12, len(data))):
            os.pwrite(stored.fileno(), bytes([data[at] ^ 1 << rng.randrange(8)]), at)
            with pytest.raises(StateProcessorError):
                read(tmp_path, file)
            os.pwrite(stored.fileno(), data[at : at + 1], at)
    assert (tmp_path / file.name).read_bytes() == data


@pytest.mark.parametrize("compression", [w.NONE, w.SNAPPY, w.ZLIB, w.LZ4, w.ZSTD])
def test_damage_with_checksums_that_fit_it(compression: int, tmp_path: Path) -> None:
    """Made-up blocks end in an error, or in entries; never in a crash."""
    rng = random.Random(compression)
    for seed in range(150):
        writer = _Forger(w.random_layout(rng), compression, random.Random(seed))
        data = writer.write(ENTRIES[:60])
        file = w.table_file(10, 1, ENTRIES[:60], len(data))
        (tmp_path / file.name).write_bytes(data)
        try:
            read(tmp_path, file)
        except StateProcessorError:
            continue


HUGE = (1 << 62, 1 << 62)


@pytest.mark.parametrize("index", [w.BINARY, w.PARTITIONED])
@pytest.mark.parametrize("places", [{-1: HUGE}, {3: HUGE}, {5: (0, 20)}])
def test_places_of_blocks_that_are_not_in_the_file_or_not_in_order(
    index: int, places: dict[int, tuple[int, int]], tmp_path: Path
) -> None:
    """The end of a huge block is a negative number of 64 bits; a partition begins in front of the one before."""

    class Misplacing(w.TableWriter):
        def _index(self, entries: Sequence[tuple[bytes, tuple[int, int], bytes]]) -> tuple[int, int]:
            changed = list(entries)
            for at, place in places.items():
                changed[at] = (changed[at][0], place, changed[at][2])
            return super()._index(changed)

    data = Misplacing(w.Layout(index=index, is_delta=False)).write(ENTRIES)
    file = w.table_file(10, 1, ENTRIES, len(data))
    (tmp_path / file.name).write_bytes(data)
    with pytest.raises(CorruptSnapshotError, match="its index lists blocks that overlap, or that are behind the end of the file"):
        read(tmp_path, file)


class _Forger(w.TableWriter):
    """Changes bytes of a block before it gets its checksum."""

    def __init__(self, layout: w.Layout, compression: int, rng: random.Random) -> None:
        super().__init__(replace(layout, compression=compression))
        self._rng = rng

    def put(self, content: bytes, compression: int | None = None) -> tuple[int, int]:
        changed = bytearray(content)
        for _ in range(self._rng.choice((0, 0, 1, 3)) if changed else 0):
            at = self._rng.choice((self._rng.randrange(len(changed)), max(0, len(changed) - 1 - self._rng.randrange(12))))
            changed[at] = self._rng.choice((0, 1, 0x7F, 0x80, 0xFF, self._rng.randrange(256)))
        return super().put(bytes(changed), compression)
