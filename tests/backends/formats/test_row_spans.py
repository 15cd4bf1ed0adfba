"""Bounds of rows without lengths, and of the keys in them."""

from __future__ import annotations

import numpy as np
import pytest

from state_processor.backends.formats.entry_layouts import heap_layout
from state_processor.backends.formats.row_layout import Field, Part, RowLayout
from state_processor.backends.formats.row_spans import RowSpans
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.errors import CorruptSnapshotError, NotCompilableError
from state_processor.serializers.runtime.namespaces import TimeWindow, TimeWindowSerializer, VoidNamespaceSerializer

LONG, STRING, VOID = NumberSerializer("LONG"), StringSerializer(), VoidNamespaceSerializer()


class Interpreted(StringSerializer):
    """A serializer that the kernel does not know."""

    def emit(self, builder: object, column: object) -> None:
        raise NotCompilableError("interpreted")


CASES = [
    (VOID, LONG, LONG, [(None, i, -i) for i in range(5)]),
    (VOID, STRING, LONG, [(None, "a" * i, i) for i in range(5)]),
    (VOID, LONG, STRING, [(None, i, "v" * i) for i in range(5)]),
    (TimeWindowSerializer(), STRING, STRING, [(TimeWindow(i, i + 1), "k" * i, "v" * i) for i in range(5)]),
    (STRING, STRING, TupleSerializer([STRING, LONG]), [("n" * i, "k", ("v" * i, i)) for i in range(5)]),
    (STRING, Interpreted(), STRING, [("n" * i, "key", "v" * i) for i in range(5)]),
]


def layout_of(namespace: TypeSerializer, key: TypeSerializer, value: TypeSerializer) -> RowLayout:
    state = KeyedDescription.of("s", "VALUE", key, namespace, None, value)
    return heap_layout(state, frozenset())


def place(position: int, entry: int, row_begin: int) -> str:
    return f"position {position} of the row at {row_begin}"


@pytest.mark.parametrize(("namespace", "key", "value", "rows"), CASES)
def test_rows_and_keys_are_found(namespace: TypeSerializer, key: TypeSerializer, value: TypeSerializer, rows: list) -> None:
    parts = [[s.serialize(v) for s, v in zip((namespace, key, value), row, strict=True)] for row in rows]
    data = np.frombuffer(b"front" + b"".join(b"".join(part) for part in parts), dtype=np.uint8)
    spans = RowSpans(layout_of(namespace, key, value))
    for _ in range(2):
        found = spans.of(data, 5, len(rows), place, 9)
        assert [data[a:b].tobytes() for a, b, *_ in found.tolist()] == [b"".join(part) for part in parts]
        assert [data[a:b].tobytes() for _, _, a, b, _ in found.tolist()] == [part[1] for part in parts]
        assert set(found[:, 4].tolist()) == {9}
    assert len(spans.of(data, 5, 0, place, 9)) == 0


@pytest.mark.parametrize("key", [STRING, Interpreted()])
def test_a_row_that_is_cut_off_is_named(key: TypeSerializer) -> None:
    data = np.frombuffer(b"\0" + key.serialize("ab") + STRING.serialize("cd")[:-1], dtype=np.uint8)
    with pytest.raises(CorruptSnapshotError, match="of the row at 0: "):
        RowSpans(layout_of(VOID, key, STRING)).of(data, 0, 1, place, 0)


def test_layouts_of_other_orders() -> None:
    layout = RowLayout((Part(None, (Field("key", STRING), Field("namespace", VOID)), (0, 1)),), frozenset())
    data = np.frombuffer(STRING.serialize("abc") + b"\0", dtype=np.uint8)
    assert RowSpans(layout).of(data, 0, 1, place, 0).tolist() == [[0, 5, 0, 4, 0]]
