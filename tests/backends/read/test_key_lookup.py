"""Look-ups of keys: bytes read, and results."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from state_processor.backends.metadata.streams import StateStream
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.core.rows import TupleSerializer
from state_processor.support.errors import OptionError
from tests.backends.keyed_files import CANONICAL, FORMATS, code, file, listed, mapped, one, void
from tests.backends.state_files import (
    LONG,
    STRING,
    VOID,
    group_of,
    keyed,
    long,
    operator,
    read_rows,
    string,
    timers,
)

LISTS = keyed("l", ListSerializer(STRING), "LIST")
MAPS = keyed("m", MapSerializer(STRING, STRING), "MAP")


@FORMATS
@pytest.mark.parametrize("compressed", [False, True])
def test_only_the_key_groups_of_wanted_keys_are_read(form: str, compressed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"key-{i}" for i in range(2000)]
    entries: dict[int, Any] = {}
    for i, key in enumerate(keys):
        entries.setdefault(group_of(STRING, key), {0: []})[0].append(void(string(key), long(i)))
    made = file(form, STRING, [keyed("v", LONG)], entries, compressed=compressed)
    found = operator(made.handle(code(form)))
    headers = min(o for o in made.offsets if o)
    read: list[tuple[int, int]] = []
    original = StateStream.read

    def counting(self: StateStream, offset: int = 0, length: int | None = None) -> memoryview:
        data = original(self, offset, length)
        read.append((offset, len(data)))
        return data

    monkeypatch.setattr(StateStream, "read", counting)
    assert read_rows(found, "v", keys=("key-7", "absent")) == [{"key": "key-7", "value": 7}]
    wanted = {group_of(STRING, k) for k in ("key-7", "absent")}
    bounds = [*made.offsets, len(made.data)]
    spans = [(bounds[g], bounds[g + 1]) for g in wanted]
    behind = [(o, o + n) for o, n in read if o >= headers and n > 6]  # six bytes tell heap from canonical
    assert behind
    assert all(any(a >= begin and b <= end for begin, end in spans) for a, b in behind)
    assert sum(b - a for a, b in behind) < len(made.data) // 10


@FORMATS
def test_keys_filter_in_every_shape(form: str) -> None:
    keys = ["a", "ab", "b"]
    entries: dict[int, Any] = {}
    for key in keys:
        group = entries.setdefault(group_of(STRING, key), {0: [], 1: [], 2: []})
        group[0].append(void(string(key), long(len(key))))
        group[1].append(void(string(key), listed(form, string(key), string("x"))))
        group[2] += mapped(form, string(key), b"\0", [(string("u"), string(key))])
    found = one(form, STRING, [keyed("v", LONG), LISTS, MAPS], entries)
    assert read_rows(found, "v", keys=("a",)) == [{"key": "a", "value": 1}]
    assert [r["list_value"] for r in read_rows(found, "l", keys=("ab",))] == ["ab", "x"]
    assert read_rows(found, "m", keys=("b",), flatten=False) == [{"key": "b", "value": [("u", "b")]}]
    assert read_rows(found, keys=("ab",)) == [{"key": "ab", "v": 2, "l": ["ab", "x"], "m": [("u", "ab")]}]
    assert read_rows(found, "v", keys=()) == []
    assert read_rows(found, "v", keys=("c",)) == []


@pytest.mark.parametrize("key", ["text", None, 1 << 70, [1]])
def test_a_key_of_another_type_is_named(key: object) -> None:
    found = one(CANONICAL, LONG, [keyed("v", LONG)], {})
    with pytest.raises(OptionError, match="state 'v' has keys of type LONG, found"):
        read_rows(found, "v", keys=(key,))


@pytest.mark.parametrize("key", ["ab", {"a", "b"}, ["a"], {"a": "b"}])
def test_what_is_no_list_of_fields_is_no_key(key: object) -> None:
    pair = TupleSerializer([STRING, STRING])
    found = one(CANONICAL, pair, [keyed("v", pair)], {})
    with pytest.raises(OptionError, match=r"state 'v' has keys of type TUPLE<STRING,STRING>, found .* of type .*: a value is "):
        read_rows(found, "v", keys=(key,))


@FORMATS
@pytest.mark.parametrize(
    ("key", "keys"), [(STRING, [f"key-{i}" * (i % 3 + 1) for i in range(3000)]), (LONG, [i << 40 for i in range(3000)])]
)
def test_many_keys_are_read_as_few_are(form: str, key: TypeSerializer, keys: list[Any]) -> None:
    entries: dict[int, Any] = {}
    for i, each in enumerate(keys):
        group = entries.setdefault(group_of(key, each), {0: [], 1: []})
        group[0].append(void(key.serialize(each), long(i)))
        group[1] += mapped(form, key.serialize(each), b"\0", [(string("u"), string(str(i)))])
    found = one(form, key, [keyed("v", LONG), MAPS], entries)
    wanted = (*keys[::3], keys[1], keys[1], *(k + type(k)(1) for k in keys[::7]))
    expected = {k: i for i, k in enumerate(keys) if k in set(wanted)}
    assert len(expected) > 1000
    assert {r["key"]: r["value"] for r in read_rows(found, "v", keys=wanted)} == expected
    assert {r["key"]: r["map_value"] for r in read_rows(found, "m", keys=wanted)} == {k: str(i) for k, i in expected.items()}
    assert {r["key"]: r["v"] for r in read_rows(found, keys=wanted)} == expected
    assert len(read_rows(found, "v", keys=wanted)) == len(expected)


@pytest.mark.parametrize("odd", ["text", None, 1 << 70, True, 1.5])
def test_one_key_of_another_type_among_many_is_named(odd: object) -> None:
    found = one(CANONICAL, LONG, [keyed("v", LONG)], {})
    with pytest.raises(OptionError, match=f"state 'v' has keys of type LONG, found {odd!r}"):
        read_rows(found, "v", keys=(*range(1000), odd))


PAIR = TupleSerializer([STRING, LONG])


@FORMATS
def test_keys_of_a_table_are_read_by_name(form: str) -> None:
    entries: dict[int, Any] = {}
    for i in range(600):
        pair = (f"key-{i}", i)
        entries.setdefault(group_of(PAIR, pair), {0: []})[0].append(void(PAIR.serialize(pair), string(f"value-{i}")))
    found = one(form, PAIR, [keyed("v", STRING)], entries)
    wanted = [3, 599, 1000]
    names = pa.array([f"key-{i}" for i in wanted])
    expected = [{"key": {"f0": f"key-{i}", "f1": i}, "value": f"value-{i}"} for i in (3, 599)]
    columns = pa.table({"f0": names, "f1": pa.array(wanted, pa.int32())})
    column = pa.table({"key": pa.StructArray.from_arrays([names, pa.array(wanted)], names=["f0", "f1"])})
    for table in (columns, column):
        rows = read_rows(found, "v", keys=table)
        assert sorted(rows, key=lambda row: row["key"]["f1"]) == expected
    assert read_rows(found, "v", keys=columns.slice(0, 0)) == []


@FORMATS
def test_timers_of_the_keys_of_a_table(form: str) -> None:
    keys = ["a", "ab", "b"]
    entries: dict[int, Any] = {}
    for i, key in enumerate(keys):
        timer = bytes([0x80]) + long(1000 + i)[1:], string(key), b"\0"
        entry = (b"".join(timer), b"", b"") if form == CANONICAL else (timer[1] + timer[2], timer[0], b"")
        entries.setdefault(group_of(STRING, key), {0: []})[0].append(entry)
    found = one(form, STRING, [timers("_timer_state/event_user-timers", STRING, VOID)], entries)
    rows = read_rows(found, kind="TIMER", keys=pa.table({"key": ["ab", "c"]}))
    assert [(row["key"], row["timestamp"]) for row in rows] == [("ab", 1001)]
    assert [row["timestamp"] for row in read_rows(found, kind="TIMER", keys=("b",))] == [1002]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (pa.table({"id": [1]}), "expected the column 'key', found 'id'; select it"),
        (pa.table({"key": [1], "n": [1]}), "expected the column 'key', found 'key', 'n'"),
        (pa.table({"key": ["1"]}), "column 'key' is of Spark type string; the type LONG takes bigint"),
        (pa.table({"key": pa.array([1, None, None])}), "the column 'key' is null in 2 rows, the first is row 1"),
        (pa.table({"key": pa.array([1.5])}), "column 'key' is of Spark type double"),
    ],
)
def test_tables_that_are_no_keys(table: pa.Table, problem: str) -> None:
    found = one(CANONICAL, LONG, [keyed("v", LONG)], {})
    with pytest.raises(OptionError, match=problem):
        read_rows(found, "v", keys=table)
    with pytest.raises(OptionError, match=problem):
        read_rows(found, keys=table)


def test_columns_of_a_key_that_do_not_match() -> None:
    found = one(CANONICAL, PAIR, [keyed("v", LONG)], {})
    with pytest.raises(OptionError, match=r"is a struct of \(f0, n\); the type has the fields \(f0, f1\)"):
        read_rows(found, "v", keys=pa.table({"f0": ["a"], "n": [1]}))
