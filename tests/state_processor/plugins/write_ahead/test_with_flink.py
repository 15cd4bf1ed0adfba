"""Real Flink sends the pending checkpoints that a rewritten savepoint leaves to a write-ahead sink, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import state_processor as sp
from tests.interop import flink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

SOURCES = Path(__file__).parent / "java"
LINES = 8


def write_ahead(version: str, files: Path, savepoints: Path, lines: int, savepoint: Path | None = None) -> Path:
    """Run a job with a write-ahead sink and return the savepoint that it takes: see ``WriteAheadJob``.

    Args:
        version: the Flink version.
        files: the directory that the sink sends lines to.
        savepoints: the parent directory of the savepoint.
        lines: how many lines the job writes; 0 to send those of the savepoint.
        savepoint: the one that the job begins with.

    Raises
    ------
        FlinkError: the job failed.
    """
    arguments = [str(files), str(savepoints), str(lines), *([] if savepoint is None else [savepoint.as_uri()])]
    printed = flink.run_job(version, SOURCES, "WriteAheadJob", arguments)
    return Path(printed.strip().splitlines()[-1])


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_pending_checkpoints_that_are_left_out_are_not_sent(spark: SparkSession, tmp_path: Path, version: str) -> None:
    written = write_ahead(version, tmp_path / "files", tmp_path, LINES)
    pending = sp.SavepointReader.read(spark, written).read_sink_state("ahead")
    rows = pending.collect()
    assert {(row.pending_checkpoint, row.written_by_subtask) for row in rows} == {(1, 0), (1, 1)}
    writer = sp.SavepointWriter.from_existing(spark, written)
    writer.with_sink_state("ahead", pending.where("written_by_subtask = 1"))
    writer.write(tmp_path / "changed")

    after = write_ahead(version, tmp_path / "files", tmp_path, 0, tmp_path / "changed")
    sent = sorted(line for path in (tmp_path / "files").iterdir() for line in path.read_text("utf-8").splitlines())
    (kept,) = (row.records for row in rows if row.written_by_subtask == 1)
    assert sent == [f"line {number}" for number in range(LINES) if f"line {number}".encode() in kept]
    assert len(sent) == LINES / 2
    # Flink forgets what it sent with the next checkpoint, which the last savepoint may precede
    assert {row["records"] for row in sp.arrow.read_sink_state(after, "ahead").to_pylist()} <= {bytes(kept)}
