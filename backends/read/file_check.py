"""The files of a snapshot: whether each is there, with the bytes that the snapshot refers to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.state_listing import operator_label, subtask_label
from state_processor.serializers.errors import StateProcessorError

_STREAMS = get_args(h.StreamStateHandle)


def check_files(snapshot: Snapshot) -> tuple[int, list[str]]:
    """Return the number of files and parts of files that a snapshot refers to, and a message for each that is not there."""
    checked: set[h.StreamStateHandle] = set()
    problems: list[str] = []
    for context, handle in _streams(snapshot):
        if handle in checked:
            continue
        checked.add(handle)
        try:
            stream = snapshot.open(handle, context)
            stream.read(max(len(stream) - 1, 0), min(len(stream), 1))
        except StateProcessorError as problem:
            problems.append(str(problem))
    return len(checked), problems


def _streams(snapshot: Snapshot) -> Iterator[tuple[str, h.StreamStateHandle]]:
    for operator in snapshot.metadata.operators:
        for stream in _inside(operator.coordinator_state):
            yield operator_label(operator), stream
        for subtask in operator.subtasks:
            for stream in _inside(subtask):
                yield subtask_label(operator, subtask), stream


def _inside(value: Any) -> Iterator[h.StreamStateHandle]:
    """Yield the streams in a handle, at any depth, that are in files."""
    if isinstance(value, (h.FileStateHandle, h.RelativeFileStateHandle, h.SegmentFileStateHandle)):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _inside(part)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _inside(getattr(value, field.name))
