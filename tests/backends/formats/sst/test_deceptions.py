"""Tables with right checksums whose structure hides entries: they are refused, because entries would be missing."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from state_processor.backends.formats.sst import family_scan
from state_processor.backends.formats.sst.manifest import Family, Manifest, TableFile, read_manifest, write_manifest
from state_processor.backends.formats.sst.table import COMPARATOR
from state_processor.support.errors import CorruptSnapshotError
from tests.backends.formats.sst import stores
from tests.backends.formats.sst import table_writer as w
from tests.fuzz.targets import deceptions

Item = tuple[bytes, tuple[int, int], bytes]
ENTRIES = [w.Entry(b"key-%03d" % i, i + 1, w.VALUE, b"value" * 5) for i in range(200)]
DELETION = w.Entry(b"key-050", 300, w.RANGE_DELETION, b"key-060")


def store(
    directory: Path,
    entries: Sequence[w.Entry] = ENTRIES,
    layout: w.Layout | None = None,
    writer: Callable[[w.Layout], w.TableWriter] = w.TableWriter,
    record: Callable[[TableFile], TableFile] = lambda file: file,
    last: int = 1000,
) -> None:
    data = writer(layout or w.Layout()).write(entries)
    directory.mkdir(exist_ok=True)
    file = record(w.table_file(10, 1, entries, len(data)))
    (directory / "000010.sst").write_bytes(data)
    families = {0: Family("default", COMPARATOR), 1: Family("state", COMPARATOR, (file,))}
    (directory / "MANIFEST-000005").write_bytes(write_manifest(Manifest(families, 20, last, 1)))
    (directory / "CURRENT").write_text("MANIFEST-000005\n")


def changing(method: str, change: Callable[[list], list]) -> Callable[[w.Layout], w.TableWriter]:  # type: ignore[type-arg]
    """A writer that changes the entries of its indexes, or the pairs of a block of metadata."""

    class Changing(w.TableWriter):
        def _index(self, entries: Sequence[Item]) -> tuple[int, int]:
            return super()._index(change(list(entries)) if method == "index" else entries)

    return Changing


@pytest.mark.parametrize("bound", ["smallest", "largest"])
@pytest.mark.parametrize("key", [b"", b"key-050", b"key-050" + b"\x63" + b"\0" * 7])
def test_bounds_that_are_not_keys(bound: str, key: bytes, tmp_path: Path) -> None:
    store(tmp_path, record=lambda file: replace(file, **{bound: key}))
    with pytest.raises(CorruptSnapshotError, match=r"an edit of the manifest has the key .*; its type is not valid"):
        stores.read_by_kernels(tmp_path, "state")
    with pytest.raises(Exception, match="Corruption"):
        stores.read_by_rocksdb(tmp_path, "state")


def test_bounds_in_the_wrong_order(tmp_path: Path) -> None:
    store(tmp_path, record=lambda file: replace(file, smallest=file.largest, largest=file.smallest))
    with pytest.raises(CorruptSnapshotError, match="the first key of the file 10 in the manifest is behind its last key"):
        stores.read_by_kernels(tmp_path, "state")


def test_a_manifest_without_its_last_sequence_number() -> None:
    log = write_manifest(Manifest({0: Family("default", COMPARATOR)}, 20, 5, 0))
    records = list(stores_records(log))
    with pytest.raises(CorruptSnapshotError, match="cut off: it does not have the number of the next file"):
        read_manifest(joined(records[:-1]), "here")


def stores_records(log: bytes) -> list[bytes]:
    import numpy as np

    from state_processor.backends.formats.sst.manifest import _records

    return list(_records(np.frombuffer(log, dtype=np.uint8), "here"))


def joined(records: Sequence[bytes]) -> bytes:
    from state_processor.backends.formats.sst.manifest import _append

    log = bytearray()
    for record in records:
        _append(log, record)
    return bytes(log)


@pytest.mark.parametrize("entry", [replace(DELETION, sequence=5000), w.Entry(b"key-050", 5000, w.DELETION)])
def test_sequence_numbers_behind_the_last_one(entry: w.Entry, tmp_path: Path) -> None:
    """RocksDB does not see such a deletion of a key."""
    store(tmp_path, [*ENTRIES, entry])
    if entry.kind == w.DELETION:
        assert len(stores.read_by_rocksdb(tmp_path, "state")) == len(ENTRIES)
    with pytest.raises(CorruptSnapshotError, match="an entry with the sequence number 5000; expected 1 to 1000, as the manifest"):
        stores.read_by_kernels(tmp_path, "state")


@pytest.mark.parametrize("entry", [replace(DELETION, sequence=5), w.Entry(b"key-050", 5, w.DELETION)])
def test_sequence_numbers_that_the_manifest_excludes(entry: w.Entry, tmp_path: Path) -> None:
    store(tmp_path, [*ENTRIES[20:], entry], record=lambda file: replace(file, sequences=(21, 200)))
    with pytest.raises(CorruptSnapshotError, match="an entry with the sequence number 5; expected 21 to 200, as the manifest"):
        stores.read_by_kernels(tmp_path, "state")


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("index", [w.BINARY, w.PARTITIONED])
@pytest.mark.parametrize("which", [0, 3, 7])
def test_separators_before_keys_of_their_block(exact: bool, index: int, which: int, tmp_path: Path) -> None:
    def change(entries: list[Item]) -> list[Item]:
        separator, place, first = entries[which]
        before = entries[which - 1][0] if which else b"a" + separator[-8:]
        entries[which] = before if which else b"a" + (b"" if exact else separator[-8:]), place, first
        return entries

    layout = w.Layout(index=index, keys_are_exact=exact, is_delta=False, index_restart_interval=1)
    store(tmp_path, layout=layout, writer=changing("index", change))
    assert stores.read_by_rocksdb(tmp_path, "state") == [(e.key, e.value) for e in ENTRIES]
    with pytest.raises(CorruptSnapshotError, match=r"not between the separators|index is damaged|its first or last key"):
        stores.read_by_kernels(tmp_path, "state")


@pytest.mark.parametrize("index", [w.BINARY, w.PARTITIONED])
def test_a_first_separator_before_the_first_key_is_seen_by_reads_behind_it(index: int, tmp_path: Path) -> None:
    """A read from the second key on does not open the block: the separator is before the key."""

    def change(entries: list[Item]) -> list[Item]:
        return [(b"a" + entries[0][0][-8:], *entries[0][1:]), *entries[1:]]

    layout = w.Layout(index=index, is_delta=False, index_restart_interval=1)
    store(tmp_path, layout=layout, writer=changing("index", change))
    with pytest.raises(CorruptSnapshotError, match=r"index is damaged|its first or last key"):
        stores.read_by_kernels(tmp_path, "state", b"key-001", stores.LAST)


def test_separators_out_of_order_are_seen_in_each_range(tmp_path: Path) -> None:
    def change(entries: list[Item]) -> list[Item]:
        entries[5], entries[9] = (entries[9][0], *entries[5][1:]), (entries[5][0], *entries[9][1:])
        return entries

    store(tmp_path, layout=w.Layout(is_delta=False), writer=changing("index", change))
    for lower, upper in ((b"", b"key-010"), (b"key-010", b"key-011"), (b"key-190", stores.LAST)):
        with pytest.raises(CorruptSnapshotError, match="its index is damaged"):
            stores.read_by_kernels(tmp_path, "state", lower, upper)


@pytest.mark.parametrize(
    ("kind", "choices", "message"),
    [
        ("properties", "exchanged", "its properties are not in order"),
        ("names of blocks", "exchanged", "its names of blocks are not in order"),
        ("names of blocks", "alike", "a block has the name of another one"),
        ("names of blocks", "renamed", "its properties count 1 range deletions, but the table has no block of them"),
        ("restarts of names", "second", "the entries of a block are damaged"),
        ("restarts of properties", "second", "the entries of a block are damaged"),
        ("restarts of range deletions", "second", "the entries of a block are damaged"),
    ],
)
def test_metadata(kind: str, choices: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes: dict[str, Callable[[random.Random, list], list]] = {  # type: ignore[type-arg]
        "exchanged": lambda _, pairs: [*pairs[1:], pairs[0]],
        "alike": lambda _, pairs: [(name, pairs[-1][1]) for name, _ in pairs],
        "renamed": lambda _, pairs: sorted((n.replace(b"range_del", b"range_xyz"), v) for n, v in pairs),
        "second": lambda _, content: content[:-8] + b"\1\0\0\0" + content[-4:],
    }
    monkeypatch.setitem(deceptions.OF_TABLES, kind, changes[choices])  # type: ignore[arg-type]

    class Deceptive(deceptions.DeceptiveWriter):
        def __init__(self, layout: w.Layout) -> None:
            super().__init__(layout, kind, random.Random(1))

        def write(self, entries: Sequence[w.Entry]) -> bytes:
            return self.write_parts(entries)

    store(tmp_path, [*ENTRIES, DELETION, replace(DELETION, key=b"key-070", value=b"key-080")], writer=Deceptive)
    with pytest.raises(CorruptSnapshotError, match=message.replace("count 1", "count 2")):
        stores.read_by_kernels(tmp_path, "state")


@pytest.mark.parametrize("index", [w.BINARY, w.PARTITIONED])
@pytest.mark.parametrize("part", ["index", "entries"])
@pytest.mark.parametrize("change", ["one more", "another place", "out of order"])
def test_restarts(index: int, part: str, change: str, tmp_path: Path) -> None:
    """RocksDB searches keys by restarts, and begins with the first one: with one more, the last entry is not read."""

    def changed(content: bytes) -> bytes:
        count = int.from_bytes(content[-4:], "little")
        if change == "one more":
            return content[:-4] + (count + 1).to_bytes(4, "little")
        if change == "another place":
            return content[:-8] + (len(content) - 4 * count - 5).to_bytes(4, "little") + content[-4:]
        return content[:-12] + content[-8:-4] + content[-12:-8] + content[-4:]

    class Changing(w.TableWriter):
        def _index_block(self, entries: Sequence[Item]) -> bytes:
            content = super()._index_block(entries)
            return changed(content) if part == "index" else content

        def write(self, entries: Sequence[w.Entry]) -> bytes:
            if part == "index":
                return super().write(entries)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(w, "block", changed_block)
                return super().write(entries)

    def changed_block(pairs: Sequence[tuple[bytes, bytes]], *settings: int) -> bytes:
        content = block(pairs, *settings)
        return changed(content) if len(pairs) > 20 else content  # of entries, not of metadata

    block = w.block
    layout = w.Layout(index=index, index_restart_interval=2, restart_interval=2, block_bytes=2000)
    store(tmp_path, layout=layout, writer=Changing)
    if (part, change) == ("entries", "another place"):  # of the last one, which neither RocksDB nor this project needs
        assert stores.read_by_kernels(tmp_path, "state") == stores.read_by_rocksdb(tmp_path, "state")
        return
    with pytest.raises(CorruptSnapshotError, match="damaged"):
        stores.read_by_kernels(tmp_path, "state")


@pytest.mark.parametrize("version", [5, 6])
def test_blocks_without_checksums_have_zero_instead(version: int, tmp_path: Path) -> None:
    """RocksDB compares it: an index that refers to something else is refused."""
    store(tmp_path / "right", layout=w.Layout(version=version, checksum=0))
    assert len(stores.read_by_kernels(tmp_path / "right", "state")) == len(ENTRIES)

    class Wrong(w.TableWriter):
        def checksum(self, data: bytes, place: int) -> int:
            return super().checksum(data, place) ^ (place == 0)

    store(tmp_path / "wrong", layout=w.Layout(version=version, checksum=0), writer=Wrong)
    with pytest.raises(CorruptSnapshotError, match=r"block at 0: its checksum is .*; the file is damaged"):
        stores.read_by_kernels(tmp_path / "wrong", "state")
    with pytest.raises(Exception, match="block checksum mismatch"):
        stores.read_by_rocksdb(tmp_path / "wrong", "state")


def test_a_count_of_range_deletions_that_is_zero(tmp_path: Path) -> None:
    store(tmp_path, [*ENTRIES, DELETION], w.Layout(properties={b"rocksdb.num.range-deletions": b"\0"}))
    with pytest.raises(CorruptSnapshotError, match="its properties count 0 range deletions, but the table has a block of them"):
        stores.read_by_kernels(tmp_path, "state")


@pytest.mark.parametrize("properties", [{"global_seqno": bytes(8)}, {"version": b"\1\0\0\0", "global_seqno": bytes(8)}])
def test_properties_of_ingested_tables(properties: dict[str, bytes], tmp_path: Path) -> None:
    layout = w.Layout(properties={f"rocksdb.external_sst_file.{name}".encode(): value for name, value in properties.items()})
    store(tmp_path, layout=layout)
    with pytest.raises(CorruptSnapshotError, match="its properties of ingested tables contradict each other"):
        stores.read_by_kernels(tmp_path, "state")
    with pytest.raises(Exception, match=r"ha(s|ve) global seqno"):
        stores.read_by_rocksdb(tmp_path, "state")


def test_a_version_of_ingested_tables_that_does_not_exist(tmp_path: Path) -> None:
    store(tmp_path, layout=w.Layout(properties={b"rocksdb.external_sst_file.version": b"\3\0\0\0"}))
    with pytest.raises(CorruptSnapshotError, match="it has version 3 of ingested tables; expected 1 or 2"):
        stores.read_by_kernels(tmp_path, "state")
    with pytest.raises(Exception, match="corrupted version 3"):
        stores.read_by_rocksdb(tmp_path, "state")


def test_the_only_separator_is_before_the_first_key(tmp_path: Path) -> None:
    """The end of the table is the end of a range deletion: the largest key does not tell that the separator is too small."""
    entries = [w.Entry(b"key-010", 1, w.VALUE, b"value"), w.Entry(b"key-020", 2, w.RANGE_DELETION, b"key-030")]

    def before(listed: list[Item]) -> list[Item]:
        ((separator, place, first),) = listed
        return [(b"key-000" + separator[7:], place, first)]

    store(tmp_path, entries, writer=changing("index", before))
    with patch.multiple(family_scan, _LEAST_SHARE=1, _COMPRESSED=1, _PLAIN=1), pytest.raises(CorruptSnapshotError):
        stores.read_by_kernels(tmp_path, "state")


def test_a_separator_behind_the_last_key_within_a_partition(tmp_path: Path) -> None:
    """Reads in rounds end at the last key of the table, and would not open the block behind the separator."""

    def behind(listed: list[Item]) -> list[Item]:
        (separator, place, first), last = listed[-2:]
        return [*listed[:-2], (b"z" + separator[-8:], place, first), (b"zz" + last[0][-8:], *last[1:])]

    layout = w.Layout(index=w.PARTITIONED, is_delta=False, index_restart_interval=64)
    store(tmp_path, layout=layout, writer=changing("index", behind))
    with patch.multiple(family_scan, _LEAST_SHARE=1, _COMPRESSED=1, _PLAIN=1), pytest.raises(CorruptSnapshotError):
        stores.read_by_kernels(tmp_path, "state")


def test_a_range_deletion_that_ends_behind_the_last_key(tmp_path: Path) -> None:
    """RocksDB cuts it within the entries of the last key; versions differ in whether older entries of this key are seen."""
    last = ENTRIES[55]
    store(tmp_path, [*ENTRIES[:56], DELETION], record=lambda file: replace(file, largest=last.internal))
    with pytest.raises(CorruptSnapshotError, match="its first or last key is not the one that the manifest"):
        stores.read_by_kernels(tmp_path, "state")


def test_a_range_deletion_does_not_delete_newer_entries_of_the_first_key_of_its_table(tmp_path: Path) -> None:
    """RocksDB lets it begin at the first entry of the table in the manifest."""
    newer, first = w.Entry(b"key-050", 8, w.VALUE, b"new"), w.Entry(b"key-050", 5, w.VALUE, b"old")
    with_deletion = [first, w.Entry(b"key-055", 6, w.VALUE, b"old"), replace(DELETION, key=b"key-040", sequence=10)]
    files = []
    for number, entries in ((10, [newer]), (11, with_deletion)):
        data = w.TableWriter(w.Layout()).write(entries)
        file = w.table_file(number, 1, entries, len(data))
        (tmp_path / file.name).write_bytes(data)
        files.append(replace(file, smallest=entries[0].internal))
    families = {0: Family("default", COMPARATOR), 1: Family("state", COMPARATOR, tuple(files))}
    (tmp_path / "MANIFEST-000005").write_bytes(write_manifest(Manifest(families, 20, 1000, 1)))
    (tmp_path / "CURRENT").write_text("MANIFEST-000005\n")
    assert stores.read_by_kernels(tmp_path, "state") == stores.read_by_rocksdb(tmp_path, "state") == [(b"key-050", b"new")]


def test_deceptions_of_all_kinds(tmp_path: Path) -> None:
    """A sample of the inputs of the fuzzer, each compared with RocksDB."""
    worker = deceptions.Worker()
    seen = {deceptions.check(tmp_path / str(i), i % 20, random.Random(f"sample {i}"), worker) for i in range(120)}
    assert seen == {*deceptions.OF_TABLES, "manifest"}
