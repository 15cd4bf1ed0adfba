"""State of queries for other queries: results and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import state_processor as sp
from state_processor.backends.metadata.operator_id import operator_id
from state_processor.serializers.table.rowdata import ROW_SNAPSHOT, RowDataSerializerSnapshot
from state_processor.write.build import SavepointBuild
from tests.archives import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Open = Callable[..., "sp.SavepointWriter"]


@pytest.fixture
def from_existing(spark: SparkSession) -> Open:
    """Open a source savepoint for writing with Spark, which ``tests.both_engines`` repeats without."""
    return partial(sp.SavepointWriter.from_existing, spark)


def query(name: str, version: str = "2.3.0") -> tuple[str, str]:
    directory = unpacked("sql") / version / name
    return str(directory / "savepoint"), str(directory / "plan.json")


def uids(plan: str, transformation: str, kind: str | None = None) -> list[str]:
    """Return the uids of operators in a plan; the numbers of its nodes change when it is compiled again."""
    nodes = json.loads(Path(plan).read_text("utf-8"))["nodes"]
    wanted = f"stream-exec-{kind or transformation}_"
    return [f"{node['id']}_{transformation}" for node in nodes if node["type"].startswith(wanted)]


def values(path: str | Path, uid: str, state: str, plan: Any) -> list[dict[str, Any]]:
    return [row for batch in sp.arrow.read_state(path, uid, state, plan=plan) for row in batch.to_pylist()]


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_an_aggregate_goes_on_in_another_query(version: str, from_existing: Open, tmp_path: Path) -> None:
    savepoint, old = query("group-aggregate", version)
    _, new = query("retracting", version)
    (aggregate,), (inner, outer) = uids(old, "group-aggregate"), uids(new, "group-aggregate")
    (source,) = uids(new, "source", "table-source-scan")
    writer = from_existing(savepoint, plan=old)
    before = writer.check_query_migration(old, new)
    with pytest.raises(sp.OptionError, match="call migrate_query first"):
        writer.query_migration_report()
    summary = writer.migrate_query(old, new).write(tmp_path / "migrated")
    assert writer.query_migration_report() == before
    lines = str(before).splitlines()
    assert lines[0] == "for the new query: 3 unchanged, 1 converted, 1 new, 0 left out, 0 impossible"
    (converted,) = before.having("converted")
    assert (converted.state, converted.becomes) == ("accState", inner)
    assert converted.uid == aggregate
    assert converted.notes == (
        f"avg(amount) is dropped; min(amount) is dropped; max(item) is dropped; of operator {inner} in the new plan"
    )
    assert before.having("new")[0].uid == outer
    assert "avg(amount) is dropped" in before._repr_html_()
    assert {o.uid for o in summary.operators} == {source, inner}
    found = {row["key"]["customer"]: row["value"] for row in values(tmp_path / "migrated", inner, "accState", new)}
    assert found == {
        "ada": {"count(*)": 3, "sum(amount)": 35},
        "bob": {"count(*)": 2, "sum(amount)": 17},
        "cy": {"count(*)": 1, "sum(amount)": None},
    }


def test_rows_that_become_the_same_are_counted_together(from_existing: Open, tmp_path: Path) -> None:
    savepoint, old = query("left-join")
    new = json.loads(Path(old).read_text("utf-8"))
    join = next(n for n in new["nodes"] if n["type"] == "stream-exec-join_1")
    new["nodes"] = new["nodes"][: new["nodes"].index(join) + 1]
    join["joinSpec"]["leftKeys"] = [0]
    row = "ROW<`id` BIGINT, `customer` VARCHAR(2147483647), `amount` BIGINT>"
    calc, exchange = (n for n in new["nodes"] if n["outputType"] == row)
    calc["projection"] = calc["projection"][1:2]
    calc["outputType"] = exchange["outputType"] = "ROW<`customer` VARCHAR(2147483647)>"
    join["outputType"] = "ROW<`customer` VARCHAR(2147483647), `id` VARCHAR(2147483647), `city` VARCHAR(2147483647)>"
    writer = from_existing(savepoint)
    writer.migrate_query(old, new).write(tmp_path / "migrated")
    found = values(tmp_path / "migrated", f"{join['id']}_join", "left-records", new)
    assert sorted((row["map_key"]["customer"], *row["map_value"].values()) for row in found) == [
        ("ada", 3, 2),
        ("bob", 2, 1),
        ("cy", 1, 0),
    ]
    assert values(tmp_path / "migrated", f"{join['id']}_join", "right-records", new) == values(
        savepoint, f"{join['id']}_join", "right-records", old
    )


def plan_of_maps(*columns: str) -> dict[str, Any]:
    """A join of some columns of a table, including a map, with another table."""
    types = {"k": "INT", "x": "INT", "m": "MAP<VARCHAR(9), INT>"}

    def node(number: int, kind: str, names: tuple[str, ...], **more: Any) -> dict[str, Any]:
        row = f"ROW<{', '.join(f'`{name}` {types[name]}' for name in names)}>"
        return {"id": number, "type": f"stream-exec-{kind}_1", "outputType": row, **more}

    def table(name: str, names: tuple[str, ...]) -> dict[str, Any]:
        schema = {"columns": [{"name": column, "dataType": types[column]} for column in names]}
        return {"table": {"identifier": f"`c`.`d`.`{name}`", "resolvedTable": {"schema": schema}}}

    projection = [{"kind": "INPUT_REF", "inputIndex": list(types).index(c), "type": types[c]} for c in columns]
    spec = {"joinType": "INNER", "leftKeys": [0], "rightKeys": [0], "filterNulls": [True], "nonEquiCondition": None}
    nodes = [
        node(1, "table-source-scan", tuple(types), scanTableSource=table("maps", tuple(types))),
        node(2, "calc", columns, projection=projection),
        node(3, "table-source-scan", ("k",), scanTableSource=table("others", ("k",))),
        node(4, "join", (*columns, "k"), joinSpec=spec),
    ]
    return {"nodes": nodes, "edges": [{"source": s, "target": t} for s, t in ((1, 2), (2, 4), (3, 4))]}


def test_rows_with_maps_become_one_where_a_column_is_gone(from_existing: Open, spark: SparkSession, tmp_path: Path) -> None:
    old, new = plan_of_maps("k", "x", "m"), plan_of_maps("k", "m")
    rows = spark.sql(
        """SELECT 1 AS k, x, m FROM VALUES (1, map('a', 1, 'b', 2)), (2, map('a', 1, 'b', 2)), (3, map('b', 2, 'a', 1)),
        (4, null), (5, null) AS t(x, m)"""
    )
    writer = sp.SavepointWriter.new(spark).bootstrap_query(old, "join", left=rows, right=spark.sql("SELECT 1 AS k"))
    writer.write(tmp_path / "old")
    from_existing(tmp_path / "old").migrate_query(old, new).write(tmp_path / "new")
    found = values(tmp_path / "new", "4_join", "left-records", json.dumps(new))
    assert sorted((str(row["map_key"]["m"]), row["map_value"]) for row in found) == [
        ("None", 2),
        ("[('a', 1), ('b', 2)]", 2),
        ("[('b', 2), ('a', 1)]", 1),
    ]


def test_state_is_left_out_only_by_name(from_existing: Open, tmp_path: Path) -> None:
    savepoint, old = query("top")
    _, new = query("top-of-updates")
    writer = from_existing(savepoint)
    (rank,), (source,) = uids(old, "rank"), uids(old, "source", "table-source-scan")
    message = rf"can't go on with the state of rank\[137\] \(uid '{rank}'\): .*; name operators .* by drop"
    with pytest.raises(sp.StateMigrationError, match=message):
        writer.migrate_query(old, new)
    assert [r.uid for r in writer.check_query_migration(old, new).impossible] == [rank]
    with pytest.raises(sp.NotFoundError, match="no operator 'join' in the plan"):
        writer.migrate_query(old, new, drop=["join"])
    with pytest.raises(sp.OptionError, match=r"drop='join': expected a list of operators, found text; write drop=\['join'\]"):
        writer.migrate_query(old, new, drop="join")
    with pytest.raises(sp.NotFoundError, match=r"drop=.upsert-materialize.: the savepoint has no such operator"):
        writer.migrate_query(old, new, drop=["upsert-materialize"])
    summary = writer.migrate_query(old, new, drop=["rank"]).write(tmp_path / "without")
    assert [o.uid for o in summary.operators] == uids(new, "source", "table-source-scan")
    assert [(r.uid, r.outcome) for r in writer.query_migration_report()] == [
        (source, "unchanged"),
        (rank, "left out"),
        (*uids(new, "group-aggregate"), "new"),
        (*uids(new, "rank"), "new"),
    ]


def test_names_in_snapshots_of_rows_stay_and_new_columns_bring_theirs(
    from_existing: Open, spark: SparkSession, tmp_path: Path
) -> None:
    savepoint, old = query("last-row")
    new = json.loads(Path(old).read_text("utf-8"))
    calc, exchange, kept = (n for n in new["nodes"] if len(row_of(n)) == 4)
    calc["projection"].insert(0, {"kind": "CALL", "internalName": "$UPPER$1", "operands": [calc["projection"][1]]})
    fields = [{"name": "loud", "fieldType": "VARCHAR(2147483647)"}, *row_of(calc)]
    for node in (calc, exchange, kept):
        node["outputType"] = {"type": "ROW", "fields": fields}
    kept["uniqueKeys"] = [2]
    new["nodes"] = new["nodes"][: new["nodes"].index(kept) + 1]
    (uid,) = uids(old, "deduplicate")
    reader = sp.SavepointReader.read(spark, savepoint)
    three = written_rows(savepoint, uid)
    names = ["id", "customer", "amount", "ts"]
    four = RowDataSerializerSnapshot(ROW_SNAPSHOT, three.types, three.nested, 4, names).restore_serializer()
    rows = reader.read_keyed_state(uid, "deduplicate-state")
    named = ", ".join(f"'{name}', value.f{i}" for i, name in enumerate(names))
    renamed = rows.selectExpr("key", f"named_struct({named}) AS r")
    writer = sp.SavepointWriter.from_existing(spark, savepoint)
    writer.with_keyed_state(uid, renamed, states={"r": sp.ValueState(four)}, columns={"r": "deduplicate-state"})
    writer.write(tmp_path / "named")
    assert written_rows(tmp_path / "named", uid).to_bytes() == four.snapshot().to_bytes()
    writer = from_existing(tmp_path / "named")
    writer.migrate_query(old, new).write(tmp_path / "migrated")
    written = written_rows(tmp_path / "migrated", uid)
    assert (written.version, written.names) == (4, ("loud", *names))
    found = values(tmp_path / "migrated", uid, "deduplicate-state", new)
    assert {(row["value"]["loud"], row["value"]["id"]) for row in found} == {(None, 4), (None, 5), (None, 6)}


def row_of(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of the rows that leave a node, if its plan has them as JSON."""
    type_ = node["outputType"]
    return [] if isinstance(type_, str) else list(type_["fields"])


def written_rows(path: str | Path, uid: str) -> RowDataSerializerSnapshot:
    """Return the snapshot of the rows that a deduplication keeps."""
    drafts = SavepointBuild.from_existing(path).drafts
    (kept,) = (d.keyed("deduplicate-state").value for d in drafts if d.identifier.uid_hash == operator_id(uid))
    found = kept.snapshot()
    assert isinstance(found, RowDataSerializerSnapshot)
    return found


def test_what_does_not_go_together_is_refused(spark: SparkSession) -> None:
    savepoint, old = query("group-aggregate")
    _, new = query("retracting")
    with pytest.raises(sp.OptionError, match="does not start from another, whose state could be migrated"):
        sp.SavepointWriter.new(spark).migrate_query(old, new)
    (aggregate,) = uids(old, "group-aggregate")
    writer = sp.SavepointWriter.from_existing(spark, savepoint, plan=old)
    with pytest.raises(sp.OptionError, match=rf"the old plan has none of the operators of the savepoint \(.*{aggregate}"):
        writer.migrate_query(query("over")[1], new)
    writer.delete_keys(aggregate, spark.sql("SELECT named_struct('customer', 'ada') AS key"), "accState")
    with pytest.raises(sp.StateMigrationError, match=r"state 'accState' was changed before\. The migration would undo"):
        writer.migrate_query(old, new)
