"""Columns that a query computes as text of SQL: plans call them ``$f2`` (Flink: ``RexNodeJsonSerializer``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from state_processor.backends.sql.plan import PlanNode

_COMPUTED: Final = re.compile(r"\$f\d+")
_INTERNAL: Final = re.compile(r"\$(.+)\$\d+")
_PASSING: Final = ("exchange", "watermark-assigner", "mini-batch-assigner", "drop-update-before", "local-", "incremental-")
"""Beginnings of the types of nodes that come between the columns and what refers to them."""

_LONGEST: Final = 100
"""Longer text says less than a number does."""

_WITH_OPERATORS: Final = ("BINARY", "POSTFIX", "PREFIX")


def column_texts(node: PlanNode) -> Mapping[str, str]:
    """Return what the columns are that were computed for a node, by their names; columns without text are left out."""
    calc = _calc_before(node)
    projection = None if calc is None else calc.at("projection")
    if calc is None or not calc.inputs or not isinstance(projection, list):
        return {}
    before = column_texts(calc)
    columns = [before.get(f.name, f.name) for f in calc.inputs[0].output]
    texts = {
        f.name: _text(_without_is_true(expression), columns)
        for f, expression in zip(calc.output, projection, strict=False)
        if _COMPUTED.fullmatch(f.name)
    }
    return {name: text for name, text in texts.items() if text is not None and len(text) <= _LONGEST}


def _calc_before(node: PlanNode) -> PlanNode | None:
    """Return the node before another one that computes its columns."""
    while node.inputs:
        (node, *_) = node.inputs
        name = node.type.removeprefix("stream-exec-")
        if name.startswith("calc_"):
            return node
        if not name.startswith(_PASSING):
            return None
    return None


def _without_is_true(expression: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the condition of a filter: rows for which it is unknown do not count, as SQL has it."""
    operands = expression.get("operands") or [expression]
    return operands[0] if expression.get("internalName") == "$IS TRUE$1" else expression


def _text(expression: Mapping[str, Any], columns: Sequence[str]) -> str | None:
    """Return an expression as text; ``None`` if it has a part that is not known."""
    match expression.get("kind"):
        case "INPUT_REF":
            at = int(expression["inputIndex"])
            return columns[at] if at < len(columns) else None
        case "LITERAL":
            return _literal(expression["value"]) if "value" in expression else None
        case "CALL":
            return _call(expression, columns)
    return None


def _literal(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _call(expression: Mapping[str, Any], columns: Sequence[str]) -> str | None:
    name, syntax = _name(expression), expression.get("syntax", "FUNCTION")
    operands: list[str] = []
    for operand in expression.get("operands", ()):
        text = _text(operand, columns)
        if text is None:
            return None
        is_call = operand.get("kind") == "CALL" and operand.get("syntax") in _WITH_OPERATORS
        is_computed = operand.get("kind") == "INPUT_REF" and " " in text
        operands.append(f"({text})" if syntax in _WITH_OPERATORS and (is_call or is_computed) else text)
    if name is None or syntax == "SPECIAL":
        return _SPECIAL[name](operands, expression.get("type")) if name in _SPECIAL else None
    match syntax, operands:
        case "BINARY", [_, _, *_]:
            return f" {name} ".join(operands)
        case "POSTFIX", [operand]:
            return f"{operand} {name}"
        case "PREFIX", [operand]:
            return f"{name} {operand}"
        case "FUNCTION", _:
            return f"{name}({', '.join(operands)})"
    return None


def _name(expression: Mapping[str, Any]) -> str | None:
    internal = _INTERNAL.fullmatch(str(expression.get("internalName", "")))
    if internal is not None:
        return internal[1]
    catalog = str(expression.get("catalogName", "")).rpartition(".")[2].strip("`")
    return catalog or expression.get("systemName")


def _cast(operands: Sequence[str], type_: Any) -> str | None:
    return f"CAST({operands[0]} AS {type_.removesuffix(' NOT NULL')})" if isinstance(type_, str) and operands else None


def _case(operands: Sequence[str], _: Any) -> str | None:
    """Return conditions and values in turn, and at last the value otherwise."""
    if len(operands) % 2 == 0:
        return None
    cases = zip(operands[:-1:2], operands[1::2], strict=True)
    return f"CASE {' '.join(f'WHEN {condition} THEN {value}' for condition, value in cases)} ELSE {operands[-1]} END"


def _like(operands: Sequence[str], _: Any) -> str | None:
    return " LIKE ".join(operands) if len(operands) == 2 else None


_SPECIAL: Final[Mapping[str | None, Callable[[Sequence[str], Any], str | None]]] = {"CAST": _cast, "CASE": _case, "LIKE": _like}
