"""The largest keys of an operator, in all formats."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pyarrow as pa

from state_processor.backends.analysis.entry_sizes import KeyedSizes
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from tests.backends.keyed_files import FORMATS, HEAP, Entry, listed, mapped, one, void
from tests.backends.read.test_raw_state import VOID, block
from tests.backends.read.test_raw_state import operator as raw_operator
from tests.backends.state_files import LONG, STRING, group_of, keyed, long, snapshot, string


def largest(operator: OperatorState, top: int = 1 << 62, split_bytes: int = 500) -> list[tuple[object, int, int]]:
    """Key, entries and bytes; splits are small, for there to be several."""
    sizes = KeyedSizes(StoredOperator(snapshot(operator), operator))
    tables = [table for split in sizes.splits_of_keys(split_bytes) if (table := sizes.largest_keys(split, top)) is not None]
    rows = pa.concat_tables(tables).to_pylist()
    return sorted(((r["key"], r["entries"], r["size_in_bytes"]) for r in rows), key=lambda r: -r[2])[:top]


def grouped(key: TypeSerializer, states: dict[int, dict[object, list[Entry]]]) -> dict[int, dict[int, list[Entry]]]:
    groups: dict[int, dict[int, list[Entry]]] = {}
    for state, content in states.items():
        for value, entries in content.items():
            groups.setdefault(group_of(key, value), {s: [] for s in states})[state] += entries
    return groups


@FORMATS
def test_the_largest_of_one_state(form: str) -> None:
    chosen = random.Random(7)
    texts = {n: "x" * chosen.randrange(200) for n in range(900)}
    groups = grouped(LONG, {0: {n: [void(long(n), string(text))] for n, text in texts.items()}})
    operator = one(form, LONG, [keyed("v", STRING)], groups)
    expected = [(n, 1, 8 + 1 + len(string(text))) for n, text in texts.items()]
    assert sorted(largest(operator)) == sorted(expected)
    sizes = sorted((size for *_, size in expected), reverse=True)
    for top in (1, 7, 100):
        found = largest(operator, top)
        assert set(found) <= set(expected)
        assert [size for *_, size in found] == sizes[:top]


@FORMATS
def test_all_entries_of_keys_of_any_length(form: str) -> None:
    """A list counts as one entry, a map as its number of entries; sizes equal the sizes of canonical entries."""
    keys = ["", "a", "a longer key", "b"]
    lists = {k: ["x" * i, "y"] for i, k in enumerate(keys)}
    maps: dict[str, dict[str, str]] = {k: {str(j): "z" * j for j in range(i)} for i, k in enumerate(keys)}
    found: dict[int, dict[object, list[Entry]]] = {
        0: {k: [void(string(k), listed(form, *map(string, v)))] for k, v in lists.items()},
        1: {k: mapped(form, string(k), b"\0", [(string(m), string(v)) for m, v in of.items()]) for k, of in maps.items() if of},
    }
    states = [keyed("l", ListSerializer(STRING), "LIST"), keyed("m", MapSerializer(STRING, STRING), "MAP")]
    bytes_, entries = Counter[str](), Counter[str]()
    for k in keys:
        prefix: int = len(string(k)) + 1
        bytes_[k] += prefix + sum(len(string(text)) for text in lists[k]) + 1
        bytes_[k] += sum(prefix + len(string(m)) + 1 + len(string(text)) for m, text in maps[k].items())
        entries[k] += 1 + len(maps[k])
    assert sorted(largest(one(form, STRING, states, grouped(STRING, found)))) == sorted((k, entries[k], bytes_[k]) for k in keys)


def test_a_key_with_timers_in_raw_state_is_one_key() -> None:
    timers = {k: [(k, 0, time) for time in range(3)] for k in ("a", "b")}
    blocks: list[bytes | None] = [None] * 128
    for key, found in timers.items():
        blocks[group_of(STRING, key)] = block(("", VOID, found, []))
    raw = raw_operator(*blocks)
    groups = grouped(STRING, {0: {"a": [void(string("a"), long(1))]}})
    managed = one(HEAP, STRING, [keyed("v", LONG)], groups)
    subtask = replace(managed.subtasks[0], raw_keyed=raw.subtasks[0].raw_keyed)
    size = len(string("a")) + 1 + 8
    assert largest(replace(managed, subtasks=(subtask,))) == [("a", 4, 4 * size), ("b", 3, 3 * size)]
