"""Descriptions of paths that are not snapshots: known file formats by their first bytes, directories by the names in them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

_PICTURED: Final = 40
_TEXT: Final = frozenset(b"\t\n\r").union(range(0x20, 0x7F))

_FORMATS: Final = (
    (b"PAR1", "a Parquet file"),
    (b"PK\x03\x04", "a zip archive; unpack it"),
    (b"\x1f\x8b", "compressed by gzip; unpack it"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it"),
    (b"Obj\x01", "an Avro file"),
    (b"ORC", "an ORC file"),
    (b"ARROW1", "an Arrow file"),
    (b"\xac\xed\x00\x05", "a Java object stream"),
    (b"version https://git-lfs", "a pointer of Git LFS; run git lfs pull"),
    (b"{", "JSON"),
    (b"[", "JSON"),
    (b"<", "XML or HTML, perhaps the answer of a server"),
)
"""First bytes and description of known file formats."""

_DIRECTORIES: Final = (
    ({"offsets", "commits"}, "a checkpoint of Spark Structured Streaming; read its state with spark.read.format('statestore')"),
    ({"_delta_log"}, "a Delta table"),
    ({"metadata", "data"}, "an Iceberg table"),
    ({"_SUCCESS"}, "the output of a Spark job"),
    ({"CURRENT"}, "a working directory of RocksDB. Flink does not restore it; take a savepoint of the job"),
    ({"shared", "taskowned"}, "the checkpoint directory of a job without a complete checkpoint: Flink writes _metadata last"),
)
"""Names in known directories, and their description."""


def described_file(head: bytes) -> str:
    """Return a description of a file by its first bytes; an empty string if they are unknown."""
    for magic, description in _FORMATS:
        if head.startswith(magic):
            return description
    if head and _TEXT.issuperset(head):
        return f"text: {head[:_PICTURED].decode().splitlines()[0]!r}"
    return ""


def described_directory(names: Collection[str]) -> str:
    """Return a description of a directory by the names in it; an empty string if they are unknown."""
    return next((description for expected, description in _DIRECTORIES if expected.issubset(names)), "")
