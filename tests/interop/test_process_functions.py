"""Process table functions in compiled plans: their keys are the columns that partition the table."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import state_processor as sp
from tests.interop import flink, sql_queries
from tests.interop.flink_jars import libraries
from tests.interop.sql_queries import Query

pytestmark = pytest.mark.interop

VERSION: Final = "2.3.0"
PACKAGE: Final = "io.stateprocessor.generated"
_SOURCE: Final = """package io.stateprocessor.generated;

import org.apache.flink.table.annotation.*;
import org.apache.flink.table.functions.ProcessTableFunction;
import org.apache.flink.types.Row;

public class {name} extends ProcessTableFunction<String> {{
    public static class Tally {{
        public long rows;
    }}

    public void eval(Context context, @StateHint(name = "tally") Tally tally, {tables}) {{
        tally.rows++;
        collect(String.valueOf(tally.rows));
    }}
}}
"""
_TABLE: Final = '@ArgumentHint(value = ArgumentTrait.SET_SEMANTIC_TABLE, name = "{0}") Row {0}'
FUNCTIONS: Final = {"Counting": ("orders",), "Pairing": ("orders", "customers")}
CREATED: Final = ("CREATE TEMPORARY VIEW named AS SELECT UPPER(customer) AS who, id FROM orders",)
_SINK: Final = "n STRING"
FUNCTION_QUERIES: Final = {
    "whole table": (
        Query("SELECT * FROM counting(orders => TABLE orders PARTITION BY customer)", f"a STRING, {_SINK}"),
        ("counting", {"customer": "ada"}, 3),
    ),
    "two columns": (
        Query(
            "SELECT * FROM counting(orders => TABLE orders PARTITION BY (item, customer), uid => 'mine')",
            f"a STRING, b STRING, {_SINK}",
        ),
        ("mine", {"item": "pen", "customer": "ada"}, 2),
    ),
    "computed": (
        Query("SELECT * FROM counting(orders => TABLE named PARTITION BY who)", f"a STRING, {_SINK}"),
        ("counting", {"who": "ADA"}, 3),
    ),
    "two tables": (
        Query(
            "SELECT * FROM pairing(orders => TABLE orders PARTITION BY customer, customers => TABLE customers PARTITION BY id)",
            f"a STRING, b STRING, {_SINK}",
        ),
        ("pairing", {"customer": "ada"}, 5),
    ),
}
"""The queries; for each the uid of the function, a key, and the number of rows with this key."""


def _jar() -> Path:
    sources = {
        name: _SOURCE.format(name=name, tables=", ".join(map(_TABLE.format, tables))) for name, tables in FUNCTIONS.items()
    }
    return flink.generated_classes(VERSION, PACKAGE, sources, libraries(VERSION))


def test_keys_of_process_table_functions_have_the_names_of_their_columns(tmp_path: Path) -> None:
    sql_queries.write_lines(tmp_path / "files", "1", sql_queries.FIRST)
    jar = _jar()
    created = [
        *CREATED,
        *(f"CREATE TEMPORARY FUNCTION {name.lower()} AS '{PACKAGE}.{name}' USING JAR 'file://{jar}'" for name in FUNCTIONS),
    ]
    plans = {name: tmp_path / f"{number}.json" for number, name in enumerate(FUNCTION_QUERIES)}
    requests = [
        sql_queries.request(query, tmp_path / "files", plans[name], to=str(tmp_path / name))
        for name, (query, _) in FUNCTION_QUERIES.items()
    ]
    requests = [{**request, "tables": [*request["tables"], *created]} for request in requests]
    answers = sql_queries.answered(VERSION, requests, sql_queries.AT_ONCE)
    for (name, (_, expected)), answer in zip(FUNCTION_QUERIES.items(), answers, strict=True):
        uid, key, count = expected
        found = [row for row in sp.arrow.states(answer["savepoint"], plan=plans[name]).to_pylist() if row["operator_uid"] == uid]
        assert len(found) > 1, name  # timers have keys, too
        columns = ",".join(f"{column}:string" for column in key)
        assert all(row["spark_schema"].startswith(f"key struct<{columns}>") for row in found), name
        rows = sp.arrow.read_state(answer["savepoint"], uid, "tally", plan=plans[name]).read_all().to_pylist()
        assert {"key": key, "value": {"f0": count}} in rows, name
