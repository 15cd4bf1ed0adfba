"""Nodes of compiled plans, and the description of an operator of Flink SQL.

The descriptions are in :mod:`state_processor.applications.flink_sql.operators`. A node has the description of its operator: an
activity, such as naming or migration, asks the node, and does not know the kinds of operators.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from state_processor import OperatorIdentifier
from state_processor.applications.flink_sql.fields import (
    PlanFields,
    Relation,
    Relations,
    distinct_names,
    identity,
    normal_node,
    picked,
    row_fields,
)
from state_processor.errors import OptionError, StateMigrationError
from state_processor.serializers import RowDataSerializer, TupleSerializer, TypeSerializer
from state_processor.snapshots import HashedNode
from state_processor.states import StateDescription
from state_processor.support import cached_property, names_of
from state_processor.types import FieldName, RowNames, parts_of, rows_in

if TYPE_CHECKING:
    from state_processor.applications.flink_sql.bootstrap import History
    from state_processor.applications.flink_sql.state_changes import StateChanges
    from state_processor.states import StateDescription
    from state_processor.types import DeclaredNames

_TYPE: Final = re.compile(r"stream-exec-(.+)_\d+")
_MADE: Final = re.compile(r"\$.+|EXPR\$\d+(_\d+)?|w\d+\$o\d+(_\d+)?")
"""Names of columns from Flink's planner."""
_LONGEST: Final = 100
_KEY: Final = "key"


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a state."""

    description: str  # text for users
    # the fields of the row in each part of the state: ``map_key`` and ``value``
    rows: Mapping[str, PlanFields] = field(default_factory=dict)
    tuples: tuple[str, ...] = ()  # the names of the fields of tuples that contain rows or counts


class Column(NamedTuple):
    """A column: its name, or its expression instead of a name from Flink."""

    text: str
    generated_name: str = ""


Columns = Sequence[Column | None]
"""The text of each column; ``None`` for unknown columns. Further columns may follow."""


def at_paths(*paths: Sequence[str]) -> Callable[[PlanNode], list[list[int]]]:
    """Return the function that reads the positions of key columns in the JSON of a node, for each input."""
    return lambda node: [list(map(int, node.at(*path, default=()))) for path in paths]


def _key_of_first_input(node: PlanNode) -> PlanFields | None:
    keys = node.operator.keys
    return None if keys is None else picked(node.input_row(), keys(node)[0])


def _input_columns(node: PlanNode) -> Columns:
    return list(chain.from_iterable(source.columns for source in node.inputs))


def unknown_rows(node: PlanNode, inputs: Relations) -> Relation:
    """Return rows that are equal if everything that a node does is equal, and its whole input."""
    inputs_of_node = []
    for relation in inputs:
        types = [str(field.type) for field in relation.fields]
        inputs_of_node.append((relation.rows, relation.columns, types))
    rows = identity(normal_node(node.content), inputs_of_node)
    fields = node.output if node.at("outputType") is not None else ()
    updates = any(relation.updates for relation in inputs)
    return Relation(rows, tuple(identity(rows, i) for i in range(len(fields))), fields, updates)


def role_by_keys(node: PlanNode) -> tuple[Any, ...] | None:
    """Return the function of a node with its input rows, keys and windows; ``None`` if its columns matter too."""
    if node.operator.changes is None:
        return None
    inputs = node.input_relations
    keys = [tuple(relation.picked(key)) for relation, key in zip(inputs, node.key_columns, strict=False)]
    find = node.operator.windows
    windows = "" if find is None else json.dumps(find(node, inputs[0]), sort_keys=True)
    return (node.kind, tuple(relation.rows for relation in inputs), tuple(keys), windows)


SinkShape = tuple[tuple[str, bool], ...]
"""The operators of a connector's sink in their order, and whether each is in the task of the one before it."""


@dataclass(frozen=True, slots=True)
class Way:
    """Decisions that a plan does not contain."""

    chaining: bool
    match_chained: bool
    shapes: Mapping[int, SinkShape]
    validated: Mapping[int, bool]
    timestamps: bool


Outlets = tuple[tuple[int, bool], ...]
"""Positions of operators whose records a node passes on, and whether it passes them on to the same subtask."""


@dataclass
class JobGraph:
    """The operators of a job: their names in the plan, and their inputs."""

    way: Way
    operators: list[str] = field(default_factory=list)
    nodes: list[HashedNode] = field(default_factory=list)

    def add(self, transformation: str, inputs: Sequence[Outlets], *, chained: bool = True) -> Outlets:
        """Add an operator of a node."""
        edges = list(chain.from_iterable(inputs))
        is_chained = len(edges) == 1 and edges[0][1] and chained and self.way.chaining
        self.nodes.append(HashedNode(tuple(place for place, _ in edges), tuple(is_chained for _ in edges)))
        self.operators.append(transformation)
        return ((len(self.nodes) - 1, True),)


States = Mapping[str, "StateDescription"]


@dataclass(frozen=True, kw_only=True)
class Operator:
    """The description of an operator of Flink SQL, or of several with the same description.

    An activity asks for its fields. A field that is omitted has the usual answer: no state, unknown rows, no migration.
    """

    names: tuple[str, ...]  # the names of the operator in labels and uids: ``join``
    nodes: tuple[str, ...] = ()  # the kinds of its nodes in plans, if they differ from the names
    kind: str = ""  # its kind in listings, if it differs from the first name
    # all operators of the job that its node may become, if it may become several (Flink: ``…_TRANSFORMATION``)
    transformations: tuple[str, ...] = ()

    # States. ``state_names``: a regular expression of names that only this operator has. ``has_states``: whether an operator
    # with these states is of this kind, from names that several operators have
    meaning: Callable[[PlanNode, StateDescription], Meaning | None] | None = None
    state_names: str = ""
    has_states: Callable[[States], bool] | None = None

    # Key: the positions of its columns in each input, and its fields; ``None`` if they are not known
    keys: Callable[[PlanNode], list[list[int]]] | None = None
    key: Callable[[PlanNode], PlanFields | None] = _key_of_first_input

    # Output: the texts of its columns, and the identity of its rows
    columns: Callable[[PlanNode], Columns] | None = _input_columns  # ``None``: Flink's names are shown
    relation: Callable[[PlanNode, Relations], Relation] = unknown_rows
    passes: bool = False  # whether its output is its input
    first_phase: str = ""  # the kind of the node that aggregates before this one
    windows: Callable[[PlanNode, Relation], Any] | None = None  # the windows that rows are grouped by

    # Start from rows: the content of states, or the reason why it can't be computed
    history: Callable[[PlanNode], History] | None = None
    no_history: str = "it does not have state that can be computed from its input"

    # Migration to the node of another plan. Without ``changes``, a node can only be kept unchanged
    changes: Callable[[PlanNode, PlanNode], StateChanges] | None = None
    role: Callable[[PlanNode], tuple[Any, ...] | None] = role_by_keys  # the action of a node, independent of its columns
    keyed_rows: Callable[[PlanNode], Relation | None] = lambda node: node.input_relations[0]  # ``None`` without a key
    check: Callable[[PlanNode], Any] = lambda node: None  # refuses a node whose state can't be compared
    has_versions: bool = True  # whether the version of the node decides on its state
    ttl_states: Mapping[int, str] = field(default_factory=lambda: {0: ""})  # states by the index of their time-to-live
    changes_ttl: bool = False  # whether all of its states may get or lose time-to-live
    mismatch: str = "has other windows, or does something else"  # why a node with the same key and rows does not match
    unchanged: str = "such state can only be kept unchanged"  # why an operator without changes does not match
    other_shapes: Mapping[str, str] = field(default_factory=dict)  # why another kind of node can't continue

    # Translation to the operators of a job
    translate: Callable[[JobGraph, PlanNode, Sequence[Outlets]], Outlets] = lambda graph, node, inputs: graph.add(
        node.transformations[0], inputs
    )

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its nodes."""
        return self.nodes or self.names


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
    release: tuple[int, ...]
    operator: Operator = field(repr=False, compare=False)  # the description of its operator

    @property
    def kind(self) -> str:
        """The name of its function, such as ``join``."""
        return kind_of_type(self.type)

    @property
    def label(self) -> str:
        """The function and the number of the node: ``join[5]``."""
        return f"{self.kind}[{self.id}]"

    @property
    def transformations(self) -> tuple[str, ...]:
        """The possible operators of the node."""
        return self.operator.transformations or (self.operator.names if self.operator.nodes else (self.kind,))

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

    @cached_property
    def output(self) -> PlanFields:
        """The fields of the output rows."""
        return self.fields_of("outputType")

    @property
    def left(self) -> PlanFields:
        """The fields of the rows of the first input."""
        return self.inputs[0].output if self.inputs else ()

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The output columns with their texts."""
        fields = self.output if self.at("outputType") is not None else ()
        with self._matching_inputs():
            columns = () if self.operator.columns is None else self.operator.columns(self)
        columns = (*columns, *[None] * (len(fields) - len(columns)))[: len(fields)]
        return tuple(_with_text(f.name, column) for f, column in zip(fields, columns, strict=True))

    @property
    def left_columns(self) -> tuple[Column, ...]:
        """The columns of the first input."""
        return self.inputs[0].columns if self.inputs else ()

    @cached_property
    def row(self) -> PlanFields:
        """The output fields; the names of computed fields are their expressions.

        All names are distinct, also from the names of other fields in the plan: given rows may use either.
        """
        names = names_of(distinct_names(self.output))
        used_names = set(names)
        fields = []
        for position, (field_, own_name, column) in enumerate(zip(self.output, names, self.columns, strict=True)):
            name = column.text if column.generated_name else own_name
            while name != own_name and name in used_names:
                name = f"{name}_{position}"
            used_names.add(name)
            fields.append(replace(field_, name=name))
        return tuple(fields)

    def input_row(self, at: int = 0) -> PlanFields:
        """Return the fields of the rows of an input, as :attr:`row` has them."""
        return self.inputs[at].row if at < len(self.inputs) else ()

    @property
    def first_phase(self) -> PlanNode | None:
        """The first phase, if this is the second phase of an aggregate."""
        if not self.operator.first_phase or not self.inputs:
            return None
        local = self.inputs[0]
        while local.operator.passes and local.inputs:
            local = local.inputs[0]
        return local if local.kind == self.operator.first_phase and local.inputs else None

    @cached_property
    def relation(self) -> Relation:
        """The identities of the output rows and columns."""
        inputs = self.input_relations
        with self._matching_inputs():
            return self.operator.relation(self, inputs)

    @contextmanager
    def _matching_inputs(self) -> Iterator[None]:
        """Refuse a damaged plan: members of the node that do not fit its inputs or its output."""
        try:
            yield
        except OptionError:  # of an input, which it names
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise OptionError(f"plan: node {self.id} ({self.type}) does not match its inputs: {error!r}") from None

    @property
    def input_relations(self) -> Relations:
        """The identities of the input rows. An aggregate in two phases has the input of the first phase."""
        return tuple(source.relation for source in (self.first_phase or self).inputs)

    @property
    def whole(self) -> str:
        """An identity of everything that the node does, and of its whole input."""
        return unknown_rows(self, tuple(source.relation for source in self.inputs)).rows

    def same(self, new: PlanNode, subject: str, value: Callable[[PlanNode], Any]) -> None:
        """Refuse another value of a node of the new plan."""
        if value(self) != value(new):
            raise StateMigrationError(f"{subject} {new.label} of the new plan differs")

    @property
    def role(self) -> tuple[Any, ...] | None:
        """The function of the node with its input rows, independent of its columns; ``None`` if columns matter."""
        return self.operator.role(self)

    @property
    def key_columns(self) -> list[list[int]]:
        """The positions of the key columns in the rows of :attr:`input_relations`; empty if they are not known."""
        return [] if self.operator.keys is None else self.operator.keys(self.first_phase or self)


def kind_of_type(node_type: str) -> str:
    """Return the name of the function of a type of nodes: ``join`` of ``stream-exec-join_1``."""
    match = _TYPE.fullmatch(node_type)
    return node_type if match is None else match[1]


def _with_text(name: str, column: Column | None) -> Column:
    """Return a column with its text, if Flink made its name."""
    if column is None or not (_MADE.fullmatch(name) or (column.generated_name and _is_numbered(name, column.generated_name))):
        return Column(name)
    text = column.text if len(column.text) <= _LONGEST else f"{column.text[: _LONGEST - 1]}…"
    return Column(text, generated_name=name)


def _is_numbered(name: str, base: str) -> bool:
    """Check if a name is equal to another, or to the other with a number: Flink's planner adds a number to a used name."""
    return name.startswith(base) and re.fullmatch(r"\d*", name[len(base) :]) is not None


@dataclass(frozen=True)
class PlanOperator:
    """An operator of the job that runs a plan: a node, and the operator's part of it."""

    node: PlanNode
    transformation: str
    uid: str

    @property
    def uid_hash(self) -> str:
        """The hash of the uid."""
        return OperatorIdentifier.for_uid(self.uid).uid_hash

    @property
    def label(self) -> str:
        """The name of the operator and the number of the node: ``group-aggregate[5]``."""
        return f"{self.transformation}[{self.node.id}]"

    @property
    def operator(self) -> Operator | None:
        """The description; ``None`` for a part of the node without keyed state."""
        return self.node.operator if self.transformation in self.node.operator.names else None

    @property
    def key(self) -> PlanFields | None:
        """The fields of the key; ``None`` if they are not known."""
        return None if self.operator is None else self.operator.key(self.node)

    def meaning(self, state: StateDescription) -> Meaning | None:
        """Return the meaning of a state; ``None`` if it is not known."""
        find = None if self.operator is None else self.operator.meaning
        return None if find is None else find(self.node, state)

    def names(self, state: StateDescription) -> DeclaredNames:
        """Return the names of rows, by part of a state; parts without names are omitted."""
        meaning = self.meaning(state)
        rows = dict(meaning.rows) if meaning is not None else {}
        if self.key is not None and state.is_keyed:
            rows[_KEY] = self.key
        tuples = meaning.tuples if meaning is not None else ()
        context = f"{self.label} (uid {self.uid!r}), state {state.name!r}"
        names_of_parts = {}
        for part, serializer in state.serializers.items():
            tuples_of_part = tuples if part == "value" else ()
            if part in rows or tuples_of_part:
                names = _named(serializer, rows.get(part, ()), tuples_of_part, f"{context}, {part}")
                if names:
                    names_of_parts[part] = names
        return names_of_parts

    def description(self, state: StateDescription) -> str | None:
        """Return a description of a state for users; ``None`` for an unknown state."""
        if state.is_timer:
            return "timers"
        meaning = self.meaning(state)
        return None if meaning is None else meaning.description


def _named(serializer: TypeSerializer, fields: PlanFields, tuples: tuple[str, ...], context: str) -> RowNames:
    """Compare the types of the plan with a serializer; return the plan's names for the row and the tuple around it."""
    names: list[tuple[FieldName, ...] | None] = []
    for row in rows_in(serializer):
        if isinstance(row, TupleSerializer):
            names.append(tuples if len(tuples) == len(row.fields) else None)
        elif isinstance(row, RowDataSerializer):
            _check_types(row, fields, context)
            names.append(_field_names(fields))
        else:
            names.append(row.names)
    return tuple(names)


def _field_names(fields: PlanFields) -> tuple[FieldName, ...]:
    return tuple((f.name, _field_names(f.fields)) if f.fields else f.name for f in distinct_names(fields))


def _check_types(row: RowDataSerializer, fields: PlanFields, context: str) -> None:
    """Refuse a plan with other types than the types in the bytes."""
    types = row.slot.type.types
    differs = any(f.type is not None and written_type != f.type for written_type, f in zip(types, fields, strict=False))
    if len(types) != len(fields) or differs:
        plan_row = f"ROW<{', '.join(map(str, fields))}>"
        raise OptionError(
            f"plan: {context} is {row}, the plan has {plan_row}; pass the plan of the query that wrote the snapshot"
        )


TIMES: Final = {
    "lastTriggeringTsState": "the time of the last processed rows, in epoch milliseconds",
    "cleanupTsState": "the time of the cleanup of state, in epoch milliseconds",
    "processedCountState": "the number of processed rows",
    "idState": "the number of the next row",
}
"""States of operators by time."""

WINDOWS: Final = {
    "session-window-mapping": "session windows: each window with rows, and the window with its state",
    "merging-window-set": "session windows: each window with rows, and the window with its state",
    "previous-aggs": "emitted results, for retractions",
    "watermark": "the watermark of the operator",
}
"""States of operators by window."""


def by_name(texts: Mapping[str, str], *rows: Mapping[str, str]) -> Callable[[PlanNode, StateDescription], Meaning | None]:
    """Return the meanings of states by their names. ``rows``: states whose values are rows of an input, for each input."""

    def find(node: PlanNode, state: StateDescription) -> Meaning | None:
        for at, texts_of_rows in enumerate(rows):
            if state.name in texts_of_rows:
                return Meaning(texts_of_rows[state.name], {"value": node.input_row(at)})
        return Meaning(texts[state.name]) if state.name in texts else None

    return find


def has_rows(part: TypeSerializer) -> bool:
    """Return whether a part of a state contains rows."""
    return bool(parts_of(RowDataSerializer, part))
