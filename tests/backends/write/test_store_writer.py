"""Stores of native savepoints: sorted entries, files, refusals. tests/interop restores them in Flink."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.backends.files.changes import FileSink
from state_processor.backends.formats.entry_framing import entry_spans, spans_at
from state_processor.backends.metadata.handles import ByteStreamStateHandle, KeyGroupRange, RelativeFileStateHandle
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.state.descriptions import StateDescription, keyed_header, register
from state_processor.backends.write import store_writer
from state_processor.backends.write.assembly import commit_savepoint
from state_processor.backends.write.entry_encoder import ORDERED_BLOBS, BlobAddress, KeyedStateEncoder
from state_processor.backends.write.keyed_formats import StoreFormat
from state_processor.backends.write.keyed_writer import KeyedStateWriter, KeyedSubtask
from state_processor.backends.write.sorted_entries import first_of_keys, order_of_keys
from state_processor.backends.write.staging import Staging
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.support.errors import InvalidRowError, OptionError, ScratchSpaceError
from tests.backends.operator_files import SubtaskHandles, new_operator

LONG, STRING, VOID = NumberSerializer("LONG"), StringSerializer(), VoidNamespaceSerializer()
TOTAL = StateDescription.of("total", "VALUE", STRING, VOID, value=LONG)
ITEMS = StateDescription.of("items", "MAP", STRING, VOID, STRING, LONG)


def framed(entries: list[tuple[bytes, bytes]]) -> np.ndarray[Any, Any]:
    parts = [len(part).to_bytes(4, "big") + part for entry in entries for part in entry]
    return np.frombuffer(b"".join(parts), dtype=np.uint8)


@pytest.mark.parametrize("prefix", [1, 2])
def test_entries_are_sorted_by_all_bytes_of_their_keys(prefix: int) -> None:
    """Keys that begin alike for longer than a word, that begin others, with zeros at their ends, with high bytes."""
    stems = [b"", b"\0", b"\0\0", b"a", b"a\0", b"\xff", b"same beginning", b"same beginning\0", b"same beginning, too", b"same"]
    keys = [b"\1" * prefix + stem + bytes([n]) * n for stem in stems for n in range(4)]
    entries = [(key, str(number).encode()) for number, key in enumerate(dict.fromkeys(keys))]
    shuffled = [entries[i] for i in np.random.default_rng(7).permutation(len(entries))]
    data = framed(shuffled)
    rows = spans_at(data, order_of_keys(data, prefix)).tolist()
    assert [(bytes(data[a:b]), bytes(data[c:d])) for a, b, c, d in rows] == sorted(entries)


@given(
    st.lists(
        st.tuples(st.sampled_from([b"", b"a", b"the same 8", b"the same beginning of many"]), st.binary(max_size=20)),
        max_size=300,
    ),
    st.booleans(),
)
def test_equal_keys_keep_their_order(parts: list[tuple[bytes, bytes]], are_sorted: bool) -> None:
    """Keys of any length, a hundred that agree in a word and more, and those that come sorted."""
    keys = [b"\1" + stem + rest for stem, rest in parts for _ in range(len(rest) % 3 + 1)]
    keys = sorted(keys) if are_sorted else keys
    data = framed([(key, b"") for key in keys])
    as_they_come = (entry_spans(data)[:, 0] - 4).tolist()
    starts = order_of_keys(data, 1)
    assert starts.tolist() == [as_they_come[i] for i in sorted(range(len(keys)), key=keys.__getitem__)]
    before = [b"", *sorted(keys)]
    assert first_of_keys(data, starts).tolist() == [key != before[i] for i, key in enumerate(before[1:])]


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    made = Staging(str(tmp_path / "savepoint"), "token1")
    made.prepare()
    return made


@contextmanager
def writing(staging: Staging, *states: StateDescription) -> Iterator[KeyedStateWriter]:
    names = iter(range(1000))

    @contextmanager
    def open_sink(what: str) -> Iterator[FileSink]:
        with staging.open(staging.file_name("ab" * 16, what, 0, next(names))) as sink:
            yield sink

    header = keyed_header(STRING, [register(s) for s in states])
    with StoreFormat().open_writer(open_sink, KeyedSubtask(header, KeyGroupRange(0, 127), 128, "operator 'o'")) as writer:
        yield writer


def blobs(keys: list[str], *states: tuple[StateDescription, list[Any]]) -> pa.Table:
    encoded = []
    for number, (state, values) in enumerate(states):
        batch = pa.RecordBatch.from_pydict({"key": keys, "value": values})
        encoded += KeyedStateEncoder(state, BlobAddress(number, 1, 128), batch.schema).encode(batch)
    return pa.Table.from_batches(encoded, ORDERED_BLOBS).sort_by([("key_group", "ascending"), ("state", "ascending")])


def rows(staging: Staging, state: str) -> list[Any]:
    snapshot = open_snapshot(staging.directory)
    reader = open_state(StoredOperator(snapshot, snapshot.metadata.operators[0]), state, options=ReadOptions.of(flatten=False))
    return sorted(tuple(row.values()) for split in reader.splits() for b in reader.read(split) for row in b.to_pylist())


@pytest.mark.parametrize("run_bytes", [1 << 20, 100])
def test_a_store_read_back(staging: Staging, run_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that follow each other, and many that overlap, since few entries are sorted at a time, and that are merged."""
    monkeypatch.setattr(store_writer, "_RUN_BYTES", run_bytes)
    monkeypatch.setattr(store_writer, "_FILE_BYTES", 1 << 12)
    keys = [f"key number {n}" for n in range(1000)]
    items = pa.array([[(f"item {i}", n * i) for i in range(n % 3)] for n in range(1000)], pa.map_(pa.string(), pa.int64()))
    with writing(staging, TOTAL, ITEMS) as writer:
        for batch in blobs(keys, (TOTAL, list(range(1000))), (ITEMS, items)).to_batches(max_chunksize=1):
            for begin, end in ((5, None), (0, 5)):  # a key group in two parts; the second part has smaller keys
                parts = list(split_entries(batch.column("blob")[0].as_py()))
                writer.add(batch.column("key_group")[0].as_py(), batch.column("state")[0].as_py(), b"".join(parts[begin:end]))
        handle = writer.close()
    new = new_operator("o", 1, 128, {0: SubtaskHandles(handle)})
    metadata = commit_savepoint(staging, [new], version=4, format="NATIVE", checkpoint_id=7)
    (stored,) = (subtask.managed_keyed for operator in metadata.operators for subtask in operator.subtasks)
    assert stored == replace(handle, checkpoint_id=7)
    assert (writer.entries, handle.shared) == (1999, ())
    names = [file.local_name for file in handle.private]
    tables = [name for name in names if name.endswith(".sst")]
    assert len(tables) == 5
    assert (int(max(tables)[:6]) > 100) == (run_bytes == 100)  # so many files there were
    assert {name[:7] for name in names if not name.endswith(".sst")} == {"CURRENT", "MANIFES", "OPTIONS"}
    streams = {type(file.stream) for file in handle.private}
    assert ByteStreamStateHandle in streams
    assert streams <= {ByteStreamStateHandle, RelativeFileStateHandle}
    assert handle.checkpointed_size == handle.state_size
    assert rows(staging, "total") == sorted(zip(keys, range(1000), strict=True))
    assert rows(staging, "items") == sorted((key, value) for key, value in zip(keys, items.to_pylist(), strict=True) if value)
    snapshot = open_snapshot(staging.directory)
    assert snapshot.metadata.properties is not None
    assert snapshot.metadata.properties.format == "NATIVE"


def split_entries(blob: bytes) -> Iterator[bytes]:
    """The framed entries of a blob."""
    position = 0
    while position < len(blob):
        key = position + 4 + int.from_bytes(blob[position : position + 4], "big")
        end = key + 4 + int.from_bytes(blob[key : key + 4], "big")
        yield blob[position:end]
        position = end


def test_a_store_without_entries(staging: Staging) -> None:
    with writing(staging, TOTAL) as writer:
        handle = writer.close()
    commit_savepoint(staging, [new_operator("o", 1, 128, {0: SubtaskHandles(handle)})])
    assert rows(staging, "total") == []


@pytest.mark.parametrize("run_bytes", [1 << 20, 1])
def test_keys_that_occur_twice(staging: Staging, run_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are found when the key group is complete, also if its parts are sorted one by one."""
    monkeypatch.setattr(store_writer, "_RUN_BYTES", run_bytes)
    keys = [f"key number {n}" for n in range(2000)]
    table = blobs(keys, (TOTAL, list(range(2000)))).to_pylist()
    again = next(split_entries(table[5]["blob"]))
    refused = r"operator 'o': state 'total', key group .*: key 'key number \d+' occurs more than once"
    with writing(staging, TOTAL) as writer:
        add_all(writer, table[:6])
        with pytest.raises(InvalidRowError, match=refused):
            add_all(writer, [{**table[5], "blob": again}, table[6]])


def add_all(writer: KeyedStateWriter, table: list[dict[str, Any]]) -> None:
    for blob in table:
        writer.add(blob["key_group"], blob["state"], blob["blob"])


@pytest.mark.parametrize("data", [b"\0\0\0\1\5\0\0\0\1", b"\0\0"])
def test_damaged_entries(data: bytes, staging: Staging) -> None:
    (blob,) = blobs(["a"], (TOTAL, [1])).to_pylist()
    with (
        writing(staging, TOTAL) as writer,
        pytest.raises(OptionError, match=f"byte {len(blob['blob'])} of a blob is not the beginning"),
    ):
        writer.add(blob["key_group"], 0, blob["blob"] + data)


def test_a_state_that_has_the_name_of_a_column_family() -> None:
    StoreFormat().check_states([register(TOTAL)], "operator 'o'")
    with pytest.raises(OptionError, match="operator 'o': RocksDB has no place for a state named 'default'"):
        StoreFormat().check_states([register(TOTAL), replace(register(TOTAL), name="default")], "operator 'o'")


def test_no_room_for_files(staging: Staging, monkeypatch: pytest.MonkeyPatch) -> None:
    """RocksDB reports that the disk refuses; nothing is left in the scratch space."""
    (blob,) = blobs(["a"], (TOTAL, [1])).to_pylist()
    directories: list[Path] = []
    make = store_writer.NewStore.__init__

    def without_directory(self: Any, directory: Path, *arguments: Any) -> None:
        make(self, directory, *arguments)
        directories.append(directory)
        directory.rmdir()
        directory.write_bytes(b"a file")

    monkeypatch.setattr(store_writer.NewStore, "__init__", without_directory)
    with writing(staging, TOTAL) as writer:
        writer.add(blob["key_group"], 0, blob["blob"])
        with pytest.raises(
            ScratchSpaceError, match=r"operator 'o': files of RocksDB can't be written to .*: .*Set STATE_PROCESSOR_SCRATCH"
        ):
            writer.close()
    directories[0].unlink(missing_ok=True)
    assert [p.name for p in Path(staging.directory).iterdir()] == ["token1-open"]
