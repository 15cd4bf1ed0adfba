"""Differences of keyed state between two snapshots, in all formats."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_processor.applications.changes.state_difference import OperatorPair, open_changes
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.errors import NotFoundError, StateProcessorError, UnsupportedFormatError
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.types.flink_types import Types
from tests.backends.keyed_files import CANONICAL, HEAP, Entry, listed, mapped, one, void
from tests.backends.state_files import INT, LONG, STRING, group_of, keyed, long, read_rows, snapshot, string

STATES = [keyed("v", LONG), keyed("l", ListSerializer(STRING), "LIST"), keyed("m", MapSerializer(STRING, STRING), "MAP")]
VALUE, LIST, MAP = range(3)
BOTH = pytest.mark.parametrize("forms", [(CANONICAL, CANONICAL), (HEAP, HEAP), (CANONICAL, HEAP)], ids="-".join)


def entries_of(form: str, state: int, key: str, value: Any) -> list[Entry]:
    raw = string(key)
    if state == VALUE:
        return [void(raw, long(value))]
    if state == LIST:
        return [void(raw, listed(form, *map(string, value)))]
    return mapped(form, raw, b"\0", [(string(k), string(v)) for k, v in value.items()])


def made(form: str, contents: list[dict[str, Any]], max_parallelism: int = 128) -> OperatorState:
    groups: dict[int, dict[int, list[Entry]]] = {}
    for state, content in enumerate(contents):
        for key, value in content.items():
            group = groups.setdefault(group_of(STRING, key, max_parallelism), {VALUE: [], LIST: [], MAP: []})
            group[state] += entries_of(form, state, key, value)
    last = max_parallelism - 1
    return one(form, STRING, STATES, groups, (0, last), 1 if max_parallelism <= 128 else 2, max_parallelism=max_parallelism)


def compared(old: OperatorState | None, new: OperatorState | None, name: str, split_bytes: int = 100) -> list[dict[str, Any]]:
    sides = [None if o is None else StoredOperator(snapshot(o), o) for o in (old, new)]
    reader = OperatorPair("operator 'op'", *sides).difference(name, ReadOptions())
    splits = reader.splits(split_bytes)
    in_task, splits = pickle.loads(pickle.dumps((reader, splits)))
    return [row for split in splits for batch in in_task.read(split) for row in batch.to_pylist()]


def change(key: str, before: Any, after: Any, **more: str) -> dict[str, Any]:
    kind = "insert" if before is None else "delete" if after is None else "update"
    return {"change": kind, "key": key, **more, "before": before, "after": after}


def expected(state: int, old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    keys = sorted({*old, *new})
    if state != MAP:
        return [change(k, old.get(k), new.get(k)) for k in keys if old.get(k) != new.get(k)]
    return [
        change(k, a, b, map_key=m)
        for k in keys
        for m in sorted({*old.get(k, {}), *new.get(k, {})})
        if (a := old.get(k, {}).get(m)) != (b := new.get(k, {}).get(m))
    ]


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["key"], row.get("map_key")))


TEXTS = st.text("abc", max_size=4)
CONTENTS = st.tuples(
    st.dictionaries(TEXTS, st.integers(-9, 9), max_size=12),
    st.dictionaries(TEXTS, st.lists(TEXTS, min_size=1, max_size=3), max_size=6),
    st.dictionaries(TEXTS, st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=3), max_size=6),
)


@BOTH
@settings(max_examples=25)
@given(old=CONTENTS, new=CONTENTS, kept=st.sets(TEXTS, max_size=8), max_parallelism=st.sampled_from([16, 7, 129]))
def test_random_contents(forms: tuple[str, str], old: Any, new: Any, kept: set[str], max_parallelism: int) -> None:
    new = [n | {k: v for k, v in o.items() if k in kept} for o, n in zip(old, new, strict=True)]
    sides = made(forms[0], list(old)), made(forms[1], new, max_parallelism)
    for state, name in enumerate("vlm"):
        assert in_order(compared(*sides, name)) == expected(state, old[state], new[state])


def test_a_state_that_one_snapshot_lacks() -> None:
    full = made(CANONICAL, [{"a": 1, "b": 2}, {}, {}])
    assert in_order(compared(None, full, "v")) == [change("a", None, 1), change("b", None, 2)]
    assert in_order(compared(full, None, "v")) == [change("a", 1, None), change("b", 2, None)]
    other = one(HEAP, STRING, [keyed("w", LONG)], {})
    assert in_order(compared(other, full, "v")) == [change("a", None, 1), change("b", None, 2)]
    with pytest.raises(NotFoundError, match="Did you mean 'v'"):
        compared(other, full, "vv")


def test_changes_of_a_state_by_the_hash_of_its_operator() -> None:
    old, new = (made(CANONICAL, [content, {}, {}]) for content in ({"a": 1, "b": 2}, {"b": 3}))
    snapshots = (snapshot(old), snapshot(new))

    def changes(before: Snapshot | None, operator_id: str) -> list[dict[str, Any]]:
        reader = open_changes(before, snapshots[1], operator_id, "v")
        return [row for split in reader.splits() for batch in reader.read(split) for row in batch.to_pylist()]

    assert in_order(changes(snapshots[0], new.operator_id)) == [change("a", 1, None), change("b", 2, 3)]
    assert changes(None, new.operator_id) == [change("b", None, 3)]
    with pytest.raises(NotFoundError, match="in operator ffff"):
        changes(snapshots[0], "ff" * 16)


@pytest.mark.parametrize("form", [CANONICAL, HEAP])
def test_equal_bytes_are_not_decoded(form: str) -> None:
    """Months that no calendar has: reading the state fails, comparing does as soon as such a date differs."""

    def dates(years: dict[str, int]) -> OperatorState:
        groups: dict[int, dict[int, list[Entry]]] = {}
        for key, year in years.items():
            date = year.to_bytes(4, "big") + (b"\x63\x63" if key.startswith("bad") else b"\1\2")
            groups.setdefault(group_of(STRING, key), {0: []})[0].append(void(string(key), date))
        return one(form, STRING, [keyed("v", Types.LOCAL_DATE())], groups)

    old = {"bad-1": 1999, "bad-2": 2000, "good": 2001}
    with pytest.raises(StateProcessorError, match="state 'v'"):
        read_rows(dates(old), "v")
    assert compared(dates(old), dates(old), "v") == []
    (row,) = compared(dates(old), dates(old | {"good": 2002}), "v")
    assert (row["key"], str(row["before"]), str(row["after"])) == ("good", "2001-01-02", "2002-01-02")
    with pytest.raises(StateProcessorError, match="state 'v'"):
        compared(dates(old), dates(old | {"bad-2": 2002}), "v")


@BOTH
@pytest.mark.parametrize("order", ["same", "other"])
def test_many_keys_in_few_key_groups(forms: tuple[str, str], order: str) -> None:
    """Long runs of inserts and deletes, and another order of entries: they exceed the look-ahead."""
    old = {f"k{i:04}": i for i in range(2000)}
    new = {k: -v if v % 97 == 5 else v for k, v in old.items() if not 300 < v < 400} | {f"n{i}": i for i in range(80)}
    if order == "other":
        new = {k: new[k] for k in sorted(new, key=lambda k: hashlib.md5(k.encode()).digest())}
    sides = made(forms[0], [old, {}, {}], 3), made(forms[1], [new, {}, {}], 3)
    assert in_order(compared(*sides, "v")) == expected(VALUE, old, new)


def test_equal_values_of_another_type() -> None:
    keys = {"same": (5, 5), "changed": (5, 6)}
    sides: list[OperatorState] = []
    types: tuple[TypeSerializer, TypeSerializer] = (INT, LONG)
    for side, serializer in enumerate(types):
        groups = {group_of(STRING, k): {0: [void(string(k), serializer.serialize(v[side]))]} for k, v in keys.items()}
        sides.append(one(CANONICAL, STRING, [keyed("v", serializer)], groups))
    assert compared(sides[0], sides[1], "v") == [change("changed", 5, 6)]


def test_what_cannot_be_compared() -> None:
    values = one(CANONICAL, STRING, [keyed("s", LONG)], {})
    lists = one(CANONICAL, STRING, [keyed("s", ListSerializer(STRING), "LIST")], {})
    with pytest.raises(UnsupportedFormatError, match="state 's' of operator 'op' is VALUE in one snapshot and LIST in the other"):
        compared(values, lists, "s")
    numbered = one(CANONICAL, LONG, [keyed("s", LONG)], {})
    with pytest.raises(UnsupportedFormatError, match="key string, value int64 in one snapshot and key int64, value int64 in"):
        compared(values, numbered, "s")
