"""States of Flink SQL with the names of the compiled plan: savepoints of real queries, see ``tests/interop/sql_queries.py``."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle

import state_processor as sp
from state_processor.backends.read.stored_operator import find_operator, survey
from state_processor.cli import main
from state_processor.options.access import SnapshotAccess
from tests.archives import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSIONS = ("1.20.5", "2.3.0")


def at(second: int) -> datetime:
    return datetime(2024, 1, 1, 0, 0, second)


def ms(second: int) -> int:
    return 1704067200000 + 1000 * second


def order(number: int, customer: str, amount: int | None, second: int | None = None) -> dict[str, Any]:
    return {"id": number, "customer": customer, "amount": amount} | ({"ts": at(second)} if second is not None else {})


def customer(name: str, city: str, second: int | None = None) -> dict[str, Any]:
    return {"id": name, "city": city} | ({"ts": at(second)} if second is not None else {})


def lag(buffer: list[Any], default: Any = None, offset: int = 1) -> dict[str, Any]:
    return {"offset": offset, "defaultValue": default, "buffer": buffer}


ORDERS = [
    order(1, "ada", 10, 1),
    order(2, "ada", 20, 2),
    order(3, "bob", 10, 3),
    order(4, "ada", 5, 4),
    order(5, "cy", None, 5),
    order(6, "bob", 7, 11),
]
PLAIN = [{n: v for n, v in o.items() if n != "ts"} for o in ORDERS]
CUSTOMERS = [customer("ada", "Rome", 0), customer("bob", "Oslo", 2), customer("ada", "Bonn", 3), customer("dan", "Nice", 12)]
CITIES = [{n: v for n, v in c.items() if n != "ts"} for c in CUSTOMERS]
ITEMS = {1: "pen", 2: "ink", 3: "pen", 4: "pen", 5: "ink", 6: None}
ADA, BOB, CY = ({"customer": name} for name in ("ada", "bob", "cy"))

EXPECTED: dict[tuple[str, str, str], list[tuple[Any, ...]]] = {
    ("group-aggregate", "group-aggregate", "accState"): [
        (
            {"customer": name},
            {
                "count(*)": n,
                "sum(amount)": total,
                "avg(amount) sum": total or 0,
                "avg(amount) count": n if total else 0,
                "min(amount)": low,
                "max(item)": last,
            },
        )
        for name, n, total, low, last in (("ada", 3, 35, 5, "pen"), ("bob", 2, 17, 7, "pen"), ("cy", 1, None, None, "ink"))
    ],
    ("distinct", "group-aggregate", "accState"): [
        (
            {"customer": name},
            {
                "count(distinct item)": kinds,
                "count(distinct item) filter amount > 9": dear,
                "sum(distinct amount)": total,
                "distinct(item)": b"\0",
                "distinct(amount)": b"\0",
            },
        )
        for name, kinds, dear, total in (("ada", 2, 2, 35), ("bob", 1, 1, 17), ("cy", 1, 0, None))
    ],
    ("distinct", "group-aggregate", "distinctAcc_0"): [(ADA, "ink", 3), (ADA, "pen", 3), (BOB, "pen", 3), (CY, "ink", 1)],
    ("distinct", "group-aggregate", "distinctAcc_1"): [(ADA, 5, 1), (ADA, 10, 1), (ADA, 20, 1), (BOB, 7, 1), (BOB, 10, 1)],
    ("distinct", "group-aggregate", "distinctAcc_0_null_state"): [(BOB, 1)],
    ("two-phases", "global-group-aggregate", "accState"): [
        ({"customer": name}, {"count(distinct item)": kinds, "sum(amount)": total, "distinct(item)": b"\0"})
        for name, kinds, total in (("ada", 2, 35), ("bob", 1, 17), ("cy", 1, None))
    ],
    ("inner-join", "join", "left-records"): [({"customer": o["customer"]}, o, 1) for o in PLAIN],
    ("inner-join", "join", "right-records"): [({"customer": c["id"]}, c, 1) for c in CITIES],
    ("left-join", "join", "left-records"): [
        ({"customer": o["customer"]}, o, {"copies": 1, "associations": {"ada": 2, "bob": 1, "cy": 0}[o["customer"]]})
        for o in PLAIN
    ],
    ("left-join", "join", "right-records"): [({"customer": c["id"]}, c, 1) for c in CITIES],
    ("join-by-unique-keys", "join", "left-records"): [
        (
            {"customer": name},
            {"customer": name, "item": item},
            {"record": {"customer": name, "item": item, "total": total}, "associations": int(name != "cy")},
        )
        for name, item, total in (
            *(("ada", "ink", 20), ("ada", "pen", 15)),
            *(("bob", None, 7), ("bob", "pen", 10), ("cy", "ink", None)),
        )
    ],
    ("join-by-unique-keys", "join", "right-records"): [
        ({"customer": name}, {"id": name, "n": n}) for name, n in (("ada", 2), ("bob", 1), ("dan", 1))
    ],
    ("first-row", "deduplicate", "deduplicate-state"): [(ADA, True), (BOB, True), (CY, True)],
    ("last-row", "deduplicate", "deduplicate-state"): [
        ({"customer": o["customer"]}, o) for o in (ORDERS[3], ORDERS[5], ORDERS[4])
    ],
    ("top", "rank", "data-state-with-append"): [
        ({"customer": o["customer"]}, {"amount": o["amount"]}, [o]) for o in PLAIN if o["id"] != 4
    ],
    ("top-of-updates", "rank", "sorted-map"): [
        ({}, [({"total": None}, 1), ({"total": 17}, 1), ({"total": 35}, 1)]),
    ],
    ("tumbling", "global-window-aggregate", "window-aggs"): [(BOB, ms(20), {"count(*)": 1, "sum(amount)": 7})],
    ("cumulating", "global-window-aggregate", "window-aggs"): [(BOB, ms(15), {"count(*)": 1, "sum(amount)": 7})],
    ("hopping", "global-window-aggregate", "window-aggs"): [
        (BOB, ms(15), {"count(*)": 1, "sum(amount)": 7}),
        (CY, ms(10), {"count(*)": 1, "sum(amount)": None}),
    ],
    ("over", "over-aggregate", "accState"): [
        ({"customer": name}, {"count(amount)": n, "sum0(amount)": total, "row_count": rows})
        for name, n, total, rows in (("ada", 3, 35, 3), ("bob", 2, 17, 2), ("cy", 0, 0, 1))
    ],
    ("sessions", "window-aggregate", "window-aggs"): [
        (BOB, {"start": at(11).replace(tzinfo=UTC), "end": at(16).replace(tzinfo=UTC)}, {"count(*)": 1, "sum(amount)": 7})
    ],
    **{
        (query, "temporal-join", "right"): [
            ({"customer": c["id"]}, ms(c["ts"].second), c) for c in CUSTOMERS if c["city"] != "Rome"
        ]
        for query in ("temporal-join", "temporal-join-waiting")
    },
    ("temporal-join-waiting", "temporal-join", "left"): [(BOB, 1, {"id": 6, "customer": "bob", "ts": at(11)})],
    ("temporal-join-waiting", "temporal-join", "timer"): [({"customer": "dan"}, ms(12)), (BOB, ms(11))],
    ("normalized", "changelog-normalize", "deduplicate-state"): [
        ({"id": name}, customer(name, city)) for name, city in (("ada", "Bonn"), ("cy", "Rome"))
    ],
    ("normalized", "group-aggregate", "accState"): [({"city": city}, {"count(*)": 1}) for city in ("Bonn", "Rome")],
    ("materialized", "upsert-materialize", "values"): [
        ({"city": city}, [{"city": city, "total": total}]) for city, total in (("Rome", 35), ("Bonn", 35), ("Oslo", 17))
    ],
    ("match", "match", "sharedBuffer-events"): [
        (
            BOB,
            {"id": 0, "timestamp": ms(11)},
            {
                "ref_counter": 1,
                "element": {**order(6, "bob", 7, 11), "item": None, "line": "6,bob,,7,2024-01-01 00:00:11", "came": None},
            },
        )
    ],
    ("over-waiting", "over-aggregate", "accState"): [
        ({"customer": name}, {"count(amount)": n, "sum0(amount)": total, "row_count": rows})
        for name, n, total, rows in (("ada", 3, 35, 3), ("bob", 1, 10, 1), ("cy", 0, 0, 1))
    ],
    ("over-waiting", "over-aggregate", "cleanupTsState"): [
        ({"customer": name}, ms(second) + 1) for name, second in (("ada", 91), ("bob", 93), ("cy", 95))
    ],
    ("distinct-times", "group-aggregate", "distinctAcc_0"): [(c, date(2024, 1, 1), 1) for c in (ADA, BOB, CY)],
    ("distinct-times", "group-aggregate", "distinctAcc_1"): [
        ({"customer": o["customer"]}, f"00:00:{o['ts'].second:02}", 1) for o in ORDERS
    ],
    ("distinct-times", "group-aggregate", "distinctAcc_2"): [
        ({"customer": o["customer"]}, o["ts"].replace(tzinfo=UTC), 1) for o in ORDERS
    ],
    ("distinct-split", "global-group-aggregate", "accState"): [
        (
            {"customer": name},
            {
                "sum0(count(distinct item) filter GROUPING_ID() = 1)": kinds,
                "sum0(count(distinct amount) filter GROUPING_ID() = 2)": amounts,
                "sum(sum(amount * 2) filter GROUPING_ID() = 3)": total,
            },
        )
        for name, kinds, amounts, total in (("ada", 2, 3, 70), ("bob", 1, 2, 34), ("cy", 1, 0, None))
    ],
    ("computed-join", "join", "left-records"): [
        (
            {"UPPER(customer)": o["customer"].upper()},
            {"id": o["id"], "UPPER(customer)": o["customer"].upper()},
            {"copies": 1, "associations": {"ada": 2, "bob": 1, "cy": 0}[o["customer"]]},
        )
        for o in PLAIN
    ],
    ("computed-join", "join", "right-records"): [
        ({"UPPER(customer)": c["id"].upper()}, {"city": c["city"], "UPPER(id)": c["id"].upper()}, 1) for c in CITIES
    ],
    ("computed-top", "rank", "data-state-with-append"): [
        (
            {"UPPER(customer)": o["customer"].upper()},
            {"amount * 2": o["amount"] and 2 * o["amount"]},
            [
                {
                    "id": o["id"],
                    "customer": o["customer"],
                    "amount * 2": o["amount"] and 2 * o["amount"],
                    "UPPER(customer)": o["customer"].upper(),
                }
            ],
        )
        for o in PLAIN
        if o["id"] != 4
    ],
    ("computed-over", "over-aggregate", "inputState"): [
        (
            {"UPPER(customer)": o["customer"].upper()},
            ms(o["ts"].second),
            [
                {
                    "id": o["id"],
                    "ts": o["ts"],
                    "amount * 2": o["amount"] and 2 * o["amount"],
                    "UPPER(customer)": o["customer"].upper(),
                }
            ],
        )
        for o in ORDERS
        if o["id"] != 0
    ],
    ("lag", "over-aggregate", "accState"): [
        (
            {"customer": name},
            {
                "lag(amount)": lag([o["amount"] for o in orders[-2:]]),
                "lag(item, 2)": lag([ITEMS[o["id"]] for o in orders], offset=2),
                "lag(amount, 1, -1)": lag([o["amount"] for o in orders[-2:]], default=-1),
                "lag(CAST(ts AS DATE))": lag([date(2024, 1, 1) for _ in orders[-2:]]),
                "lag(ROW(id, item))": lag([{"EXPR$0": o["id"], "EXPR$1": ITEMS[o["id"]]} for o in orders[-2:]]),
            },
        )
        for name in ("ada", "bob", "cy")
        for orders in ([o for o in PLAIN if o["customer"] == name],)
    ],
    ("over-rank", "over-aggregate", "accState"): [
        (c, {"rank() row number": n, "rank()": n}) for c, n in ((ADA, 3), (BOB, 2), (CY, 1))
    ],
    ("over", "over-aggregate", "inputState"): [
        ({"customer": o["customer"]}, ms(o["ts"].second), [{n: o[n] for n in ("id", "customer", "amount", "ts")}]) for o in ORDERS
    ],
}


def read(version: str, query: str, operation: str, state: str, **options: Any) -> list[dict[str, Any]]:
    directory = unpacked("sql") / version / query
    (row,) = {
        r["operator_uid"]
        for r in sp.arrow.states(directory / "savepoint", plan=directory / "plan.json").to_pylist()
        if r["operator_uid"].endswith(f"_{operation}") and r["state_name"] == state
    }
    label = f"{operation}[{row.partition('_')[0]}]"
    options = {"plan": directory / "plan.json"} | options
    return [r for b in sp.arrow.read_state(directory / "savepoint", label, state, **options) for r in b.to_pylist()]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("state", list(EXPECTED), ids=" ".join)
def test_rows_have_the_names_of_the_query(state: tuple[str, str, str], version: str) -> None:
    found = [tuple(row.values()) for row in read(version, *state)]
    assert sorted(found, key=repr) == sorted(EXPECTED[state], key=repr)


IN_2_3: dict[tuple[str, str, str], list[tuple[Any, ...]]] = {
    ("first-row-by-time", "deduplicate", "already-emitted-state-boolean"): [({"item": "pen"}, True), ({"item": "ink"}, True)],
    ("first-row-by-time", "deduplicate", "waiting-to-emit-on-timer"): [
        ({"item": None}, {"id": 6, "item": None, "amount": 7, "ts": at(11)})
    ],
}
"""States that Flink 1.20 does not have."""


@pytest.mark.parametrize("state", list(IN_2_3), ids=" ".join)
def test_rows_of_operators_of_2_3_have_the_names_of_the_query(state: tuple[str, str, str]) -> None:
    found = [tuple(row.values()) for row in read("2.3.0", *state)]
    assert sorted(found, key=repr) == sorted(IN_2_3[state], key=repr)


def test_rows_of_joins_of_many_inputs() -> None:
    """Of the first input they are found by themselves, of others also by what these are joined by."""
    directory = unpacked("sql") / "2.3.0" / "multi-join"
    where = {"plan": directory / "plan.json"}
    operators = sp.arrow.operators(directory / "savepoint", **where).to_pylist()
    joins = [o["operator_uid"] for o in operators if (o["operator_uid"] or "").endswith("_multi-join")]
    first, second = sorted(joins, key=lambda uid: int(uid.partition("_")[0]))

    def rows(uid: str, state: str) -> set[str]:
        read = sp.arrow.read_state(directory / "savepoint", uid, state, **where)
        return {str(tuple(row.values())) for batch in read for row in batch.to_pylist()}

    by_customer = {name: {"UPPER(customer)": name.upper()} for name in ("ada", "bob", "cy")}
    assert rows(first, "multi-join-input-0") == {
        str((by_customer[o["customer"]], {"id": o["id"], "customer": o["customer"], **by_customer[o["customer"]]}, 1))
        for o in PLAIN
    }
    assert rows(first, "multi-join-input-1") == {
        str(
            (
                {"UPPER(customer)": c["id"].upper()},
                {"joined_by": {"UPPER(id)": c["id"].upper()}, "record": {"city": c["city"], "UPPER(id)": c["id"].upper()}},
                1,
            )
        )
        for c in CITIES
    }
    assert rows(second, "multi-join-input-1") == {
        str(
            (
                {"UPPER(customer)": who},
                {"joined_by": {"who": who}, "unique_key": {"who": who, "item": item}},
                {"who": who, "item": item, "total": total},
            )
        )
        for who, item, total in (
            *(("ADA", "ink", 20), ("ADA", "pen", 15)),
            *(("BOB", None, 7), ("BOB", "pen", 10), ("CY", "ink", None)),
        )
    }


def test_rows_of_sinks_by_number() -> None:
    query = "materialized-by-number"
    rows = [("Rome", 35), ("Bonn", 35), ("Oslo", 17)]
    found = read("2.3.0", query, "upsert-materialize", "sqnToNodeState")
    assert sorted((r["key"]["city"], r["map_value"]["row"]["total"]) for r in found) == sorted(rows)
    found = read("2.3.0", query, "upsert-materialize", "rowToSqnState")
    assert sorted((r["map_key"]["city"], r["map_key"]["total"]) for r in found) == sorted(rows)
    assert {r["value"]["size"] for r in read("2.3.0", query, "upsert-materialize", "highestSqnState")} == {1}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("query", "operation", "timers", "expected"),
    [
        ("temporal-join-waiting", "temporal-join", "timers", [("bob", ms(11)), ("dan", ms(12))]),
        (
            *("over-waiting", "over-aggregate", "user-timers"),
            [("ada", ms(91) + 1), ("bob", ms(11)), ("bob", ms(93) + 1), ("cy", ms(95) + 1)],
        ),
        ("sessions", "window-aggregate", "window-timers", [("bob", ms(16) - 1)]),
        ("hopping", "global-window-aggregate", "window-timers", [(name, ms(15) - 1) for name in ("ada", "bob", "cy")]),
    ],
)
def test_rows_that_wait_have_timers(
    query: str, operation: str, timers: str, expected: list[tuple[str, int]], version: str
) -> None:
    found = read(version, query, operation, f"_timer_state/event_{timers}")
    assert sorted((row["key"]["customer"], row["timestamp"]) for row in found) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_of_interval_joins_say_if_they_were_emitted(version: str) -> None:
    found = read(version, "interval-join", "interval-join", "IntervalJoinRightCache")
    records = [(row["key"]["customer"], row["map_key"], kept["record"]) for row in found for kept in row["map_value"]]
    assert sorted(records, key=repr) == sorted(((c["id"], ms(c["ts"].second), c) for c in CUSTOMERS), key=repr)
    assert {type(kept["emitted"]) for row in found for kept in row["map_value"]} == {bool}


def test_every_state_of_every_query_has_a_description() -> None:
    for version in VERSIONS:
        for directory in (unpacked("sql") / version).iterdir():
            rows = sp.arrow.states(directory / "savepoint", plan=directory / "plan.json").to_pylist()
            assert [(r["operator_uid"], r["state_name"]) for r in rows if not r["description"]] == []


QUERY = unpacked("sql") / "2.3.0" / "left-join"
PATH, PLAN = QUERY / "savepoint", QUERY / "plan.json"


def uids() -> dict[str, str]:
    """The uid by the function of the operator."""
    found = sp.arrow.operators(PATH, plan=PLAN).to_pylist()
    return {r["operator_uid"].partition("_")[2]: r["operator_uid"] for r in found if r["operator_uid"]}


def test_operators_have_the_uids_and_names_of_the_plan() -> None:
    (join,) = (r for r in sp.arrow.operators(PATH, plan=PLAN).to_pylist() if (r["operator_uid"] or "").endswith("_join"))
    assert sp.OperatorIdentifier.for_uid(join["operator_uid"]).uid_hash == join["operator_uid_hash"]
    label = f"join[{join['operator_uid'].partition('_')[0]}]"
    by_label, by_uid, by_hash = (
        [b.to_pylist() for b in sp.arrow.read_state(PATH, uid, "right-records", plan=PLAN)]
        for uid in (label, join["operator_uid"], join["operator_uid_hash"])
    )
    assert by_label == by_uid == by_hash
    with pytest.raises(sp.NotFoundError, match=r"no operator 'join\[9999\]' in this snapshot"):
        list(sp.arrow.read_state(PATH, "join[9999]", "right-records", plan=PLAN))


def test_keys_and_columns_are_named_as_the_rows_are() -> None:
    uid = uids()["join"]
    given = {"keys": [{"customer": "bob"}], "columns": ["map_key.city", "key"], "plan": PLAN}
    rows = [r for b in sp.arrow.read_state(PATH, uid, "right-records", **given) for r in b.to_pylist()]
    assert rows == [{"key": {"customer": "bob"}, "map_key": {"city": "Oslo"}}]
    contents = sp.arrow.lookup(PATH, uid, {"customer": "bob"}, plan=PLAN)
    assert contents.states["right-records"].to_pylist()[0]["value"] == [({"id": "bob", "city": "Oslo"}, 1)]


def test_differences_and_sizes_take_the_name_of_the_plan() -> None:
    label = f"join[{uids()['join'].partition('_')[0]}]"
    assert [b.num_rows for b in sp.arrow.diff(PATH, PATH, label, "left-records", plan=PLAN)] == [0]
    types = {r["state_name"]: r["type_after"] for r in sp.arrow.diff_summary(PATH, PATH, label, plan=PLAN).to_pylist()}
    assert types["right-records"] == "MAP<ROW<`id` STRING, `city` STRING>,INT>"
    sizes = sp.arrow.size_report(PATH, label, plan=PLAN).to_pylist()
    assert {(row["operator_uid"], row["state_name"]): row["entries"] for row in sizes} == {
        (uids()["join"], "left-records"): 6,
        (uids()["join"], "right-records"): 4,
    }


def test_all_states_of_an_operator_side_by_side() -> None:
    rows = [r for b in sp.arrow.read_state(PATH, uids()["join"], plan=PLAN, keys=[{"customer": "bob"}]) for r in b.to_pylist()]
    (row,) = rows
    assert row["right-records"] == [({"id": "bob", "city": "Oslo"}, 1)]
    assert sorted(k["id"] for k, _ in row["left-records"]) == [3, 6]


def test_a_plan_is_a_path_or_its_text_or_its_json() -> None:
    text = PLAN.read_text("utf-8")
    schemas = [
        next(iter(sp.arrow.read_state(PATH, uids()["join"], "left-records", plan=plan))).schema
        for plan in (PLAN, str(PLAN), text, json.loads(text))
    ]
    assert all(schema == schemas[0] for schema in schemas)
    with pytest.raises(sp.MissingFileError):
        sp.arrow.operators(PATH, plan="/nowhere/plan.json")
    with pytest.raises(sp.OptionError, match="expected the JSON of COMPILE PLAN"):
        sp.arrow.operators(PATH, plan="{}")


def changed(**outputs: str) -> str:
    """The plan with other types of rows that leave nodes of a type."""
    plan = json.loads(PLAN.read_text("utf-8"))
    for node in plan["nodes"]:
        node["outputType"] = outputs.get(node["type"].removeprefix("stream-exec-").removesuffix("_1"), node["outputType"])
    return json.dumps(plan)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            "`id` BIGINT, `customer` VARCHAR(2147483647), `amount` INT",
            r"`f2` BIGINT>, the plan has ROW<`id` BIGINT, .*`amount` INT>",
        ),
        ("`id` BIGINT, `customer` VARCHAR(2147483647)", r"`f2` BIGINT>, the plan has ROW<`id` BIGINT, `customer` STRING>"),
    ],
)
def test_a_plan_of_another_query_is_refused(fields: str, message: str) -> None:
    plan = changed(exchange=f"ROW<{fields}>")
    with pytest.raises(
        sp.OptionError, match=rf"join\[\d+\] \(uid '\d+_join'\), state 'left-records', map_key is ROW<.*{message}"
    ):
        list(sp.arrow.read_state(PATH, uids()["join"], "left-records", plan=plan))


def test_a_plan_without_the_operators_of_the_snapshot_is_refused() -> None:
    """It would name nothing, and say so to nobody."""
    other = PLAN.parent.parent / "over" / "plan.json"
    for read in (sp.arrow.states, sp.arrow.operators):
        with pytest.raises(
            sp.OptionError, match=r"plan: the plan does not have the operators of the snapshot \(.*_join.*\)\. Pass"
        ):
            read(PATH, plan=other)


def test_fields_name_rows_without_a_plan() -> None:
    uid = uids()["join"]

    def row(**fields: list[str]) -> dict[str, Any]:
        options = {"fields": {n.replace("__", "-"): names for n, names in fields.items()}, "keys": [{"who": "bob"}]}
        return next(r for b in sp.arrow.read_state(PATH, uid, "right-records", **options) for r in b.to_pylist())

    expected = {"key": {"who": "bob"}, "map_key": {"id": "bob", "city": "Oslo"}, "map_value": 1}
    assert row(key=["who"], right__records=["id", "city"]) == expected
    assert row(**{"key": ["who"], "right__records.map_key": ["id", "city"]}) == expected
    with pytest.raises(sp.OptionError, match="rows of 2 fields; expected as many different names, found \\['id'\\]"):
        row(key=["who"], right__records=["id"])
    with pytest.raises(sp.OptionError, match="fields: 'left' is not read"):
        row(key=["who"], left=["id"])
    with pytest.raises(sp.OptionError, match=r"fields: state 'right-records' has|with 0 rows; expected one row"):
        row(**{"key": ["who"], "right__records.map_value": ["n"]})


@pytest.mark.spark
def test_spark_reads_and_writes_by_the_names(spark: SparkSession, tmp_path: Path) -> None:
    directory = unpacked("sql") / "2.3.0" / "group-aggregate"
    path, plan = str(directory / "savepoint"), str(directory / "plan.json")
    reader = sp.SavepointReader.read(spark, path, plan=plan)
    (label,) = (r.operator_name for r in reader.operators().collect() if "group-aggregate[" in (r.operator_name or ""))
    bob = reader.read_keyed_state(label, "accState", keys=[{"customer": "bob"}])
    sp.register(spark)
    options = {"uid": label, "state": "accState", "plan": plan}
    same = spark.read.format("flink-savepoint").options(**options).load(path).where("key.customer = 'bob'")
    assert bob.collect() == same.collect()
    writer = sp.SavepointWriter.from_existing(spark, path, plan=plan)
    more = bob.withColumn("value", bob.value.withField("`sum(amount)`", bob.value["sum(amount)"] + 100))
    writer.update_keyed_state(label, "accState", more)
    writer.delete_keys(label, spark.sql("SELECT named_struct('customer', 'cy') AS key"))
    writer.write(tmp_path / "savepoint")
    written = sp.arrow.read_state(tmp_path / "savepoint", label, "accState", plan=plan)
    found = {r["key"]["customer"]: r["value"]["sum(amount)"] for b in written for r in b.to_pylist()}
    assert found == {"ada": 35, "bob": 117}
    rows = sp.diff(spark, path, tmp_path / "savepoint", label, "accState", plan=plan).collect()
    assert sorted((r.change, r.key.customer, r.before["sum(amount)"], r.after and r.after["sum(amount)"]) for r in rows) == [
        ("delete", "cy", None, None),
        ("update", "bob", 17, 117),
    ]
    texts = sp.diff(spark, path, tmp_path / "savepoint", plan=plan).where("change = 'update'").collect()
    found_texts = [(r.state_name, r.key, json.loads(r.after)["sum(amount)"]) for r in texts]
    assert found_texts == [("accState", '{"customer": "bob"}', 117)]


def test_the_command_line_takes_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["states", str(PATH), "--plan", str(PLAN), "--vertical"]) == 0
    assert "rows of the right input: each as map key, with the number of copies" in capsys.readouterr().out
    label = f"join[{uids()['join'].partition('_')[0]}]"
    arguments = ["show", str(PATH), "--plan", str(PLAN), "--uid", label, "--state", "right-records", "--json"]
    assert main(arguments) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"key": {"customer": "dan"}, "map_key": {"id": "dan", "city": "Nice"}, "map_value": 1} in rows


def test_states_can_be_handed_to_other_processes() -> None:
    snapshot = SnapshotAccess.of(plan=PLAN).open(PATH)
    (states, _) = survey(snapshot, find_operator(snapshot, uids()["join"]))
    copied = cloudpickle.loads(cloudpickle.dumps(states))  # as Spark does
    assert {n: str(found[0].value) for n, found in copied.items()} == {n: str(found[0].value) for n, found in states.items()}
