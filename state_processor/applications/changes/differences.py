"""Differences between two snapshots, state by state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from logging import getLogger
from os import PathLike
from typing import Any, Final, TypeAlias, Unpack

import pyarrow as pa

from state_processor import OperatorIdentifier
from state_processor.applications.changes.state_difference import (
    AFTER,
    BEFORE,
    CHANGE,
    DELETE,
    INSERT,
    UPDATE,
    DifferenceReader,
    NoComparison,
    OperatorPair,
)
from state_processor.command_line import json_text, progress
from state_processor.errors import NotFoundError, OptionError, UnsupportedFormatError
from state_processor.options import (
    READ_OPTIONS,
    CountSnapshotOptions,
    DiffOptions,
    DiffSnapshotOptions,
    ReadOptions,
    SnapshotAccess,
    check_arguments,
    takes_options,
    values_of,
)
from state_processor.snapshots import OperatorState, Snapshot, states
from state_processor.states import (
    FULL,
    BytesRead,
    Rows,
    SizeReport,
    StateDescription,
    StoredOperator,
    check_known,
    read_all,
    shown_name,
    stored_name,
    surveys,
    with_names_of_plan,
    with_note,
)
from state_processor.support import attributes, only_keys, without_keys, without_none

_LOG: Final = getLogger("state_processor")
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
        *(pa.field(n, pa.int64()) for n in ("bytes_before", "bytes_after")),
        pa.field("renamed_from", pa.string()),
        pa.field("method", pa.string()),
        *(pa.field(n, pa.int64()) for n in ("bytes_read", "bytes_stored")),
        pa.field("not_compared", pa.string()),
    ]
)
_INSERTS, _DELETES, _UPDATES = (f"{n}s" for n in (INSERT, DELETE, UPDATE))


@dataclass(frozen=True, slots=True)
class DifferencePart:
    """A part of a difference for one task: the number of the state, and its split."""

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
        parts: list[DifferencePart] = []
        for i, difference in enumerate(self.differences):
            parts += (DifferencePart(i, split) for split in difference.reader.splits())
        return parts

    def read(self, part: DifferencePart) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part that differ."""
        difference = self.differences[part.state]
        for batch in difference.reader.read(part.split):
            yield difference.as_text(batch) if self.as_text else batch

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all states that differ, as JSON, in one batch at least."""
        _check_snapshots(self.differences)
        yield pa.RecordBatch.from_pylist([], TEXT_SCHEMA)
        for difference in self.differences:
            yield from map(difference.as_text, difference.batches())


@dataclass(frozen=True, slots=True)
class StateDifference:
    """The difference of one state: where the state is, its types, the reader of the rows that differ, and notes on them."""

    operator_uid: str | None
    operator_uid_hash: str
    state_name: str | None
    kind: str | None
    type_before: str | None
    type_after: str | None
    reader: DifferenceReader
    old: StoredOperator | None
    new: StoredOperator | None
    renamed_from: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The columns of the reader, with the notes as a comment."""
        schema = self.reader.schema
        return schema.set(0, with_note(schema.field(0), ". ".join(self.notes)))

    def as_text(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the reader with values as JSON, in the columns of :data:`TEXT_SCHEMA`."""
        place = {"operator_uid": self.operator_uid, "operator_uid_hash": self.operator_uid_hash, "state_name": self.state_name}
        rows = []
        for row in batch.to_pylist():
            texts = {name: _text(name, value) for name, value in row.items()}
            rows.append(place | texts)
        return pa.RecordBatch.from_pylist(rows, TEXT_SCHEMA)

    @property
    def _threads(self) -> int | None:
        return next((side.snapshot.threads for side in (self.old, self.new) if side is not None), None)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Check that both snapshots are the ones that were opened, and yield the rows that differ."""
        _check_snapshots((self,))
        yield from self.batches()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that differ, in one batch at least."""
        empty = True
        for batch in read_all(self.reader.splits, self.reader.read, self._threads, watched=partial(progress, doing="reading")):
            empty = False
            yield batch
        if empty:
            yield pa.RecordBatch.from_pylist([], self.reader.schema)

    def summary(self) -> dict[str, Any]:
        """Count the rows that differ; a row of :data:`SUMMARY_SCHEMA`."""
        row = {
            **attributes(self, ("operator_uid", "operator_uid_hash", "state_name")),
            "state_kind": self.kind,
            "type_before": self.type_before,
            "type_after": self.type_after,
            "renamed_from": self.renamed_from,
        }
        if isinstance(self.reader, NoComparison):
            return row | {"not_compared": self.reader.reason}
        tally = BytesRead()

        def counted(split: Any) -> Iterator[Counter[str]]:
            for batch in self.reader.read(split, tally):
                yield Counter(batch.column(0).to_pylist())

        counts = sum(read_all(self.reader.splits, counted, self._threads), Counter[str]())
        return row | {
            _INSERTS: counts[INSERT],
            _DELETES: counts[DELETE],
            _UPDATES: counts[UPDATE],
            "method": tally.method,
            "bytes_read": tally.read,
            "bytes_stored": tally.stored,
        }


def _text(name: str, value: Any) -> str | None:
    return value if name == CHANGE or value is None else json_text({"": value})[len('{"": ') : -1]


def open_differences(
    paths: tuple[Path, Path],
    uid: str | OperatorIdentifier | None,
    state: str | None,
    options: Mapping[str, Any],
    full: bool = False,
) -> list[StateDifference]:
    """Open two snapshots and the differences between them.

    ``paths``: the old and the new snapshot. ``uid`` and ``state``: one operator, and one of its states; ``None`` for all.
    ``options``: keyword arguments of :class:`~state_processor.options.groups.DiffSnapshotOptions`. ``full``: whether tables that
    both snapshots have are compared, too.
    """
    if state is not None and uid is None:
        raise OptionError(f"state {state!r}: name the operator, too, by uid")
    access = SnapshotAccess.among(options)
    checked = check_arguments(only_keys(options, DiffOptions.__annotations__))
    old, new = map(access.open, paths)
    operator = None if uid is None else OperatorIdentifier.of(uid)
    read = ReadOptions.of(**values_of(READ_OPTIONS, checked))
    return list(state_differences(old, new, operator, state, read, full, exact_times="nanos" not in checked))


def state_differences(
    old: Snapshot,
    new: Snapshot,
    operator: OperatorIdentifier | None,
    state: str | None,
    options: ReadOptions,
    full: bool = False,
    *,
    exact_times: bool = False,
) -> Iterator[StateDifference]:
    """Open the differences of all states, of the states of one operator, or of one state.

    ``options``, ``full`` and ``exact_times``: see
    :meth:`~state_processor.applications.changes.state_difference.OperatorPair.difference`.
    """
    before = old.metadata.operators_by_id
    after = new.metadata.operators_by_id
    operators = {**before, **after}
    renamed = _renamed((old, before), (new, after))
    stored: set[str] = set()
    uid_hashes = [uid_hash for uid_hash in operators if uid_hash not in renamed.values()]
    if operator is not None:
        planned = old.query_plan.find(operator.uid, operators) if old.query_plan is not None and operator.uid else None
        asked_hash = planned or operator.uid_hash
        uid_hashes = [next((later for later, earlier in renamed.items() if earlier == asked_hash), asked_hash)]
    if operator is not None and uid_hashes[0] not in operators:
        names = sorted({o.label for o in operators.values()})
        raise NotFoundError.naming_nearest("operator", str(operator), names)
    for uid_hash in uid_hashes:
        earlier = before.get(renamed.get(uid_hash, uid_hash))
        uid = next((o.uid for o in (after.get(uid_hash), earlier) if o is not None and o.uid), None)
        label = f"operator {uid!r}" if uid else f"operator {uid_hash}"
        later = after.get(uid_hash)
        sides = (None if earlier is None else StoredOperator(old, earlier), None if later is None else StoredOperator(new, later))
        pair = OperatorPair(label, *sides)
        notes = tuple(filter(None, (side.mixed_times for side in sides if side is not None)))
        for note in notes:
            _LOG.warning("%s", note)
        renamed_from = None if earlier is None or uid_hash not in renamed else earlier.label
        descriptions = {**pair.states[0], **pair.states[1]}
        stored |= descriptions.keys()
        for name in pair.names if state is None else (stored_name(state, descriptions),):
            reader: DifferenceReader
            try:
                reader = pair.difference(name, options, full, exact_times=exact_times)
            except UnsupportedFormatError as error:
                if state is not None:
                    raise
                reader = NoComparison(str(error))
            type_before, type_after = (_type(side, states.get(name, [])) for side, states in zip(sides, pair.states, strict=True))
            place = (uid, uid_hash, shown_name(name), descriptions[name][0].kind)
            yield StateDifference(*place, type_before, type_after, reader, *sides, renamed_from, notes)
        for unread in pair.unread if state is None else ():
            state_name = None if unread.name is None else shown_name(unread.name)
            reader = NoComparison(str(unread.error))
            yield StateDifference(uid, uid_hash, state_name, unread.kind, None, None, reader, *sides, renamed_from, notes)
    check_known(options.types.python_types, stored, "these operators")


def _type(stored: StoredOperator | None, variants: list[StateDescription]) -> str | None:
    """Return the type of a state with the names of the plan, if a snapshot has the state."""
    if stored is None or not variants:
        return None
    (named,) = with_names_of_plan(stored.snapshot, stored.operator, variants[:1]).values()
    return str(named.registered_serializer)


_Side: TypeAlias = tuple[Snapshot, Mapping[str, OperatorState]]


def _renamed(old: _Side, new: _Side) -> dict[str, str]:
    """Return the hashes of operators with another uid in the new snapshot, to their hashes in the old one.

    An operator was renamed if its uid is gone, and exactly one other uid is new whose operator has the same states: names,
    kinds and types. If several operators have these states, none is taken for another.
    """
    (old_snapshot, before), (new_snapshot, after) = old, new
    gone = without_keys(before, after)
    added = without_keys(after, before)
    if not gone or not added:
        return {}
    earlier, later = _by_states(old_snapshot, gone), _by_states(new_snapshot, added)
    renamed: dict[str, str] = {}
    for states_and_types, old_hashes in earlier.items():
        new_hashes = later.get(states_and_types, [])
        if len(old_hashes) == len(new_hashes) == 1:
            renamed[new_hashes[0]] = old_hashes[0]
    return renamed


def _by_states(snapshot: Snapshot, operators: Mapping[str, OperatorState]) -> dict[frozenset[tuple[str, ...]], list[str]]:
    """Return operators that have state by their states; an operator with a state that can't be read is left out."""
    by_shape: dict[frozenset[tuple[str, ...]], list[str]] = {}
    for (uid_hash, _), (variants, unread) in zip(operators.items(), surveys(snapshot, operators.values()), strict=True):
        if variants and not unread:
            shape = frozenset((name, v[0].kind, *map(str, v[0].serializers.values())) for name, v in variants.items())
            by_shape.setdefault(shape, []).append(uid_hash)
    return by_shape


def snapshots_of(differences: Iterable[StateDifference]) -> list[Snapshot]:
    """Return the snapshots that are compared, each once."""
    snapshots: dict[str, Snapshot] = {}
    for difference in differences:
        for side in without_none((difference.old, difference.new)):
            snapshots[side.snapshot.directory] = side.snapshot
    return list(snapshots.values())


def _check_snapshots(differences: Iterable[StateDifference]) -> None:
    """See :meth:`Snapshot.check_plan`."""
    for snapshot in snapshots_of(differences):
        snapshot.check_plan()


def with_bytes(differences: Sequence[StateDifference], rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the bytes of each state in both snapshots to rows of :data:`SUMMARY_SCHEMA`; null where they are not known.

    Keyed state has the bytes of keys, namespaces and values, as :func:`state_processor.arrow.size_report` measures them;
    operator state the bytes of its elements. The sizes of keyed states are not known if a keyed state of the operator was not
    compared in full: measuring them reads all entries of the operator.
    """
    skipping = {row["operator_uid_hash"] for row in rows if row.get("method") != FULL}
    measured: dict[tuple[str, str], dict[str, int | None]] = {}

    def size(d: StateDifference, side: StoredOperator | None) -> int | None:
        if side is None:
            return None
        place = (side.snapshot.digest, side.operator.operator_id)
        if place not in measured:
            measured[place] = _sizes(side.snapshot, side.operator, keyed=d.operator_uid_hash not in skipping)
        absent = 0 if d.operator_uid_hash not in skipping else None
        return measured[place].get(d.state_name or "", absent)

    sized = []
    for difference, row in zip(differences, rows, strict=True):
        before = None if difference.type_before is None else size(difference, difference.old)
        after = None if difference.type_after is None else size(difference, difference.new)
        sized.append({**row, "bytes_before": before, "bytes_after": after})
    return sized


def _sizes(snapshot: Snapshot, operator: OperatorState, keyed: bool) -> dict[str, int | None]:
    """Return the bytes of an operator's states, by their names; of keyed states only if they are wanted."""
    alone = replace(snapshot, metadata=replace(snapshot.metadata, operators=(operator,)))
    sizes = {r["state_name"]: r["size_in_bytes"] for r in states(alone).to_pylist() if r["backend"] == "operator"}
    if not keyed:
        return sizes
    report = SizeReport.of(alone, None, "state", None, snapshot.threads)
    return sizes | {r["state_name"]: r["size_in_bytes"] for r in report.measured(snapshot.threads).to_pylist()}


@takes_options
def diff(
    old: Path,
    new: Path,
    uid: str | OperatorIdentifier | None = None,
    state: str | None = None,
    full: bool = False,
    **options: Unpack[DiffSnapshotOptions],
) -> Rows:
    """Compare two snapshots, as :func:`state_processor.diff` does, without Spark.

    Parameters
    ----------
    old
        Directory of the older snapshot.
    new
        Directory of the newer snapshot.
    uid, state, full
        As for :func:`state_processor.diff`.
    **options
        See :class:`~state_processor.options.groups.DiffSnapshotOptions`. They are about both snapshots.

    Returns
    -------
    Rows
        An iterator of batches of one schema, at least one: see :func:`state_processor.diff`.

    Raises
    ------
    NotFoundError, UnsupportedFormatError, OptionError
        As for :func:`state_processor.diff`.
    """
    differences = open_differences((old, new), uid, state, options, full)
    if state is None:
        reader = DifferencesReader(differences, as_text=True)
        return Rows(reader.schema, reader.rows)
    (difference,) = differences
    return Rows(difference.schema, difference.rows)


@takes_options
def diff_summary(
    old: Path,
    new: Path,
    uid: str | OperatorIdentifier | None = None,
    full: bool = False,
    **options: Unpack[CountSnapshotOptions],
) -> pa.Table:
    """Compare all states of two snapshots, and count the values that differ.

    Parameters
    ----------
    old, new
        Directories of savepoints or checkpoints.
    uid
        One operator; ``None`` for all.
    full
        Whether files that both snapshots have are compared, too. The counts are the same, and sizes are known.
    **options
        See :class:`~state_processor.options.groups.CountSnapshotOptions`. They are about both snapshots.

    Returns
    -------
    pyarrow.Table
        A row per state of either snapshot: ``operator_uid``, ``operator_uid_hash``, ``state_name``, ``state_kind``,
        ``type_before`` and ``type_after`` (null where a snapshot does not have the state), ``inserts``, ``deletes``, ``updates``,
        ``bytes_before`` and ``bytes_after`` (of keys, namespaces and values, or elements), ``renamed_from``. An operator that is
        only in the new snapshot is compared with the one that is only in the old snapshot and has the same states: names, kinds
        and types. ``renamed_from`` is its uid, or hash, there. If several operators have these states, none of them is compared
        with another. ``method`` is ``incremental`` if only files that one snapshot lacks were compared, ``full``, or ``mixed``;
        then ``bytes_read`` of ``bytes_stored``, the bytes of both snapshots. These are bytes of files: of the state's tables in
        RocksDB and ForSt, of all states in the same files in other formats. ``bytes_before`` and ``bytes_after`` of keyed states
        are null if a state of the operator was not compared in full. ``not_compared`` is the reason if a state was not compared:
        it can't be read, or is of another kind or has other keys in the two snapshots. Then its counts are null.

    Raises
    ------
    NotFoundError
        Neither snapshot has the operator.
    """
    differences = open_differences((old, new), uid, None, options, full)
    rows = [difference.summary() for difference in progress(differences, "comparing")]
    notes = ". ".join(dict.fromkeys(chain.from_iterable(difference.notes for difference in differences)))
    schema = SUMMARY_SCHEMA.set(0, with_note(SUMMARY_SCHEMA.field(0), notes))
    return pa.Table.from_pylist(with_bytes(differences, rows), schema)
