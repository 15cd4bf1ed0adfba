"""Figures of benchmarks for the report: measurement, comparison and target."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One measured value.

    Parameters
    ----------
    what
        Description of the measurement.
    value
        The median, in ``unit``.
    unit
        For instance ``CPU s`` or ``MB``.
    against
        The value to compare with, in the same unit, and its description.
    target
        The maximum ratio, or the maximum value without a comparison; ``None`` without a target.
    at_least
        Whether the target is a lower bound.
    both_ways
        Whether the target also bounds the inverse of the ratio.
    """

    what: str
    value: float
    unit: str
    against: tuple[float, str] | None = None
    target: float | None = None
    at_least: bool = False
    both_ways: bool = False

    @property
    def ratio(self) -> float | None:
        """The value divided by the value of the comparison."""
        return None if self.against is None or not self.against[0] else self.value / self.against[0]

    @property
    def is_reached(self) -> bool | None:
        """Whether the target is reached; ``None`` without a target."""
        if self.target is None:
            return None
        found = self.value if self.ratio is None else self.ratio
        if self.at_least:
            return found >= self.target
        return found <= self.target and (not self.both_ways or found * self.target >= 1)

    @property
    def stated_target(self) -> str:
        """The target as text."""
        if self.target is None:
            return ""
        least = f"≥ {1 / self.target:.2f}, " if self.both_ways else ""
        return f"{least}{'≥' if self.at_least else '≤'} {self.target:g}"
