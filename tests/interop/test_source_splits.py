"""Real Flink goes on with a source where the splits that were written for it say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import state_processor as sp
from tests.interop import flink
from tests.interop.selection import asking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

SPLITS = [("a", 5, 12, 0), ("b", 30, 33, None), ("c", 100, 102, 1)]


@pytest.fixture(scope="module")
def savepoints(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Splits of a source, written under its uid, and under another that was changed afterwards."""
    directory = tmp_path_factory.mktemp("splits")
    frame = spark.createDataFrame(SPLITS, "split_id string, from_number long, to_number long, subtask int")
    for uid in ("sequence", "numbers"):
        sp.SavepointWriter.new(spark).with_source_splits(uid, frame, connector="sequence").write(directory / uid)
    writer = sp.SavepointWriter.from_existing(spark, directory / "numbers").change_operator_identifier("numbers", "sequence")
    writer.write(directory / "renamed")
    return {"written": directory / "sequence", "renamed": directory / "renamed"}


@pytest.fixture(scope="module")
def printed(request: pytest.FixtureRequest, savepoints: dict[str, Path]) -> dict[tuple[str, str, int], str]:
    """The numbers that a restored job emits, by version, savepoint and parallelism; one call for each version."""
    asked = [item.callspec.params for item in asking(request, "printed")]
    found = {}
    for version in sorted({p["version"] for p in asked}):
        runs = [(p["savepoint"], p["parallelism"]) for p in asked if p["version"] == version]
        arguments = [text for name, parallelism in runs for text in (savepoints[name].as_uri(), str(parallelism))]
        lines = flink.run_kept(version, "RestoreSequence", arguments, tables=False).strip().splitlines()
        found |= {(version, *run): line for run, line in zip(runs, lines[-len(runs) :], strict=True)}
    return found


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
@pytest.mark.parametrize(("savepoint", "parallelism"), [("written", 1), ("written", 2), ("renamed", 2)])
def test_every_number_that_is_left_comes_once(
    printed: dict[tuple[str, str, int], str], savepoint: str, version: str, parallelism: int
) -> None:
    """Also the rows of the split without a reader: the state of the source's coordinator moves to a new uid."""
    left = [number for _, first, last, _ in SPLITS for number in range(first, last + 1)]
    assert printed[version, savepoint, parallelism] == "{" + ", ".join(f"{number}=1" for number in left) + "}"
