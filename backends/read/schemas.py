"""Schemas: columns of the tables about a snapshot, comments of columns, and types in the words of Spark SQL.

The tables (:mod:`~state_processor.backends.read.catalog`) are apart from their columns: planning needs the columns alone.

A comment is the metadata ``comment`` of an Arrow field. Spark shows it in ``DESCRIBE`` and in the metadata of a
``StructField``. :func:`schema_text` writes ``key string, value struct<amount:bigint>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from state_processor.backends.formats.row_layout import NAMESPACE, VALUE
from state_processor.backends.formats.row_shapes import WINDOW
from state_processor.backends.state.descriptions import StateDescription
from state_processor.serializers.core.temporal import zoned_types
from state_processor.serializers.decode_options import SPARK_NAMES
from state_processor.support.doors import spelled

OPERATORS_SCHEMA: Final = pa.schema(
    [
        ("checkpoint_id", pa.int64()),
        ("operator_name", pa.string()),
        ("operator_uid", pa.string()),
        ("operator_uid_hash", pa.string()),
        ("operator_parallelism", pa.int32()),
        ("operator_max_parallelism", pa.int32()),
        ("operator_subtask_state_count", pa.int32()),
        ("operator_coordinator_state_size_in_bytes", pa.int64()),
        ("operator_total_size_in_bytes", pa.int64()),
        ("operator_kind", pa.string()),
        ("reference_checkpoint_id", pa.int64()),
    ]
)

STATES_SCHEMA: Final = pa.schema(
    [
        ("operator_uid", pa.string()),
        ("operator_uid_hash", pa.string()),
        ("state_name", pa.string()),
        ("state_kind", pa.string()),
        ("key_type", pa.string()),
        ("namespace_type", pa.string()),
        ("value_type", pa.string()),
        ("map_key_type", pa.string()),
        ("ttl", pa.bool_()),
        ("python", pa.bool_()),
        ("backend", pa.string()),
        ("size_in_bytes", pa.int64()),
        ("spark_schema", pa.string()),
        ("description", pa.string()),
        ("operator_kind", pa.string()),
    ]
)

HANDLES_SCHEMA: Final = pa.schema(
    [
        ("operator_name", pa.string()),
        ("operator_uid", pa.string()),
        ("operator_uid_hash", pa.string()),
        ("subtask", pa.int32()),
        ("slot", pa.string()),
        ("handle_type", pa.string()),
        ("part", pa.string()),
        ("stream_type", pa.string()),
        ("path", pa.string()),
        ("inline", pa.bool_()),
        ("offset", pa.int64()),
        ("size_in_bytes", pa.int64()),
        ("key_group_start", pa.int32()),
        ("key_group_end", pa.int32()),
        ("state_names", pa.list_(pa.string())),
        ("local_name", pa.string()),
        ("checkpoint_id", pa.int64()),
        ("backend_id", pa.string()),
        ("handle_id", pa.string()),
        ("reference_checkpoint_id", pa.int64()),
    ]
)

SCHEMAS: Final = {"operators": OPERATORS_SCHEMA, "states": STATES_SCHEMA, "handles": HANDLES_SCHEMA}
"""Schemas by the name of the table."""


COMMENT: Final = b"comment"
_OTHER_COLUMNS: Final = {NAMESPACE: ("namespace",), WINDOW: ("namespace",), VALUE: ("map_key", "value")}
"""Roles of columns that :attr:`StateDescription.COLUMNS` does not have: ``value`` is a whole map or list."""


def with_comments(schema: pa.Schema, state: StateDescription) -> pa.Schema:
    """Return the schema of a state with the time zone that dates and times are read in."""
    if not zoned_types(*state.serializers.values()):
        return schema
    return pa.schema([_with_comment(field, state) for field in schema])


def comments_of(schema: pa.Schema) -> Mapping[str, str]:
    """Return the comments of columns."""
    return {f.name: f.metadata[COMMENT].decode() for f in schema if f.metadata and COMMENT in f.metadata}


def with_comments_of(schema: pa.Schema, described: pa.Schema) -> pa.Schema:
    """Return a schema with the comments that another schema has on the columns of the same names."""
    comments = comments_of(described)
    return pa.schema([_commented(field, comments.get(field.name)) for field in schema], metadata=schema.metadata)


def with_note(field: pa.Field, note: str) -> pa.Field:
    """Return a field with a note after the comment that it has."""
    metadata = field.metadata or {}
    comments = [metadata[COMMENT].decode()] if COMMENT in metadata else []
    return field.with_metadata({**metadata, COMMENT: ". ".join([*comments, note]).encode()}) if note else field


def _commented(field: pa.Field, comment: str | None) -> pa.Field:
    """Return a field with the comment. A comment that the field has stays; ``None`` adds nothing."""
    metadata = field.metadata or {}
    return field if comment is None or COMMENT in metadata else field.with_metadata({**metadata, COMMENT: comment.encode()})


def _with_comment(field: pa.Field, state: StateDescription) -> pa.Field:
    roles = (state.COLUMNS[field.name],) if field.name in state.COLUMNS else _OTHER_COLUMNS.get(field.name, ())
    zones = zoned_types(*(serializer for role, serializer in state.serializers.items() if role in roles))
    return _commented(field, _zone_comment(zones) if zones else None)


def _zone_comment(column_zones: Iterable[tuple[str, str]]) -> str:
    types, zones = zip(*column_zones, strict=True)
    *more_types, last = types
    listed = f"{', '.join(more_types)} and {last}" if more_types else last
    verb = "are" if more_types else "is"
    return f"{listed} {verb} read in the time zone {zones[0]}; set {spelled('time_zone')} to the zone of the job's JVM"


_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def schema_text(schema: pa.Schema) -> str:
    """Return a schema as ``DataFrameReader.schema`` takes it."""
    return ", ".join(f"{_quoted(f.name)} {spark_ddl(f.type)}" for f in schema)


def spark_ddl(data_type: pa.DataType) -> str:
    """Return Spark's name of a type."""
    if data_type in SPARK_NAMES:
        return SPARK_NAMES[data_type]
    if pa.types.is_timestamp(data_type):
        return "timestamp" if data_type.tz else "timestamp_ntz"
    if pa.types.is_decimal(data_type):
        return f"decimal({data_type.precision},{data_type.scale})"
    if pa.types.is_list(data_type):
        return f"array<{spark_ddl(data_type.value_type)}>"
    if pa.types.is_map(data_type):
        return f"map<{spark_ddl(data_type.key_type)},{spark_ddl(data_type.item_type)}>"
    if pa.types.is_struct(data_type):
        return f"struct<{','.join(f'{_quoted(f.name)}:{spark_ddl(f.type)}' for f in data_type)}>"
    raise TypeError(f"Spark does not have a type for Arrow's {data_type}")


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"
