"""Settings of the session before, during and after a write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from pyspark.sql import SparkSession

import state_processor as sp
from tests.waiting import join


@contextmanager
def sampled_settings(spark: SparkSession) -> Iterator[list[dict[str, str]]]:
    """Read the settings of a session again and again, in another thread."""
    seen: list[dict[str, str]] = []
    done = Event()

    def sample() -> None:
        while not done.wait(0.002):
            seen.append(spark.conf.getAll)

    thread = Thread(target=sample)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        join(thread)


@pytest.mark.parametrize("key", ["id", "if(id = 90, NULL, id)"], ids=["a write", "a write that fails"])
def test_settings_stay_as_they_are(spark: SparkSession, tmp_path: Path, key: str) -> None:
    rows = spark.range(100).selectExpr(f"{key} AS key", "id AS total")
    writer = sp.SavepointWriter.new(spark).with_keyed_state("orders", rows)
    before = spark.conf.getAll
    with sampled_settings(spark) as seen:
        if key == "id":
            assert writer.write(tmp_path / "new").entries == 100
        else:
            with pytest.raises(sp.InvalidRowError, match="null"):
                writer.write(tmp_path / "new")
    assert seen
    assert all(settings == before for settings in seen)
    assert spark.conf.getAll == before
