"""Looking up a key gives what reading the states gives for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.cli import main
from state_processor.errors import NotFoundError, OptionError
from tests.state_processor.samples import ORDERS, ORDERS_PATH, TYPES_PATH

UIDS = {"orders": ["orders"], "types": ["kinds", "types"], "windows": ["tumbling-reduce", "session-process"]}
FIXTURES = [
    (metadata.parent, uid)
    for metadata in sorted(ORDERS.parent.glob("**/_metadata"))
    for uid in UIDS[metadata.relative_to(ORDERS.parent).parts[0].partition("-")[0]]
]


def rows(table: pa.Table | None) -> list[str]:
    """Rows as text, so that NaN equals NaN."""
    return sorted(map(repr, table.to_pylist())) if table is not None else []


def read(path: str, uid: str, key: Any, *state: str, **options: Any) -> list[str]:
    batches = sp.arrow.read_state(path, uid, *state, **options)
    return sorted(repr(row) for batch in batches for row in batch.to_pylist() if row["key"] == key)


@pytest.mark.parametrize(("directory", "uid"), FIXTURES, ids=lambda value: value if isinstance(value, str) else value.parts[-2])
def test_all_states_and_timers_of_a_key(directory: Path, uid: str) -> None:
    path = str(directory)
    states = [s for s in sp.arrow.states(path).to_pylist() if s["operator_uid"] == uid]
    keyed = {s["state_name"] for s in states if s["key_type"] is not None and not s["state_kind"].endswith("_TIMER")}
    timed = any(s["state_kind"].endswith("_TIMER") for s in states)
    first = sorted(keyed)[0]
    keys = [row["key"] for batch in sp.arrow.read_state(path, uid, first, nanos="string") for row in batch.to_pylist()]
    for key in (keys[0], keys[-1]):
        found = sp.arrow.lookup(path, uid, key, nanos="string")
        assert found
        assert {n: rows(t) for n, t in found.states.items() if t.num_rows} == {
            n: expected for n in keyed if (expected := read(path, uid, key, n, flatten=False, nanos="string"))
        }
        assert rows(found.timers) == (read(path, uid, key, kind="TIMER", nanos="string") if timed else [])
        one = sp.arrow.lookup(path, uid, key, first, nanos="string")
        assert rows(one.states[first]) == rows(found.states[first])
        assert (set(one.states), one.timers) == ({first}, None)


def test_an_absent_key_has_nothing() -> None:
    found = sp.arrow.lookup(ORDERS_PATH, "orders", "nobody")
    assert not found
    assert "total" in found.states
    assert str(found) == "operator orders, key 'nobody': nothing"


def test_expired_values_beside_timers() -> None:
    options = {"ttl": "PT1H", "as_of": "2100-01-01T00:00:00Z"}
    found = sp.arrow.lookup(ORDERS_PATH, "orders", "amelia", expired="only", **options)
    assert [name for name, table in found.states.items() if table.num_rows] == ["session"]
    assert found.timers is not None
    assert sp.arrow.lookup(ORDERS_PATH, "orders", "amelia", **options).states["session"].num_rows == 0


def test_text() -> None:
    lines = str(sp.arrow.lookup(ORDERS_PATH, "orders", "amelia")).splitlines()
    assert lines[0] == "operator orders, key 'amelia'"
    assert [line.split()[:2] for line in lines[2:3] + lines[4:5]] == [["state", "value"], ["total", "3950"]]
    timers = str(sp.arrow.lookup(ORDERS_PATH, "orders", "sofia")).splitlines()[-1]
    assert timers.startswith("timers   {timestamp: 1704088800000, fires_at: ")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("order", "amelia"), NotFoundError, "Did you mean 'orders'"),
        (("orders", 7), OptionError, "has keys of type STRING, found 7"),
        (("orders", "amelia", "totl"), NotFoundError, "Did you mean 'total'"),
        (("catalog", "amelia"), NotFoundError, "operator 'catalog' has no keyed state"),
    ],
)
def test_mistakes(arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sp.arrow.lookup(ORDERS_PATH, *arguments)


def test_no_notes_about_other_operators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    writer = sp.arrow.SavepointWriter.new()
    rows = [{"key": "1", "value": b"\x01"}]
    kryo = sp.ValueState(sp.Types.KRYO("com.acme.NeverDescribed"))
    long = sp.ValueState(sp.Types.LONG())
    writer.with_keyed_state("plain", [{"key": "1", "value": 2}], key_type=sp.Types.STRING(), states={"value": long})
    writer.with_keyed_state("kryo", rows, key_type=sp.Types.STRING(), states={"value": kryo})
    writer.write(tmp_path / "s")
    path = str(tmp_path / "s")
    caplog.clear()
    for command in (["get", path, "--uid", "plain", "1"], ["show", path, "--uid", "plain", "--state", "value", "--key", "1"]):
        assert main(command) == 0
    repr(sp.open(path))
    sp.arrow.diff_summary(path, path)
    assert "NeverDescribed" not in caplog.text + capsys.readouterr().err
    assert main(["get", path, "--uid", "kryo", "1"]) == 0
    assert "NeverDescribed" in caplog.text


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", ORDERS_PATH, "--uid", "orders", "amelia"]) == 0
    assert capsys.readouterr().out.startswith("operator orders, key 'amelia'\n")
    assert main(["get", TYPES_PATH, "--uid", "types", "--state", "long", "0", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    (row,) = read(TYPES_PATH, "types", 0, "long")
    assert repr(json.loads(line)) == row.replace("{", "{'state_name': 'long', ")
