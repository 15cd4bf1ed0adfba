"""Checkpoints of a job, written by the library, for tests of their series: each changes two states of the one before it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import state_processor as sp
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
