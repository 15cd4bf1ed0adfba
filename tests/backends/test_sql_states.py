"""State of Flink SQL: every table serializer that real snapshots name, and what the queries have in their state."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from state_processor.backends.handles import KeyGroupsStateHandle
from state_processor.backends.key_groups import key_group
from state_processor.backends.metadata import OperatorState
from state_processor.backends.read_options import ReadOptions
from state_processor.backends.snapshot_dir import Snapshot, open_snapshot
from state_processor.backends.state_access import open_state
from state_processor.backends.states import StateDescription, leaf_keyed_handles, operator_states
from state_processor.serializers import TypeSerializerSnapshot, read_serializer_snapshot
from tests import corpus

LOSSLESS = ReadOptions(flatten=False, metadata=True, nanos="string")
CASES = [c for c in corpus.all_cases("*/sql-*") if c.expected["format"] == "canonical"]
OFFICIAL = sorted({p.parent for p in (corpus.CORPUS / "official" / "sql").rglob("_metadata")})
SNAPSHOTS = [*(Path(c.snapshot) for c in corpus.all_cases("*/sql-*")), *OFFICIAL]


def label(path: Path) -> str:
    return "/".join(path.relative_to(corpus.CORPUS).parts[1:])


def states(snapshot: Snapshot) -> Iterator[tuple[OperatorState, StateDescription]]:
    for operator in snapshot.metadata.operators:
        for state in operator_states(snapshot, operator).values():
            yield operator, state


def read(snapshot: Snapshot, operator: OperatorState, name: str) -> list[dict[str, Any]]:
    reader = open_state(snapshot, operator, name, options=LOSSLESS)
    return [row for split in reader.splits() for batch in reader.read(split) for row in batch.to_pylist()]


def in_key_group_files(operator: OperatorState) -> bool:
    handles = [h for s in operator.subtasks for h in leaf_keyed_handles(s.managed_keyed)]
    return all(isinstance(h, KeyGroupsStateHandle) for h in handles)


@pytest.mark.parametrize("path", SNAPSHOTS, ids=label)
def test_every_serializer_is_known_and_rewritten_identically(path: Path) -> None:
    snapshot = open_snapshot(str(path))
    for operator, state in states(snapshot):
        for serializer in (state.key, state.namespace, state.value):
            if serializer is None:
                continue
            written = serializer.snapshot()
            assert isinstance(written, TypeSerializerSnapshot)
            again = read_serializer_snapshot(written.to_bytes(), f"{operator.operator_id}/{state.name}")
            assert again.to_bytes() == written.to_bytes()
            assert str(again.restore_serializer()) == str(serializer)


@pytest.mark.parametrize("path", SNAPSHOTS, ids=label)
def test_keys_lie_in_the_key_groups_of_their_hash_codes(path: Path) -> None:
    snapshot = open_snapshot(str(path))
    for operator, state in states(snapshot):
        if state.key is None or not in_key_group_files(operator):
            continue
        rows = read(snapshot, operator, state.name)
        for row in rows:
            code = state.key.hash_code(state.key.accept(row["key"]))
            assert key_group([code], operator.max_parallelism)[0] == row["_key_group"], row["key"]


def rows_of(case: corpus.Case, name: str) -> list[dict[str, Any]]:
    snapshot = open_snapshot(case.snapshot)
    found = [read(snapshot, operator, name) for operator, state in states(snapshot) if state.name == name]
    assert len(found) == 1
    return found[0]


def logical_content(case: corpus.Case) -> dict[str, Any]:
    """What the query has to remember for each key, of both inputs where it has two."""
    content: dict[str, Any] = {}
    for entry in case.expected["operators"][0]["states"][0]["entries"]:
        content.setdefault(entry["key"], {}).update(entry["value"])
    return content


def of_query(name: str) -> list[corpus.Case]:
    return [c for c in CASES if c.directory.name.startswith(name)]


def ids(case: corpus.Case) -> str:
    return case.id


@pytest.mark.parametrize("case", of_query("sql-group-agg"), ids=ids)
def test_group_aggregate(case: corpus.Case) -> None:
    expected = logical_content(case)
    rows = {row["key"]["f0"]: row["value"] for row in rows_of(case, "accState")}
    assert rows.keys() == expected.keys()
    for key, accumulator in rows.items():
        wanted = expected[key]
        assert (accumulator["f0"], accumulator["f1"]) == (wanted["cnt"], Decimal(wanted["total"]))
        assert (accumulator["f2"], accumulator["f3"]) == (wanted["latest"], wanted["low"])
        assert (accumulator["f4"], accumulator["f5"], accumulator["f6"]) == (wanted["sum_n"], wanted["count_n"], wanted["kinds"])
        assert accumulator["f7"]["lastValue"] == key


def as_record(row: list[Any]) -> list[Any]:
    """A row of the input in the notation of the state, which lacks the columns that the query does not use."""
    k, _, amount, ts, _, tags, attrs, nested = row
    pairs = attrs and sorted(map(tuple, attrs))
    return [k, Decimal(amount), ts, tags, pairs, nested and {"a": nested[0], "b": nested[1]}]


@pytest.mark.parametrize("case", of_query("sql-join"), ids=ids)
def test_join(case: corpus.Case) -> None:
    found: dict[str, list[Any]] = {}
    for row in rows_of(case, "left-records"):
        for record, count in row["value"]:
            shown = [record["f0"], record["f1"], record["f2"], record["f3"], record["f4"] and sorted(record["f4"]), record["f5"]]
            found.setdefault(row["key"]["f0"], []).extend([shown] * count)
    expected = {key: value["left_rows"] for key, value in logical_content(case).items() if value.get("left_rows")}
    assert found.keys() == expected.keys()
    for key, rows in found.items():
        wanted = [as_record(row) for row in expected[key]]
        assert sorted(map(repr, rows)) == sorted(map(repr, wanted))
