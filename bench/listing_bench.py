"""Many handles and many checkpoints: CPU time grows in proportion, and memory is bounded by what ``_metadata`` contains.

A ``_metadata`` of a million handles is read and written, and its handles are listed. Files that are missing are looked for.
A directory of 20,000 checkpoints, which share files, is listed, and its removals are previewed. The history of states is asked
for in 20,000 checkpoints that share the tables of a store of RocksDB. Each question has a process of its own. Targets: the CPU
time per handle and per checkpoint is at most 25 % above the CPU time for a tenth of the handles or checkpoints.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from apart import result_of
from effort import effort
from figures import Figure
from processes import peak_bytes

import state_processor as sp
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.snapshot_metadata import (
    CheckpointMetadata,
    OperatorState,
    OperatorSubtaskState,
    write_metadata,
)
from state_processor.backends.metadata.streams import StreamInFile, with_streams
from state_processor.backends.read.snapshot_checks import check_files

CACHE = Path(__file__).parent.parent / ".cache" / "bench" / "listing"
HANDLES = effort((100_000, 1_000_000), (10_000, 100_000))
MISSING = effort((10_000, 100_000), (1_000, 10_000))
CHECKPOINTS = effort((2_000, 20_000), (200, 2_000))
SUBTASKS, SHARED = 100, 3
JOB, UUID = "0a" * 16, "12345678-1234-1234-1234-{:012x}"
BEGIN = 1_700_000_000
TARGET = 1.25

QUESTIONS: dict[str, Callable[[str], Any]] = {
    "read": lambda path: open_snapshot(path).metadata,
    "write": lambda path: write_metadata(open_snapshot(path).metadata),
    "handles": lambda path: sp.open(path).handles(),
    "operators": lambda path: sp.open(path).operators(),
    "validate": lambda path: check_files(open_snapshot(path)),
    "list": sp.list_snapshots,
    "history": sp.history,
    "files": sp.files,
    "orphans": sp.orphans,
    "retain": lambda path: sp.retain(path, keep=3),
    "fleet": sp.fleet,
    "fleet --orphans": lambda path: sp.fleet(path, orphans=True),
}
TABLES = "checkpoints with tables"
UNITS = dict.fromkeys(("read", "write", "handles", "operators"), "handles") | {"validate": "missing files", "history": TABLES}
"""What the input of a question has many of, if not checkpoints."""


def operators(number: int, subtasks: int, files: Callable[[int, int], tuple[str, ...]]) -> tuple[OperatorState, ...]:
    """Return operators with an incremental handle of RocksDB in each subtask."""

    def subtask(operator: int, index: int) -> OperatorSubtaskState:
        shared = tuple(h.LocalFile(f"{n:06d}.sst", h.FileStateHandle(1, path)) for n, path in enumerate(files(operator, index)))
        meta = h.ByteStreamStateHandle("meta", b"x" * 50)
        key_groups, backend = h.KeyGroupRange(index, index), UUID.format(index)
        handle = h.IncrementalRemoteKeyedStateHandle(
            h.INCREMENTAL_V2, 1, backend, key_groups, meta, shared, (), 4, UUID.format(1)
        )
        return OperatorSubtaskState(index, managed_keyed=handle)

    return tuple(
        OperatorState(operator_id(f"operator-{o}"), subtasks, 128, tuple(subtask(o, s) for s in range(subtasks)))
        for o in range(number)
    )


def make_metadata(target: Path, handles: int) -> None:
    """Write a ``_metadata`` with a number of handles, each of one shared file."""
    target.mkdir(parents=True)
    shared = target.parent / "shared"
    content = operators(handles // SUBTASKS, SUBTASKS, lambda o, s: (str(shared / UUID.format(o * SUBTASKS + s)),))
    (target / "_metadata").write_bytes(write_metadata(CheckpointMetadata(3, 1, content)))


def make_checkpoints(target: Path, number: int) -> None:
    """Write the checkpoints of a job; each uses a new file and the files of the checkpoints before."""
    shared = target / JOB / "shared"
    shared.mkdir(parents=True)
    files: list[str] = []
    for checkpoint in range(1, number + 1):
        file = shared / UUID.format(checkpoint)
        file.write_bytes(b"x")
        files = [*files, str(file)][-SHARED:]
        directory = target / JOB / f"chk-{checkpoint}"
        directory.mkdir()
        content = CheckpointMetadata(3, checkpoint, operators(1, 1, lambda o, s: tuple(files)))  # noqa: B023 - called at once
        (directory / "_metadata").write_bytes(write_metadata(content))
        for path in (file, directory / "_metadata"):
            os.utime(path, (BEGIN + checkpoint, BEGIN + checkpoint))


def make_stores(target: Path, number: int) -> None:
    """Write the checkpoints of a job that have the tables of one store."""
    savepoint, shared = target / "savepoint", target / JOB / "shared"
    rows = [{"key": key, "value": key} for key in range(1000)]
    writer = sp.arrow.SavepointWriter.new().with_keyed_state("bench", rows, states={"value": sp.Types.LONG()}, parallelism=1)
    writer.write(savepoint, format="native", backend="rocksdb")
    shared.mkdir(parents=True)

    def moved(stream: StreamInFile) -> h.FileStateHandle:
        (savepoint / stream.path).rename(shared / stream.path)
        return h.FileStateHandle(stream.size, str(shared / stream.path))

    content = with_streams(open_snapshot(savepoint).metadata.operators, moved)
    shutil.rmtree(savepoint)
    for checkpoint in range(1, number + 1):
        directory = target / JOB / f"chk-{checkpoint}"
        directory.mkdir()
        (directory / "_metadata").write_bytes(write_metadata(CheckpointMetadata(3, checkpoint, content)))
        os.utime(directory / "_metadata", (BEGIN + checkpoint, BEGIN + checkpoint))


def run(question: str, path: str) -> dict[str, float]:
    """Measure one question in this process."""
    start = time.process_time()
    QUESTIONS[question](path)
    return {"cpu": time.process_time() - start, "mb": peak_bytes(os.getpid()) / 1e6}


def main() -> list[Figure]:
    """Measure both sizes of each input, and print a table."""
    shutil.rmtree(CACHE, ignore_errors=True)
    figures: list[Figure] = []
    try:
        for unit, sizes, make in (
            ("handles", HANDLES, make_metadata),
            ("missing files", MISSING, make_metadata),
            ("checkpoints", CHECKPOINTS, make_checkpoints),
            (TABLES, CHECKPOINTS, make_stores),
        ):
            for size in sizes:
                make(CACHE / f"{size}-{unit}", size)
            for question in QUESTIONS:
                if UNITS.get(question, "checkpoints") == unit:
                    figures += _figures(question, unit, sizes)
    finally:
        shutil.rmtree(CACHE, ignore_errors=True)
    return figures


def _figures(question: str, unit: str, sizes: tuple[int, int]) -> list[Figure]:
    less, more = (result_of(__file__, question, CACHE / f"{size}-{unit}") for size in sizes)
    small, large = (measured["cpu"] / size * 1e6 for measured, size in zip((less, more), sizes, strict=True))
    what = f"{question}, {sizes[1]:,} {unit}"
    print(f"{what:38} {more['cpu']:8.2f} CPU s {more['mb']:8.0f} MB  {small:8.1f} → {large:8.1f} µs each", flush=True)
    return [
        Figure(what, more["cpu"], "CPU s"),
        Figure(f"{what}, each", large, "µs", (small, f"{sizes[0]:,} {unit}"), TARGET),
        Figure(f"{what}, peak", more["mb"], "MB"),
    ]


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:])))
