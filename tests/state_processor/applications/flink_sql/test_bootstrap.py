"""Tests of :mod:`state_processor.applications.flink_sql.bootstrap`: states from rows, and refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from state_processor.applications.flink_sql.bootstrap import Accumulators, JoinedRows, KeptRow, LastRows, RankedRows
from state_processor.applications.flink_sql.nodes import PlanOperator
from state_processor.applications.flink_sql.operators.registry import history_of
from state_processor.applications.flink_sql.plan import CompiledPlan
from state_processor.support.errors import NotFoundError, OptionError
from tests.archives import unpacked

COLUMNS = (
    "`k` STRING NOT NULL, `a` BIGINT, `i` INT, `s` SMALLINT, `d` DECIMAL(10, 2), `f` FLOAT, `v` VARCHAR(9), `t` TIME(3),"
    " `b` BYTES, `w` BOOLEAN, `m` INTERVAL DAY(2) TO SECOND(3)"
)
PLACES = {name: place for place, name in enumerate("kaisdfvtbwm")}


def plan_of(*nodes: dict[str, Any], edges: tuple[tuple[int, int], ...] = ((1, 2),), flink: str = "1.20") -> CompiledPlan:
    given = [{"outputType": "ROW<`a` INT>", **node} for node in nodes]
    linked = [{"source": s, "target": t} for s, t in edges]
    return CompiledPlan.parse(json.dumps({"flinkVersion": flink, "nodes": given, "edges": linked}))


def source(number: int, columns: Any = f"ROW<{COLUMNS}>") -> dict[str, Any]:
    return {"id": number, "type": "stream-exec-table-source-scan_1", "outputType": columns}


def call(function: str, *arguments: str, **more: Any) -> dict[str, Any]:
    given = {"internalName": f"${function}$1", "argList": [PLACES[a] for a in arguments], "filterArg": -1, "type": "BIGINT"}
    return given | more


def aggregate(*calls: dict[str, Any], retracts: bool = False, flink: str = "1.20", **more: Any) -> PlanOperator:
    node = {
        "id": 2,
        "type": "stream-exec-group-aggregate_1",
        "grouping": [0],
        "aggCalls": list(calls),
        "aggCallNeedRetractions": [retracts] * len(calls),
        "needRetraction": retracts,
    }
    return plan_of(source(1), node | more, flink=flink).named("group-aggregate")[0]


def fields(*calls: dict[str, Any], retracts: bool = False, flink: str = "1.20") -> list[tuple[str, str, int | None]]:
    history = history_of(aggregate(*calls, retracts=retracts, flink=flink))
    assert isinstance(history, Accumulators)
    return [(f.name, str(f.type), f.start) for f in history.fields]


def official(query: str, operation: str, version: str = "2.3.0") -> PlanOperator:
    plan = CompiledPlan.parse((unpacked("sql") / version / query / "plan.json").read_text("utf-8"))
    return next(o for o in plan.operators.values() if o.transformation == operation)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (call("COUNT"), [("count(*)", "BIGINT", 0)]),
        (call("COUNT", "v"), [("count(v)", "BIGINT", 0)]),
        (call("SUM", "a"), [("sum(a)", "BIGINT", None)]),
        (call("SUM", "s"), [("sum(s)", "SMALLINT", None)]),
        (call("SUM", "d"), [("sum(d)", "DECIMAL(38, 2)", None)]),
        (call("SUM", "f"), [("sum(f)", "FLOAT", None)]),
        (call("$SUM0", "i"), [("sum0(i)", "INT", 0)]),
        (call("AVG", "i"), [("avg(i) sum", "BIGINT", 0), ("avg(i) count", "BIGINT", 0)]),
        (call("AVG", "f"), [("avg(f) sum", "DOUBLE", 0), ("avg(f) count", "BIGINT", 0)]),
        (call("AVG", "d"), [("avg(d) sum", "DECIMAL(38, 2)", 0), ("avg(d) count", "BIGINT", 0)]),
        (call("MIN", "k"), [("min(k)", "STRING", None)]),
        (call("MAX", "v"), [("max(v)", "STRING", None)]),
        (call("MAX", "t"), [("max(t)", "TIME(0)", None)]),
        (call("MIN", "w"), [("min(w)", "BOOLEAN", None)]),
    ],
)
def test_fields_of_accumulators(given: dict[str, Any], expected: list[tuple[str, str, int | None]]) -> None:
    assert fields(given) == expected


@pytest.mark.parametrize(
    ("flink", "type_"), [("1.20", "TIME(0)"), ("2.2", "TIME(0)"), ("2.3", "TIME(3)"), ("2.10", "TIME(3)"), ("", "TIME(0)")]
)
def test_times_keep_their_digits_since_flink_2_3(flink: str, type_: str) -> None:
    assert fields(call("MIN", "t"), flink=flink) == [("min(t)", type_, None)]


def test_rows_that_may_be_taken_back_are_counted() -> None:
    assert fields(call("SUM", "a"), call("AVG", "a"), retracts=True) == [
        ("sum(a)", "BIGINT", None),
        ("sum(a) count", "BIGINT", 0),
        ("avg(a) sum", "BIGINT", 0),
        ("avg(a) count", "BIGINT", 0),
        ("row_count", "BIGINT", 0),
    ]


@pytest.mark.parametrize(
    ("given", "retracts", "reason"),
    [
        (call("COUNT", "a", "i", distinct=True), False, r"count\(distinct a, i\): distinct values of several columns are not"),
        (call("COUNT", "b", distinct=True), False, r"count\(distinct b\): distinct values of BYTES are not computed"),
        (call("MIN", "a"), True, r"min\(a\): rows of its input may be retracted"),
        (call("LISTAGG", "v"), False, r"listagg\(v\): it depends on the order of rows; only count, sum, "),
        (call("FIRST_VALUE", "a"), False, "it depends on the order"),
        (call("SINGLE_VALUE", "a"), False, "it refuses a second row"),
        (call("", "a", catalogName="`c`.`d`.`my_sum`"), False, r"my_sum\(a\): its accumulator is not known"),
        (call("SUM", "m"), False, r"expected a sum of numbers, found INTERVAL DAY"),
        (call("MAX", "b"), False, "values of BYTES are not ordered"),
    ],
)
def test_other_calls_are_refused(given: dict[str, Any], retracts: bool, reason: str) -> None:
    with pytest.raises(OptionError, match=rf"group-aggregate\[2\]: .*{reason}"):
        fields(given, retracts=retracts)


@pytest.mark.parametrize(
    ("query", "operation", "reason"),
    [
        ("distinct-split", "incremental-group-aggregate", "without table.optimizer.distinct-agg.split.enabled"),
        ("interval-join", "interval-join", "watermark"),
        ("temporal-join", "temporal-join", "watermark"),
        ("tumbling", "global-window-aggregate", "watermark"),
        ("sessions", "window-aggregate", "watermark"),
        ("over", "over-aggregate", "watermark"),
        ("materialized", "upsert-materialize", "order of rows"),
        ("match", "match", "partial matches"),
        ("top", "source", "with_source_splits"),
        ("top", "calc", "it does not have state"),
    ],
)
def test_other_operators_are_refused(query: str, operation: str, reason: str) -> None:
    with pytest.raises(OptionError, match=rf"{operation}\[\d+\]: .*{reason}"):
        history_of(official(query, operation))


def test_queries_of_both_versions_are_understood_alike() -> None:
    of_both = [history_of(official("join-by-unique-keys", "join", version)) for version in ("1.20.5", "2.3.0")]
    assert of_both[0] == of_both[1]
    history = of_both[0]
    assert isinstance(history, JoinedRows)
    left, right = history.left, history.right
    assert (left.rows.key, left.unique, left.outer, left.is_single) == (("customer",), ("customer", "item"), True, False)
    assert (right.rows.key, right.unique, right.outer, right.is_single) == (("id",), ("id",), False, True)


def rank(strategy: str, *, by: int = 1, end: int = 2, **more: Any) -> PlanOperator:
    """The first rows by an ascending column."""
    node = {
        "id": 2,
        "type": "stream-exec-rank_1",
        "partition": {"fields": [0]},
        "orderBy": {"fields": [{"index": by, "isAscending": True, "nullIsLast": False}]},
        "rankRange": {"type": "Constant", "start": 1, "end": end},
        "rankStrategy": {"type": strategy, "primaryKeys": [0, 2]},
    }
    return plan_of(source(1), node | more).named("rank")[0]


def test_what_ranks_store() -> None:
    def kind(*given: Any, **more: Any) -> str:
        history = history_of(rank(*given, **more))
        assert isinstance(history, RankedRows)
        assert history.unique == ("k", "i")
        return history.kind

    assert [kind(s) for s in ("AppendFast", "UpdateFast", "Retract")] == ["append", "update", "retract"]
    assert [kind(s, end=1) for s in ("AppendFast", "UpdateFast", "Retract")] == ["first", "first", "retract"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (rank("AppendFast", by=8), "its order has the column 'b' of type BYTES; expected numbers, text or times"),
        (
            rank("AppendFast", rankRange={"type": "Variable", "endIndex": 1}),
            "its ranks are Variable with the strategy AppendFast",
        ),
        (rank("Other"), "with the strategy Other; expected Constant with AppendFast, UpdateFast, Retract"),
    ],
)
def test_other_ranks_are_refused(given: PlanOperator, reason: str) -> None:
    with pytest.raises(OptionError, match=rf"rank\[2\]: .*{reason}"):
        history_of(given)


def test_normalization_with_a_condition_is_refused() -> None:
    node = {"id": 2, "type": "stream-exec-changelog-normalize_1", "uniqueKeys": [0]}
    assert isinstance(history_of(plan_of(source(1), node).named("changelog-normalize")[0]), LastRows)
    with pytest.raises(OptionError, match="it keeps only rows that fulfill a condition"):
        history_of(plan_of(source(1), {**node, "filterCondition": {"kind": "CALL"}}).named("changelog-normalize")[0])


def join(kind: str, **more: Any) -> PlanOperator:
    spec = {"joinType": kind, "leftKeys": [0], "rightKeys": [0], "filterNulls": [True], "nonEquiCondition": None} | more
    nodes = (source(1), source(2), {"id": 3, "type": "stream-exec-join_1", "joinSpec": spec})
    return plan_of(*nodes, edges=((1, 3), (2, 3))).named("join[3]")[0]


def test_joins_with_conditions_are_refused_where_rows_are_counted() -> None:
    more = {"nonEquiCondition": {"kind": "CALL"}}
    assert isinstance(history_of(join("INNER", **more)), JoinedRows)
    with pytest.raises(OptionError, match=r"join\[3\]: its state counts the matching rows"):
        history_of(join("LEFT", **more))
    with pytest.raises(OptionError, match="it is a join of type OTHER; supported are INNER, LEFT, RIGHT, FULL, SEMI, ANTI"):
        history_of(join("OTHER"))


def test_second_phases_need_the_first() -> None:
    node = {"id": 2, "type": "stream-exec-global-group-aggregate_1", "grouping": [0], "aggCalls": []}
    plan = plan_of(source(1), node | {"localAggInputRowType": "ROW<`a` INT>"})
    with pytest.raises(OptionError, match="its input is not the first phase of the same aggregate"):
        history_of(plan.named("global-group-aggregate")[0])


def test_columns_of_java_classes_are_refused() -> None:
    node = {"id": 2, "type": "stream-exec-group-aggregate_1", "grouping": [0], "aggCalls": []}
    with pytest.raises(OptionError, match="column 'r' of a Java class that the plan does not describe"):
        history_of(plan_of(source(1, "ROW<`r` RAW('some.Class', 'x')>"), node).named("group-aggregate")[0])


@pytest.mark.parametrize(
    ("row_time", "last", "more", "expected"),
    [
        (False, False, {}, ("deduplicate-state", None)),
        (False, True, {}, ("deduplicate-state", "p")),
        (True, False, {}, ("deduplicate-state", "r")),
        (True, False, {"outputInsertOnly": True}, ("already-emitted-state-boolean", None)),
        (True, True, {"outputInsertOnly": False}, ("deduplicate-state", "r")),
    ],
)
def test_deduplications(row_time: bool, last: bool, more: dict[str, Any], expected: tuple[str, str | None]) -> None:
    times = [
        {"name": name, "fieldType": {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3, "kind": kind}}
        for name, kind in (("p", "PROCTIME"), ("r", "ROWTIME"))
    ]
    columns = {"type": "ROW", "fields": [{"name": "k", "fieldType": "INT"}, *times]}
    node = {"id": 2, "type": "stream-exec-deduplicate_1", "uniqueKeys": [0], "isRowtime": row_time, "keepLastRow": last} | more
    for ttl, has_ttl in (("0 ms", False), ("3600000 ms", True)):
        state = [{"index": 0, "ttl": ttl, "name": "deduplicateState"}]
        history = history_of(plan_of(source(1, columns), {**node, "state": state}).named("deduplicate")[0])
        assert isinstance(history, KeptRow)
        assert (history.state, history.time, history.has_ttl) == (*expected, has_ttl)


def test_operators_are_named_by_what_they_do() -> None:
    nodes = (source(1), *({"id": i, "type": "stream-exec-rank_1"} for i in (2, 3)), {"id": 4, "type": "stream-exec-join_1"})
    plan = plan_of(*nodes)
    assert [o.uid for o in plan.named("join")] == ["4_join", "4_stream-exec-join_1_join", "join"]
    assert [o.uid for o in plan.named("join[4]")] == ["4_join", "4_stream-exec-join_1_join", "join"]
    assert [o.uid for o in plan.named("4_stream-exec-join_1_join")] == ["4_stream-exec-join_1_join"]
    with pytest.raises(OptionError, match=r"several operators 'rank': rank\[2\], rank\[3\]"):
        plan.named("rank")
    with pytest.raises(NotFoundError, match=r"no operator 'rank\[5\]' in the plan. Did you mean 'rank\[[23]\]'"):
        plan.named("rank[5]")
