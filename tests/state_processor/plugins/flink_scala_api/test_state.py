"""State of case classes and sealed traits: read, pruned, changed and written, with keys that are case classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.errors import InvalidRowError
from state_processor.serializers import TypeSerializer, read_serializer_snapshot, register_case_class
from tests.state_processor.plugins.flink_scala_api.test_specimens import COLUMNS, SPECIMENS

EVENT, CLICK = "com.acme.Purchase", "click"


def restored(name: str) -> TypeSerializer:
    return read_serializer_snapshot(bytes.fromhex(SPECIMENS[name]["snapshot"])).restore_serializer()


def rows_of(savepoint: Path, **options: Any) -> list[dict[str, Any]]:
    rows = sp.arrow.read_state(str(savepoint), "events", "last", **options).read_all().to_pylist()
    return sorted(rows, key=lambda row: str(row["key"]))


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    """Keys are case classes, values a sealed trait."""
    values = [value for value in COLUMNS["event"] if value is not None]
    rows = [{"key": {"_1": f"k{number}", "_2": number}, "last": value} for number, value in enumerate(values)]
    writer = sp.arrow.SavepointWriter.new(flink_version="1.20")
    states = {"last": sp.ValueState(restored("event"))}
    writer.with_keyed_state("events", rows, key="key", key_type=restored(CLICK), states=states).write(tmp_path / "first")
    return tmp_path / "first"


def test_values_of_a_sealed_trait(savepoint: Path) -> None:
    assert [row["value"] for row in rows_of(savepoint)] == COLUMNS["event"][:4]
    pruned = rows_of(savepoint, columns=["key", "value._class", "value.View"])
    assert [row["value"].get("View") for row in pruned] == [None, COLUMNS["event"][1]["View"], None, None]
    (found,) = rows_of(savepoint, keys=[{"_1": "k2", "_2": 2}])
    assert found["value"]["_class"] == "com.acme.Heartbeat$"


def test_a_change(savepoint: Path, tmp_path: Path) -> None:
    click = {"_1": "new", "_2": 1}
    changed = {"key": {"_1": "k0", "_2": 0}, "value": {"_class": "com.acme.View", "Purchase": None, "View": {"_1": click}}}
    writer = sp.arrow.SavepointWriter.from_existing(str(savepoint))
    writer.update_keyed_state("events", "last", [changed]).write(tmp_path / "second")
    after = rows_of(tmp_path / "second")
    assert after[0]["value"] == {"_class": "com.acme.View", "Purchase": None, "View": {"_1": click}}
    assert [row["value"] for row in after[1:]] == COLUMNS["event"][1:4]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"_class": "com.acme.Bill", "Purchase": None, "View": None}, "com.acme.Bill"),
        (
            {"_class": "com.acme.Gone", "Purchase": None, "View": {"_1": {"_1": "a", "_2": 1}}},
            "View needs a value if _class is com.acme.View, and has to be null otherwise",
        ),
        ({"_class": "com.acme.View", "Purchase": None, "View": None}, "View needs a value if"),
        ({"_class": None, "Purchase": None, "View": None}, "null"),
        ({"Purchase": None, "View": {"_1": {"_1": "a", "_2": 1}}}, "_class"),
    ],
)
def test_values_that_are_refused(savepoint: Path, tmp_path: Path, value: dict[str, Any], message: str) -> None:
    writer = sp.arrow.SavepointWriter.from_existing(str(savepoint))
    row = {"key": {"_1": "k0", "_2": 0}, "value": value}
    with pytest.raises(InvalidRowError, match=message):
        writer.update_keyed_state("events", "last", [row]).write(tmp_path / "second")


@pytest.mark.usefixtures("own_registrations")
def test_names_of_fields(savepoint: Path) -> None:
    register_case_class("com.acme.Click", ["id", "at"])
    register_case_class("com.acme.View", ["click"])
    row = rows_of(savepoint)[1]
    assert row["key"] == {"id": "k1", "at": 1}
    assert row["value"]["View"] == {"click": {"id": "b", "at": 1 << 40}}
    register_case_class("com.acme.Click", ["id"])
    with pytest.raises(InvalidRowError, match=r"registered with the fields \(id\); its serializer snapshot has 2 fields"):
        rows_of(savepoint)
