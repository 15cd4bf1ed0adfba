"""Files of one subtask from blobs, without tombstones and entries of a source savepoint."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from state_processor.backends.metadata import handles as h
from state_processor.backends.write.keyed_writer import KeyedStateWriter


def write_blobs(writer: KeyedStateWriter, blobs: Iterable[pa.RecordBatch]) -> h.KeyedStateHandle:
    """Write a subtask's file from its blobs, sorted by key group and state."""
    for batch in blobs:
        places = zip(*(batch.column(name).to_pylist() for name in ("key_group", "state")), strict=True)
        for place, blob in zip(places, batch.column("blob"), strict=True):
            writer.add(*place, memoryview(blob.as_buffer()))
    return writer.close()
