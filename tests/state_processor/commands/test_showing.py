"""Commands that show a snapshot, and rows chosen by expressions and by time-to-live."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import state_processor as sp
from state_processor import __version__, cli
from state_processor.read.scans import StateScan
from tests.state_processor.samples import ORDERS, ORDERS_OF_1, ORDERS_PATH, expected_values

ORDERS_OF_1_PATH = str(ORDERS_OF_1 / "savepoint")
HINT = "To see uids here, pass the uids of the job by --uids."


@pytest.mark.parametrize("command", ["inspect", "states"])
def test_a_snapshot_without_uids_mentions_the_option_that_names_operators(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main([command, ORDERS_OF_1_PATH])
    assert HINT in capsys.readouterr().out
    cli.main([command, ORDERS_OF_1_PATH, "--json"])
    assert HINT not in capsys.readouterr().out
    cli.main([command, ORDERS_PATH])
    assert HINT not in capsys.readouterr().out


@pytest.mark.parametrize("command", [["show", "--uid", "orders", "--state", "total"], ["sizes", "--uid", "orders"]])
def test_a_uid_that_only_its_hash_records_finds_its_operator(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    name, *arguments = command
    cli.main([name, ORDERS_OF_1_PATH, *arguments])
    assert capsys.readouterr().out


TOTALS = expected_values(ORDERS, "orders", "total")
TOTAL = (ORDERS_PATH, "--uid", "orders", "--state", "total")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert cli.main(arguments) == 0
    return capsys.readouterr().out


def test_rows_for_which_a_condition_is_true(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    large = {key: value for key, value in TOTALS.items() if value > 10_000}
    shown = run(capsys, "show", *TOTAL, "--where", "value > 10000", "--limit", "100", "--json").splitlines()
    assert {r["key"]: r["value"] for r in map(json.loads, shown)} == large
    assert run(capsys, "count", *TOTAL, "--where", "value > 10000") == f"{len(large)}\n"
    file = str(tmp_path / "rows.parquet")
    whole = (ORDERS_PATH, "--uid", "orders")
    assert run(capsys, "export", *whole, "--where", "cardinality(items) > 1", "-o", file).endswith(" rows\n")
    many = {key for key, items in expected_values(ORDERS, "orders", "items").items() if len(items) > 1}
    table = pyarrow.parquet.read_table(file)
    assert {row["key"] for row in table.to_pylist()} == many
    run(capsys, "export", *whole, "-o", str(tmp_path / "all.parquet"))
    assert table.schema.equals(pyarrow.parquet.read_table(tmp_path / "all.parquet").schema)
    nothing = run(capsys, "show", *TOTAL, "--where", "value < 0").splitlines()
    assert nothing[0].split() == ["key", "value"]
    assert len(nothing) == 2
    for wrong, reason in (
        ("valu > 1", '"valu" not found'),
        ("value >", "syntax error"),
        ("value", "its values are of type int64"),
        ("true); SELECT (1", "expected one statement of SQL, found 2"),
    ):
        assert cli.main(["count", *TOTAL, "--where", wrong]) == cli.BAD_INPUT
        message = capsys.readouterr().err
        assert "is not a condition on the columns key, value: " in message
        assert reason in message


def test_a_condition_on_keys_reads_their_key_groups_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sought: list[Any] = []
    narrowing = StateScan.narrowing_keys
    monkeypatch.setattr(StateScan, "narrowing_keys", lambda scan, keys: sought.append(narrowing(scan, keys)) or sought[-1])
    assert run(capsys, "count", *TOTAL, "--where", "key IN ('amelia', 'nobody')") == "1\n"
    assert sought == [frozenset({"amelia", "nobody"})]


@pytest.mark.parametrize("condition", [(), ("--where", "true")], ids=["all", "where"])
def test_display_is_text_and_data_is_typed(
    condition: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    writer = sp.arrow.SavepointWriter.new()
    times = [{"key": "a", "value": datetime(2024, 1, 1, tzinfo=UTC)}, {"key": "b", "value": datetime(2024, 1, 2, tzinfo=UTC)}]
    writer.with_keyed_state("jobs", times, "key", sp.Types.STRING(), {"value": sp.ValueState(sp.Types.INSTANT())})
    writer.write(tmp_path / "s")
    state = (str(tmp_path / "s"), "--uid", "jobs", "--state", "value")
    shown = run(capsys, "show", *state, *condition, "--json").splitlines()
    assert sorted(json.loads(line)["value"] for line in shown) == ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"]
    assert json.loads(run(capsys, "show", *state, "--schema", "--json").splitlines()[1])["type"] == "timestamp"
    run(capsys, "export", *state, *condition, "-o", str(tmp_path / "rows.parquet"))
    exported = pyarrow.parquet.read_table(tmp_path / "rows.parquet")
    assert exported.schema.equals(sp.arrow.read_state(tmp_path / "s", "jobs", "value").schema)
    assert sorted(exported.to_pylist(), key=lambda row: row["key"]) == times
    run(capsys, "sql", state[0], "FROM jobs.value", "--parquet", str(tmp_path / "sql.parquet"))
    assert pyarrow.parquet.read_table(tmp_path / "sql.parquet").schema.types[1] == pa.timestamp("us", "Etc/UTC")


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
