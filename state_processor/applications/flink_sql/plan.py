"""Compiled plans of Flink SQL: the JSON of ``COMPILE PLAN`` (Flink: ``ExecNodeGraphJsonSerializer``)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, product
from typing import Any, Final

from state_processor.applications.flink_sql.nodes import JobGraph, Outlets, PlanNode, PlanOperator, SinkShape, Way
from state_processor.applications.flink_sql.operators.registry import operator_of
from state_processor.applications.flink_sql.operators.sinks import has_row_time, sink_row
from state_processor.errors import NotFoundError, OptionError
from state_processor.options import SnapshotAccess
from state_processor.snapshots import graph_hashes
from state_processor.states import parse_json
from state_processor.support import cached_property

_SHOWN: Final = 40
_RELEASE: Final = re.compile(r"(\d+)\.(\d+)")
_LABEL: Final = re.compile(r"([a-z-]+)\[(\d+)\]")


@dataclass(frozen=True)
class CompiledPlan:
    """A compiled plan."""

    nodes: tuple[PlanNode, ...]

    @classmethod
    def parse(cls, text: str) -> CompiledPlan:
        """Parse the JSON of a plan."""
        try:
            content = parse_json(text)
            edges = [(int(e["source"]), int(e["target"])) for e in content["edges"]]
            nodes_by_id = {int(n["id"]): (str(n["type"]), n) for n in content["nodes"]}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            beginning = repr(text[:_SHOWN]) if text.strip() else "an empty text"
            problem = f"found {beginning} ({type(error).__name__}: {error})"
            raise OptionError(f"plan: expected the JSON of COMPILE PLAN with nodes and edges, {problem}") from None
        return cls(tuple(_linked(nodes_by_id, edges, _release(content.get("flinkVersion")))))

    @cached_property
    def operators(self) -> Mapping[str, PlanOperator]:
        """The operators by the hash of their uid, for the known formats of ``table.exec.uid.format``.

        The known formats are the defaults of Flink 1.15 and of later versions, and ``<transformation>`` if only one node has it.
        """
        once = Counter(chain.from_iterable(node.transformations for node in self.nodes))
        operators: dict[str, PlanOperator] = {}
        for node in self.nodes:
            for transformation in node.transformations:
                formats = uid_formats(node, transformation)
                for uid in formats if once[transformation] == 1 else formats[:-1]:
                    operator = PlanOperator(node, transformation, uid)
                    operators.setdefault(operator.uid_hash, operator)
        return operators

    def operator(self, operator_id: str) -> PlanOperator | None:
        """Return the operator with an id; ``None`` if the plan does not have it."""
        return self.operators.get(operator_id)

    def named(self, name: str) -> tuple[PlanOperator, ...]:
        """Return an operator by its label, uid, or function, once for each possible uid."""
        operators = tuple(o for o in self.operators.values() if name in (o.label, o.uid, o.transformation))
        labels = sorted({o.label for o in operators})
        if not operators:
            raise NotFoundError.naming_nearest("operator", name, {o.label for o in self.operators.values()}, "the plan")
        if len(labels) > 1:
            raise OptionError(f"the plan has several operators {name!r}: {', '.join(labels)}; name one of them")
        return tuple(o for o in operators if name == o.uid != o.transformation) or operators

    def find(self, label: str, among: Iterable[str]) -> str | None:
        """Return the operator with a label such as ``group-aggregate[5]``, from operators by the hash of the uid."""
        if _LABEL.fullmatch(label) is None:
            return None
        by_label = {self.operators[uid_hash].label: uid_hash for uid_hash in among if uid_hash in self.operators}
        if label not in by_label:
            raise NotFoundError.naming_nearest("operator", label, by_label)
        return by_label[label]


def read_plan(plan: str, access: SnapshotAccess) -> CompiledPlan:
    """Return a compiled plan from its text, or from the file that has it."""
    content = replace(access, plan=plan, uids=None).with_content().plan
    assert content is not None
    return CompiledPlan.parse(content)


def uid_formats(node: PlanNode, transformation: str) -> tuple[str, ...]:
    """Return the uids of an operator in all known formats; the last format applies if only one node has the operator."""
    uid = node.at("uid") if transformation == "process" else None
    if isinstance(uid, str):  # the uid of a process table function, which the query names
        return uid, uid, uid
    return (f"{node.id}_{transformation}", f"{node.id}_{node.type}_{transformation}", transformation)


def _release(version: Any) -> tuple[int, ...]:
    numbers = _RELEASE.match(str(version))
    return () if numbers is None else (int(numbers[1]), int(numbers[2]))


def _linked(
    nodes: Mapping[int, tuple[str, Mapping[str, Any]]], edges: list[tuple[int, int]], release: tuple[int, ...]
) -> Iterable[PlanNode]:
    """Yield the nodes with their inputs. In every plan from Flink, a node follows its inputs."""
    linked: dict[int, PlanNode] = {}
    for number, (type_, content) in nodes.items():
        inputs = []
        for source, target in edges:
            if target == number:
                if source not in linked:
                    raise OptionError(f"plan: node {number} has the input {source}; this node does not precede it")
                inputs.append(linked[source])
        linked[number] = PlanNode(number, type_, content, tuple(inputs), release, operator_of(type_))
        yield linked[number]


# Operators without uids: of a job that was submitted as text, Flink computes the ids from the shape of the graph (Flink:
# ``translateToPlan`` of ``StreamExec…``). Each node of the plan becomes one or more operators, or none. A plan does not contain
# everything: the operators of a sink depend on the connector, and chains on the configuration. All usual ways are tried.

COMMITTER: Final = "committer"
"""The committer of a sink. Its uid follows from the uid of the sink."""

_MOST: Final = 1024
"""The maximal number of ways to translate a plan that are tried."""

_SINKS: Final[tuple[SinkShape, ...]] = (
    (("sink", True),),
    (("sink", True), (COMMITTER, True)),
    (("sink", False),),
    (("sink", False), (COMMITTER, True)),
    (("streaming-writer", True), ("discarding-sink", False)),
    (("streaming-writer", True), ("discarding-sink", True)),
    (("streaming-writer", True), ("partition-committer", False), ("discarding-sink", True)),
    (("streaming-writer", True), ("partition-committer", True), ("discarding-sink", True)),
    (("streaming-writer", True), ("compact-coordinator", False), ("compact-operator", False), ("discarding-sink", False)),
    (
        *(("streaming-writer", True), ("compact-coordinator", False), ("compact-operator", False)),
        *(("partition-committer", False), ("discarding-sink", True)),
    ),
)
"""Sinks of Flink's connectors: a function or a writer, alone or with a committer; files (Flink: ``StreamingSink``)."""


def _uid(node: PlanNode, transformation: str) -> str:
    if transformation == COMMITTER:
        return f"Sink Committer: {_uid(node, 'sink')}"
    return uid_formats(node, transformation)[0]


def translations(plan: CompiledPlan) -> Iterator[Mapping[str, PlanOperator]]:
    """Yield the operators by their ids without uids, for each way to translate the plan. The most usual way comes first."""
    for way in islice(_ways(plan), _MOST):
        graph = JobGraph(way)
        operators: list[PlanOperator] = []
        passed: dict[int, Outlets] = {}
        for node in plan.nodes:
            passed[node.id] = node.operator.translate(graph, node, [passed[source.id] for source in node.inputs])
            operators += [PlanOperator(node, name, _uid(node, name)) for name in graph.operators[len(operators) :]]
        hashes = graph_hashes(graph.nodes, {})
        yield {uid_hash: operators[place] for place, uid_hash in hashes.items()}


def _ways(plan: CompiledPlan) -> Iterator[Way]:
    sinks = [node for node in plan.nodes if node.kind == "sink"]
    has_times = any(map(has_row_time, sinks))
    has_match = any(node.kind == "match" for node in plan.nodes)
    ids = [node.id for node in sinks]
    together = [dict.fromkeys(ids, shape) for shape in _SINKS]
    for shapes in together + (list(_different(sinks)) if len(sinks) > 1 else []):
        for validated in product(*map(_validated, sinks)):
            validated_sinks = dict(zip(ids, validated, strict=True))
            for timestamps in (False, True) if has_times else (False,):
                for chaining, match_chained in ((True, True), (True, False), (False, False)):
                    if has_match or chaining == match_chained:
                        yield Way(chaining, match_chained, shapes, validated_sinks, timestamps)


def _different(sinks: Sequence[PlanNode]) -> Iterator[dict[int, SinkShape]]:
    """Yield combinations of different sinks."""
    for shapes in product(_SINKS[:5], repeat=len(sinks)):
        if len(set(shapes)) > 1:
            yield dict(zip((node.id for node in sinks), shapes, strict=True))


def _validated(node: PlanNode) -> tuple[bool, ...]:
    """Return whether an operator before a sink may check columns. Options that are not in the plan decide, too."""
    required = any(f.type is None or not f.type.nullable for f in sink_row(node))
    return (True, False) if required else (False, True)
