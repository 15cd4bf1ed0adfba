from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pyarrow.compute as pc
import pytest

import state_processor as sp
from state_processor import cli
from state_processor.backends.formats.sst.table import Table
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.snapshot_metadata import METADATA_FILE
from state_processor.backends.write.staging import this_process
from tests.backends.write.test_killed_writes import killed
from tests.claimed_checkpoints import SAVEPOINT, claimed_checkpoint
from tests.state_processor.samples import FIXTURES, ORDERS
from tests.unknown_serializers import LONG, POJO, with_unknown_class

RESTORING = ("Flink ", "Every state backend", "The keyed state")
ORDERS_OF_1 = FIXTURES / "1.20.5" / "orders-hashmap-canonical"
OLD = FIXTURES / "migration" / "1.18.1" / "baskets-rocksdb-canonical"
IN_ORDER = "{} files are present, 2 headers of operator state fit, values are not decoded without --values"
HEAP = ORDERS.parent / "orders-hashmap-native" / "savepoint"
ROCKSDB = ORDERS.parent / "orders-rocksdb-native"
INCREMENTAL = ORDERS.parent / "orders-rocksdb-incremental"


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    shutil.copytree(ORDERS / "savepoint", tmp_path / "savepoint")
    return tmp_path / "savepoint"


def all_said(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, list[str]]:
    code = cli.main(["validate", *map(str, arguments)])
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, captured.out.splitlines()


def validate(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, list[str]]:
    """Run the command, and return its lines about files and values; lines about releases and backends are left out."""
    code, lines = all_said(capsys, *arguments)
    return code, [line for line in lines if not line.startswith(('{"finding": "restoring"', *RESTORING))]


@pytest.mark.parametrize("class_name", [LONG, POJO])
def test_classes_that_are_not_known_are_not_damage(class_name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Also inside of values. The line of unchecked states names them."""
    path = with_unknown_class("orders-rocksdb-canonical", class_name, tmp_path / "unknown")
    code, lines = all_said(capsys, path)
    (unchecked,) = (line for line in lines if line.startswith("Not checked, since code of the job or of connectors reads it: "))
    assert (code, "'orders/profile'" in unchecked) == (0, True)
    assert ("'orders/items'" in unchecked) == (class_name == LONG)


def test_snapshots_that_restore_from_a_copy(capsys: pytest.CaptureFixture[str], savepoint: Path, tmp_path: Path) -> None:
    contained = "all files are in the directory and recorded by name: it can be copied to other storage"
    assert validate(capsys, savepoint, "--self-contained") == (0, [*validate(capsys, savepoint)[1], contained])
    assert validate(capsys, ROCKSDB / "savepoint", "--self-contained")[0] == 0
    checkpoint = next(INCREMENTAL.glob("**/chk-*"))
    assert validate(capsys, checkpoint)[0] == 0
    code, (line,) = validate(capsys, checkpoint, "--self-contained")
    (recorded,) = re.findall(r"not self-contained: (\d+) files are recorded by absolute paths, such as \S+/shared/", line)
    assert (code, int(recorded) > 0) == (1, True)
    copy = tmp_path / "copy"
    assert cli.main(["copy", str(checkpoint), str(copy)]) == 0
    capsys.readouterr()
    assert validate(capsys, copy, "--self-contained")[0] == 0
    assert sp.arrow.diff(checkpoint, copy).read_all().num_rows == 0


def names(directory: Path) -> set[str]:
    return set(os.listdir(directory))


def test_snapshots_in_order(capsys: pytest.CaptureFixture[str], savepoint: Path) -> None:
    code, (line,) = validate(capsys, savepoint)
    assert code == 0
    present = f"{len(names(savepoint)) - 1} files are present, 2 headers of operator state fit"
    assert line == f"{present}, values are not decoded without --values"
    assert validate(capsys, savepoint / METADATA_FILE) == (0, [line])
    assert "the entries of 2 heap files are counted" in validate(capsys, HEAP)[1][0]
    assert validate(capsys, ROCKSDB / "savepoint")[0] == 0


@pytest.mark.parametrize(
    ("snapshot", "versions", "backends", "obstacles"),
    [
        (ORDERS, "Flink 2.1 and later", "Every state backend except ForSt restores the keyed state.", []),
        (
            ROCKSDB,
            "Flink 2.1 and later",
            "The keyed state has the format of one backend (rocksdb). Only this backend restores it.",
            [],
        ),
        (ORDERS_OF_1, "Flink 1.16 and later", "Every state backend except ForSt restores the keyed state.", []),
        (
            OLD,
            "Flink 1.16 and later 1.x versions",
            "Every state backend except ForSt restores the keyed state.",
            ["Flink 2.3 does not restore 12"],
        ),
    ],
)
def test_where_it_can_be_restored(
    capsys: pytest.CaptureFixture[str], snapshot: Path, versions: str, backends: str, obstacles: list[str]
) -> None:
    first, *others, last = all_said(capsys, snapshot / "savepoint")[1][1:]
    expected = [first, *others, last]
    assert (first, last) == (f"{versions} restore the snapshot.", backends)
    assert [other.partition(" states as they are, such as ")[0] for other in others] == obstacles
    told = [json.loads(line) for line in all_said(capsys, snapshot / "savepoint", "--json")[1]]
    assert told == [{"finding": "restoring", "message": message} for message in expected]


def test_what_a_migration_would_do(capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = all_said(capsys, FIXTURES / "1.20.5" / "orders-hashmap-canonical" / "savepoint", "--values")
    assert lines[-1] == "All states can be migrated to Flink 2.x."


def test_values(capsys: pytest.CaptureFixture[str], savepoint: Path) -> None:
    code, (line,) = validate(capsys, savepoint, "--values")
    assert code == 0
    present = f"{len(names(savepoint)) - 1} files are present, 2 headers of operator state fit"
    assert line == f"{present}, 410 rows are decodable"
    largest = max((f for f in savepoint.iterdir() if f.name != METADATA_FILE), key=lambda f: f.stat().st_size)
    data = bytearray(largest.read_bytes())
    at = data.index(b"amelia@example.com")
    data[at - 1 : at + 1] = b"\xff\xff"
    largest.write_bytes(data)
    assert validate(capsys, savepoint)[0] == 0
    code, lines = validate(capsys, savepoint, "--values")
    assert code == 1
    assert any("state 'profile'" in line for line in lines)


def test_counts_of_heap_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A count of 1 becomes 0: the entry is behind it, whichever state it belongs to."""
    path = tmp_path / "savepoint"
    shutil.copytree(HEAP, path)
    snapshot = open_snapshot(str(path))
    (orders,) = (o for o in snapshot.metadata.operators if o.uid == "orders")
    handle = orders.subtasks[0].managed_keyed
    assert isinstance(handle, h.KeyGroupsStateHandle)
    file = Path(str(snapshot.open(handle.stream, "").path))
    whole = file.read_bytes()
    first = next(o + 4 for o in handle.offsets if whole[o + 6 : o + 10] == b"\0\0\0\1")
    file.write_bytes(whole[: first + 5] + b"\0" + whole[first + 6 :])
    code, lines = validate(capsys, path)
    assert code == 1
    assert "operator 'orders', subtask 0" in lines[0]


def test_checksums_of_tables(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "savepoint"
    shutil.copytree(ROCKSDB / "savepoint", path)
    snapshot = open_snapshot(str(path))
    handles = [s.managed_keyed for o in snapshot.metadata.operators for s in o.subtasks]
    stores = [handle for handle in handles if isinstance(handle, h.IncrementalRemoteKeyedStateHandle)]
    tables = [snapshot.open(f.stream) for store in stores for f in store.files if f.local_name.endswith(".sst")]
    code, (line,) = validate(capsys, path)
    assert code == 0
    assert re.search(r"the checksums of \d+ blocks in files of RocksDB are right", line)
    file = next(Path(table.path) for table in tables if table.path is not None)
    whole = file.read_bytes()
    file.write_bytes(whole[:3] + bytes([whole[3] ^ 1]) + whole[4:])
    code, lines = validate(capsys, path)
    assert code == 1
    assert re.search(rf"subtask \d+.*{file.name}.*, block at 0: its checksum is 0x", lines[0])
    monkeypatch.setattr(Table, "verify", lambda _: 0)
    code, lines = validate(capsys, path)
    assert code == 3
    assert len(lines) == 1 + len(tables)
    assert any(line.startswith("the blocks of this file don't have checksums: ") and file.name in line for line in lines)


def test_files_that_are_missing_or_cut(capsys: pytest.CaptureFixture[str], savepoint: Path) -> None:
    gone, cut, *_ = sorted((f for f in savepoint.iterdir() if f.name != METADATA_FILE), key=lambda f: -f.stat().st_size)
    gone.unlink()
    os.truncate(cut, cut.stat().st_size - 1)
    code, lines = validate(capsys, savepoint)
    assert code == 1
    assert len(lines) == 2
    removed = f"{gone.name} does not exist. It was removed, or not copied with the snapshot: copy it there"
    assert any(line.endswith(removed) for line in lines)
    sizes = f"{cut.name} has {cut.stat().st_size} bytes; the snapshot records {cut.stat().st_size + 1}"
    assert any(line.endswith(f"{sizes}. It was copied incompletely: copy it again") for line in lines)
    assert all("operator " in line for line in lines)
    (savepoint / METADATA_FILE).write_bytes(b"damaged")
    code, (line,) = validate(capsys, savepoint, "--json")
    assert code == 1
    assert json.loads(line)["finding"] == "problem"
    code, (line,) = validate(capsys, savepoint / "none")
    assert (code, "does not exist" in line) == (1, True)


@pytest.mark.parametrize("where", ["before", "claimed"])
def test_what_a_killed_write_has_left(capsys: pytest.CaptureFixture[str], savepoint: Path, where: str) -> None:
    (savepoint / "notes").write_text("of the user")
    before = names(savepoint)
    killed(savepoint, where)
    left = names(savepoint) - before
    assert left
    code, lines = validate(capsys, savepoint)
    assert (code, lines[-1]) == (0, IN_ORDER.format(len(before) - 2))
    assert {line.rpartition(": ")[2] for line in lines[:-1]} == left
    assert all(line.startswith("left by a write that was killed; --repair removes it") for line in lines[:-1])
    assert names(savepoint) == before | left
    code, lines = validate(capsys, savepoint, "--repair", "--json")
    assert code == 0
    assert {(found["finding"], found["file"]) for found in map(json.loads, lines)} == {("removed", name) for name in left}
    assert names(savepoint) == before
    assert validate(capsys, savepoint, "--repair")[1] == [IN_ORDER.format(len(before) - 2)]


def test_a_killed_write_to_an_empty_directory(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    killed(tmp_path, "before")
    left = names(tmp_path)
    code, lines = validate(capsys, tmp_path, "--repair")
    assert code == 1
    assert set(lines[:-1]) == {f"removed: {name}" for name in left}
    assert "does not contain _metadata" in lines[-1]
    assert names(tmp_path) == set()


def test_writes_that_go_on_keep_their_files(capsys: pytest.CaptureFixture[str], savepoint: Path) -> None:
    alive = {
        "mine-open": this_process(),
        "mine-abababab-keyed-0-0": b"",
        "other-claim": b'{"machine": "x", "pid": 1, "started": "1"}',
    }
    for name, content in alive.items():
        (savepoint / name).write_bytes(content)
    before = names(savepoint)
    code, lines = validate(capsys, savepoint, "--repair")
    assert code == 0
    assert {line.rpartition(": ")[2] for line in lines[:-1]} == set(alive)
    assert all(line.startswith("of a write that is running or was started on another machine") for line in lines[:-1])
    assert names(savepoint) == before


@pytest.mark.parametrize("metadata", [None, b"", b"damaged"])
def test_files_of_a_savepoint_without_a_metadata_to_read_stay(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, metadata: bytes | None
) -> None:
    (tmp_path / "lost-abababab-keyed-0-0").write_bytes(b"state")
    if metadata is not None:
        (tmp_path / METADATA_FILE).write_bytes(metadata)
    before = names(tmp_path)
    code, lines = validate(capsys, tmp_path, "--repair")
    assert code == 1
    assert lines[0].endswith("or of a savepoint without a readable _metadata: lost-abababab-keyed-0-0")
    assert names(tmp_path) == before


def test_a_checkpoint_that_names_files_of_a_claimed_savepoint(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    savepoint = tmp_path / "savepoints" / SAVEPOINT
    checkpoint = claimed_checkpoint(tmp_path / "checkpoints", savepoint)
    code, (line,) = all_said(capsys, checkpoint)
    assert code == 1
    assert "Pass --allow DIR: DIR is the directory of that savepoint. 12 files are missing for this reason" in line
    allowed = ("--allow", savepoint.parent)
    bug = (
        "Flink can't restore this checkpoint (its bug FLINK-39964): 12 files are in the savepoint that the job claimed, "
        f"{savepoint}, and Flink looks for them in {checkpoint}. To restore it: "
    )
    assert all_said(capsys, checkpoint, *allowed) == (1, [f"{bug}--repair records their paths"])
    moved = tmp_path / "moved"
    shutil.copytree(tmp_path / "checkpoints", moved / "checkpoints")
    copy = moved / checkpoint.relative_to(tmp_path)
    code, (line,) = all_said(capsys, copy, *allowed)
    assert (code, line.rpartition(": ")[2]) == (1, "state-processor copy makes a savepoint of it")
    code, lines = all_said(capsys, checkpoint, *allowed, "--repair", "--json")
    assert code == 0
    assert json.loads(lines[0]) == {"finding": "repaired", "savepoint": str(savepoint)}
    code, (line,) = validate(capsys, checkpoint, "--values", *allowed, "--repair")
    checksums = "the checksums of 24 blocks in files of RocksDB are right"
    assert (code, line) == (0, f"22 files are present, 2 headers of operator state fit, {checksums}, 410 rows are decodable")
    assert cli.main(["copy", str(copy), str(tmp_path / "copied"), *map(str, allowed)]) == 0
    assert validate(capsys, tmp_path / "copied")[0] == 0


def test_what_could_not_be_checked_is_an_exit_code(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The key groups of POJOs follow from code."""
    key = sp.Types.POJO("com.acme.Id", {"a": sp.Types.LONG()})
    writer = sp.arrow.SavepointWriter.new(128, "1.20")
    rows = [{"key": {"a": 1}, "total": 2}]
    states = {"total": sp.ValueState(sp.Types.LONG())}
    writer.with_keyed_state("orders", rows, key_type=key, key_hash=lambda keys: pc.struct_field(keys, "a"), states=states)
    writer.write(tmp_path / "written")
    assert validate(capsys, tmp_path / "written")[0] == 0
    code, lines = validate(capsys, tmp_path / "written", "--values")
    assert code == 3
    assert lines[0].startswith("key groups can't be checked, because user code computes hashCode of the keys:  operator ")
