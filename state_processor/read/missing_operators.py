"""Operators and states that checkpoints had, and that the newest checkpoint does not have any more: likely a new name."""

from __future__ import annotations

from difflib import get_close_matches

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.state_listing import surveys
from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.state.python_states import shown_name
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import NotFoundError
from state_processor.types.identifier import OperatorIdentifier

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
    types, earlier_types = ({n: s.snapshot().to_bytes() for n, s in d.serializers.items()} for d in (state, earlier))
    return state.kind == earlier.kind and types == earlier_types
