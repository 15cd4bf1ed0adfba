"""Sinks whose state is layouts: buffered requests of AWS, and files that Iceberg and Paimon have left to commit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor import connectors
from state_processor.backends.connectors.committables import (
    COLLECTORS,
    CheckpointCommittables,
    Collector,
    Request,
    SubtaskCommittables,
)
from state_processor.backends.connectors.connector import Versioned
from state_processor.backends.connectors.registry import sinks
from state_processor.backends.connectors.source_splits import undecoded_elements
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.stored_operator import find_operator
from state_processor.cli import main
from state_processor.plugins.aws import layouts as aws
from state_processor.plugins.iceberg import layouts as iceberg
from state_processor.plugins.iceberg.connectors import iceberg_snapshot
from state_processor.plugins.paimon import layouts as paimon
from state_processor.support.errors import InvalidRowError, OptionError

BYTES = sp.Types.PRIMITIVE_ARRAY(sp.Types.BYTE())
MANIFEST = {
    "manifest_path": "s3://b/m.avro",
    "manifest_length": 7,
    "partition_spec_id": 0,
    "content": 0,
    "sequence_number": 0,
    "min_sequence_number": 0,
    "added_snapshot_id": 0,
    **dict.fromkeys(("added_files_count", "existing_files_count", "deleted_files_count"), 1),
    **dict.fromkeys(("added_rows_count", "existing_rows_count", "deleted_rows_count"), 2),
    **dict.fromkeys(("partitions", "key_metadata", "first_row_id")),
}
DELTAS = {"dataManifest": MANIFEST, "deleteManifest": None, "referencedDataFiles": ["s3://b/d.parquet"]}
FILES_OF_CHECKPOINTS = {
    "entries": [{"checkpointId": number, "deltaManifests": deltas} for number, deltas in ((4, DELTAS), (5, None))]
}
ROW = {"arity": 1, "values": [{"type": "INT", "value": 3}]}
INDEXES: dict[str, Any] = {"newIndexFiles": [], "deletedIndexFiles": []}
MESSAGE = {
    "partition": ROW,
    "bucket": 1,
    "totalBuckets": None,
    "dataIncrement": {"newFiles": [], "deletedFiles": [], "changelogFiles": [], **INDEXES},
    "compactIncrement": {"compactBefore": [], "compactAfter": [], "changelogFiles": [], **INDEXES},
}
COMMIT = {"identifier": 9, "watermark": None, "properties": [], "commitMessageVersion": 13, "commitMessages": [MESSAGE]}
WRAPPED = {
    "checkpointId": 9,
    "watermark": 1,
    "manifestCommittables": [{"identifier": name, "manifestCommittable": COMMIT} for name in ("db.a", "db.b")],
}
KINESIS = {"bufferedRequestEntries": [{"size": 2, "data": "0001", "partitionKey": key} for key in ("k", "l")]}
ITEM = [{"key": "id", "value": {"N": "1"}}]
REQUESTS: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "kinesis": (aws.KINESIS_WRITER, KINESIS, {"data": b"\0\1\2"}, {"size": 3, "data": "000102", "partitionKey": "k"}),
    "firehose": (
        aws.FIREHOSE_WRITER,
        {"bufferedRequestEntries": [{"size": 1, "data": "07"}, {"size": 0, "data": ""}]},
        {"data": b"\1\2"},
        {"size": 2, "data": "0102"},
    ),
    "sqs": (
        aws.SQS_WRITER,
        {"bufferedRequestEntries": [{"size": 2, "messageBody": "ab", "id": i} for i in "12"]},
        {"message_body": "ü"},
        {"size": 2, "messageBody": "ü", "id": "1"},
    ),
    "dynamodb": (
        aws.DYNAMODB_WRITER,
        {"bufferedRequestEntries": [{"size": 5, "type": "PUT", "item": ITEM}, {"size": 5, "type": "DELETE", "item": ITEM}]},
        {"request_type": "DELETE"},
        {"size": 5, "type": "DELETE", "item": ITEM},
    ),
}


def collected(version: int, data: bytes) -> bytes:
    """The list element of Flink's committer with one committable of checkpoint 5."""
    request = Request(Versioned(version, data))
    checkpoint = CheckpointCommittables(5, (SubtaskCommittables((request,), 1, 0, None, 0),), 1, 2, 0)
    return COLLECTORS.write(Collector((checkpoint,), 1), 2).to_bytes()


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("sinks") / "savepoint")
    writer = sp.arrow.SavepointWriter.new()
    for name, (serializer, content, _, _) in REQUESTS.items():
        elements = [Versioned(1, connectors.encode(serializer, 1, c)) for c in (content, {"bufferedRequestEntries": []})]
        writer.with_list_state(name, "writer_raw_states", pa.table({"value": [e.to_bytes() for e in elements]}), BYTES)
    dynamic = {"tableName": "db.t", "branch": "main", "jobId": "j", "operatorId": "o", "checkpointId": 5, "manifests": ["00"]}
    element = collected(2, connectors.encode(iceberg.DYNAMIC_COMMITTABLES, 2, dynamic))
    writer.with_list_state("iceberg-dynamic", "streaming_committer_raw_states", pa.table({"value": [element]}), BYTES)
    files = iceberg_snapshot().restore_serializer()
    value = files.deserialize(connectors.encode(iceberg.COMMITTER_STATE, 0, FILES_OF_CHECKPOINTS))
    rows = pa.table({"value": pa.array([value], pa.map_(pa.int64(), pa.binary()))})
    writer.with_list_state("iceberg-files-committer", iceberg.COMMITTER_STATE_NAME, rows, files)
    for uid, versioned in (
        ("paimon", Versioned(5, connectors.encode(paimon.MANIFESTS, 5, COMMIT))),
        ("paimon-tables", Versioned(1, connectors.encode(paimon.WRAPPED_MANIFESTS, 1, WRAPPED))),
    ):
        rows = pa.table({"value": [versioned.to_bytes()]})
        writer.with_list_state(uid, "streaming_committer_raw_states", rows, BYTES)
    five = sp.Types.TUPLE([sp.Types.STRING(), sp.Types.STRING(), BYTES, sp.Types.INT(), BYTES])
    state = {"f0": "db.t", "f1": "sequence", "f2": bytes.fromhex("00000000" + "00" * 8), "f3": 2, "f4": b"\7"}
    fields = zip(state, (pa.string(), pa.string(), pa.binary(), pa.int32(), pa.binary()), strict=True)
    rows = pa.table({"value": pa.array([state], pa.struct([*fields]))})
    writer.with_union_state("paimon-writer", paimon.WRITER_STATE_NAME, rows, five)
    writer.write(path)
    return path


def rows_of(path: str, uid: str, connector: str | None = None) -> list[dict[str, Any]]:
    named = connector or (uid if uid in REQUESTS else None)
    rows: list[dict[str, Any]] = sp.arrow.read_sink_state(path, uid, named).to_pylist()
    return rows


def written(savepoint: str, path: Path, uid: str, rows: list[dict[str, Any]]) -> str:
    named = uid if uid in REQUESTS else None
    table = pa.Table.from_pylist(rows, sp.arrow.read_sink_state(savepoint, uid, named).schema)
    sp.arrow.SavepointWriter.from_existing(savepoint).with_sink_state(uid, table, named).write(str(path))
    return str(path)


def elements(path: str, uid: str, state: str) -> list[bytes]:
    snapshot = open_snapshot(path)
    return [data for _, data in undecoded_elements(snapshot, find_operator(snapshot, uid), state)]


STATES = {
    **dict.fromkeys(REQUESTS, "writer_raw_states"),
    **dict.fromkeys(("iceberg-dynamic", "paimon", "paimon-tables"), "streaming_committer_raw_states"),
    "iceberg-files-committer": iceberg.COMMITTER_STATE_NAME,
    "paimon-writer": paimon.WRITER_STATE_NAME,
}


@pytest.mark.parametrize("uid", STATES)
def test_unchanged_rows_are_the_same_bytes(savepoint: str, tmp_path: Path, uid: str) -> None:
    rows = rows_of(savepoint, uid)
    assert any(row["raw"] is not None for row in rows)
    copy = written(savepoint, tmp_path / "copy", uid, rows[::-1])
    assert elements(copy, uid, STATES[uid]) == elements(savepoint, uid, STATES[uid])


@pytest.mark.parametrize("uid", REQUESTS)
def test_buffered_requests(savepoint: str, tmp_path: Path, uid: str) -> None:
    serializer, _, change, expected = REQUESTS[uid]
    first, second, empty = rows_of(savepoint, uid)
    names = [field.name for field in sinks()[uid].fields]
    assert [empty[name] for name in names] == [None] * len(names)
    copy = written(savepoint, tmp_path / "changed", uid, [first | change, empty])
    changed, nothing = (connectors.decode(serializer, 1, data[12:]) for data in elements(copy, uid, "writer_raw_states"))
    assert changed["bufferedRequestEntries"] == [expected]
    assert nothing["bufferedRequestEntries"] == []
    if len(names) > 1:
        with pytest.raises(InvalidRowError, match=rf"a request of the sink '{uid}' needs '{names[0]}'"):
            written(savepoint, tmp_path / "null", uid, [first | {names[0]: None}, second, empty])


def test_files_of_the_files_committer(savepoint: str, tmp_path: Path) -> None:
    rows = rows_of(savepoint, "iceberg-files-committer")
    names = ("role", "committed_checkpoint_id", "data_manifest", "delete_manifest", "referenced_data_files")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("COMMITTABLE", 4, "s3://b/m.avro", None, ["s3://b/d.parquet"]),
        ("COMMITTABLE", 5, None, None, None),
    ]
    state = iceberg.COMMITTER_STATE_NAME
    for kept in (rows[1:], []):
        copy = written(savepoint, tmp_path / f"{len(kept)}", "iceberg-files-committer", kept)
        (element,) = elements(copy, "iceberg-files-committer", state)
        found = connectors.decode("SortedMapSerializer", 0, element)["entries"]
        assert [entry["checkpointId"] for entry in found] == [row["committed_checkpoint_id"] for row in kept]
    with pytest.raises(InvalidRowError, match="files of checkpoint 6: files to commit can be left out"):
        written(savepoint, tmp_path / "new", "iceberg-files-committer", [rows[0] | {"committed_checkpoint_id": 6}])


def test_commits_of_paimon(savepoint: str, tmp_path: Path) -> None:
    (row,) = rows_of(savepoint, "paimon")
    assert (row["role"], row["commit_identifier"], row["watermark"]) == ("COMMITTABLE", 9, None)
    assert row["files"] == [
        {"partition": '[{"type": "INT", "value": 3}]', "bucket": 1, "new_files": [], "compact_before": [], "compact_after": []}
    ]
    copy = written(savepoint, tmp_path / "changed", "paimon", [row | {"watermark": 77}])
    (element,) = elements(copy, "paimon", "streaming_committer_raw_states")
    found = connectors.decode("ManifestCommittableSerializer", 5, element[12:])
    assert found == connectors.decode("ManifestCommittableSerializer", 5, connectors.encode(paimon.MANIFESTS, 5, COMMIT)) | {
        "watermark": 77
    }
    assert elements(written(savepoint, tmp_path / "none", "paimon", []), "paimon", "streaming_committer_raw_states") == []
    with pytest.raises(InvalidRowError, match="'files' can't be changed"):
        written(savepoint, tmp_path / "files", "paimon", [row | {"files": []}])


def test_commits_of_many_tables_of_paimon(savepoint: str, tmp_path: Path) -> None:
    rows = rows_of(savepoint, "paimon-tables")
    assert [row["table"] for row in rows] == ["db.a", "db.b"]
    copy = written(savepoint, tmp_path / "one", "paimon-tables", rows[1:])
    (element,) = elements(copy, "paimon-tables", "streaming_committer_raw_states")
    found = connectors.decode("WrappedManifestCommittableSerializer", 1, element[12:])
    assert [entry["identifier"] for entry in found["manifestCommittables"]] == ["db.b"]


def test_the_state_of_writers_of_paimon(savepoint: str, tmp_path: Path) -> None:
    (row,) = rows_of(savepoint, "paimon-writer")
    shown = ("role", "table", "state_key", "bucket", "value")
    assert [row[name] for name in shown] == ["WRITER", "db.t", "sequence", 2, b"\7"]
    copy = written(savepoint, tmp_path / "changed", "paimon-writer", [row | {"bucket": 3, "value": b"\10"}])
    (changed,) = rows_of(copy, "paimon-writer")
    assert [changed[name] for name in shown] == ["WRITER", "db.t", "sequence", 3, b"\10"]
    states = {row["state_name"]: row["state_kind"] for row in sp.arrow.states(copy).to_pylist()}
    assert states[paimon.WRITER_STATE_NAME] == "UNION_LIST"


def test_committables_of_the_dynamic_sink(savepoint: str, tmp_path: Path) -> None:
    (row,) = rows_of(savepoint, "iceberg-dynamic")
    assert (row["table"], row["branch"], row["committed_checkpoint_id"], json.loads(row["manifests"])) == (
        "db.t",
        "main",
        5,
        ["00"],
    )
    copy = written(savepoint, tmp_path / "changed", "iceberg-dynamic", [row | {"branch": "audit"}])
    (changed,) = rows_of(copy, "iceberg-dynamic")
    assert changed["branch"] == "audit"


def test_the_state_of_another_sink_is_refused_by_the_names_of_its_lists(savepoint: str) -> None:
    with pytest.raises(sp.NotFoundError, match=r"has the state 'iceberg-files-committer-state'\. The sink 'kafka' does not"):
        rows_of(savepoint, "iceberg-files-committer", "kafka")


def test_sinks_on_the_command_line(savepoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sink-state", savepoint, "--uid", "kinesis", "--connector", "kinesis", "--json"]) == 0
    assert [row["partition_key"] for row in map(json.loads, capsys.readouterr().out.splitlines())] == ["k", "l", None]
    assert main(["sink-state", savepoint, "--uid", "iceberg-files-committer"]) == 0
    assert "s3://b/m.avro" in capsys.readouterr().out
    assert main(["sink-state", savepoint, "--uid", "paimon", "--connector", "sqs"]) != 0
    assert "version 5 of the committables of a sink is not known" in capsys.readouterr().err


def test_an_empty_state_of_several_sinks_stays_bytes(tmp_path: Path) -> None:
    element = Versioned(1, connectors.encode(aws.SQS_WRITER, 1, {"bufferedRequestEntries": []})).to_bytes()
    writer = sp.arrow.SavepointWriter.new()
    writer.with_list_state("sink", "writer_raw_states", pa.table({"value": [element]}), BYTES).write(str(tmp_path / "s"))
    (row,) = rows_of(str(tmp_path / "s"), "sink")
    assert row["raw"] == element[8:]
    with pytest.raises(OptionError, match="expected one of"):
        rows_of(str(tmp_path / "s"), "sink", "kinesis-streams")
