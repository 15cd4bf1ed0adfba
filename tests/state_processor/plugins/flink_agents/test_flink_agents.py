"""Classes of Flink Agents, in savepoints that an agent of release 0.2.0 wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.errors import OptionError, UnsupportedFormatError
from state_processor.plugins.flink_agents import describe
from state_processor.serializers import register_kryo_class, registrations
from state_processor.serializers.kryo.classes import user_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAVEPOINTS = Path(__file__).parent / "savepoints"
AGENT = sp.OperatorIdentifier.for_uid_hash("7629e16f98bd5c4d0543a3393e8544d7")
VERSIONS = pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])


def read(version: str, state: str, **options: Any) -> list[dict[str, Any]]:
    return sp.arrow.read_state(SAVEPOINTS / version, AGENT, state, **options).read_all().to_pylist()


@VERSIONS
def test_memory_needs_no_description(version: str) -> None:
    assert {row["map_key"]: row["map_value"] for row in read(version, "shortTermMemory", keys=["bob"])} == {
        "": {"type": "OBJECT", "value": None, "subKeys": ["profile"]},
        "profile": {"type": "OBJECT", "value": None, "subKeys": ["email"]},
        "profile.email": {"type": "VALUE", "value": '"bob@example.org"', "subKeys": []},
    }
    last = {"type": "VALUE", "value": '"wait"', "subKeys": []}
    assert [row["map_value"] for row in read(version, "sensoryMemory") if row["map_key"]] == [last]


@VERSIONS
def test_values_in_memory(version: str) -> None:
    with registrations():
        describe("0.2.0")
        rows = read(version, "shortTermMemory", keys=["ada"])
    values = {row["map_key"]: json.loads(row["map_value"]["value"]) for row in rows if row["map_value"]["type"] == "VALUE"}
    message = {"@class": "org.apache.flink.agents.api.chat.messages.ChatMessage", "toolCalls": [], "extraArgs": {}}
    assert values == {
        "profile.email": "ada@example.org",
        "profile.age": 7,
        "visits": 7,
        "ratio": 0.5,
        "notes": ["a", 1, 2.5, True, None],
        "home": {"street": "Main", "number": 5},
        "history": [
            message | {"role": "USER", "content": "I am Ada"},
            message | {"role": "ASSISTANT", "content": "Hello Ada"},
        ],
    }


@VERSIONS
def test_tasks_and_events_of_a_release(version: str) -> None:
    with registrations():
        describe("0.2.0")
        (task,) = (json.loads(row["list_value"]) for row in read(version, "actionTasks"))
        events = [json.loads(row["list_value"]) for row in read(version, "pendingInputEvents")]
    assert task["@class"] == "org.apache.flink.agents.runtime.operator.JavaActionTask"
    assert (task["key"], task["event"]["response"]["content"]) == ("waiting", "I am Eve")
    assert (task["action"]["name"], task["action"]["exec"]["methodName"]) == ("resume", "resume")
    assert [event["input"] for event in events] == ["waiting|get|profile.email|", "waiting|set|profile.name|Eve"]
    assert read(version, "currentProcessingKeys") == [{"value": '"waiting"'}]


@VERSIONS
@pytest.mark.parametrize("state", ["actionTasks", "pendingInputEvents", "shortTermMemory"])
def test_without_a_release_the_error_says_what_describes_it(version: str, state: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=r"with state_processor\.plugins\.flink_agents\.describe\(release\)$"):
        read(version, state)
    found = sp.find([SAVEPOINTS / version], text="I am Eve")
    assert {row["state_name"] for row in found.undecoded.to_pylist()} == {"actionTasks", "pendingInputEvents", "shortTermMemory"}
    assert "actionTasks" in found.table["state_name"].to_pylist()


def test_the_wrong_release_is_refused() -> None:
    with registrations():
        describe("0.1.1")
        with pytest.raises(UnsupportedFormatError, match="JavaActionTask"):
            read("2.3.0", "actionTasks")


def test_an_unknown_release_is_refused() -> None:
    with pytest.raises(OptionError, match=r"^Flink Agents 0\.4\.0: .* are not known, those of 0\.1\.1 and 0\.2\.0 are"):
        describe("0.4.0")


def test_a_description_of_a_user_counts() -> None:
    item = "org.apache.flink.agents.runtime.memory.MemoryObjectImpl$MemoryItem"
    with registrations():
        register_kryo_class(item, {"other": "long"})
        described = user_class(item)
    assert described is not None
    assert [name for name, _ in described.fields] == ["other"]


@VERSIONS
def test_tasks_and_events_stay_beside_a_change(version: str, tmp_path: Path) -> None:
    writer = sp.arrow.SavepointWriter.from_existing(SAVEPOINTS / version)
    writer.delete_keys(AGENT, pa.table({"key": ["bob"]}))
    writer.write(tmp_path / "savepoint")
    with registrations():
        describe("0.2.0")
        for state in ("actionTasks", "pendingInputEvents"):
            before = read(version, state)
            after = sp.arrow.read_state(tmp_path / "savepoint", AGENT, state).read_all().to_pylist()
            assert before == after != []


def test_numbers_need_their_class(tmp_path: Path) -> None:
    with registrations():
        describe("0.2.0")
        schema = sp.arrow.read_state(SAVEPOINTS / "2.3.0", AGENT, "shortTermMemory").schema
        rows = [{"key": "bob", "map_key": "n", "map_value": {"type": "VALUE", "value": "9", "subKeys": []}}]
        writer = sp.arrow.SavepointWriter.from_existing(SAVEPOINTS / "2.3.0")
        writer.update_keyed_state(AGENT, "shortTermMemory", pa.Table.from_pylist(rows, schema=schema))
        with pytest.raises(sp.errors.InvalidRowError, match="9 may be an Integer or a Long"):
            writer.write(tmp_path / "savepoint")


@pytest.mark.spark
def test_memory_in_tasks_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    reader = sp.SavepointReader.read(spark, SAVEPOINTS / "2.3.0")
    with registrations():
        describe("0.2.0")
        memory = reader.read_keyed_state(AGENT, "shortTermMemory")
        assert {(row.key, row.map_key) for row in memory.where("map_value.value LIKE '%Ada%'").collect()} == {("ada", "history")}
        changed = memory.where("key = 'bob'").selectExpr(
            "key",
            "'profile.city' AS map_key",
            "named_struct('type', 'VALUE', 'value', '\"Oslo\"', 'subKeys', CAST(array() AS array<string>)) AS map_value",
        )
        writer = sp.SavepointWriter.from_existing(spark, SAVEPOINTS / "2.3.0")
        writer.update_keyed_state(AGENT, "shortTermMemory", changed.distinct())
        writer.write(str(tmp_path / "savepoint"))
        rows = sp.arrow.read_state(tmp_path / "savepoint", AGENT, "shortTermMemory", keys=["bob"]).read_all().to_pylist()
    assert {row["map_key"]: row["map_value"]["value"] for row in rows}["profile.city"] == '"Oslo"'
