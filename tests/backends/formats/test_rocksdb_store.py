"""RocksDB's files: reading all or parts of them, and messages about damage."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest

from state_processor.backends.files.storage import Storage
from state_processor.backends.formats import rocksdb_store
from state_processor.backends.formats.sst.manifest import read_manifest, write_manifest
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.read.key_lookup import keys_of
from state_processor.backends.read.keyed_reader import read_state
from state_processor.backends.read.keyed_splits import KeyedHandle, managed_handles
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.stored_operator import find_operator
from state_processor.support.errors import CorruptSnapshotError, MissingFileError, UnsupportedFormatError
from tests.backends.open_stores import close_stores
from tests.corpus import FIXTURES

STATES = ("total", "profile", "history", "items", "session", "_timer_state/event_user-timers")
NATIVE = FIXTURES / "2.3.0" / "orders-rocksdb-native" / "savepoint"
INCREMENTAL = FIXTURES / "1.20.5" / "orders-rocksdb-incremental"


@pytest.fixture(autouse=True)
def own_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("STATE_PROCESSOR_SCRATCH", str(tmp_path / "scratch"))
    close_stores()
    yield
    close_stores()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(NATIVE, tmp_path / "savepoint"))


def handles_of(snapshot: Snapshot) -> list[KeyedHandle]:
    return list(managed_handles(find_operator(snapshot, "orders")))


def rows(
    snapshot: Snapshot, handle: KeyedHandle, state: str = "total", keys: tuple[Any, ...] | None = None, **options: Any
) -> list[str]:
    source = handle.open(snapshot)
    found = source.describe(state)
    assert found is not None
    wanted = None if keys is None else keys_of(found, keys)
    read = read_state(source, found, ReadOptions.of(**options).of_states(), handle.key_groups, wanted)
    return shown(row for batch in read for row in batch.to_pylist())


def shown(found: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(repr({name: value for name, value in row.items() if name != "_key_bytes"}) for row in found)


def changed(handle: KeyedHandle, change: Callable[[h.LocalFile], h.LocalFile | None]) -> KeyedHandle:
    """The handle with other files; ``None`` leaves one out."""
    inner = handle.handle
    assert isinstance(inner, h.IncrementalRemoteKeyedStateHandle)
    private = tuple(f for f in map(change, inner.files) if f is not None)
    return replace(handle, handle=replace(inner, shared=(), private=private))


def largest_sst(handle: KeyedHandle) -> h.LocalFile:
    assert isinstance(handle.handle, h.IncrementalRemoteKeyedStateHandle)
    return max((f for f in handle.handle.files if f.local_name.endswith(".sst")), key=lambda f: f.stream.state_size)


def table_of(snapshot: Snapshot, handle: KeyedHandle, state: str) -> h.LocalFile:
    """A table of a state."""
    assert isinstance(handle.handle, h.IncrementalRemoteKeyedStateHandle)
    names = {file.name for file in rocksdb_store.open_store(snapshot, handle.handle, "").family(state).files}
    close_stores()
    return next(f for f in handle.handle.files if f.local_name in names)


def state_of(snapshot: Snapshot, handle: KeyedHandle, table: h.LocalFile) -> str:
    """The state that a table belongs to."""
    return next(state for state in STATES if table_of(snapshot, handle, state) == table)


def file_of(copy: Path, file: h.LocalFile) -> Path:
    assert isinstance(file.stream, h.RelativeFileStateHandle)
    return copy / file.stream.path


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("most_seeks", [0, 1_000])
def test_looking_up_keys_gives_their_rows_only(state: str, most_seeks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocksdb_store, "_MOST_SEEKS", most_seeks)
    snapshot = open_snapshot(NATIVE)
    keys = ("aoife", "farah", "felix", "clara", "nobody")
    total = 0
    for handle in handles_of(snapshot):
        wanted = [row for row in rows(snapshot, handle, state) if any(f"'key': '{key}'" in row for key in keys)]
        assert rows(snapshot, handle, state, keys=keys) == wanted
        total += len(wanted)
    assert total > 0


@pytest.mark.parametrize("state", STATES)
def test_key_groups_are_read_alone_and_foreign_ones_left_out(state: str) -> None:
    snapshot = open_snapshot(NATIVE)
    handle = handles_of(snapshot)[0]
    inner = handle.handle
    assert isinstance(inner, h.IncrementalRemoteKeyedStateHandle)
    middle = 20
    parts = [
        replace(handle, handle=replace(inner, key_groups=h.KeyGroupRange(inner.key_groups.start, middle))),
        replace(handle, handle=replace(inner, key_groups=h.KeyGroupRange(middle + 1, inner.key_groups.end_inclusive))),
    ]
    first, second = (rows(snapshot, part, state, metadata=True) for part in parts)
    assert first
    assert second
    assert sorted(first + second) == rows(snapshot, handle, state, metadata=True)
    groups = {int(row.split("'_key_group': ")[1].split(",")[0].rstrip("}")) for row in first}
    assert max(groups) <= middle


def inline(snapshot: Snapshot) -> Callable[[h.LocalFile], h.LocalFile]:
    def change(file: h.LocalFile) -> h.LocalFile:
        return replace(file, stream=h.ByteStreamStateHandle(file.local_name, bytes(snapshot.open(file.stream).read())))

    return change


def segments(snapshot: Snapshot, directory: Path) -> Callable[[h.LocalFile], h.LocalFile]:
    merged = directory / "merged"

    def change(file: h.LocalFile) -> h.LocalFile:
        data = bytes(snapshot.open(file.stream).read())
        start = merged.stat().st_size if merged.exists() else 0
        with merged.open("ab") as target:
            target.write(data)
        return replace(file, stream=h.SegmentFileStateHandle(start, len(data), 1, f"file:{merged}", file.local_name))

    return change


@pytest.mark.parametrize("state", STATES)
def test_inline_files_and_slices_give_the_same_rows(state: str, tmp_path: Path) -> None:
    snapshot = open_snapshot(NATIVE, allow_paths=[str(tmp_path)])
    for handle in handles_of(snapshot):
        expected = rows(snapshot, handle, state)
        assert rows(snapshot, changed(handle, inline(snapshot)), state) == expected
        assert rows(snapshot, changed(handle, segments(snapshot, tmp_path)), state) == expected


def test_remote_files_are_read_in_place(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(NATIVE), "/in-place", recursive=True)
    try:
        snapshot, local = open_snapshot("memory:///in-place"), open_snapshot(NATIVE)
        assert [rows(snapshot, x) for x in handles_of(snapshot)] == [rows(local, x) for x in handles_of(local)]
        assert not (tmp_path / "scratch").exists()
    finally:
        memory.rm("/in-place", recursive=True)


@pytest.mark.parametrize("options", [None, b"", b"[Version]\n  rocksdb_version=", b"\x00\xff" * 100])
def test_lists_are_whole_without_flinks_options_file(options: bytes | None) -> None:
    snapshot = open_snapshot(NATIVE)

    def change(file: h.LocalFile) -> h.LocalFile | None:
        if not file.local_name.startswith("OPTIONS"):
            return file
        return None if options is None else replace(file, stream=h.ByteStreamStateHandle("options", options))

    for handle in handles_of(snapshot):
        assert rows(snapshot, changed(handle, change), "history") == rows(snapshot, handle, "history")


def test_a_deleted_sst_is_named(copy: Path) -> None:
    snapshot = open_snapshot(copy)
    handle = handles_of(snapshot)[0]
    sst = table_of(snapshot, handle, "total")
    file_of(copy, sst).unlink()
    told = f"operator 'orders', subtask 0, {sst.local_name}: .*{file_of(copy, sst).name} does not exist"
    with pytest.raises(MissingFileError, match=told):
        rows(snapshot, handle)


def test_a_deleted_shared_file_is_named(tmp_path: Path) -> None:
    root = Path(shutil.copytree(INCREMENTAL / "savepoint", tmp_path / "checkpoints"))
    snapshot = open_snapshot(next(root.glob("*/chk-*")))
    operator = next(o for o in snapshot.metadata.operators if any(s.managed_keyed for s in o.subtasks))
    handle = next(iter(managed_handles(operator)))
    sst = table_of(snapshot, handle, "total")
    name = sst.stream.path.rpartition("/")[2]  # type: ignore[union-attr]
    next(root.glob(f"*/shared/{name}")).unlink()
    with pytest.raises(MissingFileError, match=f"operator .*subtask 0, {sst.local_name}: .*{name}"):
        rows(snapshot, handle)


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"\0"], ids=["shorter", "longer"])
@pytest.mark.parametrize("kind", [".sst", "MANIFEST", "CURRENT"])
def test_a_file_of_another_length_is_named(copy: Path, kind: str, change: Callable[[bytes], bytes]) -> None:
    snapshot = open_snapshot(copy)
    handle = handles_of(snapshot)[0]
    assert isinstance(handle.handle, h.IncrementalRemoteKeyedStateHandle)
    file = table_of(snapshot, handle, "total")
    if kind != ".sst":
        file = next(f for f in handle.handle.files if kind in f.local_name)
    path = file_of(copy, file)
    size = path.stat().st_size
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(MissingFileError, match=f"{file.local_name}: .*bytes; the snapshot records {size}"):
        rows(snapshot, handle)


@pytest.mark.parametrize("part", [0.0, 0.3, 0.6, 0.97])
def test_a_manifest_that_is_cut_off_is_no_smaller_store(part: float) -> None:
    snapshot = open_snapshot(NATIVE)

    def change(file: h.LocalFile) -> h.LocalFile:
        if not file.local_name.startswith("MANIFEST"):
            return file
        data = bytes(snapshot.open(file.stream).read())
        return replace(file, stream=h.ByteStreamStateHandle("manifest", data[: int(part * len(data))]))

    handle = handles_of(snapshot)[0]
    with pytest.raises(CorruptSnapshotError, match=r"operator 'orders', subtask 0, store .* of checkpoint"):
        rows(snapshot, changed(handle, change))


def test_damage_within_an_sst_is_an_error_not_an_end(copy: Path) -> None:
    snapshot = open_snapshot(copy)
    handle = handles_of(snapshot)[0]
    sst = largest_sst(handle)
    path = file_of(copy, sst)
    data = bytearray(path.read_bytes())
    data[20:60] = bytes(40)
    path.write_bytes(data)
    problems = {}
    for state in STATES:
        try:
            rows(snapshot, handle, state)
        except CorruptSnapshotError as e:
            problems[state] = str(e)
    [(state, message)] = problems.items()
    assert state == state_of(snapshot, handle, sst)
    assert f"{sst.local_name} ({path}), block at 0: its checksum is 0x" in message


def test_files_in_each_others_place_are_noticed() -> None:
    snapshot = open_snapshot(NATIVE)
    handle = handles_of(snapshot)[0]
    assert isinstance(handle.handle, h.IncrementalRemoteKeyedStateHandle)
    one, other = table_of(snapshot, handle, "total"), table_of(snapshot, handle, "profile")
    names = {one.local_name: other.local_name, other.local_name: one.local_name}
    swapped = changed(handle, lambda f: replace(f, local_name=names.get(f.local_name, f.local_name)))
    with pytest.raises(CorruptSnapshotError, match=r"\d+\.sst has \d+ bytes in the manifest and \d+ in the snapshot"):
        rows(snapshot, swapped)


def test_a_checkpoint_that_is_deleted_between_planning_and_reading_is_named(copy: Path) -> None:
    snapshot = open_snapshot(copy)
    handle = handles_of(snapshot)[0]
    source = handle.open(snapshot)
    state = source.describe("total")
    assert state is not None
    shutil.rmtree(copy)
    with pytest.raises(MissingFileError, match=r"operator 'orders', subtask 0.*does not exist"):
        list(read_state(source, state, ReadOptions().of_states(), handle.key_groups))


@pytest.mark.parametrize(("name", "size"), [("000077.log", 5), ("000077.blob", 5)])
def test_files_that_flink_does_not_use_are_refused(name: str, size: int) -> None:
    snapshot = open_snapshot(NATIVE)
    handle = handles_of(snapshot)[0]
    assert isinstance(handle.handle, h.IncrementalRemoteKeyedStateHandle)
    extra = h.LocalFile(name, h.ByteStreamStateHandle(name, bytes(size)))
    inner = replace(handle.handle, private=(*handle.handle.private, extra))
    with pytest.raises(UnsupportedFormatError, match=f"{name} is a .*; Flink does not use"):
        rows(snapshot, replace(handle, handle=inner))


@pytest.mark.parametrize(
    ("comparator", "told"),
    [
        (b"leveldb.BytewiseComparator.u64ts", "its keys have user-defined timestamps"),
        (b"rocksdb_store.ReverseBytewiseComparator", "its keys are not in the order of their bytes"),
    ],
)
def test_keys_in_another_order_are_refused(comparator: bytes, told: str) -> None:
    snapshot = open_snapshot(NATIVE)

    def reordered(file: h.LocalFile) -> h.LocalFile:
        if not file.local_name.startswith("MANIFEST"):
            return file
        manifest = read_manifest(snapshot.open(file.stream).read(), "manifest")
        families = {
            number: replace(family, comparator=comparator) if family.name == "total" else family
            for number, family in manifest.families.items()
        }
        data = write_manifest(replace(manifest, families=families))
        return replace(file, stream=h.ByteStreamStateHandle("manifest", data))

    with pytest.raises(UnsupportedFormatError, match=f"state 'total': {told} .comparator .*; write a canonical savepoint"):
        rows(snapshot, changed(handles_of(snapshot)[0], reordered))


@pytest.mark.parametrize("name", ["../000001.sst", "/etc/passwd", ".hidden", ""])
def test_a_name_that_leads_out_of_the_directory_is_refused(name: str) -> None:
    snapshot = open_snapshot(NATIVE)
    handle = changed(handles_of(snapshot)[0], lambda f: replace(f, local_name=name) if f.local_name == "CURRENT" else f)
    with pytest.raises(CorruptSnapshotError, match="is not the name of a RocksDB file"):
        rows(snapshot, handle)


def test_a_state_without_column_family_is_an_error() -> None:
    snapshot = open_snapshot(NATIVE)
    source = handles_of(snapshot)[0].open(snapshot)
    assert isinstance(source, rocksdb_store.RocksDbSource)
    with pytest.raises(CorruptSnapshotError, match="state 'lost' is registered, but its column family is missing"):
        list(source.blocks("lost", h.KeyGroupRange(0, 63)))


@pytest.mark.parametrize("suffix", [".sst", "CURRENT", "MANIFEST"])
def test_a_damaged_file_that_was_copied_again_is_read(suffix: str, copy: Path) -> None:
    """In one process, such as a notebook: an open store has the damaged file."""
    snapshot = open_snapshot(copy)
    handle = handles_of(snapshot)[0]
    assert isinstance(handle.handle, h.IncrementalRemoteKeyedStateHandle)
    streams = {file.local_name: file.stream for file in handle.handle.files}
    paths = [Path(snapshot.open(s).path or "") for name, s in streams.items() if name.endswith(suffix) or name.startswith(suffix)]
    contents = {path: path.read_bytes() for path in paths if path.name}
    assert contents
    for path, content in contents.items():
        path.unlink()
        path.write_bytes(bytes(byte ^ 0x55 for byte in content[:40]) + content[40:])
    for _ in range(2):
        with pytest.raises(CorruptSnapshotError):
            rows(open_snapshot(copy), handle)
    for path, content in contents.items():
        path.unlink()
        path.write_bytes(content)
    assert rows(open_snapshot(copy), handle) == rows(open_snapshot(NATIVE), handle)


def test_an_open_store_is_used_for_the_same_snapshot_and_settings() -> None:
    """Not after its ``_metadata`` was replaced, nor with the credentials of another user."""
    snapshot = open_snapshot(NATIVE)
    (handle,) = {k.handle for k in managed_handles(find_operator(snapshot, "orders", None)) if k.subtask == 0}
    stores = [
        rocksdb_store.open_store(given, handle, "test")
        for given in (
            snapshot,
            open_snapshot(NATIVE),
            replace(snapshot, digest="of another"),
            open_snapshot(NATIVE, storage=Storage({"access_key": "other"})),
        )
    ]
    assert [store is stores[0] for store in stores] == [True, True, False, False]


def test_open_tables_keep_few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables that were used last stay open, with their indexes; at least one."""
    snapshot = open_snapshot(NATIVE)
    handle = handles_of(snapshot)[0]
    expected = rows(snapshot, handle)
    assert isinstance(handle.handle, h.IncrementalRemoteKeyedStateHandle)
    store = rocksdb_store.open_store(snapshot, handle.handle, "test")
    files = list(store.manifest.files)
    assert len(files) > 3
    tables = [store.table(file) for file in files]
    for table in tables:
        table.blocks()
    sizes = [table.kept_bytes for table in tables]
    assert all(size > len(table.tail) for size, table in zip(sizes, tables, strict=True))
    monkeypatch.setattr(rocksdb_store, "_KEPT_BYTES", sum(sizes[-2:]))
    assert store.table(files[-1]) is tables[-1]
    assert store.table(files[-2]) is tables[-2]
    assert store.table(files[0]) is not tables[0]
    monkeypatch.setattr(rocksdb_store, "_KEPT_BYTES", 0)
    table = store.table(files[0])
    assert store.table(files[0]) is table
    assert store.table(files[1]) is not tables[1]
    assert rows(snapshot, handle) == expected
