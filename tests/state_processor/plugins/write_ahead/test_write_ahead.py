"""Pending checkpoints of write-ahead sinks: bytes that Flink 1.20 and 2.3 wrote alike."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import state_processor as sp
from state_processor.errors import CorruptSnapshotError, InvalidRowError
from state_processor.serializers.runtime.wrapping import JavaSerializer

STATE = "pending-checkpoints"
AT = datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)
IN_FILE, IN_MEMORY, RELATIVE = (
    bytes.fromhex(text)
    for text in (
        (
            "aced0005737200546f72672e6170616368652e666c696e6b2e73747265616d696e672e72756e74696d652e6f70657261746f72732e47656e"
            "657269635772697465416865616453696e6b2450656e64696e67436865636b706f696e74ce712151783f694d0200044a000c636865636b70"
            "6f696e7449644900097375627461736b49644a000974696d657374616d704c000b737461746548616e646c657400324c6f72672f61706163"
            "68652f666c696e6b2f72756e74696d652f73746174652f53747265616d537461746548616e646c653b787000000000000000070000000000"
            "00018bcfe5687b737200396f72672e6170616368652e666c696e6b2e72756e74696d652e73746174652e66696c6573797374656d2e46696c"
            "65537461746548616e646c6504dc75d862bd1bb30200024a0009737461746553697a654c000866696c655061746874001f4c6f72672f6170"
            "616368652f666c696e6b2f636f72652f66732f506174683b787000000000000075307372001d6f72672e6170616368652e666c696e6b2e63"
            "6f72652e66732e5061746800000000000000010200014c000375726974000e4c6a6176612f6e65742f5552493b78707372000c6a6176612e"
            "6e65742e555249ac01782e439e49ab0300014c0006737472696e677400124c6a6176612f6c616e672f537472696e673b787074002673333a"
            "2f2f6275636b65742f636865636b706f696e74732f7461736b6f776e65642f3062316378"
        ),
        (
            "aced0005737200546f72672e6170616368652e666c696e6b2e73747265616d696e672e72756e74696d652e6f70657261746f72732e47656e"
            "657269635772697465416865616453696e6b2450656e64696e67436865636b706f696e74ce712151783f694d0200044a000c636865636b70"
            "6f696e7449644900097375627461736b49644a000974696d657374616d704c000b737461746548616e646c657400324c6f72672f61706163"
            "68652f666c696e6b2f72756e74696d652f73746174652f53747265616d537461746548616e646c653b787000000000000000080000000100"
            "00018bcfe5687b7372003b6f72672e6170616368652e666c696e6b2e72756e74696d652e73746174652e6d656d6f72792e42797465537472"
            "65616d537461746548616e646c65b6b8de37f3796da60200025b0004646174617400025b424c000a68616e646c654e616d657400124c6a61"
            "76612f6c616e672f537472696e673b7870757200025b42acf317f8060854e002000078700000000301c803740009696e2d6d656d6f7279"
        ),
        (
            "aced0005737200546f72672e6170616368652e666c696e6b2e73747265616d696e672e72756e74696d652e6f70657261746f72732e47656e"
            "657269635772697465416865616453696e6b2450656e64696e67436865636b706f696e74ce712151783f694d0200044a000c636865636b70"
            "6f696e7449644900097375627461736b49644a000974696d657374616d704c000b737461746548616e646c657400324c6f72672f61706163"
            "68652f666c696e6b2f72756e74696d652f73746174652f53747265616d537461746548616e646c653b787000000000000000090000000200"
            "00018bcfe5687b737200416f72672e6170616368652e666c696e6b2e72756e74696d652e73746174652e66696c6573797374656d2e52656c"
            "617469766546696c65537461746548616e646c6500000000000000010200014c000c72656c6174697665506174687400124c6a6176612f6c"
            "616e672f537472696e673b787200396f72672e6170616368652e666c696e6b2e72756e74696d652e73746174652e66696c6573797374656d"
            "2e46696c65537461746548616e646c6504dc75d862bd1bb30200024a0009737461746553697a654c000866696c655061746874001f4c6f72"
            "672f6170616368652f666c696e6b2f636f72652f66732f506174683b7870000000000000004d7372001d6f72672e6170616368652e666c69"
            "6e6b2e636f72652e66732e5061746800000000000000010200014c000375726974000e4c6a6176612f6e65742f5552493b78707372000c6a"
            "6176612e6e65742e555249ac01782e439e49ab0300014c0006737472696e6771007e0004787074001366696c653a2f746d702f63686b2d33"
            "2f61626378740003616263"
        ),
    )
)
"""Handles of the classes ``FileStateHandle``, ``ByteStreamStateHandle`` and ``RelativeFileStateHandle``."""


@pytest.fixture
def savepoint(tmp_path: Path) -> str:
    rows = [{"value": data} for data in (IN_FILE, IN_MEMORY, RELATIVE)]
    writer = sp.arrow.SavepointWriter.new(flink_version="1.20")
    writer.with_list_state("sink", STATE, rows, JavaSerializer(), parallelism=2).write(tmp_path / "first")
    return str(tmp_path / "first")


def test_pending_checkpoints_are_rows(savepoint: str) -> None:
    rows = sp.arrow.read_sink_state(savepoint, "sink").to_pylist()
    names = ("role", "pending_checkpoint", "written_by_subtask", "timestamp", "handle", "file", "size", "records")
    found = sorted((tuple(row[name] for name in names) for row in rows), key=lambda row: row[1])
    assert found == [
        ("COMMITTABLE", 7, 0, AT, "FileStateHandle", "s3://bucket/checkpoints/taskowned/0b1c", 30000, None),
        ("COMMITTABLE", 8, 1, AT, "ByteStreamStateHandle", None, 3, b"\x01\xc8\x03"),
        ("COMMITTABLE", 9, 2, AT, "RelativeFileStateHandle", "file:/tmp/chk-3/abc", 77, None),
    ]
    assert sp.arrow.read_sink_state(savepoint, "sink", "write-ahead").num_rows == 3


def test_a_pending_checkpoint_is_left_out(savepoint: str, tmp_path: Path) -> None:
    state = sp.arrow.read_sink_state(savepoint, "sink").to_pylist()
    writer = sp.arrow.SavepointWriter.from_existing(savepoint)
    target = tmp_path / "second"
    writer.with_sink_state("sink", [row for row in state if row["pending_checkpoint"] != 8]).write(target)
    left = {row["value"] for row in sp.arrow.read_state(str(target), "sink", STATE).read_all().to_pylist()}
    assert left == {IN_FILE, RELATIVE}


def test_changes_are_refused(savepoint: str) -> None:
    state = sp.arrow.read_sink_state(savepoint, "sink").to_pylist()
    changed = [state[0] | {"file": "s3://elsewhere/0b1c"}, *state[1:]]
    with pytest.raises(InvalidRowError, match="a pending checkpoint of a write-ahead sink can't be changed: leave out its row"):
        sp.arrow.SavepointWriter.from_existing(savepoint).with_sink_state("sink", changed)


def test_other_objects_are_no_pending_checkpoints(tmp_path: Path) -> None:
    writer = sp.arrow.SavepointWriter.new(flink_version="1.20")
    other = bytes.fromhex("aced00057400017a")
    writer.with_list_state("sink", STATE, [{"value": other}], JavaSerializer(), parallelism=1).write(tmp_path / "first")
    with pytest.raises(CorruptSnapshotError, match=r"a .*PendingCheckpoint expected, found java\.lang\.String"):
        sp.arrow.read_sink_state(str(tmp_path / "first"), "sink", "write-ahead")
    assert sp.arrow.read_sink_state(str(tmp_path / "first"), "sink").column("raw").to_pylist() == [other]


def test_a_damaged_time_is_reported(tmp_path: Path) -> None:
    damaged = IN_FILE.replace(bytes.fromhex("0000018bcfe5687b"), b"\x7f" + bytes(7))
    writer = sp.arrow.SavepointWriter.new(flink_version="1.20")
    writer.with_list_state("sink", STATE, [{"value": damaged}], JavaSerializer(), parallelism=1).write(tmp_path / "first")
    with pytest.raises(CorruptSnapshotError, match=f"timestamp {0x7F << 56}"):
        sp.arrow.read_sink_state(str(tmp_path / "first"), "sink", "write-ahead")
    assert sp.arrow.read_sink_state(str(tmp_path / "first"), "sink").column("raw").to_pylist() == [damaged]
