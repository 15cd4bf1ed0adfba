"""Commands that count and export rows."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

import state_processor as sp
from state_processor.cli import BAD_INPUT, main
from tests.state_processor.samples import ORDERS, ORDERS_PATH, expected_values

TOTALS = expected_values(ORDERS, "orders", "total")


def test_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count", ORDERS_PATH, "--uid", "orders", "--state", "total"]) == 0
    assert main(["count", ORDERS_PATH, "--uid", "bc4197a480c92c793190a9f8c0afc54c", "--state", "items"]) == 0
    items = sum(len(v) for v in expected_values(ORDERS, "orders", "items").values())
    assert capsys.readouterr().out.split() == [str(len(TOTALS)), str(items)]


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_export(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows"
    assert main(["export", ORDERS_PATH, "--uid", "orders", "--state", "total", "-o", str(path), "--format", form]) == 0
    assert capsys.readouterr().out == f"{len(TOTALS)} rows\n"
    if form == "json":
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    else:
        rows = (pyarrow.parquet.read_table(path) if form == "parquet" else pyarrow.csv.read_csv(path)).to_pylist()
    assert {row["key"]: row["value"] for row in rows} == TOTALS


def test_export_of_all_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows"
    assert main(["export", ORDERS_PATH, "--uid", "orders", "-o", str(path)]) == 0
    expected = [row for batch in sp.arrow.read_state(ORDERS_PATH, "orders", nanos="string") for row in batch.to_pylist()]
    assert sorted(pyarrow.parquet.read_table(path).to_pylist(), key=str) == sorted(expected, key=str)
    assert main(["export", ORDERS_PATH, "--uid", "orders", "-o", str(path)]) == BAD_INPUT
    assert "exists" in capsys.readouterr().err
    assert main(["export", ORDERS_PATH, "--uid", "orders", "-o", str(tmp_path / "csv"), "--format", "csv"]) == BAD_INPUT
    assert "use parquet or json" in capsys.readouterr().err
    assert not (tmp_path / "csv").exists()
