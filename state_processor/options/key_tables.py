"""Keys that are given as a table: a data frame of Spark, pandas or another library, or one of Arrow."""

from __future__ import annotations

import sys
from typing import Any, Final

KEY: Final = "key"


def as_key_table(keys: Any) -> Any:
    """Return keys as a ``pyarrow.Table`` with a row for each; ``None`` if they are not a table. They may be a list.

    The rows of a Spark DataFrame are collected in the driver.
    """
    if hasattr(keys, "toArrow"):  # a DataFrame of Spark, or of Spark Connect
        return keys.toArrow()
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(keys, pyarrow.Array | pyarrow.ChunkedArray):
        return _plain(pyarrow.table({KEY: keys}))
    return as_table(keys) if _is_pandas(keys) or hasattr(keys, "columns") else None


def as_table(rows: Any) -> Any:
    """Return rows of pandas, or of a library with a stream of Arrow batches, as a ``pyarrow.Table``; ``None`` for others.

    Its columns are plain; see :mod:`~state_processor.options.plain_columns`.
    """
    pyarrow = _pyarrow()
    if _is_pandas(rows):
        return _plain(pyarrow.Table.from_pandas(rows, preserve_index=False))
    if isinstance(rows, pyarrow.RecordBatch):
        return _plain(pyarrow.Table.from_batches([rows]))
    if not hasattr(rows, "__arrow_c_stream__") or isinstance(rows, pyarrow.ChunkedArray):
        return None
    return _plain(pyarrow.RecordBatchReader.from_stream(rows).read_all())


def _is_pandas(rows: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(rows, pandas.DataFrame)


def rows_of(table: Any) -> list[Any]:
    """Return the keys of a table as Python values: the values of its one column ``key``, or a dictionary for each row."""
    if table.column_names == [KEY]:
        return list(table.column(KEY).to_pylist())
    return list(table.to_pylist())


def is_table(keys: Any) -> bool:
    """Return whether keys are a ``pyarrow.Table``."""
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow is not None and isinstance(keys, pyarrow.Table)


def _plain(table: Any) -> Any:
    from state_processor.options.plain_columns import with_plain_columns  # as pyarrow

    return with_plain_columns(table)


def _pyarrow() -> Any:
    import pyarrow  # slow to import, and few keys are tables

    return pyarrow
