"""Texts of expressions, and names of the columns that projections and aggregates compute."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from state_processor.applications.flink_sql.bootstrap import aggregate_calls
from state_processor.applications.flink_sql.plan import CompiledPlan
from state_processor.support.errors import OptionError

Json = dict[str, Any]


def column(at: int) -> Json:
    return {"kind": "INPUT_REF", "inputIndex": at, "type": "BIGINT"}


def literal(value: Any) -> Json:
    return {"kind": "LITERAL", "value": value, "type": "BIGINT"}


def call(name: str, *operands: Json, syntax: str | None = None, **more: Any) -> Json:
    return {
        "kind": "CALL",
        "internalName": f"${name}$1",
        "operands": list(operands),
        **({"syntax": syntax} if syntax else {}),
        **more,
    }


def more_than(at: int, value: Any) -> Json:
    return call(">", column(at), literal(value), syntax="BINARY")


ROWTIME = {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3, "kind": "ROWTIME"}


def cast(of: Any, to: Any) -> Json:
    return call("CAST", column(0) | {"type": of}, syntax="SPECIAL", type=to)


def searched(ranges: list[tuple[Any, str, Any, str]]) -> Json:
    bounds = [
        {
            name: {"value": value, "boundType": kind}
            for name, value, kind in (("lower", low, first), ("upper", high, last))
            if value is not None
        }
        for low, first, high, last in ranges
    ]
    return call("SEARCH", column(0), {"kind": "LITERAL", "sarg": {"ranges": bounds, "nullAs": "UNKNOWN"}}, syntax="INTERNAL")


def texts(*projections: list[Json], passing: str = "exchange") -> Mapping[str, str]:
    """The texts that calc nodes, one after the other, compute of ``a`` and ``b``, as they leave the node after them."""
    row = "ROW<`a` BIGINT, `b` BIGINT>"
    types = ["table-source-scan", *("calc" for _ in projections), passing, "group-aggregate"]
    rows = [row, *(f"ROW<{', '.join(f'`$f{i}` BIGINT' for i in range(len(p)))}>" for p in projections)]
    nodes = []
    for number, name in enumerate(types):
        node: Json = {"id": number, "type": f"stream-exec-{name}_1", "outputType": rows[min(number, len(rows) - 1)]}
        if name == "calc":
            node["projection"] = projections[number - 1]
        nodes.append(node)
    edges = [{"source": i, "target": i + 1} for i in range(len(types) - 1)]
    plan = CompiledPlan.parse(json.dumps({"nodes": nodes, "edges": edges}))
    shown = plan.nodes[-2].row
    return {f.name: s.name for f, s in zip(plan.nodes[-2].output, shown, strict=True) if f.name != s.name}


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (column(1), "b"),
        (call("IS TRUE", more_than(0, 9), syntax="POSTFIX"), "a > 9"),
        (call("AND", more_than(0, 9), call("IS NULL", column(1), syntax="POSTFIX"), syntax="BINARY"), "(a > 9) AND (b IS NULL)"),
        (call("NOT", more_than(0, None), syntax="PREFIX"), "NOT (a > NULL)"),
        (call("=", column(0), literal("it's"), syntax="BINARY"), "a = 'it''s'"),
        (call("MOD", call("*", column(0), literal(2), syntax="BINARY"), column(1)), "MOD(a * 2, b)"),
        (call("CAST", column(0), syntax="SPECIAL", type="INT NOT NULL"), "CAST(a AS INT)"),
        (
            call("CASE", more_than(0, 1), literal(True), literal(False), syntax="SPECIAL"),
            "CASE WHEN a > 1 THEN TRUE ELSE FALSE END",
        ),
        ({"kind": "CALL", "catalogName": "`c`.`d`.`mine`", "operands": [column(0)]}, "mine(a)"),
        ({"kind": "CALL", "systemName": "mine", "operands": []}, "mine()"),
        (call("-", column(0), column(1), syntax="SPECIAL"), "a - b"),
        (call("ITEM", column(0), literal(1), syntax="SPECIAL"), "a[1]"),
        (call("ROW", column(0), literal(1), syntax="SPECIAL"), "ROW(a, 1)"),
        ({"kind": "FIELD_ACCESS", "name": "x", "expr": column(0)}, "a.x"),
        ({"kind": "LITERAL", "value": "2024-02-29", "type": "DATE NOT NULL"}, "DATE '2024-02-29'"),
        ({"kind": "LITERAL", "value": "5000", "type": "INTERVAL SECOND(3) NOT NULL"}, "INTERVAL '5000' MILLISECOND"),
        (call("EXTRACT", {"kind": "LITERAL", "symbol": "TIME_UNIT_RANGE", "value": "DAY"}, column(0)), "EXTRACT(DAY, a)"),
        (searched([(1, "CLOSED", 1, "CLOSED"), (3, "CLOSED", 3, "CLOSED")]), "a IN (1, 3)"),
        (searched([(1, "OPEN", 5, "CLOSED"), (9, "CLOSED", None, "")]), "a > 1 AND a <= 5 OR a >= 9"),
        (cast(ROWTIME, "TIMESTAMP(3)"), "a"),
        (cast(ROWTIME, "DATE"), "CAST(a AS DATE)"),
        (cast("INT", {"type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "precision": 3}), "CAST(a AS TIMESTAMP_LTZ(3))"),
    ],
)
def test_expressions_are_shown_as_sql(expression: Json, text: str) -> None:
    assert texts([expression]) == {"$f0": text}


@pytest.mark.parametrize(
    "expression",
    [
        {"kind": "FIELD_ACCESS", "name": "x", "expr": {"kind": "CORREL_VARIABLE", "correl": "$cor0"}},
        {"kind": "LITERAL", "sarg": {}},
        call("SEARCH", column(0), literal(1), syntax="SPECIAL"),
        call("CASE", more_than(0, 1), literal(True), syntax="SPECIAL"),
        call("ABS", {"kind": "FIELD_ACCESS"}),
        column(7),
    ],
)
def test_others_keep_the_name_of_the_plan(expression: Json) -> None:
    assert texts([expression, column(0)]) == {"$f1": "a"}


def test_long_text_is_cut_off() -> None:
    (text,) = texts([call("ABS", literal("x" * 200))]).values()
    assert (len(text), text[:9], text[-1]) == (100, "ABS('xxxx", "…")


def test_columns_that_are_computed_of_computed_ones() -> None:
    total = call("+", column(0), column(1), syntax="BINARY")
    assert texts([total, column(1)], [call("*", column(0), column(1), syntax="BINARY")]) == {"$f0": "(a + b) * b"}
    for passing in ("rank", "deduplicate", "changelog-normalize", "window-table-function", "union"):
        assert texts([total], passing=passing) == {"$f0": "a + b"}
    assert texts([total], passing="match") == {}


def named(projections: Json, names: list[str], then: list[str]) -> list[str]:
    """A calc node computes columns of ``a`` and ``b``, and another node passes them on: the names that they are shown by."""
    nodes = [
        {"id": 0, "type": "stream-exec-table-source-scan_1", "outputType": "ROW<`a` BIGINT, `b` BIGINT>"},
        *(
            {"id": i, "type": f"stream-exec-{kind}_1", "outputType": f"ROW<{', '.join(f'`{n}` BIGINT' for n in row)}>"}
            for i, (kind, row) in enumerate((("calc", names), ("exchange", then)), 1)
        ),
    ]
    nodes[1]["projection"] = projections
    edges = [{"source": i, "target": i + 1} for i in range(2)]
    return [f.name for f in CompiledPlan.parse(json.dumps({"nodes": nodes, "edges": edges})).nodes[-1].row]


DOUBLE = call("*", column(0), literal(2), syntax="BINARY")


@pytest.mark.parametrize(
    ("projections", "names", "then", "shown"),
    [
        ([column(0), DOUBLE], ["a", "a0"], ["a", "a0"], ["a", "a * 2"]),
        ([column(0), DOUBLE], ["a", "a0"], ["a", "a00"], ["a", "a * 2"]),
        ([column(0), DOUBLE], ["a", "a0"], ["a", "total"], ["a", "total"]),
        ([column(0), DOUBLE], ["a", "a2"], ["a", "a2"], ["a", "a2"]),
        ([column(0), column(1)], ["a", "a0"], ["a", "a0"], ["a", "a0"]),
        ([DOUBLE, DOUBLE, column(0)], ["$f0", "$f1", "a"], ["$f0", "$f1", "a"], ["a * 2", "a * 2_1", "a"]),
        ([column(0), column(1)], ["$f0", "a"], ["$f0", "a"], ["a_0", "a"]),
        ([column(0), column(1)], ["a", "a"], ["a", "a"], ["a", "a_1"]),
    ],
)
def test_names_that_columns_are_shown_by(projections: Json, names: list[str], then: list[str], shown: list[str]) -> None:
    """All names differ, also from the names of other columns in the plan. Names that users gave stay."""
    assert named(projections, names, then) == shown


def test_a_projection_of_another_length_than_the_output_is_refused() -> None:
    with pytest.raises(OptionError, match=r"plan: node 1 \(stream-exec-calc_1\) does not match its inputs"):
        named([column(0)], ["a", "b"], ["a", "b"])


def test_calls_are_shown_with_their_texts() -> None:
    given = {"internalName": "$SUM$1", "type": "BIGINT", "argList": [0], "filterArg": 1, "distinct": True}
    (found,) = aggregate_calls([given], ["$f0", "$f1"], (False,), {"$f0": "a * 2", "$f1": "b > 9"})
    assert (str(found), found.arguments, found.filter) == ("sum(distinct a * 2) filter b > 9", ("$f0",), "$f1")
