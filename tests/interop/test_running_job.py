"""Tables that follow a job while Flink runs it, restores it and removes its old checkpoints equal its savepoint in the end.

``python -m tests.faults.following`` is the long form, with many kills.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import state_processor as sp
from tests.faults import followed_stream
from tests.faults.following import Follower, follow_a_job, places_of_stream, rows_of_stream, tables
from tests.interop.selection import EVERY_CASE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.interop, pytest.mark.spark]

RUNS = "2:3000,3:3000"
KINDS = {"1.20.5": ("delta", "parquet"), "2.3.0": ("iceberg",)}
"""Tables that follow the job of a version. All of them read checkpoints in the same way."""
ALL_KINDS = tuple(sorted(chain.from_iterable(KINDS.values())))


class Query:
    """A query in the session of the tests: a kill stops it, wherever it is."""

    def __init__(self, spark: SparkSession, root: Path, checkpoints: Path, to_the_end: bool) -> None:
        self._note = partial(_note, root / "stream.log")
        places = places_of_stream(root, checkpoints)
        self._start = partial(followed_stream.start, spark, places, self._note, to_the_end=to_the_end)
        self._query: StreamingQuery | None = None
        self.code()

    def code(self) -> int | None:
        """Return 0 if it has read everything, 1 if it has failed."""
        try:
            if self._query is None:
                self._query = self._start()
            if self._query.isActive:
                return None
            failed = self._query.exception()
            if failed is not None:
                raise failed
        except Exception as error:
            self._query = None
            if followed_stream.is_transient(error):
                return None
            self._note(str(error))
            return 1
        return 0

    def kill(self) -> None:
        if self._query is not None:
            self._query.stop()


def _note(log: Path, line: str) -> None:
    with log.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


@pytest.mark.parametrize("version", KINDS)
def test_tables_equal_the_savepoint(version: str, tmp_path: Path, spark: SparkSession) -> None:
    def followers(root: Path, checkpoints: Path) -> dict[str, Follower]:
        places = places_of_stream(root, checkpoints)
        query = Follower(
            partial(Query, spark, root, checkpoints), 3, partial(rows_of_stream, places), root / "stream.log", expected=(0,)
        )
        return tables(root, checkpoints, ALL_KINDS if EVERY_CASE else KINDS[version]) | {"stream": query}

    sp.register(spark)
    found = follow_a_job(version, tmp_path, RUNS, followers, retained=3, seed=7, most=3, keys=200, rate=300)
    logs = {kind: follower.log.read_text("utf-8", "replace")[-2000:] for kind, follower in found.items()}
    assert {kind: follower.problems for kind, follower in found.items()} == {kind: [] for kind in found}, logs
