"""Counts of the changes of a write to a state."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """Changes to the entries of one state; ``None`` is an unknown number: the source savepoint was not read.

    Attributes
    ----------
    written
        Entries that were written from rows.
    inserted, updated
        Written entries whose key was not in the source savepoint, and written entries that replace an entry.
    deleted
        Entries of the source savepoint that are gone.
    absent
        Keys, or keys of map entries, to delete that were not there.
    """

    written: int = 0
    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0
    absent: int | None = 0

    def __add__(self, other: ChangeCounts) -> ChangeCounts:
        """Return the changes of both."""
        return ChangeCounts(
            self.written + other.written,
            _sum(self.inserted, other.inserted),
            _sum(self.updated, other.updated),
            _sum(self.deleted, other.deleted),
            _sum(self.absent, other.absent),
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
