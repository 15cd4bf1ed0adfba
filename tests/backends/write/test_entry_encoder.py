"""Checks of the entries that are written: places of elements, keys of one key group."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import count, islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor import Types
from state_processor.backends.formats import entry_framing as framing
from state_processor.backends.formats.entry_framing import KeyFilter
from state_processor.backends.state.descriptions import LIST, ListDescription
from state_processor.backends.write import entry_encoder
from state_processor.backends.write.entry_encoder import BlobAddress, KeyedStateEncoder, compile_entries
from state_processor.serializers.kernel.encode.program import EncodeOptions
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.support.errors import InvalidRowError


def _rows(places: list[list[int] | None]) -> pa.RecordBatch:
    values = [None if one is None else [7] * len(one) for one in places]
    columns = [pa.array(range(len(places))), pa.array(values, pa.list_(pa.int64())), pa.array(places, pa.list_(pa.int32()))]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value", "list_index"])


def _encode(batch: pa.RecordBatch) -> int:
    state = ListDescription("items", LIST, Types.LONG(), Types.LONG(), VoidNamespaceSerializer())
    encoder = KeyedStateEncoder(state, BlobAddress(0, 1, 8), batch.schema)
    return sum(sum(blobs.column("count").to_pylist()) for blobs in encoder.encode(batch))


@pytest.mark.parametrize("seed", range(20))
def test_places_of_elements_are_checked_in_pieces(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_encoder, "_PIECE", 4)
    rng = random.Random(seed)
    lengths = [rng.choice([0, 1, 3, 4, 5, 9, None]) for _ in range(12)] + [6]
    places = [None if n is None else list(range(n)) for n in lengths]
    assert _encode(_rows(places)) == sum(1 for one in places if one)
    row = rng.choice([i for i, one in enumerate(places) if one])
    wrong = places[row]
    assert wrong is not None
    wrong[rng.randrange(len(wrong))] += rng.choice([-1, 1, 100])
    with pytest.raises(InvalidRowError, match=rf"key {row}: list_index of its elements"):
        _encode(_rows(places))


@pytest.mark.parametrize("places", [[[0, 1, 2]], [[]], [None]])
def test_one_row_is_one_blob(places: list[list[int] | None]) -> None:
    assert _encode(_rows(places)) == bool(places[0])


def test_rows_of_the_same_columns_have_the_same_program() -> None:
    state = ListDescription("items", LIST, Types.LONG(), Types.LONG(), VoidNamespaceSerializer())
    rows = pa.schema([("key", pa.int64()), ("value", pa.list_(pa.int64()))])
    narrow = pa.schema([("key", pa.int32()), ("value", pa.list_(pa.int64()))])
    program = compile_entries(state, rows, 8, EncodeOptions(), {"value": "numbers"})
    assert compile_entries(state, narrow, 8, EncodeOptions()) is program  # columns are converted before
    assert compile_entries(state, rows, 300, EncodeOptions()) is not program
    assert compile_entries(state, rows, 8, EncodeOptions(last_access=5)) is not program
    for title in ("numbers", "amounts"):
        with pytest.raises(InvalidRowError, match=title):
            compile_entries(state, pa.schema([("key", pa.int64()), ("value", pa.string())]), 8, EncodeOptions(), {"value": title})


ENTRY = 13


def _blob(keys: Sequence[int]) -> npt.NDArray[np.uint8]:
    """Framed entries with a key group of one byte, a key of four bytes, no value."""
    entries = np.zeros((len(keys), ENTRY), dtype=np.uint8)
    entries[:, 3] = 5
    entries[:, 5:9] = np.array(keys, dtype=">u4").view(np.uint8).reshape(-1, 4)
    return entries.reshape(-1)


def _statuses(blobs: list[range]) -> Iterator[tuple[int, int]]:
    seen = KeyFilter()
    for keys in blobs:
        result = seen.check(_blob(keys), 0, 1)
        yield int(result[framing.STATUS]), int(result[framing.COUNT])


def test_many_keys_of_one_key_group_are_told_apart() -> None:
    pieces = [range(100), range(100, 200_000), range(200_000, 500_000), range(500_000, 500_001)]
    assert list(_statuses(pieces)) == [(framing.OK, len(piece)) for piece in pieces]
    assert [status for status, _ in _statuses([*pieces, range(600_000, 600_001), range(199_999, 200_000)])][-2:] == [
        framing.OK,
        framing.DUPLICATE,
    ]


def test_room_for_keys_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table that they are in does not grow: its memory and the memory of a larger one would be needed at the same time."""
    rehashed: list[int] = []
    rehash = framing.rehash
    monkeypatch.setattr(framing, "rehash", lambda old, new: [rehashed.append(len(new)), rehash(old, new)])
    keys = KeyFilter()
    keys.reserve(400_000)
    assert rehashed == [1 << 20]
    for begin in range(0, 400_000, 100_000):
        assert keys.check(_blob(range(begin, begin + 100_000)), 0, 1)[framing.STATUS] == framing.OK
    assert rehashed == [1 << 20]
    assert keys.check(_blob(range(399_999, 400_001)), 0, 1)[framing.STATUS] == framing.DUPLICATE


Found = tuple[int, int, int]
"""Status, position of the first entry that is wrong or the end, and number of entries before it."""


def _expected(blob: npt.NDArray[np.uint8], seen: set[bytes]) -> Found:
    """Check entries of :func:`_blob` in the plainest way."""
    for number, begin in enumerate(range(0, len(blob), ENTRY)):
        entry = blob[begin : begin + ENTRY].tobytes()
        if len(entry) < ENTRY:
            return framing.BAD_FRAME, begin, number
        if entry[4] != 0:
            return framing.FOREIGN, begin, number
        if entry[:9] in seen:
            return framing.DUPLICATE, begin, number
        seen.add(entry[:9])
    return framing.OK, len(blob), len(blob) // ENTRY


@given(st.integers(0, 1 << 32), st.lists(st.integers(0, 3_000), min_size=1, max_size=8))
def test_the_first_wrong_entry_is_told(seed: int, sizes: list[int]) -> None:
    rng = random.Random(seed)
    keys = KeyFilter()
    for key_group in range(2):
        seen: set[bytes] = set()
        fresh = count(key_group)
        for size in sizes:
            blob = _blob(list(islice(fresh, size)))
            if size and not rng.randrange(4):
                one, other, foreign = (rng.randrange(size) * ENTRY for _ in range(3))
                blob[one + 5 : one + 9] = blob[other + 5 : other + 9]
                blob[foreign + 4] = rng.randrange(2)
            blob = blob[: len(blob) - rng.choice((0, 0, 0, 5))] if size else blob
            result = keys.check(blob, 0, 1)
            found = tuple(int(result[part]) for part in (framing.STATUS, framing.POSITION, framing.COUNT))
            assert found == _expected(blob, seen)
            if found[0] != framing.OK:
                break
        keys.clear()
