"""Splits of the source of Iceberg as tables: reads, unchanged bytes, and edits."""

from __future__ import annotations

import json
from typing import Any

from state_processor.plugins.iceberg import layouts as iceberg
from tests.backends.connectors.source_tests import Family, SourceWithoutNewSplitsTests

TASK = json.dumps({"data-file": {"file-path": "s3://b/a.parquet"}, "start": 0, "length": 9, "delete-files": []})
FILE: dict[str, Any] = {"json": TASK, "location": "s3://b/a.parquet", "start": 0, "length": 9, "deletes": 0}
OTHER_FILE = FILE | {"json": TASK.replace("a.parquet", "b.parquet"), "location": "s3://b/b.parquet"}
SPLIT = {"fileOffset": 0, "recordOffset": 3, "tasks": [FILE]}
FAMILY = Family(
    iceberg.SPLITS,
    3,
    SPLIT,
    iceberg.ENUMERATOR,
    2,
    {
        "lastEnumeratedPosition": {"snapshotId": 5, "snapshotTimestampMs": 6},
        "positionVersion": 1,
        "splitVersion": 3,
        "pendingSplits": [{"split": SPLIT | {"tasks": [OTHER_FILE]}, "status": "UNASSIGNED"}],
        "enumerationSplitCountHistory": [1],
    },
    edit_state=lambda state: state["lastEnumeratedPosition"].update(snapshotId=99),
    columns={"record_offset": 8},
    fields={"recordOffset": 8},
)


class TestIceberg(SourceWithoutNewSplitsTests):
    connector = "iceberg"
    family = FAMILY
