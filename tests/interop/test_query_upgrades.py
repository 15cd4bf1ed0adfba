"""State of queries that Flink 1.20 and 2.3 compile: Flink 2.3 continues with migrated state like in an uninterrupted run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from tests.interop import selection, sql_queries
from tests.interop.upgraded_queries import REFUSED, SAMPLE, UPGRADED

pytestmark = pytest.mark.interop

NAMES = tuple(UPGRADED) if selection.EVERY_CASE else SAMPLE


@dataclass(frozen=True)
class Planner:
    """A version of Flink, with settings, that compiles and runs queries."""

    version: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def compile(self, names: Sequence[str], files: Path, plans: Path) -> None:
        """Write the plans of queries."""
        plans.mkdir()
        sql_queries.answered(self.version, [self._request(name, files, plans) for name in names])

    def run(
        self, origins: Mapping[str, Path | None], files: Path, plans: Path, where: Path, *, drain: bool = False
    ) -> dict[str, dict[str, Any]]:
        """Run queries until a savepoint, with or without a start savepoint; draining queries reach the end of time."""
        requests = [self._request(name, files, plans, to=str(where), origin=of, drain=drain) for name, of in origins.items()]
        return dict(zip(origins, sql_queries.answered(self.version, requests, sql_queries.AT_ONCE), strict=True))

    def _request(self, name: str, files: Path, plans: Path, **where: Any) -> dict[str, Any]:
        query = UPGRADED[name]
        query = replace(query, settings={**query.settings, **self.settings})
        return sql_queries.request(query, files, plans / f"{name}.json", **where)


def result(name: str, changes: Sequence[str]) -> Mapping[str, Any]:
    """Return the rows that changes add up to; the last one of each key where the sink has one, its first column."""
    if "PRIMARY KEY" not in UPGRADED[name].sink:
        return sql_queries.rows_of(changes)
    last = {change[2:].partition(",")[0]: change for change in changes}
    return {key: change[2:] for key, change in last.items() if change[:2] != "-D"}


@pytest.mark.parametrize(
    ("names", "old", "new"),
    [
        (NAMES, Planner("1.20.5"), Planner("2.3.0")),
        (
            ("over-unbounded-waiting", "lag-waiting"),
            Planner("2.3.0"),
            Planner("2.3.0", {"table.exec.unbounded-over.version": "1"}),
        ),
    ],
    ids=["another version", "the first version of OVER"],
)
def test_queries_go_on_in_plans_with_other_states(names: Sequence[str], old: Planner, new: Planner, tmp_path: Path) -> None:
    files, whole, aside, before, after = (tmp_path / name for name in ("files", "whole", "aside", "old", "new"))
    old.compile(names, files, before)
    new.compile(names, files, after)
    sql_queries.write_lines(files, "1", sql_queries.FIRST)
    sql_queries.write_lines(whole, "1", {table: (*lines, *sql_queries.MORE[table]) for table, lines in sql_queries.FIRST.items()})
    first = old.run(dict.fromkeys(names), files, before, tmp_path / "first")
    migrated, refused = {}, {}
    for name in names:
        writer = sp.arrow.SavepointWriter.from_existing(first[name]["savepoint"])
        try:
            writer.migrate_query(before / f"{name}.json", after / f"{name}.json")
        except sp.StateMigrationError as error:
            refused[name] = str(error)
            continue
        writer.write(tmp_path / "migrated" / name)
        migrated[name] = tmp_path / "migrated" / name
    assert refused.keys() == REFUSED.keys() & set(names)
    assert [name for name, message in refused.items() if not re.search(REFUSED[name], message)] == []
    sql_queries.write_lines(files, "2", sql_queries.MORE)
    second = new.run(migrated, files, after, aside, drain=True)
    expected = new.run(dict.fromkeys(migrated), whole, after, aside, drain=True)
    for name in migrated:
        found = result(name, [*first[name]["changes"], *second[name]["changes"]])
        assert found == result(name, expected[name]["changes"]), name
