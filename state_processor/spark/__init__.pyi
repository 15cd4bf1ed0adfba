"""The names of :mod:`state_processor.spark`, and the module of each."""

from state_processor.spark.datasource import (
    SnapshotDataSource as SnapshotDataSource,
)
from state_processor.spark.planned_read import (
    grouped as grouped,
    rows_of_parts as rows_of_parts,
)
from state_processor.spark.schemas import (
    arrow_schema_of as arrow_schema_of,
    spark_schema as spark_schema,
)
from state_processor.spark.sessions import (
    with_settings_of_spark as with_settings_of_spark,
)
from state_processor.spark.task_errors import (
    asked_by_spark as asked_by_spark,
)
from state_processor.spark.versions import (
    LIMITS_BATCHES as LIMITS_BATCHES,
)
