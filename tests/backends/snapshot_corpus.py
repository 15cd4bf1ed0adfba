"""Real snapshots for the tests of this package, where they are there."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from state_processor.backends import handles as h

ROOT = Path(os.environ.get("STATE_PROCESSOR_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))

STREAMS = (
    h.ByteStreamStateHandle,
    h.FileStateHandle,
    h.RelativeFileStateHandle,
    h.SegmentFileStateHandle,
    h.EmptySegmentFileStateHandle,
)


def metadata_files(part: str = "") -> list[object]:
    """Every ``_metadata`` below a part of the corpus, as test parameters."""
    files = sorted((ROOT / part).rglob("_metadata"))
    return [pytest.param(f, id=str(f.parent.relative_to(ROOT)), marks=pytest.mark.corpus) for f in files]


def streams(value: object) -> Iterator[h.StreamStateHandle]:
    """All streams in handles, dataclasses and tuples of them, at any depth."""
    if isinstance(value, STREAMS):
        yield value
    elif isinstance(value, tuple):
        for element in value:
            yield from streams(element)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from streams(getattr(value, field.name))
