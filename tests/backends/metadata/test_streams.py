from __future__ import annotations

import pickle

import numpy as np
import pytest

from state_processor.backends.files.recorded_paths import Relocation
from state_processor.backends.files.storage import Storage
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.streams import RecentReads, open_stream
from state_processor.support.errors import CorruptSnapshotError, MissingFileError
from tests.backends.snapshot_corpus import metadata_files, streams

DATA = bytes(range(100))


@pytest.fixture
def open_handle(tmp_path):
    (tmp_path / "chk-1").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "chk-1" / "f").write_bytes(DATA)
    (tmp_path / "shared" / "s").write_bytes(b"before" + DATA + b"after")
    storage = Storage()
    relocation = Relocation(storage, str(tmp_path / "chk-1"))
    return lambda handle, context="": open_stream(handle, storage, relocation, context)


SEGMENT = h.SegmentFileStateHandle(6, 100, 1, "file:/data/job/shared/s", "id")
KINDS = {
    "inline": h.ByteStreamStateHandle("n", DATA),
    "relative": h.RelativeFileStateHandle("f", 100),
    "file": h.FileStateHandle(100, "file:/data/job/chk-1/f"),
    "segment": SEGMENT,
    "key groups": h.KeyGroupsStateHandle(3, h.KeyGroupRange(0, 0), h.Offsets.of([0]), SEGMENT),
}


@pytest.mark.parametrize("handle", KINDS.values(), ids=KINDS)
def test_all_kinds_read_alike(open_handle, handle):
    stream = open_handle(handle)
    assert stream.size == len(stream) == handle.state_size == 100
    assert stream.read() == DATA
    assert stream.read(10, 5) == DATA[10:15]
    assert stream.read(95) == DATA[95:]
    assert stream.read(100) == b""
    assert np.frombuffer(stream.read(1, 3), dtype=np.uint8).tolist() == [1, 2, 3]
    assert pickle.loads(pickle.dumps(stream)).read() == DATA


@pytest.mark.parametrize("handle", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize(("offset", "length"), [(0, 101), (100, 1), (-1, 1), (5, -1), (101, None), (2**62, 2**62)])
def test_outside_is_an_error(open_handle, handle, offset, length):
    with pytest.raises(CorruptSnapshotError, match="it has 100"):
        open_handle(handle).read(offset, length)


def test_descriptions(open_handle, tmp_path):
    described = {name: open_handle(handle).describe() for name, handle in KINDS.items()}
    assert described == {
        "inline": "inline state n",
        "relative": str(tmp_path / "chk-1" / "f"),
        "file": str(tmp_path / "chk-1" / "f"),
        "segment": f"{tmp_path / 'shared' / 's'} [6:106]",
        "key groups": f"{tmp_path / 'shared' / 's'} [6:106]",
    }
    assert open_handle(KINDS["inline"]).path is None
    assert open_handle(SEGMENT).path == str(tmp_path / "shared" / "s")
    assert open_handle(SEGMENT).start == 6


def test_an_empty_segment_needs_no_file(open_handle):
    stream = open_handle(h.EmptySegmentFileStateHandle())
    assert (stream.size, stream.read(), stream.describe()) == (0, b"", "empty segment")


@pytest.mark.parametrize(
    "handle",
    [
        h.RelativeFileStateHandle("f", 101),
        h.FileStateHandle(101, "/data/job/chk-1/f"),
        h.SegmentFileStateHandle(50, 62, 1, "/data/job/shared/s", "id"),
    ],
)
def test_a_file_shorter_than_recorded(open_handle, handle):
    with pytest.raises(MissingFileError, match=r"operator orders: .* has (100|111) bytes") as e:
        open_handle(handle, "operator orders").read(0, 1)
    assert "101" in str(e.value) or "112" in str(e.value)


def test_a_missing_file(open_handle):
    with pytest.raises(MissingFileError, match=r"operator orders: .*chk-1/nowhere does not exist"):
        open_handle(h.RelativeFileStateHandle("nowhere", 1), "operator orders").read()


@pytest.mark.parametrize("file", metadata_files())
def test_every_stream_of_real_snapshots_is_read(file):
    snapshot = open_snapshot(file)
    handles = list(streams(snapshot.metadata.operators))
    assert [len(snapshot.open(handle).read()) for handle in handles] == [handle.state_size for handle in handles]


class _Counted:
    """A stream that counts its reads."""

    def __init__(self, data):
        self.data, self.reads = data, []

    def read(self, offset, length):
        self.reads.append((offset, length))
        return memoryview(self.data)[offset : offset + length]


def test_recent_reads_are_kept():
    stream = _Counted(DATA)
    recent = RecentReads(stream)
    for _ in range(3):
        for offset in (0, 10, 20, 30):
            assert recent.read(offset, 10) == DATA[offset : offset + 10]
    assert stream.reads == [(0, 10), (10, 10), (20, 10), (30, 10)]
    assert recent.read(40, 10) == DATA[40:50]  # takes the place of the oldest
    assert recent.read(10, 10) == DATA[10:20]
    assert recent.read(0, 10) == DATA[:10]
    assert stream.reads[4:] == [(40, 10), (0, 10)]


def test_large_reads_are_not_kept():
    stream = _Counted(bytes(5 << 20))
    recent = RecentReads(stream)
    for _ in range(2):
        assert len(recent.read(0, 5 << 20)) == 5 << 20
    assert len(stream.reads) == 2
