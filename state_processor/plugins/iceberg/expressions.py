"""Filters of Iceberg: Java objects of expressions, and their JSON.

Iceberg: ``ExpressionParser``, ``ResidualEvaluator``, ``Literals``, ``SerializationProxies``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from state_processor.connectors.codecs import Content
from state_processor.connectors.java import SCALARS, JavaEnum, JavaInstance, JavaList, array_bytes, class_name, elements
from state_processor.errors import InvalidRowError, UnsupportedFormatError
from state_processor.plugins.iceberg.classes import EXPRESSIONS, ICEBERG
from state_processor.plugins.iceberg.objects import unboxed

TRANSFORMS: Final = f"{ICEBERG}.transforms"
_OPERATION: Final = f"{EXPRESSIONS}.Expression$Operation"
_CONSTANT: Final = f"{EXPRESSIONS}.SerializationProxies$ConstantExpressionProxy"
_PREDICATE: Final = f"{EXPRESSIONS}.UnboundPredicate"
_REFERENCE: Final = f"{EXPRESSIONS}.NamedReference"
_PAIRS: Final = {f"{EXPRESSIONS}.And": "and", f"{EXPRESSIONS}.Or": "or"}
_NOT: Final = f"{EXPRESSIONS}.Not"
_SETS: Final = ("in", "not-in")
_BYTES: Final = ("FixedLiteralProxy", "BinaryLiteralProxy")
_NAMED: Final = {
    **{f"{TRANSFORMS}.SerializationProxies${name}sTransformProxy": name.lower() for name in ("Year", "Month", "Day", "Hour")},
    f"{TRANSFORMS}.SerializationProxies$IdentityTransformProxy": "identity",
    f"{TRANSFORMS}.SerializationProxies$VoidTransformProxy": "void",
}
_SIZED: Final = {f"{TRANSFORMS}.Bucket": ("bucket", "numBuckets"), f"{TRANSFORMS}.Truncate": ("truncate", "width")}


# Objects to JSON


def transform_text(transform: Any) -> str:
    """Return the text of a transform."""
    name = class_name(transform)
    for prefix, (text, field) in _SIZED.items():
        if name == prefix or name.startswith(f"{prefix}$"):
            return f"{text}[{transform.get(field)}]"
    if name not in _NAMED:
        raise UnsupportedFormatError(f"partition transforms of {name} are not known")
    return _NAMED[name]


def expression_json(expression: Any) -> Content:
    """Return the JSON of an expression: true or false, a predicate, or a combination of expressions."""
    name = class_name(expression)
    if name == _CONSTANT:
        return bool(unboxed(expression.get("trueOrFalse")))
    if name in _PAIRS:
        sides = {side: expression_json(expression.get(side)) for side in ("left", "right")}
        return {"type": _PAIRS[name], **sides}
    if name == _NOT:
        return {"type": "not", "child": expression_json(expression.get("child"))}
    if name != _PREDICATE:
        raise UnsupportedFormatError(f"expressions of {name} are not known")
    kind = expression.get("op").constant.lower().replace("_", "-")
    json = {"type": kind, "term": _term(expression.get("term"))}
    literals = expression.get("literals")
    if literals is None:
        return json
    values = [_literal(literal) for literal in elements(literals)]
    return json | ({"values": values} if kind in _SETS else {"value": values[0]})


def _term(term: Any) -> Content:
    name = class_name(term)
    if name == _REFERENCE:
        return term.get("name")
    if name == f"{EXPRESSIONS}.UnboundTransform":
        return {"type": "transform", "transform": transform_text(term.get("transform")), "term": term.get("ref").get("name")}
    raise UnsupportedFormatError(f"terms of {name} are not known")


def _literal(literal: Any) -> Content:
    name = class_name(literal)
    if name.endswith(_BYTES):
        return array_bytes(literal.get("bytes")).hex().upper()
    value = literal.get("value")
    if not isinstance(value, JavaInstance):
        return value
    if value.class_name not in SCALARS:
        raise UnsupportedFormatError(f"values of {value.class_name} in filters are not known")
    content = SCALARS[value.class_name].to_content(value)
    return format(Decimal(content), "f") if value.class_name == "java.math.BigDecimal" else content


# Residuals of partitions

_TESTS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "lt": operator.lt,
    "lt-eq": operator.le,
    "gt": operator.gt,
    "gt-eq": operator.ge,
    "eq": operator.eq,
    "not-eq": operator.ne,
    "in": lambda value, values: value in values,
    "not-in": lambda value, values: value not in values,
    "starts-with": lambda value, prefix: value.startswith(prefix),
    "not-starts-with": lambda value, prefix: not value.startswith(prefix),
    "is-null": lambda value, _: value is None,
    "not-null": lambda value, _: value is not None,
    "is-nan": lambda value, _: value != value,
    "not-nan": lambda value, _: value == value,
}
_OF_NULL: Final = {
    **dict.fromkeys(("lt", "lt-eq", "not-eq", "not-in", "is-null", "not-nan"), True),
    **dict.fromkeys(("gt", "gt-eq", "eq", "in", "not-null", "is-nan"), False),
}
"""The tests of a null, which Iceberg sorts before all values."""


def residual_of(json: Content, partition: Mapping[str, Any]) -> Content:
    """Return the rest of a filter in a partition.

    ``partition``: the values of columns that are the same in all rows of the partition. Filters on other columns stay.
    """
    if isinstance(json, bool):
        return json
    kind = json["type"]
    if kind == "not":
        return _negated(residual_of(json["child"], partition))
    if kind in _PAIRS.values():
        return _combined(kind, residual_of(json["left"], partition), residual_of(json["right"], partition))
    if not isinstance(json["term"], str) or json["term"] not in partition:
        return json
    value = partition[json["term"]]
    if value is None:
        return _OF_NULL.get(kind, json)
    return _TESTS[kind](value, json.get("values", json.get("value")))


def _negated(json: Content) -> Content:
    if isinstance(json, bool):
        return not json
    return json["child"] if json["type"] == "not" else {"type": "not", "child": json}


def _combined(kind: str, first: Content, right: Content) -> Content:
    decides = kind == "or"
    if first is decides or right is decides:
        return decides
    if isinstance(first, bool):
        return right
    return first if isinstance(right, bool) else {"type": kind, "left": first, "right": right}


# JSON to objects

_LITERALS: Final = {
    "boolean": ("BooleanLiteral", "Boolean"),
    "int": ("IntegerLiteral", "Integer"),
    "date": ("IntegerLiteral", "Integer"),
    "long": ("LongLiteral", "Long"),
    "time": ("LongLiteral", "Long"),
    "timestamp": ("LongLiteral", "Long"),
    "timestamptz": ("LongLiteral", "Long"),
    "float": ("FloatLiteral", "Float"),
    "double": ("DoubleLiteral", "Double"),
}
"""The literals of numbers, by the type of the column: their class, and the class of the value."""


class ExpressionObjects:
    """The expressions of one stream. Java has each constant once."""

    def __init__(self, box: Callable[[str, Any], Any]) -> None:
        self._box = box
        self._constants: dict[bool, JavaInstance] = {}

    def expression(self, json: Content, columns: Mapping[str, Any]) -> JavaInstance:
        """Return the object of an expression.

        ``columns``: the types of columns, by name.
        """
        if isinstance(json, bool):
            new = JavaInstance(_CONSTANT, {"trueOrFalse": JavaInstance("java.lang.Boolean", {"value": json})})
            return self._constants.setdefault(json, new)
        kind = json["type"]
        for name, text in _PAIRS.items():
            if kind == text:
                return JavaInstance(name, {side: self.expression(json[side], columns) for side in ("left", "right")})
        if kind == "not":
            return JavaInstance(_NOT, {"child": self.expression(json["child"], columns)})
        if kind not in _TESTS or not isinstance(json["term"], str):
            raise InvalidRowError(f"the filter {json!r} can't be written in version 1 of a split: use a later version")
        values: Sequence[Any] | None = json.get("values", [json["value"]] if "value" in json else None)
        type_ = columns.get(json["term"])
        literals = None if values is None else JavaList([self._literal(value, type_) for value in values])
        fields = {"op": JavaEnum(_OPERATION, kind.upper().replace("-", "_"))}
        reference = JavaInstance(_REFERENCE, {"name": json["term"]})
        return JavaInstance(_PREDICATE, {**fields, "term": reference, "literals": literals})

    def _literal(self, value: Any, type_: Any) -> JavaInstance:
        if isinstance(value, str) and type_ == "string":
            return JavaInstance(f"{EXPRESSIONS}.Literals$StringLiteral", {"value": value})
        if type_ not in _LITERALS or isinstance(value, str):
            raise InvalidRowError(
                f"the value {value!r} of a filter on a column of {type_!r} can't be written in version 1 of a split"
            )
        literal, kind = _LITERALS[type_]
        return JavaInstance(f"{EXPRESSIONS}.Literals${literal}", {"value": self._box(kind, value)})
