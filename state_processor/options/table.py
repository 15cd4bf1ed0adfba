"""The table of options: of reading state, and of opening a snapshot.

An option of reading is an entry of ``READ_OPTIONS``, a key of the groups in :mod:`~state_processor.options.groups` for the kinds
of state that it is about, and a field of :class:`~state_processor.backends.read.read_options.ReadOptions`. An option of opening a
snapshot is an entry of ``SNAPSHOT_OPTIONS``, a key of groups likewise, and a field of
:class:`~state_processor.options.access.SnapshotAccess`. Signatures, docstrings, data sources and the command line follow the
table; ``docs/options.md`` shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from state_processor.options.allowed_modules import ALLOWED_CONF
from state_processor.options.effects import DIFFERENCES, KEYED, NAMED, OPENED, OPERATOR, PYTHON, ROWS, STORES, VALUES, Kind
from state_processor.options.option import Option
from state_processor.options.values import (
    BOOLEAN,
    DURATION,
    FIELDS,
    INSTANT,
    KEYS,
    MODULES,
    NAMES,
    PATH,
    PATH_MAPPING,
    PATHS,
    PLAN,
    PYTHON_TYPE,
    PYTHON_TYPES,
    SETTINGS,
    SIZE,
    TIME_ZONE,
    TYPES,
    UIDS,
    UNPICKLED,
    one_of,
)
from state_processor.serializers.decode_options import BATCH_MEMORY

READ_OPTIONS: Final = (
    Option(
        "flatten",
        BOOLEAN,
        "Lists and maps have a row per element; if false, one row per key with an array or map.",
        True,
        flag="--no-flatten",
        on=NAMED,
        holds_on=VALUES - NAMED,
    ),
    Option(
        "metadata",
        BOOLEAN,
        "Adds the columns `_key_group`, `_subtask` and `_last_access` (null without TTL).",
        False,
        flag="--metadata",
        on=VALUES - DIFFERENCES,
    ),
    Option(
        "columns",
        NAMES,
        "Reads only these columns, and of structs only the fields that are named: `value.id`, with `element` for lists and "
        "`value` for maps. All others are skipped, not decoded.",
        on=ROWS,
    ),
    Option(
        "keys",
        KEYS,
        "Reads only these keys, and opens only the key groups that hold them. In Python also a DataFrame (of Spark, pandas or a "
        "library that speaks Arrow) with the column `key` or, if keys are structs, the columns of their fields; its rows are "
        "collected.",
        on=NAMED | {Kind.WHOLE, Kind.TIMERS},
    ),
    Option(
        "nanos",
        one_of("error", "check", "truncate", "string"),
        "Nanoseconds that microseconds can't hold are an error, are cut off, or are read as text with all digits. With `error` "
        "types that declare nanoseconds (`TIMESTAMP(9)` of Flink SQL, `timestamp-nanos` of Avro) are refused before a value is "
        "read; with `check` they are read as long as all values are whole microseconds.",
        "error",
        flag="--nanos HOW",
        on=VALUES,
    ),
    Option(
        "row_kind",
        BOOLEAN,
        "Gives `Row` and `RowData` a first field `row_kind`.",
        False,
        flag="--row-kind",
        on=VALUES - {Kind.COUNTS},
    ),
    Option(
        "ttl",
        DURATION,
        "Leaves out values whose last access is this long or longer before `as_of`, as Flink's `NeverReturnExpired` does.",
        field="ttl_ms",
        flag="--ttl DURATION",
        on=KEYED,
        needs=("as_of",),
    ),
    Option(
        "as_of",
        INSTANT,
        "The time at which values are expired or not; needed with `ttl`. A time without a zone is in UTC.",
        field="as_of_ms",
        flag="--as-of TIME",
        on=KEYED,
        needs=("ttl",),
    ),
    Option(
        "expired",
        one_of("hide", "only", "include"),
        "With `ttl`: leaves out expired values, or all others (states without time-to-live have none), or nothing.",
        "hide",
        flag="--expired WHICH",
        on=KEYED,
        needs=("ttl",),
    ),
    Option(
        "types",
        TYPES,
        "Types of collections that Kryo wrote, which snapshots do not record, by path: the column, then names of fields, "
        "`element` of lists, `key` and `value` of maps. Such a part is an array or a map, and JSON text otherwise.",
        (),
        flag="--types PATH=TYPE",
        on=NAMED | OPERATOR | {Kind.WHOLE},
    ),
    Option(
        "python_type",
        PYTHON_TYPE,
        "Type that a PyFlink job declares for the state, which snapshots do not record: values are decoded, and value, "
        "reducing and aggregating state have one row per key. A list state is `ListState(Types.LONG())`, as text "
        "`ListState<LONG>`; a map state and broadcast state `Types.MAP(…)`.",
        flag="--python-type TYPE",
        on=PYTHON,
    ),
    Option(
        "python_types",
        PYTHON_TYPES,
        "The same for several states, by name in the job.",
        (),
        flag="--python-types STATE=TYPE",
        on=PYTHON | {Kind.WHOLE, Kind.DIFF},
    ),
    Option(
        "fields",
        FIELDS,
        "Names of the fields of rows of Flink SQL, by `key`, the name of the state, or state and column where several columns "
        "are rows (`data-state.map_key`). They are used instead of those of `plan`.",
        (),
        flag="--fields STATE=NAMES",
        on=VALUES - DIFFERENCES,
    ),
    Option(
        "undescribed",
        one_of("error", "bytes"),
        "Values of a POJO's subclass that the snapshot does not describe are an error, or are read as `_class` and `_bytes` if "
        "the format records their length (values and map values of canonical savepoints and RocksDB). Decoding is slower.",
        "error",
        flag="--undescribed HOW",
        on=VALUES - {Kind.TIMERS},
    ),
    Option(
        "batch_memory",
        SIZE,
        "Memory that one batch may take while it is decoded. A row that needs more is refused: a damaged or hostile snapshot can "
        "describe values of any size.",
        BATCH_MEMORY,
        flag="--batch-memory SIZE",
        on=VALUES,
    ),
)
"""Options of reading state; each is a field of ``ReadOptions``."""

SNAPSHOT_OPTIONS: Final = (
    Option(
        "path_mapping",
        PATH_MAPPING,
        "Recorded prefix to present prefix, if files of a moved checkpoint are not found without it.",
        {},
        flag="--map OLD=NEW",
    ),
    Option(
        "allow_paths",
        PATHS,
        "Directories and URLs outside of the storage of the snapshot that paths recorded in it may refer to. The storage is the "
        "bucket or, for local snapshots, the directory and the job's checkpoint directory.",
        (),
        flag="--allow PATH...",
    ),
    Option(
        "serializers",
        MODULES,
        "Modules that register your serializers; they are imported in every process that decodes or encodes values. As an option "
        f"of a data source: only those that the owner of the session allows by `{ALLOWED_CONF}` or `register(spark, "
        "allow_serializers=…)`.",
        (),
        flag="--serializers MODULE",
        on=OPENED - {Kind.RAW, Kind.CHANNELS},
        holds_on=frozenset({Kind.RAW, Kind.CHANNELS}),
    ),
    Option(
        "scratch",
        PATH,
        "Directory, on every machine that reads, for copies of files that RocksDB needs there (remote ones, and parts of merged "
        "files). By default `STATE_PROCESSOR_SCRATCH`, or the directory for temporary files.",
        flag="--scratch DIR",
        on=STORES,
        holds_on=OPENED - STORES,
    ),
    Option(
        "plan",
        PLAN,
        "The compiled plan of the query of Flink SQL that wrote the snapshot: the file that `COMPILE PLAN` writes, or its text. "
        "Operators have the names and uids of the plan, and rows the columns of the query.",
        flag="--plan FILE",
        on=OPENED,
    ),
    Option(
        "uids",
        UIDS,
        "Uids that the job may use. Snapshots of Flink 1.x record only the hashes of uids: operators get the uid with their hash,"
        " and so do committers of sinks. Uids that match no operator are reported.",
        flag="--uids FILE",
        on=OPENED,
    ),
    Option(
        "storage_options",
        SETTINGS,
        "Settings of remote storage: the arguments of `pyarrow.fs.S3FileSystem` (`endpoint_override`, `access_key`, "
        "`secret_key`, `region`, …; for one bucket `bucket.NAME.access_key` and the like) or `GcsFileSystem`, or the storage "
        "options of the fsspec package. Without any, `s3`, `s3a` and `s3n` have those of Spark's configuration "
        "(`spark.hadoop.fs.s3a.…`), then of the environment.",
        {},
        flag="--storage KEY=VALUE",
        prefix="storage.",
    ),
    Option(
        "time_zone",
        TIME_ZONE,
        "The time zone of the JVM of the job, such as `America/New_York`; UTC by default. A `SQL_DATE` or `SQL_TIME` is "
        "stored as the point in time at which clocks in this zone show it. Rows of Flink SQL do not depend on the zone.",
        flag="--time-zone ZONE",
        on=VALUES - {Kind.COUNTS} | {Kind.SIZES, Kind.REPORTS},
    ),
)
"""Options wherever the path of a snapshot is given; each is a field of ``SnapshotAccess``."""

INFER_KRYO: Final = Option(
    "infer_kryo",
    BOOLEAN,
    "Infers `types` from the values, which are read once more for it: of parts that are declared as `List`, `Set`, "
    "`Collection` or `Map` and hold objects of one class. Not an option of the data source.",
    False,
    on=NAMED | {Kind.WHOLE},
)

UNPICKLE: Final = Option(
    "unpickle",
    UNPICKLED,
    "Loads the pickles in states of PyFlink, which runs code that is in them: only for snapshots that only people whom you trust "
    "could have written. Values are JSON text or, with a type of `Types`, values of this type. Not an option of the data source.",
    False,
    on=PYTHON | {Kind.WHOLE},
    needs=("python_type", "python_types"),
)

PUSHDOWN: Final = Option(
    "pushdown",
    BOOLEAN,
    "With `key =` and `key IN` only the key groups that hold these keys are read, if keys are text, whole numbers or booleans. "
    "By default as `spark.sql.python.filterPushdown.enabled` says, without which `true` is refused.",
    on=NAMED | {Kind.WHOLE, Kind.TIMERS},
)

EFFECTIVE_OPTIONS: Final = (*READ_OPTIONS, INFER_KRYO, UNPICKLE, PUSHDOWN, *SNAPSHOT_OPTIONS)
"""Options that act on some kinds of reads and not on others."""

STATE_KIND: Final = Option(
    "kind",
    one_of("KEYED", "TIMER", "OPERATOR_LIST", "UNION_LIST", "BROADCAST", "RAW_KEYED", "RAW_OPERATOR"),
    "The expected kind of state. `TIMER` without a state reads all timers; `RAW_KEYED` and `RAW_OPERATOR`, without a state, read "
    "the bytes that the operator wrote itself.",
    flag="--kind KIND",
    on=ROWS,
)

KEYWORD_OPTIONS: Final = {o.argument: o for o in (STATE_KIND, *READ_OPTIONS, UNPICKLE, INFER_KRYO, *SNAPSHOT_OPTIONS)}
"""The options that methods and functions have as keyword arguments."""


def fields_of(options: Iterable[Option], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of some options by the names of the fields that have them."""
    return {o.field or o.argument: values[o.argument] for o in options if o.argument in values}
