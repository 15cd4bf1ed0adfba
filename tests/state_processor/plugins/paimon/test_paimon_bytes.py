"""Bytes of Paimon: of its coordinator, written by hand, and of the classes of Paimon 0.9."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from state_processor import connectors
from tests.backends.connectors.java_data import Data


def round_trip(serializer: str, version: int, data: bytes) -> Any:
    content = connectors.decode(serializer, version, data)
    assert connectors.encode(serializer, version, json.loads(json.dumps(content))) == data
    return content


def test_a_state_of_paimons_coordinator_without_a_value() -> None:
    data = Data().utf("user").int(2).raw("0261").bool(True).raw("0262").bool(False).sized(b"\7").data
    content = round_trip("org.apache.paimon.flink.sink.state.CoordinatorStateSerializer", 1, data)
    assert content == {"commitUser": "user", "committerStates": [{"key": "a", "value": None}, {"key": "b", "value": "07"}]}


_SPECIMENS = lzma.decompress(Path(__file__).with_name("paimon_0_9.jsonl.xz").read_bytes()).decode()
OF_PAIMON = [json.loads(line) for line in _SPECIMENS.splitlines()]
"""Bytes that the classes of Paimon 0.9.0 wrote; splits and committables are framed as its connector of Flink does it."""
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
