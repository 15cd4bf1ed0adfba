"""Splits of Paimon's source.

Paimon: ``FileStoreSourceSplit``, ``PendingSplitsCheckpoint``.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from state_processor.backends.connectors.connector import Connector
from state_processor.backends.connectors.content_rows import (
    ContentEnumerator,
    ContentSplits,
    Part,
    SplitListing,
    json_part,
    part,
    refuse_new,
)
from state_processor.backends.connectors.layouts import paimon
from state_processor.backends.connectors.layouts.codecs import Content
from state_processor.serializers.errors import InvalidRowError


def _files(content: Content) -> list[str]:
    return [file["fileName"] for file in content["split"]["dataFiles"]]


def _fixed(content: Content, value: Any) -> None:
    raise InvalidRowError("the files of a split can't be changed; remove the split, or change 'records_to_skip'")


_SPLITS: Final = ContentSplits(
    "splits of Paimon",
    paimon.LAYOUTS[paimon.SPLITS],
    (
        part("records_to_skip", pa.int64(), "recordsToSkip"),
        part("snapshot_id", pa.int64(), "split", "snapshotId"),
        part("bucket", pa.int32(), "split", "bucket"),
        part("bucket_path", pa.string(), "split", "bucketPath"),
        json_part("partition", "split", "partition", "values"),
        Part(pa.field("files", pa.list_(pa.string())), _files, _fixed),
    ),
    split_id=lambda content: str(content["id"]),
    new=refuse_new("Paimon"),
)
PAIMON: Final = Connector(
    name="paimon",
    fields=_SPLITS.fields,
    splits=_SPLITS.formats(),
    enumerator=ContentEnumerator(
        "enumerator of Paimon",
        paimon.LAYOUTS[paimon.PENDING],
        _SPLITS,
        lambda content: max(paimon.LAYOUTS[paimon.SPLITS]),
        lambda content: (SplitListing("splits"),),
        lambda rows: {"splits": [], "currentSnapshotId": None},
    ).formats(),
)
"""The state of the enumerator has the next snapshot to read (``currentSnapshotId``)."""
