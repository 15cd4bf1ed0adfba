"""Searches in columns, in state without types, in state that can't be decoded, and in all bytes of files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.applications.finding.state_search import Needle, StateSearch, merged, search_batch
from state_processor.backends.analysis.stored_bytes import all_parts, contents
from state_processor.backends.files import ordered_threads
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.serializers.core.basic import StringSerializer
from state_processor.support.errors import OptionError
from tests.backends.read import test_channel_state as channels
from tests.backends.read import test_raw_state as raw
from tests.corpus import FIXTURES
from tests.state_processor.samples import ORDERS_PATH


def search(operator: OperatorState, text: str = "alice") -> tuple[list[tuple[str, str, int]], list[tuple[str, int]]]:
    found = StateSearch(open_snapshot(ORDERS_PATH), [Needle.text(text)])
    found.search(operator)
    hits = [(row["state_kind"], row["sought"], row["count"]) for table in found.hits for row in table.to_pylist()]
    return hits, [(row["state_kind"], row["count"]) for row in found.undecoded]


def test_raw_state_is_searched_as_bytes() -> None:
    assert search(raw.operator(b"for alice", None, b"bob")) == ([("RAW_KEYED", "alice", 1)], [("RAW_KEYED", 1)])


def test_in_flight_data_is_searched_across_buffers() -> None:
    stream, offsets = channels.file(b"for ali", b"ce and alice")
    channel = h.InputChannelStateHandle(2, 1, 5, offsets, 99, stream)
    assert search(channels.operator((channel,))) == ([("IN_FLIGHT", "alice", 2)], [("IN_FLIGHT", 2)])


@pytest.mark.parametrize(
    "case", ["hashmap-canonical", "hashmap-native", "rocksdb-canonical", "rocksdb-native", "rocksdb-incremental"]
)
def test_all_bytes_of_files_have_the_texts_that_reads_return(case: str) -> None:
    root = FIXTURES / "2.3.0" / f"orders-{case}"
    (path,) = root.rglob("_metadata")
    snapshot, needle = open_snapshot(path.parent), Needle.text("beatriz")
    found = StateSearch(snapshot, [needle])
    for operator in snapshot.metadata.operators:
        found.search(operator)
    assert {(row["state_name"], row["field"]) for table in found.hits for row in table.to_pylist()} >= {("total", "key")}
    assert sum(sum(needle.count_in(part).values()) for part in all_parts(contents(snapshot))) >= 5
    absent = Needle.text("nobody@nowhere")
    assert not any(absent.count_in(part) for part in all_parts(contents(snapshot)))


NESTED = pa.map_(pa.string(), pa.list_(pa.struct([("name", pa.string()), ("number", pa.int64()), ("raw", pa.binary())])))


def found(values: list[Any], type_: pa.DataType, *needles: Needle, start: int = 0) -> list[tuple[str, str, list[int]]]:
    batch = pa.record_batch([pa.array(values, type_).slice(start)], ["value"])
    return [(str(needle), path, rows.tolist()) for needle, path, rows in search_batch(batch, needles)]


def test_nested_values_are_searched() -> None:
    values = [
        [("alice", None)],
        None,
        [("x", [None, {"name": "for alice!", "number": 7, "raw": b"\0alice"}, {"name": "alice", "number": 7, "raw": None}])],
        [("y", [{"name": None, "number": 7, "raw": b"al"}, {"name": "alic", "number": 8, "raw": b"ice"}])],
    ]
    for start in (0, 1):
        expected = [
            ("alice", "value.value.element.name", [2 - start, 2 - start]),
            ("7", "value.value.element.number", [2 - start, 2 - start, 3 - start]),
            ("alice", "value.value.element.raw", [2 - start]),
        ]
        keys = [("alice", "value.key", [0])] if start == 0 else []
        assert found(values, NESTED, Needle.text("alice"), Needle.number(7), start=start) == [*keys, *expected]


def test_the_order_of_hits_does_not_depend_on_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    def hits() -> list[pa.Table]:
        search = StateSearch(open_snapshot(ORDERS_PATH), [Needle.text("a"), Needle.number(3)])
        for operator in search.snapshot.metadata.operators:
            search.search(operator)
        return search.hits

    expected, batches = merged(hits()), hits()
    monkeypatch.setattr(ordered_threads, "PART_BYTES", 200)
    monkeypatch.setattr(ordered_threads, "_SMALL", 0)
    monkeypatch.setenv(ordered_threads.THREADS_VARIABLE, "2")
    in_parts = hits()
    assert len(in_parts) > len(batches)
    assert merged(in_parts).equals(expected)


@given(st.lists(st.none() | st.text("ab€", max_size=5), max_size=20), st.text("ab€", min_size=1, max_size=3))
def test_texts_are_found_as_python_finds_them(values: list[str | None], text: str) -> None:
    rows = [row for row, value in enumerate(values) if value is not None and text in value]
    assert found(values, pa.string(), Needle.text(text)) == ([(text, "value", rows)] if rows else [])


@pytest.mark.parametrize("text", ["alice", "zoë", "名前", "a😀b"])
def test_bytes_are_searched_in_each_encoding(text: str) -> None:
    string_value = StringSerializer().serialize(f"x{text}y")
    java = b"".join(
        unit.to_bytes(2, "big").decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass") for unit in units(text)
    )
    values = [string_value, java, *(text.encode(name) for name in ("utf-8", "utf-16-le", "utf-16-be")), b"none"]
    assert found([b"\1" + v + b"\2" for v in values], pa.binary(), Needle.text(text)) == [(text, "value", [0, 1, 2, 3, 4])]


def units(text: str) -> list[int]:
    data = text.encode("utf-16-be")
    return [int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2)]


def test_kryo_marks_the_last_byte_of_a_text() -> None:
    assert found([b"\1alic\xe5"], pa.binary(), Needle.text("alice")) == [("alice", "value", [0])]


def test_numbers_are_whole_values() -> None:
    assert found([42, 4, 420, None], pa.int32(), Needle.number(42)) == [("42", "value", [0])]
    assert found([42.0, 42.5], pa.float64(), Needle.number(42.5)) == [("42.5", "value", [1])]
    assert found(["42", "421", "4.2"], pa.string(), Needle.number(42)) == [("42", "value", [0])]
    assert found([1], pa.int8(), Needle.number(4711)) == []
    long = (20_000_000).to_bytes(8, "big")
    assert found([long, long[::-1], b"20000000"], pa.binary(), Needle.number(20_000_000)) == [("20000000", "value", [0, 1, 2])]


def test_empty_texts_and_other_types_are_refused() -> None:
    with pytest.raises(OptionError, match="expected a text of at least one character, found ''"):
        Needle.text("")
    with pytest.raises(OptionError, match="expected a number, found True"):
        Needle.number(True)
