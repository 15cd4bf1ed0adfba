"""Keyed state in the shapes that users see, from canonical and heap files put together by hand."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_processor.backends.formats import row_layout as rows
from state_processor.backends.metadata import handles as h
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.pojo_fields import PojoField
from state_processor.serializers.core.rows import TupleSerializer
from state_processor.serializers.core.temporal import InstantSerializer
from state_processor.serializers.runtime.namespaces import GlobalWindowSerializer, TimeWindowSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.support.errors import (
    CorruptSnapshotError,
    NotFoundError,
    StateProcessorError,
    UndecodableValueError,
)
from tests.backends.keyed_files import CANONICAL, FORMATS, HEAP, Entry, code, file, listed, mapped, one, void
from tests.backends.state_files import (
    INT,
    LONG,
    NAMESPACE_OF_VOID,
    STRING,
    StateFile,
    canonical,
    columns,
    group_of,
    keyed,
    keyed_header,
    long,
    operator,
    read_batches,
    read_rows,
    string,
    timers,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SIGN = 1 << 63


# Values


@FORMATS
@pytest.mark.parametrize("compressed", [False, True])
def test_values_of_several_key_groups(form: str, compressed: bool) -> None:
    states = [keyed("total", LONG), keyed("name", STRING)]
    entries = {
        0: {0: [void(string("a"), long(1)), void(string("b"), long(-2))], 1: [void(string("a"), string("A"))]},
        127: {1: [void(string("z"), string(""))]},
    }
    found = one(form, STRING, states, entries, compressed=compressed)
    assert columns(found, "total") == {"key": "string", "value": "int64"}
    assert read_rows(found, "total") == [{"key": "a", "value": 1}, {"key": "b", "value": -2}]
    assert read_rows(found, "name") == [{"key": "a", "value": "A"}, {"key": "z", "value": ""}]


@FORMATS
@pytest.mark.parametrize(("max_parallelism", "prefix"), [(1, 1), (128, 1), (129, 2), (32768, 2)])
def test_prefixes_of_key_groups(form: str, max_parallelism: int, prefix: int) -> None:
    last = max_parallelism - 1
    entries = {0: {0: [void(long(1), long(10))]}} | ({last: {0: [void(long(2), long(20))]}} if last else {})
    found = one(form, LONG, [keyed("v", LONG)], entries, (0, last), prefix, max_parallelism=max_parallelism)
    found_rows = read_rows(found, "v", metadata=True)
    expected = [(1, 10, 0), (2, 20, last)] if last else [(1, 10, 0)]
    assert [(r["key"], r["value"], r["_key_group"]) for r in found_rows] == expected


def test_a_key_group_of_the_other_max_parallelism_is_an_error() -> None:
    found = one(CANONICAL, LONG, [keyed("v", LONG)], {0: {0: [void(long(1), long(10))]}}, max_parallelism=129)
    with pytest.raises(CorruptSnapshotError, match="operator 'op', subtask 0"):
        read_rows(found, "v")


@FORMATS
def test_a_state_registered_in_one_subtask_only(form: str) -> None:
    first = file(form, LONG, [keyed("a", LONG)], {1: {0: [void(long(1), long(10))]}}, (0, 63))
    second = file(form, LONG, [keyed("b", INT), keyed("a", LONG)], {64: {0: [void(long(2), b"\0\0\0\5")]}}, (64, 127))
    found = operator(first.handle(code(form)), None, second.handle(code(form)))
    assert read_rows(found, "b", metadata=True) == [{"key": 2, "value": 5, "_key_group": 64, "_subtask": 2, "_last_access": None}]
    assert read_rows(found, "a") == [{"key": 1, "value": 10}]
    assert read_rows(found) == [{"key": 1, "a": 10, "b": None}, {"key": 2, "a": None, "b": 5}]


@FORMATS
@pytest.mark.parametrize("entries", [{}, {5: {1: [void(long(1), long(1))]}}])
def test_registered_but_empty(form: str, entries: dict[int, Any]) -> None:
    found = one(form, LONG, [keyed("empty", STRING), keyed("other", LONG)], entries)
    assert read_rows(found, "empty") == []
    assert columns(found, "empty") == {"key": "int64", "value": "string"}


@FORMATS
def test_metadata_columns(form: str) -> None:
    found = one(form, LONG, [keyed("v", INT)], {3: {0: [void(long(7), b"\0\0\0\1")]}})
    assert columns(found, "v", metadata=True) == {
        "key": "int64",
        "value": "int32",
        "_key_group": "int32",
        "_subtask": "int32",
        "_last_access": "timestamp[us, tz=UTC]",
    }
    assert read_rows(found, "v", metadata=True) == [{"key": 7, "value": 1, "_key_group": 3, "_subtask": 0, "_last_access": None}]


# Namespaces


@pytest.mark.parametrize("size", [0, 1, 254, 255, 256, 300, 70_000])
def test_texts_as_key_and_namespace_have_their_lengths_appended(size: int) -> None:
    namespace = string("n" * size)
    suffix = len(namespace).to_bytes(max(1, (len(namespace).bit_length() + 7) // 8), "little")
    key = string("key") + b"\4" + namespace + suffix
    header = keyed_header(STRING, [keyed("v", LONG, namespace=STRING)])
    found = operator(canonical(header, (0, 127), {9: {0: [(key, long(1))]}}).handle())
    assert columns(found, "v") == {"key": "string", "namespace": "string", "value": "int64"}
    assert read_rows(found, "v") == [{"key": "key", "namespace": "n" * size, "value": 1}]


def test_map_keys_stand_behind_the_lengths() -> None:
    key = string("key") + b"\4" + string("ns") + b"\3" + string("u")
    value = MapSerializer(STRING, LONG)
    header = keyed_header(STRING, [keyed("v", value, "MAP", namespace=STRING)])
    found = operator(canonical(header, (0, 127), {9: {0: [(key, b"\0" + long(4))]}}).handle())
    assert read_rows(found, "v") == [{"key": "key", "namespace": "ns", "map_key": "u", "map_value": 4}]


@pytest.mark.parametrize(("key", "raw"), [(LONG, long(1)), (TupleSerializer([LONG, INT], "t"), long(1) + bytes(4))])
def test_no_lengths_beside_a_key_of_fixed_size(key: TypeSerializer, raw: bytes) -> None:
    found = one(CANONICAL, key, [keyed("v", LONG, namespace=STRING)], {0: {0: [(raw, string("ns"), long(5))]}})
    assert [(r["namespace"], r["value"]) for r in read_rows(found, "v")] == [("ns", 5)]


@FORMATS
def test_windows(form: str) -> None:
    window = long(60_000) + long(120_000)
    states = [keyed("w", LONG, namespace=TimeWindowSerializer()), keyed("g", LONG, namespace=GlobalWindowSerializer())]
    entries = {1: {0: [(long(1), window, long(10))], 1: [(long(2), b"\0", long(20))]}}
    found = one(form, LONG, states, entries)
    kind = "struct<start: timestamp[us, tz=UTC], end: timestamp[us, tz=UTC]>"
    assert columns(found, "w") == columns(found, "g") == {"key": "int64", "window": kind, "value": "int64"}
    start = EPOCH + timedelta(minutes=1)
    assert read_rows(found, "w") == [{"key": 1, "window": {"start": start, "end": start + timedelta(minutes=1)}, "value": 10}]
    assert read_rows(found, "g") == [{"key": 2, "window": None, "value": 20}]


# Timers


def timer(time: int, key: bytes, namespace: bytes = NAMESPACE_OF_VOID) -> bytes:
    return ((time + SIGN) % (1 << 64)).to_bytes(8, "big") + key + namespace


def timer_entries(form: str, *found: bytes) -> list[Entry]:
    return [(t, b"", b"") for t in found]


EVENT, PROCESSING = "_timer_state/event_user-timers", "_timer_state/processing_user-timers"


@FORMATS
def test_timers_have_a_namespace_even_where_it_is_void(form: str) -> None:
    states = [timers(EVENT, LONG), timers(PROCESSING, LONG)]
    entries = {2: {0: timer_entries(form, timer(-1, long(1)), timer(2**62, long(2)))}}
    found = one(form, LONG, states, entries)
    shape = {"key": "int64", "namespace": "string", "timestamp": "int64", "fires_at": "timestamp[us, tz=UTC]"}
    shape |= {"domain": "string", "service": "string"}
    assert columns(found, EVENT) == columns(found, kind="TIMER") == shape
    common = {"namespace": None, "domain": "event_time", "service": "user-timers"}
    before_epoch = {"timestamp": -1, "fires_at": EPOCH - timedelta(milliseconds=1)}
    expected = [{"key": 1} | before_epoch | common, {"key": 2, "timestamp": 2**62, "fires_at": None} | common]
    assert read_rows(found, EVENT) == expected
    assert read_rows(found, kind="TIMER") == expected
    assert read_rows(found, PROCESSING) == []


@FORMATS
def test_timers_of_windows_and_of_nothing_side_by_side(form: str) -> None:
    states = [timers(EVENT, LONG), timers("_timer_state/processing_w", LONG, TimeWindowSerializer())]
    entries = {2: {0: timer_entries(form, timer(5, long(1))), 1: timer_entries(form, timer(6, long(2), long(0) + long(1000)))}}
    found = one(form, LONG, states, entries)
    window = {"start": EPOCH, "end": EPOCH + timedelta(seconds=1)}
    assert read_rows(found, kind="TIMER", metadata=True) == [
        {"key": 1, "namespace": None, "timestamp": 5, "fires_at": EPOCH + timedelta(milliseconds=5),
         "domain": "event_time", "service": "user-timers",
         "_key_group": 2, "_subtask": 0, "_last_access": None, "window": None},
        {"key": 2, "namespace": None, "timestamp": 6, "fires_at": EPOCH + timedelta(milliseconds=6),
         "domain": "processing_time", "service": "w",
         "_key_group": 2, "_subtask": 0, "_last_access": None, "window": window},
    ]  # fmt: skip


@FORMATS
@pytest.mark.parametrize("void_first", [True, False])
def test_a_namespace_that_is_a_number_stays_one_beside_void_ones(form: str, void_first: bool) -> None:
    states = [timers(EVENT, LONG), timers("_timer_state/event_n", LONG, LONG)]
    entries = [timer_entries(form, timer(5, long(1))), timer_entries(form, timer(6, long(2), long(77)))]
    if not void_first:
        states, entries = states[::-1], entries[::-1]
    found = one(form, LONG, states, {2: dict(enumerate(entries))})
    assert columns(found, kind="TIMER")["namespace"] == "int64"
    assert {r["key"]: r["namespace"] for r in read_rows(found, kind="TIMER")} == {1: None, 2: 77}


@FORMATS
def test_timers_of_some_keys(form: str) -> None:
    groups = {key: group_of(STRING, key) for key in ("a", "ab", "b")}
    entries: dict[int, Any] = {}
    for key, group in groups.items():
        entries.setdefault(group, {0: []})[0] += timer_entries(form, timer(1, string(key)))
    found = one(form, STRING, [timers(EVENT, STRING)], entries)
    assert [r["key"] for r in read_rows(found, EVENT, keys=("a",))] == ["a"]
    assert sorted(r["key"] for r in read_rows(found, EVENT, keys=("ab", "b", "c"))) == ["ab", "b"]


# Lists


LISTS = keyed("l", ListSerializer(STRING), "LIST")


@FORMATS
def test_lists(form: str) -> None:
    texts = [string(","), string(""), string("x,y")]
    entries = {1: {0: [void(long(1), listed(form, *texts)), void(long(2), listed(form, string("z")))]}}
    found = one(form, LONG, [LISTS], entries)
    assert columns(found, "l") == {"key": "int64", "list_index": "int32", "list_value": "string"}
    assert [tuple(r.values()) for r in read_rows(found, "l")] == [(1, 0, ","), (1, 1, ""), (1, 2, "x,y"), (2, 0, "z")]
    assert columns(found, "l", flatten=False) == {"key": "int64", "value": str(pa.list_(pa.string()))}
    assert read_rows(found, "l", flatten=False) == [{"key": 1, "value": [",", "", "x,y"]}, {"key": 2, "value": ["z"]}]


@FORMATS
def test_a_list_of_no_elements(form: str) -> None:
    entries = {1: {0: [void(long(1), listed(form)), void(long(2), listed(form, string("z")))]}}
    found = one(form, LONG, [LISTS], entries)
    assert [r["key"] for r in read_rows(found, "l")] == [2]
    assert read_rows(found, "l", flatten=False) == [{"key": 1, "value": []}, {"key": 2, "value": ["z"]}]


def test_lists_are_joined_by_commas_and_nothing_else() -> None:
    found = one(CANONICAL, LONG, [LISTS], {1: {0: [void(long(1), string("a") + b";" + string("b"))]}})
    with pytest.raises(CorruptSnapshotError, match=r"state 'l'.*key 1"):
        read_rows(found, "l")
    found = one(CANONICAL, LONG, [LISTS], {1: {0: [void(long(1), string("a") + b",")]}})
    with pytest.raises(CorruptSnapshotError):
        read_rows(found, "l")


# Maps


MAPS = keyed("m", MapSerializer(STRING, STRING), "MAP")


@FORMATS
def test_maps_with_null_values(form: str) -> None:
    pairs = [(string("a"), string("A")), (string("b"), None), (string("c"), b"\0")]
    entries = {1: {0: [*mapped(form, long(1), b"\0", pairs), *mapped(form, long(2), b"\0", pairs[:1])]}}
    found = one(form, LONG, [MAPS], entries)
    assert columns(found, "m") == {"key": "int64", "map_key": "string", "map_value": "string"}
    flat = [(1, "a", "A"), (1, "b", None), (1, "c", None), (2, "a", "A")]
    assert [tuple(r.values()) for r in read_rows(found, "m")] == flat
    assert read_rows(found, "m", flatten=False) == [
        {"key": 1, "value": [("a", "A"), ("b", None), ("c", None)]},
        {"key": 2, "value": [("a", "A")]},
    ]


def test_what_the_heap_writes_behind_a_null_flag_in_savepoints() -> None:
    entries = {1: {0: [(long(1), b"\0" + string("a"), b"\1" + b"\0"), (long(1), b"\0" + string("b"), b"\1")]}}
    found = one(CANONICAL, LONG, [MAPS], entries)
    assert [(r["map_key"], r["map_value"]) for r in read_rows(found, "m")] == [("a", None), ("b", None)]


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 7, 100])
def test_nested_maps_are_collected_across_batches(batch_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "ColumnDecoder", partial(rows.ColumnDecoder, batch_rows=batch_rows))
    sizes = {1: 3, 2: 20, 3: 1, 4: 14, 5: 7}
    value = MapSerializer(LONG, LONG)
    entries = [e for k, n in sizes.items() for e in mapped(CANONICAL, long(k), b"\0", [(long(i), long(-i)) for i in range(n)])]
    found = one(CANONICAL, LONG, [keyed("m", value, "MAP")], {1: {0: entries}})
    assert len(read_batches(found, "m")) == -(-sum(sizes.values()) // batch_rows)
    collected = read_rows(found, "m", flatten=False)
    assert [(r["key"], r["value"]) for r in collected] == [(k, [(i, -i) for i in range(n)]) for k, n in sizes.items()]


@FORMATS
def test_nested_maps_of_several_namespaces_stay_apart(form: str) -> None:
    state = keyed("m", MapSerializer(STRING, STRING), "MAP", namespace=LONG)
    pair = [(string("a"), string("A"))]
    entries = {1: {0: [*mapped(form, long(1), long(8), pair), *mapped(form, long(1), long(9), pair * 1)]}}
    found = one(form, LONG, [state], entries)
    assert read_rows(found, "m", flatten=False) == [
        {"key": 1, "namespace": 8, "value": [("a", "A")]},
        {"key": 1, "namespace": 9, "value": [("a", "A")]},
    ]


@FORMATS
def test_a_map_with_a_null_key_is_an_error_that_says_so(form: str) -> None:
    found = one(form, LONG, [MAPS], {1: {0: mapped(form, long(1), b"\0", [(b"\0", string("A"))])}})
    with pytest.raises(UndecodableValueError, match="null key"):
        read_rows(found, "m", flatten=False)


# Whole operators


@FORMATS
def test_states_side_by_side(form: str) -> None:
    states = [
        keyed("total", LONG),
        LISTS,
        MAPS,
        keyed("key", INT),
        keyed("_subtask", INT),
        keyed("windowed", LONG, namespace=TimeWindowSerializer()),
        timers(EVENT, LONG),
    ]
    entries = {
        1: {
            0: [void(long(1), long(10)), void(long(2), long(20))],
            1: [void(long(2), listed(form, string("x"), string("y")))],
            2: mapped(form, long(3), b"\0", [(string("a"), None)]),
            3: [void(long(1), b"\0\0\0\7")],
            5: [(long(9), long(0) + long(1), long(1))],
            6: timer_entries(form, timer(1, long(8))),
        },
        2: {4: [void(long(4), b"\0\0\0\6")]},
    }
    found = one(form, LONG, states, entries)
    assert list(columns(found)) == ["key", "total", "l", "m", "key_state", "_subtask_state"]
    nothing = {"total": None, "l": None, "m": None, "key_state": None, "_subtask_state": None}
    assert sorted(read_rows(found), key=lambda r: r["key"]) == [
        nothing | {"key": 1, "total": 10, "key_state": 7},
        nothing | {"key": 2, "total": 20, "l": ["x", "y"]},
        nothing | {"key": 3, "m": [("a", None)]},
        nothing | {"key": 4, "_subtask_state": 6},
    ]
    with_metadata = {r["key"]: (r["_key_group"], r["_subtask"], r["_last_access"]) for r in read_rows(found, metadata=True)}
    assert with_metadata == {1: (1, 0, None), 2: (1, 0, None), 3: (1, 0, None), 4: (2, 0, None)}


def test_column_names_never_meet() -> None:
    states = [keyed(n, INT) for n in ("key", "key_state", "key_state_state")]
    found = one(CANONICAL, LONG, states, {})
    assert list(columns(found)) == ["key", "key_state_state_state", "key_state", "key_state_state"]


def test_an_operator_of_windows_alone_says_what_to_do() -> None:
    found = one(CANONICAL, LONG, [keyed("w", LONG, namespace=TimeWindowSerializer())], {})
    with pytest.raises(NotFoundError, match="does not have keyed state outside windows; name one of its states: 'w'"):
        columns(found)


# Errors that name key and value


@FORMATS
def test_nanoseconds_that_do_not_fit(form: str) -> None:
    instants = [long(5) + b"\0\0\0\0", long(5) + struct.pack(">i", 123_456_789)]
    entries = {1: {0: [void(string(k), v) for k, v in zip(("fits", "lost"), instants, strict=True)]}}
    found = one(form, STRING, [keyed("at", InstantSerializer())], entries)
    with pytest.raises(UndecodableValueError) as caught:
        read_rows(found, "at")
    message = str(caught.value)
    assert message.startswith("operator 'op', subtask 0, state 'at', inline state file, offset ")
    assert "key 'lost', value '1970-01-01T00:00:05.123456789Z': column 'value': a time has nanoseconds" in message
    assert "nanos='truncate' or nanos='string'" in message
    assert [r["value"] for r in read_rows(found, "at", nanos="string")][1] == "1970-01-01T00:00:05.123456789Z"
    assert [r["value"] for r in read_rows(found, "at", nanos="truncate")][1] == EPOCH + timedelta(seconds=5, microseconds=123456)


@FORMATS
def test_a_damaged_value_is_named_by_its_key(form: str) -> None:
    entries = {1: {0: [void(string("good"), string("x")), void(string("bad"), b"\x7fzz")]}}
    found = one(form, STRING, [keyed("v", STRING)], entries)
    with pytest.raises(CorruptSnapshotError, match=r"state 'v', inline state file, offset \d+, key 'bad': a string is damaged"):
        read_rows(found, "v")


# Subclasses that differ between subtasks


def shape(**subclasses: TypeSerializer) -> PojoSerializer:
    fields = [PojoField("name", STRING, "x.Shape")]
    return PojoSerializer("x.Shape", fields, unregistered=subclasses)


def subclass(name: str, field: str, serializer: TypeSerializer) -> PojoSerializer:
    return PojoSerializer(name, [PojoField("name", STRING, "x.Shape"), PojoField(field, serializer, name)])


@FORMATS
def test_a_pojo_has_the_fields_that_any_subtask_knows(form: str) -> None:
    circle, square = subclass("x.Circle", "radius", LONG), subclass("x.Square", "side", INT)
    plain = b"\2" + b"\0" + string("p")
    round_ = b"\4" + b"\0\x08x.Circle" + b"\2" + b"\0" + string("c") + b"\0" + long(3)
    cornered = b"\4" + b"\0\x08x.Square" + b"\2" + b"\0" + string("s") + b"\0" + b"\0\0\0\4"
    first = file(form, LONG, [keyed("p", shape())], {0: {0: [void(long(0), plain)]}}, (0, 31))
    second = file(form, LONG, [keyed("p", shape(**{"x.Circle": circle}))], {32: {0: [void(long(1), round_)]}}, (32, 63))
    both = [void(long(2), cornered), void(long(3), plain)]
    third = file(form, LONG, [keyed("p", shape(**{"x.Square": square}))], {64: {0: both}}, (64, 127))
    found = operator(*(f.handle(code(form)) for f in (first, second, third)))
    by_key = {r["key"]: r["value"] for r in read_rows(found, "p")}
    nothing = {"_class": None, "name": None, "radius": None, "side": None}
    assert by_key[0] == nothing | {"name": "p"}
    assert by_key[1] == nothing | {"_class": "x.Circle", "name": "c", "radius": 3}
    assert by_key[2] == nothing | {"_class": "x.Square", "name": "s", "side": 4}
    assert by_key[3] == nothing | {"_class": "x.Shape", "name": "p"}
    assert {r["key"]: r["p"] for r in read_rows(found)} == by_key


# Large entries and damage


@FORMATS
@pytest.mark.parametrize("compressed", [False, True])
def test_entries_larger_than_a_window(form: str, compressed: bool) -> None:
    sizes = [5_000_000, 10, 9_000_000, 4 << 20, 1]
    entries = {g: {0: [void(long(g), string(chr(97 + g) * n))]} for g, n in enumerate(sizes)}
    found = one(form, LONG, [keyed("big", STRING)], entries, compressed=compressed)
    assert [(r["key"], len(r["value"]), r["value"][:1]) for r in read_rows(found, "big")] == [
        (g, n, chr(97 + g)) for g, n in enumerate(sizes)
    ]


DAMAGED_STATES = [keyed("v", STRING), LISTS, MAPS, keyed("t", TtlSerializer.of(STRING)), timers(EVENT, STRING)]


def all_kinds(form: str, compressed: bool) -> StateFile:
    def group(key: str) -> dict[int, list[Entry]]:
        k = string(key)
        return {
            0: [void(k, string("value"))],
            1: [void(k, listed(form, string("a"), string("bc")))],
            2: mapped(form, k, b"\0", [(string("u"), string("w")), (string("n"), None)]),
            3: [void(k, long(5) + string("t"))],
            4: timer_entries(form, timer(5, k)),
        }

    return file(form, STRING, DAMAGED_STATES, {0: group("a"), 2: group("b")}, (0, 2), compressed=compressed)


def read_everything(handle: h.KeyGroupsStateHandle) -> int:
    """Rows of all states, each read whatever happens to the others, and of the operator; 0 where all is damaged."""
    found = operator(handle, max_parallelism=3)
    count = 0
    for state in ("v", "l", "m", "t", EVENT, None):
        for options in ({"nanos": "string"}, {"nanos": "string", "flatten": False, "metadata": True}):
            try:
                count += len(read_rows(found, state, in_task=False, **options))
            except StateProcessorError:
                continue
    return count


@FORMATS
@pytest.mark.parametrize("compressed", [False, True])
def test_a_file_cut_off_anywhere_gives_no_other_error_than_ours(form: str, compressed: bool) -> None:
    made = all_kinds(form, compressed)
    whole = read_everything(made.handle(code(form)))
    # of two keys: a value, a list of two, a map of two, a value with TTL, a timer, one row of the operator; nested or not
    assert whole == 2 * ((1 + 2 + 2 + 1 + 1 + 1) + (1 + 1 + 1 + 1 + 1 + 1))
    headers = min(o for o in made.offsets if o)
    for end in [*range(0, headers, 211), *range(headers, len(made.data), 3)]:
        cut = StateFile(made.data[:end], made.key_groups, made.offsets)
        assert read_everything(cut.handle(code(form))) < whole


@settings(max_examples=60, deadline=None)  # the fuzzer goes on with this
@given(st.sampled_from([CANONICAL, HEAP]), st.booleans(), st.sampled_from([3, 7, 12]), st.data())
def test_damage_anywhere_gives_no_other_error_than_ours(
    form: str, compressed: bool, handle_code: int, data: st.DataObject
) -> None:
    made = all_kinds(form, compressed)
    damaged = bytearray(made.data)
    headers = min(o for o in made.offsets if o)
    places = st.integers(headers, len(damaged) - 1) | st.integers(0, len(damaged) - 1)
    for at in data.draw(st.lists(places, min_size=1, max_size=3)):
        damaged[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    offsets = list(made.offsets)
    if data.draw(st.booleans()):
        offsets[data.draw(st.integers(0, 2))] = data.draw(st.integers(-1, len(damaged) + 9) | st.just(2**63 - 1))
    read_everything(StateFile(bytes(damaged), made.key_groups, tuple(offsets)).handle(handle_code))
