"""Options of the data sources: those of the table, and those that data sources alone have."""

from __future__ import annotations

from typing import Final

from state_processor.options.effects import Kind
from state_processor.options.option import Option
from state_processor.options.table import PUSHDOWN, READ_OPTIONS, SNAPSHOT_OPTIONS, STATE_KIND
from state_processor.options.values import BOOLEAN, COUNT, PATH, PYTHON_TYPE, SIZE, TEXT, one_of

SAVEPOINT_FORMAT: Final = "flink-savepoint"
METADATA_FORMAT: Final = "flink-savepoint-metadata"

_UID: Final = Option("uid", TEXT, "The operator, by uid.")
_UID_HASH: Final = Option("uid_hash", TEXT, "The operator, by the hash of its uid.")
_STATE_OPTIONS: Final = (
    _UID,
    _UID_HASH,
    Option("state", TEXT, "Name of the state. Without it all keyed states are read: one row per key, one column per state."),
    STATE_KIND,
)
_TASK_OPTIONS: Final = (
    Option("split_size", SIZE, "Approximate bytes of the snapshot that one task reads; 96m by default."),
    PUSHDOWN,
)
_TABLE_OPTIONS: Final = (
    Option("table", one_of("operators", "states", "handles"), "One row per operator, state, or stored piece.", "operators"),
)
_SINK_OPTIONS: Final = (
    _UID,
    _UID_HASH,
    Option("base", PATH, "The source savepoint. A state that it has is updated for the keys of the rows; a null removes a key."),
    Option(
        "state",
        TEXT,
        "Name of the state, whose values are in the column `value` or the column of that name. Without it every column but the "
        "key is a state.",
    ),
    Option("replace", BOOLEAN, "Replaces a state of the source savepoint as a whole.", False),
    Option("key", TEXT, "The column of the key.", "key"),
    Option("key_type", TEXT, "Flink's type of the key, such as `LONG`; inferred from the column by default."),
    Option(
        "value_type",
        TEXT,
        "Flink's type of the values, such as `MAP<STRING,LONG>`, or `POJO<com.acme.Account>` with the fields of the column.",
    ),
    Option(
        "python_type",
        PYTHON_TYPE,
        "The type that a PyFlink job declares for the state, such as `LONG`, `ListState<LONG>` or `MapState<STRING,LONG>`.",
    ),
    Option("kind", one_of("VALUE", "LIST", "MAP", "REDUCING", "AGGREGATING"), "The kind of a new state; `VALUE` by default."),
    Option("ttl", BOOLEAN, "True for a new state with time-to-live; false by default."),
    Option("parallelism", COUNT, "Parallelism of the operator."),
    Option("max_parallelism", COUNT, "Number of key groups: by default that of the source savepoint, or 128."),
    Option("flink_version", TEXT, "The oldest Flink version to restore the savepoint."),
)

READING: Final = f"reading {SAVEPOINT_FORMAT}"
READING_METADATA: Final = f"reading {METADATA_FORMAT}"
WRITING: Final = f"writing {SAVEPOINT_FORMAT}"

TEXT_OPTIONS: Final = {
    READING: (*_STATE_OPTIONS, *READ_OPTIONS, *SNAPSHOT_OPTIONS, *_TASK_OPTIONS),
    READING_METADATA: (*_TABLE_OPTIONS, *(o for o in SNAPSHOT_OPTIONS if Kind.TABLES in o.applies_to)),
    WRITING: (*_SINK_OPTIONS, *SNAPSHOT_OPTIONS),
}
"""The options of each data source."""
