"""Changes of the changelog backend on top of each backend, and incomplete or wrong logs."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from state_processor.backends.files.recorded_paths import Relocation
from state_processor.backends.formats import changelog_log as log
from state_processor.backends.formats.changelog_log import deduce_key
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.read.key_lookup import keys_of
from state_processor.backends.read.keyed_reader import read_state
from state_processor.backends.read.keyed_splits import KeyedHandle, managed_handles
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.stored_operator import find_operator, operator_states
from state_processor.backends.state import state_headers
from state_processor.backends.state.key_groups import key_group
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.collections import ListSerializer
from state_processor.serializers.runtime.namespaces import Timer, TimerSerializer, VoidNamespaceSerializer
from state_processor.support.errors import CorruptSnapshotError, MissingFileError, UnsupportedFormatError
from tests.backends.changelogs import KEY, VOID, Log, group_of
from tests.corpus import FIXTURES

BASES = ("orders-hashmap-native", "orders-hashmap-canonical", "orders-rocksdb-native", "orders-rocksdb-incremental")
TIMERS = "_timer_state/event_user-timers"


def owner(snapshot: Snapshot, key: str) -> KeyedHandle:
    return next(x for x in managed_handles(find_operator(snapshot, "orders")) if group_of(key) in x.key_groups)


def opened(base: str) -> Snapshot:
    directory = FIXTURES / "2.3.0" / base
    return open_snapshot(next(directory.glob("savepoint/**/_metadata")).parent)


def on_top(handle: KeyedHandle, *changes: h.ChangelogStateHandle, materialized: bool = True) -> KeyedHandle:
    base = (handle.handle,) if materialized else ()
    inner = h.ChangelogStateBackendHandle(14, handle.key_groups, 0, base, changes, 1, 1, "id")
    return replace(handle, handle=inner)


def read(
    snapshot: Snapshot, handles: list[KeyedHandle], state: str, *, keys: tuple[Any, ...] | None = None, **options: Any
) -> list[dict[str, Any]]:
    rows = []
    for handle in handles:
        source = handle.open(snapshot)
        described = source.describe(state)
        assert described is not None
        wanted = None if keys is None else keys_of(described, keys)
        for batch in read_state(source, described, ReadOptions.of(**options).of_states(), handle.key_groups, wanted):
            rows += [{n: v for n, v in row.items() if n != "_key_bytes"} for row in batch.to_pylist()]
    return rows


def by_key(rows: list[dict[str, Any]]) -> dict[str, Any]:
    found = {row["key"]: row["value"] for row in rows}
    assert len(found) == len(rows)
    return found


def metas(snapshot: Snapshot, handle: KeyedHandle) -> dict[str, state_headers.StateMetaInfo]:
    return {meta.name: meta for meta in handle.open(snapshot).header.states}


def changed(base: str, state: str, write: Callable[[Log, TypeSerializer, TypeSerializer | None], None]) -> tuple[Any, Any]:
    """Rows before and after changes, from handles with the changes on top."""
    snapshot = opened(base)
    handles = list(managed_handles(find_operator(snapshot, "orders")))
    before = read(snapshot, handles, state, flatten=False)
    changes = Log()
    changes.announce(metas(snapshot, handles[0])[state])
    described = handles[0].open(snapshot).describe(state)
    assert described is not None
    write(changes, described.value, described.serializers.get("map_key"))
    top = [on_top(handle, changes.handle(handle.key_groups)) for handle in handles]
    after = read(snapshot, top, state, flatten=False)
    flat = read(snapshot, top, state)
    assert {row["key"] for row in flat} == {row["key"] for row in after}
    keys = tuple({"amelia", "chidi", after[0]["key"]})
    wanted = [repr(row) for row in after if row["key"] in keys]
    assert sorted(map(repr, read(snapshot, top, state, flatten=False, keys=keys))) == sorted(wanted)
    return before, after


@pytest.mark.parametrize("base", BASES)
def test_values_are_set_and_cleared(base: str) -> None:
    def write(changes: Log, value: TypeSerializer, _: TypeSerializer | None) -> None:
        changes.change("total", log.SET, "amelia", value.serialize(1))
        changes.change("total", log.SET_INTERNAL, "amelia", value.serialize(2))
        changes.change("total", log.CLEAR, "chidi")
        changes.change("total", log.SET, "somebody new", value.serialize(-3))

    before, after = map(by_key, changed(base, "total", write))
    del before["chidi"]
    assert after == before | {"amelia": 2, "somebody new": -3}


@pytest.mark.parametrize("base", BASES)
def test_lists_grow_and_are_replaced(base: str) -> None:
    def write(changes: Log, element: TypeSerializer, _: TypeSerializer | None) -> None:
        def whole(*elements: str) -> bytes:
            return struct.pack(">i", len(elements)) + b"".join(map(element.serialize, elements))

        changes.change("history", log.ADD_ELEMENT, "aoife", element.serialize("one, with a comma"))
        changes.change("history", log.ADD, "aoife", whole("two", ","))
        changes.change("history", log.SET, "clara", whole("only"))
        changes.change("history", log.SET_INTERNAL, "elif", whole())
        changes.change("history", log.CLEAR, "emre")
        changes.change("history", log.ADD, "emre", whole("after clear"))
        changes.change("history", log.ADD, "nobody", whole())
        changes.change("history", log.ADD_ELEMENT, "somebody new", element.serialize("first"))

    before, after = map(by_key, changed(base, "history", write))
    assert len(before["aoife"]) > 1
    del before["elif"]
    assert after == before | {
        "aoife": [*before["aoife"], "one, with a comma", "two", ","],
        "clara": ["only"],
        "emre": ["after clear"],
        "somebody new": ["first"],
    }


@pytest.mark.parametrize("base", BASES)
def test_maps_are_changed_entry_by_entry(base: str) -> None:
    snapshot = opened(base)
    handles = list(managed_handles(find_operator(snapshot, "orders")))
    content = {row["key"]: dict(row["value"]) for row in read(snapshot, handles, "items", flatten=False)}
    gone, kept = (key for key in sorted(content) if len(content[key]) == 1 or key == "amelia"), "amelia"
    single = next(key for key in gone if key != kept)
    entry = next(iter(content[single]))
    old, value = next(iter(content[kept].items()))

    def write(changes: Log, values: TypeSerializer, map_key: TypeSerializer | None) -> None:
        assert map_key is not None
        changes.change("items", log.ADD_OR_UPDATE_ELEMENT, kept, map_key.serialize("brand new") + values.serialize(value))
        changes.change("items", log.REMOVE_ELEMENT, kept, map_key.serialize(old))
        two = map_key.serialize("a") + b"\x00" + values.serialize(value) + map_key.serialize("b") + b"\x01"
        changes.change("items", log.ADD, kept, struct.pack(">i", 2) + two)
        changes.change("items", log.REMOVE_ELEMENT, kept, map_key.serialize("never there"))
        changes.change("items", log.REMOVE_ELEMENT, single, map_key.serialize(entry))

    _, after = changed(base, "items", write)
    found = {row["key"]: dict(row["value"]) for row in after}
    expected = {key: entries for key, entries in content.items() if key != single}
    expected[kept] = {k: v for k, v in content[kept].items() if k != old} | {"brand new": value, "a": value, "b": None}
    assert found == expected


@pytest.mark.parametrize("base", BASES)
def test_timers_come_and_go(base: str) -> None:
    snapshot = opened(base)
    handles = list(managed_handles(find_operator(snapshot, "orders")))
    serializer = metas(snapshot, handles[0])[TIMERS].restore(state_headers.VALUE)
    assert isinstance(serializer, TimerSerializer)
    before = {(row["key"], row["timestamp"]) for row in read(snapshot, handles, TIMERS)}
    gone = min(before)
    changes = Log()
    changes.announce(metas(snapshot, handles[0])[TIMERS])
    namespace = serializer.namespace.deserialize(VOID)
    changes.change(TIMERS, log.REMOVE_ELEMENT, gone[0], serializer.serialize(Timer(gone[1], gone[0], namespace)), b"")
    two = b"".join(serializer.serialize(Timer(time, "zoe", namespace)) for time in (-5, 5))
    changes.change(TIMERS, log.ADD_ELEMENT, "zoe", struct.pack(">i", 2) + two, b"")
    changes.change(TIMERS, log.ADD_ELEMENT, "zoe", struct.pack(">i", 1) + two[: len(two) // 2], b"")
    top = [on_top(handle, changes.handle(handle.key_groups)) for handle in handles]
    after = [(row["key"], row["timestamp"]) for row in read(snapshot, top, TIMERS)]
    assert sorted(after) == sorted((before - {gone}) | {("zoe", -5), ("zoe", 5)})


def test_states_of_the_log_alone_are_listed_and_read() -> None:
    snapshot = opened(BASES[0])
    handles = list(managed_handles(find_operator(snapshot, "orders")))
    changes = Log()
    changes.announce(value_meta("added later", NumberSerializer("INT")))
    changes.change("added later", log.SET, "amelia", struct.pack(">i", 4))
    top = [on_top(handle, changes.handle(handle.key_groups)) for handle in handles]
    assert read(snapshot, top, "added later") == [{"key": "amelia", "value": 4}]
    operator = find_operator(snapshot, "orders")
    subtasks = tuple(replace(s, managed_keyed=t.handle) for s, t in zip(operator.subtasks, top, strict=True))
    listed = operator_states(snapshot, replace(operator, subtasks=subtasks))
    assert listed["added later"].backend == "changelog"
    assert {"total", "history", "items"} <= listed.keys()


def value_meta(name: str, value: TypeSerializer) -> state_headers.StateMetaInfo:
    serializers = {state_headers.NAMESPACE: VoidNamespaceSerializer().snapshot(), state_headers.VALUE: value.snapshot()}
    return state_headers.StateMetaInfo(name, "KEY_VALUE", {state_headers.KEYED_STATE_TYPE: "VALUE"}, serializers)


@pytest.mark.parametrize("compressed", [False, True])
def test_files_of_the_log_are_read_behind_their_flag(compressed: bool, tmp_path: Any) -> None:
    snapshot = opened(BASES[2])
    handle = owner(snapshot, "amelia")
    changes = Log()
    changes.announce(metas(snapshot, handle)["total"])
    changes.change("total", log.SET, "amelia", struct.pack(">q", 77))
    content, offset = changes.file(compressed=compressed, before=b"changes of others")
    path = tmp_path / "log"
    path.write_bytes(content)
    snapshot = replace(snapshot, relocation=Relocation(snapshot.storage, snapshot.directory, allow_paths=[str(tmp_path)]))

    def file(size: int) -> KeyedHandle:
        stream = h.FileStateHandle(size, f"file:{path}")
        part = h.ChangelogFileStateHandle(13, handle.key_groups, ((offset, stream),), size, size, "id", "filesystem")
        return on_top(handle, part)

    assert by_key(read(snapshot, [file(len(content) - 1)], "total"))["amelia"] == 77
    path.write_bytes(content[:-5])
    with pytest.raises((CorruptSnapshotError, MissingFileError), match=r"operator 'orders', subtask 1.*log"):
        read(snapshot, [file(len(content) - 6)], "total")
    path.unlink()
    with pytest.raises(MissingFileError, match=r"operator 'orders', subtask 1, changelog.*log"):
        read(snapshot, [file(len(content) - 1)], "total")


@pytest.mark.parametrize(
    ("operation", "data", "error", "message"),
    [
        (9, b"", UnsupportedFormatError, "unknown change 9 of VALUE state 'total'"),
        (log.ADD, b"", UnsupportedFormatError, "unknown change ADD of VALUE state 'total'"),
        (log.SET, bytes(9), CorruptSnapshotError, "1 bytes too many"),
        (log.SET, bytes(7), CorruptSnapshotError, "7 left"),
    ],
)
def test_changes_that_make_no_sense_are_errors(operation: int, data: bytes, error: type[Exception], message: str) -> None:
    snapshot = opened(BASES[0])
    handle = owner(snapshot, "amelia")
    changes = Log()
    changes.announce(metas(snapshot, handle)["total"])
    changes.change("total", operation, "amelia", data)
    with pytest.raises(error, match=f"operator 'orders', subtask 1.*{message}"):
        read(snapshot, [on_top(handle, changes.handle(handle.key_groups))], "total")


def test_a_state_that_was_not_announced_is_an_error() -> None:
    snapshot = opened(BASES[0])
    handle = owner(snapshot, "amelia")
    change = h.StateChange(group_of("amelia"), struct.pack(">bh", log.CLEAR, 99) + KEY.serialize("amelia") + VOID)
    part = h.InMemoryChangelogStateHandle(handle.key_groups, 0, 1, (change,), "log")
    with pytest.raises(CorruptSnapshotError, match="a change of the unknown state id 99"):
        on_top(handle, part).open(snapshot)


def test_a_type_that_changed_since_the_materialization_is_refused() -> None:
    snapshot = opened(BASES[0])
    handle = owner(snapshot, "amelia")
    changes = Log()
    changes.announce(value_meta("total", StringSerializer()))
    with pytest.raises(UnsupportedFormatError, match="state 'total': its serializer changed"):
        read(snapshot, [on_top(handle, changes.handle(handle.key_groups))], "total")


NAMES = StringSerializer()


def merged(kind: str, value: TypeSerializer, present: dict[str, bytes]) -> list[dict[str, Any]]:
    """A state in namespaces "a" to "c"; "b" and "c" are merged into "a"."""
    snapshot = opened(BASES[0])
    handle = owner(snapshot, "amelia")
    serializers = {state_headers.NAMESPACE: NAMES.snapshot(), state_headers.VALUE: value.snapshot()}
    changes = Log()
    changes.announce(state_headers.StateMetaInfo("windows", "KEY_VALUE", {state_headers.KEYED_STATE_TYPE: kind}, serializers))
    for namespace, data in present.items():
        changes.change("windows", log.SET, "amelia", data, KEY.serialize("amelia") + NAMES.serialize(namespace))
    data = NAMES.serialize("a") + struct.pack(">i", 2) + NAMES.serialize("b") + NAMES.serialize("c")
    changes.change("windows", log.MERGE_NAMESPACES, "amelia", data, KEY.serialize("amelia") + NAMES.serialize("a"))
    return read(snapshot, [on_top(handle, changes.handle(handle.key_groups))], "windows", flatten=False)


def test_merged_lists_stand_in_the_target_first() -> None:
    elements = ListSerializer(NumberSerializer("INT"))
    rows = merged("LIST", elements, {name: elements.serialize([i, i]) for i, name in enumerate("cab")})
    assert rows == [{"key": "amelia", "namespace": "a", "value": [1, 1, 2, 2, 0, 0]}]


def test_a_single_merged_value_moves_and_several_are_not_guessed() -> None:
    number = NumberSerializer("INT")
    assert merged("REDUCING", number, {"c": number.serialize(5)}) == [{"key": "amelia", "namespace": "a", "value": 5}]
    assert merged("REDUCING", number, {}) == []
    with pytest.raises(UnsupportedFormatError, match=r"a merge of windows without its result.*Take a savepoint"):
        merged("REDUCING", number, {"a": number.serialize(5), "b": number.serialize(6)})


def samples(key: TypeSerializer, values: list[Any]) -> list[tuple[int, memoryview, TypeSerializer]]:
    void = VoidNamespaceSerializer()
    return [(int(key_group(key.hash_code(v), 128)), memoryview(key.serialize(v) + VOID + b"rest"), void) for v in values]


@pytest.mark.parametrize(
    ("key", "values", "found"),
    [
        (StringSerializer(), ["amelia", "", "日本"], "STRING"),
        (NumberSerializer("LONG"), [0, -1, 1 << 60, 12], "LONG"),
        (NumberSerializer("INT"), [5, 1_700_000_000, -7, 900], "INT"),
        (NumberSerializer("SHORT"), [1, 2, 300, -300], "SHORT"),
        (NumberSerializer("DOUBLE"), [1.5, -2.25, 1e6], None),
        (NumberSerializer("FLOAT"), [1.5, -2.25, 100.0], None),
        (StringSerializer(), [], None),
    ],
)
def test_keys_types_are_deduced_from_their_groups(key: TypeSerializer, values: list[Any], found: str | None) -> None:
    deduced = deduce_key(samples(key, values), 128)
    assert (None if deduced is None else str(deduced)) == found


def test_keys_without_any_hint_are_an_error_that_says_so() -> None:
    snapshot = opened(BASES[0])
    handle = owner(snapshot, "amelia")
    changes = Log()
    changes.announce(value_meta("total", NumberSerializer("LONG")))
    bare = on_top(handle, changes.handle(handle.key_groups), materialized=False)
    assert bare.open(snapshot).describe("total") is None
    changes.change("total", log.SET, "amelia", b"\0" * 8, scope=b"\x7f\x11\x12")
    with pytest.raises(UnsupportedFormatError, match=r"state 'total': .*does not contain the type of keys"):
        on_top(handle, changes.handle(handle.key_groups), materialized=False).open(snapshot).describe("total")
