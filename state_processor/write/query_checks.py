"""The part of the migration of queries that needs plans and headers of files only: the check, and the report."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from os import PathLike
from typing import Any

from state_processor.backends.sql.plan import CompiledPlan
from state_processor.options.access import read_plan
from state_processor.options.values import PLAN
from state_processor.serializers.errors import OptionError
from state_processor.write.build import SavepointBuild
from state_processor.write.migration_report import QueryMigrationReport
from state_processor.write.query_migration import QueryMigration

GivenPlan = str | PathLike[str] | Mapping[str, Any]
"""The file of a plan, its text, or the JSON."""


def plan_text(plan: GivenPlan) -> str:
    """Return the path of a plan, or its text.

    Raises
    ------
    OptionError
        The argument is of another type.
    """
    given: str = PLAN.of_argument("plan", plan)
    return given


class QueryChecks:
    """Methods of writers about queries of Flink SQL that do not read rows."""

    _build: SavepointBuild
    _query_migration: QueryMigrationReport | None = None

    def check_query_migration(
        self, old_plan: GivenPlan, new_plan: GivenPlan, *, drop: Collection[str] = ()
    ) -> QueryMigrationReport:
        """Preview :meth:`migrate_query` with the same arguments, and change nothing. Only headers of files are read.

        Returns
        -------
        QueryMigrationReport
            The outcome for each state; ``impossible`` lists the states that can't be kept, with the reasons.

        Raises
        ------
        NotFoundError
            If ``drop`` names an operator that does not exist.
        OptionError
            If the savepoint was not written by the query of the old plan.
        """
        return self._migration(old_plan, new_plan, drop).report

    def query_migration_report(self) -> QueryMigrationReport:
        """Return the outcome of :meth:`migrate_query` for each state: unchanged, converted, new or left out, and what changes.

        Raises
        ------
        OptionError
            If :meth:`migrate_query` was not called.
        """
        if self._query_migration is None:
            raise OptionError("no query was migrated; call migrate_query first")
        return self._query_migration

    def _migration(self, old_plan: GivenPlan, new_plan: GivenPlan, drop: Collection[str]) -> QueryMigration:
        if self._build.snapshot is None:
            raise OptionError("this savepoint does not start from another, whose state could be migrated")
        old, new = self._plan(old_plan), self._plan(new_plan)
        return QueryMigration(self._build.drafts, old, new, drop)

    def _plan(self, plan: GivenPlan) -> CompiledPlan:
        """Return a compiled plan.

        Raises
        ------
        OptionError
            If the text is not a compiled plan.
        MissingFileError
            If the file does not exist.
        """
        return read_plan(plan_text(plan), self._build.access.storage())
