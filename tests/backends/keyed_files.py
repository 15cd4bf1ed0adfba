"""Operators of one file of keyed state, canonical or of the heap."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.serializers.base import TypeSerializer
from tests.backends.state_files import (
    NAMESPACE_OF_VOID,
    StateFile,
    canonical,
    heap,
    keyed_header,
    operator,
)

CANONICAL, HEAP = "canonical", "heap"
FORMATS = pytest.mark.parametrize("form", [CANONICAL, HEAP])

Entry = tuple[bytes, bytes, bytes]
"""Key, namespace, value."""


def file(
    form: str,
    key: TypeSerializer,
    states: Sequence[bytes],
    entries: Mapping[int, Mapping[int, Sequence[Entry]]],
    key_groups: tuple[int, int] = (0, 127),
    prefix: int = 1,
    compressed: bool = False,
) -> StateFile:
    """``{key group: {state id: [(key, namespace, value)]}}`` in one of the two formats."""
    header = keyed_header(key, states, compressed)
    if form == CANONICAL:
        framed = {g: {s: [(k + n, v) for k, n, v in found] for s, found in of.items()} for g, of in entries.items()}
        return canonical(header, key_groups, framed, prefix, compressed)
    plain = {g: {s: [n + k + v for k, n, v in found] for s, found in of.items()} for g, of in entries.items()}
    return heap(header, key_groups, plain, len(states), compressed)


def code(form: str) -> int:
    return 7 if form == CANONICAL else 12


def one(form: str, *args: Any, max_parallelism: int = 128, **kwargs: Any) -> OperatorState:
    """An operator of one subtask with such a file."""
    return operator(file(form, *args, **kwargs).handle(code(form)), max_parallelism=max_parallelism)


def listed(form: str, *elements: bytes) -> bytes:
    return b",".join(elements) if form == CANONICAL else struct.pack(">i", len(elements)) + b"".join(elements)


def mapped(form: str, key: bytes, namespace: bytes, entries: Sequence[tuple[bytes, bytes | None]]) -> list[Entry]:
    """A map state's entries: one each outside of the heap, one of all inside."""
    flagged = [(k, b"\1" if v is None else b"\0" + v) for k, v in entries]
    if form == CANONICAL:
        return [(key, namespace + k, v) for k, v in flagged]
    return [(key, namespace, struct.pack(">i", len(flagged)) + b"".join(k + v for k, v in flagged))]


def void(key: bytes, value: bytes) -> Entry:
    return key, NAMESPACE_OF_VOID, value
