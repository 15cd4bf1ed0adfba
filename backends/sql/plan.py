"""Compiled plans of Flink SQL: the JSON that ``COMPILE PLAN`` writes (Flink: ``ExecNodeGraphJsonSerializer``)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.sql.plan_types import PlanFields, row_fields
from state_processor.serializers.errors import NotFoundError, OptionError
from state_processor.serializers.json_text import parse_json

_TRANSFORMATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "table-source-scan": ("source",),
    "sink": ("sink", "upsert-materialize", "constraint-validator", "partitioner", "timestamp-inserter"),
    "limit": ("rank",),
    "sort-limit": ("rank",),
    "window-table-function": ("window",),
    "match": ("match", "timestamp-inserter"),
    "interval-join": ("interval-join", "filter-left", "filter-right", "pad-left", "pad-right"),
    "lookup-join": ("lookup-join", "lookup-join-materialize"),
    "process-table-function": ("process",),
}
"""Operators that a node is translated to, if they are not called as its type is (Flink: ``…_TRANSFORMATION``)."""

_SHOWN: Final = 40
_TYPE: Final = re.compile(r"stream-exec-(.+)_\d+")
_LABEL: Final = re.compile(r"([a-z-]+)\[(\d+)\]")


@dataclass(frozen=True)
class PlanNode:
    """A node of a plan, with those that its rows come from.

    Parameters
    ----------
    id, type
        As the plan has them: ``5``, ``stream-exec-join_1``.
    content
        Its JSON.
    inputs
        The nodes before it, in the order of the operator's inputs.
    """

    id: int
    type: str
    content: Mapping[str, Any]
    inputs: tuple[PlanNode, ...] = field(repr=False)

    @cached_property
    def output(self) -> PlanFields:
        """The fields of the rows that leave it."""
        return self.fields_of("outputType")

    @property
    def kind(self) -> str:
        """The name of what it does, such as ``join``."""
        match = _TYPE.fullmatch(self.type)
        return self.type if match is None else match[1]

    @property
    def transformations(self) -> tuple[str, ...]:
        """The operators that it may be translated to."""
        return _TRANSFORMATIONS.get(self.kind, (self.kind,))

    @property
    def left(self) -> PlanFields:
        """The fields of the rows of the first input."""
        return self.inputs[0].output if self.inputs else ()

    @property
    def right(self) -> PlanFields:
        """The fields of the rows of the second input."""
        return self.inputs[1].output if len(self.inputs) > 1 else ()

    @property
    def has_ttl(self) -> dict[int, bool]:
        """True for states with time-to-live, False for others, by their indexes; plans before Flink 1.18 do not say it."""
        states = self.at("state", default=())
        return {int(state.get("index", 0)): not str(state.get("ttl", "0")).strip().startswith("0") for state in states}

    def fields_of(self, member: str) -> PlanFields:
        """Return the fields of a row type that the node has in its JSON.

        Raises
        ------
        OptionError
            If it has none.
        """
        try:
            return row_fields(self.content.get(member))
        except (OptionError, KeyError, TypeError) as error:
            raise OptionError(f"plan: {member} of node {self.id} ({self.type}): {error}") from None

    def at(self, *path: str, default: Any = None) -> Any:
        """Return a part of the JSON, or the default where there is none."""
        found: Any = self.content
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        return default if found is None else found


@dataclass(frozen=True)
class PlanOperator:
    """An operator of the job that runs a plan: a node, and what part of it the operator does."""

    node: PlanNode
    transformation: str
    uid: str

    @property
    def uid_hash(self) -> str:
        """The hash of the uid."""
        return operator_id(self.uid)

    @property
    def label(self) -> str:
        """Name of the operator and number of the node: ``group-aggregate[5]``."""
        return f"{self.transformation}[{self.node.id}]"


@dataclass(frozen=True)
class CompiledPlan:
    """A compiled plan."""

    nodes: tuple[PlanNode, ...]

    @classmethod
    def parse(cls, text: str) -> CompiledPlan:
        """Parse the JSON of a plan.

        Raises
        ------
        OptionError
            If it is not one.
        """
        try:
            content = parse_json(text)
            edges = [(int(e["source"]), int(e["target"])) for e in content["edges"]]
            given = {int(n["id"]): (str(n["type"]), n) for n in content["nodes"]}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            shown = repr(text[:_SHOWN]) if text.strip() else "an empty text"
            problem = f"found {shown} ({type(error).__name__}: {error})"
            raise OptionError(f"plan: expected the JSON that COMPILE PLAN writes, with nodes and edges, {problem}") from None
        return cls(tuple(_linked(given, edges)))

    @cached_property
    def operators(self) -> Mapping[str, PlanOperator]:
        """The operators by the hash of their uid, in the formats of ``table.exec.uid.format`` that are known.

        They are the default ones of Flink 1.15 and of later versions, and ``<transformation>`` where only one node has it.
        """
        once = Counter(transformation for node in self.nodes for transformation in node.transformations)
        found: dict[str, PlanOperator] = {}
        for node in self.nodes:
            for transformation in node.transformations:
                formats = uid_formats(node, transformation)
                for uid in formats if once[transformation] == 1 else formats[:-1]:
                    found.setdefault(operator_id(uid), PlanOperator(node, transformation, uid))
        return found

    def named(self, name: str) -> tuple[PlanOperator, ...]:
        """Return an operator by its label, its uid, or what it does, once for each uid that it may have.

        Raises
        ------
        NotFoundError
            If there is none.
        OptionError
            If there are several.
        """
        found = tuple(o for o in self.operators.values() if name in (o.label, o.uid, o.transformation))
        labels = sorted({o.label for o in found})
        if not found:
            raise NotFoundError.naming_nearest("operator", name, {o.label for o in self.operators.values()}, "the plan")
        if len(labels) > 1:
            raise OptionError(f"the plan has several operators {name!r}: {', '.join(labels)}; name one of them")
        return tuple(o for o in found if name == o.uid != o.transformation) or found

    def find(self, label: str, among: Iterable[str]) -> str | None:
        """Return which of some operators has a label such as ``group-aggregate[5]``, all by the hash of the uid.

        Raises
        ------
        NotFoundError
            If the text is such a label, and none has it.
        """
        if _LABEL.fullmatch(label) is None:
            return None
        known = {self.operators[uid_hash].label: uid_hash for uid_hash in among if uid_hash in self.operators}
        if label not in known:
            raise NotFoundError.naming_nearest("operator", label, known)
        return known[label]


def uid_formats(node: PlanNode, transformation: str) -> tuple[str, ...]:
    """Return the uids that an operator has in each of the known formats; the last one if only one node is translated to it."""
    return (f"{node.id}_{transformation}", f"{node.id}_{node.type}_{transformation}", transformation)


def _linked(given: Mapping[int, tuple[str, Mapping[str, Any]]], edges: list[tuple[int, int]]) -> Iterable[PlanNode]:
    """Yield the nodes with their inputs; a node comes after its inputs in every plan that Flink writes."""
    made: dict[int, PlanNode] = {}
    for number, (type_, content) in given.items():
        sources = [source for source, target in edges if target == number]
        missing = [source for source in sources if source not in made]
        if missing:
            raise OptionError(f"plan: node {number} has rows of node {missing[0]}, which does not come before it")
        made[number] = PlanNode(number, type_, content, tuple(made[source] for source in sources))
        yield made[number]
