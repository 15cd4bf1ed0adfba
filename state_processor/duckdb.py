"""A snapshot as a database of DuckDB: see :mod:`state_processor.applications.sql.duckdb`."""

from state_processor.applications.sql.duckdb import *  # noqa: F403
from state_processor.applications.sql.duckdb import __all__ as __all__
