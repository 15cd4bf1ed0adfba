"""Sources of canonical and heap files: recognition, reading and damage."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_processor.backends.files.recorded_paths import Relocation
from state_processor.backends.files.storage import Storage
from state_processor.backends.formats import heap as heap_files
from state_processor.backends.formats import key_group_file as canonical_files
from state_processor.backends.formats.heap import HeapSource
from state_processor.backends.formats.key_group_file import CanonicalSource
from state_processor.backends.formats.key_index import SerializedKeys
from state_processor.backends.formats.opening import open_key_groups
from state_processor.backends.formats.row_layout import ReferenceDecoder, RowLayout
from state_processor.backends.formats.source import ScanRequest
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.streams import StateStream, open_stream
from state_processor.backends.state import state_headers
from state_processor.backends.state.key_groups import prefix_size
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput
from state_processor.support.errors import CorruptSnapshotError
from tests.backends.state_files import (
    LONG,
    NAMESPACE_OF_VOID,
    STRING,
    StateFile,
    canonical,
    heap,
    keyed,
    keyed_header,
    long,
    snappy,
    string,
)

HEADER = keyed_header(STRING, [keyed("a", LONG), keyed("b", STRING)])


def stream_of(handle: h.KeyGroupsStateHandle) -> StateStream:
    storage = Storage()
    return open_stream(handle.stream, storage, Relocation(storage, "/nowhere"))


def opened(file: StateFile, code: int = 7, max_parallelism: int = 128) -> Any:
    handle = file.handle(code)
    header = state_headers.KeyedHeader.read(DataInput(file.data))
    return open_key_groups(stream_of(handle), handle, header, "context", max_parallelism)


def scan(source: Any, name: str, columns: tuple[str, ...], groups: tuple[int, int] = (0, 32767), keys: Any = None) -> list[Any]:
    request = ScanRequest(name, frozenset(columns), DecodeOptions(), h.KeyGroupRange(*groups), keys)
    return [row for batch in source.scan(request) for row in batch.to_pylist()]


def entry(key: str, value: bytes) -> tuple[bytes, bytes]:
    return string(key) + NAMESPACE_OF_VOID, value


def test_prefix_sizes() -> None:
    assert [prefix_size(n) for n in (1, 128, 129, 32768)] == [1, 1, 2, 2]


# Which format


@pytest.mark.parametrize("code", [3, 12])
@pytest.mark.parametrize("groups", [(0, 0), (0, 3), (5, 5), (5, 9)])
def test_both_bodies_behind_codes_that_do_not_tell(code: int, groups: tuple[int, int]) -> None:
    every = range(groups[0], groups[1] + 1)
    full = canonical(HEADER, groups, {g: {0: [entry("k", long(g))]} for g in every})
    source = opened(full, code)
    assert isinstance(source, CanonicalSource)
    assert [r["value"] for r in scan(source, "a", ("value",))] == list(every)
    plain = heap(HEADER, groups, {g: {0: [NAMESPACE_OF_VOID + string("k") + long(g)]} for g in every}, 2)
    source = opened(plain, code)
    assert isinstance(source, HeapSource)
    assert [r["value"] for r in scan(source, "a", ("value",))] == list(every)


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_heap_file_of_key_group_0_alone_in_any_order_of_states(order: list[int], count: int) -> None:
    values = {0: [NAMESPACE_OF_VOID + string(f"k{i}") + long(i) for i in range(count)], 1: []}
    found = heap(HEADER, (0, 0), {0: {s: values[s] for s in order}}, 2)
    source = opened(found, 12)
    assert isinstance(source, HeapSource)
    assert [r["value"] for r in scan(source, "a", ("value",))] == list(range(count))


def test_an_empty_key_group_is_canonical() -> None:
    source = opened(canonical(HEADER, (0, 2), {0: {0: [entry("k", long(1))]}}), 3)
    assert isinstance(source, CanonicalSource)
    assert opened(canonical(HEADER, (0, 2), {}), 12).__class__ is CanonicalSource


def test_a_key_so_large_that_its_length_looks_like_the_number_of_a_key_group() -> None:
    key = "k" * ((5 << 16) - 5)  # and one byte of key group, three of its length, one of namespace
    found = canonical(HEADER, (5, 5), {5: {0: [entry(key, long(7))]}})
    at = found.offsets[0]
    assert int.from_bytes(found.data[at : at + 4], "big") == 5
    source = opened(found, 12)
    assert isinstance(source, CanonicalSource)
    assert [r["value"] for r in scan(source, "a", ("value",))] == [7]


@pytest.mark.parametrize("code", [3, 12])
def test_compressed_bodies_are_told_apart(code: int) -> None:
    header = keyed_header(STRING, [keyed("a", LONG)], compressed=True)
    full = canonical(header, (0, 0), {0: {0: [entry("k", long(1))]}}, compressed=True)
    assert isinstance(opened(full, code), CanonicalSource)
    plain = heap(header, (0, 0), {0: {0: [NAMESPACE_OF_VOID + string("k") + long(1)]}}, 1, compressed=True)
    assert isinstance(opened(plain, code), HeapSource)


# What is read


def test_columns_that_nobody_wants_are_stepped_over() -> None:
    full = canonical(HEADER, (0, 1), {1: {1: [entry("k", string("v"))]}})
    plain = heap(HEADER, (0, 1), {1: {1: [NAMESPACE_OF_VOID + string("k") + string("v")]}}, 2)
    for source in (opened(full), opened(plain, 12)):
        assert scan(source, "b", ("key",)) == [{"key": "k"}]
        assert scan(source, "b", ("value", "_key_group")) == [{"value": "v", "_key_group": 1}]
        assert scan(source, "b", ("value", "key")) == [{"key": "k", "value": "v"}]
        assert scan(source, "absent", ("key",)) == []


def test_key_bytes() -> None:
    full = canonical(HEADER, (0, 1), {1: {1: [entry("k", string("v"))]}})
    assert scan(opened(full), "b", ("_key_bytes",)) == [{"_key_bytes": string("k") + NAMESPACE_OF_VOID}]
    plain = heap(HEADER, (0, 1), {1: {1: [NAMESPACE_OF_VOID + string("k") + string("v")]}}, 2)
    assert scan(opened(plain, 12), "b", ("_key_bytes",)) == [{"_key_bytes": string("k")}]


def test_keys_are_compared_before_values_are_decoded() -> None:
    damaged = b"\x7f"
    full = canonical(HEADER, (0, 1), {1: {1: [entry("bad", damaged), entry("good", string("v"))]}})
    assert scan(opened(full), "b", ("key", "value"), keys=SerializedKeys.of([string("good")])) == [{"key": "good", "value": "v"}]
    with pytest.raises(CorruptSnapshotError, match="key 'bad'"):
        scan(opened(full), "b", ("key", "value"))


@pytest.mark.parametrize("decoder", ["kernel", "reference"])
@pytest.mark.parametrize("rows", [1, 2, 1024])
def test_the_entry_with_a_damaged_value_is_named(rows: int, decoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical_files, "_TABLE_ROWS", rows)
    if decoder == "reference":
        monkeypatch.setattr(RowLayout, "decoder", lambda layout, options: ReferenceDecoder(layout, options))
    values = [string("v"), string("w"), b"\x7f", string("x")]
    full = canonical(HEADER, (0, 1), {1: {1: [entry(f"k{i}", value) for i, value in enumerate(values)]}})
    with pytest.raises(CorruptSnapshotError, match=r"state 'b'.*, offset [0-9]+, key 'k2'"):
        scan(opened(full), "b", ("key", "value"))


@pytest.mark.parametrize("window", [1, 7, 64, 4096])
def test_windows_of_any_size_give_the_same(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical_files, "_WINDOW", window)
    monkeypatch.setattr(canonical_files, "_LARGEST_WINDOW", 2 * window)
    monkeypatch.setattr(canonical_files, "_TABLE_ROWS", 2)
    entries = {g: {0: [entry(f"k{g}-{i}", long(i)) for i in range(5)], 1: [entry("t", string("x" * g))]} for g in (0, 1, 4, 9)}
    found = canonical(HEADER, (0, 9), entries)
    source = opened(found)
    assert [(r["_key_group"], r["value"]) for r in scan(source, "a", ("value", "_key_group"))] == [
        (g, i) for g in entries for i in range(5)
    ]
    assert [len(r["value"]) for r in scan(source, "b", ("value",), groups=(1, 4))] == [1, 4]


def noting(original: Any, read: list[tuple[int, int]], offset: int, length: int) -> memoryview:
    read.append((offset, length))
    return original(offset, length)


def test_only_wanted_key_groups_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    full = canonical(HEADER, (0, 9), {g: {0: [entry(f"{g}", long(g))]} for g in range(10)})
    plain = heap(HEADER, (0, 9), {g: {0: [NAMESPACE_OF_VOID + string(f"{g}") + long(g)]} for g in range(10)}, 2)
    for found, source in ((full, opened(full)), (plain, opened(plain, 12))):
        read: list[tuple[int, int]] = []
        monkeypatch.setattr(source.stream, "read", partial(noting, source.stream.read, read))
        assert [r["value"] for r in scan(source, "a", ("value",), groups=(3, 4))] == [3, 4]
        assert read == [(found.offsets[3], found.offsets[5] - found.offsets[3])]


def test_a_heap_file_is_indexed_once_for_all_states(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {0: [NAMESPACE_OF_VOID + string("k") + long(1)], 1: [NAMESPACE_OF_VOID + string("k") + string("v")]}
    source = opened(heap(HEADER, (0, 1), {0: entries}, 2), 12)
    assert scan(source, "a", ("value",)) == [{"value": 1}]
    monkeypatch.setattr(source.stream, "read", lambda *_: pytest.fail("read again"))
    assert scan(source, "b", ("value",)) == [{"value": "v"}]


def test_large_heap_files_are_read_a_few_key_groups_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap_files, "_MOST_CACHED", 100)
    entries = {g: {0: [NAMESPACE_OF_VOID + string(f"{g}") + long(g)], 1: []} for g in range(10)}
    found = heap(HEADER, (0, 9), entries, 2)
    size = found.offsets[1] - found.offsets[0]
    monkeypatch.setattr(heap_files, "_READ_BYTES", 3 * size + 1)
    source = opened(found, 12)
    read: list[tuple[int, int]] = []
    monkeypatch.setattr(source.stream, "read", partial(noting, source.stream.read, read))
    for _ in range(2):
        assert [r["value"] for r in scan(source, "a", ("value",))] == [*range(10)]
    assert read == [(found.offsets[g], size * min(3, 10 - g)) for g in (0, 3, 6, 9)] * 2


# Damage


def broken_heap(block: bytes, states: int = 2, group: int = 0) -> Any:
    header = keyed_header(STRING, [keyed(f"s{i}", STRING) for i in range(states)])
    file = StateFile(header + block, h.KeyGroupRange(group, group), (len(header),))
    handle = file.handle(12)
    return HeapSource(stream_of(handle), handle, state_headers.KeyedHeader.read(DataInput(file.data)), "context")


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        (struct.pack(">i", 1), "expected key group 0, found 1"),
        (struct.pack(">iHi", 0, 2, 0), "0 entries of state number 2 are impossible"),
        (struct.pack(">iHi", 0, 0, -1), "-1 entries of state number 0 are impossible"),
        (struct.pack(">iHiHi", 0, 0, 0, 0, 0), "0 entries of state number 0 are impossible"),
        (struct.pack(">iHiHi", 0, 0, 0, 1, 0) + b"x", "1 bytes are left over"),
        (struct.pack(">iHi", 0, 0, 0), "announced, 0 left"),
        (struct.pack(">iHi", 0, 0, 2**31 - 1) + b"\0\2k\2v" * 3, "the bytes end inside a value|a string is damaged"),
    ],
)
def test_damaged_heap_blocks(block: bytes, problem: str) -> None:
    with pytest.raises(CorruptSnapshotError, match=problem):
        scan(broken_heap(block), "s1", ("key",))


def test_bytes_behind_the_last_entry_of_a_heap_block() -> None:
    block = struct.pack(">iHi", 0, 0, 0) + struct.pack(">Hi", 1, 1) + b"\0\2k\2v" + b"x"
    with pytest.raises(CorruptSnapshotError, match=r"'s1', .*key group 0: its last entry ends at offset \d+, the key group"):
        scan(broken_heap(block), "s1", ("key",))


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_states_of_a_heap_block_are_read_in_any_order(order: tuple[int, ...]) -> None:
    block = struct.pack(">i", 0) + b"".join(struct.pack(">Hi", i, 1) + b"\0\2k" + string(f"v{i}") for i in range(3))
    source = broken_heap(block, states=3)
    for i in order:
        assert scan(source, f"s{i}", ("key", "value")) == [{"key": "k", "value": f"v{i}"}]


VALUES = {"fixed": LONG, "text": STRING}


def heap_of(kinds: Sequence[str], counts: Sequence[int], groups: int, damaged: tuple[int, int, int] | None = None) -> Any:
    """A heap file of states with values of some ``kinds``; ``damaged``: key group, state, and the count that is written."""
    header = keyed_header(LONG, [keyed(f"s{i}", VALUES[kind]) for i, kind in enumerate(kinds)])
    blocks = {}
    for group in range(groups):
        streams = []
        for state, kind in enumerate(kinds):
            written = damaged[2] if damaged is not None and damaged[:2] == (group, state) else counts[state]
            value = long(group) if kind == "fixed" else string(f"{group}")
            rows = b"".join(b"\0" + long((j << 8) + group) + value for j in range(counts[state]))
            streams.append(struct.pack(">Hi", state, written) + rows)
        blocks[group] = struct.pack(">i", group) + b"".join(streams)
    data, offsets = bytearray(header), []
    for group in range(groups):
        offsets.append(len(data))
        data += blocks[group]
    handle = StateFile(bytes(data), h.KeyGroupRange(0, groups - 1), tuple(offsets)).handle(12)
    return HeapSource(stream_of(handle), handle, state_headers.KeyedHeader.read(DataInput(bytes(data))), "context")


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_changed_count_is_found_whichever_state_of_fixed_size_is_read(data: Any) -> None:
    """One bit of a count: no state can be read, since the counts do not lead to the end of the key group."""
    states, groups = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    counts = data.draw(st.lists(st.integers(0, 3), min_size=states, max_size=states))
    kinds = ["fixed"] * states
    for read in range(states):
        assert len(scan(heap_of(kinds, counts, groups), f"s{read}", ("key", "value"))) == groups * counts[read]
    group, state = data.draw(st.integers(0, groups - 1)), data.draw(st.integers(0, states - 1))
    bit = 1 << data.draw(st.integers(0, 31))
    wrong = struct.unpack(">i", struct.pack(">I", counts[state] ^ bit))[0]
    for read in range(states):
        with pytest.raises(CorruptSnapshotError):
            scan(heap_of(kinds, counts, groups, (group, state, wrong)), f"s{read}", ("key", "value"))


@pytest.mark.parametrize("kinds", [("fixed", "text"), ("text", "fixed"), ("text", "text"), ("text", "fixed", "text")])
def test_a_changed_count_of_any_state_is_found_by_a_walk_through_all(kinds: tuple[str, ...]) -> None:
    counts = [1] * len(kinds)
    assert heap_of(kinds, counts, 3).count_through(h.KeyGroupRange(0, 2)) == ""
    for group, state, wrong in product(range(3), range(len(kinds)), (0, 2, 3, 1 << 20, -1)):
        with pytest.raises(CorruptSnapshotError, match=r"^context, .*inline state file, offset \d+"):
            heap_of(kinds, counts, 3, (group, state, wrong)).count_through(h.KeyGroupRange(0, 2))


@pytest.mark.parametrize("kinds", [("fixed", "text"), ("text", "text"), ("text", "fixed")])
@pytest.mark.parametrize("count", [0, -1, 1 << 20])
def test_a_row_does_not_vanish_in_front_of_values_that_differ_in_size(kinds: tuple[str, ...], count: int) -> None:
    """What follows a state that is read has to be a state with as many entries as there are bytes for."""
    with pytest.raises(CorruptSnapshotError):
        scan(heap_of(kinds, (1, 2), 3, (1, 0, count)), "s0", ("key",))
    if count:
        with pytest.raises(CorruptSnapshotError, match=f"key group 1: {count} entries of state number 1 are impossible"):
            scan(heap_of(kinds, (1, 2), 3, (1, 1, count)), "s0", ("key",))


def test_a_state_in_front_of_an_unknown_serializer_is_read() -> None:
    unknown = keyed("s1", STRING).replace(b"StringSerializerSnapshot", b"StrangSerializerSnapshot")
    header = keyed_header(LONG, [keyed("s0", LONG), unknown])
    block = struct.pack(">iHi", 0, 0, 1) + b"\0" + long(1) + long(2) + struct.pack(">Hi", 1, 1) + b"?????"
    handle = StateFile(header + block, h.KeyGroupRange(0, 0), (len(header),)).handle(12)
    source = HeapSource(stream_of(handle), handle, state_headers.KeyedHeader.read(DataInput(header)), "context")
    assert scan(source, "s0", ("key", "value")) == [{"key": 1, "value": 2}]
    assert "StrangSerializerSnapshot" in source.count_through(h.KeyGroupRange(0, 0))


@pytest.mark.parametrize("kind", [CanonicalSource, HeapSource])
def test_offsets_behind_the_end(kind: type) -> None:
    file = StateFile(HEADER + bytes(10), h.KeyGroupRange(0, 1), (len(HEADER), 2**62))
    handle = file.handle()
    arguments = (128,) if kind is CanonicalSource else ()
    source = kind(stream_of(handle), handle, state_headers.KeyedHeader.read(DataInput(HEADER)), "context", *arguments)
    with pytest.raises(CorruptSnapshotError, match="key group 1 starts after the end of the file"):
        scan(source, "a", ("key",))


def test_messages_of_damaged_framing_say_where() -> None:
    made = canonical(HEADER, (3, 3), {3: {0: [entry("k", long(1))]}})
    at = made.offsets[0]
    for position, byte, problem in (
        (at + 1, 9, "a state id that the header does not register"),
        (at + 2, 0x70, "length of a key or value exceeds the file"),
        (at + 6, 0x84, "an entry of another key group"),
        (len(made.data) - 1, 0, "a state id that the header does not register"),
    ):
        data = bytearray(made.data)
        data[position] = byte
        with pytest.raises(CorruptSnapshotError, match=rf"^context, inline state file, offset \d+, key group 3: .*{problem}"):
            scan(opened(StateFile(bytes(data), made.key_groups, made.offsets)), "a", ("key",))


def test_a_compressed_key_group_ends_where_its_content_does() -> None:
    header = keyed_header(STRING, [keyed("a", LONG)], compressed=True)
    block = b"\0\0" + struct.pack(">i", 4) + b"\x80" + b"\2k" + b"\0" + struct.pack(">i", 8) + long(1) + b"\xff\xff"
    good = StateFile(header + snappy(block), h.KeyGroupRange(0, 0), (len(header),))
    assert scan(opened(good), "a", ("key", "value")) == [{"key": "k", "value": 1}]
    bad = StateFile(header + snappy(block + b"x"), h.KeyGroupRange(0, 0), (len(header),))
    with pytest.raises(CorruptSnapshotError, match="the end of the key group is not the start of the next one"):
        scan(opened(bad), "a", ("key",))
