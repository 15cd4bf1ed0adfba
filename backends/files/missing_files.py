"""Messages about missing files of a snapshot: the file, one cause, one remedy."""

from __future__ import annotations


def absent(file: str) -> str:
    """Return the message for a missing file."""
    return f"{file} does not exist.\nIt was removed, or not copied with the snapshot: copy it there"


def incomplete(file: str, size: int, recorded_size: int) -> str:
    """Return the message for a file with another size than recorded."""
    return f"{file} has {size} bytes; the snapshot records {recorded_size}.\nIt was copied incompletely: copy it again"
