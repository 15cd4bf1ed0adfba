"""Counts of entries in key groups of heap files, of states that are not read: as far as the sizes of entries tell.

In each key group, the states follow each other without a length: a number, a count, and the entries. If one count is wrong,
what follows does not lead to the end of the key group. Entries of one size are passed by arithmetic; of other entries only the
count is compared with the bytes that are left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from state_processor.backends.formats.entry_runs import Buffer
from state_processor.serializers.base import VARIABLE

HEAD: Final = 6
"""Bytes in front of the entries of a state: its number and the count."""

_NUMBER: Final = np.array([1 << 8, 1, 0, 0, 0, 0])
_COUNT: Final = np.array([0, 0, 1 << 24, 1 << 16, 1 << 8, 1])

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EntrySizes:
    """Bytes of an entry of each state: of all entries, or ``VARIABLE``, and of the smallest entry."""

    fixed: Positions
    smallest: Positions


class Damage(NamedTuple):
    """The place where the counts of a key group do not lead to its end.

    Attributes
    ----------
    block
        Index of the key group.
    position
        Position in the buffer.
    problem
        What is wrong there.
    """

    block: int
    position: int
    problem: str


def find_damage(
    buffer: Buffer, positions: Positions, ends: Positions, unread: npt.NDArray[np.bool_], sizes: EntrySizes
) -> Damage | None:
    """Follow the counts of all key groups in a buffer at once.

    Parameters
    ----------
    buffer
        The key groups.
    positions, ends
        Where the next state of each key group begins, and where the key group ends.
    unread
        For each key group and state, whether the state follows. It is changed.
    sizes
        Sizes of the entries. The walk through a key group stops at entries that differ in size.

    Returns
    -------
    Damage or None
        The first damage that is found.
    """
    positions = positions.copy()
    blocks = np.arange(len(positions))
    while len(blocks):
        complete: npt.NDArray[np.bool_] = ~np.any(unread[blocks], axis=1)
        left = ends[blocks] - positions[blocks]
        wrong = np.flatnonzero(np.where(complete, left != 0, left < HEAD))
        if len(wrong):
            at = blocks[wrong[0]]
            bytes_left = int(left[wrong[0]])
            problem = (
                f"{bytes_left} bytes are left over behind the last state"
                if complete[wrong[0]]
                else (f"{unread[at].sum()} states have to follow, {max(bytes_left, 0)} bytes are left")
            )
            return Damage(int(at), int(positions[at]), problem)
        blocks, left = blocks[~complete], left[~complete]
        head = buffer[positions[blocks][:, None] + np.arange(HEAD)].astype(np.int64)
        numbers, counts = head @ _NUMBER, (head @ _COUNT).astype(np.int32).astype(np.int64)
        known = numbers < unread.shape[1]
        states = np.where(known, numbers, 0)
        possible = known & unread[blocks, states] & (counts >= 0) & (counts * sizes.smallest[states] <= left - HEAD)
        wrong = np.flatnonzero(~possible)
        if len(wrong):
            at, first = blocks[wrong[0]], wrong[0]
            problem = f"{counts[first]} entries of state number {numbers[first]} are impossible here"
            return Damage(int(at), int(positions[at]), problem)
        unread[blocks, states] = False
        passable = (counts == 0) | (sizes.fixed[states] != VARIABLE)
        positions[blocks] += HEAD + counts * np.where(passable, sizes.fixed[states], 0) * (counts > 0)
        blocks = blocks[passable]
    return None
