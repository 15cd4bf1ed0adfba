"""Columns of the tables about a snapshot, apart from the code that fills them: planning needs no more."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

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
