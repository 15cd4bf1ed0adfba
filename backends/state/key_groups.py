"""Key groups: slices of the key space, and the subtasks that own them.

The rules of Flink's ``KeyGroupRangeAssignment`` and ``MathUtils``.
"""

from __future__ import annotations

from numbers import Integral

import numpy as np
import numpy.typing as npt

from state_processor.backends.metadata.handles import MAX_KEY_GROUPS, KeyGroupRange
from state_processor.support.errors import OptionError

_ONE_BYTE_PREFIX = 128
"""Maximum max parallelism for a key group prefix of one byte; above it, the prefix has two bytes."""
_LEAST_DEFAULT = 128
"""The least max parallelism that Flink chooses by itself."""


def murmur(hashes: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Apply Flink's ``MathUtils.murmurHash`` to Java hash codes.

    ``hashes``: ``hashCode()`` of the keys, as 32-bit integers.
    """
    h = np.atleast_1d(np.asarray(hashes)).astype(np.int32, copy=False).view(np.uint32)
    with np.errstate(over="ignore"):
        h = h * np.uint32(0xCC9E2D51)
        h = h << np.uint32(15) | h >> np.uint32(17)
        h = h * np.uint32(0x1B873593)
        h = h << np.uint32(13) | h >> np.uint32(19)
        h = h * np.uint32(5) + np.uint32(0xE6546B64)
        h ^= np.uint32(4)  # the length of the hashed int
        h ^= h >> np.uint32(16)
        h *= np.uint32(0x85EBCA6B)
        h ^= h >> np.uint32(13)
        h *= np.uint32(0xC2B2AE35)
        h ^= h >> np.uint32(16)
        signed = h.view(np.int32)
        # abs() does not change the most negative number; Flink returns 0
        absolute = np.where(signed == np.iinfo(np.int32).min, np.int32(0), np.abs(signed))
    return absolute.astype(np.int32, copy=False).reshape(np.shape(hashes))


def key_group(hashes: npt.ArrayLike, max_parallelism: int) -> npt.NDArray[np.int32]:
    """Return the key groups of Java hash codes (``computeKeyGroupForKeyHash``)."""
    return np.asarray(murmur(hashes) % np.int32(max_parallelism), dtype=np.int32)


def prefix_size(max_parallelism: int) -> int:
    """Return the size of the key group prefix in bytes (``computeRequiredBytesInKeyGroupPrefix``)."""
    return 1 if max_parallelism <= _ONE_BYTE_PREFIX else 2


def range_of_subtask(subtask: int, parallelism: int, max_parallelism: int) -> KeyGroupRange:
    """Return the key groups of a subtask (``computeKeyGroupRangeForOperatorIndex``)."""
    check_parallelism(parallelism, max_parallelism)
    if not 0 <= subtask < parallelism:
        raise OptionError(f"subtask {subtask} is not in 0..{parallelism - 1}")
    start = (subtask * max_parallelism + parallelism - 1) // parallelism
    return KeyGroupRange(start, ((subtask + 1) * max_parallelism - 1) // parallelism)


def check_parallelism(parallelism: int, max_parallelism: int) -> None:
    """Raise :class:`OptionError` unless ``1 <= parallelism <= max_parallelism <= 32768``, and both are whole numbers."""
    for name, value in (("parallelism", parallelism), ("max parallelism", max_parallelism)):
        if not isinstance(value, Integral) or isinstance(value, bool):
            raise OptionError(f"{name} {value!r}: expected a whole number, found a {type(value).__name__}")
    if not 1 <= max_parallelism <= MAX_KEY_GROUPS:
        raise OptionError(f"max parallelism {max_parallelism}: expected a number from 1 to {MAX_KEY_GROUPS}")
    if not 1 <= parallelism <= max_parallelism:
        raise OptionError(f"parallelism {parallelism}: expected a number from 1 to the max parallelism, {max_parallelism}")


def default_max_parallelism(parallelism: int) -> int:
    """Return the max parallelism of operators that do not set one (Flink: ``computeDefaultMaxParallelism``)."""
    return min(max(1 << (parallelism + parallelism // 2 - 1).bit_length(), _LEAST_DEFAULT), MAX_KEY_GROUPS)
