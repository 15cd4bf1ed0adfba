"""Tests of :mod:`state_processor.applications.flink_sql`: plans, calls and types without a snapshot."""

from __future__ import annotations

import json
from typing import Any

import pytest

from state_processor.applications.flink_sql.bootstrap import accumulator, aggregate_calls
from state_processor.applications.flink_sql.fields import distinct_names, plan_type, row_fields
from state_processor.applications.flink_sql.plan import CompiledPlan
from state_processor.backends.metadata.operator_id import operator_id
from state_processor.support.errors import NotFoundError, OptionError

COLUMNS = ("customer", "amount", "item", "$f3")


def call(function: str, *arguments: int, **more: Any) -> dict[str, Any]:
    named = {"internalName": f"${function}$1", "type": "BIGINT NOT NULL"}
    return named | {"argList": list(arguments), "filterArg": -1, "distinct": False} | more


def names(calls: list[dict[str, Any]], *, retracts: bool = False, counts_rows: bool = False) -> list[str]:
    found = aggregate_calls(calls, COLUMNS, (retracts,))
    return [f.name for f in accumulator(found, counts_rows=counts_rows)]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([call("COUNT"), call("SUM", 1)], ["count(*)", "sum(amount)"]),
        ([call("AVG", 1)], ["avg(amount) sum", "avg(amount) count"]),
        ([call("$SUM0", 1), call("MIN", 2)], ["sum0(amount)", "min(item)"]),
        ([call("COUNT", 2, filterArg=3)], ["count(item) filter $f3"]),
        ([call("LISTAGG", 2)], ["listagg(item) delimiter", "listagg(item)"]),
        ([call("RANK"), call("DENSE_RANK")], ["rank() row number", "rank()", "dense_rank()"]),
        ([call("SINGLE_VALUE", 1)], ["single_value(amount)", "single_value(amount) count"]),
        (
            [call("COUNT", 2, distinct=True), call("COUNT", 2, distinct=True, filterArg=3), call("SUM", 1, distinct=True)],
            [
                "count(distinct item)",
                "count(distinct item) filter $f3",
                "sum(distinct amount)",
                "distinct(item)",
                "distinct(amount)",
            ],
        ),
        ([call("SUM", 1), call("SUM", 1)], ["sum(amount)", "sum(amount)_1"]),
        ([{"catalogName": "`c`.`d`.`my_avg`", "argList": [1, 2], "type": "BIGINT"}], ["my_avg(amount, item)"]),
        ([{"systemName": "LTCNT", "argList": [1, 9], "type": "BIGINT"}], ["ltcnt(amount, #9)"]),
        ([], []),
    ],
)
def test_accumulators_are_named_by_their_calls(calls: list[dict[str, Any]], expected: list[str]) -> None:
    assert names(calls) == expected


def test_what_is_taken_back_is_counted() -> None:
    calls = [call("SUM", 1), call("MAX", 1)]
    assert names(calls, retracts=True, counts_rows=True) == ["sum(amount)", "sum(amount) count", "max(amount)", "row_count"]
    assert names([*calls, call("COUNT")], counts_rows=True) == ["sum(amount)", "max(amount)", "count(*)"]
    filtered = call("COUNT", filterArg=3)
    assert names([filtered], counts_rows=True) == ["count(*) filter $f3", "row_count"]


def test_accumulators_have_the_types_of_results() -> None:
    found = accumulator(aggregate_calls([call("COUNT"), call("SUM", 1), call("AVG", 1)], COLUMNS, (False,)), counts_rows=False)
    assert [str(f.type) for f in found] == ["BIGINT", "BIGINT", "None", "None"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("ROW<`a` INT, `b` VARCHAR(2147483647) NOT NULL> NOT NULL", ["`a` INT", "`b` STRING NOT NULL"]),
        (
            "ROW<`a, ``b` DECIMAL(10, 2), `c` ROW<`d` INT, `e` BIGINT>>",
            ["`a, `b` DECIMAL(10, 2)", "`c` ROW<`d` INT, `e` BIGINT>"],
        ),
        ("ROW<`a` RAW('some.Class', 'a, b>'), `b` MAP<INT, INT>>", ["`a` of an unknown type", "`b` MAP<INT, INT>"]),
        ("ROW<>", []),
        (
            {
                "type": "ROW",
                "fields": [
                    {"name": "t", "fieldType": {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3, "kind": "ROWTIME"}},
                    {"name": "l", "fieldType": {"type": "ARRAY", "nullable": False, "elementType": "INT NOT NULL"}},
                    {"name": "v", "fieldType": {"type": "RAW", "class": "some.View"}},
                    {"name": "r", "fieldType": {"type": "ROW", "fields": [{"name": "a", "fieldType": "INT"}]}},
                ],
            },
            ["`t` TIMESTAMP(3) *ROWTIME*", "`l` ARRAY<INT NOT NULL> NOT NULL", "`v` of an unknown type", "`r` ROW<`a` INT>"],
        ),
    ],
)
def test_types_of_rows(given: Any, expected: list[str]) -> None:
    assert [str(f) for f in row_fields(given)] == expected


@pytest.mark.parametrize("given", ["INT", None, {"type": "ARRAY"}, "ROW<a INT>"])
def test_what_is_no_row_is_refused(given: Any) -> None:
    with pytest.raises(OptionError, match="expected"):
        row_fields(given)


def test_names_are_made_distinct() -> None:
    assert [f.name for f in distinct_names(row_fields("ROW<`a` INT, `a` INT, `a_1` INT>"))] == ["a", "a_1", "a_1_2"]


def plan_of(*nodes: dict[str, Any], edges: tuple[tuple[int, int], ...] = ()) -> str:
    given = [{"outputType": "ROW<`a` INT>", **node} for node in nodes]
    return json.dumps({"flinkVersion": "1.20", "nodes": given, "edges": [{"source": s, "target": t} for s, t in edges]})


def test_operators_are_found_by_the_hash_of_their_uid() -> None:
    nodes = (
        {"id": 1, "type": "stream-exec-calc_1"},
        {"id": 2, "type": "stream-exec-rank_1"},
        {"id": 3, "type": "stream-exec-rank_1"},
    )
    plan = CompiledPlan.parse(plan_of(*nodes, edges=((1, 2), (2, 3))))
    for uid in ("3_rank", "3_stream-exec-rank_1_rank"):
        found = plan.operators[operator_id(uid)]
        assert (found.label, found.uid, [n.id for n in found.node.inputs]) == ("rank[3]", uid, [2])
    assert plan.operators[operator_id("calc")].label == "calc[1]"
    assert operator_id("rank") not in plan.operators  # two nodes have it
    hashes = [operator_id("2_rank"), operator_id("3_rank"), operator_id("other")]
    assert plan.find("rank[3]", hashes) == hashes[1]
    assert plan.find("other", hashes) is None
    with pytest.raises(NotFoundError, match=r"Did you mean 'rank\[[23]\]'"):
        plan.find("rank[4]", hashes)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"nodes": [{"id": "x", "type": "y"}], "edges": []}',
        plan_of({"id": 1, "type": "a"}, edges=((2, 1),)),
    ],
)
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="plan: "):
        CompiledPlan.parse(text)


def test_texts_and_times_are_kept_in_the_types_of_accumulators() -> None:
    """Flink keeps texts as ``STRING``, whatever the result is; the precision of times depends on its version."""
    types = {"LISTAGG": "CHAR(3)", "MAX": "VARCHAR(10)", "MIN": "TIME(3)"}
    calls = [call(function, 2) | {"type": type_} for function, type_ in types.items()]
    found = accumulator(aggregate_calls(calls, COLUMNS, (False,)), counts_rows=False)
    assert [str(f.type) for f in found] == ["None", "STRING", "STRING", "None"]


def test_a_process_table_function_has_its_own_uid_and_the_names_of_its_partition_keys() -> None:
    row = "ROW<`customer` VARCHAR(10), `amount` BIGINT>"
    operands = [{"kind": "TABLE_ARG_CALL", "inputIndex": 0, "partitionKeys": [0]}, {"kind": "CALL", "internalName": "$DEFAULT$1"}]
    scan = {"id": 1, "type": "stream-exec-table-source-scan_2", "outputType": row}
    function = {
        "id": 2,
        "type": "stream-exec-process-table-function_1",
        "uid": "totals",
        "inputProperties": [{"requiredDistribution": {"type": "UNKNOWN"}}],
        "functionCall": {"kind": "CALL", "operands": operands},
        "outputType": row,
    }
    plan = CompiledPlan.parse(json.dumps({"nodes": [scan, function], "edges": [{"source": 1, "target": 2}]}))
    operator = plan.operators[operator_id("totals")]
    assert [f.name for f in operator.key or ()] == ["customer"]


def test_types_that_a_plan_has_as_objects() -> None:
    assert plan_type({"type": "VARIANT", "nullable": False}) == plan_type("VARIANT NOT NULL")
    assert plan_type({"type": "SYMBOL"}) is None
    assert plan_type({"type": "RAW", "class": "m.Money"}) is None
