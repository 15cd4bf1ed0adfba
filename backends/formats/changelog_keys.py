"""The type of the keys of a changelog that was never materialized.

Such a checkpoint stores the serializers of namespaces and values; it stores the serializer of keys only in timers. But every
change is recorded with the key group of its key. A serializer fits if all keys have the recorded key groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

import numpy as np

from state_processor.backends.state.key_groups import key_group
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.errors import StateProcessorError, UnsupportedFormatError
from state_processor.serializers.io import DataInput

_CANDIDATES: Final[tuple[TypeSerializer, ...]] = (
    StringSerializer(),
    NumberSerializer("LONG"),
    NumberSerializer("INT"),
    NumberSerializer("SHORT"),
    NumberSerializer("BYTE"),
    NumberSerializer("BOOLEAN"),
)
_EXPONENTS: Final = {8: (52, 0x7FF, range(0x3C0, 0x440)), 4: (23, 0xFF, range(0x60, 0xA0))}
"""By size: the position of the exponent of floating-point numbers, and exponents of numbers from about 1e-19 (1e-9) to 1e19
(1e9)."""
_MOST_CHANGES: Final = 2000


def deduce_key(changes: Iterable[tuple[int, memoryview, TypeSerializer]], max_parallelism: int) -> TypeSerializer | None:
    """Return the only basic serializer with keys in the recorded key groups; ``None`` if zero or several serializers fit.

    Floating-point numbers have the bytes and hash codes of integers. If all keys are also plausible floating-point numbers, the
    type is ambiguous.

    Parameters
    ----------
    changes
        Key group, bytes from the key, and the serializer of the namespace for each change.
    max_parallelism
        Max parallelism of the operator.
    """
    sample = list(islice(changes, _MOST_CHANGES))
    fitting = [c for c in _CANDIDATES if sample and _fits(c, sample, max_parallelism)]
    return fitting[0] if len(fitting) == 1 else None


def _fits(key: TypeSerializer, sample: list[tuple[int, memoryview, TypeSerializer]], max_parallelism: int) -> bool:
    hashes, keys = [], set()
    for _, payload, namespace in sample:
        source = DataInput(payload)
        try:
            value = key.read(source)
            keys.add(bytes(payload[: source.position]))
            namespace.skip(source)
            hashes.append(key.hash_code(value))
        except (StateProcessorError, ValueError):
            return False
    groups = np.array([group for group, _, _ in sample])
    in_place = bool((key_group(np.array(hashes, dtype=np.int32), max_parallelism) == groups).all())
    return in_place and not (key.length in _EXPONENTS and all(map(_looks_like_float, keys)))


def _looks_like_float(key: bytes) -> bool:
    shift, mask, usual = _EXPONENTS[len(key)]
    return (int.from_bytes(key, "big") >> shift) & mask in usual


def no_key_type(context: str) -> UnsupportedFormatError:
    """Return the error for keys of unknown type."""
    return UnsupportedFormatError(
        f"{context}: a changelog that was never materialized does not contain the type of keys; neither the operator's timers "
        "nor the key groups of its keys determine it. Take a savepoint, or a checkpoint after the next materialization"
    )
