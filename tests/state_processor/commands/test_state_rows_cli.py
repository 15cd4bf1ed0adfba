"""Rows chosen by expressions and by time-to-live, and how they are shown."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from state_processor import __version__, cli
from tests.state_processor.samples import ORDERS, ORDERS_PATH, expected_values

TOTALS = expected_values(ORDERS, "orders", "total")
TOTAL = (ORDERS_PATH, "--uid", "orders", "--state", "total")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert cli.main(arguments) == 0
    return capsys.readouterr().out


@pytest.mark.spark
def test_rows_for_which_an_expression_is_true(spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    large = {key: value for key, value in TOTALS.items() if value > 10_000}
    zone = spark.conf.get("spark.sql.session.timeZone")
    shown = run(capsys, "show", *TOTAL, "--where", "value > 10000", "--limit", "100", "--json").splitlines()
    assert {r["key"]: r["value"] for r in map(json.loads, shown)} == large
    assert run(capsys, "count", *TOTAL, "--where", "value > 10000") == f"{len(large)}\n"
    file = str(tmp_path / "rows.parquet")
    assert run(capsys, "export", ORDERS_PATH, "--uid", "orders", "--where", "size(items) > 1", "-o", file).endswith(" rows\n")
    many = {key for key, items in expected_values(ORDERS, "orders", "items").items() if len(items) > 1}
    assert {row["key"] for row in pyarrow.parquet.read_table(file).to_pylist()} == many
    nothing = run(capsys, "show", *TOTAL, "--where", "value < 0").splitlines()
    assert nothing[0].split() == ["key", "value"]
    assert len(nothing) == 2
    assert spark.conf.get("spark.sql.session.timeZone") == zone
    for wrong in ("valu > 1", "value >", "value"):
        assert cli.main(["count", *TOTAL, "--where", wrong]) == cli.BAD_INPUT
        assert f"--where {wrong!r} is not a condition on the columns key, value: [" in capsys.readouterr().err


def test_time_to_live(capsys: pytest.CaptureFixture[str]) -> None:
    session = (ORDERS_PATH, "--uid", "orders", "--state", "session", "--ttl", "PT1H", "--as-of")
    sessions = len(expected_values(ORDERS, "orders", "session"))
    assert [run(capsys, "count", *session, time) for time in ("2000-01-01", "2100-01-01")] == [f"{sessions}\n", "0\n"]
    assert run(capsys, "count", *session, "2100-01-01", "--expired", "only") == f"{sessions}\n"
    assert cli.main(["count", ORDERS_PATH, "--uid", "orders", "--ttl", "1x", "--as-of", "0"]) == cli.BAD_INPUT
    assert "a duration such as 1h, 90s, 7d or PT1H (ISO-8601)" in capsys.readouterr().err


def test_schema(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "show", ORDERS_PATH, "--uid", "orders", "--schema").splitlines()
    types = dict(line.split() for line in lines[2:])
    assert types.keys() == {"key", "total", "profile", "history", "items", "session"}
    assert types["profile"].startswith("struct<active:boolean,address:struct<city:string")
    assert json.loads(run(capsys, "show", *TOTAL, "--schema", "--json").splitlines()[1]) == {"column": "value", "type": "bigint"}


def test_a_line_for_each_value(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = run(capsys, "show", *TOTAL, "--key", "amelia", "--vertical").splitlines()
    assert [line.split() for line in lines[1:]] == [["key", "amelia"], ["value", str(TOTALS["amelia"])]]
    found = run(capsys, "get", ORDERS_PATH, "--uid", "orders", "amelia", "--vertical")
    assert "email: amelia@example.com" in found
    assert "…" not in found
    monkeypatch.setenv("COLUMNS", "60")
    hashes = [line.split()[1] for line in run(capsys, "inspect", ORDERS_PATH).splitlines() if line.startswith("uid_hash")]
    assert len(hashes) == 5
    assert {len(uid_hash) for uid_hash in hashes} == {32}


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"state-processor {__version__}\n"


def test_completion(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    shtab = ModuleType("shtab")
    shtab.complete = lambda parser, shell: f"{shell} {sorted(parser._subparsers._group_actions[0].choices)}"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shtab", shtab)
    out = run(capsys, "completion", "zsh")
    assert out.startswith("zsh [")
    assert "'set-max-parallelism'" in out
    absent: dict[str, Any] = {"shtab": None}
    monkeypatch.setitem(sys.modules, "shtab", absent["shtab"])
    assert cli.main(["completion", "bash"]) == cli.BAD_INPUT
    assert "pip install 'state-processor[completion]'" in capsys.readouterr().err


def test_columns(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown = run(capsys, "show", ORDERS_PATH, "--uid", "orders", "--columns", "key, profile.tier", "--json")
    rows = [json.loads(line) for line in shown.splitlines()]
    assert {tuple(row) for row in rows} == {("key", "profile")}
    assert {tuple(row["profile"]) for row in rows if row["profile"]} == {("tier",)}
    file = str(tmp_path / "rows.parquet")
    run(capsys, "export", ORDERS_PATH, "--uid", "orders", "--columns", "profile.tier", "-o", file)
    assert pyarrow.parquet.read_table(file).schema.names == ["profile"]
    assert cli.main(["show", *TOTAL, "--columns", "key,valeu"]) == cli.BAD_INPUT
    assert "columns: 'valeu': there is no column 'valeu'; did you mean 'value'?" in capsys.readouterr().err
