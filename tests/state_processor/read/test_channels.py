"""Records in flight as rows: what real Flink wrote, and buffers that are made here."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState, read_metadata, write_metadata
from tests import corpus
from tests.state_processor.samples import ORDERS_PATH

HASH = sp.OperatorIdentifier.for_uid("own").uid_hash
OTHER = bytes(range(16))


def element(tag: int, rest: bytes) -> bytes:
    """Return an element with its length, as Flink writes it into buffers."""
    return struct.pack(">ib", 1 + len(rest), tag) + rest


def number(value: int, time: int | None = None) -> bytes:
    """Return a record of type LONG."""
    return element(1, struct.pack(">q", value)) if time is None else element(0, struct.pack(">qq", time, value))


EVENTS = [
    (element(2, struct.pack(">q", 99)), "watermark", 99, None),
    (
        element(3, struct.pack(">q", 5) + OTHER + struct.pack(">i", 3)),
        "latency_marker",
        5,
        f"from operator {OTHER.hex()}, subtask 3",
    ),
    (element(4, struct.pack(">i", -1)), "watermark_status", None, "idle"),
    (element(4, struct.pack(">i", 0)), "watermark_status", None, "active"),
    (element(5, b"\1"), "record_attributes", None, "backlog"),
    (element(5, b"\0"), "record_attributes", None, "no backlog"),
    (element(6, struct.pack(">iq", 7, 98)), "internal_watermark", 98, "of subpartition 7"),
]


def channel(*pieces: bytes) -> tuple[h.ByteStreamStateHandle, h.Offsets, int]:
    data, offsets = struct.pack(">i", 0), []
    for piece in pieces:
        offsets.append(len(data))
        data += struct.pack(">i", len(piece)) + piece
    return h.ByteStreamStateHandle("channels", data), h.Offsets.of(offsets), len(data)


def snapshot(
    path: Path, inputs: dict[tuple[int, int], tuple[bytes, ...]], outputs: dict[tuple[int, int], tuple[bytes, ...]]
) -> str:
    """Write the metadata of a snapshot with an operator that has buffers, by gate and channel."""
    made = [(place, channel(*pieces)) for place, pieces in inputs.items()]
    sent = [(place, channel(*pieces)) for place, pieces in outputs.items()]
    subtask = OperatorSubtaskState(
        index=1,
        input_channels=tuple(h.InputChannelStateHandle(1, *place, at, size, file) for place, (file, at, size) in made),
        result_subpartitions=tuple(
            h.ResultSubpartitionStateHandle(1, *place, at, size, file) for place, (file, at, size) in sent
        ),
    )
    operator = OperatorState(operator_id=HASH, parallelism=2, max_parallelism=128, subtasks=(subtask,), uid="own")
    metadata = read_metadata((Path(ORDERS_PATH) / "_metadata").read_bytes())
    (path / "_metadata").write_bytes(write_metadata(replace(metadata, operators=(operator,))))
    return str(path)


def rows(path: str, type_: Any = "LONG", **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sp.arrow.read_channel_records(path, "own", type_, **options).read_all().to_pylist()
    return found


def test_elements_of_all_kinds_are_rows(tmp_path: Path) -> None:
    events = [data for data, *_ in EVENTS]
    path = snapshot(tmp_path, {(0, 2): (number(10), b"".join(events), number(11, 5))}, {})
    found = rows(path)
    assert {(row["subtask"], row["direction"], row["gate"], row["channel"]) for row in found} == {(1, "input", 0, 2)}
    assert [row["index"] for row in found] == list(range(len(events) + 2))
    assert [(row["kind"], row["timestamp"], row["record"], row["detail"]) for row in found] == [
        ("record", None, 10, None),
        *((kind, time, None, detail) for _, kind, time, detail in EVENTS),
        ("record", 5, 11, None),
    ]


def test_records_are_put_together_from_buffers_and_the_rest_is_named(tmp_path: Path) -> None:
    whole = b"".join(number(value) for value in range(4))
    pieces = (whole[:7], whole[7:8], whole[8:30], whole[30:] + number(9)[:7])
    path = snapshot(tmp_path, {(0, 0): pieces, (1, 0): (number(5) + b"\0\0",)}, {})
    found = rows(path, gate=0)
    assert [row["record"] for row in found] == [0, 1, 2, 3, None]
    assert (found[-1]["kind"], found[-1]["detail"]) == ("incomplete", "3 of 9 bytes of a record")
    assert [(row["kind"], row["detail"]) for row in rows(path, gate=1)] == [
        ("record", None),
        ("incomplete", "2 of the 4 bytes of a length"),
    ]


def test_an_output_can_begin_with_the_rest_of_a_record(tmp_path: Path) -> None:
    rest = number(7)[6:]
    path = snapshot(tmp_path, {}, {(0, 1): (rest + number(8), number(9)), (0, 2): (number(6),), (0, 3): (b"\xff\xff\xff",)})
    found = rows(path, direction="output")
    assert [(row["channel"], row["kind"], row["record"]) for row in found] == [
        (1, "continued", None),
        (1, "record", 8),
        (1, "record", 9),
        (2, "record", 6),
        (3, "incomplete", None),
    ]
    assert found[0]["detail"] == f"{len(rest)} bytes of a record that began before"


def test_arguments_that_do_not_fit(tmp_path: Path) -> None:
    path = snapshot(tmp_path, {(0, 0): (number(1),), (2, 0): (element(1, b"\0\0\0\5"),)}, {})
    assert [row["record"] for row in rows(path, "INT", gate=2)] == [5]
    with pytest.raises(sp.CorruptSnapshotError, match=r"subtask 1, input 2/0.*another type than LONG.*gate=2"):
        rows(path)
    with pytest.raises(sp.OptionError, match=r"gate=1: there is no data in flight; the gates with data are: input 0, input 2"):
        rows(path, gate=1)
    with pytest.raises(sp.OptionError, match="direction='up': expected 'input' or 'output'"):
        rows(path, direction="up")
    with pytest.raises(sp.OptionError, match="type=7: expected a type"):
        rows(path, 7)
    with pytest.raises(sp.NotFoundError, match="others"):
        sp.arrow.read_channel_records(path, "others", "LONG")


def test_an_operator_without_buffers_has_no_rows() -> None:
    found = sp.arrow.read_channel_records(ORDERS_PATH, "orders", sp.Types.STRING()).read_all()
    assert (found.num_rows, found.schema.field("record").type) == (0, "string")


@pytest.mark.parametrize("case", corpus.packed_cases("in-flight-*"), ids=lambda case: case.id)
def test_records_that_flink_wrote_continue_those_that_it_processed(case: corpus.Case) -> None:
    """The source has sent the numbers from 0 to 2999. The operator has processed some; all others are in flight, in order."""
    processed = {row["list_value"] for row in sp.arrow.read_state(case.snapshot, "slow", "history").read_all().to_pylist()}
    found = sp.arrow.read_channel_records(case.snapshot, "slow", sp.Types.INT()).read_all().to_pylist()
    records = [row for row in found if row["kind"] == "record"]
    assert len(records) > 100
    numbers = [row["record"] for row in records]
    assert sorted([*processed, *numbers]) == list(range(3000))
    for subtask in {row["subtask"] for row in records}:
        of_one = [row["record"] for row in records if row["subtask"] == subtask]
        assert of_one == sorted(of_one)
    listed = sp.arrow.read_channel_state(case.snapshot, "slow").to_pylist()
    assert sum(channel["record_count"] for channel in listed) == sum(
        row["kind"] not in ("incomplete", "continued") for row in found
    )
