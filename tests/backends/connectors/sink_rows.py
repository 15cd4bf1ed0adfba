"""Savepoints of sinks, and their rows, for tests of sinks whose state is layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import state_processor as sp
from state_processor.backends.connectors.connector import Versioned
from state_processor.backends.connectors.sink_state import (
    COLLECTORS,
    CheckpointCommittables,
    Collector,
    Request,
    SubtaskCommittables,
)
from state_processor.backends.connectors.source_splits import undecoded_elements
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.stored_operator import find_operator

BYTES = sp.Types.PRIMITIVE_ARRAY(sp.Types.BYTE())
COMMITTER_STATE = "streaming_committer_raw_states"
WRITER_STATE = "writer_raw_states"


def collected(version: int, data: bytes) -> bytes:
    """The list element of Flink's committer with one committable of checkpoint 5."""
    request = Request(Versioned(version, data))
    checkpoint = CheckpointCommittables(5, (SubtaskCommittables((request,), 1, 0, None, 0),), 1, 2, 0)
    return COLLECTORS.write(Collector((checkpoint,), 1), 2).to_bytes()


def rows_of(path: str, uid: str, connector: str | None = None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = sp.arrow.read_sink_state(path, uid, connector).to_pylist()
    return rows


def written(savepoint: str, path: Path, uid: str, rows: list[dict[str, Any]], connector: str | None = None) -> str:
    table = pa.Table.from_pylist(rows, sp.arrow.read_sink_state(savepoint, uid, connector).schema)
    sp.arrow.SavepointWriter.from_existing(savepoint).with_sink_state(uid, table, connector).write(str(path))
    return str(path)


def elements(path: str, uid: str, state: str) -> list[bytes]:
    snapshot = open_snapshot(path)
    return [data for _, data in undecoded_elements(snapshot, find_operator(snapshot, uid), state)]


def check_unchanged_rows(savepoint: str, path: Path, uid: str, state: str, connector: str | None = None) -> None:
    """Check that rows without a change are written as the same bytes, in any order."""
    rows = rows_of(savepoint, uid, connector)
    assert any(row["raw"] is not None for row in rows)
    copy = written(savepoint, path, uid, rows[::-1], connector)
    assert elements(copy, uid, state) == elements(savepoint, uid, state)
