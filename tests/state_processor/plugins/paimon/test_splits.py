"""Splits of the source of Paimon as tables: reads, unchanged bytes, and edits."""

from __future__ import annotations

from state_processor.plugins.paimon import layouts as paimon
from tests.backends.connectors.source_tests import Family, SourceWithoutNewSplitsTests

ROW = {"arity": 0, "values": [], "row": "0000000000000000"}
SPLIT = {
    "id": "id-0",
    "split": {
        "class": "org.apache.paimon.table.source.DataSplit",
        "dataSplitVersion": 9,
        "snapshotId": 1,
        "partition": ROW,
        "bucket": 0,
        "bucketPath": "b",
        "totalBuckets": None,
        "dataFiles": [],
        "dataDeletionFiles": None,
        "isStreaming": True,
        "rawConvertible": False,
    },
    "recordsToSkip": 5,
}
FAMILY = Family(
    paimon.SPLITS,
    1,
    SPLIT,
    paimon.PENDING,
    1,
    {"splits": [SPLIT | {"id": "id-1"}], "currentSnapshotId": 3},
    edit_state=lambda state: state.update(currentSnapshotId=99),
    columns={"records_to_skip": 0},
    fields={"recordsToSkip": 0},
)


class TestPaimon(SourceWithoutNewSplitsTests):
    connector = "paimon"
    family = FAMILY
