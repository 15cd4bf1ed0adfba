"""Memory of Flink Agents: agents go on with memory that was edited here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.plugins.flink_agents import corrected_objects, describe
from state_processor.serializers import registrations
from tests.interop import flink
from tests.state_processor.plugins.flink_agents.agent_jobs import agents, run_agent

pytestmark = pytest.mark.interop

SAVEPOINTS = Path(__file__).parent / "savepoints"
"""An agent of release 0.2.0 wrote them."""
MEMORY = "shortTermMemory"
INPUT = (
    "ada|set|profile.email|ada@example.org",
    "ada|set|profile.age|int",
    "ada|set|visits|long",
    "ada|set|notes|list",
    "ada|set|history|chat",
    "bob|set|profile.email|bob@example.org",
    "eve|set|profile.email|eve@example.org",
)


def operator_of(savepoint: Path) -> sp.OperatorIdentifier:
    """Return the operator of the agent, which does not have a uid."""
    (uid_hash,) = {row["operator_uid_hash"] for row in sp.arrow.states(savepoint).to_pylist() if row["state_name"] == MEMORY}
    return sp.OperatorIdentifier.for_uid_hash(uid_hash)


def memory_of(savepoint: Path) -> pa.Table:
    return sp.arrow.read_state(savepoint, operator_of(savepoint), MEMORY).read_all()


@pytest.mark.parametrize("version", ["1.20.5"])
def test_an_agent_goes_on_with_edited_memory(version: str, tmp_path: Path) -> None:
    written, _ = run_agent(version, INPUT, tmp_path)
    agent = operator_of(written)
    with registrations():
        describe("0.1.1")
        memory = memory_of(written)
        ada = {row["map_key"]: row["map_value"] for row in memory.to_pylist() if row["key"] == "ada"}
        assert ada["profile"] == {"type": "OBJECT", "value": None, "subKeys": ["email", "age"]}
        assert ada["notes"]["value"] == '["a", 1, 2.5, true, null]'
        assert '"content": "I am Ada"' in ada["history"]["value"]

        # the address of one person changes, the age of a person is forgotten, and a person is erased
        kept = duckdb.sql("SELECT * FROM memory WHERE map_key <> 'profile.age' AND key <> 'eve'").to_arrow_table()
        kept = kept.cast(memory.schema)
        value = {"type": "VALUE", "value": '"lovelace@example.org"', "subKeys": []}
        count = {"type": "VALUE", "value": '{"@class": "java.lang.Long", "@value": 9}', "subKeys": []}
        changes = [{"key": "ada", "map_key": "profile.email", "map_value": value}]
        changes += [{"key": "bob", "map_key": "stay.nights", "map_value": count}]
        added = pa.Table.from_pylist(changes, schema=memory.schema)
        writer = sp.arrow.SavepointWriter.from_existing(written)
        writer.delete_map_entries(agent, MEMORY, pa.table({"key": ["ada"], "map_key": ["profile.age"]}))
        writer.delete_keys(agent, pa.table({"key": ["eve"]}))
        objects = corrected_objects(pa.concat_tables([kept, added.slice(1)]))
        assert sorted((row["key"], row["map_key"]) for row in objects.to_pylist()) == [
            ("ada", "profile"),
            ("bob", ""),
            ("bob", "stay"),
        ]
        writer.update_keyed_state(agent, MEMORY, pa.concat_tables([added, objects]))
        writer.write(tmp_path / "edited")

    questions = ("ada|fields|profile|", "ada|fields||", "bob|fields||", "bob|fields|stay|", "eve|get|profile.email|")
    later, answers = run_agent(version, questions, tmp_path, tmp_path / "edited")
    assert answers == [
        "ada fields profile: {email=lovelace@example.org} TreeMap",
        "ada fields : {history=[user: I am Ada, assistant: Hello Ada], notes=[a, 1, 2.5, true, null], profile=NestedObject, "
        "visits=7} TreeMap",
        "bob fields : {profile=NestedObject, stay=NestedObject} TreeMap",
        "bob fields stay: {nights=9} TreeMap",
        "eve get profile.email: null",
    ]
    with registrations():
        describe("0.1.1")
        assert corrected_objects(memory_of(later)).num_rows == 0


@pytest.mark.parametrize("version", ["1.20.5"])
def test_an_agent_goes_on_without_an_erased_person(version: str, tmp_path: Path) -> None:
    written, _ = run_agent(version, INPUT[:2] + INPUT[5:], tmp_path, form="NATIVE")
    found = sp.find([written], text="eve@example")
    assert {(row["key"], row["field"]) for row in found.table.to_pylist()} == {("eve", "map_value.value")}
    report = sp.erase(written, tmp_path / "erased", text="eve@example", remove="fields")
    assert report.is_clean
    again = sp.erase(tmp_path / "erased", tmp_path / "without-bob", key="bob", remove="keys")
    assert again.answer != "no"
    questions = ("eve|fields|profile|", "bob|fields||", "ada|get|profile.email|")
    _, answers = run_agent(version, questions, tmp_path, tmp_path / "without-bob")
    assert answers == [
        "eve fields profile: {email=null} TreeMap",
        "bob fields : {} TreeMap",
        "ada get profile.email: ada@example.org String",
    ]


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_flink_restores_changed_items(version: str, backend: str, tmp_path: Path) -> None:
    """The classes of memory read and write every item; the job is not an agent."""
    written = SAVEPOINTS / version
    agent = operator_of(written)
    with registrations():
        describe("0.2.0")
        writer = sp.arrow.SavepointWriter.from_existing(written)
        likes = {"type": "VALUE", "value": '["tea", {"@class": "java.lang.Long", "@value": 7}, {"a": 0.5}]', "subKeys": []}
        added = [
            {"key": "carol", "map_key": "", "map_value": {"type": "OBJECT", "value": None, "subKeys": ["likes"]}},
            {"key": "carol", "map_key": "likes", "map_value": likes},
        ]
        writer.update_keyed_state(agent, MEMORY, pa.Table.from_pylist(added, schema=memory_of(written).schema))
        writer.remove_state(agent, "actionTasks")  # tasks have other fields in the release of the jar
        writer.write(tmp_path / "edited")
        item = "KRYO<org.apache.flink.agents.runtime.memory.MemoryObjectImpl$MemoryItem>"
        of_map = {"kind": "MAP", "key_type": "STRING", "map_key_type": "STRING", "value_type": item, "ttl": False}
        states = [{"name": name, **of_map} for name in ("sensoryMemory", MEMORY)]
        operator = {"uid": None, "uid_hash": agent.uid_hash, "key_type": "STRING", "states": states}
        restored = flink.request(
            [operator], tmp_path / "edited", backend=backend, max_parallelism=16, savepoint_to=tmp_path, printed=False
        )
        (answer,) = flink.restore(version, [restored], class_path=[agents()])
        assert "error" not in answer, answer
        later = memory_of(Path(answer["savepoint"]))

    def items(memory: pa.Table) -> dict[Any, Any]:
        return {
            (row["key"], row["map_key"]): {**row["map_value"], "subKeys": sorted(row["map_value"]["subKeys"])}
            for row in memory.to_pylist()
        }

    with registrations():
        describe("0.2.0")
        assert items(later) == items(memory_of(tmp_path / "edited"))
        assert ("carol", "likes") in items(later)
