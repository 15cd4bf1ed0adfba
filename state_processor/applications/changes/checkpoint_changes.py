"""The whole checkpoints of a job in their order, and the changes of a state from one checkpoint to the next as rows.

A job that runs adds checkpoints, and removes old ones. The rows of a step have the columns ``_change``, ``_checkpoint_id``,
``_checkpoint_time`` and ``_full``, then the columns that identify a value, then the value. If the earlier checkpoint is gone, a
step has everything that the later one has: such a step is *full*, and replaces the rows before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import chain, pairwise
from logging import getLogger
from os import PathLike
from typing import Any, Final

import pyarrow as pa

from state_processor import OperatorIdentifier, SnapshotInfo
from state_processor.applications.changes.state_difference import AFTER, BEFORE, CHANGE, open_changes
from state_processor.errors import MissingFileError, NotASnapshotError, NotFoundError, StateProcessorError, UnsupportedFormatError
from state_processor.options import ReadOptions, SnapshotAccess, spelled
from state_processor.snapshots import (
    DEPTH,
    JOB_DIGITS,
    Doubt,
    Location,
    Mark,
    OperatorState,
    Snapshot,
    check_files,
    find_snapshots,
    in_order,
    recorded_files,
    stored_digest,
)
from state_processor.states import StateDescription, StateReader, StoredOperator, shown_name, surveys
from state_processor.support import cached_property, without_keys

_LOG: Final = getLogger("state_processor")
_ATTEMPTS: Final = 5
"""Looks at a directory whose checkpoints Flink removes before they are opened."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint or savepoint.

    ``time`` is when its ``_metadata`` was written, in milliseconds. ``digest`` identifies the content of ``_metadata``: a job
    that starts again may write another checkpoint to the same path.
    """

    path: str
    checkpoint_id: int
    time: int
    digest: str

    def __str__(self) -> str:
        return f"checkpoint {self.checkpoint_id} in {self.path}"

    def as_json(self) -> dict[str, Any]:
        """Return the checkpoint as a JSON object."""
        return asdict(self)

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Checkpoint:
        """Return the checkpoint of a JSON object."""
        return cls(str(content["path"]), int(content["checkpoint_id"]), int(content["time"]), str(content["digest"]))

    @property
    def moment(self) -> datetime:
        """The time as a point in time."""
        return datetime.fromtimestamp(self.time / 1000, UTC)

    def is_after(self, earlier: Checkpoint) -> bool:
        """Return whether it comes after a checkpoint that does not exist any more."""
        same_job = Location.parse(self.path).parent == Location.parse(earlier.path).parent
        if not same_job:
            return self.time > earlier.time
        return self != earlier and in_order([self.mark, earlier.mark], lambda _: ()).checkpoints[-1] == self

    @property
    def mark(self) -> Mark[Checkpoint]:
        """What orders it among the checkpoints of its directory."""
        return Mark(self, self.checkpoint_id, self.time / 1000)

    def open(self, access: SnapshotAccess) -> Snapshot | None:
        """Open the snapshot; ``None`` if it is not there any more, or lacks files."""
        try:
            snapshot = access.open(self.path)
            return snapshot if snapshot.digest == self.digest and not check_files(snapshot).problems else None
        except StateProcessorError:
            return None

    def is_stored(self, access: SnapshotAccess) -> bool:
        """Return whether its ``_metadata`` is there with the same content; files that it refers to may be missing."""
        return stored_digest(self.path, access.storage()) == self.digest


@dataclass
class CheckpointSeries:
    """The checkpoints below a directory.

    Within a job, checkpoints are in the order of their ids. If the job began again in its directory and counts from 1, their
    times decide; see :func:`~state_processor.backends.metadata.checkpoint_order.in_order`. A job that is restored continues in a
    new directory, and its ids continue; its checkpoints follow the checkpoints of the job before it. Savepoints below the
    directory are checkpoints too.

    A checkpoint is identified by its path and the digest of its ``_metadata``. Paths and times only save reading ``_metadata``
    again; the digest of the newest checkpoint, and of the checkpoint of a position, is computed in each look.
    """

    # the checkpoint directory of a job, or the directory above it, which also has the checkpoints of restored jobs
    directory: str | PathLike[str]
    access: SnapshotAccess  # how snapshots are opened
    _snapshots: list[SnapshotInfo] = field(default_factory=list)
    _checkpoints: dict[tuple[str, datetime | None], Checkpoint] = field(default_factory=dict)
    _files: dict[str, frozenset[str]] = field(default_factory=dict)
    _reported_doubts: set[tuple[str, str]] = field(default_factory=set)

    def whole(self) -> list[Checkpoint]:
        """Return the whole checkpoints in their order. A checkpoint is whole if all of its files are there."""
        for _ in range(_ATTEMPTS):
            checkpoints = self._look()
            if checkpoints and not checkpoints[-1].is_stored(self.access):
                self._forget()
            elif checkpoints or not any(info.is_complete is None for info in self._snapshots):
                return checkpoints
        return []  # each one was removed before it was opened, or lacks files

    def _forget(self) -> None:
        """Read each ``_metadata`` again in the next look: one was replaced."""
        self._snapshots, self._checkpoints = [], {}

    def _look(self) -> list[Checkpoint]:
        self._snapshots = snapshots = find_snapshots(self.directory, self.access.storage(), DEPTH, self._snapshots).snapshots
        by_job: dict[str, list[Checkpoint]] = {}
        seen: dict[tuple[str, datetime | None], Checkpoint] = {}
        for info in snapshots:
            checkpoint = self._checkpoint(info)
            if checkpoint is not None:
                seen[info.path, info.time] = checkpoint
                by_job.setdefault(_job(info), []).append(checkpoint)
        self._checkpoints = seen
        jobs: list[list[Checkpoint]] = []
        for checkpoints in by_job.values():
            order = in_order((c.mark for c in checkpoints), self._files_of)
            self._warn(order.doubts)
            jobs.append(order.checkpoints)
        return _jobs_in_order(jobs)

    def _files_of(self, checkpoint: Checkpoint) -> frozenset[str]:
        """Return the files of a checkpoint by their recorded paths; a file beside ``_metadata`` belongs to it alone."""
        if checkpoint.digest not in self._files:
            snapshot = checkpoint.open(self.access)
            if snapshot is None:  # the next look may find it whole
                return frozenset()
            self._files[checkpoint.digest] = recorded_files(snapshot.metadata)
        return self._files[checkpoint.digest]

    def _warn(self, doubts: Iterable[Doubt[Checkpoint]]) -> None:
        """Warn once of each checkpoint that may be newer than the newest one, or that seems so by its id."""
        for doubt in doubts:
            if (doubt.newest.path, doubt.rival.path) not in self._reported_doubts:
                self._reported_doubts.add((doubt.newest.path, doubt.rival.path))
                _LOG.warning("%s", doubt.text(str))

    def _checkpoint(self, info: SnapshotInfo) -> Checkpoint | None:
        """Return a checkpoint if it is whole. Only the files of new ones are looked for."""
        if info.is_complete is False or info.checkpoint_id is None or info.time is None:
            return None
        checkpoint = self._checkpoints.get((info.path, info.time))
        if checkpoint is not None:
            return checkpoint
        try:
            snapshot = self.access.open(info.path)
            if check_files(snapshot).problems:
                return None
        except StateProcessorError:  # it was removed meanwhile
            return None
        return Checkpoint(info.path, info.checkpoint_id, round(info.time.timestamp() * 1000), snapshot.digest)

    def newest(self) -> Checkpoint:
        """Return the newest whole checkpoint."""
        checkpoints = self.whole()
        if not checkpoints:
            raise self.nothing_whole()
        return checkpoints[-1]

    def open_newest(self) -> tuple[Checkpoint, Snapshot]:
        """Open the newest whole checkpoint."""
        for _ in range(_ATTEMPTS):
            newest = self.newest()
            snapshot = newest.open(self.access)
            if snapshot is not None:
                return newest, snapshot
        raise MissingFileError(
            f"{newest} was removed while it was opened. Let the job retain more checkpoints (state.checkpoints.num-retained)"
        )

    def nothing_whole(self) -> NotFoundError:
        """Return the error about a directory without a whole checkpoint."""
        return NotFoundError(f"{self.directory} does not have a whole checkpoint: start after the first one is complete")

    def of_id(self, checkpoint_id: int, checkpoints: Sequence[Checkpoint]) -> Checkpoint:
        """Return the last of some checkpoints with an id."""
        matching = [c for c in checkpoints if c.checkpoint_id == checkpoint_id]
        if not matching:
            ids = ", ".join(str(c.checkpoint_id) for c in checkpoints) or "none"
            raise NotFoundError(f"checkpoint {checkpoint_id} is not whole in {self.directory}; whole checkpoints: {ids}")
        return matching[-1]

    def after(self, position: Checkpoint | None) -> list[Checkpoint]:
        """Return the checkpoints after a position, in their order. Without a position, return all checkpoints.

        If the checkpoint of the position is gone, the list has the newest one alone: changes between two checkpoints need both.
        The newest one may be older than the position, in a directory that was restored from a backup. The same applies if the
        checkpoint of the position is in another directory. If it is in this one and lacks files, only a later checkpoint follows.
        """
        checkpoints = self.whole()
        if position is None:
            return checkpoints
        is_stored = position.is_stored(self.access)
        places = [i for i, c in enumerate(checkpoints) if (c.path, c.digest) == (position.path, position.digest)]
        if places and is_stored:
            return checkpoints[places[-1] + 1 :]
        if places:
            self._forget()
            checkpoints = self.whole()
        is_here = is_stored and any(info.path == position.path for info in self._snapshots)
        return [c for c in checkpoints[-1:] if not is_here or c.is_after(position)]


def _job(info: SnapshotInfo) -> str:
    return info.job_id[:JOB_DIGITS] if info.job_id else str(Location.parse(info.path).parent)


def _jobs_in_order(jobs: list[list[Checkpoint]]) -> list[Checkpoint]:
    jobs.sort(key=lambda job: (min(c.time for c in job), job[0].checkpoint_id))
    for earlier, later in pairwise(jobs):
        if max(c.time for c in earlier) > min(c.time for c in later):
            raise UnsupportedFormatError(
                f"two jobs take checkpoints at the same time: {earlier[-1]}, and {later[0]}. Pass the checkpoint directory of one"
            )
    return list(chain.from_iterable(jobs))


States = dict[str, list[StateDescription]]


class MissingOperatorError(NotFoundError):
    """An operator, or its state, is missing in a checkpoint of a job that had it."""


def check_operator(checkpoint: object, old: Snapshot | None, new: Snapshot, operator: OperatorIdentifier, state: str) -> None:
    """Check that a checkpoint has an operator that an earlier checkpoint had, and its state under the same name.

    Flink records each operator of a job, also one without state. A missing operator has another uid now, or is not in the job any
    more.

    ``checkpoint``: the checkpoint, for messages. ``old``: the earlier checkpoint; ``None`` if it is gone. ``operator`` and
    ``state``: the operator and the state that were there.
    """
    earlier = old.metadata.operators_by_id if old is not None else {}
    stored = new.metadata.operators_by_id
    advice = f"Pass the new name for a new table or query, or {spelled('allow_missing', True)} if all rows are to be deleted"
    if operator.uid_hash not in stored:
        added = list(without_keys(stored, earlier).values())
        names = [o.label for o, states in _states(new, added) if state in states]
        near = names or get_close_matches(str(operator), [o.label for o in added], n=2)
        raise MissingOperatorError(f"{checkpoint} does not have the operator {operator} any more.{_renamed(near)} {advice}")
    before = earlier.get(operator.uid_hash)
    if old is None or before is None:
        return
    ((_, states),), ((_, had),) = _states(new, [stored[operator.uid_hash]]), _states(old, [before])
    if state not in states and state in had:
        likely = [shown_name(n) for n, variants in states.items() if n not in had and _alike(variants[0], had[state][0])]
        if likely:
            missing = f"the state {shown_name(state)!r} of operator {operator}"
            raise MissingOperatorError(f"{checkpoint} does not have {missing} any more.{_renamed(likely)} {advice}")


def _renamed(names: list[str]) -> str:
    return f" Its new name is likely {' or '.join(map(repr, names))}." if names else ""


def _states(snapshot: Snapshot, operators: list[OperatorState]) -> list[tuple[OperatorState, States]]:
    return [(o, survey[0]) for o, survey in zip(operators, surveys(snapshot, operators), strict=True)]


def _alike(state: StateDescription, earlier: StateDescription) -> bool:
    """Return whether two states have the same kind and types."""
    return state.kind == earlier.kind and _types_of(state) == _types_of(earlier)


def _types_of(state: StateDescription) -> dict[str, bytes]:
    return {role: serializer.snapshot().to_bytes() for role, serializer in state.serializers.items()}


KIND_OF_CHANGE: Final = "_change"
CHECKPOINT_ID: Final = "_checkpoint_id"
CHECKPOINT_TIME: Final = "_checkpoint_time"
FULL: Final = "_full"
VALUE: Final = "value"
MAP_KEY: Final = "map_key"
MAP_VALUE: Final = "map_value"
CONTROL: Final = (
    pa.field(KIND_OF_CHANGE, pa.string()),
    pa.field(CHECKPOINT_ID, pa.int64()),
    pa.field(CHECKPOINT_TIME, pa.timestamp("us", tz="UTC")),
    pa.field(FULL, pa.bool_()),
)
"""The columns in front of the columns of the state."""


@dataclass(frozen=True, slots=True)
class ChangedState:
    """The state whose changes are read, and how its values are represented.

    With ``allow_missing``, all rows of an operator or a state that a later checkpoint does not have are deleted.
    """

    operator: OperatorIdentifier
    state: str
    read: ReadOptions
    allow_missing: bool = False

    def __str__(self) -> str:
        return f"state {self.state!r} of operator {self.operator}"


@dataclass(frozen=True, slots=True)
class Step:
    """The way from one checkpoint to a later one; ``before`` is ``None`` for a full step."""

    before: Checkpoint | None
    after: Checkpoint


@dataclass(frozen=True)
class StepReader:
    """Reads the changes of a step; it can be pickled."""

    step: Step  # the two checkpoints
    reader: StateReader  # reads the difference of both
    note: str = ""  # the earlier checkpoints that the later checkpoint has state from; see :attr:`StoredOperator.mixed_times`

    @classmethod
    def open(cls, step: Step, old: Snapshot | None, new: Snapshot, state: ChangedState) -> StepReader:
        """Open a step.

        ``step``: the checkpoints. ``old`` and ``new``: their snapshots.
        """
        if old is not None and not state.allow_missing:
            check_operator(step.after, old, new, state.operator, state.state)
        reader = open_changes(old, new, state.operator.uid_hash, state.state, state.read)
        step_reader = cls(step, reader, _mixed_times(new, state.operator.uid_hash))
        if not getattr(reader, "has_same_keys", True):
            raise UnsupportedFormatError(
                f"{state} has keys of another type in {step.after} than in {step.before}: a key would be deleted and inserted. "
                "Start again with startingCheckpoint=snapshot"
            )
        types = dict(zip(reader.schema.names, reader.schema.types, strict=True))
        if BEFORE in types and types[BEFORE] != types[AFTER]:
            raise UnsupportedFormatError(
                f"{state} has values of the type {types[BEFORE]} in {step.before}, and {types[AFTER]} in "
                f"{step.after}: the columns of a table do not change. Start again with startingCheckpoint=snapshot"
            )
        if step_reader.note:
            _LOG.warning("%s", step_reader.note)
        return step_reader

    @classmethod
    def open_if_known(cls, step: Step, old: Snapshot | None, new: Snapshot, state: ChangedState) -> StepReader | None:
        """Open a step as :meth:`open` does; ``None`` if neither of two checkpoints has the state.

        A job that starts again without state registers a state with its first record.
        """
        try:
            return cls.open(step, old, new, state)
        except MissingOperatorError:
            raise
        except NotFoundError:
            if old is None:
                raise
            return None

    @property
    def identity(self) -> list[str]:
        """The columns that identify a value."""
        return [n for n in self.reader.schema.names if n not in (CHANGE, BEFORE, AFTER)]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the rows: :data:`CONTROL`, identifying columns, the value, and ``before``.

        Identifying columns may be null, unlike in differences: see :meth:`mark_of_empty_state`.
        """
        columns = pa.schema([field.with_nullable(True) for field in self.reader.schema])
        fields = [*CONTROL, *map(columns.field, self.identity)]
        if AFTER in columns.names:
            fields += [columns.field(AFTER).with_name(value_name(columns)), columns.field(BEFORE)]
        return pa.schema(fields)

    def splits(self, *split_bytes: int) -> list[Any]:
        """Plan the parts for tasks, of the default size or another."""
        return list(self.reader.splits(*split_bytes))

    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        """Read the changes in a part."""
        with still_there(self.step):
            for batch in self.reader.read(split):
                yield self._labelled(batch)

    def _labelled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        values = [n for n in (AFTER, BEFORE) if n in columns]
        rest = [columns[n] for n in (*self.identity, *values)]
        return pa.RecordBatch.from_arrays([*self._control(columns[CHANGE]), *rest], schema=self.schema)

    def _control(self, changes: pa.Array) -> list[pa.Array]:
        after = self.step.after
        values = (after.checkpoint_id, after.moment, self.step.before is None)
        return [changes, *(pa.repeat(pa.scalar(v, f.type), len(changes)) for v, f in zip(values, CONTROL[1:], strict=True))]

    def mark_of_empty_state(self) -> pa.RecordBatch:
        """Return the row of a full step that does not have rows: ``_change`` and the key are null, ``_full`` is true."""
        of_state = [pa.nulls(1, field.type) for field in list(self.schema)[len(CONTROL) :]]
        return pa.RecordBatch.from_arrays([*self._control(pa.nulls(1, pa.string())), *of_state], schema=self.schema)

    def is_empty(self) -> bool:
        """Return whether the step does not have rows."""
        batches = chain.from_iterable(map(self.read, self.splits()))
        return not any(batch.num_rows for batch in batches)


def _mixed_times(snapshot: Snapshot, operator_id: str) -> str:
    operator = snapshot.metadata.operators_by_id.get(operator_id)
    return "" if operator is None else StoredOperator(snapshot, operator).mixed_times


def stream_schema(schema: pa.Schema, *, with_before: bool) -> pa.Schema:
    """Return the columns of a stream: the columns of a step, with the earlier value on request."""
    return schema if with_before else pa.schema([f for f in schema if f.name != BEFORE])


def value_name(difference: pa.Schema) -> str:
    """Return the name of the value column, as reads of the state have it."""
    return MAP_VALUE if MAP_KEY in difference.names else VALUE


@contextmanager
def still_there(step: Step) -> Iterator[None]:
    """Report files that are gone as the removal of a checkpoint of the step."""
    try:
        yield
    except (MissingFileError, NotASnapshotError) as error:
        places = " or ".join(c.path for c in (step.before, step.after) if c is not None)
        raise MissingFileError(
            f"{places} was removed while it was read. Start again: the next read continues with the newest whole checkpoint. Let "
            f"the job retain more checkpoints (state.checkpoints.num-retained) to avoid this. {error}"
        ) from error
