"""Snapshots as Arrow, without Spark: for one machine, notebooks and tests.

Examples
--------
>>> import state_processor as sp
>>> for batch in sp.arrow.read_state("/savepoints/savepoint-1", "orders", "total"):  # doctest: +SKIP
...     print(batch.to_pandas())
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from os import PathLike, fspath
from typing import Any, Final, TypeAlias

import pyarrow as pa

from state_processor.backends.connectors.source_splits import read_source_splits as splits_of_source
from state_processor.backends.metadata.discovery import list_snapshots
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.read import catalog
from state_processor.backends.read.channel_state import channel_table
from state_processor.backends.read.raw_state import RAW_KEYED
from state_processor.backends.read.state_access import TIMER_KIND, StateReader
from state_processor.backends.read.state_listing import find_operator
from state_processor.declared_types import DeclaredTypes
from state_processor.identifier import OperatorIdentifier
from state_processor.kryo_inference import kryo_types
from state_processor.options import SourceOptions, read_options
from state_processor.portable_registrations import import_serializers
from state_processor.read.projection import Projection, overridden
from state_processor.read.sources import find_reader
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.errors import OptionError
from state_processor.serializers.evolution.resolution import PortableType

Path: TypeAlias = str | PathLike[str]
ArrowSchema: TypeAlias = pa.Schema | TypeSerializer | Mapping[str, pa.DataType | TypeSerializer]

SNAPSHOTS_SCHEMA: Final = pa.schema(
    [
        ("path", pa.string()),
        ("kind", pa.string()),
        ("job_id", pa.string()),
        ("checkpoint_id", pa.int64()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("size_in_bytes", pa.int64()),
        ("is_complete", pa.bool_()),
    ]
)
_RENAMED: Final = {"size": "size_in_bytes"}


def read_state(
    path: Path,
    uid: str | OperatorIdentifier,
    state: str | None = None,
    *,
    kind: str | None = None,
    schema: ArrowSchema | None = None,
    flatten: bool = True,
    metadata: bool = False,
    keys: Sequence[Any] | None = None,
    nanos: str = "error",
    row_kind: bool = False,
    ttl: str | timedelta | None = None,
    as_of: str | int | datetime | None = None,
    types: DeclaredTypes | None = None,
    infer_kryo: bool = False,
    undescribed: str = "error",
    path_mapping: Mapping[str, str] | None = None,
    scratch: Path | None = None,
    serializers: Sequence[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Read a state of any kind: keyed, window, list, union, broadcast, timers.

    Parameters
    ----------
    path
        Directory of the savepoint or checkpoint, or its ``_metadata``.
    uid
        The operator: its uid, or an :class:`~state_processor.OperatorIdentifier`.
    state
        Name of the state; ``None`` reads all keyed states of the operator, one row per key and one column per state.
    kind
        What the state has to be: ``KEYED``, ``TIMER``, ``OPERATOR_LIST``, ``UNION_LIST``, ``BROADCAST``; ``None`` for any.
        ``RAW_KEYED`` and ``RAW_OPERATOR`` read what the operator wrote itself; see :func:`read_raw_state`.
    schema
        Columns to deliver, in this order and with these types, or a mapping of column names to types to change only those.
        A type of :class:`~state_processor.Types`, for a column or as the schema itself for the value, is one that the state is
        restored in by Flink's rules: fields that are gone are left out, new ones have Java's default value (0, false, null),
        Avro goes by the reader's schema.
    flatten
        Lists and maps as a row per element (``list_index``, ``list_value``; ``map_key``, ``map_value``), or one row per key.
    metadata
        Adds ``_key_group``, ``_subtask`` and ``_last_access`` (time of the last access, of states with TTL).
    keys
        Read only these keys; only the key groups that hold them are opened.
    nanos
        What to do with nanoseconds, which microseconds can't hold: ``error``, ``truncate`` or ``string``.
    row_kind
        Gives rows (``Row``, ``RowData``) a first field ``row_kind``.
    ttl, as_of
        Leave out values that were not accessed for ``ttl`` (``timedelta`` or ISO-8601, ``PT1H``) at the time ``as_of``
        (``datetime``, ISO text, or epoch milliseconds).
    types
        Types of what collections hold that Kryo wrote, which snapshots do not tell, by path: the column, then the names of
        fields, ``element`` in lists, ``key`` and ``value`` in maps (``{"value.counters": Types.MAP(Types.STRING(),
        Types.LONG())}``). Such a part is an array or a map then, and text with JSON without. Types may be text:
        ``"MAP<STRING,LONG>"``.
    undescribed
        What to do with values of a POJO's subclass that the snapshot does not describe: ``error``, or ``bytes``, where the format
        tells where they end (values and map values in canonical savepoints and embedded stores). The column then has a first
        field ``_class`` and a last one ``_bytes``: such a value has these two and no others. Decoding is slower.
    infer_kryo
        Looks for these types in the values, which are all read once more for it: what is declared as ``List``, ``Set``,
        ``Collection`` or ``Map`` and holds objects of one class of the JDK only.
    path_mapping
        Recorded prefix to present prefix, where the files of a moved checkpoint are not found by themselves.
    scratch
        Directory for copies of files that RocksDB has to find on this machine (remote ones, and parts of merged files), by
        default ``STATE_PROCESSOR_SCRATCH`` or the system's directory for temporary files.
    serializers
        Modules to import first, which register serializers of your own.

    Returns
    -------
    Iterator[pyarrow.RecordBatch]
        Batches of one schema; one empty batch at least, so that the schema is known.

    Raises
    ------
    NotASnapshotError, CorruptSnapshotError, MissingFileError
        The path is no snapshot, or it is damaged.
    NotFoundError
        There is no such operator or state.
    StateMigrationError
        Flink would not restore the state in a type of ``schema``; the message names the field and both types.
    OptionError
        An argument makes no sense.
    """
    import_serializers(serializers)
    evolving, schema = evolving_types(schema)
    identifier = OperatorIdentifier.of(uid)
    declared = kryo_types(lambda: _open(path, path_mapping), identifier, state, types, infer_kryo)
    reading = read_options(
        flatten=flatten, metadata=metadata, keys=keys, nanos=nanos, row_kind=row_kind, ttl=ttl, as_of=as_of,
        types={**evolving, **declared}, undescribed=undescribed,
    )  # fmt: skip
    options = SourceOptions(
        path=fspath(path),
        operator=identifier,
        state=state,
        kind=kind,
        read=reading,
        path_mapping=dict(path_mapping or {}),
        serializers=tuple(serializers),
        scratch=None if scratch is None else fspath(scratch),
    )
    reader = find_reader(options)
    wanted = reader.schema if schema is None else arrow_schema(schema, reader.schema)
    return _batches(reader, Projection(reader.schema, wanted))


def _batches(reader: StateReader, projection: Projection) -> Iterator[pa.RecordBatch]:
    empty = True
    for split in reader.splits():
        for batch in reader.read(split):
            empty = False
            yield projection.apply(batch)
    if empty:
        yield pa.RecordBatch.from_pylist([], projection.schema)


def evolving_types(schema: Any) -> tuple[dict[str, PortableType], Any]:
    """The columns that a schema wants in types of Flink, and the schema without them."""
    if isinstance(schema, TypeSerializer):
        return {"value": PortableType.of(schema)}, None
    if not isinstance(schema, Mapping):
        return {}, schema
    types = {name: PortableType.of(t) for name, t in schema.items() if isinstance(t, TypeSerializer)}
    return types, {name: t for name, t in schema.items() if name not in types}


def arrow_schema(schema: pa.Schema | Mapping[str, pa.DataType], given: pa.Schema) -> pa.Schema:
    """The schema to deliver from what a user passes as ``schema``.

    Raises
    ------
    OptionError
        If it is neither a schema nor a mapping of names to types, or names a column that is not there.
    """
    if isinstance(schema, pa.Schema):
        return schema
    if not isinstance(schema, Mapping):
        raise OptionError(f"schema={schema!r}: a pyarrow.Schema, or a mapping of column names to types, is wanted")
    for name, data_type in schema.items():
        if not isinstance(data_type, pa.DataType):
            raise OptionError(f"schema: the type of {name!r} is {data_type!r}; a type of Types or of pyarrow is wanted")
    return overridden(given, dict(schema))


def read_timers(
    path: Path,
    uid: str | OperatorIdentifier,
    *,
    metadata: bool = False,
    keys: Sequence[Any] | None = None,
    path_mapping: Mapping[str, str] | None = None,
    scratch: Path | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the timers of an operator: ``key``, ``window`` or ``namespace``, ``timestamp`` (ms), ``domain``, ``service``.

    Parameters and errors are those of :func:`read_state`.
    """
    return read_state(path, uid, kind=TIMER_KIND, metadata=metadata, keys=keys, path_mapping=path_mapping, scratch=scratch)


def read_raw_state(
    path: Path,
    uid: str | OperatorIdentifier,
    kind: str = RAW_KEYED,
    *,
    path_mapping: Mapping[str, str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read raw state, which an operator wrote itself in a format of its own, as bytes.

    Parameters
    ----------
    kind
        ``RAW_KEYED`` gives ``subtask``, ``key_group`` and ``value``; ``RAW_OPERATOR`` gives ``subtask``, ``partition`` (the
        number of the partition that the operator started) and ``value``.

    Other parameters and errors are those of :func:`read_state`. Timers that Flink keeps in raw keyed state are no raw state
    here: :func:`read_timers` reads them.
    """
    return read_state(path, uid, kind=kind, path_mapping=path_mapping)


def read_channel_state(
    path: Path,
    uid: str | OperatorIdentifier | None = None,
    *,
    raw: bool = False,
    path_mapping: Mapping[str, str] | None = None,
) -> pa.Table:
    """The in-flight data of an unaligned checkpoint: what waited in network buffers, a row per channel.

    Its records belong to the edges between operators, whose types no snapshot holds, so they are counted and not decoded.

    Parameters
    ----------
    path, path_mapping
        As for :func:`read_state`.
    uid
        One operator; ``None`` for all.
    raw
        Adds ``buffers``: the bytes of each buffer, in the order in which they were sent.

    Returns
    -------
    pyarrow.Table
        ``operator_uid``, ``operator_uid_hash``, ``subtask``, ``direction`` (``input`` or ``output``), ``gate`` (input gate or
        result partition), ``channel`` (input channel or subpartition), ``size_in_bytes`` as Flink recorded it, and
        ``record_count``: whole records, null where the buffers do not begin with the start of one.

    Raises
    ------
    NotFoundError
        There is no such operator.
    CorruptSnapshotError, MissingFileError
        The buffers can't be read.
    """
    snapshot = _open(path, path_mapping)
    if uid is None:
        return channel_table(snapshot, snapshot.metadata.operators, raw=raw)
    identifier = OperatorIdentifier.of(uid)
    return channel_table(snapshot, [find_operator(snapshot, identifier.uid, identifier.uid_hash)], raw=raw)


def read_source_splits(
    path: Path,
    uid: str | OperatorIdentifier,
    connector: str | None = None,
    *,
    path_mapping: Mapping[str, str] | None = None,
) -> pa.Table:
    """Read the splits of a source: what its readers work on, and what its enumerator still has.

    Parameters
    ----------
    path, uid, path_mapping
        As for :func:`read_state`.
    connector
        ``sequence`` (also generated data), ``kafka``, ``file``, ``hybrid``, ``kafka-consumer`` (the ``FlinkKafkaConsumer`` of
        older versions), ``raw`` for bytes. A snapshot does not name the connector; by default it is the one whose format all
        bytes have, and ``raw`` where none does.

    Returns
    -------
    pyarrow.Table
        A row per split: ``subtask`` (null where no reader has it), ``split_id``, the connector's columns, ``assignment``,
        ``version`` and ``raw`` (the split's bytes and the version of their format).

        ============== ============================================================================================
        connector      columns
        ============== ============================================================================================
        sequence       ``from_number`` (the next to emit), ``to_number``
        kafka          ``topic``, ``partition``, ``starting_offset`` (the next to read; -1 latest, -2 earliest,
                       -3 committed), ``stopping_offset`` (null for none); null where the enumerator knows no offset
        kafka-consumer those of ``kafka``
        file           ``path``, ``offset``, ``length``, ``modification_time``, ``file_size``, ``hosts``,
                       ``reader_offset``, ``records_after_offset``
        hybrid         ``source_index``, ``finished``, ``wrapped_version``, ``wrapped``, and those of the sources in it
        ============== ============================================================================================

    Raises
    ------
    NotFoundError
        There is no such operator, or it is no source with state.
    OptionError
        There is no such connector, or the bytes fit several, of which one has to be named.
    CorruptSnapshotError
        The bytes are not those of the connector that was named.
    """
    snapshot, identifier = _open(path, path_mapping), OperatorIdentifier.of(uid)
    return splits_of_source(snapshot, find_operator(snapshot, identifier.uid, identifier.uid_hash), connector)


def operators(path: Path, *, path_mapping: Mapping[str, str] | None = None) -> pa.Table:
    """The operators of a snapshot, with sizes: the columns of Flink's ``savepoint_metadata``, with underscores."""
    return catalog.operators(_open(path, path_mapping))


def states(path: Path, *, path_mapping: Mapping[str, str] | None = None, serializers: Sequence[str] = ()) -> pa.Table:
    """The states of all operators: names, kinds, types, and the schemas in which they are read."""
    import_serializers(serializers)
    return catalog.states(_open(path, path_mapping))


def handles(path: Path, *, path_mapping: Mapping[str, str] | None = None) -> pa.Table:
    """The files, parts of files and inline bytes that a snapshot consists of."""
    return catalog.handles(_open(path, path_mapping))


def snapshots(directory: Path) -> pa.Table:
    """The savepoints and checkpoints in a directory and up to four levels below it.

    ``path``, ``kind`` (``savepoint`` or ``checkpoint``), ``job_id`` (where the path tells), ``checkpoint_id``, ``time`` (when
    ``_metadata`` was written), ``size_in_bytes`` (of all state referred to, shared files included), and ``is_complete`` (whether
    ``_metadata``, which Flink writes last, is there and can be read).

    Raises
    ------
    NotASnapshotError
        There is no such directory.
    """
    rows = [{_RENAMED.get(k, k): v for k, v in asdict(info).items()} for info in list_snapshots(directory)]
    return pa.Table.from_pylist(rows, SNAPSHOTS_SCHEMA)


def _open(path: Path, path_mapping: Mapping[str, str] | None) -> Snapshot:
    return open_snapshot(path, path_mapping)
