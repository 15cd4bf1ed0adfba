"""Real Flink commits what a rewritten savepoint leaves to a sink, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import state_processor as sp
from tests.interop import flink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

LINES = 8


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_files_that_are_left_out_stay_invisible(spark: SparkSession, tmp_path: Path, version: str) -> None:
    written = flink.write_files(version, tmp_path / "files", tmp_path, LINES)
    reader = sp.SavepointReader.read(spark, written)
    rolling, opened = reader.read_sink_state("rolling"), reader.read_sink_state("open")
    pending = [row for row in rolling.collect() if row.file_status == "PENDING"]
    for row in pending:
        undo_commit(row)
    writer = sp.SavepointWriter.from_existing(spark, written)
    writer.with_sink_state("rolling", rolling.where("role = 'WRITER' OR bucket_id = 'letter=a'"))
    writer.with_sink_state("open", opened.where("role = 'WRITER' AND NOT (bucket_id = 'letter=b' AND subtask = 0)"))
    writer.write(tmp_path / "changed")

    after = flink.write_files(version, tmp_path / "files", tmp_path, 0, tmp_path / "changed")
    committed = {row.path: Path(row.path.removeprefix("file:")).is_file() for row in pending}
    assert committed == {row.path: row.bucket_id == "letter=a" for row in pending}
    assert sorted(line for path in committed if committed[path] for line in lines(path)) == ["a-0", "a-1", "a-4", "a-5"]
    goes_on = [row for row in sp.arrow.read_sink_state(after, "open").to_pylist() if row["role"] == "WRITER"]
    assert {(row["bucket_id"], row["subtask"]) for row in goes_on} <= {(b, s) for b in ("letter=a", "letter=b") for s in (0, 1)}
    assert sorted(row["path"] for row in goes_on) == sorted(
        row.path for row in opened.collect() if row.role == "WRITER" and (row.bucket_id, row.subtask) != ("letter=b", 0)
    )


def undo_commit(row: Any) -> None:
    """Restore a file to its state at the savepoint: the job may have committed it before it ended."""
    path = Path(row.path.removeprefix("file:"))
    if path.is_file():
        path.rename(row.temporary_path)


def lines(path: str) -> list[str]:
    return Path(path.removeprefix("file:")).read_text("utf-8").splitlines()
