"""Options of reading with a data source, and with methods and functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from state_processor.backends.read.option import NAMED, ROWS, Kind, option
from state_processor.backends.read.read_options import ReadOptions
from state_processor.display.text_tables import printable
from state_processor.options.access import SNAPSHOT_OPTIONS, SnapshotAccess
from state_processor.options.option import UID, UID_HASH, options_of, values_of
from state_processor.options.text import parse_options, required_path
from state_processor.support.doors import Door, entered, spelled
from state_processor.support.errors import OptionError
from state_processor.support.redaction import redacted_repr
from state_processor.types.identifier import OperatorIdentifier

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
    given: frozenset[str] = frozenset()  # the options that are given, as keyword arguments
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
