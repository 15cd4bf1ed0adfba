"""Options of reading state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from state_processor.backends.read.option import DIFFERENCES, KEYED, NAMED, OPERATOR, PYTHON, ROWS, VALUES, Kind, option
from state_processor.backends.state.column_types import TypeByPath, Undescribed
from state_processor.backends.state.python_states import PythonType, Unpickled
from state_processor.serializers.decode_options import BATCH_MEMORY, Nanos
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

Expired = Literal["hide", "only", "include"]
"""The values to read, if a time-to-live is given."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a read: its rows, columns and values.

    Durations are in milliseconds, and points in time in milliseconds of the epoch.
    """

    flatten: bool = option(
        "boolean",
        "Lists and maps have a row per element; if false, one row per key with an array or map.",
        True,
        operand="",
        on=NAMED,
        holds_on=VALUES - NAMED,
    )
    metadata: bool = option(
        "boolean",
        "Adds the columns `_key_group`, `_subtask` and `_last_access` (null without TTL).",
        False,
        operand="",
        on=VALUES - DIFFERENCES,
    )
    columns: tuple[str, ...] | None = option(
        "names",
        "Reads only these columns, and of structs only the fields that are named: `value.id`, with `element` for lists and "
        "`value` for maps. All others are skipped, not decoded.",
        on=ROWS,
    )
    keys: tuple[Any, ...] | pa.Table | None = option(
        "keys",
        "Reads only these keys, and opens only the key groups that hold them. In Python also a DataFrame (of Spark, pandas or a "
        "library that speaks Arrow) with the column `key` or, if keys are structs, the columns of their fields; its rows are "
        "collected.",
        on=NAMED | {Kind.WHOLE, Kind.TIMERS},
    )
    nanos: Nanos = option(
        Nanos,
        "Nanoseconds that microseconds can't hold are an error, are cut off, or are read as text with all digits. With `check` "
        "the first value with such nanoseconds is an error; with `error` types that declare nanoseconds (`TIMESTAMP(9)` of Flink "
        "SQL, `timestamp-nanos` of Avro) are refused before a value is read, too.",
        "check",
        operand="HOW",
        on=VALUES,
    )
    row_kind: bool = option(
        "boolean",
        "Gives `Row` and `RowData` a first field `row_kind`.",
        False,
        operand="",
        on=VALUES - {Kind.COUNTS},
    )
    ttl: int | None = option(
        "duration",
        "Leaves out values whose last access is this long or longer before `as_of`, as Flink's `NeverReturnExpired` does.",
        operand="DURATION",
        on=KEYED,
        needs=("as_of",),
    )
    as_of: int | None = option(
        "instant",
        "The time that decides which values are expired; needed with `ttl`. A time without a zone is in UTC.",
        operand="TIME",
        on=KEYED,
        needs=("ttl",),
    )
    expired: Expired = option(
        Expired,
        "With `ttl`: omit expired values, omit all other values, or omit nothing. States without time-to-live don't have expired "
        "values.",
        "hide",
        operand="WHICH",
        on=KEYED,
        needs=("ttl",),
    )
    types: tuple[TypeByPath, ...] = option(
        "types",
        "Types of collections that Kryo wrote, which snapshots do not record, by path: the column, then names of fields, "
        "`element` of lists, `key` and `value` of maps. Such a part is an array or a map, and JSON text otherwise.",
        (),
        operand="PATH=TYPE",
        on=NAMED | OPERATOR | {Kind.WHOLE},
    )
    python_type: PythonType | None = option(
        "python_type",
        "Type that a PyFlink job declares for the state, which snapshots do not record: values are decoded, and value, "
        "reducing and aggregating state have one row per key. A list state is `ListState(Types.LONG())`, as text "
        "`ListState<LONG>`; a map state and broadcast state `Types.MAP(…)`.",
        operand="TYPE",
        on=PYTHON,
    )
    python_types: tuple[tuple[str, PythonType], ...] = option(
        "python_types",
        "The same for several states, by name in the job.",
        (),
        operand="STATE=TYPE",
        on=PYTHON | {Kind.WHOLE, Kind.DIFF},
    )
    unpickle: Unpickled = option(
        "unpickled",
        "Loads the pickles in states of PyFlink, which runs code that is in them: only for snapshots that only people whom you "
        "trust could have written. Values are JSON text or, with a type of `Types`, values of this type. Not an option of the "
        "data source.",
        False,
        on=PYTHON | {Kind.WHOLE},
        needs=("python_type", "python_types"),
        code_only=True,
    )
    fields: tuple[tuple[str, tuple[str, ...]], ...] = option(
        "fields",
        "Names of the fields of rows of Flink SQL, by `key`, the name of the state, or state and column where several columns "
        "are rows (`data-state.map_key`). They take precedence over names from `plan`.",
        (),
        operand="STATE=NAMES",
        on=VALUES - DIFFERENCES,
    )
    undescribed: Undescribed = option(
        Undescribed,
        "Values of a POJO's subclass that the snapshot does not describe are an error, or are read as `_class` and `_bytes` if "
        "the format records their length (values and map values of canonical savepoints and RocksDB). Decoding is slower.",
        "error",
        operand="HOW",
        on=VALUES - {Kind.TIMERS},
    )
    batch_memory: int = option(
        "size",
        "Memory that one batch may take while it is decoded. A row that needs more is refused: a damaged or hostile snapshot can "
        "describe values of any size.",
        BATCH_MEMORY,
        operand="SIZE",
        on=VALUES,
    )

    @property
    def newest_expired(self) -> int | None:
        """The newest last access of expired values, in epoch microseconds; ``None`` to read expired values too."""
        if self.ttl is None or self.as_of is None or self.expired == "include":
            return None
        return (self.as_of - self.ttl) * 1000

    def __post_init__(self) -> None:
        if self.ttl is not None and self.ttl <= 0:
            raise OptionError(f"{spelled('ttl')} of {self.ttl} ms: expected a positive duration")
        if self.ttl is not None and self.as_of is None:
            raise OptionError(f"{spelled('ttl')} needs {spelled('as_of', 'now')}, or another point in time")
        if self.expired == "only" and self.ttl is None:
            raise OptionError(f"{spelled('expired', 'only')} needs {spelled('ttl')} and {spelled('as_of')}")
        if self.unpickle is not False and self.python_type is None and not self.python_types:
            raise OptionError(
                f"unpickle: name the states with pickles by {spelled('python_type', 'PICKLED_BYTE_ARRAY')}, or by "
                f"{spelled('python_types')}"
            )
