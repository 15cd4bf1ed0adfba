"""Keeping a table equal to the newest checkpoint of a job: :func:`sync`, and the command of this name.

The table records its checkpoint. Each commit has the changes from the recorded checkpoint to the newest one, or all rows. A
killed process can therefore be started again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from logging import getLogger
from os import PathLike, fspath
from time import sleep
from typing import Any, Final, Unpack

import pyarrow as pa

from state_processor import OperatorIdentifier
from state_processor.applications.changes.checkpoint_changes import (
    CONTROL,
    KIND_OF_CHANGE,
    ChangedState,
    Checkpoint,
    CheckpointSeries,
    Step,
    StepReader,
    check_operator,
    stream_schema,
)
from state_processor.applications.changes.row_shape import difference, row_shape
from state_processor.applications.changes.state_difference import DELETE
from state_processor.applications.lake.delta import DeltaTarget
from state_processor.applications.lake.iceberg import IcebergTarget
from state_processor.applications.lake.parquet import ParquetTarget
from state_processor.applications.lake.targets import Changes, ConflictError, LakeTable, Position
from state_processor.command_line import (
    JSON_LINES,
    OPERATOR,
    argument,
    arguments_of,
    command,
    flag_values,
    flags,
    pairs,
    print_json,
    repeated,
    say,
    switch,
)
from state_processor.errors import MissingFileError, NotASnapshotError, NotFoundError, OptionError, UnsupportedFormatError
from state_processor.options import (
    READ_OPTIONS,
    DiffOptions,
    DiffSnapshotOptions,
    Kind,
    ReadOptions,
    SnapshotAccess,
    check_arguments,
    check_given,
    checked_choice,
    duration_ms,
    takes_options,
    values_of,
)
from state_processor.states import read_all, schema_text
from state_processor.support import only_keys, pc

_SUFFIX: Final = ".parquet"
_TARGETS: Final[Mapping[str, Callable[[str, Mapping[str, str]], LakeTable]]] = {
    "delta": DeltaTarget,
    "iceberg": IcebergTarget,
    "parquet": ParquetTarget,
}
FORMATS: Final = tuple(_TARGETS)
"""The formats of tables."""


def target_of(to: str | PathLike[str], format: str | None, options: Mapping[str, str]) -> LakeTable:
    """Return the table for a place.

    ``to``: the directory or URL of a Delta table, the file or URL of Parquet, or the name of an Iceberg table. ``format``:
    ``delta``, ``iceberg`` or ``parquet``; by default ``parquet`` for a name that ends in ``.parquet``, otherwise ``delta``.
    ``options``: settings of the storage or, for Iceberg, of the catalog.
    """
    place = fspath(to)
    chosen = format or ("parquet" if place.endswith(_SUFFIX) else "delta")
    return _TARGETS[checked_choice("format", chosen, FORMATS)](place, options)


_LOG: Final = getLogger("state_processor")
_ATTEMPTS: Final = 5
"""Attempts, while Flink removes each checkpoint that is read, or others compact the table."""
_SECOND: Final = 1000


@dataclass(frozen=True, slots=True)
class SyncCommit:
    """A commit to the table.

    Parameters
    ----------
    checkpoint_id, checkpoint
        The id and the path of the checkpoint that the table equals.
    is_full
        True if all rows were written.
    upserts, deletes
        Rows that were written, and rows that were deleted.
    reason
        Why all rows were written, such as the checkpoint of the table that is gone, or an option with another value; empty if
        only the changes were written.
    note
        That the checkpoint mixes several times, and the earlier checkpoints that it has state from; empty if it does not.
    """

    checkpoint_id: int
    checkpoint: str
    is_full: bool
    upserts: int
    deletes: int
    reason: str = ""
    note: str = ""


@takes_options
def sync(
    checkpoints: str | PathLike[str],
    uid: str | OperatorIdentifier,
    state: str,
    to: str | PathLike[str],
    *,
    format: str | None = None,
    to_options: Mapping[str, str] | None = None,
    allow_missing: bool = False,
    **options: Unpack[DiffSnapshotOptions],
) -> SyncCommit | None:
    """Make a table of Delta or Iceberg, or a Parquet file, equal to a state in the newest checkpoint of a job.

    The table has the columns that identify a value (``key``, ``window`` or ``namespace``, ``map_key``) and the value. The
    properties of each commit name the checkpoint: ``state-processor.checkpoint-id``. Only the changes are written if the
    checkpoint that the table has still exists with the same content, and if rows are read as before: with the same options,
    registrations and version of this library. Otherwise all rows are written, and the commit has the reason.

    Parameters
    ----------
    checkpoints
        The checkpoint directory of a job, or the directory above it. A restored job continues in a new directory below that one.
    uid, state
        The state: keyed state, timers or broadcast state.
    to
        The directory or URL of a Delta table, the file or URL of Parquet, or the name of an Iceberg table, such as
        ``lake.totals``.
    format
        ``delta``, ``iceberg`` or ``parquet``; by default ``parquet`` for a name that ends in ``.parquet``, otherwise ``delta``.
    to_options
        Storage options of ``deltalake``, properties of the catalog of ``pyiceberg`` (``uri``, ``warehouse``), or settings of the
        storage of the Parquet file.
    allow_missing
        Delete all rows if the newest checkpoint does not have the operator any more, or has the state under another name. By
        default, this is an error.
    **options
        See :class:`~state_processor.options.groups.DiffSnapshotOptions`.

    Returns
    -------
    SyncCommit or None
        The commit; ``None`` if the table has the newest checkpoint already.

    Raises
    ------
    NotFoundError
        If the directory does not have a whole checkpoint, or the checkpoint does not have the state. If the operator of the table
        is missing, the message has its likely new name.
    UnsupportedFormatError
        If the state can't be read, its rows do not have an identity, or two jobs take checkpoints in the directory at once.
    MissingFileError
        If Flink removes each newest checkpoint while it is read.
    WriteError
        If the table can't be written, or something else writes it.
    OptionError
        If the table has another state, or an option has an unexpected value.
    """
    return TableSync.of(checkpoints, uid, state, to, format, to_options, options, allow_missing).advance()


class TableSync:
    """A table that follows the checkpoints of a job."""

    def __init__(self, series: CheckpointSeries, state: ChangedState, target: LakeTable) -> None:
        self._series = series
        self._state = state
        self._target = target
        self._shape = row_shape(state.read, series.access)
        self._waits = False
        self._logged_texts: set[str] = set()

    @classmethod
    def of(
        cls,
        checkpoints: str | PathLike[str],
        uid: str | OperatorIdentifier,
        state: str,
        to: str | PathLike[str],
        format: str | None,
        to_options: Mapping[str, str] | None,
        options: Mapping[str, Any],
        allow_missing: bool = False,
    ) -> TableSync:
        """Check arguments, see :func:`sync`."""
        access = SnapshotAccess.among(options).with_content()
        checked = check_arguments(only_keys(options, DiffOptions.__annotations__))
        read = ReadOptions.of(**values_of(READ_OPTIONS, checked))
        followed = ChangedState(OperatorIdentifier.of(uid), state, read, allow_missing)
        return cls(CheckpointSeries(checkpoints, access), followed, target_of(to, format, to_options or {}))

    def follow(self, interval: str | timedelta) -> Iterator[SyncCommit]:
        """Yield a commit for each newest checkpoint, without end.

        Wait for the directory, for its first whole checkpoint, and for the state: some jobs register it with their first record.

        ``interval``: time between two looks for a newer checkpoint.
        """
        seconds = duration_ms(interval) / _SECOND
        self._waits = True
        while True:
            try:
                commit = self.advance()
            except MissingFileError as error:
                commit = None
                _LOG.warning("%s", error)
            if commit is not None:
                yield commit
            sleep(seconds)

    def advance(self) -> SyncCommit | None:
        """Make the table equal to the newest checkpoint; return ``None`` if it is already."""
        for attempt in range(_ATTEMPTS):
            try:
                return self._advance()
            except (MissingFileError, ConflictError) as error:
                if attempt == _ATTEMPTS - 1:
                    raise
                _LOG.info("%s", error)
        return None

    def _advance(self) -> SyncCommit | None:
        position = self._target.position()
        if position is not None:
            self._check_same_state(position)
        changed = "" if position is None else difference(position.shape, self._shape)
        checkpoints = self._after(None if position is None else position.checkpoint)
        if not checkpoints and position is None and not self._waits:
            raise self._series.nothing_whole()
        if not checkpoints and changed and position is not None and position.checkpoint.open(self._series.access) is not None:
            checkpoints = [position.checkpoint]
        if not checkpoints:
            return None
        newest = checkpoints[-1]
        if position is None or changed:
            return self._full(position, newest, changed or "the table is new")
        reason, commit = self._incremental(position, newest)
        return commit or self._full(position, newest, reason)

    def _after(self, position: Checkpoint | None) -> list[Checkpoint]:
        """Return the checkpoints after a position; with ``--follow``, the directory may be made later."""
        try:
            checkpoints = self._series.after(position)
        except NotASnapshotError as error:
            if not self._waits:
                raise
            checkpoints, reason = [], str(error)
        else:
            reason = str(self._series.nothing_whole())
        if self._waits and not checkpoints and position is None:
            self._say_once(f"{reason}. Waiting for the first checkpoint")
        return checkpoints

    def _say_once(self, text: str) -> None:
        if text not in self._logged_texts:
            self._logged_texts.add(text)
            _LOG.warning("%s", text)

    def _check_same_state(self, position: Position) -> None:
        identity = (self._state.operator.uid_hash, self._state.state)
        if (position.operator, position.state) != identity:
            raise OptionError(
                f"the table has state {position.state!r} of operator {position.operator}, not {self._state}: choose another table"
            )

    def _incremental(self, position: Position, newest: Checkpoint) -> tuple[str, SyncCommit | None]:
        """Write the changes since a position, or return why they can't be known, or don't fit the table."""
        access, step = self._series.access, Step(position.checkpoint, newest)
        old, new = position.checkpoint.open(access), newest.open(access)
        if new is None:
            raise MissingFileError(f"{newest} was removed while it was opened")
        if old is None:
            return f"{position.checkpoint}, which the table has, is gone or was replaced", None
        try:
            reader = StepReader.open_if_known(step, old, new, self._state)
        except UnsupportedFormatError as error:  # such as other types
            return str(error), None
        if reader is None:
            return "", self._empty(position, newest)
        reached = self._position(reader)
        if reached.columns != position.columns:
            return f"the columns were {position.columns} and are {reached.columns}", None
        rows = pa.Table.from_batches(read_all(reader.splits, reader.read, self._threads), reader.schema)
        deletes = pc.equal(rows.column(KIND_OF_CHANGE), DELETE)
        self._target.apply(Changes(rows.select(_columns(reader).names), deletes, reader.identity), reached)
        number = pc.sum(deletes).as_py() or 0
        return "", SyncCommit(newest.checkpoint_id, newest.path, False, rows.num_rows - number, number, note=reader.note)

    def _full(self, position: Position | None, newest: Checkpoint, reason: str) -> SyncCommit | None:
        snapshot = newest.open(self._series.access)
        if snapshot is None:
            raise MissingFileError(f"{newest} was removed while it was opened")
        try:
            reader = StepReader.open(Step(None, newest), None, snapshot, self._state)
        except NotFoundError as error:
            if position is not None:
                if not self._state.allow_missing:
                    old = position.checkpoint.open(self._series.access)
                    check_operator(newest, old, snapshot, self._state.operator, self._state.state)
                return self._empty(position, newest)
            if not self._waits or self._state.operator.uid_hash not in snapshot.metadata.operators_by_id:
                raise
            self._say_once(f"{newest}: {error} Waiting for a checkpoint with the state")
            return None
        if not reader.identity:
            raise UnsupportedFormatError(f"{self._state}: elements of a list do not have a key; choose keyed or broadcast state")
        number = 0

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal number
            for batch in read_all(reader.splits, reader.read, self._threads):
                number += batch.num_rows
                yield batch.select(_columns(reader).names)

        self._target.replace(_columns(reader), batches(), self._position(reader))
        return SyncCommit(newest.checkpoint_id, newest.path, True, number, 0, reason, reader.note)

    @property
    def _threads(self) -> int | None:
        return self._series.access.threads

    def _empty(self, position: Position, newest: Checkpoint) -> SyncCommit:
        """Make a table empty that has the state, because the checkpoint does not have the state."""
        reason = f"{newest} does not have {self._state}: the table is empty"
        _LOG.warning("%s", reason)
        self._target.replace(self._target.schema(), iter(()), replace(position, checkpoint=newest, shape=self._shape))
        return SyncCommit(newest.checkpoint_id, newest.path, True, 0, 0, reason)

    def _position(self, reader: StepReader) -> Position:
        columns = schema_text(_columns(reader))
        return Position(reader.step.after, self._state.operator.uid_hash, self._state.state, columns, self._shape)


def _columns(reader: StepReader) -> pa.Schema:
    """Return the columns of the table."""
    return pa.schema(list(stream_schema(reader.schema, with_before=False))[len(CONTROL) :])


# The command

_INTERVAL: Final = "10s"


@command(
    "sync",
    "keep a table equal to the newest checkpoint",
    "Make a table equal to a state in the newest checkpoint of a job. The properties of each commit name the checkpoint. "
    "Only changes are written, as long as the checkpoint that the table has still exists, and the options are the same.",
    OPERATOR,
    argument("--state", required=True, help="name of the state"),
    argument(
        "--to",
        required=True,
        metavar="TARGET",
        help="directory of a Delta table, a file .parquet, or the name of an Iceberg table, such as lake.totals",
    ),
    argument("--format", choices=FORMATS, help="the format; by default parquet for a name in .parquet, otherwise delta"),
    repeated("--to-option", "option of the storage, or property of the Iceberg catalog (uri, warehouse)", metavar="KEY=VALUE"),
    switch("--allow-missing", "delete all rows if the newest checkpoint lacks the operator, or has the state under another name"),
    switch("--follow", "continue with each further checkpoint, until Ctrl-C"),
    argument("--interval", metavar="TIME", help=f"with --follow: time between two looks (default: {_INTERVAL})"),
    JSON_LINES,
    flags(Kind.DIFF),
    fails="the table has the newest checkpoint already",
    python=("sp.sync",),
)
def _sync(options: argparse.Namespace) -> bool:
    if not options.follow:
        check_given({"interval": options.interval}, ("interval",), "with --follow: add that")
    to_options = pairs("--to-option", "KEY=VALUE", options.to_option)
    table = TableSync.of(**arguments_of(TableSync.of, options), to_options=to_options, options=flag_values(options))
    if options.follow:
        for commit in table.follow(options.interval or _INTERVAL):
            _print(commit, options)
    commit_now = table.advance()
    if commit_now is None:
        say("The table has the newest checkpoint")
        return False
    _print(commit_now, options)
    return True


def _print(commit: SyncCommit, options: argparse.Namespace) -> None:
    if options.json:
        print_json(commit)
    elif commit.is_full:
        say(f"checkpoint {commit.checkpoint_id}: all {commit.upserts} rows written ({commit.reason})")
    else:
        say(f"checkpoint {commit.checkpoint_id}: {commit.upserts} rows written, {commit.deletes} deleted")
