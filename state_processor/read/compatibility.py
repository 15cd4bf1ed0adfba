"""Compatibility of a state with the type that a new job declares."""

from __future__ import annotations

from collections.abc import Iterator

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.stored_operator import operator_label, state_variants
from state_processor.backends.state.descriptions import MapDescription, StateDescription
from state_processor.backends.state.python_states import shown_name, stored_name
from state_processor.serializers.base import SchemaCompatibility, TypeSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.runtime.wrapping import TtlAwareSerializerSnapshot, TtlSerializer
from state_processor.serializers.table.rowdata import resolve_by_name
from state_processor.support.errors import NotFoundError
from state_processor.types.state_specs import check_type


def check_compatibility(
    snapshot: Snapshot, operator: OperatorState, state: str, new_type: TypeSerializer, *, schema_evolution: bool = False
) -> SchemaCompatibility:
    """Return the worst verdict over all subtasks; see :meth:`~state_processor.SavepointReader.check_compatibility`."""
    variants = state_variants(snapshot, operator)
    state = stored_name(state, variants)
    if state not in variants:
        raise NotFoundError.naming_nearest("state", state, map(shown_name, variants), operator_label(operator))
    check_type("new_type", new_type)
    verdicts: list[SchemaCompatibility] = []
    for stored in variants[state]:
        verdicts += _verdicts(stored, new_type, schema_evolution)
    return SchemaCompatibility.worst(*verdicts)


def _verdicts(state: StateDescription, new_type: TypeSerializer, schema_evolution: bool = False) -> Iterator[SchemaCompatibility]:
    """Yield the verdicts for the parts of a state: a map's key and value, a list's element, any other state's value."""
    required = new_type
    if isinstance(state, MapDescription) and state.map_key is not None:
        if not isinstance(new_type, MapSerializer):
            yield SchemaCompatibility.incompatible(f"the state is a MAP, the new type is {new_type}")
            return
        yield state.map_key.snapshot().resolve_schema_compatibility(new_type.key)
        required = new_type.value.inner
    elif state.kind == "LIST" and isinstance(new_type, ListSerializer):
        required = new_type.element
    written = state.value
    by_name = resolve_by_name(written, required) if schema_evolution and state.is_keyed else None
    if by_name is not None:
        yield by_name
    elif isinstance(written, TtlSerializer) == isinstance(required, TtlSerializer):
        yield written.snapshot().resolve_schema_compatibility(required)
    elif isinstance(written, TtlSerializer):  # a type without time-to-live leaves the state's
        yield written.value.snapshot().resolve_schema_compatibility(required)
    else:
        yield TtlAwareSerializerSnapshot.of(written.snapshot()).resolve_schema_compatibility(
            TtlAwareSerializerSnapshot.of(required.snapshot())
        )
