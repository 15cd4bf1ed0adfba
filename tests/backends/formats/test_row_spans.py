"""Bounds of rows without lengths, and of the keys in them."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_processor.backends.formats.row_layout import Field, RowLayout, RowPart, heap_layout
from state_processor.backends.formats.row_spans import RowSpans
from state_processor.backends.formats.source import Section, UnframedRun
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.rows import TupleSerializer
from state_processor.serializers.runtime.namespaces import TimeWindow, TimeWindowSerializer, VoidNamespaceSerializer
from state_processor.support.errors import CorruptSnapshotError, NotCompilableError

LONG, STRING, VOID = NumberSerializer("LONG"), StringSerializer(), VoidNamespaceSerializer()


class Interpreted(StringSerializer):
    """A serializer that the kernel does not know."""

    def emit_decode(self, builder: object, column: object) -> None:
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
    layout = RowLayout((RowPart(None, (Field("key", STRING), Field("namespace", VOID)), (0, 1)),), frozenset())
    data = np.frombuffer(STRING.serialize("abc") + b"\0", dtype=np.uint8)
    assert RowSpans(layout).of(data, 0, 1, place, 0).tolist() == [[0, 5, 0, 4, 0]]


PAIRS = layout_of(VOID, STRING, STRING)
TEXTS = st.lists(st.text("ab", max_size=9), max_size=80)


def joined(texts: list[str]) -> npt.NDArray[np.uint8]:
    """Return rows of a key and a value, after an unrelated byte."""
    return np.frombuffer(b"-" + b"".join(part for text in texts for part in parts_of(text)), dtype=np.uint8)


def parts_of(text: str) -> tuple[bytes, bytes]:
    return VOID.serialize(None) + STRING.serialize(text), STRING.serialize(text * 3)


def check_along(guide: list[str], texts: list[str]) -> None:
    known, data = joined(guide), joined(texts)
    spans, of_guide = RowSpans(PAIRS), RowSpans(PAIRS)
    rows = of_guide.in_parts(of_guide.of(known, 1, len(guide), place, 5), whole=False)
    found = spans.along(data, (1, len(data)), len(texts), place, 5, (known, rows))
    expected = [(*parts_of(t), 5) for t in texts]
    assert [(data[a:b].tobytes(), data[c:d].tobytes(), group) for a, b, c, d, group in found.tolist()] == expected


@settings(max_examples=100)
@given(guide=TEXTS, begin=TEXTS, end=TEXTS, cut=st.integers(0, 80))
def test_rows_are_found_along_others(guide: list[str], begin: list[str], end: list[str], cut: int) -> None:
    check_along(guide, begin + guide[:cut] + end + guide[cut + len(begin) :])


@pytest.mark.parametrize("every", [3, 700, 1500])
def test_rows_are_found_along_many_others(every: int) -> None:
    """Rows that were changed, added and removed, and at last another order."""
    guide = [f"k{i}" for i in range(5000)]
    check_along(guide, [t + "changed" if i % every == 1 else t for i, t in enumerate(guide)])
    check_along(guide, [t for i, t in enumerate(guide) if i % every != 1])
    check_along([t for i, t in enumerate(guide) if i % every > 40], guide)
    check_along(guide, random.Random(every).sample(guide, len(guide)))


def test_damaged_rows_along_others() -> None:
    guide = data = joined(["a", "b", "c"])
    spans, of_guide = RowSpans(PAIRS), RowSpans(PAIRS)
    rows = of_guide.in_parts(of_guide.of(guide, 1, 3, place, 5), whole=False)
    with pytest.raises(CorruptSnapshotError, match="position 11 of the row at 8: a string is damaged"):
        spans.along(data[:13], (1, 13), 3, place, 5, (guide, rows))
    state = KeyedDescription.of("s", "VALUE", STRING, VOID, None, STRING)
    run = UnframedRun(state, "file", heap_layout, iter([Section(data, 100, 1, len(data), 2, 5)]))
    with pytest.raises(CorruptSnapshotError, match="file, key group 5: its last entry ends at offset 115, the key group at 122"):
        list(run.bounded(lambda _: (guide, rows)))
