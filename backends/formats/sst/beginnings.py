"""Beginnings of keys: each covers the keys that begin with it, which follow each other in a table."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


def behind(beginning: bytes) -> bytes:
    """Return the least key behind all that begin with these bytes; they begin with a key group, never 0xFF."""
    stem = beginning.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1])


class Beginnings:
    """Beginnings of keys in order. None of them begins with another one.

    Parameters
    ----------
    given
        The beginnings, in any order. Those that begin with another one are left out.
    """

    def __init__(self, beginnings: Iterable[bytes]) -> None:
        self._all: list[bytes] = []
        for beginning in sorted(beginnings):
            if not self._all or not beginning.startswith(self._all[-1]):
                self._all.append(beginning)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._all)

    def covering(self, key: bytes) -> bytes | None:
        """Return the beginning that a key begins with; ``None`` if there is none."""
        # The beginnings of a key and the key enclose only keys with the same beginning
        place = bisect_right(self._all, key) - 1
        return self._all[place] if place >= 0 and key.startswith(self._all[place]) else None

    def behind(self, key: bytes) -> bytes:
        """Return a key, or the least key behind it that does not begin with any of the beginnings."""
        while (beginning := self.covering(key)) is not None:
            key = behind(beginning)
        return key

    def between(self, first: bytes, last: bytes) -> list[bytes]:
        """Return the beginnings of keys that can be from ``first`` to ``last``, both included."""
        place = bisect_left(self._all, first)
        if place and first.startswith(self._all[place - 1]):
            place -= 1
        return self._all[place : bisect_right(self._all, last)]
