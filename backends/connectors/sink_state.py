"""The state of a sink as a table: the state of its writers, and the committables that its committers collected.

Flink: ``SinkWriterOperator`` (``StatefulSinkWriterStateHandler``), ``CommitterOperator``, ``SinkTransformationTranslator``;
``CommittableCollectorSerializer``, before Flink 1.15 ``StreamingCommitterStateSerializer``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Final, TypeVar

import pyarrow as pa

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
    Format,
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
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.support.doors import checked_choice, spelled
from state_processor.support.errors import NotFoundError, OptionError, StateProcessorError, UnsupportedFormatError
from state_processor.support.mappings import names_of

# Committables

RECEIVED: Final = "RECEIVED"
STATUSES: Final = (RECEIVED, "RETRY", "FAILED", "COMMITTED")
"""``CommitRequestState``, by its number."""

_MAGIC: Final = 0xB91F252C
_UNSIGNED: Final = 0xFFFFFFFF

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """A committable, how often it was tried to commit it, and with what result."""

    committable: Versioned
    retries: int = 0
    status: str = RECEIVED


@dataclass(frozen=True, slots=True)
class SubtaskCommittables:
    """Committables of one subtask of the writer: those left, and how many there were in all.

    ``subtask`` is not written before Flink 1.20, ``drained`` not from Flink 2.0 on.
    """

    requests: tuple[Request, ...]
    expected: int
    failed: int
    drained: int | None
    subtask: int | None

    def with_requests(self, requests: Sequence[Request]) -> SubtaskCommittables:
        """Return the same with other requests; committables that are left out were never to come."""
        return replace(self, requests=tuple(requests), expected=self.expected - len(self.requests) + len(requests))


@dataclass(frozen=True, slots=True)
class CheckpointCommittables:
    """Committables of one checkpoint, with the versions of their formats; ``parallelism`` is not written before Flink 1.20."""

    checkpoint_id: int | None
    subtasks: tuple[SubtaskCommittables, ...]
    parallelism: int | None = None
    version: int = 0
    request_version: int = 0


@dataclass(frozen=True, slots=True)
class Collector:
    """Committables of a committer, by checkpoint.

    ``version`` is the version of the formats of checkpoints. In the first format, it is the version of the committables, and the
    checkpoint is unknown.
    """

    checkpoints: tuple[CheckpointCommittables, ...]
    version: int = 0

    def requests(self) -> Iterator[tuple[int | None, Request]]:
        """Yield the committables, each with its checkpoint."""
        for checkpoint in self.checkpoints:
            for subtask in checkpoint.subtasks:
                for request in subtask.requests:
                    yield checkpoint.checkpoint_id, request


def _read_list(source: DataInput, read: Callable[[int, DataInput], T]) -> tuple[int, tuple[T, ...]]:
    """Read version, count, and elements with their lengths (Flink: ``readVersionAndDeserializeList``)."""
    version = source.read_int()
    elements = []
    for _ in range(source.read_count("elements", 4)):
        size = source.read_count("bytes")
        element = source.slice(source.position, source.position + size)
        elements.append(read(version, element))
        if not element.at_end():
            raise element.corrupt(f"{element.remaining} bytes are left over")
        source.position = element.end
    return version, tuple(elements)


def _write_list(target: DataOutput, version: int, elements: Sequence[bytes]) -> None:
    target.write_int(version)
    target.write_int(len(elements))
    for data in elements:
        target.write_int(len(data))
        target.write_bytes(data)


def _check_magic(source: DataInput) -> None:
    magic = source.read_int() & _UNSIGNED
    if magic != _MAGIC:
        raise source.corrupt(f"{magic:#x} is where committables have {_MAGIC:#x}", source.position - 4)


def _check_version(version: int, newest: int, title: str, source: DataInput) -> None:
    if not 0 <= version <= newest:
        raise UnsupportedFormatError(f"{source.source}: version {version} of the {title} is not known, only 0 to {newest}")


def _read_request(version: int, source: DataInput) -> Request:
    _check_version(version, 0, "requests of a committer", source)
    committable, retries = Versioned.read(source), source.read_int()
    status = source.read_int()
    if not 0 <= status < len(STATUSES):
        raise source.corrupt(f"state {status} of a request", source.position - 4)
    return Request(committable, retries, STATUSES[status])


def _request_bytes(request: Request) -> bytes:
    target = DataOutput()
    request.committable.write(target)
    target.write_int(request.retries)
    target.write_int(STATUSES.index(request.status))
    return target.to_bytes()


def _read_subtask(version: int, source: DataInput) -> tuple[int, SubtaskCommittables]:
    _check_version(version, 2, "committables of a subtask", source)
    subtask = source.read_int() if version >= 1 else None
    request_version, requests = _read_list(source, _read_request)
    expected = source.read_int()
    drained = source.read_int() if version < 2 else None
    return request_version, SubtaskCommittables(requests, expected, source.read_int(), drained, subtask)


def _subtask_bytes(subtask: SubtaskCommittables, request_version: int) -> bytes:
    target = DataOutput()
    if subtask.subtask is not None:
        target.write_int(subtask.subtask)
    _write_list(target, request_version, list(map(_request_bytes, subtask.requests)))
    target.write_int(subtask.expected)
    if subtask.drained is not None:
        target.write_int(subtask.drained)
    target.write_int(subtask.failed)
    return target.to_bytes()


def _read_checkpoint(version: int, source: DataInput) -> CheckpointCommittables:
    _check_version(version, 1, "committables of a checkpoint", source)
    checkpoint_id = source.read_long()
    parallelism = source.read_int() if version >= 1 else None
    subtask_version, subtask_lists = _read_list(source, _read_subtask)
    versions = {request_version for request_version, _ in subtask_lists} or {0}
    subtasks = tuple(subtask for _, subtask in subtask_lists)
    return CheckpointCommittables(checkpoint_id, subtasks, parallelism, subtask_version, versions.pop())


def _checkpoint_bytes(checkpoint: CheckpointCommittables) -> bytes:
    assert checkpoint.checkpoint_id is not None  # the first format lacks the checkpoint
    target = DataOutput()
    target.write_long(checkpoint.checkpoint_id)
    if checkpoint.parallelism is not None:
        target.write_int(checkpoint.parallelism)
    _write_list(target, checkpoint.version, [_subtask_bytes(s, checkpoint.request_version) for s in checkpoint.subtasks])
    return target.to_bytes()


def _read_v1(source: DataInput) -> Collector:
    _check_magic(source)
    version, elements = _read_list(source, lambda version, s: Versioned(version, s.read_bytes(s.remaining)))
    requests = tuple(map(Request, elements))
    return Collector((CheckpointCommittables(None, (SubtaskCommittables(requests, len(elements), 0, 0, None),)),), version)


def _write_v1(collector: Collector, target: DataOutput) -> None:
    target.write_int(_MAGIC - (1 << 32))
    (checkpoint,) = collector.checkpoints
    (subtask,) = checkpoint.subtasks
    _write_list(target, collector.version, [request.committable.data for request in subtask.requests])


def _read_v2(source: DataInput) -> Collector:
    _check_magic(source)
    version, checkpoints = _read_list(source, _read_checkpoint)
    return Collector(checkpoints, version)


def _write_v2(collector: Collector, target: DataOutput) -> None:
    target.write_int(_MAGIC - (1 << 32))
    _write_list(target, collector.version, list(map(_checkpoint_bytes, collector.checkpoints)))


COLLECTORS: Final = Formats("committables of a sink", {1: (Format(_read_v1, _write_v1),), 2: (Format(_read_v2, _write_v2),)})
"""Version 1 was written before Flink 1.15, version 2 with several formats inside it since then."""


# The state of a sink

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
    writer_states = (*WRITER_STATES, *_own_states(WRITER))
    committer_states = (COMMITTER_STATE, *_own_states(COMMITTABLE))
    state = SinkState(label, _first(snapshot, [writer], writer_states), _first(snapshot, operators, committer_states))
    if state.writer is None and state.committer is None:
        names = ", ".join(map(repr, (*writer_states, *committer_states)))
        raise NotFoundError(f"{label} is not a sink with state; expected one of the states {names}")
    return state


def states_of_sinks() -> frozenset[str]:
    """Return the names of the lists that contain states of sinks."""
    return frozenset((*WRITER_STATES, COMMITTER_STATE, *_own_states(WRITER), *_own_states(COMMITTABLE)))


def _own_states(role: str) -> Iterator[str]:
    """Yield the names of the states of a role that connectors name themselves."""
    return (sink.own_states[role] for sink in sinks().values() if role in sink.own_states)


def _committer(snapshot: Snapshot, uid: str | None, uid_hash: str | None) -> OperatorState | None:
    if uid_hash is not None:
        return find_operator(snapshot, uid_hash=uid_hash)
    return snapshot.metadata.operators_by_id.get(operator_id(uids_of_sink(uid)[0])) if uid is not None else None


def _first(snapshot: Snapshot, operators: Sequence[OperatorState], names: Sequence[str]) -> ListOfBytes | None:
    """Return the first of some states that has elements, else the first that is there: one sink leaves another's state empty."""
    first = None
    for operator, name in product(operators, names):
        if name in state_variants(snapshot, operator):
            state_list = _list(snapshot, operator, name)
            if state_list.elements:
                return state_list
            first = first or state_list
    return first


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
        return any(any(collector.requests()) for _, collector in state.collectors())
    except StateProcessorError:  # committers of the sink's own
        return True


def _has_content(state: SinkState, connector: SinkConnector) -> bool:
    """Return whether rows have values: some sinks write an empty state in the same way."""
    cells = product(decoded_sink(state, connector), names_of(connector.fields))
    return any(row.get(name) is not None for row, name in cells)


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
        for checkpoint_id, request in collector.requests():
            written = request.committable
            values = committable_values(connector, written, f"{state.label}, subtask {subtask}, committable")
            common = {ROLE: COMMITTABLE, SUBTASK: subtask, VERSION: written.version, RAW_BYTES: written.data}
            attempts = {CHECKPOINT: checkpoint_id, STATUS: request.status, RETRIES: request.retries}
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
