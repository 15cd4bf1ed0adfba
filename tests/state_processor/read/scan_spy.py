"""What queries ask of scans: columns, and keys to look up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from state_processor.read.scans import StateScan


class Asked(list[tuple[list[str], frozenset[Any] | None]]):
    """The reads so far: columns (fields of structs as ``value.id``) and keys."""

    batches = 0

    def one(self) -> tuple[list[str], frozenset[Any] | None]:
        (only,) = self
        return only


def spied(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked, read = Asked(), StateScan.read

    def recorded(scan: StateScan, wanted: pa.Schema | None = None, keys: frozenset[Any] | None = None) -> Iterator[Any]:
        asked.append((paths(scan.schema if wanted is None else wanted), keys))
        for batch in read(scan, wanted, keys):
            asked.batches += 1
            yield batch

    monkeypatch.setattr(StateScan, "read", recorded)
    return asked


def paths(schema: pa.Schema) -> list[str]:
    return [path for field in schema for path in _paths(field)]


def _paths(field: pa.Field) -> list[str]:
    if not pa.types.is_struct(field.type) or not field.type.num_fields:
        return [field.name]
    return [f"{field.name}.{path}" for inner in field.type for path in _paths(inner)]
