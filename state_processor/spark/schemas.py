"""Conversion of schemas between Arrow and Spark."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from state_processor.spark.versions import UTC


def spark_schema(schema: pa.Schema) -> StructType:
    """Return Spark's schema for columns of Arrow; timestamps without a time zone are ``timestamp_ntz``."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark requires for one of its schemas."""
    return to_arrow_schema(schema, **UTC)
