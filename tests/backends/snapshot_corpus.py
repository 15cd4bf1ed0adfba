"""Real snapshots for the tests of this package: the repository's own, and the external corpus where it is there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cache

import pytest

from state_processor.backends.metadata import handles as h
from tests.archives import unpacked
from tests.corpus import CORPUS, FIXTURES

STREAMS = (
    h.ByteStreamStateHandle,
    h.FileStateHandle,
    h.RelativeFileStateHandle,
    h.SegmentFileStateHandle,
    h.EmptySegmentFileStateHandle,
)


@cache
def metadata_files(generated: bool = False) -> list[object]:
    """Every ``_metadata`` of real snapshots, as test parameters.

    Parameters
    ----------
    generated
        Only cases with an ``expected.json``.
    """
    found = []
    for label, root in (("", unpacked()), ("", FIXTURES), ("corpus:", CORPUS / "generated" if generated else CORPUS)):
        for file in sorted(root.rglob("_metadata")):
            directory = next((d for d in file.parents if (d / "expected.json").exists() or d == root), root)
            if not generated or directory != root:
                found.append(pytest.param(file, id=label + str(file.parent.relative_to(root))))
    return found


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
