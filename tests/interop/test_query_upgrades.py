"""State of queries that Flink 1.20 and 2.3 compile: Flink 2.3 goes on with what was migrated as in a run without a stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import selection
import sql_queries
from upgraded_queries import REFUSED, SAMPLE, UPGRADED

import state_processor as sp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.spark]

OLD, NEW = "1.20.5", "2.3.0"
NAMES = tuple(UPGRADED) if selection.EVERY_CASE else SAMPLE


def run(version: str, files: Path, plans: Path, where: Path, **origins: Path | None) -> dict[str, dict[str, Any]]:
    """Run queries until a savepoint, all from nothing or some from savepoints; those that go on come to the end of time."""
    requests = {
        name: sql_queries.request(
            UPGRADED[name], files, plans / f"{name}.json", to=str(where), origin=origins.get(name), drain=version == NEW
        )
        for name in (origins or NAMES)
    }
    answers = sql_queries.answered(version, list(requests.values()), sql_queries.AT_ONCE)
    return dict(zip(requests, answers, strict=True))


def result(name: str, changes: Sequence[str]) -> Mapping[str, Any]:
    """Return the rows that changes add up to; the last one of each key where the sink has one, its first column."""
    if "PRIMARY KEY" not in UPGRADED[name].sink:
        return sql_queries.rows_of(changes)
    last = {change[2:].partition(",")[0]: change for change in changes}
    return {key: change[2:] for key, change in last.items() if change[:2] != "-D"}


def test_queries_go_on_in_the_plans_of_another_version(spark: SparkSession, tmp_path: Path) -> None:
    files, whole, aside = (tmp_path / name for name in ("files", "whole", "aside"))
    plans = {version: tmp_path / version for version in (OLD, NEW)}
    for version, directory in plans.items():
        directory.mkdir()
        compiled = [sql_queries.request(UPGRADED[name], files, directory / f"{name}.json") for name in NAMES]
        sql_queries.answered(version, compiled)
    sql_queries.write_lines(files, "1", sql_queries.FIRST)
    sql_queries.write_lines(whole, "1", {table: (*lines, *sql_queries.MORE[table]) for table, lines in sql_queries.FIRST.items()})
    first = run(OLD, files, plans[OLD], tmp_path / "first")
    migrated, refused = {}, set()
    for name in NAMES:
        writer = sp.SavepointWriter.from_existing(spark, first[name]["savepoint"])
        try:
            writer.migrate_query(plans[OLD] / f"{name}.json", plans[NEW] / f"{name}.json")
        except sp.StateMigrationError:
            refused.add(name)
            continue
        writer.write(tmp_path / "migrated" / name)
        migrated[name] = tmp_path / "migrated" / name
    assert refused == REFUSED & set(NAMES)
    sql_queries.write_lines(files, "2", sql_queries.MORE)
    second = run(NEW, files, plans[NEW], aside, **migrated)
    expected = run(NEW, whole, plans[NEW], aside, **dict.fromkeys(migrated, None))
    for name in migrated:
        found = result(name, [*first[name]["changes"], *second[name]["changes"]])
        assert found == result(name, expected[name]["changes"]), name
