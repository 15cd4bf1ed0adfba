"""Expressions of plans as text of SQL (Flink: ``RexNodeJsonSerializer``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from state_processor.backends.sql.plan_types import plan_type

_INTERNAL: Final = re.compile(r"\$(.+)\$\d+")
_WITH_OPERATORS: Final = ("BINARY", "POSTFIX", "PREFIX")
_TIMED: Final = ("DATE", "TIME", "TIMESTAMP")
"""Types whose literals start with the name of the type."""

Json = Mapping[str, Any]


def expression_text(expression: Json, columns: Sequence[str]) -> str | None:
    """Return an expression as text; ``None`` if it has an unknown part.

    Parameters
    ----------
    expression
        JSON of the expression.
    columns
        The names or texts of the referenced columns.
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
