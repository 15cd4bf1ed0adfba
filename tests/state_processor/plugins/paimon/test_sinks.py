"""Sinks of Paimon: the commits that they have left, and the state of their writers, are rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor import connectors
from state_processor.backends.connectors.connector import Versioned
from state_processor.cli import main
from state_processor.errors import InvalidRowError
from state_processor.plugins.paimon import layouts as paimon
from tests.backends.connectors.sink_rows import BYTES, COMMITTER_STATE, check_unchanged_rows, elements, rows_of, written

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


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("sinks") / "savepoint")
    writer = sp.arrow.SavepointWriter.new()
    for uid, versioned in (
        ("paimon", Versioned(5, connectors.encode(paimon.MANIFESTS, 5, COMMIT))),
        ("paimon-tables", Versioned(1, connectors.encode(paimon.WRAPPED_MANIFESTS, 1, WRAPPED))),
    ):
        rows = pa.table({"value": [versioned.to_bytes()]})
        writer.with_list_state(uid, COMMITTER_STATE, rows, BYTES)
    five = sp.Types.TUPLE([sp.Types.STRING(), sp.Types.STRING(), BYTES, sp.Types.INT(), BYTES])
    state = {"f0": "db.t", "f1": "sequence", "f2": bytes.fromhex("00000000" + "00" * 8), "f3": 2, "f4": b"\7"}
    fields = zip(state, (pa.string(), pa.string(), pa.binary(), pa.int32(), pa.binary()), strict=True)
    rows = pa.table({"value": pa.array([state], pa.struct([*fields]))})
    writer.with_union_state("paimon-writer", paimon.WRITER_STATE_NAME, rows, five)
    writer.write(path)
    return path


@pytest.mark.parametrize(
    ("uid", "state"),
    [("paimon", COMMITTER_STATE), ("paimon-tables", COMMITTER_STATE), ("paimon-writer", paimon.WRITER_STATE_NAME)],
)
def test_unchanged_rows_are_the_same_bytes(savepoint: str, tmp_path: Path, uid: str, state: str) -> None:
    check_unchanged_rows(savepoint, tmp_path / "copy", uid, state)


def test_commits_of_paimon(savepoint: str, tmp_path: Path) -> None:
    (row,) = rows_of(savepoint, "paimon")
    assert (row["role"], row["commit_identifier"], row["watermark"]) == ("COMMITTABLE", 9, None)
    assert row["files"] == [
        {"partition": '[{"type": "INT", "value": 3}]', "bucket": 1, "new_files": [], "compact_before": [], "compact_after": []}
    ]
    copy = written(savepoint, tmp_path / "changed", "paimon", [row | {"watermark": 77}])
    (element,) = elements(copy, "paimon", COMMITTER_STATE)
    found = connectors.decode("ManifestCommittableSerializer", 5, element[12:])
    assert found == connectors.decode("ManifestCommittableSerializer", 5, connectors.encode(paimon.MANIFESTS, 5, COMMIT)) | {
        "watermark": 77
    }
    assert elements(written(savepoint, tmp_path / "none", "paimon", []), "paimon", COMMITTER_STATE) == []
    with pytest.raises(InvalidRowError, match="'files' can't be changed"):
        written(savepoint, tmp_path / "files", "paimon", [row | {"files": []}])


def test_commits_of_many_tables_of_paimon(savepoint: str, tmp_path: Path) -> None:
    rows = rows_of(savepoint, "paimon-tables")
    assert [row["table"] for row in rows] == ["db.a", "db.b"]
    copy = written(savepoint, tmp_path / "one", "paimon-tables", rows[1:])
    (element,) = elements(copy, "paimon-tables", COMMITTER_STATE)
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


def test_commits_are_refused_as_those_of_another_sink(savepoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sink-state", savepoint, "--uid", "paimon", "--connector", "kafka"]) != 0
    assert "version 5 of the committables of a sink is not known" in capsys.readouterr().err
