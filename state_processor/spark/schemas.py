"""Conversion of schemas between Arrow and Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

from state_processor.backends.read.column_comments import COMMENT, comments_of
from state_processor.read.read_types import METADATA
from state_processor.spark.versions import UTC

_COMMENT: Final = COMMENT.decode()
_TYPE: Final = METADATA.decode()


def spark_type(type_: pa.DataType) -> DataType:
    """Return Spark's type for a type of Arrow. Its name as text means another type if ``spark.sql.timestampType`` is set."""
    return from_arrow_type(type_, prefer_timestamp_ntz=True)


def spark_schema(schema: pa.Schema) -> StructType:
    """Return Spark's schema for columns of Arrow, with comments; timestamps without a time zone are ``timestamp_ntz``."""
    return with_comments(from_arrow_schema(schema, prefer_timestamp_ntz=True), comments_of(schema))


def with_comments(schema: StructType, comments: Mapping[str, str]) -> StructType:
    """Return the schema with comments on columns without comments."""
    fields = (
        StructField(f.name, f.dataType, f.nullable, {_COMMENT: comments[f.name], **f.metadata}) if f.name in comments else f
        for f in schema.fields
    )
    return StructType(list(fields))


def with_types_of(schema: StructType, typed: pa.Schema) -> StructType:
    """Return the schema with the types that columns of the same names were read with."""
    types = {f.name: f.metadata[METADATA].decode() for f in typed if f.metadata and METADATA in f.metadata}
    fields = (
        StructField(f.name, f.dataType, f.nullable, {**f.metadata, _TYPE: types[f.name]}) if f.name in types else f
        for f in schema.fields
    )
    return StructType(list(fields))


def typed_schema_of(schema: StructType) -> pa.Schema:
    """Return the Arrow schema for a schema of Spark, with the types that its columns were read with."""
    types = {f.name: f.metadata[_TYPE].encode() for f in schema.fields if isinstance(f.metadata.get(_TYPE), str)}
    fields = (f.with_metadata({METADATA: types[f.name]}) if f.name in types else f for f in arrow_schema_of(schema))
    return pa.schema(list(fields))


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark requires for one of its schemas."""
    return to_arrow_schema(schema, **UTC)
