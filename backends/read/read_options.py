"""Options of reading state, and declarations of options.

A class whose fields are made by :func:`option` declares options: a field has documentation, a flag and the kinds of reads that
the option acts on. Keyword arguments, options of data sources, flags of the command line, the table of the kinds of reads and the
documentation follow from the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from state_processor.backends.state.column_types import ColumnTypes, Undescribed
from state_processor.backends.state.descriptions import LIST, MAP, KeyedDescription
from state_processor.serializers.decode_options import DecodeOptions, Nanos
from state_processor.support.doors import spelled
from state_processor.support.errors import OptionError
from state_processor.support.mappings import attributes

if TYPE_CHECKING:
    import pyarrow as pa

    from state_processor.backends.formats.field_selection import Selection
    from state_processor.backends.state.column_types import DeclaredNames

Holder = TypeVar("Holder")


class Kind(Enum):
    """What is read; the value is its name in messages and documentation."""

    KEYED = "keyed state"
    WINDOW = "window state"
    WHOLE = "all keyed states side by side"
    LOOKUP = "look-ups"
    TIMERS = "timers"
    LIST = "list state"
    UNION = "union list state"
    BROADCAST = "broadcast state"
    RAW = "raw state"
    DIFF = "differences"
    COUNTS = "counts of differences"
    SIZES = "sizes"
    CHANNELS = "in-flight data"
    SPLITS = "source splits"
    SINK = "sink state"
    TABLES = "tables of metadata"
    SNAPSHOTS = "lists of snapshots"
    CHECKS = "checks"
    REPORTS = "reports"
    COPIES = "copies"


ALL: Final = frozenset(Kind)
NAMED: Final = frozenset({Kind.KEYED, Kind.WINDOW})
"""Keyed state that is read by its name."""
KEYED: Final = NAMED | {Kind.WHOLE, Kind.LOOKUP}
"""Keyed state, by name or not."""
OPERATOR: Final = frozenset({Kind.LIST, Kind.UNION, Kind.BROADCAST})
"""Operator state."""
ROWS: Final = NAMED | {Kind.WHOLE, Kind.TIMERS, Kind.RAW} | OPERATOR
"""Reads of rows of any state."""
DIFFERENCES: Final = frozenset({Kind.DIFF, Kind.COUNTS})
VALUES: Final = ROWS - {Kind.RAW} | {Kind.LOOKUP} | DIFFERENCES
"""Reads that decode values."""
OPENED: Final = ALL - {Kind.SNAPSHOTS}
"""Reads that open a snapshot. A list of snapshots only looks at files."""
PYTHON: Final = NAMED | {Kind.LOOKUP, Kind.BROADCAST}
"""State that may have a type of PyFlink."""


@dataclass(frozen=True)
class Declaration:
    """What a field declares about its option."""

    # the values that users pass: a name in the table ``VALUES`` of :mod:`state_processor.options.option`, or the ``Literal`` of
    # the choices
    values: Any
    doc: str  # the sentence for documentation and help
    default: Any = None  # the normal form of the value if the option is not given
    least: int | None = None  # the smallest number that is accepted; ``None`` for any number of the kind
    # what follows its flag on the command line, such as ``ZONE``; ``None`` without a flag. A flag with ``=`` in its operand
    # may be repeated, and the value is a mapping. With ``...`` the value is a list. With an empty operand the flag inverts the
    # default.
    operand: str | None = None
    prefix: str = ""  # for a mapping whose entries are options of the data source: the prefix of their names
    on: frozenset[Kind] = ALL  # the kinds of reads that the option acts on. Reads of other kinds refuse it.
    holds_on: frozenset[Kind] = frozenset()  # the kinds whose rows are as the option asks, whatever its value is
    needs: tuple[str, ...] = ()  # other options. The option needs one of them.
    code_only: bool = False  # true if data sources don't have the option


def option(values: Any, doc: str, default: Any = None, *, in_repr: bool = True, **declaration: Any) -> Any:
    """Return a field of a dataclass that declares an option.

    ``values``, ``doc``, ``default`` and ``**declaration``: see :class:`Declaration`. ``in_repr``: false to leave the value out of
    the object's ``repr``.
    """
    metadata = {_DECLARATION: Declaration(values, doc, default, **declaration)}
    if isinstance(default, dict):
        return field(default_factory=default.copy, repr=in_repr, metadata=metadata)
    return field(default=default, repr=in_repr, metadata=metadata)


def part(holder: Callable[[], Any], **options: Any) -> Any:
    """Return a field of a dataclass that holds a value of another class with options.

    ``**options``: the fields of that class that are options, as :func:`option` makes them; the class sets their defaults.
    """
    defaults = holder()
    declared = {name: replace(o.metadata[_DECLARATION], default=getattr(defaults, name)) for name, o in options.items()}
    return field(default_factory=holder, metadata={_PART: declared})


def declarations(holder: type) -> Mapping[str, Declaration]:
    """Return the options that a dataclass and its parts declare, by the names of their fields."""
    declared: dict[str, Declaration] = {}
    for f in fields(holder):
        declared |= {f.name: f.metadata[_DECLARATION]} if _DECLARATION in f.metadata else f.metadata.get(_PART, {})
    return declared


def option_values(holder: Any) -> dict[str, Any]:
    """Return the values of the options that an object and its parts have."""
    values: dict[str, Any] = {}
    for f in fields(holder):
        value, names = getattr(holder, f.name), f.metadata.get(_PART, ())
        values |= {f.name: value} if _DECLARATION in f.metadata else attributes(value, names)
    return values


def of_options(holder: type[Holder], values: Mapping[str, Any]) -> Holder:
    """Return an object with the values of its options, and of the options of its parts."""
    arguments = dict(values)
    for f in fields(holder):  # type: ignore[arg-type]
        of_part = {}
        for name in f.metadata.get(_PART, ()):
            if name in arguments:
                of_part[name] = arguments.pop(name)
        if of_part:  # after the loop, as a part may have the name of one of its options
            arguments[f.name] = f.default_factory(**of_part)  # type: ignore[operator]
    return holder(**arguments)


_DECLARATION: Final = "declaration"
_PART: Final = "options of the part"


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
