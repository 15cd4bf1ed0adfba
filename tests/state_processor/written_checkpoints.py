"""Checkpoints of a job, written by the library, for tests of their series: each changes two states of the one before it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import state_processor as sp
from state_processor.backends.metadata.snapshot_metadata import OperatorState, read_metadata, write_metadata
from tests.state_processor.samples import ORDERS_PATH

JOB = "0" * 31 + "1"
UID = "orders"
_FIRST_TIME = 1_700_000_000


def take(job: Path, number: int, totals: Mapping[str, Any] | None = None, *, start: str | Path | None = None) -> Path:
    """Write the checkpoint ``number`` of a job, a second after the one before; ``None`` as a total deletes the key."""
    earlier = [p.parent for p in job.glob("chk-*/_metadata") if int(p.parent.name[4:]) < number]
    base = start or max(earlier, key=lambda p: int(p.name[4:]), default=Path(ORDERS_PATH))
    path = job / f"chk-{number}"
    writer = sp.arrow.SavepointWriter.from_existing(base)
    changed = {key: value for key, value in (totals or {}).items() if value is not None}
    gone = [{"key": key} for key, value in (totals or {}).items() if value is None]
    if changed:
        writer.update_keyed_state(UID, "total", [{"key": key, "value": value} for key, value in changed.items()])
        writer.update_keyed_state(UID, "items", [{"key": k, "map_key": "mug", "map_value": v} for k, v in changed.items()])
    if gone:
        writer.delete_keys(UID, gone)
    writer.write(path, checkpoint_id=number, allow_lower_checkpoint_id=True)
    set_time(path, number)
    return path


def take_regional(job: Path, number: int, earlier: int) -> Path:
    """Make a checkpoint a regional one: the first subtask of the operator has the state of an earlier checkpoint."""
    path, reference = job / f"chk-{number}", job / f"chk-{earlier}"
    metadata, before = (read_metadata((p / "_metadata").read_bytes()) for p in (path, reference))
    operators = {o.operator_id: o for o in before.operators}

    def mixed(operator: OperatorState) -> OperatorState:
        if operator.uid != UID:
            return operator
        first = replace(operators[operator.operator_id].subtasks[0], reference_checkpoint_id=earlier)
        return replace(operator, subtasks=(first, *operator.subtasks[1:]))

    for file in reference.iterdir():
        shutil.copy(file, path)
    operators_now = tuple(map(mixed, metadata.operators))
    (path / "_metadata").write_bytes(write_metadata(replace(metadata, version=7, operators=operators_now)))
    set_time(path, number)
    return path


def set_time(checkpoint: Path, number: int) -> None:
    """Set the time at which the checkpoint ``number`` of a job is written."""
    then = _FIRST_TIME + number
    os.utime(checkpoint / "_metadata", (then, then))


def remove(checkpoint: Path) -> None:
    """Remove a checkpoint as Flink does: ``_metadata`` first."""
    (checkpoint / "_metadata").unlink()
    shutil.rmtree(checkpoint)


def rows(checkpoint: Path, state: str = "total") -> list[tuple[Any, ...]]:
    """The rows of a state, sorted."""
    return sorted(tuple(row.values()) for row in sp.arrow.read_state(checkpoint, UID, state).read_all().to_pylist())
