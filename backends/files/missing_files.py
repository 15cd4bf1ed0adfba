"""Messages about files that a snapshot refers to and that are not there: the file, one cause, one remedy."""

from __future__ import annotations


def absent(file: str) -> str:
    """Return the message for a file that is not there."""
    return f"{file} does not exist.\nIt was removed, or not copied with the snapshot: copy it there"


def incomplete(file: str, size: int, recorded_size: int) -> str:
    """Return the message for a file that does not have the recorded size."""
    return f"{file} has {size} bytes, the snapshot says {recorded_size}.\nIt was copied incompletely: copy it again"
