"""The interface to what writes state of queries of Flink SQL: an application, which is imported when a query is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from os import PathLike
from typing import Any, Final, Protocol

from state_processor.write.build import SavepointBuild
from state_processor.write.plan.reports import QueryMigrationReport
from state_processor.write.rows.row_protocol import GivenRows
from state_processor.write.tasks.passes import WriterEngine

GivenPlan = str | PathLike[str] | Mapping[str, Any]
"""The file of a plan, its text, or the JSON."""

_PROVIDER: Final = "state_processor.applications.flink_sql.query_writer"
"""The module that writes state of queries: its ``FlinkSqlWriter`` is a :class:`QueryWriter`."""


class QueryWriter(Protocol):
    """Starts and migrates queries in a new savepoint; see the methods of :class:`~state_processor.SavepointWriter`."""

    def bootstrap(
        self,
        plan: GivenPlan,
        operator: str,
        rows: GivenRows | None,
        left: GivenRows | None,
        right: GivenRows | None,
        parallelism: int | None,
    ) -> None:
        """Write the state that an operator of a query has after some rows."""

    def migrate(self, old_plan: GivenPlan, new_plan: GivenPlan, drop: Collection[str]) -> QueryMigrationReport:
        """Rewrite the state of a query for another query."""

    def check_migration(self, old_plan: GivenPlan, new_plan: GivenPlan, drop: Collection[str]) -> QueryMigrationReport:
        """Preview a migration, and change nothing."""


def query_writer(build: SavepointBuild, engine: WriterEngine) -> QueryWriter:
    """Return what writes state of queries to a new savepoint."""
    writer: QueryWriter = import_module(_PROVIDER).FlinkSqlWriter(build, engine)
    return writer
