"""Raw state and in-flight data through the public API."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState, read_metadata, write_metadata
from state_processor.spark.datasource import FlinkSavepointDataSource, StatePartition
from tests import corpus
from tests.state_processor.samples import ORDERS_PATH

HASH = sp.OperatorIdentifier.for_uid("own").uid_hash
CHANNEL_SLOTS = ("input channel", "result subpartition")
CHANNEL = struct.pack(">ii", 0, 12) + struct.pack(">i1si3s", 1, b"a", 3, b"bcd")


def subtask(index: int) -> OperatorSubtaskState:
    """Key groups 64 ``index`` + 1 and + 3 have raw keyed state; two partitions of raw operator state; one channel each way."""
    groups = h.KeyGroupRange(64 * index, 64 * index + 63)
    offsets = h.Offsets.of([-1, 0, -1, 3, *[-1] * 60])
    written = h.OperatorStateMeta("_default_", h.SPLIT_DISTRIBUTE, h.Offsets.of([0, 5]))
    channel = h.ByteStreamStateHandle(f"channel-{index}", CHANNEL)
    return OperatorSubtaskState(
        index=index,
        raw_keyed=h.KeyGroupsStateHandle(h.KEY_GROUPS, groups, offsets, h.ByteStreamStateHandle(f"keyed-{index}", b"onethree")),
        raw_operator=h.OperatorStreamStateHandle((written,), h.ByteStreamStateHandle(f"operator-{index}", b"firstsecond")),
        input_channels=(h.InputChannelStateHandle(index, 0, 1, h.Offsets.of([4]), 16, channel),),
        result_subpartitions=(h.ResultSubpartitionStateHandle(index, 2, 3, h.Offsets.of([4]), 16, channel),),
    )


@pytest.fixture
def path(tmp_path: Path) -> str:
    operator = OperatorState(operator_id=HASH, parallelism=2, max_parallelism=128, subtasks=(subtask(0), subtask(1)), uid="own")
    metadata = read_metadata((Path(ORDERS_PATH) / "_metadata").read_bytes())
    (tmp_path / "_metadata").write_bytes(write_metadata(replace(metadata, operators=(operator,))))
    return str(tmp_path)


KEYED = [(0, 1, b"one"), (0, 3, b"three"), (1, 65, b"one"), (1, 67, b"three")]
OPERATOR = [(0, 0, b"first"), (0, 1, b"second"), (1, 0, b"first"), (1, 1, b"second")]
KINDS = [("RAW_KEYED", "key_group", KEYED), ("RAW_OPERATOR", "partition", OPERATOR)]


def listed(batches: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(("kind", "index", "expected"), KINDS)
def test_raw_state_as_bytes(path: str, kind: str, index: str, expected: list[tuple[int, int, bytes]]) -> None:
    batches = list(sp.arrow.read_raw_state(path, "own", kind))
    assert batches[0].schema == pa.schema([("subtask", pa.int32()), (index, pa.int32()), ("value", pa.binary())])
    assert listed(batches) == expected
    assert listed(sp.arrow.read_state(path, "own", kind=kind)) == expected


@pytest.mark.parametrize(("kind", "index", "expected"), KINDS)
def test_raw_state_in_spark(path: str, kind: str, index: str, expected: list[tuple[int, int, bytes]]) -> None:
    source = FlinkSavepointDataSource({"path": path, "uid": "own", "kind": kind})
    schema = source.schema()
    assert schema.simpleString() == f"struct<subtask:int,{index}:int,value:binary>"
    reader = source.reader(schema)
    parts = reader.partitions()
    assert all(isinstance(part, StatePartition) for part in parts)
    assert [row for part in parts for row in listed(reader.read(part))] == expected


def test_raw_state_is_listed_with_its_size(path: str) -> None:
    states = {row["state_kind"]: row["size_in_bytes"] for row in sp.arrow.states(path).to_pylist()}
    assert states == {"RAW_KEYED": 2 * len(b"onethree"), "RAW_OPERATOR": 2 * len(b"firstsecond")}


def test_what_raw_state_does_not_have(path: str) -> None:
    with pytest.raises(sp.NotFoundError, match="operator 'orders' has no RAW_KEYED state"):
        list(sp.arrow.read_raw_state(ORDERS_PATH, "orders"))
    with pytest.raises(sp.NotFoundError, match="raw state of operator 'own' does not have names, found the name 'total'"):
        list(sp.arrow.read_state(path, "own", "total", kind="RAW_KEYED"))
    with pytest.raises(sp.OptionError, match="keys does not apply to operator 'own', a read of raw state"):
        list(sp.arrow.read_state(path, "own", kind="RAW_OPERATOR", keys=[1]))
    with pytest.raises(sp.OptionError, match=r"ttl does not apply to operator 'own', a read of raw state: .* Leave ttl out"):
        list(sp.arrow.read_state(path, "own", kind="RAW_KEYED", ttl="PT1H", as_of=0))
    with pytest.raises(sp.OptionError, match="types does not apply to operator 'own'"):
        list(sp.arrow.read_state(path, "own", kind="RAW_KEYED", types={"value": sp.Types.LIST(sp.Types.LONG())}))


def test_channels_with_counts_and_bytes(path: str) -> None:
    table = sp.arrow.read_channel_state(path, "own")
    expected = [
        {
            "operator_uid": "own",
            "operator_uid_hash": HASH,
            "subtask": index,
            "direction": direction,
            "gate": gate,
            "channel": channel,
            "size_in_bytes": 16,
            "record_count": 2,
        }
        for index in (0, 1)
        for direction, gate, channel in (("input", 0, 1), ("output", 2, 3))
    ]
    assert table.to_pylist() == expected
    with_bytes = sp.arrow.read_channel_state(path, raw=True)
    assert with_bytes.drop_columns("buffers") == table
    assert with_bytes.column("buffers").to_pylist() == [[CHANNEL[8:]]] * 4
    sizes = [(row["slot"], row["size_in_bytes"]) for row in sp.arrow.handles(path).to_pylist() if row["slot"] in CHANNEL_SLOTS]
    assert sizes == [("input channel", 16), ("result subpartition", 16)] * 2
    assert sp.arrow.read_channel_state(ORDERS_PATH).num_rows == 0
    with pytest.raises(sp.NotFoundError, match="'owm'"):
        sp.arrow.read_channel_state(path, "owm")


@pytest.mark.parametrize("case", corpus.all_cases("*-unaligned"), ids=lambda case: case.id)
def test_real_in_flight_data(case: corpus.Case) -> None:
    channels = sp.arrow.read_channel_state(case.snapshot, raw=True).to_pylist()
    listed_pieces = [row for row in sp.arrow.handles(case.snapshot).to_pylist() if row["slot"] in CHANNEL_SLOTS]
    assert channels
    assert listed_pieces
    assert sum(r["size_in_bytes"] for r in channels) == sum(r["size_in_bytes"] for r in listed_pieces)
    assert sum(r["record_count"] or 0 for r in channels if r["direction"] == "input") > 100
    for row in channels:
        assert sum(4 + len(b) for b in row["buffers"]) in (row["size_in_bytes"], row["size_in_bytes"] - 4)
