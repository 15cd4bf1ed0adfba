"""Options of reading state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal

from state_processor.backends.read.option import (
    DIFFERENCES,
    KEYED,
    NAMED,
    OPERATOR,
    PYTHON,
    ROWS,
    VALUES,
    Kind,
    of_options,
    option,
    part,
)
from state_processor.backends.state.column_types import ColumnTypes, Undescribed
from state_processor.backends.state.descriptions import LIST, MAP, KeyedDescription
from state_processor.serializers.decode_options import DecodeOptions, Nanos
from state_processor.support.doors import spelled
from state_processor.support.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

    from state_processor.backends.formats.field_selection import Selection
    from state_processor.backends.state.column_types import DeclaredNames

Expired = Literal["hide", "only", "include"]
"""The values to read, if a time-to-live is given."""

_ENTRY_PER_MAP_KEY: Final = ("canonical", "rocksdb", "forst")
"""Backends whose entries of maps have one key of the map each."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """A read: its rows, columns and values. The reader of each layout interprets it.

    ``values``: how values are represented. ``types``: the types and names that states are read in. Durations are in milliseconds,
    and points in time in milliseconds of the epoch.
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
    values: DecodeOptions = part(
        DecodeOptions,
        nanos=option(
            Nanos,
            "Nanoseconds that microseconds can't hold are an error, are cut off, or are read as text with all digits. With "
            "`check` the first value with such nanoseconds is an error; with `error` types that declare nanoseconds "
            "(`TIMESTAMP(9)` of Flink SQL, `timestamp-nanos` of Avro) are refused before a value is read, too.",
            operand="HOW",
            on=VALUES,
        ),
        row_kind=option(
            "boolean",
            "Gives `Row` and `RowData` a first field `row_kind`.",
            operand="",
            on=VALUES - {Kind.COUNTS},
        ),
        batch_memory=option(
            "size",
            "Memory that one batch may take while it is decoded. A row that needs more is refused: a damaged or hostile snapshot "
            "can describe values of any size.",
            operand="SIZE",
            on=VALUES,
        ),
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
    types: ColumnTypes = part(
        ColumnTypes,
        types=option(
            "types",
            "Types of collections that Kryo wrote, which snapshots do not record, by path: the column, then names of fields, "
            "`element` of lists, `key` and `value` of maps. Such a part is an array or a map, and JSON text otherwise.",
            operand="PATH=TYPE",
            on=NAMED | OPERATOR | {Kind.WHOLE},
        ),
        python_type=option(
            "python_type",
            "Type that a PyFlink job declares for the state, which snapshots do not record: values are decoded, and value, "
            "reducing and aggregating state have one row per key. A list state is `ListState(Types.LONG())`, as text "
            "`ListState<LONG>`; a map state and broadcast state `Types.MAP(…)`.",
            operand="TYPE",
            on=PYTHON,
        ),
        python_types=option(
            "python_types",
            "The same for several states, by name in the job.",
            operand="STATE=TYPE",
            on=PYTHON | {Kind.WHOLE, Kind.DIFF},
        ),
        unpickle=option(
            "unpickled",
            "Loads the pickles in states of PyFlink, which runs code that is in them: only for snapshots that only people whom "
            "you trust could have written. Values are JSON text or, with a type of `Types`, values of this type. Not an option "
            "of the data source.",
            on=PYTHON | {Kind.WHOLE},
            needs=("python_type", "python_types"),
            code_only=True,
        ),
        fields=option(
            "fields",
            "Names of the fields of rows of Flink SQL, by `key`, the name of the state, or state and column where several "
            "columns are rows (`data-state.map_key`). They take precedence over names from `plan`.",
            operand="STATE=NAMES",
            on=VALUES - DIFFERENCES,
        ),
        undescribed=option(
            Undescribed,
            "Values of a POJO's subclass that the snapshot does not describe are an error, or are read as `_class` and `_bytes` "
            "if the format records their length (values and map values of canonical savepoints and RocksDB). Decoding is slower.",
            operand="HOW",
            on=VALUES - {Kind.TIMERS},
        ),
    )

    # the columns to read, and the fields in them; ``None`` for all. ``columns`` are columns of the whole read.
    selection: Selection | None = None

    @property
    def newest_expired(self) -> int | None:
        """The newest last access of expired values, in epoch microseconds; ``None`` to read expired values too."""
        if self.ttl is None or self.as_of is None or self.expired == "include":
            return None
        return (self.as_of - self.ttl) * 1000

    @classmethod
    def of(cls, **options: Any) -> ReadOptions:
        """Return the options with values by keyword argument."""
        return of_options(cls, options)

    def with_values(self, **options: Any) -> ReadOptions:
        """Return the options with another representation of values; see ``DecodeOptions``."""
        return replace(self, values=replace(self.values, **options))

    def of_states(self, names: Iterable[tuple[str, DeclaredNames]] = (), time_zone: str = "UTC") -> ReadOptions:
        """Return the options with names and time zone of states. Times of last access are decoded only if rows need them.

        ``names``: names for the fields of rows, by state. ``time_zone``: the zone of the job's JVM, for values of ``java.sql``.
        """
        with_times = self.metadata or self.ttl is not None
        types = self.types._replace(names=tuple(names), time_zone=time_zone)
        return replace(self, values=replace(self.values, ttl=with_times), types=types)

    @property
    def described(self) -> DecodeOptions:
        """The representation of values, for types of columns with descriptions."""
        return replace(self.values, describe="for_reading")

    def for_tasks(self) -> ReadOptions:
        """Return the options without the keys. Each split has the keys in it."""
        return replace(self, keys=None)

    def has_row_per_entry(self, state: KeyedDescription, backend: str) -> bool:
        """Return whether each entry of a state in files of a backend is a row, whatever its bytes are."""
        if self.expired == "only" or (state.has_ttl and (self.newest_expired is not None or state.kind == MAP)):
            return False
        if state.kind == LIST:
            return not self.flatten
        # an entry of the heap is a whole map, and a changelog may begin with files of the heap
        return state.kind != MAP or (self.flatten and backend in _ENTRY_PER_MAP_KEY)

    def finished(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows of one split as the read gives them. An option that acts on the rows of any state acts here.

        ``batches``: the rows of the split, in the columns of the reader; some batches may be empty.
        """
        return filter(attrgetter("num_rows"), batches)  # unlike a loop, it does not keep a batch while the next one is decoded

    def __post_init__(self) -> None:
        if self.ttl is not None and self.ttl <= 0:
            raise OptionError(f"{spelled('ttl')} of {self.ttl} ms: expected a positive duration")
        if self.ttl is not None and self.as_of is None:
            raise OptionError(f"{spelled('ttl')} needs {spelled('as_of', 'now')}, or another point in time")
        if self.expired == "only" and self.ttl is None:
            raise OptionError(f"{spelled('expired', 'only')} needs {spelled('ttl')} and {spelled('as_of')}")
        if self.types.unpickle is not False and self.types.python_type is None and not self.types.python_types:
            raise OptionError(
                f"unpickle: name the states with pickles by {spelled('python_type', 'PICKLED_BYTE_ARRAY')}, or by "
                f"{spelled('python_types')}"
            )
