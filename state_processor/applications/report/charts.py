"""Charts as SVG inside of a page, with the colours of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Final, NamedTuple

import numpy as np

from state_processor.applications.report.contents import Distribution, Numbers
from state_processor.command_line import FEWEST_BARS, TimeHistogram, count_text, size_text, unit_of

_HEIGHT: Final = 100
_WIDTH: Final = 1000
_MOST_CELLS: Final = 128
_FAINTEST: Final = 0.06
_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_STEPS: Final = 4
_ROUND: Final = (1, 2, 5)
"""First digits of the distances between ticks."""


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


class Scale(NamedTuple):
    """The ticks for values up to the highest, and the text of a value."""

    ticks: Callable[[int], list[int]]
    text: Callable[[int], str]


COUNTS: Final = Scale(count_ticks, count_text)
SIZES: Final = Scale(size_ticks, size_text)


def bars(values: Sequence[int], titles: Sequence[str], left: str, right: str, scale: Scale = COUNTS) -> str:
    """Return a bar chart with an axis of values.

    ``values``: the heights. ``titles``: tooltips of the bars. ``left`` and ``right``: texts below the ends of the other axis.
    ``scale``: ticks and texts of the values.
    """
    ticks = scale.ticks(max(values, default=0))
    highest = ticks[-1]
    parts = [f'<path class="grid" d="M0 {_HEIGHT - _HEIGHT * tick / highest:.2f}H{len(values)}"/>' for tick in ticks[1:]]
    for i, (value, title) in enumerate(zip(values, titles, strict=True)):
        height = max(_HEIGHT * value / highest, 1.5) if value else 0
        parts.append(
            f'<rect class="bar" x="{i + 0.08:.2f}" y="{_HEIGHT - height:.2f}" width="0.84" height="{height:.2f}">'
            f"<title>{escape(title)}</title></rect>"
        )
    labels = "".join(f"<span>{escape(scale.text(tick))}</span>" for tick in reversed(ticks))
    drawing = _svg(len(values), _HEIGHT, "bars", parts)
    return f'<div class="chart"><div class="ticks">{labels}</div>{drawing}{_axis(left, right)}</div>'


def line(points: Sequence[tuple[float, int]], titles: Sequence[str], left: str, right: str) -> str:
    """Return a line through sizes, with a dot for each.

    ``points``: ascending positions on the axis, and sizes in bytes. ``titles``: tooltips of the dots. ``left`` and ``right``:
    texts below the ends of the axis.
    """
    ticks = size_ticks(max((size for _, size in points), default=0))
    first, last = points[0][0], points[-1][0]
    places = []
    for position, size in points:
        x = _WIDTH * (position - first) / (last - first) if last > first else _WIDTH / 2
        places.append((x, _HEIGHT - _HEIGHT * size / ticks[-1]))
    parts = [f'<path class="grid" d="M0 {_HEIGHT - _HEIGHT * tick / ticks[-1]:.2f}H{_WIDTH}"/>' for tick in ticks[1:]]
    parts.append(f'<path class="line" d="M{"L".join(f"{x:.2f} {y:.2f}" for x, y in places)}"/>')
    for (x, y), title in zip(places, titles, strict=True):
        parts.append(f'<path class="dot" d="M{x:.2f} {y:.2f}h0"><title>{escape(title)}</title></path>')
    labels = "".join(f"<span>{escape(size_text(tick))}</span>" for tick in reversed(ticks))
    drawing = _svg(_WIDTH, _HEIGHT, "bars lines", parts)
    return f'<div class="chart"><div class="ticks">{labels}</div>{drawing}{_axis(left, right)}</div>'


def heat_map(groups: Distribution) -> str:
    """Return a strip with a cell for one or several key groups: the darker, the more bytes."""
    cells = _cells(len(groups.sizes))
    means = [float(groups.sizes[cell].mean()) for cell in cells]
    most = max(means, default=0.0)
    parts = []
    for i, (cell, mean) in enumerate(zip(cells, means, strict=True)):
        opacity = _FAINTEST + (1 - _FAINTEST) * mean / most if most else _FAINTEST
        title = f"{_named('key group', cell)}: {size_text(int(groups.sizes[cell].sum()))}"
        parts.append(
            f'<rect class="bar" x="{i}" y="0" width="1.02" height="1" fill-opacity="{opacity:.3f}"><title>{title}</title></rect>'
        )
    return f"{_svg(len(cells), 1, 'heat', parts)}{_axis('key group 0', count_text(len(groups.sizes) - 1))}"


def subtasks(sizes: Distribution) -> str:
    """Return a bar chart with a bar for one or several subtasks; the height is the largest of them."""
    highest, titles = [], []
    for cell in _cells(len(sizes.sizes)):
        largest = int(sizes.sizes[cell].max())
        bound = "at most " if len(cell) > 1 else ""
        highest.append(largest)
        titles.append(f"{_named('subtask', cell)}: {bound}{size_text(largest)}")
    return bars(highest, titles, "subtask 0", count_text(len(sizes.sizes) - 1), SIZES)


def _cells(parts: int) -> list[Numbers]:
    """Return the numbers of the parts in each cell of a chart."""
    return np.array_split(np.arange(parts), min(parts, _MOST_CELLS))


def _named(part: str, cell: Numbers) -> str:
    return f"{part} {cell[0]:,}" if len(cell) == 1 else f"{part}s {cell[0]:,} to {cell[-1]:,}"


def _axis(left: str, right: str) -> str:
    return f'<div class="axis"><span>{escape(left)}</span><span>{escape(right)}</span></div>'


def times(histogram: TimeHistogram) -> str:
    """Return a bar chart of timestamps."""
    bins = histogram.bins(behind=FEWEST_BARS)
    titles = [f"{instant_text(b.start)} to {instant_text(b.end)}: {count_text(b.points)}" for b in bins]
    return bars([b.points for b in bins], titles, instant_text(bins[0].start), instant_text(bins[-1].end)) if bins else ""


def ages(histogram: TimeHistogram, as_of: int) -> str:
    """Return a bar chart of ages at ``as_of`` (epoch milliseconds), from the oldest to the newest."""
    bins = histogram.bins(before=FEWEST_BARS)
    titles = [f"{duration_text(as_of - b.end)} to {duration_text(as_of - b.start)}: {count_text(b.points)}" for b in bins]
    if not bins:
        return ""
    oldest, newest = duration_text(as_of - bins[0].start), duration_text(as_of - bins[-1].end)
    return bars([b.points for b in bins], titles, f"{oldest} old", f"{newest} old")


def instant_text(milliseconds: int) -> str:
    """Return a timestamp in UTC in seconds, at most the end of the year 9999."""
    try:
        return f"{_EPOCH + milliseconds * _MILLISECOND:%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return "9999-12-31 23:59:59"


def duration_text(milliseconds: int) -> str:
    """Return a duration in its largest unit."""
    name, unit = unit_of(milliseconds)
    number = max(0, milliseconds // 1000) * 1000 / unit
    text = f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"
    return f"{text} {name}{'s' * (text != '1')}"


def _svg(width: int, height: int, kind: str, parts: Sequence[str]) -> str:
    size = f'viewBox="0 0 {max(width, 1)} {height}" preserveAspectRatio="none"'
    return f'<svg class="{kind}" role="img" {size} xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
