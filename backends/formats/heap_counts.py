"""Check of the counts of entries of unread states in heap files, by the sizes of entries.

In each key group, the states follow each other without lengths: an id, a count, and the entries. A wrong count leads to a wrong
end of the key group. For entries of a fixed size, the end is computed; for other entries, the count is only compared with the
remaining bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from state_processor.backends.formats.entry_runs import Buffer
from state_processor.serializers.codec import VARIABLE

HEAD: Final = 6
"""Bytes before the entries of a state: its id and the count."""

_NUMBER: Final = np.array([1 << 8, 1, 0, 0, 0, 0])
_COUNT: Final = np.array([0, 0, 1 << 24, 1 << 16, 1 << 8, 1])

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EntrySizes:
    """Sizes of entries by state: the fixed size or ``VARIABLE``, and the minimum size."""

    fixed: Positions
    smallest: Positions


class Damage(NamedTuple):
    """The position of a wrong count in a key group.

    Attributes
    ----------
    block
        Index of the key group.
    position
        Position in the buffer.
    problem
        Description of the damage.
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
        Start of the next state of each key group, and end of each key group.
    unread
        For each key group and state, whether the state follows; updated.
    sizes
        Sizes of the entries. The walk through a key group stops at entries of variable size.

    Returns
    -------
    Damage or None
        The first damage.
    """
    positions = positions.copy()
    blocks = np.arange(len(positions))
    while len(blocks):
        complete: npt.NDArray[np.bool_] = ~np.any(unread[blocks], axis=1)
        sizes_left = ends[blocks] - positions[blocks]
        wrong = np.flatnonzero(np.where(complete, sizes_left != 0, sizes_left < HEAD))
        if len(wrong):
            at = blocks[wrong[0]]
            bytes_left = int(sizes_left[wrong[0]])
            problem = (
                f"{bytes_left} bytes are left over after the last state"
                if complete[wrong[0]]
                else (f"{unread[at].sum()} states have to follow, {max(bytes_left, 0)} bytes are left")
            )
            return Damage(int(at), int(positions[at]), problem)
        blocks, sizes_left = blocks[~complete], sizes_left[~complete]
        head = buffer[positions[blocks][:, None] + np.arange(HEAD)].astype(np.int64)
        numbers, counts = head @ _NUMBER, (head @ _COUNT).astype(np.int32).astype(np.int64)
        is_state = numbers < unread.shape[1]
        states = np.where(is_state, numbers, 0)
        possible = is_state & unread[blocks, states] & (counts >= 0) & (counts * sizes.smallest[states] <= sizes_left - HEAD)
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
