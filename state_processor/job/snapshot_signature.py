"""The signature of the job that wrote a snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.keyed_handles import keyed_handles
from state_processor.backends.read.state_listing import Survey, surveys
from state_processor.backends.state import state_headers
from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.state.python_states import shown_name
from state_processor.backends.write.store_writer import FORST, ROCKSDB
from state_processor.job.signature import VALUE, JobSignature, OperatorSignature, StateSignature

_STORES: Final = (ROCKSDB, FORST)


def signature_of_snapshot(snapshot: Snapshot) -> JobSignature:
    """Return the signature of the job that wrote a snapshot, from the headers of its state files."""
    operators = snapshot.metadata.operators
    found = (_operator(snapshot, *pair) for pair in zip(operators, surveys(snapshot, operators), strict=True))
    return JobSignature(tuple(found), flink=f"{snapshot.flink_major}.x")


def _operator(snapshot: Snapshot, operator: OperatorState, surveyed: Survey) -> OperatorSignature:
    variants, unread = surveyed
    states = {shown_name(name): _state(variants[name]) for name in sorted(variants)}
    for left in unread:
        name = "" if left.name is None else shown_name(left.name)
        states[name] = StateSignature(name, left.kind or "", unread=str(left.error))
    backends = {state.backend for found in variants.values() for state in found if state.is_keyed}
    backend = ", ".join(sorted(backends)) or None
    return OperatorSignature(
        operator.uid,
        operator.operator_id,
        operator.name,
        operator.parallelism,
        operator.max_parallelism,
        states,
        asynchronous=_is_asynchronous(snapshot, operator) if backend in _STORES else None,
        backend=backend,
        has_state=operator.has_state,
    )


def _state(variants: Iterable[StateDescription]) -> StateSignature:
    """Return the signature of a state, by the registration of the first subtask that has it."""
    state = next(iter(variants))
    parts = {part: serializer.snapshot() for part, serializer in state.serializers.items()}
    if state.is_timer:
        parts.pop(VALUE, None)
    return StateSignature(shown_name(state.name), state.kind, parts, state.has_ttl)


def _is_asynchronous(snapshot: Snapshot, operator: OperatorState) -> bool:
    """Return whether the first file registers its states for the asynchronous API."""
    headers = (handle.open(snapshot).header for handle in keyed_handles(operator, snapshot) if not handle.raw)
    first = next(headers, None)
    return first is not None and any(meta.backend_type == state_headers.KEY_VALUE_V2 for meta in first.states)
