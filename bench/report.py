"""The page docs/performance.md: each figure with its ratio, what it was measured against, and how to repeat it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from figures import Figure

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
_PACKAGES = ("pyspark", "pyarrow", "numba")


def write_page(benches: Mapping[str, Iterable[Figure]], load: float) -> Path:
    """Write the page and return its path.

    Parameters
    ----------
    benches
        Figures by the name of the benchmark that measured them.
    load
        The load average of the machine before they were measured.
    """
    lines = [
        "# Performance",
        "",
        "CPU seconds are those of the whole tree of processes: the driver, the JVM that Spark starts, and all Python workers. "
        "Figures and what they are compared with come from one run on one machine. Targets are the largest ratio, or the largest "
        "figure where nothing is compared; those that are missed are in bold.",
        "",
        f"Measured on {datetime.now(UTC):%Y-%m-%d}: {os.cpu_count()} cores, load average {load:.1f} before and "
        f"{os.getloadavg()[0]:.1f} after, Python {platform.python_version()}, "
        + ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
        + ". `./dev bench report` writes this page anew; `./dev bench NAME` repeats one table.",
    ]
    for name, figures in benches.items():
        lines += ["", f"## {name}", "", "| | figure | compared with | ratio | target |", "|---|---:|---:|---:|---:|"]
        lines += [_row(figure) for figure in figures]
    PAGE.write_text("\n".join(lines) + "\n")
    return PAGE


def _row(figure: Figure) -> str:
    against = "" if figure.against is None else f"{figure.against[0]:,.2f} ({figure.against[1]})"
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    target = "" if figure.target is None else f"{'≥' if figure.at_least else '≤'} {figure.target:g}"
    if figure.is_reached is False:
        target = f"**{target}**"
    return f"| {figure.what} | {figure.value:,.2f} {figure.unit} | {against} | {ratio} | {target} |"
