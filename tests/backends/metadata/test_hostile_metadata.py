"""``_metadata`` and other bytes that somebody has made: every failure is an error of this library, within seconds."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest

import state_processor as sp
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.properties import NULL_STREAM, decode_properties, savepoint_properties
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.snapshot_metadata import (
    CheckpointMetadata,
    OperatorState,
    OperatorSubtaskState,
    read_metadata,
    write_metadata,
)
from state_processor.backends.read.stored_operator import find_operator, naming_state
from state_processor.support.errors import foreign_errors
from tests.corpus import FIXTURES

NATIVE = FIXTURES / "2.3.0" / "orders-rocksdb-native" / "savepoint"


def refused(raw: bytes) -> str:
    started = time.process_time()
    with pytest.raises(sp.CorruptSnapshotError) as failure:
        decode_properties(raw, "file", 7)
    assert time.process_time() - started < 2
    return str(failure.value)


def test_compressed_properties_are_not_expanded() -> None:
    bomb = gzip.compress(b"\0" * (256 << 20), 9)
    assert refused(bomb).startswith(f"file, offset 7: expected CheckpointProperties in {len(bomb)} bytes")
    assert refused(gzip.compress(savepoint_properties().raw)).startswith("file, offset 7")


def test_properties_of_many_bytes_are_not_parsed() -> None:
    assert "expected CheckpointProperties in 1048580 bytes" in refused(NULL_STREAM[:4] + b"\x75" * (1 << 20))


def test_deep_properties() -> None:
    assert "file, offset 7" in refused(NULL_STREAM[:4] + b"\x73" * 60_000)


@pytest.mark.parametrize("problem", [OverflowError("too big"), ValueError("embedded null byte"), RecursionError(), KeyError()])
def test_what_other_libraries_raise_names_state_and_operator(problem: Exception) -> None:
    operator = OperatorState("ab" * 16, 1, 128, (), uid="orders")
    told = f"^state 'total' of operator 'orders': {type(problem).__name__}"
    with pytest.raises(sp.CorruptSnapshotError, match=told) as failure, naming_state("total", operator):
        raise problem
    assert failure.value.__cause__ is problem
    with pytest.raises(sp.NotFoundError), foreign_errors("x"):
        raise sp.NotFoundError("no")
    with pytest.raises(KeyboardInterrupt), foreign_errors("x"):
        raise KeyboardInterrupt


def test_key_groups_that_do_not_fit_their_prefix(tmp_path: Path) -> None:
    """The number of key groups is damaged, so that keys begin with fewer bytes than their key groups have."""
    snapshot = open_snapshot(NATIVE)
    operator = find_operator(snapshot, "orders")
    inner = operator.subtasks[0].managed_keyed
    assert isinstance(inner, h.IncrementalRemoteKeyedStateHandle)
    far = h.IncrementalRemoteKeyedStateHandle(
        h.INCREMENTAL, 1, inner.backend_id, h.KeyGroupRange(300, 400), meta=inner.meta, shared=(), private=inner.files,
        checkpointed_size=None, handle_id=None,
    )  # fmt: skip
    subtask = OperatorSubtaskState(0, managed_keyed=far)
    for path in NATIVE.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    metadata = CheckpointMetadata(3, 1, (OperatorState(operator.operator_id, 1, 128, (subtask,)),))
    (tmp_path / "_metadata").write_bytes(write_metadata(metadata))
    with pytest.raises(sp.CorruptSnapshotError, match="key group 300 does not fit into the prefix of 1 bytes"):
        list(sp.arrow.read_state(tmp_path, "orders", "total"))


def test_every_cut_of_a_metadata_file_is_an_error_of_ours() -> None:
    data = (NATIVE / "_metadata").read_bytes()
    for end in range(0, len(data), 97):
        with pytest.raises(sp.StateProcessorError):
            read_metadata(data[:end], "cut")
