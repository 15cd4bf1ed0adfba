"""Commands that write rows of files into states."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.cli import BAD_INPUT, main
from tests.archives import unpacked
from tests.state_processor.samples import ORDERS_PATH, TYPES_PATH

ORDERS = [ORDERS_PATH, "--uid", "orders"]


def differing(path: Any, other: str) -> list[str]:
    rows = sp.arrow.diff_summary(other, path).to_pylist()
    return sorted(r["state_name"] for r in rows if r["inserts"] or r["deletes"] or r["updates"])


def values(path: Any, state: str) -> dict[Any, Any]:
    rows = sp.arrow.read_state(path, "orders", state, flatten=False).read_all().to_pylist()
    return {row["key"]: row["value"] for row in rows}


@pytest.mark.parametrize(
    ("suffix", "step"), [("csv", 1), ("csv.gz", -1), ("json", 1), ("ndjson", -1), ("parquet", 1), ("feather", -1)]
)
def test_exported_rows_change_nothing(suffix: str, step: int, tmp_path: Path) -> None:
    """Every state and format: rows of export are the rows that update takes.

    States are updated one after the other, in both orders: an update that changes another state is seen.
    """
    source = ORDERS_PATH
    for state in ("total", "profile", "history", "items")[::step]:
        file, target = str(tmp_path / f"{state}.{suffix}"), str(tmp_path / state)
        assert main(["export", *ORDERS, "--state", state, "-o", file]) == 0
        assert main(["update", source, target, "--uid", "orders", "--state", state, "--rows", file]) == 0
        source = target
    assert differing(source, ORDERS_PATH) == []


@pytest.mark.parametrize(("suffix", "step"), [("csv", 1), ("json", -1)])
def test_text_of_every_type_is_read_back(suffix: str, step: int, tmp_path: Path) -> None:
    """States are updated one after the other, in both orders, too."""
    states = [
        s
        for s in sp.open(TYPES_PATH).states().to_pylist()
        if s["state_kind"] == "VALUE" and s["namespace_type"] == "VOID_NAMESPACE"
    ]
    assert len(states) > 20
    source = TYPES_PATH
    for number, state in enumerate(states[::step]):
        name, file, target = state["state_name"], str(tmp_path / f"{number}.{suffix}"), str(tmp_path / str(number))
        common = ["--uid", state["operator_uid"], "--state", name]
        assert main(["export", TYPES_PATH, *common, "-o", file]) == 0
        assert main(["update", source, target, *common, "--rows", file]) == 0, name
        source = target
    kinds_of_rows = {state["state_name"] for state in states if "ROW" in state["value_type"]}  # rows of an export are inserts
    assert set(differing(source, TYPES_PATH)) <= kinds_of_rows


def test_rows_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "new")
    command = ["update", ORDERS_PATH, target, "--uid", "orders", "--state", "total", "--rows", "-"]
    assert main(command) == BAD_INPUT
    assert "standard input needs a format; choose the format with --rows-format" in capsys.readouterr().err
    (tmp_path / "rows.txt").write_text("key,value\n")
    assert main([*command[:-1], str(tmp_path / "rows.txt")]) == BAD_INPUT
    message = capsys.readouterr().err
    assert message.startswith("state-processor: --rows ")
    assert message.endswith("or --rows-format\n")
    for more, expected in (([], {"amelia": 5, "someone": 7}), (["--delete", "--overwrite"], {})):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"key,value\namelia,5\nsomeone,7\n")))
        assert main([*command, "--rows-format", "csv", *more]) == 0
        found = values(target, "total")
        assert {key: found[key] for key in ("amelia", "someone") if key in found} == expected
    assert "deleted" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"key": "amelia", "value": 6}\n')))
    assert main([*command, "--rows-format", "jsonl", "--overwrite"]) == 0
    assert values(target, "total")["amelia"] == 6


def test_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, target = tmp_path / "rows.ndjson", tmp_path / "new"
    rows.write_text('{"key": "amelia", "value": 5}\n{"key": "someone", "value": 7}\n', "utf-8")
    command = ["update", ORDERS_PATH, str(target), "--uid", "orders", "--state", "total", "--rows", str(rows), "--dry-run"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert printed.split("\n\n")[1].splitlines()[2].split() == ["orders", "total", "updated", "2", "1", "1", "0", "0"]
    assert f"{target} was not written (--dry-run)" in printed
    assert not target.exists()


def test_a_new_savepoint(tmp_path: Path) -> None:
    """Types of an exported file, of a snapshot, and declared ones."""
    states = sp.arrow.states(ORDERS_PATH).to_pylist()
    stored = {
        s["state_name"]: (s["state_kind"], s["value_type"], s["map_key_type"]) for s in states if s["operator_uid"] == "orders"
    }
    for suffix, more in (
        ("parquet", []),
        ("csv", ["--types-from", ORDERS_PATH]),
        ("json", ["--value", "total=LONG", "--list", "history=STRING", "--map", "items=MAP<STRING,LONG>"]),
    ):
        file, target = str(tmp_path / f"rows.{suffix}"), str(tmp_path / suffix)
        columns = ["--columns", "key,total,history,items"] if suffix == "json" else []
        assert main(["export", *ORDERS, *columns, "-o", file]) == 0
        assert main(["new", target, "--uid", "orders", "--rows", file, "--flink-version", "2.3", *more]) == 0
        for state in sp.arrow.states(target).to_pylist():
            name = state["state_name"]
            assert (state["state_kind"], state["value_type"], state["map_key_type"]) == stored[name], (suffix, name)
            assert values(target, name) == values(ORDERS_PATH, name)


@pytest.mark.parametrize(("state", "type_"), [("value-long", "LONG"), ("map-string-long", "MAP<STRING,LONG>")])
def test_states_of_pyflink_are_changed(state: str, type_: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = str(unpacked() / "2.3.0" / "pyflink-hashmap-canonical" / "savepoint")
    of_state = ["--uid", "py-keyed", "--state", state]
    assert main(["states", source, "--uid", "py-keyed"]) == 0
    assert "bytes unless --python-type declares the type" in capsys.readouterr().out
    rows, target = tmp_path / "rows.csv", str(tmp_path / "target")
    assert main(["export", source, *of_state, "--python-type", type_, "-o", str(rows)]) == 0
    header, first, *rest = rows.read_text("utf-8").splitlines()
    rows.write_text("\n".join([header, f"{first.rpartition(',')[0]},4711", *rest]), "utf-8")
    command = ["update", source, target, *of_state, "--rows", str(rows)]
    if state == "value-long":
        assert main(command) == BAD_INPUT
        assert "The state is of PyFlink: declare its type by --python-type" in capsys.readouterr().err
    assert main([*command, "--python-type", type_]) == 0
    (change,) = [r for r in sp.arrow.diff_summary(source, target).to_pylist() if r["updates"]]
    assert (change["state_name"], change["updates"]) == (state, 1)
    column = "value" if state == "value-long" else "map_value"
    assert 4711 in sp.arrow.read_state(target, "py-keyed", state, python_type=type_).read_all()[column].to_pylist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--value", "totl=LONG"), "no column 'totl'; the rows have key, total. Did you mean 'total'?"),
        (("--types-from", ORDERS_PATH, "--key", "total"), "no state 'key' in operator 'orders'"),
    ],
)
def test_columns_of_new_states_exist(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.csv").write_text("key,total\namelia,5\n", "utf-8")
    target = str(tmp_path / "new")
    assert main(["new", target, "--uid", "orders", "--rows", str(tmp_path / "rows.csv"), *arguments]) == BAD_INPUT
    assert message in capsys.readouterr().err
    assert not Path(target).exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.csv", "key,value\namelia,five\n", "column 'value' of type int64: Failed to parse string: 'five'"),
        ("rows.json", "1", "expected a list of objects"),
        ("rows.json", '{"key": 1}\n{"key": 2}', "expected a list of objects; an object on each line is the format ndjson"),
        ("rows.json", "[", "expected rows in the format json"),
        ("rows.parquet", "no", "expected rows in the format parquet"),
        ("rows.txt", "", "the suffix .txt is unknown"),
        ("rows.csv", "key,vaule\namelia,5\n", "there is no column 'value'"),
    ],
)
def test_mistakes(name: str, content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_text(content, "utf-8")
    command = ["update", ORDERS_PATH, str(tmp_path / "new"), "--uid", "orders", "--state", "total"]
    assert main([*command, "--rows", str(tmp_path / name)]) == BAD_INPUT
    assert message in capsys.readouterr().err
    assert main([*command, "--rows", str(tmp_path / "none.csv")]) == BAD_INPUT
