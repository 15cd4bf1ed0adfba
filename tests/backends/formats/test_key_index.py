"""Entries of some keys among others."""

from __future__ import annotations

import random

import numpy as np
import pytest

from state_processor.backends.formats import framing
from state_processor.backends.formats.key_index import KeyIndex, SerializedKeys


def entries_of(parts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Bytes, and entries whose first parts these are; the key group is the number of the entry."""
    ends = np.cumsum([len(p) for p in parts])
    table = np.array([[e - len(p), e, 0, 0, i] for i, (p, e) in enumerate(zip(parts, ends, strict=True))], dtype=np.int64)
    return np.frombuffer(b"".join(parts), dtype=np.uint8), table


@pytest.mark.parametrize(
    ("keys", "kept"),
    [([], []), ([b""], [*range(4)]), ([b"ab"], [0, 2]), ([b"abc"], [2]), ([b"b"], [1]), ([b"x", b"b", b"ab"], [0, 1, 2])],
)
def test_keys_are_kept_by_their_first_bytes(keys: list[bytes], kept: list[int]) -> None:
    found = KeyIndex(SerializedKeys.of(keys)).keep(*entries_of([b"ab", b"b", b"abc", b""]))
    assert found[:, framing.KEY_GROUP].tolist() == kept


def test_what_is_in_front_of_a_key_and_behind_it_does_not_count() -> None:
    data, table = entries_of([b"12ab.", b"12a.", b"12abc", b"1", b"ab12."])
    assert KeyIndex(SerializedKeys.of([b"ab", b"a"]), 2, 1).keep(data, table)[:, framing.KEY_GROUP].tolist() == [0, 1, 2]
    data, table = entries_of([b"12ab.", b"12a.", b"12abc", b"1", b"ab12."])
    assert KeyIndex(SerializedKeys.of([b"ab"]), 2, 1).keep(data, table)[:, framing.KEY_GROUP].tolist() == [0, 2]


@pytest.mark.parametrize("size", [1, 7, 8, 9, 16, 31])
def test_many_keys_of_one_size(size: int) -> None:
    chance = random.Random(size)
    every = [chance.randbytes(size) for _ in range(3000)] + [bytes(size - 1) + bytes([i]) for i in range(256)]
    wanted = every[::3]
    found = KeyIndex(SerializedKeys.of(wanted), 0, 0).keep(*entries_of(every))
    assert found[:, framing.KEY_GROUP].tolist() == [i for i, key in enumerate(every) if key in set(wanted)]


def test_serialized_keys_are_bytes_again() -> None:
    keys = [b"", b"a", b"", b"bcd"]
    assert list(SerializedKeys.of(keys)) == keys
    assert len(SerializedKeys.of([])) == 0
