"""Several processes that make a table follow the same checkpoints: a commit after another process's is refused."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from state_processor.applications.changes.checkpoint_changes import Checkpoint
from state_processor.applications.lake.sync import target_of
from state_processor.applications.lake.targets import Changes, ConflictError, LakeTable, Position
from tests.state_processor.written_checkpoints import JOB, UID, rows, take

SCHEMA = pa.schema([("key", pa.string()), ("value", pa.int64())])
KINDS = ["delta", "iceberg", "parquet"]


def position(number: int) -> Position:
    return Position(Checkpoint(f"/chk-{number}", number, number, str(number)), "operator", "total", "columns", {})


def batch(value: int) -> pa.RecordBatch:
    return pa.record_batch([["amelia"], [value]], schema=SCHEMA)


def tables(kind: str, directory: Path) -> Callable[[], LakeTable]:
    """Return what opens a table, as each process does."""
    catalog = {"uri": f"sqlite:///{directory}/catalog.db", "warehouse": directory.as_uri()} if kind == "iceberg" else {}
    place = {"delta": str(directory / "table"), "iceberg": "lake.table", "parquet": str(directory / "table.parquet")}[kind]
    return lambda: target_of(place, kind, catalog)


def replaced(target: LakeTable, value: int) -> None:
    target.replace(SCHEMA, iter([batch(value)]), position(value))


def applied(target: LakeTable, value: int) -> None:
    changes = Changes(pa.Table.from_batches([batch(value)]), pa.chunked_array([[False]]), ["key"])
    target.apply(changes, position(value))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("commit", [replaced, applied])
def test_a_commit_after_another_process(kind: str, commit: Callable[[LakeTable, int], None], tmp_path: Path) -> None:
    opened = tables(kind, tmp_path)
    first, second = opened(), opened()
    first.position()
    replaced(first, 1)
    for target in (first, second):
        assert target.position() == position(1)
    commit(first, 5)
    with pytest.raises(ConflictError):
        commit(second, 4)
    assert opened().position() == position(5)
    assert second.position() == position(5)
    commit(second, 6)
    assert opened().position() == position(6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_two_processes_make(kind: str, tmp_path: Path) -> None:
    opened = tables(kind, tmp_path)
    first, second = opened(), opened()
    for target in (first, second):
        assert target.position() is None
    replaced(first, 5)
    with pytest.raises(ConflictError):
        replaced(second, 4)
    assert opened().position() == position(5)


PROGRAM = """
import sys
import state_processor as sp
from state_processor.applications.lake import parquet

class Slow(parquet._Replacement):
    def wait(self):
        print("waiting", flush=True)
        sys.stdin.readline()

    {method}

parquet._Replacement = Slow
commit = sp.sync(*sys.argv[1:])
print(commit and commit.checkpoint_id, flush=True)
"""
BEFORE_THE_CLAIM = PROGRAM.format(method="def claim(self): self.wait(); super().claim()")
AFTER_THE_CLAIM = PROGRAM.format(method="def claim(self): super().claim(); self.wait()")


class OtherProcess:
    """A process that waits in the middle of a synchronization."""

    def __init__(self, program: str, *arguments: Any) -> None:
        command = [sys.executable, "-c", program, *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "waiting\n"

    def end(self) -> str:
        return self.process.communicate("\n" * 9, timeout=300)[0].splitlines()[-1]

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=300)


def synced(*arguments: Any) -> str:
    """Synchronize in a process without the registrations of other tests, and return the id of the checkpoint, or the error."""
    program = "import sys, state_processor as sp; commit = sp.sync(*sys.argv[1:]); print(commit and commit.checkpoint_id)"
    run = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, check=False)
    return (run.stdout or run.stderr).splitlines()[-1]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoints" / JOB
    take(path, 1)
    return path


def hidden(directory: Path) -> list[str]:
    return [name for name in os.listdir(directory) if name.startswith(".")]


@pytest.mark.parametrize("exists", [True, False])
def test_a_process_that_read_an_older_checkpoint_gives_way(exists: bool, job: Path, tmp_path: Path) -> None:
    file = tmp_path / "totals.parquet"
    if exists:
        assert synced(job, UID, "total", file) == "1"
        take(job, 2, {"amelia": 5})
    other = OtherProcess(BEFORE_THE_CLAIM, job, UID, "total", file)
    newest = take(job, 3, {"zoe": 7})
    assert (synced(job, UID, "total", file), len(hidden(tmp_path))) == ("3", 2)
    assert other.end() == "None"
    content = sorted((row["key"], row["value"]) for row in pq.read_table(file).to_pylist())
    assert (content, hidden(tmp_path)) == (rows(newest), [])


def test_two_processes_never_move_at_once(job: Path, tmp_path: Path) -> None:
    """A process whose claim is there holds all others up, until it ends."""
    file = tmp_path / "totals.parquet"
    other = OtherProcess(AFTER_THE_CLAIM, job, UID, "total", file)
    assert re.search(r"another process is writing it \(\.totals\.parquet\.[0-9a-f]{32}-claim\)", synced(job, UID, "total", file))
    assert not file.exists()
    other.kill()
    assert len(hidden(tmp_path)) == 3
    assert (synced(job, UID, "total", file), hidden(tmp_path)) == ("1", [])
