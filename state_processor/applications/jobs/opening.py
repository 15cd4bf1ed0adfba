"""Signatures of jobs: from a snapshot, and from a file in one of the known forms.

A graph of a job, as Flink prints it, has operators, their inputs, and which of them are chained.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from os import PathLike
from typing import Any, Final, TypeAlias, Unpack

from state_processor.applications.flink_sql.nodes import PlanOperator
from state_processor.applications.flink_sql.operators.registry import has_state
from state_processor.applications.flink_sql.plan import CompiledPlan
from state_processor.applications.jobs.signature import VALUE, JobSignature, OperatorSignature, StateSignature, parse_signature
from state_processor.errors import OptionError
from state_processor.options import SnapshotAccess, SnapshotOptions, takes_options
from state_processor.snapshots import Location, OperatorState, Snapshot, Storage
from state_processor.states import StateDescription, Survey, is_asynchronous, parse_json, shown_name, surveys, writers_of_bytes
from state_processor.support import attributes, require
from state_processor.types import merged

FORWARD: Final = "FORWARD"
_LINE: Final = re.compile(r"((?::  |   )*)(?:([:+])- )?(.*)")


@dataclass(frozen=True, slots=True)
class GraphInput:
    """An input of an operator."""

    source: int  # the position of the operator that sends records
    strategy: str  # the ship strategy, such as ``FORWARD`` or ``HASH``
    chained: bool | None  # whether both operators are in one task; ``None`` if the graph does not show it


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An operator in the graph of a job."""

    number: int  # the number of the node in the graph of Flink; numbers grow from sources to sinks
    name: str
    parallelism: int
    inputs: tuple[GraphInput, ...]
    max_parallelism: int | None = None
    # the hash of the operator, if the graph shows it: the first operator of each task has the id of the task
    uid_hash: str | None = None


@dataclass(frozen=True, slots=True)
class JobGraph:
    """The operators of a job, each after its inputs."""

    nodes: tuple[GraphNode, ...]


def graph_of(content: Mapping[str, Any]) -> JobGraph | None:
    """Return the graph in the JSON of Flink; ``None`` if the JSON has another form."""
    plan = content.get("plan", content)
    nodes = plan.get("nodes") if isinstance(plan, Mapping) else None
    if not isinstance(nodes, Sequence) or not all(isinstance(node, Mapping) and "id" in node for node in nodes):
        return None
    try:
        if all("type" in node and "pact" in node for node in nodes):
            return _of_execution_plan(nodes)
        vertices = {vertex["id"]: vertex for vertex in content.get("vertices", ())}
        return _of_rest(nodes, vertices)
    except (KeyError, TypeError, ValueError) as error:
        raise OptionError(
            f"graph of a job: expected nodes with id, parallelism and inputs ({type(error).__name__}: {error})"
        ) from None


def _of_execution_plan(nodes: Sequence[Mapping[str, Any]]) -> JobGraph:
    """Return the graph of ``getExecutionPlan()`` (Flink: ``JSONGenerator``): an operator per node, without hashes."""
    ordered = sorted(nodes, key=lambda node: int(node["id"]))
    places = {int(node["id"]): place for place, node in enumerate(ordered)}
    graph_nodes = []
    for node in ordered:
        inputs = []
        for predecessor in node.get("predecessors", ()):
            strategy = str(predecessor.get("ship_strategy", ""))
            inputs.append(GraphInput(places[int(predecessor["id"])], strategy, None))
        graph_nodes.append(GraphNode(int(node["id"]), str(node["type"]), int(node["parallelism"]), tuple(inputs)))
    return JobGraph(tuple(graph_nodes))


def _of_rest(nodes: Sequence[Mapping[str, Any]], vertices: Mapping[str, Mapping[str, Any]]) -> JobGraph:
    """Return the graph of the REST interface (Flink: ``JsonPlanGenerator``): a task per node, whose text names its operators."""
    graph_nodes: list[GraphNode] = []
    tails: dict[str, int] = {}
    for node in _after_inputs(nodes):
        first = len(graph_nodes)
        vertex = vertices.get(node["id"], {})
        sources = sorted(node.get("inputs", ()), key=lambda source: int(source.get("num", 0)))
        inputs = tuple(GraphInput(tails[source["id"]], str(source.get("ship_strategy", "")), False) for source in sources)
        size, limit = int(node["parallelism"]), vertex.get("maxParallelism")
        names = list(_chain(str(node["description"])))
        if vertex.get("name") is not None:
            short = list(_of_cascade(str(vertex["name"])))
            names = short if [at for at, _ in short] == [at for at, _ in names] else names
        for at, name in names:
            inside = inputs if at is None else (GraphInput(first + at, FORWARD, True),)
            graph_nodes.append(GraphNode(len(graph_nodes), name, size, inside, limit if limit is None else int(limit)))
        graph_nodes[first] = replace(graph_nodes[first], uid_hash=str(node["id"]))
        tails[str(node["id"])] = len(graph_nodes) - 1
    return JobGraph(tuple(graph_nodes))


def _inputs(node: Mapping[str, Any]) -> set[str]:
    return {source["id"] for source in node.get("inputs", ())}


def _after_inputs(nodes: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield each node after its inputs."""
    waiting = list(nodes)
    done: set[str] = set()
    while waiting:
        ready = [node for node in waiting if _inputs(node) <= done]
        if not ready:
            raise ValueError("nodes that are inputs of each other")
        for node in ready:
            done.add(node["id"])
            waiting.remove(node)
            yield node


def _chain(description: str) -> Iterator[tuple[int | None, str]]:
    """Yield the operators of a task: the position of the input in the task, and the name.

    Flink prints a tree of lines (``pipeline.vertex-description-mode``: ``TREE``), or names between arrows (``CASCADING``).
    """
    lines = [line for line in description.replace("&gt;", ">").split("<br/>") if line.strip()]
    if len(lines) == 1 and "->" in lines[0]:
        yield from _of_cascade(lines[0])
        return
    above: dict[int, int] = {}
    for place, line in enumerate(lines):
        match = _LINE.fullmatch(line)
        assert match is not None  # every text matches
        depth = len(match[1]) // 3 + (match[2] is not None)
        above[depth] = place
        yield above.get(depth - 1) if depth else None, match[3].strip()


def _of_cascade(text: str) -> Iterator[tuple[int | None, str]]:
    """Yield the operators of ``A -> (B, C -> D)``."""
    place = 0

    def of(part: str, parent: int | None) -> Iterator[tuple[int | None, str]]:
        nonlocal place
        for name in _split(part, "->"):
            name = name.strip()
            if name.startswith("(") and name.endswith(")"):
                for branch in _split(name[1:-1], ","):
                    yield from of(branch, parent)
                return
            yield parent, name
            parent, place = place, place + 1

    yield from of(text, None)


def _split(text: str, mark: str) -> list[str]:
    """Return the parts between marks outside of brackets."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(text[at], 0)
        if not depth and text.startswith(mark, at):
            parts.append(text[start:at])
            at = start = at + len(mark)
        else:
            at += 1
    return [*parts, text[start:]]


Described: TypeAlias = JobSignature | CompiledPlan | JobGraph

_STORES: Final = ("rocksdb", "forst")
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
    backends = {state.backend for state in chain.from_iterable(variants.values()) if state.is_keyed} - {_RAW}
    backend = ", ".join(sorted(backends)) or None
    return OperatorSignature(
        operator.uid,
        operator.operator_id,
        operator.name,
        operator.parallelism,
        operator.max_parallelism,
        states,
        asynchronous=is_asynchronous(snapshot, operator) if backend in _STORES else None,
        backend=backend,
        has_state=operator.has_state,
        writers=tuple(writers_of_bytes(snapshot, operator, states)),
    )


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
    facts = ("uid_hash", "name", "parallelism", "max_parallelism")
    return JobSignature(tuple(OperatorSignature(**attributes(node, facts)) for node in graph.nodes))
