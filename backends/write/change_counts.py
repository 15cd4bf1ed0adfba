"""Counts of the changes of a write to a state."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """Changes to the entries of one state; ``None`` is an unknown number: the source savepoint was not read.

    ``inserted`` and ``updated``: written entries whose key was not in the source savepoint, and written entries that replace an
    entry.
    """

    written: int = 0  # entries that were written from rows
    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0  # entries of the source savepoint that are gone
    absent: int | None = 0  # keys, or keys of map entries, to delete that were not there

    def __add__(self, added: ChangeCounts) -> ChangeCounts:
        """Return the changes of both."""
        return ChangeCounts(
            self.written + added.written,
            _sum(self.inserted, added.inserted),
            _sum(self.updated, added.updated),
            _sum(self.deleted, added.deleted),
            _sum(self.absent, added.absent),
        )


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
