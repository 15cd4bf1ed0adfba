"""Axes of plots with matplotlib (``pip install 'state-processor[plots]'``)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from state_processor.support.late import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def show_dates(axes: Axes) -> None:
    """Label days since 1970 as dates."""
    from matplotlib import dates

    untyped: Any = dates
    locator = untyped.AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(untyped.ConciseDateFormatter(locator))


def show_whole_numbers(axes: Axes) -> None:
    """Label only whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def new_axes(height: float = 4) -> Axes:
    """Return the axes of a new figure of 9 inches, with a height in inches."""
    _, axes = pyplot().subplots(figsize=(9, height), layout="constrained")
    new: Axes = axes
    return new


def pyplot() -> Any:
    """Return ``matplotlib.pyplot``."""
    require("matplotlib", "plots", "plots")
    return import_module("matplotlib.pyplot")
