"""A ``_metadata`` that is read in parts gives the same result as from memory, with one window in memory."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state_processor.backends.metadata import handle_layouts, snapshot_metadata
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.handles import StoredPart
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.snapshot_metadata import (
    CheckpointMetadata,
    OperatorState,
    OperatorSubtaskState,
    read_metadata,
    write_metadata,
)
from state_processor.support.errors import CorruptSnapshotError, StateProcessorError
from tests.backends.snapshot_corpus import metadata_files
from tests.backends.strategies import metadata


class File:
    """Bytes instead of a file; they record the reads."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self.largest = 0

    def read(self, offset: int, length: int) -> memoryview:
        assert 0 <= offset <= offset + length <= self.size
        self.largest = max(self.largest, length)
        return memoryview(self.data)[offset : offset + length]


@given(value=metadata(), window=st.integers(1, 40), smallest=st.integers(0, 8))
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_windows_of_all_sizes(value: CheckpointMetadata, window: int, smallest: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handle_layouts, "_WINDOW", window)
        patch.setattr(handle_layouts, "_LARGE", smallest)
        data = write_metadata(value)
        read = read_metadata(File(data))
        assert read == value
        assert write_metadata(read) == data


@pytest.mark.parametrize("file", metadata_files(), ids=str)
def test_real_files_and_their_beginnings(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cut gives the error, with the position, that it gives in memory."""
    monkeypatch.setattr(handle_layouts, "_WINDOW", 64)
    monkeypatch.setattr(handle_layouts, "_LARGE", 4)
    data = file.read_bytes()
    assert read_metadata(File(data)) == read_metadata(data)
    for end in random.Random(5).sample(range(len(data)), min(20, len(data))):
        with pytest.raises(StateProcessorError) as in_memory:
            read_metadata(data[:end], "cut")
        with pytest.raises(type(in_memory.value)) as in_parts:
            read_metadata(File(data[:end]), "cut")
        assert str(in_parts.value) == str(in_memory.value)


def test_a_part_is_like_bytes() -> None:
    content = bytes(range(100))
    part, same = StoredPart(File(b"before" + content + b"after"), 6, 100), StoredPart(File(content), 0, 100)
    assert (len(part), bytes(part), bytes(part[3:5]), bytes(part[98:200]), bytes(part[50:20])) == (
        100,
        content,
        b"\3\4",
        b"bc",
        b"",
    )
    assert part == same == content
    assert part != StoredPart(File(content), 1, 99)
    one, other = (h.ByteStreamStateHandle("inline", data) for data in (part, content))
    assert (one, hash(one)) == (other, hash(other))
    assert type(pickle.loads(pickle.dumps(one)).data) is bytes


def test_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inline state stays in the file. Its content and the digest are the same as in memory."""
    contents = [bytes([n]) * 300_000 for n in range(8)]
    streams = [h.ByteStreamStateHandle(f"inline-{n}", content) for n, content in enumerate(contents)]
    subtasks = [
        OperatorSubtaskState(n, raw_keyed=h.KeyGroupsStateHandle(3, h.KeyGroupRange(n, n), h.Offsets.of([0]), stream))
        for n, stream in enumerate(streams)
    ]
    operator = OperatorState("00" * 16, 8, 8, tuple(subtasks))
    data = write_metadata(CheckpointMetadata(3, 1, (operator,)))
    (tmp_path / "_metadata").write_bytes(data)
    in_memory = open_snapshot(tmp_path)
    monkeypatch.setattr(snapshot_metadata, "LARGE_METADATA", len(data) - 1)
    in_parts = open_snapshot(tmp_path)
    assert in_parts.digest == in_memory.digest
    assert in_parts.metadata == in_memory.metadata
    for subtask, content in zip(in_parts.metadata.operators[0].subtasks, contents, strict=True):
        handle = subtask.raw_keyed
        assert isinstance(handle, h.KeyGroupsStateHandle)
        assert isinstance(handle.stream, h.ByteStreamStateHandle)
        assert isinstance(handle.stream.data, StoredPart)
        stream = in_parts.open(handle.stream)
        assert bytes(stream.read()) == content
        assert bytes(pickle.loads(pickle.dumps(stream)).read(10, 5)) == content[10:15]
    file = File(data)
    read_metadata(file)
    assert file.largest <= 1 << 20


def test_a_part_that_ends_behind_the_file() -> None:
    handle = h.KeyGroupsStateHandle(3, h.KeyGroupRange(0, 0), h.Offsets.of([0]), h.ByteStreamStateHandle("n", bytes(1000)))
    data = write_metadata(
        CheckpointMetadata(3, 1, (OperatorState("00" * 16, 1, 1, (OperatorSubtaskState(0, managed_keyed=handle),)),))
    )
    with pytest.raises(CorruptSnapshotError, match="inline state of 1000 bytes announced"):
        read_metadata(File(data[:-500]))
