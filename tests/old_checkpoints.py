"""Checkpoints of a job that was run long ago, and the files below a directory."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import state_processor as sp
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot_metadata import read_metadata, write_metadata
from state_processor.backends.metadata.streams import streams_in_files
from tests.claimed_checkpoints import FIXTURES

JOB = "9219181524fcb88610db0f9620df1f57"
DAYS = timedelta(days=1).total_seconds()
STRAY = "01234567-89ab-cdef-0123-456789abcdef"


def aged(directory: Path, days: float = 30) -> None:
    """Set the times of all files below a directory back."""
    then = time.time() - days * DAYS
    for file in directory.rglob("*"):
        os.utime(file, (then, then))


def job_with_checkpoints(directory: Path, ids: Iterable[int] = (2, 3, 4)) -> Path:
    """Make the directory of a job whose incremental checkpoints share all files of RocksDB; the newer, the younger."""
    shutil.copytree(FIXTURES / "2.3.0" / "orders-rocksdb-incremental" / "savepoint", directory, dirs_exist_ok=True)
    job = directory / JOB
    first = job / "chk-2"
    metadata = read_metadata((first / "_metadata").read_bytes())
    for number in ids:
        checkpoint = job / f"chk-{number}"
        if checkpoint != first:
            shutil.copytree(first, checkpoint)
        (checkpoint / "_metadata").write_bytes(write_metadata(replace(metadata, checkpoint_id=number)))
        aged(checkpoint, 30 - number)
    aged(job / "shared")
    return job


def complete(directory: Path) -> dict[str, bool | None]:
    return {Path(s.path).name: s.is_complete for s in sp.list_snapshots(directory)}


def names(paths: Iterable[str]) -> set[str]:
    return {Path(path).name for path in paths}


def content(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def sharing(before: Path, after: Path) -> None:
    """Write a savepoint that refers to files of another one."""
    shutil.copytree(FIXTURES / "2.3.0" / "orders-rocksdb-native" / "savepoint", before)
    writer = sp.arrow.SavepointWriter.from_existing(before)
    writer.update_keyed_state("orders", "total", [{"key": "amelia", "value": 1}])
    writer.write(after, format="native", backend="rocksdb", share_files=True)


def recorded_shared_directory(checkpoint: Path) -> str:
    """Return the recorded directory of the shared files of a checkpoint."""
    metadata = read_metadata((checkpoint / "_metadata").read_bytes())
    streams = (stream for operator in metadata.operators for stream in streams_in_files(operator))
    return next(s.path.rpartition("/")[0] for s in streams if isinstance(s, h.FileStateHandle) and "/shared/" in s.path)
