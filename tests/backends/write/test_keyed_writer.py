"""Files of keyed and operator state: their bytes, refusals and their messages, bounded memory, abort and commit.

That Flink restores them is the business of tests/interop.
"""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from state_processor.backends.metadata.handles import KeyGroupRange
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.state.descriptions import StateDescription, keyed_header, register
from state_processor.backends.write.assembly import commit_savepoint, metadata_version
from state_processor.backends.write.entry_encoder import NEW, ORDERED_BLOBS, BlobAddress, KeyedStateEncoder
from state_processor.backends.write.keyed_writer import KeyedStateFileWriter, KeyedSubtask
from state_processor.backends.write.staging import Staging
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.rows import TupleSerializer
from state_processor.serializers.runtime.namespaces import TimeWindowSerializer, VoidNamespaceSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.support.errors import InvalidRowError, OptionError
from tests.backends.operator_files import OperatorColumnsWriter, SubtaskHandles, new_operator
from tests.backends.write.blob_files import write_blobs

LONG, INT, STRING, VOID = NumberSerializer("LONG"), NumberSerializer("INT"), StringSerializer(), VoidNamespaceSerializer()
TOTAL = StateDescription.of("total", "VALUE", LONG, VOID, value=LONG)
NAMES = StateDescription.of("names", "LIST", LONG, VOID, value=STRING)
ITEMS = StateDescription.of("items", "MAP", STRING, STRING, STRING, STRING)


def encode(state: StateDescription, columns: dict[str, Any], max_parallelism: int = 128, **options: Any) -> list[dict[str, Any]]:
    batch = pa.RecordBatch.from_pydict(columns)
    encoder = KeyedStateEncoder(state, BlobAddress(0, 2, max_parallelism), batch.schema, **options)
    return [blob for blobs in encoder.encode(batch) for blob in blobs.to_pylist()]


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    made = Staging(str(tmp_path / "savepoint"), "token1")
    made.prepare()
    return made


def writer(staging: Staging, *states: StateDescription, groups: KeyGroupRange | None = None) -> KeyedStateFileWriter:
    header = keyed_header(LONG, [register(s) for s in states])
    return KeyedStateFileWriter(
        staging.open("file"), KeyedSubtask(header, groups or KeyGroupRange(0, 127), 128, "operator 'o', subtask 0")
    )


def test_entries_byte_by_byte() -> None:
    (blob,) = encode(TOTAL, {"key": [-12345678901], "value": [7]})
    assert blob == {
        "subtask": 1,
        "key_group": 69,
        "phase": NEW,
        "state": 0,
        "count": 1,
        "blob": bytes.fromhex("0000000a45fffffffd2023e3cb00000000080000000000000007"),
    }


def test_suffixes_and_two_bytes_of_key_group() -> None:
    """Key and namespace of variable length are followed by their lengths, each in base 256."""
    namespace = "n" * 300
    (blob,) = encode(
        ITEMS, {"key": ["key-0"], "namespace": [namespace], "map_key": ["a"], "map_value": pa.array([None], pa.string())}, 1000
    )
    key = b"\x06key-0"
    space = bytes([0xAD, 0x02]) + namespace.encode()
    whole = (919).to_bytes(2, "big") + key + b"\x06" + space + b"\x2e\x01" + b"\x02a"
    assert blob["blob"] == len(whole).to_bytes(4, "big") + whole + b"\0\0\0\x01" + b"\x01"


def test_rows_without_entries_and_with_many() -> None:
    assert encode(TOTAL, {"key": [1, 2], "value": pa.array([None, 3], pa.int64())})[0]["count"] == 1
    blobs = encode(NAMES, {"key": [1, 2, 3], "value": [None, [], ["a", "", "€"]]})
    assert [b["blob"][18:] for b in blobs] == [b"\x02a,\x01,\x02\xac\x41"]
    maps = pa.array([[("a", "1"), ("b", None)], [], None], pa.map_(pa.string(), pa.string()))
    blobs = encode(ITEMS, {"key": ["k"] * 3, "namespace": ["", "", ""], "value": maps})
    assert [b["count"] for b in blobs] == [2]


def test_ttl_from_a_column_from_lists_and_constant() -> None:
    state = StateDescription.of("s", "LIST", LONG, VOID, value=TtlSerializer.of(INT))
    times = pa.timestamp("us", tz="UTC")
    both = [5_000, None]
    rows = {"key": [1], "value": pa.array([[7, 8]], pa.list_(pa.int32()))}
    (own,) = encode(state, {**rows, "_last_access": pa.array([both], pa.list_(times))}, last_access=9)
    (common,) = encode(state, {**rows, "_last_access": pa.array([5_000], times)}, last_access=9)
    (constant,) = encode(state, rows, last_access=9)
    elements = [[int.from_bytes(b["blob"][18 + i : 26 + i], "big") for i in (0, 13)] for b in (own, common, constant)]
    assert elements == [[5, 9], [5, 5], [9, 9]]
    with pytest.raises(InvalidRowError, match="has 1 times, the value 2 elements"):
        encode(state, {**rows, "_last_access": pa.array([[1]], pa.list_(times))})


POINT = PojoSerializer.of("Point", {"x": INT, "names": TupleSerializer([STRING, LONG])})


@pytest.mark.parametrize(
    ("state", "columns", "problem"),
    [
        (TOTAL, {"key": [1, None], "value": [1, 2]}, r"state 'total', key None, value 2: column key of row 1 is null"),
        (TOTAL, {"key": [1]}, "column 'value' is missing"),
        (
            TOTAL,
            {"key": ["a"], "value": [1]},
            r"state 'total': column 'key' is of Spark type string; the type LONG takes bigint; cast it: CAST\(key",
        ),
        (
            StateDescription.of("s", "VALUE", INT, VOID, value=INT),
            {"key": [1, 2, 3], "value": [1, 2, 1 << 40]},
            r"key 3, value 1099511627776: column value of row 2 does not fit: 1099511627776",
        ),
        (
            StateDescription.of("s", "VALUE", LONG, VOID, value=POINT),
            {"key": [1, 2], "value": [{"x": 1, "names": {"f0": "a", "f1": 1}}, {"x": 1, "names": {"f0": "a", "f1": None}}]},
            r"key 2, .*column value.names.f1 of row 1 is null; the type can't store null",
        ),
        (
            StateDescription.of("s", "VALUE", LONG, VOID, value=POINT),
            {"key": [1], "value": [{"x": 1, "other": 2}]},
            r"column value is a struct of \(x, other\); the type has the fields \(names, x\)",
        ),
        (
            StateDescription.of("s", "VALUE", LONG, TimeWindowSerializer(), value=LONG),
            {"key": [1], "value": [1]},
            "one column 'namespace' or 'window' is needed",
        ),
    ],
)
def test_rows_that_are_refused(state: StateDescription, columns: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidRowError, match=problem):
        encode(state, columns)


def test_duplicate_key(staging: Staging) -> None:
    many = encode(TOTAL, {"key": list(range(20_000)), "value": list(range(20_000))}, 128)
    file = writer(staging, TOTAL)
    for blob in many:
        file.add(blob["key_group"], 0, blob["blob"])
    last = next(b for b in many if b["key_group"] == 127)
    with pytest.raises(
        InvalidRowError, match=r"operator 'o', subtask 0: state 'total', key group 127: key \d+ occurs more than once"
    ):
        file.add(127, 0, last["blob"])


def test_foreign_key_groups_and_order(staging: Staging) -> None:
    (blob,) = encode(TOTAL, {"key": [-12345678901], "value": [7]})
    with pytest.raises(InvalidRowError, match="key group 69 has come to the subtask of 0 to 63"):
        writer(staging, TOTAL, groups=KeyGroupRange(0, 63)).add(69, 0, blob["blob"])
    with pytest.raises(InvalidRowError, match="key -12345678901 is of another key group"):
        writer(staging, TOTAL).add(68, 0, blob["blob"])
    file = writer(staging, TOTAL, NAMES)
    file.add(69, 1, blob["blob"])
    with pytest.raises(OptionError, match="sort by both"):
        file.add(69, 0, blob["blob"])
    with pytest.raises(OptionError, match="not the beginning of a framed entry"):
        writer(staging, TOTAL).add(69, 0, blob["blob"][:-1])


def test_savepoint_read_back(staging: Staging) -> None:
    keys = list(range(1000))
    blobs = [
        *encode(TOTAL, {"key": keys, "value": [k * k for k in keys]}),
        *({**b, "state": 1} for b in encode(NAMES, {"key": keys, "value": [[str(k)] * (k % 3) for k in keys]})),
    ]
    table = pa.Table.from_pylist(blobs, ORDERED_BLOBS).sort_by([("key_group", "ascending"), ("state", "ascending")])
    file = writer(staging, TOTAL, NAMES)
    keyed = write_blobs(file, table.to_batches())
    lists = [
        StateDescription.of("pending", "OPERATOR_LIST", value=STRING),
        StateDescription.of("rules", "BROADCAST", STRING, value=LONG),
    ]
    operator = OperatorColumnsWriter(staging.open("token1-lists"), lists)
    operator.add_list("pending", pa.array(["a", "bc"]))
    operator.add_list("pending", pa.array(["d"]))
    with pytest.raises(InvalidRowError, match="key 'x' of row 1 occurs more than once"):
        operator.add_broadcast("rules", pa.array(["x", "x"]), pa.array([1, 2]))
    operator.add_broadcast("rules", pa.array(["x"]), pa.array([1]))
    new = new_operator("o", 1, 128, {0: SubtaskHandles(keyed, operator.close())})
    left_over = staging.open("token1-left-over")
    left_over.close()
    commit_savepoint(staging, [new], version=metadata_version("2.1"), checkpoint_id=7)
    assert sorted(p.name for p in Path(staging.directory).iterdir()) == ["_metadata", "file", "token1-lists"]
    snapshot = open_snapshot(staging.directory)
    found = snapshot.metadata.operators[0]
    assert (snapshot.metadata.version, snapshot.metadata.checkpoint_id, found.uid) == (6, 7, "o")

    def rows(state: str) -> list[Any]:
        reader = open_state(StoredOperator(snapshot, found), state, options=ReadOptions.of(flatten=False))
        return [tuple(row.values()) for split in reader.splits() for b in reader.read(split) for row in b.to_pylist()]

    assert sorted(rows("total")) == [(k, k * k) for k in keys]
    assert sorted(rows("names")) == [(k, [str(k)] * (k % 3)) for k in keys if k % 3]
    assert rows("pending") == [("a",), ("bc",), ("d",)]
    assert rows("rules") == [("x", 1)]


def test_abort_leaves_nothing(tmp_path: Path) -> None:
    staging = Staging(str(tmp_path / "new"), "token1")
    staging.prepare()
    for attempt in range(3):
        with staging.open(staging.file_name("ab" * 16, "keyed", 0, attempt)) as sink:
            sink.write(b"x")
    staging.abort()
    assert not (tmp_path / "new").exists()


def test_existing_savepoint_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "_metadata").write_bytes(b"somebody's")
    with pytest.raises(OptionError, match="holds a savepoint already"):
        Staging(str(tmp_path), "token1").prepare()
    assert (tmp_path / "_metadata").read_bytes() == b"somebody's"


def test_a_handle_of_other_key_groups_is_refused(staging: Staging) -> None:
    handle = writer(staging, TOTAL, groups=KeyGroupRange(0, 63)).close()
    with pytest.raises(OptionError, match="subtask 0: its file holds key groups"):
        new_operator("o", 1, 128, {0: SubtaskHandles(handle)})


@pytest.mark.parametrize(
    ("flink", "version"), [(None, 3), ("1.15", 3), ("1.20.5", 4), ("1.x", 3), ("2.0", 5), ("2.x", 5), ("2.3.0", 6)]
)
def test_metadata_version(flink: str | None, version: int) -> None:
    assert metadata_version(flink) == version


@pytest.mark.parametrize("flink", ["1.12", "latest", "2", "0.x", "x"])
def test_metadata_version_of_nothing(flink: str) -> None:
    with pytest.raises(OptionError):
        metadata_version(flink)


def test_output_grows_with_what_rows_need() -> None:
    """Rows far larger than those before them, entries far more than rows."""
    big = [["x" * 10_000] * 50 if k % 100 == 99 else [] for k in range(1000)]
    blobs = encode(NAMES, {"key": list(range(1000)), "value": big})
    assert sum(b["count"] for b in blobs) == 10
    assert sum(len(b["blob"]) for b in blobs) == 10 * (18 + 50 * 10_002 + 49)
    maps = pa.array([[(str(i), f"{i:09}") for i in range(5000)]], pa.map_(pa.string(), pa.string()))
    (blob,) = encode(ITEMS, {"key": ["k"], "namespace": [""], "value": maps})
    assert blob["count"] == 5000
    assert np.frombuffer(blob["blob"], np.uint8).size > 5000 * 20


class Counted:
    """A file that keeps only its length."""

    name = "counted"
    size = 0

    def write(self, data: bytes) -> None:
        self.size += len(data)

    def close(self) -> None:
        """It does not end."""


def test_a_key_group_that_is_much_larger_than_the_memory_for_it() -> None:
    """Of each key, 16 to 64 bytes are kept to tell duplicates; nothing of the values."""
    size, keys_per_blob = 4096, 250
    frame = np.zeros((keys_per_blob, 18 + size), dtype=np.uint8)  # length, key group, key, namespace, length, value
    frame[:, 3], frame[:, 4] = 10, 7
    frame[:, 14:18] = np.frombuffer(size.to_bytes(4, "big"), np.uint8)
    sink: Any = Counted()
    header = keyed_header(LONG, [register(TOTAL)])
    target = KeyedStateFileWriter(sink, KeyedSubtask(header, KeyGroupRange(0, 127), 128))
    tracemalloc.start()
    for blob in range(200):
        keys = np.arange(blob * keys_per_blob, (blob + 1) * keys_per_blob, dtype=">i8")
        frame[:, 5:13] = keys.view(np.uint8).reshape(-1, 8)
        target.add(7, 0, frame.reshape(-1))
    handle = target.close()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert target.entries == 200 * keys_per_blob
    assert handle.stream.state_size == sink.size > 200_000_000
    assert peak < 20_000_000


def test_one_key_with_a_list_of_a_million(staging: Staging) -> None:
    count = 1_000_000
    names = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), pa.array(range(count)).cast(pa.string()))
    batch = pa.RecordBatch.from_arrays([pa.array([1], pa.int64()), names], names=["key", "value"])
    encoder = KeyedStateEncoder(NAMES, BlobAddress(0, 1, 128), batch.schema)
    handle = write_blobs(writer(staging, NAMES), encoder.encode(batch))
    commit_savepoint(staging, [new_operator("o", 1, 128, {0: SubtaskHandles(handle)})])
    snapshot = open_snapshot(staging.directory)
    reader = open_state(StoredOperator(snapshot, snapshot.metadata.operators[0]), "names")
    found = [b.column("list_value") for split in reader.splits() for b in reader.read(split)]
    assert pa.chunked_array(found).combine_chunks().equals(names.values)
