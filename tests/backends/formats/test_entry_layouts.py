from __future__ import annotations

import pytest

from state_processor.backends.formats.row_layout import framed_layout, heap_layout
from state_processor.backends.state.descriptions import StateDescription
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.rows import TupleSerializer
from state_processor.serializers.runtime.namespaces import TimerSerializer, TimeWindowSerializer
from state_processor.support.errors import UnsupportedFormatError
from tests.backends.state_files import INT, LONG, STRING, VOID

WINDOW = TimeWindowSerializer()
PAIR = TupleSerializer([LONG, STRING], "t")


def state(
    kind: str = "VALUE", key: TypeSerializer = STRING, namespace: TypeSerializer = VOID, map_key: TypeSerializer | None = None
) -> StateDescription:
    return StateDescription.of("s", kind, key, namespace, map_key, INT)


def shown(layout) -> list[list[str]]:
    return [[f"{f.name} {f.serializer}{' +' if f.suffixed else ''}" for f in part.fields] for part in layout.parts]


@pytest.mark.parametrize(
    ("key", "namespace", "suffixed"),
    [(STRING, STRING, True), (PAIR, STRING, True), (STRING, VOID, False), (STRING, WINDOW, False), (LONG, STRING, False)],
)
def test_lengths_follow_where_neither_key_nor_namespace_has_one(key, namespace, suffixed) -> None:
    fields = framed_layout(state(key=key, namespace=namespace), frozenset()).parts[0].fields
    assert [f.suffixed for f in fields] == [suffixed, suffixed]
    assert not any(f.suffixed for f in heap_layout(state(key=key, namespace=namespace), frozenset()).parts[0].fields)


def test_framed_entries() -> None:
    value = frozenset({"value", "map_value"})
    assert shown(framed_layout(state(), value)) == [["key STRING", "namespace VOID_NAMESPACE"], ["value INT"]]
    assert shown(framed_layout(state("LIST"), value))[1] == ["value LIST<INT>"]
    assert shown(framed_layout(state("MAP", map_key=LONG), value)) == [
        ["key STRING", "namespace VOID_NAMESPACE", "map_key LONG"],
        ["map_value INT"],
    ]


def test_values_that_nobody_asks_for_are_passed_by() -> None:
    for kind in ("VALUE", "LIST"):
        assert shown(framed_layout(state(kind), frozenset({"key"}))) == [["key STRING", "namespace VOID_NAMESPACE"]]
    assert len(shown(framed_layout(state("MAP", map_key=LONG), frozenset({"key", "map_key"})))) == 1


def test_heap_entries() -> None:
    assert shown(heap_layout(state(), frozenset())) == [["namespace VOID_NAMESPACE", "key STRING", "value INT"]]
    assert shown(heap_layout(state("LIST"), frozenset()))[0][2] == "value LIST<INT>"
    assert shown(heap_layout(state("MAP", map_key=LONG), frozenset()))[0][2] == "value MAP<LONG,INT>"


@pytest.mark.parametrize("layout", [framed_layout, heap_layout])
def test_timers_begin_with_their_time(layout) -> None:
    timer = StateDescription.of("t", "EVENT_TIMER", STRING, WINDOW, value=TimerSerializer(STRING, WINDOW))
    assert [f.name for f in layout(timer, frozenset()).parts[0].fields] == ["timestamp", "key", "namespace"]


def test_map_keys_of_an_unknown_type_are_bytes_where_their_end_is_known() -> None:
    assert shown(framed_layout(state("MAP"), frozenset()))[0][2] == "map_key a map's keys"
    with pytest.raises(UnsupportedFormatError, match=r"state 's': .*not store the type of a map's keys.* native savepoint for F"):
        heap_layout(state("MAP"), frozenset())
