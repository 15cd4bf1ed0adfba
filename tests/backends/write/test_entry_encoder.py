"""Checks of the entries that are written: places of elements, keys of one key group."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from state_processor import Types
from state_processor.backends.formats import entry_framing as framing
from state_processor.backends.state.descriptions import LIST, ListDescription
from state_processor.backends.write import entry_encoder
from state_processor.backends.write.entry_encoder import KeyedStateEncoder
from state_processor.serializers.errors import InvalidRowError
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer


def _rows(places: list[list[int] | None]) -> pa.RecordBatch:
    values = [None if one is None else [7] * len(one) for one in places]
    columns = [pa.array(range(len(places))), pa.array(values, pa.list_(pa.int64())), pa.array(places, pa.list_(pa.int32()))]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value", "list_index"])


def _encode(batch: pa.RecordBatch) -> int:
    state = ListDescription("items", LIST, Types.LONG(), Types.LONG(), VoidNamespaceSerializer())
    encoder = KeyedStateEncoder(state, 0, batch.schema, max_parallelism=8, parallelism=1)
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


def _blob(keys: range) -> npt.NDArray[np.uint8]:
    """Framed entries with a key group of one byte, a key of four bytes, no value."""
    entries = np.zeros((len(keys), 13), dtype=np.uint8)
    entries[:, 3] = 5
    entries[:, 5:9] = np.array(keys, dtype=">u4").view(np.uint8).reshape(-1, 4)
    return entries.reshape(-1)


def _statuses(blobs: list[range]) -> Iterator[tuple[int, int]]:
    seen = framing.KeyFilter()
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
