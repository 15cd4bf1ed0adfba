"""Manifests of RocksDB: reading Flink's manifests, writing, and damage. Stores with written manifests: tests/backends/write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from state_processor.backends.formats.sst import manifest as module
from state_processor.backends.formats.sst.manifest import Family, Manifest, TableFile, read_manifest, write_manifest
from state_processor.backends.metadata.handles import IncrementalRemoteKeyedStateHandle
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.support.errors import CorruptSnapshotError, UnsupportedFormatError
from tests.corpus import own_cases

BYTEWISE = b"leveldb.BytewiseComparator"
EPOCH = 13
DEFAULT = Family("default", BYTEWISE)


def table(number: int, level: int = 0, sequence: int = 7, epoch: int | None = None) -> TableFile:
    file = TableFile(level, number, 1000 + number, b"a" + bytes(8), b"z" + bytes(8), (sequence, sequence), ((7, b"\0"),))
    return file if epoch is None else file.in_epoch(epoch)


def stores() -> Iterator[tuple[str, IncrementalRemoteKeyedStateHandle, bytes]]:
    """The stores of all fixtures: name, handle, and manifest."""
    for case in own_cases("*rocksdb-[in]*") + own_cases("*forst*"):
        if "snapshot_dir" not in case.expected:
            continue
        snapshot = open_snapshot(case.snapshot)
        for operator in snapshot.metadata.operators:
            for subtask in operator.subtasks:
                if isinstance(handle := subtask.managed_keyed, IncrementalRemoteKeyedStateHandle):
                    (file,) = (file for file in handle.files if file.local_name.startswith("MANIFEST"))
                    yield case.id, handle, bytes(snapshot.open(file.stream).read())


def test_manifests_of_flink() -> None:
    """Manifests of each version contain the files of the snapshot, and its states as families. A copy is equivalent."""
    versions, epochs = set(), set()
    for name, handle, data in stores():
        manifest = read_manifest(data, name)
        tables = {file.local_name: file.stream.state_size for file in handle.files if file.local_name.endswith(".sst")}
        assert {file.name: file.size for file in manifest.files} == tables, name
        assert manifest.families[0].name == "default"
        assert manifest.next_file > max((file.number for file in manifest.files), default=0)
        assert read_manifest(write_manifest(manifest), name) == manifest
        versions.add(name.split("/")[0])
        epochs |= {file.epoch for file in manifest.files}
    assert versions > {"1.20.5", "2.3.0"}
    assert epochs >= {None, 1, 2}


def test_edits_that_follow_each_other() -> None:
    """Files are added, moved to another level and deleted; a column family is dropped; a record is longer than a block."""
    field, text, file = module._field, module._text, module._file_bytes
    log = bytearray()
    many = [table(number, level=6) for number in range(100, 3100)]
    for edit in (
        field(3, 40) + field(4, 9) + field(203, 2) + b"\1" + text(BYTEWISE),
        field(200, 1) + field(201, 0)[:-1] + text(b"total") + b"\1" + text(BYTEWISE),
        field(200, 2) + field(201, 0)[:-1] + text(b"items") + b"\1" + text(BYTEWISE),
        field(200, 1) + file(table(10)) + file(table(11)) + field(2, 5),
        field(200, 2) + file(table(12)),
        field(200, 1) + b"\6" + bytes([0, 10]) + file(table(10, level=1)) + b"\6" + bytes([0, 11]),
        field(200, 2) + field(202, 0)[:-1],
        field(8193, 3) + b"abc" + b"".join(map(file, many)),
    ):
        module._append(log, edit)
    assert len(log) > 2 << 15
    manifest = read_manifest(bytes(log), "here")
    families = {0: replace(DEFAULT, files=tuple(many)), 1: Family("total", BYTEWISE, (table(10, level=1),), 5)}
    assert manifest == Manifest(families, 3100, 9, 2)
    assert read_manifest(write_manifest(manifest), "here") == manifest


@pytest.mark.parametrize("left", range(10))
def test_records_at_the_end_of_a_block(left: int) -> None:
    """Less room than a header is filled up; exactly as much holds the empty beginning of a record."""
    log = bytearray()
    records = [bytes((1 << 15) - left - 7), b"next", b"", b"last"]
    for record in records:
        module._append(log, record)
    assert list(module._records(np.frombuffer(log, np.uint8), "here")) == records


def test_files_above_those_of_another_store() -> None:
    """Additional files have later epochs; if a file lacks an epoch, sequence numbers order all files."""
    below = Manifest({0: DEFAULT, 3: Family("total", BYTEWISE, (table(5, epoch=4), table(6, 6, epoch=1)))}, 7, 20, 3)
    assert below.without_files() == replace(below, families={0: DEFAULT, 3: Family("total", BYTEWISE)})
    assert below.only(()) == replace(below, families={0: DEFAULT})
    new = Family("score", BYTEWISE, (table(9, epoch=1),))
    above = Manifest({0: DEFAULT, 3: Family("total", BYTEWISE, (table(8, sequence=21, epoch=1),)), 4: new}, 10, 21, 4)
    total = (table(5, epoch=4), table(6, 6, epoch=1), table(8, sequence=21, epoch=5))
    assert above.above(below) == replace(above, families={0: DEFAULT, 3: Family("total", BYTEWISE, total), 4: new})
    older = replace(below, families={**below.families, 3: Family("total", BYTEWISE, (table(5), table(6, 6, epoch=1)))})
    assert [file.epoch for file in above.above(older).families[3].files] == [None, None, None]


def test_damage() -> None:
    data = write_manifest(Manifest({0: DEFAULT, 1: Family("total", BYTEWISE, (table(5),))}, 6, 7, 1))
    assert read_manifest(data, "here").families[1].files == (table(5),)
    for position in range(len(data)):
        changed = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
        with pytest.raises(CorruptSnapshotError, match=r"^here: .*byte \d+ of the manifest"):
            read_manifest(changed, "here")
    with pytest.raises(CorruptSnapshotError, match="is not the start of a record"):
        read_manifest(data[:-1], "here")


@pytest.mark.parametrize(
    ("edit", "kind", "message"),
    [
        (b"\xc8\1\7", CorruptSnapshotError, "an edit of the unknown column family 7"),
        (b"\xc8\1\7\xca\1", CorruptSnapshotError, "an edit of the unknown column family 7"),
        (b"\xc8\1\1\xc9\1\7default", CorruptSnapshotError, "the column family 'default' .number 1. is added twice"),
        (b"\xc9\1\5other", CorruptSnapshotError, "the column family 'other' .number 0. is added twice"),
        (b"\6\0\5", CorruptSnapshotError, "the deleted file 5 is not in level 0"),
        (module._file_bytes(table(5)) + module._file_bytes(table(5, 1)), CorruptSnapshotError, "the file 5 is added twice"),
        (
            module._file_bytes(replace(table(5), details=((66, b""),))),
            UnsupportedFormatError,
            "the file 5 has the unknown property 66; write a canonical savepoint",
        ),
        (b"\3", CorruptSnapshotError, "ends in the middle of a value"),
        (b"\x90\3", UnsupportedFormatError, "the store has blob files; write a canonical savepoint"),
        (b"\x0b", UnsupportedFormatError, "the unknown tag 11"),
        (b"\3\2", CorruptSnapshotError, "a column family does not have a comparator"),
    ],
)
def test_edits_that_make_no_sense(edit: bytes, kind: type[Exception], message: str) -> None:
    log = bytearray()
    module._append(log, edit)
    with pytest.raises(kind, match=f"here: .*{message}"):
        read_manifest(bytes(log), "here")
