"""Positions of bytes in buffers."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from state_processor.backends.analysis.stored_bytes import positions

FEW_LETTERS = st.text("ab", max_size=300).map(str.encode)


@given(FEW_LETTERS, st.text("ab", min_size=1, max_size=5).map(str.encode))
def test_all_positions_are_found(data: bytes, pattern: bytes) -> None:
    expected = [match.start() for match in re.finditer(b"(?=" + pattern + b")", data)]
    assert positions(np.frombuffer(data, dtype=np.uint8), pattern).tolist() == expected


def test_positions_in_and_across_pieces_and_more_than_the_first_room() -> None:
    data = b"-".join([b"alice"] * 9000)
    found = positions(np.frombuffer(data, dtype=np.uint8), b"alice")
    assert found.tolist() == list(range(0, len(data), 6))
