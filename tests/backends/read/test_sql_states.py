"""State of Flink SQL: every table serializer that real snapshots name, and every state of the planner's savepoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from state_processor.backends.metadata.handles import KeyGroupsStateHandle
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator, leaf_keyed_handles, operator_states
from state_processor.backends.state.descriptions import KeyedDescription, StateDescription, register
from state_processor.backends.state.key_groups import key_group
from state_processor.backends.write.assembly import metadata_version
from state_processor.serializers import TypeSerializerSnapshot, read_serializer_snapshot
from state_processor.serializers.table.logical_types import MAP_VIEW, RowType
from state_processor.serializers.table.rowdata import RowDataSerializer, RowDataSerializerSnapshot
from state_processor.serializers.traversal import outermost_of
from state_processor.support.errors import UnsupportedFormatError
from tests import corpus
from tests.archives import unpacked
from tests.interop.rewriting import entry_bytes, rewrite

ROW_OF_A_CLASS = " *org."
LOSSLESS = ReadOptions.of(flatten=False, metadata=True, nanos="string")
OFFICIAL = sorted({p.parent for p in (corpus.CORPUS / "official" / "sql").rglob("_metadata")})
OWN = [pytest.param(Path(c.snapshot), id=c.id) for c in corpus.all_cases("*/sql-*")]
SNAPSHOTS = OWN + [pytest.param(p, id=f"corpus:{p.parent.name}/{p.name}") for p in OFFICIAL]


def states(snapshot: Snapshot) -> Iterator[tuple[OperatorState, StateDescription]]:
    for operator in snapshot.metadata.operators:
        for state in operator_states(snapshot, operator).values():
            yield operator, state


def read(snapshot: Snapshot, operator: OperatorState, name: str, flatten: bool = False) -> list[dict[str, Any]]:
    reader = open_state(StoredOperator(snapshot, operator), name, options=replace(LOSSLESS, flatten=flatten))
    return [row for split in reader.splits() for batch in reader.read(split) for row in batch.to_pylist()]


def in_key_group_files(operator: OperatorState) -> bool:
    handles = [h for s in operator.subtasks for h in leaf_keyed_handles(s.managed_keyed)]
    return all(isinstance(h, KeyGroupsStateHandle) for h in handles)


@pytest.mark.parametrize("path", SNAPSHOTS)
def test_every_serializer_is_known_and_rewritten_identically(path: Path) -> None:
    snapshot = open_snapshot(str(path))
    for operator, state in states(snapshot):
        for serializer in (*state.serializers.values(), state.value):
            written = serializer.snapshot()
            assert isinstance(written, TypeSerializerSnapshot)
            again = read_serializer_snapshot(written.to_bytes(), f"{operator.operator_id}/{state.name}")
            assert again.to_bytes() == written.to_bytes()
            assert str(again.restore_serializer()) == str(serializer)


@pytest.mark.parametrize("path", SNAPSHOTS)
def test_snapshots_of_rows_are_made_as_flink_made_them(path: Path) -> None:
    """From their types only, except types of user classes; a view of a map is a type of Flink."""
    for _, state in states(open_snapshot(str(path))):
        for row in outermost_of(RowDataSerializer, (*state.serializers.values(), state.value)):
            written = row.snapshot()
            assert isinstance(written, RowDataSerializerSnapshot)
            made = RowDataSerializer(RowType.of(*written.logical_types))
            others = str(made).replace(str(MAP_VIEW), "")
            if any(name in others for name in ("RAW(", ROW_OF_A_CLASS)):
                with pytest.raises(UnsupportedFormatError, match="not made"):
                    made.snapshot()
            else:
                assert made.snapshot().to_bytes() == written.to_bytes()


@pytest.mark.parametrize("path", SNAPSHOTS)
def test_keys_lie_in_the_key_groups_of_their_hash_codes(path: Path) -> None:
    snapshot = open_snapshot(str(path))
    for operator, state in states(snapshot):
        if not isinstance(state, KeyedDescription) or not in_key_group_files(operator):
            continue
        rows = read(snapshot, operator, state.name)
        for row in rows:
            code = state.key.hash_code(state.key.key_from_column(row["key"]))
            assert key_group([code], operator.max_parallelism)[0] == row["_key_group"], row["key"]


@pytest.mark.parametrize("path", SNAPSHOTS)
def test_decoded_and_encoded_every_entry_is_what_flink_wrote(path: Path, tmp_path: Path) -> None:
    """Keys, values and timers from columns, and entries that are copied as bytes."""
    for name, carried in (("anew", False), ("taken over", True)):
        rewrite(path, tmp_path / name, 1, metadata_version(None), lambda _, all_of_them=carried: all_of_them)
    assert entry_bytes(tmp_path / "anew") == entry_bytes(tmp_path / "taken over")


@pytest.mark.parametrize("path", SNAPSHOTS)
def test_every_state_of_the_planners_savepoints_is_read(path: Path) -> None:
    snapshot = open_snapshot(str(path))
    for operator, state in states(snapshot):
        whole = read(snapshot, operator, state.name)
        flat = read(snapshot, operator, state.name, flatten=True)
        if state.kind in ("LIST", "MAP"):
            assert all(row["value"] for row in whole)
            assert len(flat) == sum(len(row["value"]) for row in whole)
        else:
            assert flat == whole
        if state.is_keyed and not state.is_timer:
            assert all(row["value"] is not None for row in whole)


def test_declared_types_of_views_are_registered_as_they_were() -> None:
    snapshot = open_snapshot(unpacked("sql") / "2.3.0" / "distinct" / "savepoint")
    (found,) = (
        states["distinctAcc_0_null_state"]
        for operator in snapshot.metadata.operators
        if "distinctAcc_0_null_state" in (states := operator_states(snapshot, operator))
    )
    assert register(found).serializers["VALUE_SERIALIZER"].class_name.endswith("ExternalSerializer$ExternalSerializerSnapshot")
    assert str(found.value) == "LONG"
