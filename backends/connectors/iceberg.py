"""Splits of Iceberg's source, and committables of its sink (Sink V2).

Iceberg: ``IcebergSourceSplit``, ``IcebergEnumeratorState``, ``IcebergCommittable``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from state_processor.backends.connectors.connector import Connector
from state_processor.backends.connectors.content_rows import (
    ContentEnumerator,
    ContentSplits,
    Part,
    SplitListing,
    part,
    refuse_new,
)
from state_processor.backends.connectors.content_sinks import committables
from state_processor.backends.connectors.layouts import iceberg
from state_processor.backends.connectors.layouts.codecs import Content
from state_processor.backends.connectors.sinks import SinkConnector
from state_processor.serializers.errors import InvalidRowError

_FILE: Final = pa.struct([("location", pa.string()), ("start", pa.int64()), ("length", pa.int64()), ("deletes", pa.int32())])


def _files(content: Content) -> list[dict[str, Any]]:
    return [{name: task[name] for name in ("location", "start", "length", "deletes")} for task in content["tasks"]]


def _fixed(content: Content, value: Any) -> None:
    raise InvalidRowError("the files of a split can't be changed; remove the split, or change 'file_offset' and 'record_offset'")


def _pending(content: Content) -> Sequence[SplitListing]:
    def entry(split: Content, assignment: str) -> Content:
        return {"split": split, "status": assignment}

    return (
        SplitListing(
            "pendingSplits",
            split=lambda found: found["split"],
            assignment=lambda found: str(found["status"]),
            entry=entry,
            accepts=lambda assignment: True,
        ),
    )


_SPLITS: Final = ContentSplits(
    "splits of Iceberg",
    iceberg.SPLIT,
    (
        part("file_offset", pa.int32(), "fileOffset"),
        part("record_offset", pa.int64(), "recordOffset"),
        Part(pa.field("files", pa.list_(_FILE)), _files, _fixed),
    ),
    split_id=lambda content: ",".join(f"{f['location']}:{f['start']}+{f['length']}" for f in _files(content)),
    new=refuse_new("Iceberg"),
)
ICEBERG: Final = Connector(
    name="iceberg",
    fields=_SPLITS.fields,
    splits=_SPLITS.formats(),
    enumerator=ContentEnumerator(
        "enumerator of Iceberg",
        iceberg.LAYOUTS[iceberg.ENUMERATOR],
        _SPLITS,
        lambda content: int(content["splitVersion"]),
        _pending,
        lambda rows: {"lastEnumeratedPosition": None, "splitVersion": 3, "pendingSplits": [], "enumerationSplitCountHistory": []},
    ).formats(),
)
"""The state of the enumerator has the last snapshot that was planned (``lastEnumeratedPosition``)."""

ICEBERG_SINK: Final = SinkConnector(
    name="iceberg",
    **committables(
        "committables of Iceberg",
        iceberg.LAYOUTS[iceberg.COMMITTABLES],
        part("job_id", pa.string(), "jobId"),
        part("operator_id", pa.string(), "operatorId"),
        part("committed_checkpoint_id", pa.int64(), "checkpointId"),
        part("manifest", pa.string(), "manifest"),
    ),
)
