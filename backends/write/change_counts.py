"""Counts of what a write changes in a state."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """Changes to the entries of one state; ``None`` is a number that nobody knows, because the source savepoint was not read.

    Attributes
    ----------
    written
        Entries that were written from rows.
    inserted, updated
        Those of them whose key was not in the source savepoint, and those that replace an entry of the same key.
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
