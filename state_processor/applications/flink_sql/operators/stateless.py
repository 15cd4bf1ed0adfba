"""Operators without keyed state: sources, projections, exchanges, unions, lookups, and functions on tables.

The name of a computed column is its expression; Flink's name for it is ``$f2``, ``$5``, ``EXPR$0`` or ``w0$o1``. It keeps Flink's
name if the plan does not contain the expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from state_processor.applications.flink_sql.fields import (
    PlanFields,
    Relation,
    Relations,
    identity,
    picked,
    plan_type,
    resolved,
    row_fields,
)
from state_processor.applications.flink_sql.nodes import (
    TIMES,
    WINDOWS,
    Column,
    Columns,
    JobGraph,
    Operator,
    Outlets,
    PlanNode,
    by_name,
    unknown_rows,
)
from state_processor.support import names_of, without_keys

_NO_ROWS: Final = frozenset({"ProjectPushDown", "ReadingMetadata", "WatermarkPushDown", "SourceWatermark"})
"""Abilities of sources that do not select rows."""


def _table(node: PlanNode) -> Any:
    return node.at("scanTableSource", "table", "identifier")


def _table_rows(node: PlanNode, inputs: Relations) -> Relation:
    table = _table(node)
    if table is None:
        return unknown_rows(node, inputs)
    schema = node.at("scanTableSource", "table", "resolvedTable", "schema", "columns", default=())
    names = [str(column.get("name")) for column in schema]
    stored = [str(column.get("name")) for column in schema if column.get("kind") != "COMPUTED"]
    inner: dict[str, tuple[Any, ...]] = {}
    conditions: list[Any] = []
    for ability in node.at("scanTableSource", "abilities", default=()):
        if ability.get("type") not in _NO_ROWS:
            content = without_keys(ability, ("producedType",))
            conditions.append(resolved(content, names) if names else node.at("scanTableSource"))
        if ability.get("type") == "ProjectPushDown":
            names = names_of(row_fields(ability.get("producedType")))
            paths = zip(names, ability.get("projectedFields", ()), strict=False)
            # Positions of fields of rows that become columns, by name: a column may have the same name.
            inner = {name: (stored[path[0]], *path[1:]) for name, path in paths if len(path) > 1}
    columns = tuple(identity("column", table, *inner.get(f.name, (f.name,))) for f in node.output)
    return Relation(identity("table", table, conditions), columns, node.output)


def _union(node: PlanNode, inputs: Relations) -> Relation:
    columns_of_inputs = [source.columns for source in inputs]
    columns = tuple(identity("union", alternatives) for alternatives in zip(*columns_of_inputs, strict=True))
    rows = identity("union", [source.rows for source in inputs])
    return Relation(rows, columns, node.output, any(source.updates for source in inputs))


def _lookup(graph: JobGraph, node: PlanNode, inputs: Sequence[Outlets]) -> Outlets:
    is_kept = bool(node.at("requireUpsertMaterialize"))
    return graph.add("lookup-join-materialize" if is_kept else "lookup-join", inputs, chained=not is_kept)


def _partition_keys(node: PlanNode) -> PlanFields:
    """Return the columns that partition the first table of a process table function (Flink: ``RexTableArgCall``)."""
    tables = (operand for operand in node.at("functionCall", "operands", default=()) if operand.get("kind") == "TABLE_ARG_CALL")
    first: Mapping[str, Any] = next((table for table in tables if int(table.get("inputIndex", 0)) == 0), {})
    return picked(node.input_row(), first.get("partitionKeys"))


_PASSING: Final = Operator(
    names=("watermark-assigner", "drop-update-before", "mini-batch-assigner"),
    relation=lambda node, inputs: replace(inputs[0], fields=node.output),
    passes=True,
)


_INTERNAL: Final = re.compile(r"\$(.+)\$\d+")
_WITH_OPERATORS: Final = ("BINARY", "POSTFIX", "PREFIX")
_TIMED: Final = ("DATE", "TIME", "TIMESTAMP")
"""Types whose literals start with the name of the type."""

Json = Mapping[str, Any]


def _expression_text(expression: Json, columns: Sequence[str]) -> str | None:
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
            operand = _expression_text(expression.get("expr") or {}, columns)
            return None if operand is None else f"{operand}.{expression.get('name')}"
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
        return _search(_expression_text(arguments[0], columns), arguments[1].get("sarg"))
    operands: list[str] = []
    for part in arguments:
        text = _expression_text(part, columns)
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


def _cast(operand: str, operand_type: Any, target_type: Any) -> str | None:
    """Return a cast; only the value if the cast just turns a time attribute into a regular column."""
    target, origin = plan_type(target_type), plan_type(operand_type)
    if target is None:
        return None
    is_time = isinstance(operand_type, Mapping) and operand_type.get("kind") in ("ROWTIME", "PROCTIME")
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
        parts = []
        for sign, bound in ((">", lower), ("<", upper)):
            if bound:
                closed = "=" if bound.get("boundType") == "CLOSED" else ""
                parts.append(f"{operand} {sign}{closed} {_literal(bound)}")
        conditions.append(" AND ".join(parts))
    return " OR ".join(conditions)


_SPECIAL: Final[Mapping[str | None, Callable[[Sequence[str]], str | None]]] = {
    "CASE": _case,
    "LIKE": _between("LIKE"),
    "MINUS_DATE": _between("-"),
    "-": _between("-"),
    "ITEM": lambda operands: f"{operands[0]}[{operands[1]}]" if len(operands) == 2 else None,
}


_OF_FUNCTION: Final = re.compile(r"f\d+")
"""Names of the results of asynchronous and Python functions; users like these names too."""


def _projection(node: PlanNode) -> Columns:
    """Return the columns of a projection. A column has Flink's name if the planner or a function has named it."""
    projection = node.at("projection")
    if not isinstance(projection, list):
        return node.left_columns
    names = names_of(node.output)
    columns = []
    for expression, name in zip(projection, names, strict=True):
        column = _projected(expression, node.left_columns)
        # Flink's planner adds a 0 to the name of another column; users number from 1 or 2.
        is_made = name.endswith("0") and name[:-1] in names if node.kind == "calc" else _OF_FUNCTION.fullmatch(name)
        if column is not None and expression.get("kind") != "INPUT_REF" and is_made:
            column = column._replace(generated_name=name)
        columns.append(column)
    return columns


def _projected(expression: Json, source_columns: Sequence[Column]) -> Column | None:
    if expression.get("kind") == "INPUT_REF":
        at = int(expression["inputIndex"])
        return source_columns[at] if at < len(source_columns) else None
    text = _expression_text(_without_is_true(expression), [column.text for column in source_columns])
    return None if text is None else Column(text)


def _without_is_true(expression: Json) -> Json:
    """Return the condition of a filter without ``IS TRUE``: in SQL, rows with an unknown condition do not count."""
    operands = expression.get("operands") or [expression]
    return operands[0] if expression.get("internalName") == "$IS TRUE$1" else expression


def _projected_rows(node: PlanNode, inputs: Relations) -> Relation:
    (relation,) = inputs
    condition, projection = node.at("condition"), node.at("projection")
    rows = relation.rows if condition is None else identity("where", relation.rows, resolved(condition, relation.columns))
    if projection is None:
        return Relation(rows, relation.columns, node.output, relation.updates)
    columns = []
    for expression in projection:
        computed = resolved(expression, relation.columns)
        columns.append(computed["column"] if computed.keys() == {"column"} else identity("computed", computed))
    return Relation(rows, tuple(columns), node.output, relation.updates)


def _grouping_sets(node: PlanNode) -> Columns:
    """Return the columns of rows that are emitted once for each grouping set, with null in columns outside of the set."""
    columns: list[Column | None] = []
    for column in zip(*node.at("projects", default=()), strict=True):
        origins = {int(expression["inputIndex"]) for expression in column if expression.get("kind") == "INPUT_REF"}
        if not origins:
            columns.append(Column("GROUPING_ID()"))
        else:
            columns.append(node.left_columns[origins.pop()] if len(origins) == 1 else None)
    return columns


_OF_FUNCTIONS: Final = Operator(names=("python-calc", "python-async-calc"), columns=_projection)
OPERATORS: Final = (
    Operator(
        names=("source",),
        nodes=("table-source-scan",),
        meaning=by_name({"SourceReaderState": "splits of the source"}),
        columns=None,
        relation=_table_rows,
        no_history="write its position with with_source_splits, or set it with options of the connector",
        role=lambda node: None if _table(node) is None else (node.kind, _table(node)),
    ),
    _PASSING,
    replace(
        _PASSING,
        names=("exchange",),
        translate=lambda graph, node, inputs: tuple((place, False) for place, _ in chain.from_iterable(inputs)),
    ),
    Operator(
        names=("union",),
        columns=lambda node: node.left_columns,
        relation=_union,
        translate=lambda graph, node, inputs: tuple(chain.from_iterable(inputs)),
    ),
    Operator(names=("lookup-join",), transformations=("lookup-join", "lookup-join-materialize"), translate=_lookup),
    Operator(names=("process",), nodes=("process-table-function",), key=_partition_keys, columns=None),
    Operator(names=("values", "ml-predict-table-function"), columns=None),
    Operator(names=("calc",), columns=_projection, relation=_projected_rows),
    _OF_FUNCTIONS,
    replace(
        _OF_FUNCTIONS,
        names=("async-calc",),
        meaning=by_name(TIMES | WINDOWS, {"_async_wait_operator_state_": "rows without a result yet"}),
    ),
    Operator(names=("expand",), columns=_grouping_sets),
)
