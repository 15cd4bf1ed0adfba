"""Progress bars of long calls that do without Spark, whose own jobs have Spark's.

They need the package tqdm (``pip install 'state-processor[progress]'``), and are shown on terminals and in notebooks, after a
second. The variable ``TQDM_DISABLE`` turns them off.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from typing import Any, Final, TypeVar
from warnings import catch_warnings

T = TypeVar("T")

_DELAY_SECONDS: Final = 1.0


def progress(parts: Collection[T], doing: str) -> Iterator[T]:
    """Yield parts of work, and show how many of them, or of their bytes, are done.

    Parameters
    ----------
    parts
        The parts; if all have a ``size``, the bar counts bytes.
    doing
        What is done, such as ``reading``.
    """
    if not _is_shown():
        yield from parts
        return
    try:
        with catch_warnings(action="ignore"):  # in notebooks without ipywidgets, where bars are text
            from tqdm.auto import tqdm
    except ImportError:
        yield from parts
        return
    sizes = [getattr(part, "size", None) for part in parts]
    is_bytes = bool(sizes) and None not in sizes
    unit: dict[str, Any] = {"unit": "B", "unit_scale": True, "unit_divisor": 1024} if is_bytes else {"unit": " parts"}
    steps = [int(size or 0) for size in sizes] if is_bytes else [1] * len(parts)
    with tqdm(total=sum(steps), desc=doing, delay=_DELAY_SECONDS, disable=None, leave=False, **unit) as bar:
        for part, step in zip(parts, steps, strict=True):
            yield part
            bar.update(step)


def _is_shown() -> bool:
    """Return True if a terminal or a notebook would show a bar, by tqdm's rule.

    A bar that is not shown takes tqdm's lock all the same. Forks share that lock: one that is killed meanwhile would keep it.
    """
    streams = [stream for stream in (sys.stderr, sys.stdout) if stream is not None]
    return any(not hasattr(stream, "isatty") or stream.isatty() for stream in streams)
