"""Names of the output columns of nodes of a plan, and the calls of aggregates.

The name of a computed column is its expression; Flink's name for it is ``$f2``, ``$5``, ``EXPR$0`` or ``w0$o1``. It keeps Flink's
name if the plan does not contain the expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from state_processor.backends.sql.calls import AggregateCall, aggregate_calls
from state_processor.backends.sql.plan import PlanFields, PlanNode, distinct_names, plan_type

_INTERNAL: Final = re.compile(r"\$(.+)\$\d+")
_WITH_OPERATORS: Final = ("BINARY", "POSTFIX", "PREFIX")
_TIMED: Final = ("DATE", "TIME", "TIMESTAMP")
"""Types whose literals start with the name of the type."""

Json = Mapping[str, Any]


def expression_text(expression: Json, columns: Sequence[str]) -> str | None:
    """Return an expression as text; ``None`` if it has an unknown part.

    ``columns``: the names or texts of the referenced columns.
    """
    match expression.get("kind"):
        case "INPUT_REF":
            at = int(expression["inputIndex"])
            return columns[at] if at < len(columns) else None
        case "LITERAL":
            return _literal(expression) if "value" in expression else None
        case "FIELD_ACCESS":
            of = expression_text(expression.get("expr") or {}, columns)
            return None if of is None else f"{of}.{expression.get('name')}"
        case "CALL":
            return _call(expression, columns)
    return None


def _literal(expression: Json) -> str:
    value, type_ = expression["value"], str(expression.get("type"))
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    if type_.startswith("INTERVAL"):
        return f"INTERVAL '{value}' {'MONTH' if 'YEAR' in type_ or 'MONTH' in type_ else 'MILLISECOND'}"
    if not isinstance(value, str) or "symbol" in expression:
        return str(value)
    (first, *_) = re.split(r"\W", type_, maxsplit=1)
    text = "'" + value.replace("'", "''") + "'"
    return f"{first} {text}" if first in _TIMED else text


def _call(expression: Json, columns: Sequence[str]) -> str | None:
    name, syntax = _name(expression), expression.get("syntax", "FUNCTION")
    arguments: Sequence[Json] = expression.get("operands") or ()
    if name == "SEARCH" and len(arguments) == 2:
        return _search(expression_text(arguments[0], columns), arguments[1].get("sarg"))
    operands: list[str] = []
    for part in arguments:
        text = expression_text(part, columns)
        if text is None:
            return None
        is_call = part.get("kind") == "CALL" and part.get("syntax") in _WITH_OPERATORS
        is_computed = part.get("kind") == "INPUT_REF" and " " in text
        operands.append(f"({text})" if syntax in _WITH_OPERATORS and (is_call or is_computed) else text)
    if name == "CAST" and operands:
        return _cast(operands[0], arguments[0].get("type"), expression.get("type"))
    if name in _SPECIAL and syntax == "SPECIAL":
        return _SPECIAL[name](operands)
    match syntax, operands:
        case "BINARY", [_, _, *_]:
            return f" {name} ".join(operands)
        case "POSTFIX", [operand]:
            return f"{operand} {name}"
        case "PREFIX", [operand]:
            return f"{name} {operand}"
        case (("FUNCTION" | "FUNCTION_STAR" | "FUNCTION_ID" | "SPECIAL" | "INTERNAL"), _) if name is not None:
            return f"{name}({', '.join(operands)})"
    return None


def _name(expression: Json) -> str | None:
    internal = _INTERNAL.fullmatch(str(expression.get("internalName", "")))
    if internal is not None:
        return internal[1]
    catalog = str(expression.get("catalogName", "")).rpartition(".")[2].strip("`")
    return catalog or expression.get("systemName")


def _cast(operand: str, of: Any, to: Any) -> str | None:
    """Return a cast; only the value if the cast just turns a time attribute into a regular column."""
    target, origin = plan_type(to), plan_type(of)
    if target is None:
        return None
    is_time = isinstance(of, Mapping) and of.get("kind") in ("ROWTIME", "PROCTIME")
    if is_time and origin is not None and origin.summary.partition(" *")[0] == target.summary:
        return operand
    return f"CAST({operand} AS {target.summary})"


def _case(operands: Sequence[str]) -> str | None:
    """Return ``CASE``: pairs of condition and value, then the value of ``ELSE``."""
    if len(operands) % 2 == 0:
        return None
    cases = zip(operands[:-1:2], operands[1::2], strict=True)
    return f"CASE {' '.join(f'WHEN {condition} THEN {value}' for condition, value in cases)} ELSE {operands[-1]} END"


def _between(operator: str) -> Callable[[Sequence[str]], str | None]:
    return lambda operands: f" {operator} ".join(operands) if len(operands) == 2 else None


def _search(operand: str | None, sarg: Any) -> str | None:
    """Return the condition that a value is in ranges (Calcite: ``Sarg``)."""
    ranges = sarg.get("ranges") if isinstance(sarg, Mapping) else None
    if operand is None or not ranges:
        return None
    bounds = [(range_.get("lower"), range_.get("upper")) for range_ in ranges]
    if all(lower and upper and lower == upper for lower, upper in bounds):
        return f"{operand} IN ({', '.join(_literal(lower) for lower, _ in bounds)})"
    conditions = []
    for lower, upper in bounds:
        parts = [
            f"{operand} {sign}{'=' if bound.get('boundType') == 'CLOSED' else ''} {_literal(bound)}"
            for sign, bound in ((">", lower), ("<", upper))
            if bound
        ]
        conditions.append(" AND ".join(parts))
    return " OR ".join(conditions)


_SPECIAL: Final[Mapping[str | None, Callable[[Sequence[str]], str | None]]] = {
    "CASE": _case,
    "LIKE": _between("LIKE"),
    "MINUS_DATE": _between("-"),
    "-": _between("-"),
    "ITEM": lambda operands: f"{operands[0]}[{operands[1]}]" if len(operands) == 2 else None,
}


_MADE: Final = re.compile(r"\$.+|EXPR\$\d+(_\d+)?|w\d+\$o\d+(_\d+)?")
"""Names of columns from Flink's planner."""

_OF_FUNCTION: Final = re.compile(r"f\d+")
"""Names of the results of asynchronous and Python functions; users like these names too."""

_LONGEST: Final = 100
_SENT: Final = ("exchange", "mini-batch-assigner", "watermark-assigner", "drop-update-before")
"""Nodes that may be between the two phases of an aggregate."""


class _Shown(NamedTuple):
    """A column: its name, or its expression instead of a name from Flink."""

    text: str
    made: str = ""


def shown_columns(node: PlanNode) -> PlanFields:
    """Return the output fields of a node; the names of computed fields are their expressions.

    All names are distinct, also from the names of other fields in the plan: given rows may use either.
    """
    names = [f.name for f in distinct_names(node.output)]
    used_names = set(names)
    shown_fields = []
    for position, (field, own_name, column) in enumerate(zip(node.output, names, _NodeColumns().of(node), strict=True)):
        name = column.text if column.made else own_name
        while name != own_name and name in used_names:
            name = f"{name}_{position}"
        used_names.add(name)
        shown_fields.append(replace(field, name=name))
    return tuple(shown_fields)


def group_calls(node: PlanNode) -> list[AggregateCall]:
    """Return the calls of an aggregate; arguments are input columns of its first phase."""
    prefix = "partialOriginal" if node.at("partialOriginalAggCalls") is not None else ""
    names = [f.name for f in distinct_names(call_input(node))]
    shown_inputs = _NodeColumns().before_first_phase(node)
    texts = {name: s.text for name, s in zip(names, shown_inputs, strict=True)} if len(shown_inputs) == len(names) else {}
    needed = "partialAggCallNeedRetractions" if prefix else "aggCallNeedRetractions"
    calls = node.at("partialOriginalAggCalls" if prefix else "aggCalls", default=())
    return aggregate_calls(calls, names, retractions(node, needed), texts, node.release)


def call_input(node: PlanNode) -> PlanFields:
    """Return the fields of the rows that the calls of an aggregate refer to: the input of its first phase."""
    member = "partialLocalAggInputRowType" if node.at("partialOriginalAggCalls") is not None else "localAggInputRowType"
    return node.fields_of(member) if node.at(member) is not None else node.left


def over_calls(node: PlanNode) -> list[AggregateCall]:
    """Return the calls of an ``OVER`` aggregate; arguments are columns of its input, and constants."""
    names, shown_inputs = [f.name for f in distinct_names(node.left)], _NodeColumns().left(node)
    texts = {name: s.text for name, s in zip(names, shown_inputs, strict=True)} if len(shown_inputs) == len(names) else {}
    return over_calls_of(node, _with_constants(node, names), texts)


def over_calls_of(node: PlanNode, columns: Sequence[str], texts: Mapping[str, str] | None = None) -> list[AggregateCall]:
    """Return the calls of an ``OVER`` aggregate, with some names for the columns of its input and its constants."""
    bounded = (over_is_bounded(node),)
    groups = node.at("overSpec", "groups", default=())
    calls = (aggregate_calls(group.get("aggCalls", ()), columns, bounded, texts, node.release) for group in groups)
    return [call for of_group in calls for call in of_group]


def _with_constants(node: PlanNode, columns: Sequence[str]) -> list[str]:
    return [*columns, *(str(c.get("value")) for c in node.at("overSpec", "constants", default=()))]


def over_is_bounded(node: PlanNode) -> bool:
    """Return whether rows leave the window of an ``OVER`` aggregate, and are retracted from its accumulators."""
    groups = node.at("overSpec", "groups", default=())
    return any(group.get("lowerBound", {}).get("kind") == "BOUNDED_WINDOW" for group in groups)


def retractions(node: PlanNode, member: str = "aggCallNeedRetractions") -> Sequence[bool]:
    """Return for each call of an aggregate whether rows may be retracted."""
    retracts = node.at(member)
    return retracts if retracts is not None else (bool(node.at("needRetraction", default=False)),)


class _NodeColumns:
    """Columns of nodes, cached."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[_Shown, ...]] = {}

    def of(self, node: PlanNode) -> tuple[_Shown, ...]:
        """Return the output columns of a node."""
        if node.id not in self._known:
            fields = node.output if node.at("outputType") is not None else ()
            columns = _COLUMNS.get(node.kind, _inputs_and_more)(self, node)
            unknown_columns = [None] * (len(fields) - len(columns))
            self._known[node.id] = tuple(
                _named(f.name, of) for f, of in zip(fields, (*columns, *unknown_columns)[: len(fields)], strict=True)
            )
        return self._known[node.id]

    def left(self, node: PlanNode) -> tuple[_Shown, ...]:
        """Return the columns of the first input."""
        return self.of(node.inputs[0]) if node.inputs else ()

    def before_first_phase(self, node: PlanNode) -> Sequence[_Shown]:
        """Return the columns that the calls of an aggregate refer to."""
        if not node.kind.startswith(("global-", "incremental-")):
            return self.left(node)
        before = node
        while before.inputs:
            before = before.inputs[0]
            if before.kind.startswith("local-"):
                return self.left(before)
            if before.kind.startswith("incremental-"):
                keys = [self.left(before)[int(i)] for i in before.at("partialAggGrouping", default=())]
                return [*keys, *(_Shown(str(call)) for call in group_calls(before))]
            if before.kind not in _SENT:
                break
        return self.left(node)


_Found = Sequence[_Shown | None]
"""The text of each column; ``None`` for unknown columns. Further columns may follow."""


def _named(name: str, column: _Shown | None) -> _Shown:
    """Return a column with its text, if Flink made its name."""
    if column is None or not (_MADE.fullmatch(name) or (column.made and _is_numbered(name, column.made))):
        return _Shown(name)
    text = column.text if len(column.text) <= _LONGEST else f"{column.text[: _LONGEST - 1]}…"
    return _Shown(text, made=name)


def _is_numbered(name: str, base: str) -> bool:
    """Check if a name is equal to another, or to the other with a number: Flink's planner adds a number to a used name."""
    return name.startswith(base) and re.fullmatch(r"\d*", name[len(base) :]) is not None


def _inputs_and_more(columns: _NodeColumns, node: PlanNode) -> _Found:
    """Return the columns of all inputs in order, for joins, ranks, windows, and nodes that emit their input rows."""
    inputs = list(map(columns.of, node.inputs))
    if node.kind == "union" or not inputs:
        return inputs[0] if inputs else ()
    return [column for source_columns in inputs for column in source_columns]


def _nothing(columns: _NodeColumns, node: PlanNode) -> _Found:
    return ()


def _calc(columns: _NodeColumns, node: PlanNode) -> _Found:
    projection = node.at("projection")
    if not isinstance(projection, list):
        return columns.left(node)
    names = [f.name for f in node.output]
    is_made = _is_first_of_a_name if node.kind == "calc" else _is_of_function
    columns_of_node = [_projected(expression, columns.left(node)) for expression in projection]
    return [
        column._replace(made=name)
        if column is not None and expression.get("kind") != "INPUT_REF" and is_made(name, names)
        else column
        for expression, column, name in zip(projection, columns_of_node, names, strict=True)
    ]


def _is_first_of_a_name(name: str, names: Collection[str]) -> bool:
    """Check if Flink's planner added a 0 to the name of another column, since users number from 1 or 2."""
    return name.endswith("0") and name[:-1] in names


def _is_of_function(name: str, names: Collection[str]) -> bool:
    return _OF_FUNCTION.fullmatch(name) is not None


def _projected(expression: Mapping[str, Any], source_columns: Sequence[_Shown]) -> _Shown | None:
    if expression.get("kind") == "INPUT_REF":
        at = int(expression["inputIndex"])
        return source_columns[at] if at < len(source_columns) else None
    text = expression_text(_without_is_true(expression), [column.text for column in source_columns])
    return None if text is None else _Shown(text)


def _without_is_true(expression: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the condition of a filter without ``IS TRUE``: in SQL, rows with an unknown condition do not count."""
    operands = expression.get("operands") or [expression]
    return operands[0] if expression.get("internalName") == "$IS TRUE$1" else expression


def _expand(columns: _NodeColumns, node: PlanNode) -> _Found:
    """Return the columns of rows that are emitted once for each grouping set, with null in columns outside of the set."""
    source_columns = columns.left(node)
    columns_of_node: list[_Shown | None] = []
    for column in zip(*node.at("projects", default=()), strict=True):
        origins = {int(expression["inputIndex"]) for expression in column if expression.get("kind") == "INPUT_REF"}
        columns_of_node.append(
            source_columns[origins.pop()] if len(origins) == 1 else None if origins else _Shown("GROUPING_ID()")
        )
    return columns_of_node


def _groups(columns: _NodeColumns, node: PlanNode) -> _Found:
    """Return the grouping columns, then the results of calls."""
    source_columns = columns.left(node)
    keys = [source_columns[int(i)] for i in node.at("grouping", default=()) if int(i) < len(source_columns)]
    return [*keys, *(_Shown(str(call)) for call in group_calls(node))]


def _first_phase(columns: _NodeColumns, node: PlanNode) -> _Found:
    """Return the grouping columns; accumulators follow."""
    source_columns = columns.left(node)
    return [source_columns[int(i)] for i in node.at("grouping", default=()) if int(i) < len(source_columns)]


def _incremental(columns: _NodeColumns, node: PlanNode) -> _Found:
    source_columns = columns.left(node)
    return [source_columns[int(i)] for i in node.at("finalAggGrouping", default=()) if int(i) < len(source_columns)]


def _over(columns: _NodeColumns, node: PlanNode) -> _Found:
    source_columns = columns.left(node)
    calls = over_calls_of(node, _with_constants(node, [column.text for column in source_columns]))
    return [*source_columns, *(_Shown(f"{call} OVER") for call in calls)]


_COLUMNS: Final[Mapping[str, Callable[[_NodeColumns, PlanNode], _Found]]] = {
    **dict.fromkeys(("calc", "async-calc", "python-calc", "python-async-calc"), _calc),
    **dict.fromkeys(("group-aggregate", "global-group-aggregate", "group-table-aggregate"), _groups),
    **dict.fromkeys(("window-aggregate", "global-window-aggregate", "group-window-aggregate"), _groups),
    **dict.fromkeys(("local-group-aggregate", "local-window-aggregate"), _first_phase),
    "incremental-group-aggregate": _incremental,
    "over-aggregate": _over,
    "expand": _expand,
    **dict.fromkeys(("table-source-scan", "match", "values", "process-table-function", "ml-predict-table-function"), _nothing),
}
"""Columns by kind of node. Other kinds have the columns of their inputs, then additional columns."""
