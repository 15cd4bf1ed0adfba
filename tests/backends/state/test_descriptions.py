from __future__ import annotations

from dataclasses import replace

import pytest

from state_processor.backends.formats.opening import open_source
from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.read.stored_operator import (
    find_operator,
    operator_header,
    operator_states,
    state_variants,
)
from state_processor.backends.state import state_headers
from state_processor.backends.state.descriptions import StateDescription, describe_keyed, describe_operator_state
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.core.pojo_fields import register_primitive_fields
from state_processor.serializers.io import DataInput
from state_processor.serializers.registry import registrations
from state_processor.serializers.runtime.wrapping import TtlSerializer, WrappingSerializer
from state_processor.support.errors import CorruptSnapshotError, NotFoundError, UnsupportedFormatError
from tests.backends import state_files as f
from tests.backends.state_files import INT, LONG, STRING


def _name(state: StateDescription, role: str) -> str | None:
    return str(state.serializers[role]) if role in state.serializers else None


def described(*states: bytes):
    header = state_headers.KeyedHeader.read(DataInput(f.keyed_header(STRING, states)))
    return [describe_keyed(header, s, "test") for s in header.states]


@pytest.mark.parametrize(
    ("state", "kind", "map_key", "value"),
    [
        (f.keyed("s", LONG), "VALUE", None, "LONG"),
        (f.keyed("s", LONG, "REDUCING"), "REDUCING", None, "LONG"),
        (f.keyed("s", LONG, "AGGREGATING"), "AGGREGATING", None, "LONG"),
        (f.keyed("s", LONG, "FOLDING"), "FOLDING", None, "LONG"),
        (f.keyed("s", ListSerializer(LONG), "LIST"), "LIST", None, "LONG"),
        (f.keyed("s", ListSerializer(LONG)), "VALUE", None, "LIST<LONG>"),
        (f.keyed("s", MapSerializer(INT, LONG), "MAP"), "MAP", "INT", "LONG"),
        (f.keyed("s", ListSerializer(TtlSerializer.of(LONG)), "LIST"), "LIST", None, "TTL<LONG>"),
        (f.keyed("s", ListSerializer(LONG), "UNKNOWN"), "LIST", None, "LONG"),
        (f.keyed("s", MapSerializer(INT, LONG), "UNKNOWN"), "MAP", "INT", "LONG"),
        (f.meta("s", NAMESPACE_SERIALIZER=f.VOID, VALUE_SERIALIZER=STRING), "VALUE", None, "STRING"),
        (f.keyed("s", WrappingSerializer(ListSerializer(LONG), lambda s: s), "LIST"), "LIST", None, "LONG"),
    ],
)
def test_keyed_states(state: bytes, kind: str, map_key: str | None, value: str) -> None:
    (found,) = described(state)
    assert (found.kind, _name(found, "map_key"), str(found.value)) == (kind, map_key, value)
    assert (str(found.key), found.in_void_namespace, found.backend) == ("STRING", True, "test")
    assert found.has_ttl == value.startswith("TTL")
    assert found.is_keyed
    assert not found.is_timer


@pytest.mark.parametrize("map_key", [None, INT])
def test_states_with_asynchronous_access_name_the_element_itself(map_key) -> None:
    roles = {"NAMESPACE_SERIALIZER": f.VOID, "VALUE_SERIALIZER": LONG} | ({"USER_KEY_SERIALIZER": map_key} if map_key else {})
    (found,) = described(f.meta("s", "KEY_VALUE_V2", {"KEYED_STATE_TYPE": "MAP"}, **roles))
    assert (found.kind, found.map_key, str(found.value)) == ("MAP", map_key, "LONG")
    (found,) = described(f.meta("s", "KEY_VALUE_V2", {"KEYED_STATE_TYPE": "LIST"}, **roles))
    assert (found.kind, str(found.value)) == ("LIST", "LONG")


def test_a_registration_is_described_once() -> None:
    header = state_headers.KeyedHeader.read(DataInput(f.keyed_header(STRING, [f.keyed("s", LONG), f.keyed("t", INT)])))
    first, second = (describe_keyed(header, meta) for meta in header.states)
    merged = replace(header, states=header.states[:1])
    assert describe_keyed(merged, merged.states[0]) is first
    assert (describe_keyed(header, header.states[1]), second.name) == (second, "t")
    assert describe_keyed(header, header.states[0], "heap") == replace(first, backend="heap")
    with registrations():
        register_primitive_fields("com.acme.Order", ["total"])
        assert describe_keyed(header, header.states[0]) is not first
    assert describe_keyed(header, header.states[0]) is first


def test_timers() -> None:
    event, processing = described(
        f.timers("_timer_state/event_user-timers", STRING),
        f.timers("_timer_state/processing_a_b", STRING, LONG),
    )
    assert (event.kind, event.service, event.in_void_namespace) == ("EVENT_TIMER", "user-timers", True)
    assert (processing.kind, processing.service, str(processing.namespace)) == ("PROCESSING_TIMER", "a_b", "LONG")
    with pytest.raises(UnsupportedFormatError, match="state 'queue': expected a queue of timers, found a queue of LONG"):
        described(f.meta("queue", "PRIORITY_QUEUE", VALUE_SERIALIZER=LONG))


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (f.keyed("s", LONG, "LISU"), "'s' is of the kind 'LISU'"),
        (f.keyed("s", LONG, "LIST"), "'s' is of the kind LIST, but its values are of type LONG"),
        (f.keyed("s", LONG, "MAP"), "'s' is of the kind MAP, but its values are of type LONG"),
        (f.meta("s", VALUE_SERIALIZER=LONG), "'s' does not have a NAMESPACE_SERIALIZER"),
        (f.meta("s", NAMESPACE_SERIALIZER=LONG), "'s' does not have a VALUE_SERIALIZER"),
    ],
)
def test_impossible_registrations(state: bytes, problem: str) -> None:
    with pytest.raises(CorruptSnapshotError, match=problem):
        described(state)


def test_operator_states() -> None:
    raw = f.operator_header(
        [f.operator_list("a", LONG), f.operator_list("b", LONG, "UNION"), f.meta("old", "OPERATOR", VALUE_SERIALIZER=LONG)],
        [f.broadcast("c", STRING, LONG)],
    )
    header = state_headers.OperatorHeader.read(DataInput(raw))
    found = [describe_operator_state(m) for m in (*header.lists, *header.broadcasts)]
    assert [(s.name, s.kind, _name(s, "key")) for s in found] == [
        ("a", "OPERATOR_LIST", None),
        ("b", "UNION_LIST", None),
        ("old", "OPERATOR_LIST", None),
        ("c", "BROADCAST", "STRING"),
    ]
    assert not any(s.is_keyed for s in found)
    header = state_headers.OperatorHeader.read(DataInput(f.operator_header([f.operator_list("a", LONG, "SOMEHOW")])))
    with pytest.raises(CorruptSnapshotError, match="'a' has the unknown distribution mode 'SOMEHOW'"):
        describe_operator_state(header.lists[0])


def test_the_union_of_what_subtasks_register() -> None:
    first = f.canonical(f.keyed_header(STRING, [f.keyed("a", LONG), f.keyed("b", LONG)]), (0, 63), {})
    second = f.heap(f.keyed_header(STRING, [f.keyed("b", LONG), f.keyed("c", INT)]), (64, 127), {}, 2)
    found = f.operator(first.handle(7), None, second.handle(12))
    variants = state_variants(f.snapshot(found), found)
    assert {n: [(str(s.value), s.backend) for s in v] for n, v in variants.items()} == {
        "a": [("LONG", "canonical")],
        "b": [("LONG", "canonical"), ("LONG", "heap")],
        "c": [("INT", "heap")],
    }
    states = operator_states(f.snapshot(found), found)
    assert list(states) == ["a", "b", "c"]
    assert states["b"].name == "b"


def test_operators_are_found_by_uid_or_hash() -> None:
    uid_hash = operator_id("orders")
    found = f.operator()
    other = type(found)(uid_hash, 1, 128)
    snapshot = f.snapshot(found, other)
    assert find_operator(snapshot, "orders") == replace(other, uid="orders")
    assert find_operator(snapshot, uid_hash=uid_hash.upper()) is other
    with pytest.raises(NotFoundError, match=r"no operator 'ordres' .*It has: .*'op'"):
        find_operator(snapshot, "ordres")


def test_a_header_that_ends_early_is_damage() -> None:
    file = f.canonical(f.keyed_header(STRING, [f.keyed("a", LONG)]) + b"x", (0, 0), {0: {0: [(f.string("k"), f.long(1))]}})
    found = f.operator(file.handle())
    with pytest.raises(CorruptSnapshotError, match=r"operator 'op', subtask 0, inline state file, .* 1 states ends here"):
        state_variants(f.snapshot(found), found)


def test_operator_headers_end_where_the_first_element_begins() -> None:
    raw = f.operator_header([f.operator_list("a", LONG)])
    handle = f.operator_handle(raw + f.long(1), {"a": (0, [len(raw)])})
    snapshot = f.snapshot()
    assert operator_header(snapshot, handle, "context").size == len(raw)
    with pytest.raises(CorruptSnapshotError, match=r"^context, inline state file"):
        operator_header(snapshot, f.operator_handle(raw, {"a": (0, [len(raw) - 3])}), "context")


def test_a_keyed_header_without_any_entry_is_the_whole_file() -> None:
    file = f.canonical(f.keyed_header(STRING, [f.keyed("a", LONG)]), (0, 9), {})
    assert [s.name for s in open_source(f.snapshot(), file.handle(), "context", 128).header.states] == ["a"]
