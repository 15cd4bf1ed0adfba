"""Snapshots as Arrow, without Spark: for one machine, notebooks and tests.

Examples
--------
>>> import state_processor as sp
>>> for batch in sp.arrow.read_state("/savepoints/savepoint-1", "orders", "total"):  # doctest: +SKIP
...     print(batch.to_pandas())
"""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack

import pyarrow as pa

from state_processor.backends.metadata.discovery import DEPTH
from state_processor.backends.read.raw_state import RAW_KEYED
from state_processor.backends.read.state_access import TIMER_KIND
from state_processor.options.access import SnapshotAccess
from state_processor.options.groups import (
    DirectoryOptions,
    EntryOptions,
    LookupSnapshotOptions,
    OpeningOptions,
    SnapshotOptions,
    StateSnapshotOptions,
    TimerSnapshotOptions,
)
from state_processor.options.keywords import takes_options
from state_processor.options.option import check_given
from state_processor.read.rows import Rows, rows_of
from state_processor.read.scans import ArrowSchema, StateRequest
from state_processor.read.snapshot_reader import SavepointReader
from state_processor.support.doors import Door, entered, spelled
from state_processor.support.mappings import without_keys
from state_processor.types.identifier import OperatorIdentifier

if TYPE_CHECKING:
    from state_processor.applications.changes.differences import diff, diff_summary
    from state_processor.read.channels import read_channel_records, read_channel_state
    from state_processor.read.key_contents import KeyContents
    from state_processor.read.sizes import SizesBy
    from state_processor.write.savepoint_writer import SavepointWriter

__all__ = [
    "Rows",
    "SavepointReader",
    "SavepointWriter",
    "diff",
    "diff_summary",
    "handles",
    "lookup",
    "operators",
    "read_channel_records",
    "read_channel_state",
    "read_raw_state",
    "read_sink_state",
    "read_source_splits",
    "read_state",
    "read_timers",
    "size_report",
    "snapshots",
    "states",
]


_HOMES: Final = {
    "SavepointWriter": "state_processor.write.savepoint_writer",
    "diff": "state_processor.applications.changes.differences",
    "diff_summary": "state_processor.applications.changes.differences",
    "read_channel_records": "state_processor.read.channels",
    "read_channel_state": "state_processor.read.channels",
}
"""Modules that reads of state do not import."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


Path: TypeAlias = str | PathLike[str]

_OPENING: Final = frozenset(SnapshotOptions.__annotations__)


@takes_options
def read_state(
    path: Path,
    uid: str | OperatorIdentifier,
    state: str | None = None,
    *,
    kind: str | None = None,
    schema: ArrowSchema | None = None,
    **options: Unpack[StateSnapshotOptions],
) -> Rows:
    """Read a state of any kind: keyed, window, list, union, broadcast, timers.

    Parameters
    ----------
    path
        Directory of the snapshot, or its ``_metadata``: a path or URL.
    uid
        The operator: its uid, or an :class:`~state_processor.OperatorIdentifier`.
    state
        Name of the state; ``None`` reads all keyed states of the operator, one row per key and one column per state.
    kind
        The expected kind of the state: ``KEYED``, ``TIMER``, ``OPERATOR_LIST``, ``UNION_LIST``, ``BROADCAST``; ``None`` for any.
        ``RAW_KEYED`` and ``RAW_OPERATOR`` read the bytes that the operator wrote itself; see :func:`read_raw_state`.
    schema
        Columns to deliver, in this order and with these types, or a mapping of column names to types to change only those.
        A type of :class:`~state_processor.Types`, for a column or as the schema itself for the value, is one that the state is
        restored in by Flink's rules: removed fields are left out, new ones have Java's default value (0, false, null), Avro
        records are resolved to the reader's schema.
    **options
        See :class:`~state_processor.options.groups.StateSnapshotOptions`.

    Returns
    -------
    Rows
        An iterator of batches of one schema, at least one, which may be empty; and a stream of Arrow, which pyarrow, Polars and
        DuckDB take.

    Raises
    ------
    NotASnapshotError, CorruptSnapshotError, MissingFileError
        The path is not a snapshot, or the snapshot is damaged.
    NotFoundError
        If the operator or the state does not exist.
    StateMigrationError
        Flink would not restore the state in a type of ``schema``; the message names the field and both types.
    OptionError
        An argument has an unexpected value.
    """
    with entered(Door.FUNCTIONS):
        return rows_of(StateRequest(OperatorIdentifier.of(uid), state, kind, schema, options).open_path(path))


@takes_options
def read_timers(path: Path, uid: str | OperatorIdentifier, **options: Unpack[TimerSnapshotOptions]) -> Rows:
    """Read the timers of an operator: ``key``, ``window`` or ``namespace``, ``timestamp``, ``fires_at``, ``domain``, ``service``.

    ``timestamp`` is in epoch milliseconds, as in Flink; ``fires_at`` is the same point in time, null where its year is not one
    of 1 to 9999: Flink fires timers of ``Long.MAX_VALUE`` when the input ends. ``domain`` is ``event_time`` or
    ``processing_time``.

    For parameters and errors see :func:`read_state`.
    """
    return read_state(path, uid, kind=TIMER_KIND, **options)


@takes_options
def lookup(
    path: Path, uid: str | OperatorIdentifier, key: Any, state: str | None = None, **options: Unpack[LookupSnapshotOptions]
) -> KeyContents:
    """Look up one key: its values in all keyed states, and its timers.

    Only the files of the subtask that owns the key group are read.

    Parameters
    ----------
    path
        Directory of the snapshot, or its ``_metadata``: a path or URL.
    uid
        As for :func:`read_state`.
    key
        The key, as a Python value; on the command line, as JSON or plain text.
    state
        One state; ``None`` for all keyed states of the operator and its timers.
    **options
        See :class:`~state_processor.options.groups.LookupSnapshotOptions`. Without ``nanos``, a state whose values for the key
        have nanoseconds that microseconds can't hold has dates and times as text.

    Raises
    ------
    NotFoundError
        If the operator or the state does not exist, or the operator does not have keyed state.
    OptionError
        The key is not of the operator's key type.
    CorruptSnapshotError, MissingFileError, UnsupportedFormatError
        The state can't be read.
    """
    from state_processor.read.key_contents import KeyContents

    access = SnapshotAccess.among(options)
    reading: Any = without_keys(options, _OPENING)
    return KeyContents.find(access.open(path), OperatorIdentifier.of(uid), key, state, reading)


@takes_options
def size_report(
    path: Path,
    uid: str | OperatorIdentifier | None = None,
    by: SizesBy = "state",
    top: int | None = 20,
    **options: Unpack[SnapshotOptions],
) -> pa.Table:
    """Measure the keyed state and timers of a snapshot. Entries are walked through, values are not decoded.

    Parameters
    ----------
    path
        Directory of the snapshot, or its ``_metadata``: a path or URL.
    uid
        One operator; ``None`` for all.
    by
        ``state``, ``key_group``, ``subtask``, or ``key`` (of one operator, over all its states).
    top
        Number of rows, the largest ones; ``None`` for all.
    **options
        See :class:`~state_processor.options.groups.SnapshotOptions`.

    Returns
    -------
    pyarrow.Table
        ``operator_uid``, ``operator_uid_hash`` and ``state_name``, ``state_kind``, or ``key_group``, or ``subtask``; or ``key``
        alone. Then ``entries`` and ``size_in_bytes``: of keys, namespaces and values as a canonical savepoint has them, without
        lengths, also where states share a file. Largest first.

    Raises
    ------
    NotFoundError
        If the operator does not exist, or does not have keyed state.
    OptionError
        ``by`` is unknown, ``key`` without an operator, or ``time_zone`` without ``key``: no other row has a date.
    CorruptSnapshotError, MissingFileError, UnsupportedFormatError
        The state can't be read.
    """
    if by != "key":
        check_given(options, ("time_zone",), f"with {spelled('by', 'key')}: add that")
    return SavepointReader.read(path, **options).size_report(uid, by, top)


@takes_options
def read_raw_state(path: Path, uid: str | OperatorIdentifier, kind: str = RAW_KEYED, **options: Unpack[EntryOptions]) -> Rows:
    """Read raw state as bytes: an operator wrote it in a format of its own.

    Timers that Flink keeps in raw keyed state are not raw state here: :func:`read_timers` reads them. For errors see
    :func:`read_state`.

    Parameters
    ----------
    path, uid
        As for :func:`read_state`.
    kind
        ``RAW_KEYED`` gives ``subtask``, ``key_group`` and ``value``; ``RAW_OPERATOR`` gives ``subtask``, ``partition`` (the
        number of the partition that the operator started) and ``value``.
    **options
        See :class:`~state_processor.options.groups.EntryOptions`.
    """
    return read_state(path, uid, kind=kind, **options)


@takes_options
def read_source_splits(
    path: Path, uid: str | OperatorIdentifier, connector: str | None = None, **options: Unpack[OpeningOptions]
) -> pa.Table:
    """Read the splits of a source: the splits of its readers, and the splits that its enumerator still has.

    Parameters
    ----------
    path
        Directory of the snapshot, or its ``_metadata``: a path or URL.
    uid
        As for :func:`read_state`.
    connector
        A source of :func:`state_processor.connectors.names`, such as ``kafka`` or ``file``; a source of an older version,
        such as ``kafka-consumer``; ``raw`` for bytes. Snapshots do not record the connector. By default it is the
        connector whose format all bytes have, or ``raw``.
    **options
        See :class:`~state_processor.options.groups.OpeningOptions`.

    Returns
    -------
    pyarrow.Table
        A row per split: ``subtask`` (null for a split without a reader), ``split_id``, the connector's columns, ``assignment``,
        ``version`` and ``raw`` (the split's bytes and the version of their format). The page "Sources and
        sinks" of the documentation lists the columns of each connector.

    Raises
    ------
    NotFoundError
        If the operator does not exist, or is not a source with state.
    OptionError
        If the connector does not exist, or the bytes fit several connectors: name one of them.
    CorruptSnapshotError
        If the connector did not write the bytes.
    """
    return SavepointReader.read(path, **options).read_source_splits(uid, connector)


@takes_options
def read_sink_state(
    path: Path,
    uid: str | OperatorIdentifier,
    connector: str | None = None,
    committer: str | OperatorIdentifier | None = None,
    **options: Unpack[OpeningOptions],
) -> pa.Table:
    """Read the state of a sink: the state of its writers, and the commits that its committers have left.

    Parameters
    ----------
    path
        Directory of the snapshot, or its ``_metadata``: a path or URL.
    uid
        As for :func:`read_state`.
    connector
        ``kafka`` (``KafkaSink``), ``file`` (``FileSink``, ``StreamingFileSink``), another sink of
        :func:`state_processor.connectors.names`, or ``raw`` for bytes. Snapshots do not record the
        sink. By default it is the sink whose formats all bytes have, or ``raw``.
    committer
        The operator of the committers. Flink gives it the uid ``Sink Committer:`` and the uid of the sink; needed where the job
        sets its own, or ``uid`` is a hash.
    **options
        See :class:`~state_processor.options.groups.OpeningOptions`.

    Returns
    -------
    pyarrow.Table
        ``role`` (``WRITER`` or ``COMMITTABLE``), ``subtask``, the connector's columns, ``checkpoint_id``, ``commit_status`` and
        ``retries`` of committables, ``version`` and ``raw`` (the bytes of the row and the version of their format). The page
        "Sources and sinks" of the documentation lists the columns of each connector.

    Raises
    ------
    NotFoundError
        If the operator does not exist, or is not a sink with state.
    OptionError, CorruptSnapshotError
        As for :func:`read_source_splits`.
    """
    return SavepointReader.read(path, **options).read_sink_state(uid, connector, committer)


@takes_options
def operators(path: Path, **options: Unpack[OpeningOptions]) -> pa.Table:
    """Return the operators of a snapshot, with sizes: the columns of Flink's ``savepoint_metadata``, with underscores.

    Parameters
    ----------
    path
        Directory of the snapshot, or its ``_metadata``: a path or URL.
    **options
        See :class:`~state_processor.options.groups.OpeningOptions`.
    """
    return SavepointReader.read(path, **options).operators()


@takes_options
def states(path: Path, **options: Unpack[OpeningOptions]) -> pa.Table:
    """Return the states of all operators: names, kinds, types, and the schemas of reads.

    Parameters
    ----------
    path
        Directory of the snapshot, or its ``_metadata``: a path or URL.
    **options
        See :class:`~state_processor.options.groups.OpeningOptions`.
    """
    return SavepointReader.read(path, **options).states()


@takes_options
def handles(path: Path, **options: Unpack[OpeningOptions]) -> pa.Table:
    """Return the files, parts of files and inline bytes that a snapshot consists of.

    Parameters
    ----------
    path
        Directory of the snapshot, or its ``_metadata``: a path or URL.
    **options
        See :class:`~state_processor.options.groups.OpeningOptions`.
    """
    return SavepointReader.read(path, **options).handles()


@takes_options
def snapshots(
    directory: Path,
    *,
    check: bool = True,
    depth: int = DEPTH,
    high_availability: Path | None = None,
    **options: Unpack[DirectoryOptions],
) -> pa.Table:
    """Return the savepoints and checkpoints in a directory and below it, newest first.

    ``path``, ``kind`` (``savepoint`` or ``checkpoint``), ``job_id`` (if it is in the path), ``checkpoint_id``, ``time`` (when
    ``_metadata`` was written), ``size_in_bytes`` (of all state referred to, shared files included), ``is_complete``,
    ``needs_repair``, ``pointers`` and ``recovers``: see :class:`~state_processor.SnapshotInfo`.

    Parameters
    ----------
    directory
        A directory of checkpoints, savepoints or jobs, or a snapshot.
    check
        Whether to look for every file of every snapshot; without it ``is_complete`` is null unless ``_metadata`` is missing
        or damaged. Flink writes this file last.
    depth
        Number of levels below the directory to search. The logger ``state_processor`` warns of directories that are deeper.
    high_availability
        See :func:`state_processor.list_snapshots`.
    **options
        See :class:`~state_processor.options.groups.DirectoryOptions`.

    Raises
    ------
    NotASnapshotError
        If the directory does not exist.
    """
    from state_processor.read.snapshots import list_snapshots, snapshots_table

    return snapshots_table(list_snapshots(directory, check=check, depth=depth, high_availability=high_availability, **options))
