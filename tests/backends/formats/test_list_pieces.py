"""Large lists of canonical files, decoded in pieces: equal to whole lists, with bounded reads."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.backends.formats import key_group_file as canonical_files
from state_processor.backends.formats import row_shapes
from state_processor.backends.formats.opening import open_key_groups
from state_processor.backends.formats.row_shapes import FIRST_INDEX
from state_processor.backends.formats.source import KeyedStateSource, ScanRequest
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.streams import StateStream
from state_processor.backends.state import state_headers
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.collections import ListSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.support.errors import CorruptSnapshotError
from tests.backends.state_files import LONG, NAMESPACE_OF_VOID, STRING, StateFile, canonical, keyed, keyed_header, string

GROUPS = h.KeyGroupRange(0, 127)


class CountingSource:
    """Bytes in memory that count the read bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)
        self.bytes_read = 0

    def read(self, offset: int, length: int) -> memoryview:
        self.bytes_read += length
        return self.data[offset : offset + length]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical_files, "_LARGE", 40)
    monkeypatch.setattr(canonical_files, "_WINDOW", 64)
    monkeypatch.setattr(canonical_files, "_LARGEST_WINDOW", 2 * 64)


def joined(element: TypeSerializer, values: list[Any]) -> bytes:
    pieces = []
    for value in values:
        target = DataOutput()
        element.write(value, target)
        pieces.append(target.to_bytes())
    return b",".join(pieces)


def list_file(element: TypeSerializer, lists: dict[str, bytes], *, compressed: bool = False) -> StateFile:
    """Key group 3: a state with a value for each key, then the lists, then another state with a value for each key."""
    states = [keyed("a", LONG), keyed("b", ListSerializer(element), "LIST"), keyed("c", LONG)]
    keys = [string(key) + NAMESPACE_OF_VOID for key in lists]
    numbers = [(key, struct.pack(">q", i)) for i, key in enumerate(keys)]
    entries = {0: numbers, 1: list(zip(keys, lists.values(), strict=True)), 2: numbers}
    return canonical(keyed_header(STRING, states, compressed), (0, 3), {3: entries}, compressed=compressed)


def opened(file: StateFile, source: CountingSource | None = None) -> KeyedStateSource:
    stream = StateStream(source or CountingSource(file.data), 0, len(file.data), "the file", None)
    return open_key_groups(stream, file.handle(), state_headers.KeyedHeader.read(DataInput(file.data)), "the context", 128)


def rows_of(source: KeyedStateSource, *, in_pieces: bool) -> tuple[list[Any], int]:
    """Rows of all elements, and how many batches have a piece of a list."""
    request = ScanRequest("b", frozenset(("key", "value", "_key_group")), DecodeOptions(), GROUPS)
    batches = list(source.scan(replace(request, in_pieces=in_pieces)))
    pieces = sum(FIRST_INDEX in (batch.schema.metadata or {}) for batch in batches)
    return [row for batch in batches for part in row_shapes.explode_list(batch, "value") for row in part.to_pylist()], pieces


SOME = {
    "long": (LONG, list(range(100))),
    "text": (STRING, ["", ",", ",,,", "é" * 30, "x" * 200] * 5),
    "lists": (ListSerializer(STRING), [["a", "b"], [], [","] * 40] * 5),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("what", SOME)
def test_pieces_have_the_rows_of_whole_lists(what: str, compressed: bool) -> None:
    element, values = SOME[what]
    lists = {"small": joined(element, values[:1]), "large": joined(element, values), "last": joined(element, values * 2)}
    source = opened(list_file(element, lists, compressed=compressed))
    expected = [
        {"key": key, "_key_group": 3, "list_index": i, "list_value": value}
        for key, chosen in (("small", values[:1]), ("large", values), ("last", values * 2))
        for i, value in enumerate(chosen)
    ]
    found, pieces = rows_of(source, in_pieces=True)
    assert found == expected
    assert pieces > 4
    assert rows_of(source, in_pieces=False) == (expected, 0)


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), min_size=1), st.integers(16, 100), st.integers(0, 60)
)
def test_any_texts_in_windows_of_any_size(values: list[str], window: int, large: int) -> None:
    file = list_file(STRING, {"k": joined(STRING, values), "other": joined(STRING, ["x"])})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canonical_files, "_LARGE", large)
        patch.setattr(canonical_files, "_WINDOW", window)
        patch.setattr(canonical_files, "_LARGEST_WINDOW", 2 * window)
        found, _ = rows_of(opened(file), in_pieces=True)
    assert [row["list_value"] for row in found] == [*values, "x"]
    assert [row["list_index"] for row in found] == [*range(len(values)), 0]


LONGS = joined(LONG, list(range(30)))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("value", [LONGS[:71] + b";" + LONGS[72:], LONGS + b","], ids=["no comma", "comma at the end"])
def test_damage_is_placed_as_in_whole_lists(value: bytes) -> None:
    source = opened(list_file(LONG, {"k": value}))
    places = []
    for in_pieces in (True, False):
        with pytest.raises(CorruptSnapshotError, match="key 'k'") as raised:
            rows_of(source, in_pieces=in_pieces)
        places.append(str(raised.value).split("offset ")[1].split(",")[0])
    assert places[0] == places[1]


def test_a_large_value_of_another_state_is_not_read() -> None:
    file = list_file(LONG, {"k": joined(LONG, list(range(1_000_000)))})
    counting = CountingSource(file.data)
    source = opened(file, counting)
    for name in ("a", "c"):
        request = ScanRequest(name, frozenset(("key", "value")), DecodeOptions(), GROUPS)
        assert [row for batch in source.scan(request) for row in batch.to_pylist()] == [{"key": "k", "value": 0}]
    assert counting.bytes_read < len(file.data) // 4
