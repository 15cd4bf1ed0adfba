"""Figures that benchmarks hand to the report: what was measured, against what, and the target."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One measured value.

    Parameters
    ----------
    what
        The thing that was measured.
    value
        The median, in ``unit``.
    unit
        For instance ``CPU s`` or ``MB``.
    against
        The value of the same unit that it is compared with, and what that is.
    target
        The largest ratio, or the largest value if there is nothing to compare with; ``None`` if none is stated.
    at_least
        Whether the target is a lower bound.
    both_ways
        Whether the target bounds the inverse of the ratio as well.
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
        """The value over what it is compared with."""
        return None if self.against is None or not self.against[0] else self.value / self.against[0]

    @property
    def is_reached(self) -> bool | None:
        """True if the target is reached; ``None`` if there is none."""
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
