"""Signatures of snapshots, plans, graphs of jobs, and of jobs that are described by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import state_processor as sp
from state_processor.applications.jobs.opening import graph_of
from state_processor.cli import BAD_INPUT, main
from state_processor.support.errors import OptionError
from state_processor.types.answers import Answer
from tests.corpus import packed_cases
from tests.state_processor.samples import FIXTURES, ORDERS_PATH, TYPES_PATH, WINDOWS_PATH

SNAPSHOTS = [ORDERS_PATH, TYPES_PATH, WINDOWS_PATH, str(FIXTURES / "1.20.5" / "orders-hashmap-canonical" / "savepoint")]

BY_HAND = """
flink: "2.3"
operators:
  orders:
    max_parallelism: 128
    key_type: STRING
    states:
      total: LONG
      items: {kind: MAP, map_key_type: STRING, value_type: LONG}
      history: {kind: LIST, value_type: STRING}
      session: {value_type: STRING, ttl: true}
"""

PLAN = {
    "nodes": [
        {"id": 1, "type": "stream-exec-table-source-scan_1", "outputType": "ROW<`k` INT>"},
        {"id": 2, "type": "stream-exec-exchange_1", "outputType": "ROW<`k` INT>"},
        {"id": 3, "type": "stream-exec-group-aggregate_1", "outputType": "ROW<`k` INT>"},
    ],
    "edges": [{"source": 1, "target": 2}, {"source": 2, "target": 3}],
}

REST = {
    "plan": {
        "jid": "a" * 32,
        "name": "job",
        "type": "STREAMING",
        "nodes": [
            {
                "id": "b" * 32,
                "parallelism": 2,
                "operator": "",
                "description": "sum<br/>:- sink one: Writer<br/>:  +- sink one: Committer<br/>+- log<br/>",
                "inputs": [{"num": 0, "id": "c" * 32, "ship_strategy": "HASH", "exchange": "pipelined_bounded"}],
            },
            {"id": "c" * 32, "parallelism": 1, "operator": "", "description": "Source: orders -&gt; names", "inputs": []},
        ],
    }
}

EXECUTION_PLAN = {
    "nodes": [
        {"id": 1, "type": "Source: orders", "pact": "Data Source", "contents": "Source: orders", "parallelism": 1},
        {
            "id": 3,
            "type": "sum",
            "pact": "Operator",
            "contents": "sum",
            "parallelism": 2,
            "predecessors": [{"id": 1, "ship_strategy": "HASH", "side": "second"}],
        },
    ]
}


def written(path: Path, content: object) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return str(path)


@pytest.mark.parametrize("path", SNAPSHOTS)
def test_the_file_of_a_snapshot_has_the_same_signature(path: str, tmp_path: Path) -> None:
    found = sp.signature(path)
    again = sp.signature(written(tmp_path / "job.state.json", str(found)))
    assert str(again) == str(found)
    assert again.operators[0].states is not None
    assert sp.check_job(found, again, flink="2.3").answer is not Answer.NO
    states = sp.arrow.states(path).to_pylist()
    assert sum(len(operator.states or ()) for operator in found.operators) == len(states)


def test_operators_and_states_have_a_stable_order_and_types_as_text() -> None:
    content = json.loads(str(sp.signature(ORDERS_PATH)))
    assert content["version"] == 1
    uids = [operator["uid"] for operator in content["operators"] if "uid" in operator]
    assert uids == sorted(uids)
    (orders,) = (operator for operator in content["operators"] if operator.get("uid") == "orders")
    names = [state["name"] for state in orders["states"]]
    assert names == sorted(names)
    by_name = {state["name"]: state for state in orders["states"]}
    assert by_name["session"] == {
        "name": "session",
        "kind": "VALUE",
        "key_type": "STRING",
        "value_type": "STRING",
        "ttl": True,
    }
    assert by_name["profile"]["classes"]["io.stateprocessor.interop.Address"]["zip"] == "INT"


def test_a_job_described_by_hand_restores_what_it_names(tmp_path: Path) -> None:
    job = written(tmp_path / "job.yaml", BY_HAND)
    report = sp.check_job(ORDERS_PATH, job)
    (orders,) = (operator for operator in report.operators if operator.operator == "orders")
    outcomes = {state.state: str(state.outcome) for state in orders.states}
    assert outcomes["total"] == outcomes["items"] == outcomes["history"] == outcomes["session"] == "restores"
    assert outcomes["profile"] == "can't be checked"  # its class has to be on the class path


@pytest.mark.parametrize(
    ("constants", "outcome"),
    [
        ("RED, GREEN", "restores"),
        ("RED, GREEN, BLUE", "restores"),
        ("GREEN, RED", "restores"),
        ("RED", "is refused"),
    ],
)
def test_constants_of_an_enum_described_by_hand(constants: str, outcome: str, tmp_path: Path) -> None:
    writer = sp.arrow.SavepointWriter.new(flink_version="2.3")
    color = sp.ValueState(sp.Types.ENUM("com.acme.Color", ["RED", "GREEN"]))
    writer.with_keyed_state("o", [{"key": "a", "color": "GREEN"}], key_type=sp.Types.STRING(), states={"color": color})
    writer.write(tmp_path / "savepoint")
    states = f"{{color: 'ENUM<com.acme.Color>({constants})'}}"
    job = written(tmp_path / "job.yaml", f"flink: '2.3'\noperators: {{o: {{key_type: STRING, states: {states}}}}}")
    (operator,) = sp.check_job(tmp_path / "savepoint", job, backend="hashmap").operators
    (color_verdict,) = operator.states
    assert (color_verdict.state, str(color_verdict.outcome)) == ("color", outcome)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("total: LONG", "total: LNG"), "did you mean LONG"),
        (("kind: MAP, ", "kind: MAPS, "), "expected a kind among"),
        (("map_key_type: STRING, ", ""), "expected map_key_type"),
        (("    key_type: STRING\n", ""), "expected key_type"),
        (("ttl: true", "ttl: soon"), "expected true or false for ttl"),
        (("max_parallelism: 128", "max_paralelism: 128"), "unknown field 'max_paralelism'"),
        (("max_parallelism: 128", "asynchronous: 1"), "expected true or false for asynchronous"),
        (("max_parallelism: 128", "has_state: 'false'"), "expected true or false for has_state"),
        (("max_parallelism: 128", "max_parallelism: 0"), "expected a positive number"),
        (('flink: "2.3"', "version: 2"), "expected version 1"),
        (("operators:", "operators: [\n"), "not YAML"),
    ],
)
def test_mistakes_in_a_description_are_refused(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=message):
        sp.signature(written(tmp_path / "job.yaml", BY_HAND.replace(*change)))


def test_a_type_that_contradicts_its_serializer_snapshot_is_refused(tmp_path: Path) -> None:
    text = str(sp.signature(ORDERS_PATH))
    for one, other in (("interop.Profile>", "interop.Person>"), ('"zip": "INT"', '"zip": "LONG"')):
        assert one in text
        with pytest.raises(OptionError, match="after a change by hand, remove"):
            sp.signature(written(tmp_path / "job.json", text.replace(one, other, 1)))


def test_the_operators_of_a_compiled_plan(tmp_path: Path) -> None:
    job = sp.signature(written(tmp_path / "plan.json", PLAN))
    assert [(o.uid, o.name, o.states) for o in job.operators] == [
        ("1_source", "source[1]", None),
        ("3_group-aggregate", "group-aggregate[3]", None),
    ]
    assert job.operators[1].other_uids == ("3_stream-exec-group-aggregate_1_group-aggregate", "group-aggregate")


def test_the_operators_of_a_graph_of_the_rest_interface(tmp_path: Path) -> None:
    graph = graph_of(REST)
    assert graph is not None
    found = [(n.name, n.uid_hash, [(graph.nodes[i.source].name, i.strategy, i.chained) for i in n.inputs]) for n in graph.nodes]
    assert found == [
        ("Source: orders", "c" * 32, []),
        ("names", None, [("Source: orders", "FORWARD", True)]),
        ("sum", "b" * 32, [("names", "HASH", False)]),
        ("sink one: Writer", None, [("sum", "FORWARD", True)]),
        ("sink one: Committer", None, [("sink one: Writer", "FORWARD", True)]),
        ("log", None, [("sum", "FORWARD", True)]),
    ]
    details = REST | {"vertices": [{"id": "b" * 32, "name": "sum -> (a -> b, c[x, y])", "maxParallelism": 64, "parallelism": 2}]}
    job = sp.signature(written(tmp_path / "job.json", details))
    assert {o.name: o.max_parallelism for o in job.operators} == {
        **dict.fromkeys(("sum", "a", "b", "c[x, y]"), 64),
        **dict.fromkeys(("Source: orders", "names"), None),
    }


def test_the_operators_of_an_execution_plan(tmp_path: Path) -> None:
    job = sp.signature(written(tmp_path / "plan.json", EXECUTION_PLAN))
    assert [(o.name, o.parallelism, o.uid_hash) for o in job.operators] == [("Source: orders", 1, None), ("sum", 2, None)]


@pytest.mark.parametrize("content", ["{", '{"a": 1}', "[1]", "text", '{"nodes": [{"id": "a"}]}'])
def test_other_files_are_refused(content: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="expected"):
        sp.signature(written(tmp_path / "file", content))


def test_the_command_writes_a_file_and_replaces_it_on_demand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.state.json"
    assert main(["signature", ORDERS_PATH]) == 0
    printed = capsys.readouterr().out
    assert main(["signature", ORDERS_PATH, "-o", str(file)]) == 0
    assert file.read_text("utf-8") == printed
    assert main(["signature", TYPES_PATH, "-o", str(file)]) == BAD_INPUT
    assert main(["signature", TYPES_PATH, "-o", str(file), "--overwrite"]) == 0
    assert str(sp.signature(file)) == str(sp.signature(TYPES_PATH))
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_connectors_have_the_versions_of_their_formats() -> None:
    (case,) = packed_cases("2.3.0/operator-state-hashmap-canonical")
    writers = {operator.label: operator.writers for operator in sp.signature(case.snapshot).operators if operator.writers}
    assert writers == {"sequence": ("source sequence (splits 1, enumerator 1)",)}
