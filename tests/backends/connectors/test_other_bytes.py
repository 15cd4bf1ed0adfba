"""Bytes of connectors, made from their sources by an encoder of their own: versions that their current releases do not write."""

from __future__ import annotations

import json
import lzma
from typing import Any

import pytest

import state_processor as sp
from state_processor import connectors
from tests.backends.connectors.java_data import Data
from tests.corpus import FIXTURES

DYNAMIC = "org.apache.iceberg.flink.sink.dynamic.DynamicCommittableSerializer"
JOB = Data().utf("job").utf("operator").long(7).sized(b"\1\2").data


def round_trip(serializer: str, version: int, data: bytes) -> Any:
    content = connectors.decode(serializer, version, data)
    assert connectors.encode(serializer, version, json.loads(json.dumps(content))) == data
    return content


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            Data().utf("db.t").utf("main").int(3).int(0).bool(True).int(2).int(1).int(5).data,
            {"schemaId": 3, "specId": 0, "upsertMode": True, "equalityFields": [1, 5]},
        ),
        (
            Data().utf("db.t").utf("main").int(-1).int(0).bool(False).int(0).data,
            {"schemaId": -1, "specId": 0, "upsertMode": False, "equalityFields": []},
        ),
        (Data().utf("db.t").utf("main").data, {}),
    ],
)
def test_the_target_of_icebergs_first_dynamic_sink(target: bytes, expected: Any) -> None:
    content = round_trip(DYNAMIC, 1, target + JOB)
    rest = {"jobId": "job", "operatorId": "operator", "checkpointId": 7, "manifest": "0102"}
    assert content == {"tableName": "db.t", "branch": "main", **expected, **rest}
    with pytest.raises(sp.CorruptSnapshotError):
        connectors.decode(DYNAMIC, 1, target + JOB[:-1])


def test_a_state_of_paimons_coordinator_without_a_value() -> None:
    data = Data().utf("user").int(2).raw("0261").bool(True).raw("0262").bool(False).sized(b"\7").data
    content = round_trip("org.apache.paimon.flink.sink.state.CoordinatorStateSerializer", 1, data)
    assert content == {"commitUser": "user", "committerStates": [{"key": "a", "value": None}, {"key": "b", "value": "07"}]}


SPLITS = "org.apache.iceberg.flink.source.split.IcebergSourceSplitSerializer"


def specimens(name: str) -> list[Any]:
    text = lzma.decompress((FIXTURES / "connectors" / f"{name}.jsonl.xz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


REAL = specimens("iceberg_1_5_splits")
"""Splits of version 1 that the classes of Iceberg 1.5.2 wrote, and the JSON of their tasks by its ``FileScanTaskParser``."""
NOT_WRITTEN = {"plain-11", "plain-12", "plain-13", "plain-14", *(f"partitioned-{number}" for number in range(7))}


@pytest.mark.parametrize("found", REAL, ids=lambda found: found["name"])
def test_first_splits_of_iceberg(found: Any) -> None:
    data = bytes.fromhex(found["hex"])
    content = connectors.decode(SPLITS, 1, data)
    assert connectors.encode(SPLITS, 1, content) == data
    assert (content["fileOffset"], content["recordOffset"]) == (1, 77)
    for task, expected in zip(content["tasks"], found["tasks"], strict=True):
        read = json.loads(task["json"])
        for name in ("schema", "spec", "start", "length", "residual-filter"):
            assert read[name] == expected[name]
        assert read["data-file"]["partition"] == [*expected["data-file"]["partition"].values()]
        assert read["data-file"].get("split-offsets") == expected["data-file"].get("split-offsets")
        assert [file["equality-ids"] for file in read["delete-files"]] == [[1]] * len(expected["delete-files"])
    plain = json.loads(json.dumps(content))
    if found["name"] in NOT_WRITTEN:
        with pytest.raises(sp.InvalidRowError, match="version 1 of a split"):
            connectors.encode(SPLITS, 1, plain)
    else:
        written = connectors.encode(SPLITS, 1, plain)
        assert connectors.decode(SPLITS, 1, written) == content
        assert written.count(b"spec-id") == data.count(b"spec-id")  # tasks share what Iceberg shares


def test_numbers_in_filters_are_those_of_java() -> None:
    filters = {found["name"]: [task["residual-filter"] for task in found["tasks"]] for found in REAL}
    texts = [task["json"] for found in REAL for task in connectors.decode(SPLITS, 1, bytes.fromhex(found["hex"]))["tasks"]]
    assert filters["plain-4"][0]["right"]["value"] == 1e10
    assert any('"value":1.0E10}' in text for text in texts)
    assert any('"value":5.0E-4}' in text for text in texts)


def test_a_long_text_in_a_java_object() -> None:
    """Java writes text of more than 65535 bytes in another form. The schemas of wide tables are as long."""
    (found,) = [found for found in REAL if found["name"] == "plain-2"]
    content = connectors.decode(SPLITS, 1, bytes.fromhex(found["hex"]))
    task = json.loads(content["tasks"][0]["json"])
    task["schema"]["fields"][1]["doc"] = "x" * 70000
    content["tasks"][0]["json"] = text = json.dumps(task, ensure_ascii=False, separators=(",", ":"))
    written = connectors.encode(SPLITS, 1, json.loads(json.dumps(content)))
    assert (
        b"\x7c" + len(json.dumps(task["schema"], ensure_ascii=False, separators=(",", ":")).encode()).to_bytes(8, "big")
        in written
    )
    assert json.loads(connectors.decode(SPLITS, 1, written)["tasks"][0]["json"]) == json.loads(text)


OF_PAIMON = specimens("paimon_0_9")
"""What the classes of Paimon 0.9.0 wrote; splits and committables are framed as its connector of Flink does it."""
FILE = {
    "fileSize": 1024,
    "rowCount": 77,
    "minSequenceNumber": -5,
    "maxSequenceNumber": (1 << 63) - 1,
    "schemaId": 3,
    "level": 2,
    "creationTimeMillis": 1700000000123,
}
NAMES = ["data-1.orc", "data-2.orc", "data-3.orc"]


@pytest.mark.parametrize("found", OF_PAIMON, ids=lambda found: found["name"])
def test_bytes_of_paimon_0_9(found: Any) -> None:
    content = round_trip(found["serializer"], found["version"], bytes.fromhex(found["hex"]))
    if found["name"].startswith("split"):
        _check_split(content)
    elif found["name"] in ("full", "manifest"):
        (message, *rest) = content.get("commitMessages", [content])
        _check_message(message)
        assert len(rest) == (found["name"] == "manifest")
    if found["name"] == "manifest":
        assert (content["identifier"], content["watermark"]) == (42, 1700000000000)
        assert content["logOffsets"] == [{"bucket": 0, "offset": 5}, {"bucket": 3, "offset": -(1 << 63)}]


def _check_message(message: Any) -> None:
    assert message["partition"]["values"][1] == {"type": "STRING", "value": "größe 表 😀 lang genug"}
    data, compact, index = (message[name] for name in ("dataIncrement", "compactIncrement", "indexIncrement"))
    listed = {
        name: [NAMES.index(file["fileName"]) + 1 for file in files] for part in (data, compact) for name, files in part.items()
    }
    assert listed == {
        "newFiles": [1, 2],
        "deletedFiles": [3],
        "changelogFiles": [1],
        "compactBefore": [1],
        "compactAfter": [2, 3],
    }
    for file, source, deleted, bytes_ in zip(
        [*data["newFiles"], *data["deletedFiles"]], ("APPEND", "COMPACT", None), (5, None, 0), ("01ff", None, ""), strict=True
    ):
        assert file | FILE == file
        assert (file["fileSource"], file["deleteRowCount"], file["embeddedIndex"]) == (source, deleted, bytes_)
        assert file["valueStats"]["nullCounts"] == [None]
    assert [file["fileName"] for file in index["newIndexFiles"]] == ["index-1", "index-2"]
    assert index["deletedIndexFiles"][0]["dvRanges"] == [
        {"dataFileName": "data-1.orc", "offset": 1, "length": 22},
        {"dataFileName": "data-表.orc", "offset": 23, "length": 7},
    ]


def _check_split(content: Any) -> None:
    split = content["split"]
    assert (split["dataSplitVersion"], content["recordsToSkip"]) == (2, 77)
    if content["id"] == "id-0":
        assert [file["fileName"] for file in split["beforeFiles"]] == ["data-3.orc"]
        assert split["beforeDeletionFiles"] == [None]
        assert split["dataDeletionFiles"] == [{"path": "/dv", "offset": 1, "length": 22}, None]
        assert (split["snapshotId"], split["bucket"], split["bucketPath"]) == (9, 3, "/w/größe/bucket-3")
    else:
        assert (split["beforeFiles"], split["beforeDeletionFiles"], split["dataDeletionFiles"]) == ([], None, None)
