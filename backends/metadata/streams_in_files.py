"""The streams of a snapshot at any depth of ``_metadata``: streams in files, and others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar

from state_processor.backends.metadata import handles as h

StreamInFile: TypeAlias = h.FileStateHandle | h.RelativeFileStateHandle | h.SegmentFileStateHandle

_IN_FILES: Final = (h.FileStateHandle, h.RelativeFileStateHandle, h.SegmentFileStateHandle)
_T = TypeVar("_T")


def streams_in_files(value: Any) -> Iterator[StreamInFile]:
    """Yield the streams stored in files that a handle, a subtask, an operator or a tuple of them contains."""
    return streams_of(value, *_IN_FILES)


def streams_of(value: Any, *kinds: type[_T]) -> Iterator[_T]:
    """Yield the streams of some classes that a handle, a subtask, an operator or a tuple of them contains."""
    if isinstance(value, kinds):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from streams_of(part, *kinds)
    elif is_dataclass(value):
        for field in fields(value):
            yield from streams_of(getattr(value, field.name), *kinds)


def with_streams(value: _T, change: Callable[[StreamInFile], h.StreamStateHandle]) -> _T:
    """Return a value with its file streams replaced; the value itself if no stream changes."""
    return _changed(value, change)  # type: ignore[no-any-return]


def _changed(value: Any, change: Callable[[StreamInFile], h.StreamStateHandle]) -> Any:
    if isinstance(value, _IN_FILES):
        return change(value)
    if isinstance(value, tuple):
        parts = tuple([_changed(part, change) for part in value])
        return parts if any(new is not old for new, old in zip(parts, value, strict=True)) else value
    if is_dataclass(value) and not isinstance(value, type):
        now = {field.name: getattr(value, field.name) for field in fields(value)}
        changes = {name: new for name, old in now.items() if (new := _changed(old, change)) is not old}
        return replace(value, **changes) if changes else value
    return value
