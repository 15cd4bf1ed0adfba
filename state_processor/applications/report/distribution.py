"""Distribution of the bytes of an operator over its key groups and subtasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from state_processor.states import range_of_subtask

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Distribution:
    """Bytes of parts of one kind, by the number of the part."""

    sizes: Numbers

    @property
    def total(self) -> int:
        """Bytes of all parts."""
        return int(self.sizes.sum())

    @property
    def largest(self) -> int:
        """The number of the largest part."""
        return int(self.sizes.argmax())

    @property
    def most(self) -> int:
        """Bytes of the largest part."""
        return int(self.sizes.max())

    @property
    def empty(self) -> int:
        """Number of parts without bytes."""
        return int((self.sizes == 0).sum())

    @property
    def skew(self) -> float:
        """The largest part as a multiple of the mean."""
        return self.multiple(self.largest)

    def multiple(self, part: int) -> float:
        """Return a part as a multiple of the mean; 0 if all parts are empty."""
        return float(self.sizes[part]) * len(self.sizes) / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class Places:
    """Bytes and entries of states by place, as columns of equal length."""

    subtasks: Numbers
    key_groups: Numbers
    sizes: Numbers
    entries: Numbers


@dataclass(frozen=True, slots=True)
class Subtasks:
    """The keyed state of the subtasks of an operator, by number of the subtask.

    ``sizes`` and ``entries``: bytes and entries.
    """

    sizes: Distribution
    entries: Numbers
    key_groups: Numbers  # number of key groups of each subtask, by Flink's ``KeyGroupRangeAssignment``
    filled: Numbers  # number of key groups with state

    @classmethod
    def of(cls, parallelism: int, max_parallelism: int, places: Places) -> Subtasks:
        """Sum sizes by place for an operator with a parallelism."""
        of_group = places.subtasks * max_parallelism + places.key_groups
        return cls(
            Distribution(summed(places.subtasks, places.sizes, parallelism)),
            summed(places.subtasks, places.entries, parallelism),
            np.array([len(range_of_subtask(i, parallelism, max_parallelism)) for i in range(parallelism)], dtype=np.int64),
            np.bincount(np.unique(of_group) // max_parallelism, minlength=parallelism).astype(np.int64),
        )


def summed(numbers: Numbers, values: Numbers, parts: int) -> Numbers:
    """Return the sums of values by the number of the part."""
    sums = np.zeros(parts, dtype=np.int64)
    np.add.at(sums, numbers, values)
    return sums
