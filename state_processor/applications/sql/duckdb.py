"""A snapshot as a database of DuckDB.

Needs the package duckdb: ``pip install 'state-processor[duckdb]'``.

Examples
--------
>>> import state_processor as sp
>>> database = sp.duckdb.connect("/savepoints/savepoint-1")  # doctest: +SKIP
>>> database.sql("SELECT profile.tier, sum(total) FROM orders GROUP BY 1").show()  # doctest: +SKIP
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, TypeAlias, Unpack

from state_processor.applications.sql.session import SqlSession
from state_processor.arrow import Rows
from state_processor.options import SnapshotOptions, takes_options

if TYPE_CHECKING:
    import duckdb

    from state_processor.states import Nanos

__all__ = ["connect", "query"]

Path: TypeAlias = str | PathLike[str]


@takes_options
def connect(path: Path, *, nanos: Nanos = "check", **options: Unpack[SnapshotOptions]) -> duckdb.DuckDBPyConnection:
    """Open a snapshot as a database of DuckDB in memory. Everything in the snapshot is a view.

    An operator is a view: a row per key, a column per keyed state. Its name is the uid, or the hash of the uid where the snapshot
    does not have the uid. Each of its states is a view in a schema of the same name: ``orders.total``. Its timers are the view
    ``orders.timers``. ``operators``, ``states`` and ``handles`` are tables about the snapshot. The columns are as in
    :func:`~state_processor.arrow.read_state`. DuckDB ignores case in names: a name that is taken gets ``_2`` at its end.

    The call reads the headers of all states; queries read values. Columns that a query does not use are skipped. ``=`` and
    ``IN`` on a column ``key`` of text, whole numbers or booleans look these keys up. Structs are decoded whole; :func:`query`
    decodes only the fields that it uses.

    Parameters
    ----------
    path
        Directory of the savepoint or checkpoint, or its ``_metadata``.
    nanos
        How nanoseconds are read that microseconds can't hold: see :class:`~state_processor.options.groups.StateSnapshotOptions`.
    **options
        See :class:`~state_processor.options.groups.SnapshotOptions`.

    Returns
    -------
    duckdb.DuckDBPyConnection
        The connection. The log names views that can't be read.

    Raises
    ------
    OptionError
        DuckDB is not installed, or an argument has an unexpected value.
    NotASnapshotError, CorruptSnapshotError, MissingFileError
        As for :func:`~state_processor.arrow.read_state`.
    """
    return SqlSession.open(path, {"nanos": nanos, **options}).connection_to_all()


@takes_options
def query(path: Path, sql: str, *, nanos: Nanos = "check", **options: Unpack[SnapshotOptions]) -> Rows:
    """Run a query of SQL on a snapshot. Only the columns, fields of structs and keys that the query needs are decoded.

    Parameters
    ----------
    path, nanos, **options
        As for :func:`connect`, which describes the views.
    sql
        One statement in DuckDB's dialect.

    Returns
    -------
    Rows
        The result: an iterator of batches, and a stream of Arrow. ``notes`` has the notes of the views that the query names.

    Raises
    ------
    NotFoundError
        The query names an unknown view or column.
    OptionError
        DuckDB is not installed, or the query is not valid.
    StateProcessorError
        The snapshot, or a state that the query names, can't be read.
    """
    session = SqlSession.open(path, {"nanos": nanos, **options})
    result = session.execute(sql)
    return Rows(result.schema, lambda: session.execute(sql).batches, result.notes)
