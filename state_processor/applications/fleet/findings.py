"""Findings about the newest snapshot of a job, from ``_metadata``; types are known where the headers of state were read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from state_processor.command_line import count_text
from state_processor.errors import StateProcessorError
from state_processor.serializers import KryoSerializerSnapshot, TypeSerializerSnapshot
from state_processor.snapshots import LAYOUTS, OperatorState, RegisteredStates, Snapshot, some_of
from state_processor.states import COMMITTABLE, COMMITTER_STATE, ROLE, TRANSACTION, read_sink_state, sink_state

KINDS: Final = ("without-uid", "lost-operator", "kryo", "regional-checkpoint", "transactions", "not-restorable")
"""Kinds of findings, for alerts."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding: its kind, one of :data:`KINDS`, and a sentence."""

    kind: str
    text: str

    def as_row(self) -> dict[str, Any]:
        """Return the finding as a value of a table."""
        return {"kind": self.kind, "text": self.text}


@dataclass(frozen=True, slots=True)
class SnapshotFindings:
    """Findings about a snapshot, and the checks that need more than was read."""

    found: Sequence[Finding]
    unchecked: Sequence[str]


def findings(
    snapshot: Snapshot, earlier: Snapshot | None, registered: RegisteredStates, age: timedelta | None, timeout: timedelta
) -> SnapshotFindings:
    """Return the findings about a snapshot.

    ``snapshot``: the newest snapshot of a job. ``earlier``: an earlier snapshot of the job, to see which operators are gone;
    ``None`` without one. ``registered``: the states whose headers were read. ``age``: the age of the snapshot; ``None`` if it is
    unknown. ``timeout``: the time after which brokers abort transactions of sinks.
    """
    transactions, unread = _transactions(snapshot, age, timeout)
    findings_ = [*_uids(snapshot), *_lost(snapshot, earlier), *_kryo(registered), *_regional(snapshot), *transactions]
    return SnapshotFindings(findings_, [*_unchecked(snapshot, registered), *unread])


def _uids(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield the operators with state whose uids Flink made from the graph of the job. Flink 1.x does not record uids."""
    if LAYOUTS[snapshot.metadata.version].names:
        generated = [o.name or o.operator_id for o in snapshot.metadata.operators if o.has_state and not o.uid]
        if generated:
            yield Finding("without-uid", f"without a uid, so that a change of the job loses the state: {some_of(generated)}")


def _lost(snapshot: Snapshot, earlier: Snapshot | None) -> Iterator[Finding]:
    if earlier is None:
        return
    present = {operator.operator_id for operator in snapshot.metadata.operators}
    lost = [o.label for o in earlier.metadata.operators if o.has_state and o.operator_id not in present]
    if lost:
        number = earlier.metadata.checkpoint_id
        yield Finding("lost-operator", f"with state in checkpoint {number}, and gone now: {some_of(lost)}")


def _kryo(registered: RegisteredStates) -> Iterator[Finding]:
    states = [f"{s.operator}/{s.name}" for s in registered.states if any(map(_has_kryo, s.snapshots.values()))]
    if states:
        yield Finding("kryo", f"Kryo writes values of {count_text(len(states))} states: {some_of(states)}")


def _has_kryo(part: TypeSerializerSnapshot) -> bool:
    return isinstance(part, KryoSerializerSnapshot) or any(_has_kryo(child) for _, child in part.named_children)


def _regional(snapshot: Snapshot) -> Iterator[Finding]:
    older = {o.label: min(o.reference_checkpoints) for o in snapshot.metadata.operators if o.reference_checkpoints}
    if older:
        text = f"subtasks have the state of an earlier checkpoint, from {min(older.values())} on: {some_of([*older])}"
        yield Finding("regional-checkpoint", text)


def _transactions(snapshot: Snapshot, age: timedelta | None, timeout: timedelta) -> tuple[list[Finding], list[str]]:
    """Return the sinks whose transactions of Kafka are older than the timeout, and the sinks whose commits were not read."""
    aged, unread = [], []
    for operator in snapshot.metadata.operators:
        if not _is_committer(operator):
            continue
        try:
            rows = read_sink_state(sink_state(snapshot, operator, operator.uid, operator.operator_id)).to_pylist()
        except StateProcessorError:
            unread.append(f"transactions of {operator.label}")
            continue
        pending = sum(row[ROLE] == COMMITTABLE and row.get(TRANSACTION) is not None for row in rows)
        if pending and age is None:
            unread.append(f"the age of {count_text(pending)} transactions of {operator.label}")
        elif pending and age is not None and age > timeout:
            transactions = f"{operator.label}: {count_text(pending)} transactions are older than {timeout}"
            aged.append(
                Finding("transactions", f"{transactions}; brokers with this limit have aborted them, and their rows are lost")
            )
    return aged, unread


def _is_committer(operator: OperatorState) -> bool:
    handles = (subtask.managed_operator for subtask in operator.subtasks)
    return any(state.name == COMMITTER_STATE for handle in handles if handle is not None for state in handle.states)


def _unchecked(snapshot: Snapshot, registered: RegisteredStates) -> Iterator[str]:
    if not LAYOUTS[snapshot.metadata.version].names:
        yield "uids, which Flink 1.x does not record"
    if registered.unread:
        yield f"types of {count_text(len(registered.unread))} operators, whose headers were not read"
