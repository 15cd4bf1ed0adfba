"""Cache of headers of state files. Most subtasks of an operator have the same header; a process reads it once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeVar

from state_processor.backends.state.state_headers import KeyedHeader, OperatorHeader
from state_processor.serializers.core.unread import UnreadSnapshot
from state_processor.serializers.errors import StateProcessorError
from state_processor.serializers.io import DataInput
from state_processor.serializers.user_registrations import Registrations, current_registrations

KEPT: Final = 32
"""Number of headers in the cache, and of results about them."""

DESCRIBED: Final = 256
"""Number of states of these headers in each cache of something about a state."""

Header = TypeVar("Header", KeyedHeader, OperatorHeader)


def read_header(read: Callable[[DataInput], Header], data: bytes | memoryview, context: str, flink_major: int) -> Header:
    """Read a header, or return the header that was read from the same bytes before.

    ``read``: function that reads the header. ``data``: the start of the file, with at least the header. ``context``: the file,
    for messages. ``flink_major``: the major version of the Flink that wrote it.
    """
    header = _header_of(read, bytes(data), flink_major, current_registrations())
    return header or read(DataInput(data, context, flink_major=flink_major))


@lru_cache(maxsize=KEPT)
def _header_of(read: Callable[[DataInput], Header], data: bytes, flink_major: int, registrations: Registrations) -> Header | None:
    """Return a header that is read without a problem; ``None`` otherwise: then a message has to name the file.

    The result depends on ``registrations``.
    """
    try:
        header = read(DataInput(data, "", flink_major=flink_major))
    except StateProcessorError:
        return None
    return None if any(isinstance(snapshot, UnreadSnapshot) for snapshot in header.snapshots) else header


class Same:
    """The key of a cache, equal to keys with the same objects. Objects may be unhashable; the key keeps them alive."""

    __slots__ = ("objects",)

    def __init__(self, *objects: Any) -> None:
        self.objects = objects

    def __hash__(self) -> int:
        return hash(tuple(map(id, self.objects)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and [*map(id, self.objects)] == [*map(id, other.objects)]
