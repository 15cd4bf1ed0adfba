"""States of queries from tables: equal to the states of real queries after the same rows, or refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.errors import InvalidRowError, NotFoundError, OptionError
from tests.archives import unpacked
from tests.interop.selection import in_turn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


class Engine:
    """Writers with Spark, which ``tests.both_engines`` repeats without, and rows for them from queries of Spark SQL."""

    def __init__(self, spark: SparkSession) -> None:
        self.session = spark

    def new(self, **options: Any) -> sp.SavepointWriter:
        return sp.SavepointWriter.new(self.session, **options)

    def from_existing(self, path: Path) -> sp.SavepointWriter:
        return sp.SavepointWriter.from_existing(self.session, path)

    def sql(self, query: str) -> DataFrame:
        return self.session.sql(query)

    def evaluated(self, query: str) -> tuple[DataFrame, pa.Table]:
        """Return the rows of a query for Spark and for Arrow. No job computes them again."""
        if query not in _EVALUATED:
            rows = self.session.sql(query)
            _EVALUATED[query] = rows.schema, rows.toArrow()
        schema, table = _EVALUATED[query]
        return self.session.createDataFrame(table, schema), table


_EVALUATED: dict[str, tuple[Any, pa.Table]] = {}


@pytest.fixture
def engine(spark: SparkSession) -> Engine:
    return Engine(spark)


VERSIONS = ("1.20.5", "2.3.0")
ORDERS = """SELECT * FROM VALUES
    (1L, 'ada', 'pen', 10L, timestamp_ntz'2024-01-01 00:00:01'), (2L, 'ada', 'ink', 20L, timestamp_ntz'2024-01-01 00:00:02'),
    (3L, 'bob', 'pen', 10L, timestamp_ntz'2024-01-01 00:00:03'), (4L, 'ada', 'pen', 5L, timestamp_ntz'2024-01-01 00:00:04'),
    (5L, 'cy', 'ink', null, timestamp_ntz'2024-01-01 00:00:05'), (6L, 'bob', null, 7L, timestamp_ntz'2024-01-01 00:00:11')
    AS orders(id, customer, item, amount, ts)"""
CUSTOMERS = """SELECT * FROM VALUES
    ('ada', 'Rome', timestamp_ntz'2024-01-01 00:00:00'), ('bob', 'Oslo', timestamp_ntz'2024-01-01 00:00:02'),
    ('ada', 'Bonn', timestamp_ntz'2024-01-01 00:00:03'), ('dan', 'Nice', timestamp_ntz'2024-01-01 00:00:12')
    AS customers(id, city, ts)"""
TOTALS = f"SELECT customer, item, sum(amount) AS total FROM ({ORDERS}) GROUP BY customer, item"
CITIES = f"SELECT id, count(*) AS n FROM ({CUSTOMERS}) GROUP BY id"

# By query: for each operator its rows, or the rows of its sides.
QUERIES: dict[str, dict[str, tuple[str, ...]]] = {
    "group-aggregate": {"group-aggregate": (f"SELECT customer, amount, item FROM ({ORDERS})",)},
    "inner-join": {"join": (f"SELECT id, customer, amount FROM ({ORDERS})", f"SELECT id, city FROM ({CUSTOMERS})")},
    "left-join": {"join": (f"SELECT id, customer, amount FROM ({ORDERS})", f"SELECT id, city FROM ({CUSTOMERS})")},
    "join-by-unique-keys": {"join": (TOTALS, CITIES)},
    "first-row": {"deduplicate": (f"SELECT id, customer, amount FROM ({ORDERS})",)},
    "last-row": {"deduplicate": (f"SELECT id, customer, amount, ts FROM ({ORDERS})",)},
    "distinct": {
        "group-aggregate": (f"SELECT customer, item, coalesce(amount > 9, false) AS `amount > 9`, amount FROM ({ORDERS})",)
    },
    "two-phases": {"global-group-aggregate": (f"SELECT customer, item, amount FROM ({ORDERS})",)},
    "top": {"rank": (f"SELECT id, customer, amount FROM ({ORDERS})",)},
    "top-of-updates": {"rank": (f"SELECT customer, sum(amount) AS total FROM ({ORDERS}) GROUP BY customer",)},
    "normalized": {"changelog-normalize": ("SELECT * FROM VALUES ('ada', 'Bonn'), ('cy', 'Rome') AS homes(id, city)",)},
    "temporal-join": {"deduplicate": (f"SELECT id, city, ts FROM ({CUSTOMERS})",)},
}


def query(version: str, name: str) -> tuple[str, str]:
    directory = unpacked("sql") / version / name
    return str(directory / "savepoint"), str(directory / "plan.json")


def bootstrap(writer: Any, plan: str, operator: str, rows: list[Any]) -> Any:
    if len(rows) == 2:
        return writer.bootstrap_query(plan, operator, left=rows[0], right=rows[1])
    return writer.bootstrap_query(plan, operator, rows[0])


def entries(path: str | Path, uid: str, state: str, plan: str) -> list[str]:
    return sorted(str(row) for batch in sp.arrow.read_state(path, uid, state, plan=plan) for row in batch.to_pylist())


@pytest.mark.parametrize("version", VERSIONS)
def test_states_are_those_that_queries_wrote(version: str, engine: Engine, tmp_path: Path) -> None:
    """Spark writes each query in one of the versions."""
    of_spark = in_turn(list(QUERIES), VERSIONS.index(version))
    for name, operators in QUERIES.items():
        real, plan = query(version, name)
        writer = (engine if name in of_spark else sp.arrow.SavepointWriter).new(flink_version=version.rpartition(".")[0])
        for operator, rows in operators.items():
            frames = [engine.evaluated(given) for given in rows]
            bootstrap(writer, plan, operator, [frame if name in of_spark else table for frame, table in frames])
        made = tmp_path / name
        writer.write(made)
        columns = ("operator_uid", "state_name", "state_kind", "key_type", "value_type", "map_key_type", "ttl")
        found = [tuple(row[c] for c in columns) for row in sp.arrow.states(made, plan=plan).to_pylist()]
        known = [tuple(row[c] for c in columns) for row in sp.arrow.states(real, plan=plan).to_pylist()]
        assert found
        assert set(found) <= set(known)
        for uid, state, *_ in found:
            assert entries(made, uid, state, plan) == entries(real, uid, state, plan) != []


@pytest.mark.parametrize(("left", "right"), [("UPPER(customer)", "UPPER(id)"), ("$f7", "$f5"), ("UPPER(customer)", "$f5")])
def test_computed_columns_have_the_names_of_the_plan_or_those_that_are_shown(
    left: str, right: str, engine: Engine, tmp_path: Path
) -> None:
    real, plan = query("2.3.0", "computed-join")
    orders = engine.sql(f"SELECT id, upper(customer) AS `{left}` FROM ({ORDERS})")
    cities = engine.sql(f"SELECT city, upper(id) AS `{right}` FROM ({CUSTOMERS})")
    engine.new().bootstrap_query(plan, "join", left=orders, right=cities).write(tmp_path / "s")
    (uid,) = (row["operator_uid"] for row in sp.arrow.operators(tmp_path / "s", plan=plan).to_pylist())
    for state in ("left-records", "right-records"):
        assert entries(tmp_path / "s", uid, state, plan) == entries(real, uid, state, plan) != []


def test_computed_columns_are_given_once(engine: Engine) -> None:
    plan = query("2.3.0", "computed-join")[1]
    cities = engine.sql(f"SELECT city, upper(id) AS `UPPER(id)` FROM ({CUSTOMERS})")
    for columns, problem in (
        ("id", r"there is no column 'UPPER\(customer\)'; the rows have id"),
        ("id, 'A' AS `$f7`, 'A' AS `UPPER(customer)`", r"column 'UPPER\(customer\)' would be ignored; expected are id, \$f7"),
        ("id, 1 AS `UPPER(customer)`", r"column 'UPPER\(customer\)' is int, the plan has STRING"),
    ):
        orders = engine.sql(f"SELECT {columns} FROM ({ORDERS})")
        with pytest.raises(InvalidRowError, match=f"left rows: {problem}"):
            engine.new().bootstrap_query(plan, "join", left=orders, right=cities)


def join_plan(columns: str) -> dict[str, Any]:
    """A plan with an outer join by the first columns, of rows without unique keys."""
    spec = {"joinType": "LEFT", "leftKeys": [0], "rightKeys": [0], "filterNulls": [True], "nonEquiCondition": None}
    sources = [
        {"id": i, "type": "stream-exec-table-source-scan_1", "outputType": f"ROW<{row}>"}
        for i, row in enumerate((columns, "`k` INT"), 1)
    ]
    join = {"id": 3, "type": "stream-exec-join_1", "joinSpec": spec, "outputType": f"ROW<{columns}, `k0` INT>"}
    return {"nodes": [*sources, join], "edges": [{"source": i, "target": 3} for i in (1, 2)]}


def test_rows_with_maps_are_compared_by_their_bytes(engine: Engine, tmp_path: Path) -> None:
    """Equal in Flink are maps with equal entries in the same order, however deep they are."""
    plan = join_plan("`k` INT, `m` MAP<VARCHAR(9), DOUBLE>, `n` ROW<`x` ARRAY<MAP<INT, MAP<INT, VARCHAR(9)>>>>")
    inner = "named_struct('x', array(map(1, map(2, {0}))))"
    given = [
        "map('a', 1D, 'b', 2D)", "map('a', 1D, 'b', 2D)", "map('b', 2D, 'a', 1D)", "map('a', 0D)", "map('a', -0D)",
        "map('a', null)", "map('a', null)", "map()", "null", "null",
    ]  # fmt: skip
    rows = " UNION ALL ".join(
        [f"SELECT 1 AS k, CAST({m} AS MAP<STRING, DOUBLE>) AS m, {inner.format(repr('y'))} AS n" for m in given]
        + [f"SELECT 1, CAST(map() AS MAP<STRING, DOUBLE>), {inner.format(text)}" for text in ("'y'", "'z'", "'z'")]
    )
    writer = engine.new()
    writer.bootstrap_query(plan, "join", left=engine.sql(rows), right=engine.sql("SELECT 1 AS k FROM range(2)"))
    writer.write(tmp_path / "s")
    read = sp.arrow.read_state(tmp_path / "s", "3_join", "left-records", plan=json.dumps(plan))
    found = sorted(
        (str(row["map_key"]["m"]), row["map_key"]["n"]["x"][0][0][1][0][1], *row["map_value"].values())
        for batch in read
        for row in batch.to_pylist()
    )
    assert found == sorted(
        [
            ("[('a', 1.0), ('b', 2.0)]", "y", 2, 2),
            ("[('b', 2.0), ('a', 1.0)]", "y", 1, 2),
            ("[('a', 0.0)]", "y", 1, 2),
            ("[('a', -0.0)]", "y", 1, 2),
            ("[('a', None)]", "y", 2, 2),
            ("[]", "y", 2, 2),
            ("None", "y", 2, 2),
            ("[]", "z", 2, 2),
        ]
    )


def group_plan(columns: str, *calls: dict[str, Any], grouping: tuple[int, ...] = (0,), ttl: str = "0 ms") -> dict[str, Any]:
    """A plan with an aggregate."""
    aggregate = {
        "id": 2,
        "type": "stream-exec-group-aggregate_1",
        "grouping": list(grouping),
        "aggCalls": list(calls),
        "aggCallNeedRetractions": [False] * len(calls),
        "state": [{"index": 0, "ttl": ttl, "name": "groupAggregateState"}],
        "outputType": "ROW<`a` INT>",
    }
    source = {"id": 1, "type": "stream-exec-table-source-scan_1", "outputType": f"ROW<{columns}>"}
    return {"nodes": [source, aggregate], "edges": [{"source": 1, "target": 2}]}


def call(function: str, *arguments: int, type_: str = "BIGINT") -> dict[str, Any]:
    return {"internalName": f"${function}$1", "argList": list(arguments), "filterArg": -1, "type": type_}


TEXT_EXTREMES = tuple(call(function, 2, type_="VARCHAR(2147483647)") for function in ("MAX", "MIN"))


def written(writer: Any, target: Path, plan: dict[str, Any], **reading: Any) -> list[dict[str, Any]]:
    writer.write(target)
    read = sp.arrow.read_state(target, "2_group-aggregate", "accState", plan=json.dumps(plan), **reading)
    return [row for batch in read for row in batch.to_pylist()]


def test_numbers_are_those_of_flink(engine: Engine, tmp_path: Path) -> None:
    """Sums of whole numbers wrap around; zeros of both signs are two keys; the null of a key is a key."""
    plan = group_plan("`k` DOUBLE, `a` BIGINT, `i` INT", call("SUM", 1), call("SUM", 2, type_="INT"), call("AVG", 1))
    rows = engine.sql(
        """SELECT * FROM VALUES (0D, 9223372036854775807L, 2147483647), (0D, 2L, 1), (-0D, -9223372036854775808L, -2147483648),
        (-0D, -1L, -1), (null, null, null), (1D, -5L, -5), (1D, 3L, 3) AS t(k, a, i)"""
    )
    found = written(engine.new().bootstrap_query(plan, "group-aggregate[2]", rows), tmp_path / "s", plan)
    assert {str(row["key"]["k"]): tuple(row["value"].values()) for row in found} == {
        "0.0": (-(2**63) + 1, -(2**31), -(2**63) + 1, 2),
        "-0.0": (2**63 - 1, 2**31 - 1, 2**63 - 1, 2),
        "None": (None, None, 0, 0),
        "1.0": (-2, -2, -2, 2),
    }


def test_sums_of_decimals_have_38_digits(engine: Engine, tmp_path: Path) -> None:
    plan = group_plan("`k` INT, `d` DECIMAL(38, 0)", call("SUM", 1))
    rows = engine.sql("SELECT 1 AS k, CAST(repeat('9', 38) AS DECIMAL(38, 0)) AS d FROM range(2)")
    with pytest.raises(InvalidRowError, match=r"sum\(d\): a sum has more than 38 digits"):
        engine.new().bootstrap_query(plan, "group-aggregate", rows).write(tmp_path / "s")


def test_extremes_are_those_of_flink(engine: Engine, tmp_path: Path) -> None:
    """For Spark NaN is the largest number, and collations have orders of their own; Flink compares bytes, and NaN not at all."""
    plan = group_plan("`k` INT, `d` DOUBLE, `t` VARCHAR(2147483647)", call("MAX", 1, type_="DOUBLE"), *TEXT_EXTREMES)
    rows = engine.sql(
        """SELECT k, d, collate(t, 'UTF8_LCASE') AS t FROM VALUES
        (1, 1D, 'B'), (1, null, 'a'), (1, 2D, 'C'), (2, double('NaN'), null), (2, null, 'd'), (3, -1D, null) AS t(k, d, t)"""
    )
    writer = engine.new().bootstrap_query(plan, "group-aggregate", rows)
    found = written(writer, tmp_path / "s", plan)
    assert {row["key"]["k"]: (str(row["value"]["max(d)"]), *list(row["value"].values())[1:]) for row in found} == {
        1: ("2.0", "a", "B"),
        2: ("nan", "d", "d"),
        3: ("-1.0", None, None),
    }
    mixed = engine.sql("SELECT 1 AS k, d, 'a' AS t FROM VALUES (1D), (double('NaN')), (null) AS t(d)")
    with pytest.raises(InvalidRowError, match=r"max\(d\): with NaN, Flink's result depends .*; drop the NaN$"):
        engine.new().bootstrap_query(plan, "group-aggregate", mixed).write(tmp_path / "mixed")


def test_without_a_key_there_is_one_key_group(engine: Engine, tmp_path: Path) -> None:
    """As in Flink, whose exchange to one subtask has a max parallelism of one."""
    plan = group_plan("`a` INT", call("COUNT"), call("MAX", 0, type_="INT"), grouping=())
    rows = engine.sql("SELECT CAST(id AS INT) AS a FROM range(10)")
    writer = engine.new().bootstrap_query(plan, "group-aggregate", rows)
    assert written(writer, tmp_path / "s", plan) == [{"key": {}, "value": {"count(*)": 10, "max(a)": 9}}]
    engine.from_existing(tmp_path / "s").with_max_parallelism(256).write(tmp_path / "larger")
    for path in ("s", "larger"):
        (operator,) = sp.arrow.operators(tmp_path / path).to_pylist()
        assert (operator["operator_max_parallelism"], operator["operator_parallelism"]) == (1, 1)
    nothing = engine.new().bootstrap_query(plan, "group-aggregate", engine.sql("SELECT 1 AS a WHERE false"))
    assert written(nothing, tmp_path / "nothing", plan) == []


def test_times_of_last_access(engine: Engine, tmp_path: Path) -> None:
    plan = group_plan("`k` INT", call("COUNT"), ttl="3600000 ms")
    rows = engine.sql("SELECT 1 AS k, timestamp_millis(id * 1000) AS _last_access FROM range(5)")
    writer = engine.new().bootstrap_query(plan, "group-aggregate", rows)
    (row,) = written(writer, tmp_path / "s", plan, metadata=True)
    assert (row["value"], row["_last_access"]) == ({"count(*)": 5}, datetime(1970, 1, 1, 0, 0, 4, tzinfo=UTC))


def test_states_of_a_source_savepoint_are_replaced(engine: Engine, tmp_path: Path) -> None:
    """The operator is found by any of the uids that it may have."""
    plan = group_plan("`k` INT", call("COUNT"))
    rows = engine.sql("SELECT 1 AS k FROM range(5)")
    old_uid = "2_stream-exec-group-aggregate_1_group-aggregate"
    engine.new().bootstrap_query(plan, old_uid, rows).write(tmp_path / "a")
    writer = engine.from_existing(tmp_path / "a").bootstrap_query(
        plan, "group-aggregate[2]", engine.sql("SELECT 1 AS k FROM range(2)")
    )
    writer.write(tmp_path / "b")
    (operator,) = sp.arrow.operators(tmp_path / "b", plan=json.dumps(plan)).to_pylist()
    uid = operator["operator_uid"]
    assert uid == old_uid
    assert [str(b.to_pylist()) for b in sp.arrow.read_state(tmp_path / "b", uid, "accState", plan=json.dumps(plan))] == [
        "[{'key': {'k': 1}, 'value': {'count(*)': 2}}]"
    ]


def test_rows_that_do_not_fit_are_refused(engine: Engine, tmp_path: Path) -> None:
    plan = group_plan("`k` INT, `a` INT", call("SUM", 1))
    writer = engine.new()
    for rows, problem in (
        ("1 AS k", "there is no column 'a'"),
        ("1 AS k, 2 AS a, 3 AS b", "column 'b' would be ignored"),
        ("1 AS k, 2L AS a", r"column 'a' is bigint, the plan has INT; cast it: CAST\(`a` AS int\)"),
        ("1 AS k, '2' AS a", "column 'a' is string, the plan has INT"),
        ("array(1) AS k, 2 AS a", r"column 'k' is array<int>, the plan has INT"),
    ):
        with pytest.raises(InvalidRowError, match=rf"operator 2_group-aggregate: {problem}"):
            writer.bootstrap_query(plan, "group-aggregate", engine.sql(f"SELECT {rows}"))
    with pytest.raises(OptionError, match=r"group-aggregate\[2\] has one input: give its rows as df"):
        writer.bootstrap_query(
            plan, "group-aggregate", left=engine.sql("SELECT id FROM range(1)"), right=engine.sql("SELECT id FROM range(1)")
        )
    with pytest.raises(NotFoundError, match="no operator 'join' in the plan"):
        writer.bootstrap_query(plan, "join", engine.sql("SELECT id FROM range(1)"))
    with pytest.raises(OptionError, match="plan=None: expected a path, or the JSON of a compiled plan"):
        writer.bootstrap_query(None, "join", engine.sql("SELECT id FROM range(1)"))  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="plan: expected the JSON of COMPILE PLAN"):
        writer.bootstrap_query({"no": "plan"}, "join", engine.sql("SELECT id FROM range(1)"))
    joined, last = query("2.3.0", "join-by-unique-keys")[1], query("2.3.0", "last-row")[1]
    with pytest.raises(OptionError, match=r"join\[74\] has two inputs"):
        writer.bootstrap_query(joined, "join", engine.sql("SELECT id FROM range(1)"))
    with pytest.raises(InvalidRowError, match="right rows: there is no column 'n'"):
        writer.bootstrap_query(joined, "join", left=engine.sql(TOTALS), right=engine.sql("SELECT 'ada' AS id"))
    with pytest.raises(OptionError, match="several operators 'group-aggregate'"):
        writer.bootstrap_query(joined, "group-aggregate", engine.sql("SELECT id FROM range(1)"))
    assert repr(writer).endswith("SavepointWriter(max_parallelism=128)")

    twice = engine.sql(f"{CITIES} UNION ALL SELECT 'ada', 7L")
    writer.bootstrap_query(joined, "join", left=engine.sql(TOTALS), right=twice)
    with pytest.raises(InvalidRowError, match=r"operator 74_join.* state 'right-records'.* 'ada'} occurs more than once"):
        writer.write(tmp_path / "twice")
    timeless = engine.sql(f"SELECT id, customer, amount, nullif(ts, timestamp_ntz'2024-01-01 00:00:03') AS ts FROM ({ORDERS})")
    with pytest.raises(InvalidRowError, match="column ts: a row has no time"):
        engine.new().bootstrap_query(last, "deduplicate", timeless).write(tmp_path / "timeless")


def test_columns_without_nulls_have_none(engine: Engine, tmp_path: Path) -> None:
    plan = group_plan("`k` INT, `a` BIGINT NOT NULL", call("SUM", 1))
    rows = engine.sql("SELECT 1 AS k, CAST(null AS BIGINT) AS a")
    with pytest.raises(InvalidRowError, match=r"column a is BIGINT NOT NULL in the plan, and a row has no value$"):
        engine.new().bootstrap_query(plan, "group-aggregate", rows).write(tmp_path / "s")


def test_the_last_row_needs_an_order(engine: Engine, tmp_path: Path) -> None:
    given = json.loads(Path(query("2.3.0", "first-row")[1]).read_text("utf-8"))
    for node in given["nodes"]:
        if node["type"] == "stream-exec-deduplicate_1":
            node["keepLastRow"] = True
    rows = engine.sql(f"SELECT id, customer, amount FROM ({ORDERS})")
    writer = engine.new()
    with pytest.raises(InvalidRowError, match="there is no column 'came', which says in which order rows came"):
        writer.bootstrap_query(given, "deduplicate", rows)
    twice = engine.sql(f"SELECT id, customer, amount, 1 AS came, 2 AS came FROM ({ORDERS})")
    with pytest.raises(InvalidRowError, match="there are several columns 'came'"):
        writer.bootstrap_query(given, "deduplicate", twice)
    writer.bootstrap_query(given, "deduplicate", engine.sql(f"SELECT id, customer, amount, -id AS came FROM ({ORDERS})")).write(
        tmp_path / "s"
    )
    (uid,) = (row["operator_uid"] for row in sp.arrow.operators(tmp_path / "s", plan=json.dumps(given)).to_pylist())
    found = entries(tmp_path / "s", uid, "deduplicate-state", json.dumps(given))
    assert found == [
        "{'key': {'customer': 'ada'}, 'value': {'id': 1, 'customer': 'ada', 'amount': 10, 'came': None}}",
        "{'key': {'customer': 'bob'}, 'value': {'id': 3, 'customer': 'bob', 'amount': 10, 'came': None}}",
        "{'key': {'customer': 'cy'}, 'value': {'id': 5, 'customer': 'cy', 'amount': None, 'came': None}}",
    ]
