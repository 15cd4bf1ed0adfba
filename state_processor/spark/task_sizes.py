"""How much one task takes: parts of a snapshot, or partitions of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from operator import attrgetter
from typing import Any, Final, TypeVar

from pyspark.sql import DataFrame

_SPLIT_BYTES: Final = 96 << 20
_SMALLEST_GROUP: Final = 4 << 20
_OPEN_BYTES: Final = 256 << 10
_WAYS: Final = 32

_Part = TypeVar("_Part")


def grouped(
    parts: Sequence[_Part], split_bytes: int | None = None, size: Callable[[_Part], Any] = attrgetter("size")
) -> list[list[_Part]]:
    """Return parts in groups of similar size, so that many small ones do not become as many tasks.

    A group has up to ``split_bytes``, but no more than a 32nd of all, for work to spread. Opening a part counts as reading a
    quarter of a megabyte.
    """
    sizes = [size(part) + _OPEN_BYTES for part in parts]
    target = min(split_bytes or _SPLIT_BYTES, max(_SMALLEST_GROUP, sum(sizes) // _WAYS))
    groups: list[list[_Part]] = []
    filled = target
    for part, bytes_ in zip(parts, sizes, strict=True):
        if filled + bytes_ > target:
            groups.append([])
            filled = 0
        groups[-1].append(part)
        filled += bytes_
    return groups


def few_partitions(rows: DataFrame) -> DataFrame:
    """Return rows of many small tables in fewer partitions, if Spark expects little of them; at least one for each core.

    Spark runs a task for each partition of a union, and sends it the plans of all tables.
    """
    if expected_bytes(rows) > _SPLIT_BYTES:
        return rows
    return rows.coalesce(rows.sparkSession.sparkContext.defaultParallelism)


def expected_bytes(rows: DataFrame) -> float:
    """Return the size of rows that Spark expects; infinite with Spark Connect, which does not tell."""
    if not hasattr(rows, "_jdf"):
        return inf
    return float(str(rows._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
