"""Progress bars of long calls that do without Spark, whose own jobs have Spark's.

They need the package tqdm (``pip install 'state-processor[progress]'``), and are shown on terminals and in notebooks, after a
second. The variable ``TQDM_DISABLE`` turns them off.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar
from warnings import catch_warnings

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
Batch = TypeVar("Batch", bound="pa.RecordBatch")

_DELAY_SECONDS: Final = 1.0


def progress(parts: Collection[T], doing: str) -> Iterator[T]:
    """Yield parts of work, and show how many of them, or of their bytes, are done.

    ``parts``: the parts; if all have a ``size``, the bar counts bytes. ``doing``: the activity, such as ``reading``.
    """
    if not _is_shown():
        yield from parts
        return
    sizes = [getattr(part, "size", None) for part in parts]
    is_bytes = bool(sizes) and None not in sizes
    unit: dict[str, Any] = {"unit": "B", "unit_scale": True, "unit_divisor": 1024} if is_bytes else {"unit": " parts"}
    steps = [int(size or 0) for size in sizes] if is_bytes else [1] * len(parts)
    with _bar(doing, sum(steps), unit) as update:
        for part, step in zip(parts, steps, strict=True):
            yield part
            update(step)


def progress_of_rows(batches: Iterable[Batch], doing: str, total: int | None) -> Iterator[Batch]:
    """Yield batches, and show how many rows are done.

    ``doing``: the activity, such as ``encoding``. ``total``: number of rows; ``None`` if it is unknown.
    """
    if not _is_shown():
        yield from batches
        return
    with _bar(doing, total, {"unit": " rows", "unit_scale": True}) as update:
        for batch in batches:
            yield batch
            update(batch.num_rows)


@contextmanager
def _bar(doing: str, total: int | None, unit: Mapping[str, Any]) -> Iterator[Callable[[int], object]]:
    """Show a bar, if possible, and return the function that advances it."""
    make_bar: Any = None
    with catch_warnings(action="ignore"), suppress(ImportError):  # in notebooks without ipywidgets, where bars are text
        make_bar = import_module("tqdm.auto").tqdm
    if make_bar is None:
        yield lambda _: None
        return
    with make_bar(total=total, desc=doing, delay=_DELAY_SECONDS, disable=None, leave=False, **unit) as bar:
        yield bar.update


def _is_shown() -> bool:
    """Return True if a terminal or a notebook would show a bar, by tqdm's rule.

    A bar that is not shown takes tqdm's lock all the same. Forks share that lock: one that is killed meanwhile would keep it.
    """
    return any(stream is not None and (not hasattr(stream, "isatty") or stream.isatty()) for stream in (sys.stderr, sys.stdout))
