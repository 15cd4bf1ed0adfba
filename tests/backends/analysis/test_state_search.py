"""Searches in state without types, in state that can't be decoded, and in all bytes of files."""

from __future__ import annotations

import pytest

from state_processor.backends.analysis.file_search import all_parts, contents
from state_processor.backends.analysis.needles import Needle
from state_processor.backends.analysis.state_search import StateSearch
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
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
