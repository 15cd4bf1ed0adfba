"""Signatures of jobs: from a snapshot, and from a file in one of the known forms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any, Final, Unpack

from state_processor.applications.flink_sql.nodes import PlanOperator
from state_processor.applications.flink_sql.operators.registry import has_state
from state_processor.applications.flink_sql.plan import CompiledPlan
from state_processor.applications.jobs.job_graph import JobGraph, graph_of
from state_processor.applications.jobs.signature import UNKNOWN_WRITER, VALUE, JobSignature, OperatorSignature, StateSignature
from state_processor.applications.jobs.signature_file import parse_signature
from state_processor.backends.connectors.connector import Connector, SinkConnector, SourceState, Versioned
from state_processor.backends.connectors.sink_state import SinkState, sink_connector, sink_state, states_of_sinks
from state_processor.backends.connectors.source_splits import READER_STATE, recognized, source_state
from state_processor.backends.files.location import Location
from state_processor.backends.files.storage import Storage
from state_processor.backends.formats.opening import open_raw_timers
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.read.keyed_splits import managed_handles
from state_processor.backends.read.stored_operator import Survey, subtask_label, surveys
from state_processor.backends.state import state_headers
from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.state.python_states import shown_name
from state_processor.backends.write.store_writer import FORST, ROCKSDB
from state_processor.options.access import SnapshotAccess
from state_processor.options.groups import SnapshotOptions
from state_processor.options.keywords import takes_options
from state_processor.serializers.shared_types import merged
from state_processor.serializers.text_grammar import parse_json
from state_processor.support.errors import OptionError, StateProcessorError
from state_processor.support.late import require

Described = JobSignature | CompiledPlan | JobGraph

_STORES: Final = (ROCKSDB, FORST)
_RAW: Final = "raw"
"""The format of timers in raw keyed state. Every backend restores them."""
_FORMS: Final = (
    "expected a file of `state-processor signature`, the JSON of COMPILE PLAN, of the REST paths /jobs/:id or /jobs/:id/plan, or "
    "of getExecutionPlan(), or YAML with operators"
)


@takes_options
def signature(path: str | PathLike[str] | JobSignature, **options: Unpack[SnapshotOptions]) -> JobSignature:
    """Return a description of the state of a job: operators, states and types, without values.

    Parameters
    ----------
    path
        Directory of a snapshot, or its ``_metadata``; or a file: a signature in JSON, a compiled plan of Flink SQL, the graph of
        a job as the REST interface (``/jobs/:id``, ``/jobs/:id/plan``) or ``StreamExecutionEnvironment.getExecutionPlan()``
        print it, or YAML with operators, states and types. Plans and graphs do not describe states.
    **options
        See :class:`~state_processor.options.groups.SnapshotOptions`.

    Returns
    -------
    JobSignature
        Its text is JSON, with a stable order of operators and states.

    Raises
    ------
    OptionError
        If a file has another form.
    NotASnapshotError, CorruptSnapshotError
        If a directory does not have a snapshot, or its ``_metadata`` is damaged.
    """
    return path if isinstance(path, JobSignature) else signature_of(path, SnapshotAccess.of(**options))


def signature_of(path: str | PathLike[str], access: SnapshotAccess) -> JobSignature:
    """Return the signature of a job; see :func:`signature`."""
    content = described(path, access.storage())
    if content is None:
        return signature_of_snapshot(access.open(path))
    if isinstance(content, CompiledPlan):
        return signature_of_plan(content)
    return signature_of_graph(content) if isinstance(content, JobGraph) else content


def described(path: str | PathLike[str], storage: Storage) -> Described | None:
    """Return the content of a file that describes a job; ``None`` for a snapshot."""
    location = str(Location.given(path))
    if not storage.is_file(location) or Location.given(path).name == "_metadata":
        return None
    data = bytes(storage.read_all(location))
    place = str(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise OptionError(f"{place}: {_FORMS}; found bytes that are not text") from None
    if not text.lstrip().startswith("{"):
        return parse_signature(_yaml(text, place), place)
    try:
        content = parse_json(text)
    except ValueError as error:
        raise OptionError(f"{place}: {_FORMS}; found JSON that can't be parsed: {error}") from None
    return _of_json(content, text, place)


def _of_json(content: Mapping[str, Any], text: str, place: str) -> Described:
    if "operators" in content:
        return parse_signature(content, place)
    if "nodes" in content and "edges" in content:
        return CompiledPlan.parse(text)
    graph = graph_of(content)
    if graph is None:
        raise OptionError(f"{place}: {_FORMS}; found an object with {', '.join(map(str, list(content)[:8])) or 'no field'}")
    return graph


def _yaml(text: str, place: str) -> Any:
    yaml = require("yaml", "yaml", "jobs described in YAML")
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise OptionError(f"{place}: {_FORMS}; found text that is not YAML: {error}") from None
    except RecursionError:
        raise OptionError(f"{place}: {_FORMS}; found YAML that is nested too deeply") from None


def signature_of_snapshot(snapshot: Snapshot) -> JobSignature:
    """Return the signature of the job that wrote a snapshot, from the headers of its state files."""
    operators = snapshot.metadata.operators
    signatures = (_operator_of(snapshot, *pair) for pair in zip(operators, surveys(snapshot, operators), strict=True))
    return JobSignature(tuple(signatures), flink=f"{snapshot.flink_major}.x")


def _operator_of(snapshot: Snapshot, operator: OperatorState, surveyed: Survey) -> OperatorSignature:
    variants, unread = surveyed
    states = {shown_name(name): state_signature(variants[name]) for name in sorted(variants)}
    for unread_state in unread:
        name = "" if unread_state.name is None else shown_name(unread_state.name)
        states[name] = StateSignature(name, unread_state.kind or "", unread=str(unread_state.error))
    backends = {state.backend for descriptions in variants.values() for state in descriptions if state.is_keyed} - {_RAW}
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
        writers=tuple(_writers(snapshot, operator, states)),
    )


def _writers(snapshot: Snapshot, operator: OperatorState, states: Collection[str]) -> Iterator[str]:
    """Yield what wrote the state of an operator that is only bytes."""
    if READER_STATE in states or operator.coordinator_state is not None:
        yield f"source {_name(lambda: _source(source_state(snapshot, operator)))}"
    if not states_of_sinks().isdisjoint(states):
        yield f"sink {_name(lambda: _sink(sink_state(snapshot, operator, None, None)))}"
    if any(_is_unknown(snapshot, operator, subtask) for subtask in operator.subtasks):
        yield f"raw keyed state {UNKNOWN_WRITER}"
    if any(subtask.raw_operator is not None for subtask in operator.subtasks):
        yield f"raw operator state {UNKNOWN_WRITER}"


def _is_unknown(snapshot: Snapshot, operator: OperatorState, subtask: OperatorSubtaskState) -> bool:
    """Return whether a subtask has raw keyed state other than timers."""
    raw = subtask.raw_keyed
    return raw is not None and open_raw_timers(snapshot, raw, subtask_label(operator, subtask)) is None


def _source(state: SourceState) -> str:
    connector = recognized(state)
    enumerator = () if state.coordinator is None else (state.coordinator.enumerator,)
    return _with_versions(connector, splits=[split for _, split in state.splits], enumerator=enumerator)


def _sink(state: SinkState) -> str:
    return _with_versions(sink_connector(state, None), writer=[element for _, element in state.writers])


def _with_versions(connector: Connector | SinkConnector | None, **parts: Iterable[Versioned]) -> str:
    """Return the name of a connector with the versions of its formats: another release may write others."""
    if connector is None:
        return UNKNOWN_WRITER
    versions = {part: sorted({element.version for element in elements}) for part, elements in parts.items()}
    texts = (f"{part} {' and '.join(map(str, numbers))}" for part, numbers in versions.items() if numbers)
    return f"{connector.name} ({', '.join(texts)})"


def _name(recognize: Callable[[], str]) -> str:
    """Return the name of the only connector that fits bytes."""
    try:
        return recognize()
    except StateProcessorError:
        return UNKNOWN_WRITER


def state_signature(variants: Iterable[StateDescription]) -> StateSignature:
    """Return the signature of a state, by the registration of the first subtask that has it, with the subclasses of all."""
    state, *further = variants
    parts = {part: serializer.snapshot() for part, serializer in state.serializers.items()}
    for variant in further:
        for part, serializer in variant.serializers.items():
            parts[part] = merged(parts[part], serializer.snapshot()) or parts[part]
    if state.is_timer:
        parts.pop(VALUE, None)
    return StateSignature(shown_name(state.name), state.kind, parts, state.has_ttl)


def _is_asynchronous(snapshot: Snapshot, operator: OperatorState) -> bool:
    """Return whether the first file registers its states for the asynchronous API."""
    headers = (handle.open(snapshot).header for handle in managed_handles(operator))
    first = next(headers, None)
    return first is not None and any(meta.backend_type == state_headers.KEY_VALUE_V2 for meta in first.states)


def signature_of_plan(plan: CompiledPlan) -> JobSignature:
    """Return the operators of a plan that may have state, with the uids of the default format of Flink 1.16 and later."""
    uids: dict[str, list[PlanOperator]] = {}
    for operator in plan.operators.values():
        uids.setdefault(operator.label, []).append(operator)
    operators = []
    for label, (first, *further) in uids.items():
        if has_state(first.transformation) or first.transformation in ("source", "sink"):
            other_uids = tuple(operator.uid for operator in further)
            operators.append(OperatorSignature(first.uid, first.uid_hash, label, other_uids=other_uids))
    return JobSignature(tuple(operators))


def signature_of_graph(graph: JobGraph) -> JobSignature:
    """Return the operators of a graph. Flink prints no uids; the id of a task is the hash of its first operator."""
    return JobSignature(
        tuple(
            OperatorSignature(
                uid_hash=node.uid_hash, name=node.name, parallelism=node.parallelism, max_parallelism=node.max_parallelism
            )
            for node in graph.nodes
        )
    )
