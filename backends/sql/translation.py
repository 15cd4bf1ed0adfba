"""Graphs of the jobs that run a plan, with ids of operators without uids (Flink: ``translateToPlan`` of ``StreamExec…``).

A job that was submitted as text has no uids. Flink computes the ids of its operators from the shape of the graph. A plan that is
compiled later from the same text has the same nodes. Each node becomes one or more operators, and nodes such as exchanges become
none. A plan does not contain everything: the operators of a sink depend on the connector, and chains on the configuration. All
usual ways are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Final

from state_processor.backends.metadata.operator_id import HashedNode, graph_hashes
from state_processor.backends.sql.meaning import sink_row
from state_processor.backends.sql.plan import CompiledPlan, PlanFields, PlanNode, PlanOperator, uid_formats
from state_processor.serializers.table.logical_types import TimestampType

COMMITTER: Final = "committer"
"""The committer of a sink. Its uid follows from the uid of the sink."""

_MOST: Final = 1024
"""The maximal number of ways to translate a plan that are tried."""


@dataclass(frozen=True, slots=True)
class SinkShape:
    """The operators of a connector's sink in their order, and whether each is in the task of the one before it."""

    names: tuple[str, ...]
    chained: tuple[bool, ...]


_SINKS: Final = (
    SinkShape(("sink",), (True,)),
    SinkShape(("sink", COMMITTER), (True, True)),
    SinkShape(("sink",), (False,)),
    SinkShape(("sink", COMMITTER), (False, True)),
    SinkShape(("streaming-writer", "discarding-sink"), (True, False)),
    SinkShape(("streaming-writer", "discarding-sink"), (True, True)),
    SinkShape(("streaming-writer", "partition-committer", "discarding-sink"), (True, False, True)),
    SinkShape(("streaming-writer", "partition-committer", "discarding-sink"), (True, True, True)),
    SinkShape(("streaming-writer", "compact-coordinator", "compact-operator", "discarding-sink"), (True, False, False, False)),
    SinkShape(
        ("streaming-writer", "compact-coordinator", "compact-operator", "partition-committer", "discarding-sink"),
        (True, False, False, False, True),
    ),
)
"""Sinks of Flink's connectors: a function or a writer, alone or with a committer; files (Flink: ``StreamingSink``)."""


@dataclass(frozen=True, slots=True)
class TranslatedOperator:
    """An operator of the job.

    ``node`` and ``transformation``: the node of the plan, and the operator's part of it.
    """

    node: PlanNode
    transformation: str
    uid: str  # the uid that the operator has in a job that runs the compiled plan

    @property
    def in_plan(self) -> PlanOperator:
        """The operator of the plan."""
        return PlanOperator(self.node, self.transformation, self.uid)


@dataclass(frozen=True, slots=True)
class _Way:
    """Decisions that a plan does not contain."""

    chaining: bool
    match_chained: bool
    shapes: Mapping[int, SinkShape]
    validated: Mapping[int, bool]
    timestamps: bool


_Outlets = tuple[tuple[int, bool], ...]
"""Positions of operators whose records a node passes on, and whether it passes them on to the same subtask."""


class _Graph:
    def __init__(self, way: _Way) -> None:
        self.way = way
        self.operators: list[TranslatedOperator] = []
        self.nodes: list[HashedNode] = []

    def add(self, node: PlanNode, transformation: str, inputs: Sequence[_Outlets], *, chained: bool = True) -> _Outlets:
        edges = [edge for outlets in inputs for edge in outlets]
        is_chained = len(edges) == 1 and edges[0][1] and chained and self.way.chaining
        self.nodes.append(HashedNode(tuple(place for place, _ in edges), tuple(is_chained for _ in edges)))
        self.operators.append(TranslatedOperator(node, transformation, _uid(node, transformation)))
        return ((len(self.nodes) - 1, True),)


def _uid(node: PlanNode, transformation: str) -> str:
    if transformation == COMMITTER:
        return f"Sink Committer: {_uid(node, 'sink')}"
    return uid_formats(node, transformation)[0]


def translations(plan: CompiledPlan) -> Iterator[Mapping[str, TranslatedOperator]]:
    """Yield the operators by their ids without uids, for each way to translate the plan. The most usual way comes first."""
    for way in islice(_ways(plan), _MOST):
        graph = _Graph(way)
        passed: dict[int, _Outlets] = {}
        for node in plan.nodes:
            inputs = [passed[source.id] for source in node.inputs]
            passed[node.id] = _TRANSLATED.get(node.kind, _single)(graph, node, inputs)
        hashes = graph_hashes(graph.nodes, {})
        yield {uid_hash: graph.operators[place] for place, uid_hash in hashes.items()}


def _ways(plan: CompiledPlan) -> Iterator[_Way]:
    sinks = [node for node in plan.nodes if node.kind == "sink"]
    has_times = any(map(_has_time, sinks))
    has_match = any(node.kind == "match" for node in plan.nodes)
    ids = [node.id for node in sinks]
    together = [dict.fromkeys(ids, shape) for shape in _SINKS]
    for shapes in together + (list(_different(sinks)) if len(sinks) > 1 else []):
        for validated in product(*map(_validated, sinks)):
            validated_sinks = dict(zip(ids, validated, strict=True))
            for timestamps in (False, True) if has_times else (False,):
                for chaining, match_chained in ((True, True), (True, False), (False, False)):
                    if has_match or chaining == match_chained:
                        yield _Way(chaining, match_chained, shapes, validated_sinks, timestamps)


def _different(sinks: Sequence[PlanNode]) -> Iterator[dict[int, SinkShape]]:
    """Yield combinations of different sinks."""
    for shapes in product(_SINKS[:5], repeat=len(sinks)):
        if len(set(shapes)) > 1:
            yield dict(zip((node.id for node in sinks), shapes, strict=True))


def _validated(node: PlanNode) -> tuple[bool, ...]:
    """Return whether an operator before a sink may check columns. Options that are not in the plan decide, too."""
    row = sink_row(node)
    if not row:
        return (False, True)
    required = any(f.type is None or not f.type.nullable for f in row)
    return (True, False) if required else (False, True)


def _has_time(node: PlanNode) -> bool:
    return bool(node.inputs) and _time_of(node.left)


def _time_of(fields: PlanFields) -> bool:
    return any(isinstance(f.type, TimestampType) and f.type.kind == "ROWTIME" for f in fields)


_Given = list[_Outlets]


def _single(graph: _Graph, node: PlanNode, inputs: _Given) -> _Outlets:
    return graph.add(node, node.transformations[0], inputs)


def _exchange(graph: _Graph, node: PlanNode, inputs: _Given) -> _Outlets:
    return tuple((place, False) for outlets in inputs for place, _ in outlets)


def _union(graph: _Graph, node: PlanNode, inputs: _Given) -> _Outlets:
    return tuple(edge for outlets in inputs for edge in outlets)


def _match(graph: _Graph, node: PlanNode, inputs: _Given) -> _Outlets:
    order = node.at("matchSpec", "orderBy", "fields", default=())
    first = [node.left[int(f["index"])] for f in order[:1]]
    if not _time_of(tuple(first)):
        return graph.add(node, "match", inputs)
    inserted = graph.add(node, "timestamp-inserter", inputs)
    return graph.add(node, "match", [inserted], chained=graph.way.match_chained)


def _interval_join(graph: _Graph, node: PlanNode, inputs: _Given) -> _Outlets:
    bounds = node.at("intervalJoinSpec", "windowBounds", default={})
    if int(bounds.get("leftUpperBound", 0)) >= int(bounds.get("leftLowerBound", 0)):
        return graph.add(node, "interval-join", inputs)
    join_type = str(node.at("intervalJoinSpec", "joinSpec", "joinType", default="INNER"))
    left = graph.add(node, "pad-left" if join_type in ("LEFT", "FULL") else "filter-left", inputs[:1])
    return left + graph.add(node, "pad-right" if join_type in ("RIGHT", "FULL") else "filter-right", inputs[1:])


def _lookup_join(graph: _Graph, node: PlanNode, inputs: _Given) -> _Outlets:
    if node.at("requireUpsertMaterialize"):
        return graph.add(node, "lookup-join-materialize", inputs, chained=False)
    return graph.add(node, "lookup-join", inputs)


def _sink(graph: _Graph, node: PlanNode, inputs: _Given) -> _Outlets:
    way, outlets = graph.way, list(inputs)
    if way.validated[node.id]:
        outlets = [graph.add(node, "constraint-validator", outlets)]
    if _is_materialized(node):
        outlets = [graph.add(node, "upsert-materialize", outlets, chained=False)]
    if way.timestamps and _has_time(node):
        outlets = [graph.add(node, "timestamp-inserter", outlets)]
    shape = way.shapes[node.id]
    for name, chained in zip(shape.names, shape.chained, strict=True):
        outlets = [graph.add(node, name, outlets, chained=chained)]
    return outlets[0]


def _is_materialized(node: PlanNode) -> bool:
    changes: Any = node.at("inputChangelogMode", default=())
    return bool(node.at("requireUpsertMaterialize")) and list(changes) != ["INSERT"]


_TRANSLATED: Final[Mapping[str, Callable[[_Graph, PlanNode, _Given], _Outlets]]] = {
    "exchange": _exchange,
    "union": _union,
    "match": _match,
    "interval-join": _interval_join,
    "lookup-join": _lookup_join,
    "sink": _sink,
}
