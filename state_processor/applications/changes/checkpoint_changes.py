"""The changes of a state from one checkpoint to the next as rows.

The rows of a step have the columns ``_change``, ``_checkpoint_id``, ``_checkpoint_time`` and ``_full``, then the columns that
identify a value, then the value. If the earlier checkpoint is gone, a step has everything that the later one has: such a step is
*full*, and replaces the rows before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from logging import getLogger
from typing import Any, Final

import pyarrow as pa

from state_processor import OperatorIdentifier
from state_processor.applications.changes.checkpoint_series import Checkpoint
from state_processor.applications.changes.comparison import AFTER, BEFORE, CHANGE
from state_processor.applications.changes.state_difference import open_changes
from state_processor.errors import MissingFileError, NotASnapshotError, NotFoundError, UnsupportedFormatError
from state_processor.options import ReadOptions, spelled
from state_processor.snapshots import OperatorState, Snapshot
from state_processor.states import StateDescription, StateReader, StoredOperator, shown_name, surveys
from state_processor.support import cached_property

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
    earlier = {o.operator_id for o in old.metadata.operators} if old is not None else set()
    stored = {o.operator_id: o for o in new.metadata.operators}
    advice = f"Pass the new name for a new table or query, or {spelled('allow_missing', True)} if all rows are to be deleted"
    if operator.uid_hash not in stored:
        added = [o for o in stored.values() if o.operator_id not in earlier]
        names = [o.label for o, states in _states(new, added) if state in states]
        near = names or get_close_matches(str(operator), [o.label for o in added], n=2)
        raise MissingOperatorError(f"{checkpoint} does not have the operator {operator} any more.{_renamed(near)} {advice}")
    before = next((o for o in old.metadata.operators if o.operator_id == operator.uid_hash), None) if old is not None else None
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


_LOG: Final = getLogger("state_processor")
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
        types = {f.name: f.type for f in reader.schema}
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
        columns = {n: batch.column(n) for n in batch.schema.names}
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
        return not any(batch.num_rows for split in self.splits() for batch in self.read(split))


def _mixed_times(snapshot: Snapshot, operator_id: str) -> str:
    operators = (StoredOperator(snapshot, o) for o in snapshot.metadata.operators if o.operator_id == operator_id)
    return "".join(operator.mixed_times for operator in operators)


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
