"""Operators of a snapshot and of a new job, matched by ids, names and states."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.applications.jobs.matching import match_signatures, named_by
from state_processor.applications.jobs.opening import graph_of
from state_processor.applications.jobs.signature import JobSignature, OperatorSignature, parse_signature
from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.snapshot_metadata import write_metadata
from state_processor.cli import BAD_INPUT, main
from state_processor.support.errors import OptionError
from state_processor.types.answers import Answer

LONG, STRING = sp.Types.LONG(), sp.Types.STRING()
HASHES = ["cbc357ccb763df2852fee8c4fc7d55f2", "7df19f87deec5680128845fd9a6ca18d", "90bea66de1c231edf33913ecd54406c1"]


def job(*operators: dict[str, Any]) -> JobSignature:
    return parse_signature({"operators": list(operators)}, "test")


def op(uid: str | None = None, /, states: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    named = {} if uid is None else {"uid": uid}
    return {**named, "key_type": "STRING", **({} if states is None else {"states": states}), **more}


def found(old: JobSignature, new: JobSignature) -> dict[str, tuple[str | None, str]]:
    return {one.old: (one.new, str(one.confidence)) for one in match_signatures(old, new).matches}


def source(connector: str, uid_hash: str) -> dict[str, Any]:
    states = {"SourceReaderState": {"kind": "OPERATOR_LIST", "value_type": "BYTES"}}
    return {"uid_hash": uid_hash, "states": states, "writers": [f"source {connector}"]}


A, B, C = HASHES
TOTAL, NAMES = {"total": "LONG"}, {"names": "STRING"}


UNREAD = {"total": {"kind": "VALUE", "unread": "unknown serializer"}}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([op("o", UNREAD)], [op("o", TOTAL)], {"o": (None, "ambiguous")}),
        ([op("o", TOTAL)], [op("o", UNREAD)], {"o": (None, "ambiguous")}),
        ([op(uid_hash=A, states=UNREAD)], [op(uid_hash=A, states=TOTAL)], {A: (None, "ambiguous")}),
        ([op(uid_hash=A, states=UNREAD)], [op("o", TOTAL)], {A: (None, "ambiguous")}),
        ([op("o", UNREAD | NAMES)], [op("o", TOTAL | NAMES)], {"o": ("o", "certain")}),
        ([op("o", UNREAD, name="sums")], [op("o", TOTAL, name="sums")], {"o": ("o", "certain")}),
        ([op(uid_hash=A, states=UNREAD, name="sums")], [op("o", TOTAL, name="sums")], {A: ("o", "high")}),
    ],
)
def test_states_that_cant_be_read_confirm_nothing(old: list[Any], new: list[Any], expected: dict[str, Any]) -> None:
    """Names do, and other states."""
    assert found(job(*old), job(*new)) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([op("o", TOTAL)], [op("o", TOTAL)], {"o": ("o", "certain")}),
        ([op(uid_hash=A, states=TOTAL)], [op("o", TOTAL), op("p", NAMES)], {A: ("o", "high")}),
        ([op(uid_hash=A, states=TOTAL)], [op("o", TOTAL), op("p", TOTAL)], {A: (None, "ambiguous")}),
        (
            [op(uid_hash=A, states=TOTAL), op(uid_hash=B, states=TOTAL)],
            [op("o", TOTAL)],
            {A: (None, "ambiguous"), B: (None, "ambiguous")},
        ),
        (
            [op(uid_hash=A, name="sums", states=TOTAL), op(uid_hash=B, name="counts", states=TOTAL)],
            [op("o", TOTAL, name="sums"), op("p", TOTAL, name="counts")],
            {A: ("o", "high"), B: ("p", "high")},
        ),
        ([op(uid_hash=A, states=TOTAL)], [op("o", {"total": "STRING"})], {A: (None, "no match")}),
        ([op(uid_hash=A, name="sums", states=TOTAL)], [op("o", {"total": "STRING"}, name="sums")], {A: (None, "no match")}),
        ([op(uid_hash=A, states=TOTAL)], [op("o", TOTAL | NAMES)], {A: ("o", "high")}),
        ([op(uid_hash=A, name="sums", states=TOTAL)], [op("o", name="sums")], {A: ("o", "high")}),
        ([op(uid_hash=A, name="Map", states=TOTAL)], [op("o", name="Map")], {A: (None, "ambiguous")}),
        (
            [op(uid_hash=A, name="sums", states=TOTAL)],
            [op("o", name="sums"), op("p", TOTAL)],
            {A: (None, "ambiguous")},
        ),
        ([op(uid_hash=A, name="sums", states=TOTAL)], [op(name="sums")], {A: (None, "ambiguous")}),
        ([op(uid_hash=A, states=TOTAL, has_state=False)], [op("o", TOTAL)], {}),
        ([op(uid_hash=A, states=TOTAL)], [], {A: (None, "no match")}),
        ([op(uid_hash=A, states=TOTAL)], [op(uid_hash=A, states=NAMES), op("o", TOTAL)], {A: ("o", "high")}),
        ([op(uid_hash=A, states=TOTAL)], [op(uid_hash=A, states=NAMES)], {A: (None, "ambiguous")}),
        ([op(uid_hash=A, states=TOTAL)], [op(uid_hash=A, states={}), op("o", TOTAL)], {A: ("o", "high")}),
        (
            [op(uid_hash=A, states={}, has_state=False), op(uid_hash=B, states=TOTAL)],
            [op(uid_hash=A, states=TOTAL)],
            {B: (A, "high")},
        ),
        ([op(uid_hash=A, states=TOTAL)], [op(uid_hash=A)], {A: (None, "ambiguous")}),
        (
            [op(uid_hash=A, states=TOTAL), op(uid_hash=B, states=TOTAL)],
            [op(uid_hash=A, states=TOTAL)],
            {A: (None, "ambiguous"), B: (None, "ambiguous")},
        ),
        ([op(uid_hash=A, states=TOTAL, name="Map")], [op(uid_hash=A, name="Map")], {A: (None, "ambiguous")}),
        ([op(uid_hash=A, states=TOTAL, name="sums")], [op(uid_hash=A, name="sums")], {A: (A, "certain")}),
        ([op("o", TOTAL)], [op(uid_hash=operator_id("o"))], {"o": ("o", "certain")}),
        ([op(uid_hash=A, states={}, writers=["raw keyed state unknown"])], [op(uid_hash=A, states={})], {A: (None, "ambiguous")}),
        ([source("kafka", A)], [source("kafka", A)], {A: (A, "certain")}),
        ([source("kafka", A)], [source("file", A)], {A: (None, "ambiguous")}),
        ([source("kafka", A)], [source("file", A), source("kafka", B)], {A: (B, "high")}),
        ([source("unknown", A)], [source("unknown", A)], {A: (None, "ambiguous")}),
        ([source("unknown", A)], [source("unknown", B)], {A: (None, "no match")}),
        ([op("o", TOTAL), op("p", NAMES)], [op("o", NAMES), op("p", TOTAL)], {"o": ("p", "high"), "p": ("o", "high")}),
        ([op("o", TOTAL), op("p", TOTAL)], [op("o", {}), op("p", TOTAL)], {"o": ("o", "certain"), "p": ("p", "certain")}),
        (
            [op("o", TOTAL), op(uid_hash=A, states=TOTAL)],
            [op("o", TOTAL), op("p", TOTAL)],
            {"o": ("o", "certain"), A: ("p", "high")},
        ),
    ],
)
def test_matches(old: list[Any], new: list[Any], expected: dict[str, Any]) -> None:
    assert found(job(*old), job(*new)) == expected


def chain() -> dict[str, Any]:
    """Return a graph as Flink prints it: two chained operators, and two more behind an exchange of keys."""
    nodes: list[dict[str, Any]] = [
        {"id": number, "type": name, "pact": "Operator", "contents": name, "parallelism": 1}
        for number, name in ((1, "orders"), (2, "parse"), (4, "sums"), (5, "log"))
    ]
    nodes[1]["predecessors"] = [{"id": 1, "ship_strategy": "FORWARD", "side": "second"}]
    nodes[2]["predecessors"] = [{"id": 2, "ship_strategy": "HASH", "side": "second"}]
    nodes[3]["predecessors"] = [{"id": 4, "ship_strategy": "FORWARD", "side": "second"}]
    return {"nodes": nodes}


def test_operators_have_the_names_of_the_graph_of_their_job() -> None:
    """Ids are recomputed from the shape of the graph."""
    graph = graph_of(chain())
    assert graph is not None
    old = JobSignature(tuple(OperatorSignature(uid_hash=one) for one in HASHES))
    assert {o.uid_hash: o.name for o in named_by(old, graph).operators} == {A: "orders", B: "parse", C: "sums"}


def snapshot(path: Path, *uids: str) -> str:
    writer = sp.arrow.SavepointWriter.new(128, "1.20")
    for number, uid in enumerate(uids):
        states = {f"state-{number}": sp.ValueState(LONG)}
        writer.with_keyed_state(uid, [{"key": "a", f"state-{number}": number}], key_type=STRING, states=states)
    writer.write(path)
    return str(path)


def test_a_mapping_renames_all_operators_in_one_write(tmp_path: Path) -> None:
    """Two of them change places; their states contradict their ids."""
    old, mapping, target = snapshot(tmp_path / "old", "a", "b", "c"), tmp_path / "mapping.json", str(tmp_path / "new")
    mapping.write_text(json.dumps({"a": "b", "b": "a", "c": "d"}), "utf-8")
    assert main(["rename-uid", old, target, "--mapping", str(mapping)]) == 0
    for uid, number in (("b", 0), ("a", 1), ("d", 2)):
        (row,) = sp.arrow.read_state(target, uid, f"state-{number}").read_all().to_pylist()
        assert row["value"] == number
    assert not sp.check_job(target, old, flink="1.20").restores
    by_uid = {sp.OperatorIdentifier.for_uid(uid).uid_hash: uid for uid in "abcd"}
    same = snapshot(tmp_path / "same", "b", "a", "d")
    found = {by_uid[one]: by_uid[other] for one, other in sp.match_operators(old, same).mapping.items()}
    assert found == {"a": "b", "b": "a", "c": "d"}


def test_the_output_of_match_is_a_mapping(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = snapshot(tmp_path / "old", *HASHES), snapshot(tmp_path / "new", "x", "y", "z")
    file, target = str(tmp_path / "mapping.json"), str(tmp_path / "renamed")
    assert main(["match", old, new, "-o", file]) == 0
    assert "high" in capsys.readouterr().out
    assert sp.match_operators(old, new).mapping == {
        one: sp.OperatorIdentifier.for_uid(uid).uid_hash for one, uid in zip(HASHES, "xyz", strict=True)
    }
    assert main(["rename-uid", old, target, "--mapping", file]) == 0
    assert sp.check_job(target, new, flink="1.20").restores
    assert not sp.check_job(old, new, flink="1.20").restores


def test_the_command_has_exit_codes_json_and_a_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two new operators have the same states; the name in the graph decides."""
    writer = sp.arrow.SavepointWriter.new(128, "1.20")
    writer.with_keyed_state(A, [{"key": "a", "total": 1}], key_type=STRING, states={"total": sp.ValueState(LONG)})
    writer.write(old := str(tmp_path / "old"))
    new, graph = tmp_path / "new.json", tmp_path / "graph.json"
    new.write_text(json.dumps({"operators": [op("o", TOTAL, name="orders"), op("p", TOTAL, name="log")]}), "utf-8")
    graph.write_text(json.dumps(chain()), "utf-8")
    assert main(["match", old, str(new), "--json"]) == 3
    assert sp.match_operators(old, new).answer is Answer.UNCHECKED
    assert json.loads(capsys.readouterr().out)["matches"][0]["candidates"] == ["o", "p"]
    assert main(["match", old, str(new), "--graph", str(graph), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["uids"] == {A: "o"}
    assert sp.match_operators(old, new, graph=graph).answer is Answer.YES
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"operators": [op("o", NAMES)]}), "utf-8")
    assert main(["match", old, str(other), "--json"]) == 1
    assert sp.match_operators(old, other).answer is Answer.NO


@pytest.mark.parametrize("content", ["[]", "{}", '{"a": 1}', '{"version": 2, "uids": {"a": "b"}}', "{", '{"version": 1}'])
def test_other_mappings_are_refused(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, file = snapshot(tmp_path / "old", "a"), tmp_path / "mapping.json"
    file.write_text(content, "utf-8")
    assert main(["rename-uid", old, str(tmp_path / "new"), "--mapping", str(file)]) == BAD_INPUT
    assert "expected" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_mapping_and_a_uid_are_not_given_together(tmp_path: Path) -> None:
    old = snapshot(tmp_path / "old", "a")
    for more in ([], ["--from", "a"], ["--from", "a", "--to", "b", "--mapping", "x"]):
        assert main(["rename-uid", old, str(tmp_path / "new"), *more]) == BAD_INPUT


def test_the_graph_of_the_new_job_names_its_operators(tmp_path: Path) -> None:
    old = job(op(uid_hash=B, states=TOTAL, name="orders"), op(uid_hash=C, states=TOTAL, name="log"))
    new, graph = job(op(uid_hash=A, states=TOTAL), op("p", TOTAL)), tmp_path / "graph.json"
    graph.write_text(json.dumps(chain()), "utf-8")
    assert sp.match_operators(old, new).mapping == {}
    assert sp.match_operators(old, new, new_graph=graph).mapping == {B: A}


def test_an_operator_without_state_gives_up_its_uid(tmp_path: Path) -> None:
    old = snapshot(tmp_path / "old", "a")
    metadata = open_snapshot(old).metadata
    empty = replace(metadata.operators[0], operator_id=operator_id("b"), uid="b", subtasks=(), coordinator_state=None)
    path = tmp_path / "old" / "_metadata"
    path.write_bytes(write_metadata(replace(metadata, operators=(*metadata.operators, empty))))
    file = tmp_path / "mapping.json"
    file.write_text('{"a": "b"}', "utf-8")
    assert main(["rename-uid", old, str(tmp_path / "new"), "--mapping", str(file)]) == 0
    new = str(tmp_path / "new")
    assert sp.arrow.operators(new)["operator_uid_hash"].to_pylist() == [operator_id("b")]
    assert sp.arrow.states(new)["operator_uid_hash"].to_pylist() == [operator_id("b")]


def test_another_description_in_place_of_the_graph_is_refused(tmp_path: Path) -> None:
    old = snapshot(tmp_path / "old", "a")
    (tmp_path / "job.json").write_text(str(sp.signature(old)), "utf-8")
    with pytest.raises(OptionError, match="expected the graph of a job"):
        sp.match_operators(old, old, graph=tmp_path / "job.json")
