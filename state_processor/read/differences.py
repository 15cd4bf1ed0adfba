"""Differences between two snapshots, state by state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final, TypeAlias

import pyarrow as pa

from state_processor.backends.analysis.changes import AFTER, BEFORE, CHANGE, DELETE, INSERT, UPDATE
from state_processor.backends.analysis.state_difference import OperatorPair
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import StateReader
from state_processor.backends.sql.naming import state_names
from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.state.part_names import with_names
from state_processor.backends.state.python_states import check_known, shown_name, stored_name
from state_processor.display import json_text
from state_processor.identifier import OperatorIdentifier
from state_processor.options.access import SnapshotAccess
from state_processor.options.groups import DiffOptions
from state_processor.options.keywords import check_arguments
from state_processor.options.table import READ_OPTIONS, fields_of
from state_processor.serializers.errors import NotFoundError, OptionError

Path: TypeAlias = str | PathLike[str]

_OPERATOR: Final = [pa.field("operator_uid", pa.string()), pa.field("operator_uid_hash", pa.string())]
_STATE: Final = [*_OPERATOR, pa.field("state_name", pa.string())]
_IDENTITY: Final = ("key", "window", "namespace", "map_key", "timestamp", "fires_at")
TEXT_SCHEMA: Final = pa.schema([*_STATE, *(pa.field(n, pa.string()) for n in (CHANGE, *_IDENTITY, BEFORE, AFTER))])
"""Differences of several states: values of all types as JSON."""

SUMMARY_SCHEMA: Final = pa.schema(
    [
        *_STATE,
        *(pa.field(n, pa.string()) for n in ("state_kind", "type_before", "type_after")),
        *(pa.field(f"{n}s", pa.int64()) for n in (INSERT, DELETE, UPDATE)),
    ]
)
_INSERTS, _DELETES, _UPDATES = (f"{n}s" for n in (INSERT, DELETE, UPDATE))


@dataclass(frozen=True, slots=True)
class DifferencePart:
    """A part of a difference, which one task compares: the number of the state, and its split."""

    state: int
    split: Any

    @property
    def size(self) -> int:
        """Bytes of the snapshots to read."""
        return int(self.split.size)


@dataclass(frozen=True, slots=True)
class DifferencesReader:
    """Compares parts of several states, as JSON, or of one."""

    differences: Sequence[StateDifference]
    as_text: bool

    @property
    def schema(self) -> pa.Schema:
        """The columns that :meth:`read` gives."""
        return TEXT_SCHEMA if self.as_text else self.differences[0].reader.schema

    def parts(self) -> list[DifferencePart]:
        """Plan the parts of all states."""
        return [DifferencePart(i, split) for i, found in enumerate(self.differences) for split in found.reader.splits()]

    def read(self, part: DifferencePart) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part that differ."""
        difference = self.differences[part.state]
        for batch in difference.reader.read(part.split):
            yield difference.as_text(batch) if self.as_text else batch


@dataclass(frozen=True, slots=True)
class StateDifference:
    """The difference of one state: where the state is, its types, and the reader of the rows that differ."""

    operator_uid: str | None
    operator_uid_hash: str
    state_name: str
    kind: str
    type_before: str | None
    type_after: str | None
    reader: StateReader

    def as_text(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the reader with values as JSON, in the columns of :data:`TEXT_SCHEMA`."""
        place = {"operator_uid": self.operator_uid, "operator_uid_hash": self.operator_uid_hash, "state_name": self.state_name}
        rows = [place | {n: _text(n, value) for n, value in row.items()} for row in batch.to_pylist()]
        return pa.RecordBatch.from_pylist(rows, TEXT_SCHEMA)

    def summary(self) -> dict[str, Any]:
        """Count the rows that differ; a row of :data:`SUMMARY_SCHEMA`."""
        counts: Counter[str] = Counter()
        for split in self.reader.splits():
            for batch in self.reader.read(split):
                counts.update(batch.column(0).to_pylist())
        return self.counted(counts)

    def counted(self, counts: Counter[str]) -> dict[str, Any]:
        """Return the row of :data:`SUMMARY_SCHEMA` for numbers of changes."""
        return {
            **{name: getattr(self, name) for name in ("operator_uid", "operator_uid_hash", "state_name")},
            "state_kind": self.kind, "type_before": self.type_before, "type_after": self.type_after,
            _INSERTS: counts[INSERT], _DELETES: counts[DELETE], _UPDATES: counts[UPDATE],
        }


def _text(name: str, value: Any) -> str | None:
    return value if name == CHANGE or value is None else json_text({"": value})[len('{"": ') : -1]


def open_differences(
    paths: tuple[Path, Path], uid: str | OperatorIdentifier | None, state: str | None, options: Mapping[str, Any]
) -> list[StateDifference]:
    """Open two snapshots and the differences between them.

    Parameters
    ----------
    paths
        The old and the new snapshot.
    uid, state
        One operator, and one of its states; ``None`` for all.
    options
        Keyword arguments of :class:`~state_processor.options.groups.DiffSnapshotOptions`.

    Raises
    ------
    OptionError
        If a state is named without its operator.
    NotFoundError, UnsupportedFormatError
        See :func:`state_differences`.
    """
    if state is not None and uid is None:
        raise OptionError(f"state {state!r}: name the operator, too, by uid")
    access = SnapshotAccess.among(options)
    given = check_arguments({n: v for n, v in options.items() if n in DiffOptions.__annotations__})
    old, new = (access.open(path) for path in paths)
    operator = None if uid is None else OperatorIdentifier.of(uid)
    return list(state_differences(old, new, operator, state, ReadOptions(**fields_of(READ_OPTIONS, given))))


def state_differences(
    old: Snapshot, new: Snapshot, operator: OperatorIdentifier | None, state: str | None, options: ReadOptions
) -> Iterator[StateDifference]:
    """Open the differences of all states, of those of one operator, or of one state.

    Raises
    ------
    NotFoundError
        If neither snapshot has the operator or the state.
    UnsupportedFormatError
        If a state can't be read, or is of another kind or has other keys in the two snapshots.
    """
    before, after = ({o.operator_id: o for o in snapshot.metadata.operators} for snapshot in (old, new))
    known = {**before, **after}
    stored: set[str] = set()
    wanted = list(known)
    if operator is not None:
        planned = old.plan.find(operator.uid, known) if old.plan is not None and operator.uid else None
        wanted = [planned or operator.uid_hash]
    if operator is not None and wanted[0] not in known:
        names = sorted({o.uid or o.operator_id for o in known.values()})
        raise NotFoundError.naming_nearest("operator", str(operator), names)
    for uid_hash in wanted:
        uid = next((o.uid for o in (after.get(uid_hash), before.get(uid_hash)) if o is not None and o.uid), None)
        label = f"operator {uid!r}" if uid else f"operator {uid_hash}"
        pair = OperatorPair(label, (old, before.get(uid_hash)), (new, after.get(uid_hash)))
        found = {**pair.states[0], **pair.states[1]}
        stored |= found.keys()
        for name in pair.names if state is None else (stored_name(state, found),):
            reader = pair.difference(name, options)
            before_type, after_type = (
                _type(*side, states.get(name, [])) for side, states in zip((pair.old, pair.new), pair.states, strict=True)
            )
            kind = found[name][0].kind
            yield StateDifference(uid, uid_hash, shown_name(name), kind, before_type, after_type, reader)
    check_known(options.python_types, stored, "these operators")


def _type(snapshot: Snapshot, operator: OperatorState | None, variants: list[StateDescription]) -> str | None:
    """Return the type of a state with the names of the plan, if a snapshot has the state."""
    if operator is None or not variants:
        return None
    names = dict(state_names(snapshot, operator, variants[:1], {}))
    return str(with_names(variants[0], names.get(variants[0].name, {})).whole)
