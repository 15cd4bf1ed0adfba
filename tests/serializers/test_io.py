"""Java's data input and output."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import DataInput, DataOutput
from state_processor.serializers.io import MOST_EMPTY, decode_modified_utf8, encode_modified_utf8
from state_processor.support.errors import CorruptSnapshotError, OptionError


@pytest.mark.parametrize(
    ("read", "write", "value", "data"),
    [
        (DataInput.read_byte, DataOutput.write_byte, -1, "ff"),
        (DataInput.read_unsigned_byte, DataOutput.write_byte, 255, "ff"),
        (DataInput.read_boolean, DataOutput.write_boolean, True, "01"),
        (DataInput.read_boolean, DataOutput.write_boolean, False, "00"),
        (DataInput.read_short, DataOutput.write_short, -2, "fffe"),
        (DataInput.read_unsigned_short, DataOutput.write_short, 65534, "fffe"),
        (DataInput.read_int, DataOutput.write_int, -(2**31), "80000000"),
        (DataInput.read_long, DataOutput.write_long, 2**63 - 1, "7fffffffffffffff"),
        (DataInput.read_float, DataOutput.write_float, -1.5, "bfc00000"),
        (DataInput.read_double, DataOutput.write_double, math.inf, "7ff0000000000000"),
        (DataInput.read_utf, DataOutput.write_utf, "a\0é€😀", "000e61c080c3a9e282aceda0bdedb880"),
        (DataInput.read_utf, DataOutput.write_utf, "", "0000"),
        (DataInput.read_unsigned_varint, DataOutput.write_unsigned_varint, 127, "7f"),
        (DataInput.read_unsigned_varint, DataOutput.write_unsigned_varint, 128, "8001"),
        (DataInput.read_unsigned_varint, DataOutput.write_unsigned_varint, 2**32 - 1, "ffffffff0f"),
    ],
)
def test_forms(read: Callable[[DataInput], Any], write: Callable[[DataOutput, Any], None], value: Any, data: str) -> None:
    payload = bytes.fromhex(data)
    target = DataOutput()
    write(target, value)
    assert target.to_bytes() == payload
    assert target.position == len(payload)
    source = DataInput(payload)
    assert read(source) == value
    assert source.at_end()
    for size in range(len(payload)):
        with pytest.raises(CorruptSnapshotError, match=r"^bytes, offset \d+: .* announced, "):
            read(DataInput(payload[:size]))


@given(st.text(st.characters()))
def test_modified_utf8(text: str) -> None:
    raw = encode_modified_utf8(text)
    assert decode_modified_utf8(raw) == text
    assert b"\0" not in raw


def test_text_that_is_not_modified_utf8() -> None:
    with pytest.raises(CorruptSnapshotError, match="offset 0: not modified UTF-8"):
        DataInput(b"\0\1\xff").read_utf()


def test_texts_of_more_than_65535_bytes_have_no_form() -> None:
    with pytest.raises(OptionError, match=r"the name 'x+'… has 65,536 bytes; Java writes names of at most 65,535 bytes"):
        DataOutput().write_utf("x" * 65536)


def test_errors_name_source_and_offset_in_the_whole_data() -> None:
    source = DataInput(bytes(10), "chk-1/abc", position=4, end=7)
    source.skip(2)
    with pytest.raises(CorruptSnapshotError, match=r"^chk-1/abc, offset 6: int of 4 bytes announced, 1 left$"):
        source.read_int()
    assert source.remaining == 1


@pytest.mark.parametrize("size", [-1, 11, 2**62])
def test_sizes_are_checked(size: int) -> None:
    with pytest.raises(CorruptSnapshotError, match=f"of {size} bytes announced, 10 left"):
        DataInput(bytes(10)).read_bytes(size)
    with pytest.raises(CorruptSnapshotError, match=f"of {size} bytes announced, 10 left"):
        DataInput(bytes(10)).skip(size)


@pytest.mark.parametrize(
    ("count", "min_size", "accepted"),
    [
        (-1, 1, False),
        (0, 1, True),
        (3, 1, True),
        (4, 1, False),
        (1, 3, True),
        (2, 2, False),
        (MOST_EMPTY, 0, True),
        (MOST_EMPTY + 1, 0, False),
    ],
)
def test_counts_are_checked_against_what_is_left(count: int, min_size: int, accepted: bool) -> None:
    source = DataInput(struct.pack(">i", count) + bytes(3))
    if accepted:
        assert source.read_count("things", min_size) == count
    else:
        with pytest.raises(CorruptSnapshotError, match=f"offset 0: {count} things announced, 3 bytes left"):
            source.read_count("things", min_size)


def test_lists_have_a_count() -> None:
    source = DataInput(struct.pack(">ihh", 2, 7, 8) + b"\1")
    assert source.read_list("shorts", DataInput.read_short, 2) == [7, 8]
    assert source.remaining == 1
    with pytest.raises(CorruptSnapshotError, match="3 shorts announced, 2 bytes left"):
        DataInput(struct.pack(">ih", 3, 7)).read_list("shorts", DataInput.read_short, 2)


@pytest.mark.parametrize("byte", [2, 255])
def test_booleans_are_zero_or_one(byte: int) -> None:
    with pytest.raises(CorruptSnapshotError, match=f"offset 0: boolean expected, found byte {byte}"):
        DataInput(bytes([byte])).read_boolean()


def test_endless_varint() -> None:
    with pytest.raises(CorruptSnapshotError, match=r"offset 0: .* more than five bytes"):
        DataInput(b"\x80" * 9).read_unsigned_varint()
