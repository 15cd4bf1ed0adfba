"""Queries of the command line, and their prompt."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from state_processor.cli import BAD_INPUT, main
from tests.state_processor.samples import ORDERS, ORDERS_PATH, TYPES_PATH, expected_values

TOTALS = expected_values(ORDERS, "orders", "total")
QUERY = "SELECT key, total FROM orders"


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT profile.tier, count(*) AS number FROM orders WHERE key = 'amelia' GROUP BY 1"
    assert main(["sql", ORDERS_PATH, query]) == 0
    header, line, row = capsys.readouterr().out.splitlines()
    assert (header.split(), set(line), row.split()) == (["tier", "number"], {"─", " "}, ["BRONZE", "1"])


def test_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", ORDERS_PATH, QUERY, "--limit", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (len(lines), lines[-1]) == (6, "… only the first 3 rows; --limit shows more")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", ORDERS_PATH, QUERY, "--json"]) == 0
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    assert {row["key"]: row["total"] for row in rows} == TOTALS


def test_csv(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["sql", ORDERS_PATH, QUERY, "--csv"]) == 0
    rows = csv.DictReader(io.StringIO(capfdbinary.readouterr().out.decode()))
    assert {row["key"]: int(row["total"]) for row in rows} == TOTALS


def test_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "totals.parquet")
    assert main(["sql", ORDERS_PATH, QUERY, "--parquet", file]) == 0
    assert capsys.readouterr().out == "50 rows\n"
    rows = pyarrow.parquet.read_table(file).to_pylist()
    assert {row["key"]: row["total"] for row in rows} == TOTALS
    assert main(["sql", ORDERS_PATH, QUERY, "--parquet", file]) == BAD_INPUT
    assert main(["sql", ORDERS_PATH, "--parquet", str(tmp_path / "other.parquet")]) == BAD_INPUT


@pytest.mark.parametrize("query", ["SELECT totl FROM orders", "SELEC 1", "SELECT * FROM ordrs"])
def test_mistakes_have_one_line(query: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", ORDERS_PATH, query]) == BAD_INPUT
    captured = capsys.readouterr()
    assert (captured.out, len(captured.err.splitlines())) == ("", 1)


def test_nanoseconds(capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT value FROM types.instant"
    assert main(["sql", TYPES_PATH, query]) == BAD_INPUT
    assert "--nanos" in capsys.readouterr().err
    assert main(["sql", TYPES_PATH, query, "--nanos", "truncate"]) == 0


def test_prompt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [".tables", ".schema orders.total", ".schema orders.totl", ".oops", "", "SELECT count(*) AS n", "FROM orders;"]
    lines += ["SELEC 1;", ".help", ".exit", "SELECT 'behind the end';"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
    assert main(["sql", ORDERS_PATH, "--json"]) == 0
    captured = capsys.readouterr()
    printed = captured.out.splitlines()
    assert {"operators", "orders", "orders.total", "catalog.pending"} <= set(printed)
    assert "orders.total: key string, value bigint" in printed
    assert '{"n": 50}' in printed
    assert "behind the end" not in captured.out
    assert [word in captured.err for word in ("'orders.total'", ".oops", "SELEC")] == [True] * 3


def test_statements_of_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    statements = "CREATE VIEW gold AS SELECT key FROM orders WHERE profile.tier = 'GOLD';\nSELECT count(*) > 3 AS some FROM gold"
    monkeypatch.setattr(sys, "stdin", io.StringIO(statements))
    assert main(["sql", ORDERS_PATH, "--json"]) == 0
    assert capsys.readouterr().out == '{"some": true}\n'
