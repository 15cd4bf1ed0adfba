"""Bytes of Iceberg that its current releases do not write: of its first dynamic sink by hand, and first splits of its classes."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor import connectors
from tests.backends.connectors.java_data import Data

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


SPLITS = "org.apache.iceberg.flink.source.split.IcebergSourceSplitSerializer"
_SPECIMENS = lzma.decompress(Path(__file__).with_name("splits_1_5.jsonl.xz").read_bytes()).decode()
REAL = [json.loads(line) for line in _SPECIMENS.splitlines()]
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
