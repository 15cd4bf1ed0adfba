"""The choice of the format of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike, fspath
from typing import Final

from state_processor.applications.lake.delta import DeltaTarget
from state_processor.applications.lake.iceberg import IcebergTarget
from state_processor.applications.lake.parquet import ParquetTarget
from state_processor.applications.lake.targets import Target
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import OptionError

_SUFFIX: Final = ".parquet"
_TARGETS: Final[Mapping[str, Callable[[str, Mapping[str, str]], Target]]] = {
    "delta": DeltaTarget,
    "iceberg": IcebergTarget,
    "parquet": ParquetTarget,
}
FORMATS: Final = tuple(_TARGETS)
"""The formats of tables."""


def target_of(to: str | PathLike[str], format: str | None, options: Mapping[str, str]) -> Target:
    """Return the table for a place.

    ``to``: the directory or URL of a Delta table, the file or URL of Parquet, or the name of an Iceberg table. ``format``:
    ``delta``, ``iceberg`` or ``parquet``; by default ``parquet`` for a name that ends in ``.parquet``, otherwise ``delta``.
    ``options``: settings of the storage or, for Iceberg, of the catalog.
    """
    place = fspath(to)
    chosen = format or ("parquet" if place.endswith(_SUFFIX) else "delta")
    if chosen not in _TARGETS:
        raise OptionError(f"{spelled('format', chosen)}: expected {', '.join(FORMATS)}")
    return _TARGETS[chosen](place, options)
