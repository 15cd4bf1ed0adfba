"""Compiled plans of Flink SQL: the JSON of ``COMPILE PLAN`` (Flink: ``ExecNodeGraphJsonSerializer``)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from state_processor.backends.metadata.operator_id import operator_id
from state_processor.serializers.errors import NotFoundError, OptionError
from state_processor.serializers.json_text import parse_json
from state_processor.serializers.locks import cached_property
from state_processor.serializers.table.logical_type_text import parse_logical_type
from state_processor.serializers.table.logical_types import (
    ArrayType,
    LogicalType,
    MapType,
    MultisetType,
    RowField,
    RowType,
    TimestampType,
)
from state_processor.serializers.table.type_descriptors import SQL_TYPES, TYPE, TypeField

_FIELD: Final = re.compile(r"\s*`((?:[^`]|``)*)`\s*(.*)", re.DOTALL)
_ROW: Final = re.compile(r"\s*ROW\s*<(.*)>\s*(?:NOT\s+NULL\s*)?", re.DOTALL)
_OPENING: Final = {"<": 1, "(": 1, ">": -1, ")": -1}
_AS_OBJECTS: Final = {
    descriptor.root: descriptor
    for descriptor in SQL_TYPES
    if descriptor.type in (TimestampType, ArrayType, MultisetType, MapType)
}
"""Types that plans have as objects with the fields of their Java class, by root."""


@dataclass(frozen=True, slots=True)
class PlanField:
    """A field of a row: its name and its type. A plan does not describe types of user classes.

    ``fields`` has the field names of a row with unknown types.
    """

    name: str
    type: LogicalType | None = None
    fields: tuple[PlanField, ...] = ()

    def __str__(self) -> str:
        return f"`{self.name}` {self.type or 'of an unknown type'}"


PlanFields = tuple[PlanField, ...]


def row_fields(type_json: Any) -> PlanFields:
    """Return the fields of a row type."""
    if isinstance(type_json, Mapping) and type_json.get("type") == "ROW":
        return tuple(PlanField(str(f["name"]), plan_type(f["fieldType"])) for f in type_json.get("fields", ()))
    match = _ROW.fullmatch(type_json) if isinstance(type_json, str) else None
    if match is None:
        raise OptionError(f"expected the type of a row, found {str(type_json)[:200]!r}")
    return tuple(map(_field, _parts(match[1])))


def distinct_names(fields: Iterable[PlanField]) -> PlanFields:
    """Return the fields with distinct names: Flink permits two fields with the same name."""
    by_name: dict[str, PlanField] = {}
    for position, plan_field in enumerate(fields):
        name = plan_field.name
        while name in by_name:
            name = f"{name}_{position}"
        by_name[name] = replace(plan_field, name=name)
    return tuple(by_name.values())


def plan_type(type_json: Any) -> LogicalType | None:
    """Return a type; ``None`` for a type that only a Java class describes."""
    if isinstance(type_json, str):
        try:
            return parse_logical_type(type_json)
        except OptionError:
            return None
    if not isinstance(type_json, Mapping):
        return None
    type_ = _of_object(type_json)
    return None if type_ is None else replace(type_, nullable=bool(type_json.get("nullable", True)))


def _of_object(type_json: Mapping[str, Any]) -> LogicalType | None:
    root = type_json.get("type")
    if root == "ROW":
        fields = row_fields(type_json)
        typed_fields = tuple(RowField(f.name, f.type) for f in fields if f.type is not None)
        return RowType(typed_fields) if len(typed_fields) == len(fields) else None
    descriptor = _AS_OBJECTS.get(str(root))
    if descriptor is None:
        return plan_type(root) if isinstance(root, str) and type_json.keys() <= {"type", "nullable"} else None
    parts = {field.attribute: _part(field, type_json) for field in descriptor.fields}
    return None if None in parts.values() else descriptor.make(True, parts)


def _part(field: TypeField, type_json: Mapping[str, Any]) -> Any:
    if field.form == TYPE:
        return plan_type(type_json.get(field.name))
    return str(type_json.get(field.name, "REGULAR")) if field.enum else int(type_json.get(field.name, field.default))


def _field(text: str) -> PlanField:
    match = _FIELD.fullmatch(text)
    if match is None:
        raise OptionError(f"expected the name of a field between backticks, found {text[:200]!r}")
    return PlanField(match[1].replace("``", "`"), plan_type(match[2]))


def _parts(text: str) -> Iterator[str]:
    """Yield the parts between commas outside of brackets and quotes."""
    depth = start = 0
    quote = ""
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "`'":
            quote = character
        elif character in _OPENING:
            depth += _OPENING[character]
        elif character == "," and not depth:
            yield text[start:at]
            start = at + 1
    if text[start:].strip():
        yield text[start:]


_TRANSFORMATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "table-source-scan": ("source",),
    "sink": (
        *("sink", "upsert-materialize", "constraint-validator", "partitioner", "timestamp-inserter", "row-kind-setter"),
        *("streaming-writer", "compact-coordinator", "compact-operator", "partition-committer", "discarding-sink"),
    ),
    "limit": ("rank",),
    "sort-limit": ("rank",),
    "window-table-function": ("window",),
    "match": ("match", "timestamp-inserter"),
    "interval-join": ("interval-join", "filter-left", "filter-right", "pad-left", "pad-right"),
    "lookup-join": ("lookup-join", "lookup-join-materialize"),
    "process-table-function": ("process",),
}
"""Operators of a node whose names differ from the type of the node (Flink: ``…_TRANSFORMATION``)."""

_SHOWN: Final = 40
_TYPE: Final = re.compile(r"stream-exec-(.+)_\d+")
_RELEASE: Final = re.compile(r"(\d+)\.(\d+)")
_LABEL: Final = re.compile(r"([a-z-]+)\[(\d+)\]")


@dataclass(frozen=True)
class PlanNode:
    """A node of a plan, with its inputs.

    ``id`` and ``type``: id and type in the plan: ``5``, ``stream-exec-join_1``.
    """

    id: int
    type: str
    content: Mapping[str, Any]  # JSON of the node
    inputs: tuple[PlanNode, ...] = field(repr=False)  # the input nodes, in the order of the operator's inputs
    # the release of Flink that compiled the plan, such as ``(2, 3)``; empty if the plan does not name it
    release: tuple[int, ...] = ()

    @cached_property
    def output(self) -> PlanFields:
        """The fields of the output rows."""
        return self.fields_of("outputType")

    @property
    def kind(self) -> str:
        """The name of its function, such as ``join``."""
        match = _TYPE.fullmatch(self.type)
        return self.type if match is None else match[1]

    @property
    def transformations(self) -> tuple[str, ...]:
        """The possible operators of the node."""
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
        """Whether states have time-to-live, by their indexes. Plans before Flink 1.18 do not contain this."""
        states = self.at("state", default=())
        return {int(state.get("index", 0)): not str(state.get("ttl", "0")).strip().startswith("0") for state in states}

    def fields_of(self, member: str) -> PlanFields:
        """Return the fields of a row type in the JSON of the node."""
        try:
            return row_fields(self.content.get(member))
        except (OptionError, KeyError, TypeError) as error:
            raise OptionError(f"plan: {member} of node {self.id} ({self.type}): {error}") from None

    def at(self, *path: str, default: Any = None) -> Any:
        """Return a part of the JSON, or the default if it does not exist."""
        part: Any = self.content
        for name in path:
            part = part.get(name) if isinstance(part, Mapping) else None
        return default if part is None else part


@dataclass(frozen=True)
class PlanOperator:
    """An operator of the job that runs a plan: a node, and the operator's part of it."""

    node: PlanNode
    transformation: str
    uid: str

    @property
    def uid_hash(self) -> str:
        """The hash of the uid."""
        return operator_id(self.uid)

    @property
    def label(self) -> str:
        """The name of the operator and the number of the node: ``group-aggregate[5]``."""
        return f"{self.transformation}[{self.node.id}]"


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
        once = Counter(transformation for node in self.nodes for transformation in node.transformations)
        operators: dict[str, PlanOperator] = {}
        for node in self.nodes:
            for transformation in node.transformations:
                formats = uid_formats(node, transformation)
                for uid in formats if once[transformation] == 1 else formats[:-1]:
                    operators.setdefault(operator_id(uid), PlanOperator(node, transformation, uid))
        return operators

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
        sources = [source for source, target in edges if target == number]
        missing = [source for source in sources if source not in linked]
        if missing:
            raise OptionError(f"plan: node {number} has the input {missing[0]}; this node does not precede it")
        linked[number] = PlanNode(number, type_, content, tuple(linked[source] for source in sources), release)
        yield linked[number]


# The normal form of nodes: equal for nodes that do the same, independent of Flink's version. Versions differ in omitted members,
# in unused names, and in the versions of node types.

_EMPTY: Final[tuple[Any, ...]] = (None, [], {})
"""Values that a plan may omit: Flink 2 does not write empty lists."""

_DEFAULTS: Final = {"upsertMaterializeStrategy": "LEGACY"}
"""Members that plans omit if they have this value."""

_VERSIONED: Final = re.compile(r"(stream-exec-(?:sink|table-source-scan))_[12]")
"""Types of nodes with the same state in versions 1 and 2. Versions of other types are distinguished."""

_OWN: Final = frozenset({"id", "description", "inputProperties", "outputType", "state", "configuration", "unboundedOverVersion"})
"""Members that do not define the function of a node: names, numbers, time-to-live, the version of its states."""


def normal_node(node: PlanNode) -> dict[str, Any]:
    """Return the function of a node, without its columns, its number, and its name."""
    form: dict[str, Any] = normal_form({name: part for name, part in node.content.items() if name not in _OWN})
    return form


def normal_form(part: Any) -> Any:
    """Return JSON with only the members that define the function of a node.

    Members that are null, empty or equal to their default are omitted. The names of aggregate calls are omitted. A row type
    becomes the types of its fields.
    """
    if isinstance(part, list):
        return list(map(normal_form, part))
    if not isinstance(part, Mapping):
        return part
    members = {name: _member(name, member) for name, member in part.items() if not (name == "name" and "argList" in part)}
    return {name: member for name, member in members.items() if member not in _EMPTY and _DEFAULTS.get(name) != member}


def _member(name: str, part: Any) -> Any:
    if name == "type" and isinstance(part, str):
        return _VERSIONED.sub(r"\1", part)
    if name.endswith("RowType"):
        try:
            return [str(row.type) for row in row_fields(part)]
        except (OptionError, KeyError, TypeError):
            return normal_form(part)
    return normal_form(part)
