"""Look-ups and differences show all digits of values with nanoseconds, unless an option says otherwise."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import state_processor as sp
from state_processor.cli import main
from state_processor.write.savepoint_writer import SavepointWriter

T = sp.Types
WHOLE, FINE, FINER = "2024-01-01T00:00:00", "2024-01-01T00:00:00.000000001", "2024-01-01T00:00:00.000000002"
VALUES = {"instant": T.INSTANT(), "local": T.LOCAL_DATE_TIME(), "sql": T.SQL_TIMESTAMP(), "day": T.LOCAL_DATE()}
TYPES: dict[str, Any] = {
    **{name: sp.ValueState(type_) for name, type_ in VALUES.items()},
    "nine": sp.ValueState(T.ROW_DATA("t TIMESTAMP(9)")),
    "pair": sp.ValueState(T.TUPLE([T.STRING(), T.INSTANT()])),
    "list": sp.ListState(T.INSTANT()),
    "map": sp.MapState(T.STRING(), T.INSTANT()),
    "keys": sp.MapState(T.INSTANT(), T.STRING()),
}
EXACT = sorted(TYPES.keys() - {"day"})


def text(name: str, moment: str) -> str:
    return f"{moment}{'' if name in ('local', 'nine') else 'Z'}"


def written(path: Path, moment: str) -> str:
    one = text("instant", moment)
    strings = pa.map_(pa.string(), pa.string())
    columns = {name: pa.array([text(name, moment)]) for name in VALUES} | {
        "key": pa.array([1]),
        "day": pa.array(["2024-01-01"]),
        "nine": pa.array([{"t": text("nine", moment)}]),
        "pair": pa.array([{"f0": "a", "f1": one}]),
        "list": pa.array([[one]]),
        "map": pa.array([[("a", one)]], strings),
        "keys": pa.array([[(one, "a")]], strings),
    }
    writer = SavepointWriter.new().with_keyed_state("times", pa.table(columns), key="key", key_type=T.LONG(), states=TYPES)
    writer.with_union_state("lists", "all", [{"value": one}], T.INSTANT())
    writer.with_broadcast_state("lists", "rules", [{"key": 1, "value": one}], T.LONG(), T.INSTANT())
    writer.write(path)
    return str(path)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    directory = tmp_path_factory.mktemp("exact")
    return written(directory / "fine", FINE), written(directory / "finer", FINER)


@pytest.mark.parametrize("state", EXACT)
def test_look_ups_have_all_digits(paths: tuple[str, str], state: str) -> None:
    for found in (sp.arrow.lookup(paths[0], "times", 1, state), sp.arrow.lookup(paths[0], "times", 1)):
        assert text(state, FINE) in str(found.states[state].to_pylist())


def test_look_ups_keep_times_that_microseconds_hold(paths: tuple[str, str], tmp_path: Path) -> None:
    path = written(tmp_path / "whole", WHOLE)
    assert sp.arrow.lookup(path, "times", 1, "instant").states["instant"]["value"].to_pylist() == [
        datetime(2024, 1, 1, tzinfo=UTC)
    ]
    beside = sp.arrow.lookup(paths[0], "times", 1).states
    assert beside["day"].schema.field("value").type == "date32[day]"  # only states with nanoseconds become text
    with pytest.raises(sp.UndecodableValueError, match="nanoseconds that microseconds can't hold"):
        sp.arrow.lookup(paths[0], "times", 1, "instant", nanos="error")
    cut = sp.arrow.lookup(paths[0], "times", 1, "instant", nanos="truncate").states["instant"]["value"].to_pylist()
    assert cut == [datetime(2024, 1, 1, tzinfo=UTC)]


@pytest.mark.parametrize(("uid", "state"), [*(("times", name) for name in EXACT), ("lists", "all"), ("lists", "rules")])
def test_differences_of_nanoseconds(paths: tuple[str, str], uid: str, state: str, spark: SparkSession) -> None:
    found = sp.arrow.diff(*paths, uid, state).read_all().to_pylist()
    both = f"{[(r['change'], r.get('map_key'), r['before'], r['after']) for r in found]}"
    assert text(state, FINE) in both
    assert text(state, FINER) in both
    by_spark = [r.asDict(recursive=True) for r in sp.diff(spark, *paths, uid, state).collect()]
    assert sorted(by_spark, key=repr) == sorted(found, key=repr)


def test_differences_of_all_states(paths: tuple[str, str], spark: SparkSession) -> None:
    summary = sp.arrow.diff_summary(*paths).to_pylist()
    changed = {r["state_name"] for r in summary if r["updates"] or r["inserts"]}
    assert changed == {*EXACT, "all", "rules"}
    rows = sp.diff(spark, *paths).collect()
    assert {r.state_name for r in rows} == changed
    assert sorted((r.asDict() for r in rows), key=repr) == sorted(sp.arrow.diff(*paths).read_all().to_pylist(), key=repr)
    assert all("000001" in (r.before or r.after or "") or "000002" in (r.after or "") or r.state_name == "keys" for r in rows)


def test_the_types_of_differences(paths: tuple[str, str]) -> None:
    assert sp.arrow.diff(*paths, "times", "day").schema.field("after").type == "date32[day]"
    cut = sp.arrow.diff(*paths, "times", "instant", nanos="truncate").read_all().to_pylist()
    assert [(r["change"], r["before"] == r["after"]) for r in cut] == [("update", True)]


def test_commands(paths: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", paths[0], "--uid", "times", "--json", "1"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {r["state_name"] for r in rows if FINE in json.dumps(r)} == set(EXACT)
    assert main(["diff", *paths, "--uid", "times", "--state", "sql", "--json"]) == 0
    (row,) = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (row["before"], row["after"]) == (text("sql", FINE), text("sql", FINER))
