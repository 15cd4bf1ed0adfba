"""Rows of a state that fulfil a condition of DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from state_processor.applications.sql.session import SqlSession
from state_processor.applications.sql.views import View
from state_processor.arrow import Rows
from state_processor.errors import NotFoundError, OptionError
from state_processor.options import spelled
from state_processor.states import StateScan

_ROWS: Final = "state_rows"


def matching_rows(scan: StateScan, condition: str) -> Rows:
    """Return the rows of a state that fulfil a condition, in the columns of the state.

    A condition on the column ``key`` looks the keys up, as a query does.

    ``condition``: an expression of DuckDB whose value is true or false. It can use the columns of ``scan``.
    """
    session = SqlSession.of_views([View(None, _ROWS, lambda: scan)])
    selection = f"SELECT * FROM {_ROWS} WHERE ({condition}\n)"
    columns = ", ".join(scan.schema.names)
    refused = f"{spelled('where', condition)} is not a condition on the columns {columns}"
    try:
        (value,) = session.execute(f"SELECT ({condition}\n) FROM {_ROWS} LIMIT 0").schema.types
    except (NotFoundError, OptionError) as problem:
        raise OptionError(f"{refused}: {problem.args[0].partition('; ')[0]}") from None
    if value != pa.bool_():
        raise OptionError(f"{refused}: its values are of type {value}; compare them, such as value > 100")
    return Rows(scan.schema, lambda: _typed(session.execute(selection).batches, scan.schema))


def _typed(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Return batches, at least one. DuckDB changes names that differ in case alone, and names of time zones."""
    yield pa.RecordBatch.from_pylist([], schema)
    for batch in batches:
        yield from pa.Table.from_batches([batch]).rename_columns(schema.names).cast(schema).to_batches()
