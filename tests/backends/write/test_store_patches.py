"""Changes on top of a store, read with this library's RocksDB. tests/interop reads them with Flink's."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from state_processor.backends.files.changes import FileSink
from state_processor.backends.formats.sst.manifest import read_manifest, write_manifest
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.state.descriptions import StateDescription, keyed_header, register
from state_processor.backends.write import store_writer
from state_processor.backends.write.assembly import commit_savepoint
from state_processor.backends.write.carried_files import BaseStore
from state_processor.backends.write.entry_encoder import NEW, TOMBSTONES, Blob, BlobAddress, KeyedStateEncoder
from state_processor.backends.write.keyed_formats import StoreFormat
from state_processor.backends.write.keyed_writer import KeyedStateWriter, KeyedSubtask
from state_processor.backends.write.staging import Staging
from state_processor.backends.write.tombstones import ChangeCounts, EntryMerge, TombstoneEncoder
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.runtime.namespaces import TimerSerializer, VoidNamespaceSerializer
from state_processor.support.errors import CorruptSnapshotError, UnsupportedFormatError
from tests.backends.operator_files import SubtaskHandles, new_operator

LONG, STRING, VOID = NumberSerializer("LONG"), StringSerializer(), VoidNamespaceSerializer()
TOTAL = StateDescription.of("total", "VALUE", STRING, VOID, value=STRING)
SLOTS = StateDescription.of("slots", "REDUCING", STRING, LONG, value=STRING)
ITEMS = StateDescription.of("items", "MAP", STRING, VOID, STRING, STRING)
OTHER = StateDescription.of("other", "VALUE", STRING, VOID, value=STRING)
QUEUE = "_timer_state/event_user-timers"
TIMERS = StateDescription.of(QUEUE, "EVENT_TIMER", STRING, LONG, None, TimerSerializer(STRING, LONG))
STATES = (TOTAL, SLOTS, ITEMS, OTHER, TIMERS)
COLUMNS = {
    "total": ("key",),
    "slots": ("key", "namespace"),
    "items": ("key", "map_key"),
    "other": ("key",),
    QUEUE: ("key", "namespace", "timestamp"),
}
NAMES = tuple(state.name for state in STATES)
Content = dict[tuple[str, tuple[Any, ...]], str]
"""Values by state and by key, with the namespace or the key of a map's entry."""


def batches(content: Content, encoder: type[KeyedStateEncoder] | type[TombstoneEncoder], depth: int = 3) -> list[dict[str, Any]]:
    """The blobs of entries, or of markers that have so many of the columns of a key."""
    found = []
    for number, state in enumerate(STATES):
        columns = COLUMNS[state.name][:depth]
        rows = [(key[:depth], value) for (name, key), value in content.items() if name == state.name]
        if not rows:
            continue
        table = {column: pa.array([key[i] for key, _ in rows]) for i, column in enumerate(columns)}
        if encoder is KeyedStateEncoder and not state.is_timer:
            table["map_value" if state is ITEMS else "value"] = pa.array([value for _, value in rows])
        batch = pa.RecordBatch.from_pydict(table)
        encode = encoder(state, BlobAddress(number, 1, 128), batch.schema).encode(batch)
        found += [row for blobs in encode for row in blobs.to_pylist()]
    return found


@contextmanager
def writing(staging: Staging, base: BaseStore | None) -> Iterator[KeyedStateWriter]:
    names = iter(range(1000))

    @contextmanager
    def open_sink(what: str) -> Iterator[FileSink]:
        with staging.open(staging.file_name("ab" * 16, what, 0, next(names))) as sink:
            yield sink

    header = keyed_header(STRING, [register(s) for s in STATES])
    with StoreFormat().open_writer(open_sink, KeyedSubtask(header, h.KeyGroupRange(0, 127), 128, "operator 'o'"), base) as writer:
        yield writer


def write(path: Path, base: BaseStore | None, markers: list[dict[str, Any]], entries: list[dict[str, Any]]) -> Snapshot:
    """A savepoint of one operator."""
    return write_and_count(path, base, markers, entries)[0]


def write_and_count(
    path: Path, base: BaseStore | None, markers: list[dict[str, Any]], entries: list[dict[str, Any]]
) -> tuple[Snapshot, dict[str, ChangeCounts]]:
    """A savepoint of one operator, and the changes to its states."""
    staging = Staging(str(path), "token1")
    staging.prepare()
    phases = [(blob, TOMBSTONES) for blob in markers] + [(blob, NEW) for blob in entries]
    blobs = [
        Blob(blob["key_group"], blob["state"], phase, blob["count"], np.frombuffer(blob["blob"], dtype=np.uint8))
        for blob, phase in phases
    ]
    with writing(staging, base) as writer:
        merge = EntryMerge(STATES, frozenset(), 128, [writer] * len(STATES), "operator 'o'")
        for blob in sorted(blobs, key=lambda b: b[:3]):
            merge.add(blob)
        merge.end_tombstones()
        handle = writer.close()
    commit_savepoint(staging, [new_operator("o", 1, 128, {0: SubtaskHandles(handle)})], version=4, format="NATIVE")
    return open_snapshot(path), merge.changes()


def store(snapshot: Snapshot, **options: Any) -> BaseStore:
    handle = snapshot.metadata.operators[0].subtasks[0].managed_keyed
    assert isinstance(handle, h.IncrementalRemoteKeyedStateHandle)
    changes = {"patched": frozenset({*NAMES[:3], QUEUE}), "scanned": frozenset({QUEUE})}
    return BaseStore(snapshot, handle, frozenset(NAMES), **changes | options)


def content(snapshot: Snapshot) -> Content:
    found: Content = {}
    for state in NAMES:
        reader = open_state(StoredOperator(snapshot, snapshot.metadata.operators[0]), state, options=ReadOptions())
        for row in (row for split in reader.splits() for b in reader.read(split) for row in b.to_pylist()):
            value = "" if state == QUEUE else row["map_value" if state == "items" else "value"]
            found[state, tuple(row[column] for column in COLUMNS[state])] = value
    return found


def random_key(state: str, random: random.Random) -> tuple[str, tuple[Any, ...]]:
    """Keys that begin others, and have bytes of all kinds."""
    key = random.choice(["", "a", "aa", "\x7f", "ÿ", "key", "key "]) * random.randrange(3) + str(random.randrange(30))
    return state, ((key,), (key, random.randrange(-2, 3)), (key, f"item {random.randrange(4)}"), (key,))[NAMES.index(state)]


def expected_counts(new: set[Any], removed: set[Any], absent: set[Any]) -> ChangeCounts:
    """Changes by new entries, entries that tombstones cover, and tombstones that cover nothing."""
    updated = len(new & removed)
    return ChangeCounts(len(new), len(new) - updated, updated, len(removed) - updated, len(absent))


@pytest.mark.parametrize("lookup_bytes", [0, 1 << 40])
@pytest.mark.parametrize(("seed", "buffer"), [(1, None), (2, None), (3, 1 << 16)])
def test_patches_on_top_of_each_other(
    seed: int, buffer: int | None, lookup_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random ones: entries put, entries deleted, and all of a key; a small buffer makes many files of one patch.

    Keys are looked up for the counts, or found by reading their key groups.
    """
    monkeypatch.setattr(store_writer, "_LOOKUP_BYTES", lookup_bytes)
    if buffer is not None:
        monkeypatch.setattr(store_writer, "_CHANGES_BYTES", buffer)
    rng = random.Random(seed)
    size = 3000 if buffer else 10

    def some(count: int, names: tuple[str, ...] = NAMES[:3]) -> Content:
        return {random_key(rng.choice(names), rng): rng.randbytes(size).hex() for _ in range(count)}

    expected = some(200, NAMES[:4])
    snapshot = write(tmp_path / "0", None, [], batches(expected, KeyedStateEncoder))
    assert content(snapshot) == expected
    tables: set[str] = set()
    for number in range(1, 6):
        base = store(snapshot)
        new, gone, keys = some(60), some(40), some(20)
        markers = batches(gone, TombstoneEncoder) + batches(keys, TombstoneEncoder, depth=1)
        covered = {(state, key[0]) for state, key in keys}
        removed = {p for p in expected if p in gone or (p[0], p[1][0]) in covered}
        marked = {*gone, *((state, key[:1]) for state, key in keys)}
        absent = {p for p in marked if not any(p == (found[0], found[1][: len(p[1])]) for found in expected | new)}
        expected = {p: v for p, v in expected.items() if p not in removed} | new
        snapshot, counts = write_and_count(tmp_path / str(number), base, markers, batches(new, KeyedStateEncoder))
        assert content(snapshot) == expected, number
        for name in NAMES[:3]:
            of_state = [{p for p in found if p[0] == name} for found in (new, removed, absent)]
            assert counts[name] == expected_counts(*of_state), (number, name)
        names = {file.local_name for file in store(snapshot).handle.files if file.local_name.endswith(".sst")}
        assert tables < names
        assert len(names - tables) >= (3 if buffer is None else 6)
        tables = names


def test_a_key_that_is_deleted_twice(tmp_path: Path) -> None:
    """Rows in two batches: entries that are put stay, and a deletion is written once."""
    entries = {("total", (f"key {n}",)): "old" for n in range(10)}
    snapshot = write(tmp_path / "0", None, [], batches(entries, KeyedStateEncoder))
    markers = batches(dict.fromkeys(list(entries)[:6], ""), TombstoneEncoder) * 2
    new = dict.fromkeys(list(entries)[3:5], "new")
    patched = write(tmp_path / "1", store(snapshot), markers, batches(new, KeyedStateEncoder))
    assert content(patched) == dict(list(entries.items())[6:]) | new
    counts = [
        count for file in sorted(store(patched).handle.files, key=lambda f: f.local_name) for count in deletions(patched, file)
    ]
    assert counts == [0, 4]


def deletions(snapshot: Snapshot, file: h.LocalFile) -> list[int]:
    """The number of deleted keys that the properties of a table name."""
    data = bytes(snapshot.open(file.stream).read()) if file.local_name.endswith(".sst") else b""
    return [data[match.end()] for match in re.finditer(rb"deleted\.keys", data)]


def test_files_of_unchanged_states_are_not_read(tmp_path: Path) -> None:
    """The content of their tables is not read: here it is not a table of RocksDB, and a shared file is elsewhere."""
    entries = {("total", (f"key {n}",)): random.Random(n).randbytes(100).hex() for n in range(1000)}
    snapshot = write(tmp_path / "base", None, [], batches(entries, KeyedStateEncoder))
    (file,) = (file for file in store(snapshot).handle.files if file.local_name.endswith(".sst"))
    assert isinstance(file.stream, h.RelativeFileStateHandle)
    table = tmp_path / "base" / file.stream.path
    table.write_bytes(bytes(table.stat().st_size))
    markers = batches({("slots", ("key 1", 1)): ""}, TombstoneEncoder)
    copied = store(write(tmp_path / "copied", store(snapshot), markers, []))
    shared = store(write(tmp_path / "shared", store(snapshot, shares_files=True), markers, []))
    streams = [{file.local_name: file.stream for file in base.handle.files} for base in (store(snapshot), copied, shared)]
    name = file.local_name
    assert bytes(copied.snapshot.open(streams[1][name]).read()) == table.read_bytes()
    assert streams[2][name] == h.FileStateHandle(table.stat().st_size, f"file:{table}")
    assert isinstance(streams[1][name], h.RelativeFileStateHandle)
    assert all(len(found) == len(streams[0]) + 1 for found in streams[1:])


def largest_table(snapshot: Snapshot) -> tuple[str, Path]:
    """Local name and place of the largest file."""
    file = max(store(snapshot).handle.files, key=lambda file: file.stream.state_size)
    assert isinstance(file.stream, h.RelativeFileStateHandle)
    return file.local_name, Path(snapshot.directory) / file.stream.path


@pytest.mark.parametrize("of_namespace", [True, False])
def test_timers_of_keys_are_deleted(of_namespace: bool, tmp_path: Path) -> None:
    """They are found by reading the timers of the key group, and no other column family."""
    timers = {(QUEUE, (f"key {n % 70}", n % 3, 1000 * (n % 7) - 3000)): "" for n in range(400)}
    totals = {("total", (f"key {n}",)): random.Random(n).randbytes(100).hex() for n in range(1000)}
    snapshot = write(tmp_path / "base", None, [], batches(timers | totals, KeyedStateEncoder))
    (name, table) = largest_table(snapshot)
    data = table.read_bytes()
    table.write_bytes(bytes(len(data)))  # totals: not a table of RocksDB
    depth = 2 if of_namespace else 1
    gone = {(QUEUE, (f"key {n}", 1)): "" for n in (1, 5, 69, 1000)}
    patched = write(tmp_path / "patched", store(snapshot), batches(gone, TombstoneEncoder, depth), [])
    assert largest_table(patched)[0] == name
    largest_table(patched)[1].write_bytes(data)
    reader = open_state(StoredOperator(patched, patched.metadata.operators[0]), QUEUE, options=ReadOptions())
    found = {tuple(row[c] for c in COLUMNS[QUEUE]) for s in reader.splits() for b in reader.read(s) for row in b.to_pylist()}
    covered = {key[:depth] for _, key in gone}
    assert found == {key for _, key in timers if key[:depth] not in covered}
    assert len(found) < len(timers)
    names = [{f.local_name for f in store(s).handle.files if f.local_name.endswith(".sst")} for s in (snapshot, patched)]
    assert len(names[1] - names[0]) == 1
    assert names[0] < names[1]


def test_dropped_column_families(tmp_path: Path) -> None:
    """Their files are left out, and no other family gets their ids."""
    entries = {(state, ("key", 1) if len(COLUMNS[state]) == 2 else ("key",)): "x" for state in ("total", "slots", "other")}
    snapshot = write(tmp_path / "base", None, [], batches(entries, KeyedStateEncoder))
    base = replace(store(snapshot), kept_families=frozenset({"slots"}), patched=frozenset(), scanned=frozenset())
    new = {("total", ("another",)): "y"}
    patched = write(tmp_path / "patched", base, [], batches(new, KeyedStateEncoder))
    assert content(patched) == {("slots", ("key", 1)): "x"} | new
    before, after = (manifest(store(s)) for s in (snapshot, patched))
    assert sorted(after.values()) == [QUEUE, "default", "items", "other", "slots", "total"]
    assert {number for number, name in after.items() if name != "default"} & before.keys() == {
        number for number, name in before.items() if name == "slots"
    }


def manifest(base: BaseStore) -> dict[int, str]:
    """Names of column families by their ids."""
    (stream,) = (file.stream for file in base.handle.files if file.local_name.startswith("MANIFEST"))
    found = read_manifest(base.snapshot.open(stream).read(), "here")
    return {number: family.name for number, family in found.families.items()}


def without(name: str) -> Callable[[h.LocalFile], h.LocalFile | None]:
    return lambda file: None if file.local_name.startswith(name) or file.local_name.endswith(name) else file


def comparing_otherwise(file: h.LocalFile) -> h.LocalFile:
    if not file.local_name.startswith("MANIFEST"):
        return file
    assert isinstance(file.stream, h.ByteStreamStateHandle)
    found = read_manifest(file.stream.data, "here")
    families = {n: replace(family, comparator=b"rocksdb.ReverseBytewiseComparator") for n, family in found.families.items()}
    data = write_manifest(replace(found, families=families))
    return h.LocalFile(file.local_name, h.ByteStreamStateHandle(file.stream.name, data))


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (without("CURRENT"), CorruptSnapshotError, "the file CURRENT is missing in the snapshot"),
        (without("MANIFEST"), CorruptSnapshotError, "CURRENT names 'MANIFEST-"),
        (without(".sst"), CorruptSnapshotError, r"\d+.sst has \d+ bytes in the manifest and no in the snapshot"),
        (comparing_otherwise, UnsupportedFormatError, "its keys are not in the order of their bytes"),
    ],
)
def test_stores_that_can_not_be_patched(
    change: Callable[[h.LocalFile], h.LocalFile | None], kind: type[Exception], message: str, tmp_path: Path
) -> None:
    snapshot = write(tmp_path / "base", None, [], batches({("total", ("key",)): "x"}, KeyedStateEncoder))
    base = store(snapshot)
    files = tuple(changed for file in base.handle.private if (changed := change(file)) is not None)
    with pytest.raises(kind, match=f"^operator 'o', store .*: {message}"):
        write(tmp_path / "patched", replace(base, handle=replace(base.handle, private=files)), [], [])
