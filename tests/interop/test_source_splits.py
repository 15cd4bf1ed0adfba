"""Real Flink goes on with a source where the splits that were written for it say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import flink
import pytest

import state_processor as sp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

SPLITS = [("a", 5, 12, 0), ("b", 30, 33, None), ("c", 100, 102, 1)]


@pytest.fixture(scope="module")
def savepoint(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("splits") / "savepoint"
    frame = spark.createDataFrame(SPLITS, "split_id string, from_number long, to_number long, subtask int")
    sp.SavepointWriter.new(spark).with_source_splits("sequence", frame, connector="sequence").write(target)
    return target


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_every_number_that_is_left_comes_once(savepoint: Path, version: str, parallelism: int) -> None:
    printed = flink.run(version, "RestoreSequence", [savepoint.as_uri(), str(parallelism)])
    left = [number for _, first, last, _ in SPLITS for number in range(first, last + 1)]
    assert printed.strip().splitlines()[-1] == "{" + ", ".join(f"{number}=1" for number in left) + "}"
