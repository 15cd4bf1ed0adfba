"""Ticks of the axes of charts: a few round numbers, from zero to the first number that is at least the highest value."""

from __future__ import annotations

from typing import Final

_MOST_STEPS: Final = 4
_ROUND: Final = (1, 2, 5)


def count_ticks(highest: int) -> list[int]:
    """Return ticks for numbers up to ``highest``, at equal distances."""
    return _ticks(highest, 1)


def size_ticks(highest: int) -> list[int]:
    """Return ticks for bytes up to ``highest``: round numbers in the unit of ``highest``."""
    unit = 1
    while highest >= 1024 * unit:
        unit *= 1024
    return _ticks(highest, unit)


def _ticks(highest: int, unit: int) -> list[int]:
    power = 1
    while True:
        for number in _ROUND:
            step = number * power * unit
            if highest <= _MOST_STEPS * step:
                return [i * step for i in range(max(1, -(-highest // step)) + 1)]
        power *= 10
