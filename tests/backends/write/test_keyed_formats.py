"""Formats of keyed state: each preserves all rows, from any source format. tests/interop restores them in Flink."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from state_processor.backends.files.changes import FileSink
from state_processor.backends.metadata.handles import KeyGroupRange
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.read.keyed_splits import managed_handles
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator, operator_states
from state_processor.backends.state.descriptions import StateDescription, keyed_header, register
from state_processor.backends.write import keyed_writer
from state_processor.backends.write.keyed_formats import CanonicalFormat, HeapFormat, KeyedFormat, StoreFormat
from state_processor.backends.write.keyed_writer import KeyedSubtask
from state_processor.backends.write.staging import Staging
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.support.errors import InvalidRowError
from tests.corpus import FIXTURES, packed_cases
from tests.interop.rewriting import rewrite

PACKED = ("windows-kinds-rocksdb-native", "small-hashmap-canonical-maxp512", "empty-state-hashmap-native")
ORDERS = ("orders-rocksdb-native", "orders-hashmap-native")
CASES = {case.name: case.snapshot for case in packed_cases() if case.name.removeprefix("2.3.0/") in PACKED}
CASES |= {name: FIXTURES / "2.3.0" / name / "savepoint" for name in ORDERS}
FORMATS: dict[str, KeyedFormat] = {
    "canonical": CanonicalFormat(),
    "heap": HeapFormat(),
    "rocksdb": StoreFormat(),
    "forst": StoreFormat("forst"),
}
"""By the name that reading gives them."""


def tables(snapshot: Snapshot) -> dict[str, list[str]]:
    """The rows of every state as text."""
    found = {}
    options = ReadOptions.of(flatten=False, nanos="string", row_kind=True)
    for operator in snapshot.metadata.operators:
        for name in operator_states(snapshot, operator):
            reader = open_state(StoredOperator(snapshot, operator), name, options=options)
            rows = [row for split in reader.splits() for batch in reader.read(split) for row in batch.to_pylist()]
            found[f"{operator.operator_id} {name}"] = sorted(map(_text, rows))
    return found


@cache
def tables_of_case(case: str) -> dict[str, list[str]]:
    """Return the tables of a case. Several tests compare with them."""
    return tables(open_snapshot(CASES[case]))


def _text(row: dict[str, Any]) -> str:
    """The row as text, independent of the order of maps."""
    return str({name: sorted(map(str, value)) if isinstance(value, list) else value for name, value in row.items()})


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_what_is_written_is_what_was_read(case: str, name: str, tmp_path: Path) -> None:
    rewrite(CASES[case], tmp_path / "new", 3, 6, format=FORMATS[name])
    written, expected = open_snapshot(tmp_path / "new"), tables_of_case(case)
    assert len(expected) > 4
    assert tables(written) == expected
    handles = [handle for operator in written.metadata.operators for handle in managed_handles(operator)]
    assert {handle.open(written).backend for handle in handles} == {name}
    assert written.metadata.properties is not None
    assert written.metadata.properties.format == ("CANONICAL" if name == "canonical" else "NATIVE")


def test_a_key_group_too_large_for_the_heap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_writer, "_MOST_BYTES", 40)
    staging = Staging(str(tmp_path), "token1")
    long = NumberSerializer("LONG")

    @contextmanager
    def open_sink(what: str) -> Iterator[FileSink]:
        with staging.open("file") as sink:
            yield sink

    header = keyed_header(long, [register(StateDescription.of("total", "VALUE", long, VoidNamespaceSerializer(), value=long))])
    entries = [bytes.fromhex("0000000a05") + key.to_bytes(8, "big") + b"\0\0\0\0\x08" + bytes(8) for key in range(2)]
    message = "operator 'o': key group 5, state 'total': the entries take more than 40 bytes"
    with HeapFormat().open_writer(open_sink, KeyedSubtask(header, KeyGroupRange(0, 9), 128, "operator 'o'")) as writer:
        writer.add(5, 0, entries[0])
        with pytest.raises(InvalidRowError, match=message):
            writer.add(5, 0, entries[1])
