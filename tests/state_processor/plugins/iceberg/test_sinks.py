"""Sinks of Iceberg: the files that they have left to commit are rows."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor import connectors
from state_processor.cli import main
from state_processor.errors import InvalidRowError
from state_processor.plugins.iceberg import layouts as iceberg
from state_processor.plugins.iceberg.connectors import iceberg_snapshot
from tests.backends.connectors.sink_rows import (
    BYTES,
    COMMITTER_STATE,
    check_unchanged_rows,
    collected,
    elements,
    rows_of,
    written,
)

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


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("sinks") / "savepoint")
    writer = sp.arrow.SavepointWriter.new()
    dynamic = {"tableName": "db.t", "branch": "main", "jobId": "j", "operatorId": "o", "checkpointId": 5, "manifests": ["00"]}
    element = collected(2, connectors.encode(iceberg.DYNAMIC_COMMITTABLES, 2, dynamic))
    writer.with_list_state("iceberg-dynamic", COMMITTER_STATE, pa.table({"value": [element]}), BYTES)
    files = iceberg_snapshot().restore_serializer()
    value = files.deserialize(connectors.encode(iceberg.COMMITTER_STATE, 0, FILES_OF_CHECKPOINTS))
    rows = pa.table({"value": pa.array([value], pa.map_(pa.int64(), pa.binary()))})
    writer.with_list_state("iceberg-files-committer", iceberg.COMMITTER_STATE_NAME, rows, files)
    writer.write(path)
    return path


@pytest.mark.parametrize(
    ("uid", "state"), [("iceberg-dynamic", COMMITTER_STATE), ("iceberg-files-committer", iceberg.COMMITTER_STATE_NAME)]
)
def test_unchanged_rows_are_the_same_bytes(savepoint: str, tmp_path: Path, uid: str, state: str) -> None:
    check_unchanged_rows(savepoint, tmp_path / "copy", uid, state)


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


def test_files_on_the_command_line(savepoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sink-state", savepoint, "--uid", "iceberg-files-committer"]) == 0
    assert "s3://b/m.avro" in capsys.readouterr().out
