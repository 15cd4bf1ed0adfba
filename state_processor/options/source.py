"""Options of reading with a data source, and with methods and functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from state_processor.backends.read.read_options import ReadOptions
from state_processor.options.access import SnapshotAccess
from state_processor.options.data_sources import SAVEPOINT_FORMAT
from state_processor.options.table import READ_OPTIONS, SNAPSHOT_OPTIONS, UNPICKLE, fields_of
from state_processor.options.text import parse_options, required_path
from state_processor.serializers.doors import Door, entered, spelled
from state_processor.serializers.errors import OptionError
from state_processor.serializers.redaction import redacted_repr
from state_processor.types.identifier import OperatorIdentifier


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Checked options of a read.

    Parameters
    ----------
    path
        The snapshot.
    operator, state, kind
        The state; ``None`` where the options do not name it.
    table
        A table about the snapshot.
    read, access
        How state is read, and how the snapshot is opened.
    split_bytes
        Size of what one task reads; ``None`` for the default.
    pushdown
        ``None`` to follow Spark's configuration.
    given
        The options that are given, as keyword arguments.
    """

    path: str
    operator: OperatorIdentifier | None = None
    state: str | None = None
    kind: str | None = None
    table: str = "operators"
    read: ReadOptions = field(default_factory=ReadOptions)
    access: SnapshotAccess = field(default_factory=SnapshotAccess)
    split_bytes: int | None = None
    pushdown: bool | None = None
    given: frozenset[str] = frozenset()

    __repr__ = redacted_repr

    @property
    def label(self) -> str:
        """What is read, as Spark's plans and user interface show it: operator and state, and how many keys are looked up."""
        what = f"{self.operator}.{self.state}" if self.state else f"{self.operator}, {self.kind or 'all keyed states'}"
        return what if self.read.keys is None else f"{what}, keys: {len(self.read.keys)}"

    @classmethod
    def parse(cls, options: Mapping[str, str], source: str = SAVEPOINT_FORMAT, allowed: Iterable[str] = ()) -> SourceOptions:
        """Check the options that Spark hands over to the format ``source``; they may name the ``allowed`` modules.

        Raises
        ------
        OptionError
            If one is misspelt or has a value of another kind, or there is no path.
        """
        with entered(Door.DATA_SOURCE):
            values = parse_options(f"reading {source}", options, allowed)
            return cls.of(required_path(options, "load"), values)

    @classmethod
    def of(cls, path: str, values: Mapping[str, Any]) -> SourceOptions:
        """Return the options for normal forms of values by keyword argument.

        Raises
        ------
        OptionError
            If two contradict each other.
        """
        return cls(
            path,
            named_operator(values),
            values.get("state"),
            values.get("kind"),
            values.get("table", "operators"),
            ReadOptions(**fields_of((*READ_OPTIONS, UNPICKLE), values)),
            SnapshotAccess(**fields_of(SNAPSHOT_OPTIONS, values)),
            values.get("split_size"),
            values.get("pushdown"),
            frozenset(values),
        )


def named_operator(values: Mapping[str, Any]) -> OperatorIdentifier | None:
    """Return the operator that is named by uid or uid hash, if any.

    Raises
    ------
    OptionError
        If it is named by both.
    """
    uid, uid_hash = values.get("uid"), values.get("uid_hash")
    if uid is not None and uid_hash is not None:
        raise OptionError(f"both {spelled('uid')} and {spelled('uid_hash')} are given: name the operator by one of them")
    if uid is not None:
        return OperatorIdentifier.of(uid)
    return None if uid_hash is None else OperatorIdentifier.for_uid_hash(uid_hash)
