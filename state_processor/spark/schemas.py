"""Conversion of schemas between Arrow and Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

from state_processor.backends.formats.row_layout import TIMESTAMP
from state_processor.backends.formats.row_shapes import FIRES_AT
from state_processor.backends.read.schemas import COMMENT, comments_of
from state_processor.read.rows import METADATA
from state_processor.spark.versions import UTC
from state_processor.write.rows.row_protocol import DERIVED_FROM

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
    fields = []
    for field in schema.fields:
        comment = {_COMMENT: comments[field.name]} if field.name in comments else {}
        fields.append(StructField(field.name, field.dataType, field.nullable, comment | field.metadata))
    return StructType(fields)


def with_types_of(schema: StructType, typed: pa.Schema) -> StructType:
    """Return the schema with the types that columns of the same names were read with."""
    types = {f.name: f.metadata[METADATA].decode() for f in typed if f.metadata and METADATA in f.metadata}
    fields = []
    for field in schema.fields:
        type_ = {_TYPE: types[field.name]} if field.name in types else {}
        fields.append(StructField(field.name, field.dataType, field.nullable, field.metadata | type_))
    return StructType(fields)


def typed_schema_of(schema: StructType) -> pa.Schema:
    """Return the Arrow schema for a schema of Spark, with the types that its columns were read with, and derived columns."""
    fields = []
    for field, arrow in zip(schema.fields, arrow_schema_of(schema), strict=True):
        texts = {key: field.metadata.get(key.decode()) for key in (METADATA, DERIVED_FROM)}
        metadata = {key: text.encode() for key, text in texts.items() if isinstance(text, str)}
        fields.append(arrow.with_metadata(metadata) if metadata else arrow)
    return pa.schema(fields)


def with_derived_times(frame: DataFrame) -> DataFrame:
    """Mark ``fires_at`` as derived from ``timestamp``, if it is among the columns of timers."""
    return frame.withMetadata(FIRES_AT, {DERIVED_FROM.decode(): TIMESTAMP}) if FIRES_AT in frame.columns else frame


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark requires for one of its schemas."""
    return to_arrow_schema(schema, **UTC)
