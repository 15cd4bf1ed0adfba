"""Types of Spark for types of Arrow."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import TimestampNTZType, TimestampType

from state_processor.spark.schemas import spark_type

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("setting", ["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"])
def test_times_have_the_same_types_in_all_sessions(spark: SparkSession, setting: str) -> None:
    spark.conf.set("spark.sql.timestampType", setting)
    try:
        times = [f.lit(None).cast(spark_type(pa.timestamp("us", zone))) for zone in ("UTC", None)]
        found = spark.range(1).select(*times).schema.fields
    finally:
        spark.conf.unset("spark.sql.timestampType")
    assert [field.dataType for field in found] == [TimestampType(), TimestampNTZType()]
