from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.properties import savepoint_properties
from state_processor.backends.metadata.snapshot_metadata import (
    CheckpointMetadata,
    OperatorState,
    OperatorSubtaskState,
    read_metadata,
)
from state_processor.backends.metadata.streams import reused_files
from tests.backends.snapshot_corpus import metadata_files
from tests.claimed_checkpoints import SAVEPOINT, claimed_checkpoint

GROUPS = h.KeyGroupRange(0, 127)


def metadata_of(*handles: h.KeyedStateHandle) -> CheckpointMetadata:
    subtasks = tuple(OperatorSubtaskState(i, managed_keyed=handle) for i, handle in enumerate(handles))
    return CheckpointMetadata(6, 4, (OperatorState("00" * 16, len(handles), 128, subtasks),))


def in_file(name: str) -> h.KeyGroupsStateHandle:
    return h.KeyGroupsStateHandle(h.SAVEPOINT_KEY_GROUPS, GROUPS, h.Offsets(), h.RelativeFileStateHandle(name, 3))


def store(*, shared: str, private: str, meta: str) -> h.IncrementalRemoteKeyedStateHandle:
    streams = {name: h.RelativeFileStateHandle(name, 3) for name in (shared, private, meta)}
    tables = (h.LocalFile("1.sst", streams[shared]), h.LocalFile("2.sst", h.FileStateHandle(3, "/job/shared/absolute")))
    return h.IncrementalRemoteKeyedStateHandle(
        h.INCREMENTAL_V2, 4, "id", GROUPS, streams[meta], tables, (h.LocalFile("CURRENT", streams[private]),), 3, "id"
    )


def changelog(*materialized: h.KeyedStateHandle) -> h.ChangelogStateBackendHandle:
    return h.ChangelogStateBackendHandle(h.CHANGELOG_V2, GROUPS, 0, materialized, (), 0, 4, "id")


def test_where_flink_reuses_files() -> None:
    assert reused_files(metadata_of(store(shared="a", private="b", meta="c"), in_file("d"))) == {"a"}
    assert reused_files(metadata_of(changelog(store(shared="a", private="b", meta="c"), in_file("d")))) == {"a", "b", "c", "d"}
    assert reused_files(metadata_of(changelog())) == frozenset()


def test_savepoints_have_files_of_their_own() -> None:
    metadata = metadata_of(store(shared="a", private="b", meta="c"))
    assert reused_files(replace(metadata, properties=savepoint_properties("NATIVE"))) == frozenset()


@pytest.mark.parametrize("file", metadata_files())
def test_other_checkpoints_of_flink_reuse_files_by_absolute_path(file: Path) -> None:
    metadata = read_metadata(file.read_bytes())
    assert metadata.version < 4 or reused_files(metadata) == frozenset()


def test_a_checkpoint_after_a_claim(tmp_path: Path) -> None:
    checkpoint = claimed_checkpoint(tmp_path / "checkpoints", tmp_path / SAVEPOINT)
    names = {path.name for path in (tmp_path / SAVEPOINT).iterdir()} - {"_metadata"}
    assert len(names) == 12
    assert reused_files(read_metadata((checkpoint / "_metadata").read_bytes())) == names
