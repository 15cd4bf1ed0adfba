"""The state of a sink as a table: the state of its writers, and the committables of its committers.

Flink: ``SinkWriterOperator`` (``StatefulSinkWriterStateHandler``), ``CommitterOperator``, ``SinkTransformationTranslator``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from state_processor.backends.connectors.committables import COLLECTORS, Collector
from state_processor.backends.connectors.connector import (
    CHECKPOINT,
    COMMITTABLE,
    RAW,
    RAW_BYTES,
    RETRIES,
    ROLE,
    STATUS,
    SUBTASK,
    VERSION,
    WRITER,
    Formats,
    SinkConnector,
    Values,
    Versioned,
    fits,
    naming_foreign_code,
)
from state_processor.backends.connectors.registry import sinks
from state_processor.backends.connectors.source_splits import undecoded_elements, versioned_elements
from state_processor.backends.metadata.operator_id import operator_id, uids_of_sink
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.stored_operator import find_operator, operator_label, state_variants
from state_processor.backends.state.descriptions import OperatorListDescription
from state_processor.support.doors import checked_choice, spelled
from state_processor.support.errors import NotFoundError, OptionError, StateProcessorError

WRITER_STATES: Final = ("writer_raw_states", "bucket-states")
"""The list state of a sink's writers, for Sink V1 and V2 and for ``StreamingFileSink``."""

COMMITTER_STATE: Final = "streaming_committer_raw_states"
"""The list state of a sink's committers. Before Flink 1.15, writers and committers can be one operator."""


@dataclass(frozen=True, slots=True)
class ListOfBytes:
    """A list state of an operator: its elements, each with its subtask.

    ``state`` describes a list whose elements are bytes without a version (:attr:`SinkConnector.own_states`).
    """

    operator: OperatorState
    name: str
    elements: tuple[tuple[int, Versioned], ...]
    state: OperatorListDescription | None = None

    def to_bytes(self, element: Versioned) -> bytes:
        """Return the bytes of an element in the list."""
        return element.to_bytes() if self.state is None else element.data


@dataclass(frozen=True, slots=True)
class SinkState:
    """The state of a sink; ``None`` for a missing part."""

    label: str
    writer: ListOfBytes | None
    committer: ListOfBytes | None

    @property
    def writers(self) -> tuple[tuple[int, Versioned], ...]:
        """The state of each writer, with its subtask."""
        return self.writer.elements if self.writer is not None else ()

    @property
    def committers(self) -> tuple[tuple[int, Versioned], ...]:
        """The elements of the committers' list, with their subtask."""
        return self.committer.elements if self.committer is not None else ()

    def collectors(self) -> list[tuple[int, Collector]]:
        """Return the committables of each committer, with its subtask."""
        return [(subtask, COLLECTORS.read(e, f"{self.label}, subtask {subtask}, committables")) for subtask, e in self.committers]


def sink_state(snapshot: Snapshot, writer: OperatorState, uid: str | None, committer: str | None) -> SinkState:
    """Return the state of a sink.

    ``snapshot`` and ``writer``: where the sink is: the operator with its uid. ``uid``: the uid. Flink derives the uid of the
    committers from it. ``None`` if it is unknown. ``committer``: the uid hash of the committers, where it does not follow from
    the uid.
    """
    label = operator_label(writer)
    committers = _committer(snapshot, uid or writer.uid, committer)
    operators = [writer] if committers is None or committers.operator_id == writer.operator_id else [committers, writer]
    own_names = [(role, name) for sink in sinks().values() for role, name in sink.own_states.items()]
    writer_states = (*WRITER_STATES, *(name for role, name in own_names if role == WRITER))
    committer_states = (COMMITTER_STATE, *(name for role, name in own_names if role == COMMITTABLE))
    state = SinkState(label, _first(snapshot, [writer], writer_states), _first(snapshot, operators, committer_states))
    if state.writer is None and state.committer is None:
        names = ", ".join(map(repr, (*writer_states, *committer_states)))
        raise NotFoundError(f"{label} is not a sink with state; expected one of the states {names}")
    return state


def states_of_sinks() -> frozenset[str]:
    """Return the names of the lists that contain states of sinks."""
    own_names = (name for sink in sinks().values() for name in sink.own_states.values())
    return frozenset((*WRITER_STATES, COMMITTER_STATE, *own_names))


def _committer(snapshot: Snapshot, uid: str | None, uid_hash: str | None) -> OperatorState | None:
    if uid_hash is not None:
        return find_operator(snapshot, uid_hash=uid_hash)
    derived = operator_id(uids_of_sink(uid)[0]) if uid is not None else None
    return next((o for o in snapshot.metadata.operators if o.operator_id == derived), None)


def _first(snapshot: Snapshot, operators: Sequence[OperatorState], names: Sequence[str]) -> ListOfBytes | None:
    """Return the first of some states that has elements, else the first that is there: one sink leaves another's state empty."""
    there = [(operator, name) for operator in operators for name in names if name in state_variants(snapshot, operator)]
    lists = [_list(snapshot, operator, name) for operator, name in there]
    return next((elements_list for elements_list in lists if elements_list.elements), lists[0] if lists else None)


def _list(snapshot: Snapshot, operator: OperatorState, name: str) -> ListOfBytes:
    if name in (*WRITER_STATES, COMMITTER_STATE):
        return ListOfBytes(operator, name, tuple(versioned_elements(snapshot, operator, name)))
    states = (state for state in state_variants(snapshot, operator)[name] if isinstance(state, OperatorListDescription))
    elements = tuple((subtask, Versioned(0, data)) for subtask, data in undecoded_elements(snapshot, operator, name))
    return ListOfBytes(operator, name, elements, next(states))


def read_sink_state(state: SinkState, connector: str | None = None) -> pa.Table:
    """Read the state of a sink.

    ``state``: see :func:`sink_state`. ``connector``: ``kafka``, ``file``, ``raw`` for bytes; ``None`` to find out which of them
    the bytes fit, and ``raw`` where none does.

    Returns: ``role``, ``subtask``, the connector's columns, of committables ``checkpoint_id``, ``commit_status`` and ``retries``,
    and the bytes ``raw`` with the ``version`` of their format. Rows of writers come first.
    """
    chosen = sink_connector(state, connector)
    rows = decoded_sink(state, chosen)
    return pa.Table.from_pylist(rows, sink_schema(chosen))


def sink_connector(state: SinkState, name: str | None) -> SinkConnector | None:
    """Return the connector of a name, or the one whose formats all bytes have; ``None`` if they are to stay bytes."""
    known_sinks = sinks()
    if name is not None:
        return known_sinks.get(checked_choice("connector", name, (*known_sinks, RAW)))
    if not state.writers and not _has_committables(state):
        return None
    fitting = [connector for connector in known_sinks.values() if fits(connector.name, partial(decoded_sink, state, connector))]
    if len(fitting) > 1 and not any(_has_content(state, connector) for connector in fitting):
        return None
    if len(fitting) > 1:
        names = " and ".join(repr(connector.name) for connector in fitting)
        raise OptionError(f"{state.label}: the bytes of its sink fit the connectors {names}; name one by {spelled('connector')}")
    return fitting[0] if fitting else None


def _has_committables(state: SinkState) -> bool:
    try:
        return any(s.requests for _, c in state.collectors() for p in c.checkpoints for s in p.subtasks)
    except StateProcessorError:  # committers of the sink's own
        return True


def _has_content(state: SinkState, connector: SinkConnector) -> bool:
    """Return whether rows have values: some sinks write an empty state in the same way."""
    names = [f.name for f in connector.fields]
    return any(row.get(name) is not None for row in decoded_sink(state, connector) for name in names)


def decoded_sink(state: SinkState, connector: SinkConnector | None) -> list[Values]:
    """Decode the state of a sink to rows."""
    formats: list[Formats[Any]] = [] if connector is None else [connector.writer, connector.committables]
    if connector is not None and connector.own_committer is not None:
        formats.append(connector.own_committer)
    with naming_foreign_code(state.label, *formats):
        return list(_rows(state, connector))


def _check_states(state: SinkState, connector: SinkConnector) -> None:
    """Refuse the state of another sink, by the names of its lists."""
    for role, state_list in ((WRITER, state.writer), (COMMITTABLE, state.committer)):
        own_name = connector.own_states.get(role)
        usual = WRITER_STATES if role == WRITER else (COMMITTER_STATE,)
        if state_list is not None and state_list.name not in ((own_name,) if own_name is not None else usual):
            raise NotFoundError(
                f"{state.label} has the state {state_list.name!r}. The sink {connector.name!r} does not have this state; "
                f"expected {own_name or ' or '.join(map(repr, usual))}"
            )


def _rows(state: SinkState, connector: SinkConnector | None) -> Iterator[Values]:
    if connector is not None:
        _check_states(state, connector)
    for subtask, element in state.writers:
        common = {ROLE: WRITER, SUBTASK: subtask, VERSION: element.version, RAW_BYTES: element.data}
        yield from [common | values for values in writer_values(connector, element, f"{state.label}, subtask {subtask}, writer")]
    if has_own_committers(state, connector):
        for subtask, element in state.committers:
            common = {ROLE: COMMITTABLE, SUBTASK: subtask, VERSION: element.version, RAW_BYTES: element.data}
            context = f"{state.label}, subtask {subtask}, committable"
            yield from [common | values for values in own_values(connector, element, context)]
        return
    for subtask, collector in state.collectors():
        for checkpoint in collector.checkpoints:
            for request in (request for subtask_state in checkpoint.subtasks for request in subtask_state.requests):
                written = request.committable
                values = committable_values(connector, written, f"{state.label}, subtask {subtask}, committable")
                common = {ROLE: COMMITTABLE, SUBTASK: subtask, VERSION: written.version, RAW_BYTES: written.data}
                attempts = {CHECKPOINT: checkpoint.checkpoint_id, STATUS: request.status, RETRIES: request.retries}
                yield dict(values) | common | attempts


def has_own_committers(state: SinkState, connector: SinkConnector | None) -> bool:
    """Return whether the elements of the committers' list are not the collections of Flink's committers."""
    if connector is not None:
        return connector.own_committer is not None
    try:
        state.collectors()
    except StateProcessorError:
        return True
    return False


def own_values(connector: SinkConnector | None, element: Versioned, context: str) -> list[Values]:
    """Decode an element of the list of a sink's own committers."""
    return connector.own_committer.read(element, context) if connector is not None and connector.own_committer else [{}]


def writer_values(connector: SinkConnector | None, element: Versioned, context: str) -> list[Values]:
    """Decode an element of the writers' list."""
    return connector.writer.read(element, context) if connector is not None else [{}]


def committable_values(connector: SinkConnector | None, committable: Versioned, context: str) -> Mapping[str, object]:
    """Decode a committable."""
    return connector.committables.read(committable, context) if connector is not None else {}


def sink_schema(connector: SinkConnector | None) -> pa.Schema:
    """Return the columns of a table of a sink's state."""
    return pa.schema(
        [
            pa.field(ROLE, pa.string()),
            pa.field(SUBTASK, pa.int32()),
            *(connector.fields if connector is not None else ()),
            pa.field(CHECKPOINT, pa.int64()),
            pa.field(STATUS, pa.string()),
            pa.field(RETRIES, pa.int32()),
            pa.field(VERSION, pa.int32()),
            pa.field(RAW_BYTES, pa.binary()),
        ]
    )
