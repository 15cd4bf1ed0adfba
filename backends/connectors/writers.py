"""What wrote the state of an operator that is only bytes: sources and sinks by the formats of their bytes, and raw state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from state_processor.backends.connectors.connector import Connector, SinkConnector, Versioned
from state_processor.backends.connectors.sink_state import sink_connector, sink_state, states_of_sinks
from state_processor.backends.connectors.source_splits import READER_STATE, recognized, source_state
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.stored_operator import own_raw_keyed
from state_processor.support.errors import StateProcessorError

UNKNOWN_WRITER: Final = "unknown"
"""The end of a name of :func:`writers_of_bytes` if the bytes fit no connector, or several."""


def states_of_connectors() -> frozenset[str]:
    """Return the names of the lists that contain states of sources and sinks."""
    return states_of_sinks() | {READER_STATE}


def writers_of_bytes(snapshot: Snapshot, operator: OperatorState, states: Collection[str]) -> Iterator[str]:
    """Yield the writers with the versions of their formats: ``source kafka (splits 0, enumerator 1)``, ``sink file (writer 3)``.

    ``states``: the names of the operator's states.
    """
    if READER_STATE in states or operator.coordinator_state is not None:
        yield f"source {_connector_name(lambda: _source(snapshot, operator))}"
    if not states_of_sinks().isdisjoint(states):
        yield f"sink {_connector_name(lambda: _sink(snapshot, operator))}"
    if any(own_raw_keyed(snapshot, operator, subtask) is not None for subtask in operator.subtasks):
        yield f"raw keyed state {UNKNOWN_WRITER}"
    if any(subtask.raw_operator is not None for subtask in operator.subtasks):
        yield f"raw operator state {UNKNOWN_WRITER}"


def _connector_name(recognize: Callable[[], str]) -> str:
    """Return the name of the only connector that fits bytes."""
    try:
        return recognize()
    except StateProcessorError:
        return UNKNOWN_WRITER


def _source(snapshot: Snapshot, operator: OperatorState) -> str:
    state = source_state(snapshot, operator)
    connector = recognized(state)
    enumerator = () if state.coordinator is None else (state.coordinator.enumerator,)
    return _with_versions(connector, splits=[split for _, split in state.splits], enumerator=enumerator)


def _sink(snapshot: Snapshot, operator: OperatorState) -> str:
    state = sink_state(snapshot, operator, None, None)
    return _with_versions(sink_connector(state, None), writer=[element for _, element in state.writers])


def _with_versions(connector: Connector | SinkConnector | None, **parts: Iterable[Versioned]) -> str:
    """Return the name of a connector with the versions of its formats: another release may write others."""
    if connector is None:
        return UNKNOWN_WRITER
    texts = []
    for part, elements in parts.items():
        versions = sorted({element.version for element in elements})
        if versions:
            texts.append(f"{part} {' and '.join(map(str, versions))}")
    return f"{connector.name} ({', '.join(texts)})"
