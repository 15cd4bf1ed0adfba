"""The methods of a writer of savepoints for queries of Flink SQL, by their compiled plans."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from state_processor.backends.sql.bootstrap import Input
from state_processor.backends.sql.plan import CompiledPlan
from state_processor.options.access import SnapshotAccess, read_plan
from state_processor.spark.dataframe_rows import SparkRows, rows_of
from state_processor.spark.migrated_rows import migrated_entries
from state_processor.spark.query_rows import SparkQueryRows
from state_processor.spark.storage_settings import with_settings_of_spark
from state_processor.write.migrated_rows import OPTIONS
from state_processor.write.query_methods import GivenPlan, QueryMethods, plan_text
from state_processor.write.query_migration import MigratedState
from state_processor.write.row_protocol import GivenRows

if TYPE_CHECKING:
    from state_processor.reader import SavepointReader


class QueryWriter(QueryMethods):
    """Methods of :class:`~state_processor.SavepointWriter` for queries of Flink SQL."""

    _spark: SparkSession

    @abstractmethod
    def _source_reader(self) -> SavepointReader:
        """Return a reader of the source savepoint that does not use its plan."""

    def _migrated_rows(self, state: MigratedState) -> SparkRows:
        operator, reader = self._recorded(state.operator), self._source_reader()
        rows = reader.read_keyed_state(
            operator, state.old.name, metadata=state.old.has_ttl, nanos=OPTIONS.nanos, row_kind=OPTIONS.row_kind
        )
        return SparkRows(migrated_entries(state, rows))

    def _plan(self, plan: GivenPlan) -> CompiledPlan:
        return _compiled_plan(self._spark, self._build.access, plan)

    def _query_rows(self, given: GivenRows, wanted: Input, time: str | None = None) -> SparkQueryRows:
        return SparkQueryRows.of(rows_of(self._spark, given), wanted, time)


def _compiled_plan(spark: SparkSession, access: SnapshotAccess, plan: GivenPlan) -> CompiledPlan:
    """Return a compiled plan. Its file may be in storage that Spark has the settings of."""
    given = plan_text(plan)
    if not given.lstrip().startswith("{"):
        access = with_settings_of_spark(spark, access, given)
    return read_plan(given, access.storage())
