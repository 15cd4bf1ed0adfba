"""The state of the source of Paimon, for tests of all sources."""

from __future__ import annotations

from state_processor.plugins.paimon import layouts as paimon
from tests.backends.connectors.split_families import Family

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
PAIMON = Family(
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
FAMILIES = {"paimon": PAIMON}
