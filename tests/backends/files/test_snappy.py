from __future__ import annotations

import random

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.backends.files import snappy
from state_processor.support.errors import CorruptSnapshotError
from tests.backends.state_files import snappy as compress

STREAM_IDENTIFIER = b"\xff\x06\0\0sNaPpY"
CHUNK = 1 << 16


def plain_chunk(data: bytes) -> bytes:
    """A chunk that is not compressed, with the checksum that cramjam computes for it."""
    checksum = compress(data)[14:18]
    return b"\x01" + (len(data) + 4).to_bytes(3, "little") + checksum + data


def test_chunks_by_hand() -> None:
    stream = STREAM_IDENTIFIER + plain_chunk(b"one") + plain_chunk(b"three")
    assert bytes(snappy.decompress(stream, "f")) == b"onethree"
    assert snappy.chunk_positions(stream, "f") == {0: 0, 10: 0, 21: 3}


def test_a_compressed_block_tells_its_length_first() -> None:
    data = bytes(range(10)) * 1000
    stream = compress(data)
    assert stream[10] == 0  # a compressed chunk
    joined = stream + plain_chunk(b"end")
    assert snappy.chunk_positions(joined, "f") == {0: 0, 10: 0, len(stream): len(data)}


def test_large_streams_have_a_position_per_chunk() -> None:
    data = random.Random(1).randbytes(CHUNK) + bytes(CHUNK) + b"rest"
    stream = compress(data)
    assert sorted(set(snappy.chunk_positions(stream, "f").values())) == [0, CHUNK, 2 * CHUNK]
    assert bytes(snappy.decompress(stream, "f")) == data


def test_streams_after_one_another() -> None:
    stream = compress(b"abc") + STREAM_IDENTIFIER + compress(b"def")
    assert bytes(snappy.decompress(stream, "f")) == b"abcdef"


def test_skippable_chunks_hold_nothing() -> None:
    stream = STREAM_IDENTIFIER + b"\xfe\x02\0\0pp" + plain_chunk(b"x")
    assert bytes(snappy.decompress(stream, "f")) == b"x"
    assert snappy.chunk_positions(stream, "f") == {0: 0, 10: 0, 16: 0}


def test_nothing_is_nothing() -> None:
    assert len(snappy.decompress(b"", "f")) == 0
    assert snappy.chunk_positions(b"", "f") == {}


def test_the_result_cannot_be_written_to() -> None:
    assert not snappy.decompress(compress(b"abc"), "f").flags.writeable


def test_errors_say_where() -> None:
    damaged = bytearray(compress(b"some text"))
    damaged[-1] ^= 1
    with pytest.raises(CorruptSnapshotError, match=r"^file, offset 7: not a snappy stream"):
        snappy.decompress(bytes(damaged), "file, offset 7")
    with pytest.raises(CorruptSnapshotError, match=r"^file, offset 10: a snappy chunk of 7 bytes is cut off"):
        snappy.chunk_positions(STREAM_IDENTIFIER + plain_chunk(b"one")[:-1], "file")


@given(st.binary(min_size=1, max_size=200), st.data())
def test_damage_is_an_error_or_the_same_length(content: bytes, data) -> None:
    stream = bytearray(cramjam.snappy.compress(content))
    at = data.draw(st.integers(0, len(stream) - 1))
    stream[at] ^= data.draw(st.integers(1, 255))
    cut = bytes(stream[: data.draw(st.integers(0, len(stream)))])
    for read in (snappy.decompress, snappy.chunk_positions):
        try:
            found = read(cut, "f")
        except CorruptSnapshotError:
            continue
        assert len(found) <= max(len(content), len(cut))
