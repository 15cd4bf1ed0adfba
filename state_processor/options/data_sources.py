"""Options of data sources: of reading and writing a snapshot, and of the stream of changes between the checkpoints of a job.

Spark hands them over as text under names in any case. Unknown names are refused, unless Spark adds them. Methods and functions
that read state take the options of reads, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, Literal

from state_processor.backends.read.read_options import NAMED, ROWS, Kind, ReadOptions, option
from state_processor.backends.state.python_states import PythonType
from state_processor.display.text_tables import printable
from state_processor.options.access import SNAPSHOT_OPTIONS, SnapshotAccess
from state_processor.options.option import UID, UID_HASH, Option, check_given, options_of, values_of
from state_processor.options.user_serializers import check_allowed
from state_processor.support.doors import Door, entered, spelled
from state_processor.support.errors import OptionError
from state_processor.support.mappings import names_of
from state_processor.support.redaction import redacted_repr
from state_processor.types.identifier import OperatorIdentifier

_OF_SPARK: Final = frozenset(
    {"path", "paths", "owner", "provider", "location", "comment", "collation", "external", "is_managed_location"}
)
"""Spark 4 adds these to the user's options: the path, and properties of a table that is made in SQL."""
_INTERNAL: Final = "__"
"""Prefix of Spark's own options, such as ``__partition_columns``."""
_TABLE_OPTION: Final = "option."
"""``CREATE TABLE`` repeats each option with this prefix. Names without a repetition are properties of the table."""


def parse_options(place: str, options: Sequence[Option], texts: Mapping[str, str], allowed: Iterable[str] = ()) -> dict[str, Any]:
    """Return the normal forms of options, by keyword argument.

    ``place``: what takes the options, for messages: ``reading flink-savepoint``. ``options``: the options of the data source.
    ``texts``: options as Spark hands them over. ``allowed``: modules that the owner of the session allows options to import.
    """
    by_lower = {name.lower(): text for name, text in texts.items()}
    prefixed_options = [o for o in options if o.prefix]
    for prefixed in prefixed_options:
        by_lower |= _gathered(prefixed, by_lower)
    prefixes = tuple(o.prefix for o in prefixed_options)
    unprefixed = {name: text for name, text in texts.items() if not name.lower().startswith(prefixes)}
    check_option_names(unprefixed, names_of(options), place)
    values: dict[str, Any] = {}
    for declared in options:
        if declared.name.lower() in by_lower:
            values[declared.argument] = declared.kind.of_text(declared.name, by_lower[declared.name.lower()])
    check_allowed(values.get("serializers", ()), allowed)
    return values


def format_options(accepted: Iterable[Option], values: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of options from their normal forms, by keyword argument; the inverse of :func:`parse_options`."""
    texts: dict[str, str] = {}
    for declared in accepted:
        if declared.argument not in values:
            continue
        text = declared.kind.encode(values[declared.argument])
        if declared.prefix:
            texts |= {f"{declared.prefix}{name}": entry for name, entry in json.loads(text).items()}
        else:
            texts[declared.name] = text
    return texts


def _gathered(prefixed: Option, by_lower: Mapping[str, str]) -> dict[str, str]:
    """Return the text of an option whose entries are options; nothing if no entry is given."""
    entries = {n.removeprefix(prefixed.prefix): text for n, text in by_lower.items() if n.startswith(prefixed.prefix)}
    return {prefixed.name.lower(): json.dumps(entries)} if entries else {}


def required_path(texts: Mapping[str, str], method: str, note: str = "") -> str:
    """Return the option ``path``. Spark sets it from an argument of the user's call. A note extends the message."""
    for name, path in texts.items():
        if name.lower() == "path":
            return path
    raise OptionError(f"no path: pass the snapshot's directory to {method}(path){note}")


def check_option_names(texts: Mapping[str, str], names: Collection[str], place: str) -> None:
    """Check that all options are known.

    ``texts``: options as Spark hands them over, in any case. ``place``: what takes the options, for messages: ``reading
    flink-savepoint``.
    """
    by_lower = set(map(str.lower, names))
    lower = list(map(str.lower, texts))
    for name in lower:
        if name in by_lower or name in _OF_SPARK or name.startswith((_INTERNAL, _TABLE_OPTION)):
            continue
        if is_of_table(texts) and _TABLE_OPTION + name not in lower:
            continue
        raise OptionError(f"{place}: there is no option {name!r}; {hint(name, names)}")


def is_of_table(texts: Mapping[str, str]) -> bool:
    """Return whether options belong to a table that is made in SQL."""
    return any(name.lower() == "provider" for name in texts)


def hint(name: str, names: Collection[str]) -> str:
    """Return the part of a message that names the nearest known name, or all of them."""
    plain = {re.sub(r"[^a-z]", "", known_name.lower()): known_name for known_name in names}
    near = get_close_matches(re.sub(r"[^a-z]", "", name.lower()), plain, n=1, cutoff=0.75)
    return f"did you mean {plain[near[0]]!r}?" if near else f"there are {', '.join(sorted(names))}"


SAVEPOINT_FORMAT: Final = "flink-savepoint"
METADATA_FORMAT: Final = "flink-savepoint-metadata"

StateKind = Literal["KEYED", "TIMER", "OPERATOR_LIST", "UNION_LIST", "BROADCAST", "RAW_KEYED", "RAW_OPERATOR"]
Table = Literal["operators", "states", "handles"]

Pushdown = Literal["serves-one-query"]


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Checked options of a read.

    ``read`` and ``access``: how state is read, and how the snapshot is opened.
    """

    path: str  # the snapshot
    operator: OperatorIdentifier | None = None  # the operator; ``None`` if the options do not name it
    read: ReadOptions = field(default_factory=ReadOptions)
    access: SnapshotAccess = field(default_factory=SnapshotAccess)
    named_arguments: frozenset[str] = frozenset()  # the options that are given, as keyword arguments
    state: str | None = option(
        "text", "Name of the state. Without it all keyed states are read: one row per key, one column per state."
    )
    kind: str | None = option(
        StateKind,
        "The expected kind of state. `TIMER` without a state reads all timers; `RAW_KEYED` and `RAW_OPERATOR`, without a state, "
        "read the bytes that the operator wrote itself.",
        operand="KIND",
        on=ROWS,
    )
    table: str = option(Table, "One row per operator, state, or stored piece.", "operators")
    split_size: int | None = option("size", "Approximate bytes of the snapshot that one task reads; 96m by default.")
    pushdown: Pushdown | None = option(
        Pushdown,
        "`serves-one-query` promises that the DataFrame, view or table is used once, in one place of one query. Its filters "
        "`key =` and `key IN` then read only the key groups that hold these keys, if keys are text, whole numbers or booleans. "
        "Spark keeps the narrowed read with the DataFrame: later queries would lack rows without a message. Use `keys` where "
        "this promise does not hold. The option needs `spark.sql.python.filterPushdown.enabled`.",
        on=NAMED | {Kind.WHOLE, Kind.TIMERS},
    )

    __repr__ = redacted_repr

    @property
    def label(self) -> str:
        """What is read, as Spark's plans and user interface show it: operator and state, and how many keys are looked up."""
        subject = f"{self.operator}.{self.state}" if self.state else f"{self.operator}, {self.kind or 'all keyed states'}"
        return printable(subject if self.read.keys is None else f"{subject}, keys: {len(self.read.keys)}")

    @classmethod
    def parse(cls, options: Mapping[str, str], source: str = SAVEPOINT_FORMAT, allowed: Iterable[str] = ()) -> SourceOptions:
        """Check the options that Spark hands over to the format ``source``; they may name the ``allowed`` modules."""
        with entered(Door.DATA_SOURCE):
            accepted = READING_OPTIONS if source == SAVEPOINT_FORMAT else METADATA_OPTIONS
            values = parse_options(f"reading {source}", accepted, options, allowed)
            return cls.of(required_path(options, "load"), values)

    @classmethod
    def of(cls, path: str, values: Mapping[str, Any]) -> SourceOptions:
        """Return the options for normal forms of values by keyword argument."""
        return cls(
            path,
            named_operator(values),
            ReadOptions.of(**values_of(READ_OPTIONS, values)),
            SnapshotAccess(**values_of(SNAPSHOT_OPTIONS, values)),
            frozenset(values),
            **values_of(SOURCE_OPTIONS.values(), values),
        )


READ_OPTIONS: Final = tuple(sorted(options_of(ReadOptions), key=lambda o: o.argument == "batch_memory"))
"""Options of reading state. The limit comes last."""
SOURCE_OPTIONS: Final = {o.argument: o for o in options_of(SourceOptions)}
_OF_STATE: Final = (UID, UID_HASH, SOURCE_OPTIONS["state"], SOURCE_OPTIONS["kind"])
_OF_TASKS: Final = (SOURCE_OPTIONS["split_size"], SOURCE_OPTIONS["pushdown"])

READING_OPTIONS: Final = (*_OF_STATE, *(o for o in (*READ_OPTIONS, *SNAPSHOT_OPTIONS) if not o.code_only), *_OF_TASKS)
"""Options of reading with the format ``flink-savepoint``."""
METADATA_OPTIONS: Final = (SOURCE_OPTIONS["table"], *(o for o in SNAPSHOT_OPTIONS if Kind.TABLES in o.applies_to))
"""Options of reading with the format ``flink-savepoint-metadata``."""


def named_operator(values: Mapping[str, Any]) -> OperatorIdentifier | None:
    """Return the operator that is named by uid or uid hash, if any."""
    uid, uid_hash = values.get("uid"), values.get("uid_hash")
    if uid is not None and uid_hash is not None:
        raise OptionError(f"both {spelled('uid')} and {spelled('uid_hash')} are given: name the operator by one of them")
    if uid is not None:
        return OperatorIdentifier.of(uid)
    return None if uid_hash is None else OperatorIdentifier.for_uid_hash(uid_hash)


NewKind = Literal["VALUE", "LIST", "MAP", "REDUCING", "AGGREGATING"]

_READ_ONLY_TABLES: Final = (
    ". Tables of this format are read-only: Spark hands over no path for INSERT and CREATE TABLE … AS SELECT. Write "
    'rows with df.write.format("flink-savepoint").mode("append").save(path)'
)
_OF_BASE: Final = ("replace", "path_mapping", "allow_paths", "plan", "uids")
"""Options about the source savepoint."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Checked options of a write.

    An option that is not given is ``None``. ``access`` is for the source savepoint.
    """

    path: str
    operator: OperatorIdentifier
    access: SnapshotAccess = field(default_factory=SnapshotAccess)
    base: str | None = option(
        "path", "The source savepoint. A state that it has is updated for the keys of the rows; a null removes a key."
    )
    state: str | None = option(
        "text",
        "Name of the state, whose values are in the column `value` or the column of that name. Without it every column but the "
        "key is a state.",
    )
    replace: bool = option("boolean", "Replaces a state of the source savepoint as a whole.", False)
    key: str = option("text", "The column of the key.", "key")
    key_type: str | None = option("text", "Flink's type of the key, such as `LONG`; inferred from the column by default.")
    value_type: str | None = option(
        "text",
        "Flink's type of the values, such as `MAP<STRING,LONG>`, or `POJO<com.acme.Account>` with the fields of the column.",
    )
    python_type: PythonType | None = option(
        "python_type",
        "The type that a PyFlink job declares for the state, such as `LONG`, `ListState<LONG>` or `MapState<STRING,LONG>`.",
    )
    kind: str | None = option(NewKind, "The kind of a new state; `VALUE` by default.")
    ttl: bool | None = option("boolean", "True for a new state with time-to-live; false by default.")
    parallelism: int | None = option("count", "Parallelism of the operator.", least=1)
    max_parallelism: int | None = option(
        "count", "Number of key groups: by default that of the source savepoint, or 128.", least=1
    )
    flink_version: str | None = option("text", "The oldest Flink version to restore the savepoint.")

    __repr__ = redacted_repr

    @classmethod
    def parse(cls, options: Mapping[str, str], allowed: Iterable[str] = ()) -> SinkOptions:
        """Check the options that Spark hands over; they may name the ``allowed`` modules."""
        with entered(Door.DATA_SOURCE):
            values = parse_options(f"writing {SAVEPOINT_FORMAT}", WRITING_OPTIONS, options, allowed)
            path, operator = required_path(options, "save", _READ_ONLY_TABLES), named_operator(values)
            if "base" not in values:
                check_given(values, _OF_BASE, f"with {spelled('base')}: add that")
        if operator is None:
            raise OptionError("no operator: name it by the option uid, or by uidHash if its uid is unknown")
        access = SnapshotAccess(**values_of(SNAPSHOT_OPTIONS, values))
        return cls(path, operator, access, **values_of(_OF_SINK, values))


_OF_SINK: Final = options_of(SinkOptions)
WRITING_OPTIONS: Final = (UID, UID_HASH, *_OF_SINK, *(o for o in SNAPSHOT_OPTIONS if not o.code_only))
"""Options of writing with the format ``flink-savepoint``."""


CHANGES_FORMAT: Final = "flink-savepoint-changes"

LATEST: Final = "latest"
EARLIEST: Final = "earliest"
SNAPSHOT: Final = "snapshot"


@dataclass(frozen=True, slots=True)
class ChangesOptions:
    """Checked options of a stream of changes.

    ``read`` and ``access``: how values are represented, and how snapshots are opened.
    """

    path: str  # the checkpoint directory
    operator: OperatorIdentifier
    state: str
    read: ReadOptions = field(default_factory=ReadOptions)
    access: SnapshotAccess = field(default_factory=SnapshotAccess)
    split_size: int | None = None  # bytes that one task reads; ``None`` for the default
    starting_checkpoint: str = option(
        "text",
        "Where a new query begins: `latest` and `earliest` give the changes after the newest or oldest whole checkpoint, the id "
        "of a checkpoint the changes after this checkpoint. `snapshot` first gives all values of the newest checkpoint.",
        LATEST,
    )
    max_checkpoints_per_trigger: int | None = option(
        "count", "The most checkpoints in a micro-batch; 1 by default. Needs Spark 4.2.", least=1
    )
    before: bool = option("boolean", "Adds the column `before` with the value in the earlier checkpoint.", False)
    fail_on_data_loss: bool = option(
        "boolean",
        "Fails if a checkpoint was removed before its changes were read. By default, the micro-batch then has all values of the "
        "newest whole checkpoint, and `_full` is true.",
        False,
    )
    allow_missing: bool = option(
        "boolean",
        "Deletes all rows if a later checkpoint does not have the operator any more, or has the state under another name. By "
        "default, this is an error with the likely new name.",
        False,
    )

    __repr__ = redacted_repr

    @classmethod
    def parse(cls, options: Mapping[str, str], allowed: Iterable[str] = ()) -> ChangesOptions:
        """Check the options that Spark hands over; they may name the ``allowed`` modules."""
        with entered(Door.DATA_SOURCE):
            values = parse_options(f"reading {CHANGES_FORMAT}", CHANGES_OPTIONS, options, allowed)
            path, operator = required_path(options, "load"), named_operator(values)
        if operator is None or "state" not in values:
            raise OptionError(f"reading {CHANGES_FORMAT}: name the operator by the option uid or uidHash, and the state by state")
        start = values.get("starting_checkpoint", LATEST)
        if start not in (LATEST, EARLIEST, SNAPSHOT) and not (start.isascii() and start.isdigit()):
            raise OptionError(
                f"option startingCheckpoint={start}: expected {LATEST}, {EARLIEST}, {SNAPSHOT} or the id of a checkpoint"
            )
        return cls(
            path,
            operator,
            values["state"],
            ReadOptions.of(**values_of(READ_OPTIONS, values)),
            SnapshotAccess(**values_of(SNAPSHOT_OPTIONS, values)),
            values.get("split_size"),
            **values_of(_OF_STREAM, values),
        )


_OF_STREAM: Final = options_of(ChangesOptions)
_OF_VALUES: Final = tuple(o for o in READ_OPTIONS if Kind.DIFF in o.on and not o.code_only)
STREAM_OPTIONS: Final = (UID, UID_HASH, SOURCE_OPTIONS["state"], *_OF_STREAM, SOURCE_OPTIONS["split_size"])
"""Options of the format ``flink-savepoint-changes`` that other formats do not have."""
CHANGES_OPTIONS: Final = (
    *STREAM_OPTIONS,
    *_OF_VALUES,
    *(o for o in SNAPSHOT_OPTIONS if Kind.DIFF in o.applies_to and not o.code_only),
)
"""Options of the format ``flink-savepoint-changes``."""
