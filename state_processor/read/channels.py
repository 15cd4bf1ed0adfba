"""Data in flight of unaligned checkpoints: counts of records, and records as rows."""

from __future__ import annotations

from os import PathLike
from typing import TypeAlias, Unpack

import pyarrow as pa

from state_processor.backends.read.channel_records import ChannelRecords
from state_processor.backends.read.raw_state import channel_table, wanted_channels
from state_processor.backends.read.stored_operator import find_operator
from state_processor.options.access import SnapshotAccess
from state_processor.options.groups import OpeningOptions
from state_processor.options.keywords import takes_options
from state_processor.read.rows import Rows
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.decode_options import DecodeOptions, Nanos
from state_processor.support.doors import spelled
from state_processor.support.errors import OptionError
from state_processor.types.declared_types import parse_type
from state_processor.types.identifier import OperatorIdentifier

Path: TypeAlias = str | PathLike[str]


@takes_options
def read_channel_state(
    path: Path,
    uid: str | OperatorIdentifier | None = None,
    *,
    raw: bool = False,
    **options: Unpack[OpeningOptions],
) -> pa.Table:
    """Read the in-flight data of an unaligned checkpoint: the contents of network buffers, a row per channel.

    The records belong to the edges between operators, whose types snapshots do not record, so they are counted here.
    :func:`read_channel_records` decodes them, given their type.

    Parameters
    ----------
    path
        As for :func:`~state_processor.arrow.read_state`.
    uid
        One operator; ``None`` for all.
    raw
        Adds ``buffers``: the bytes of each buffer, in the order of sending.
    **options
        See :class:`~state_processor.options.groups.OpeningOptions`.

    Returns
    -------
    pyarrow.Table
        ``operator_uid``, ``operator_uid_hash``, ``subtask``, ``direction`` (``input`` or ``output``), ``gate`` (input gate or
        result partition), ``channel`` (input channel or subpartition), ``size_in_bytes`` as Flink recorded it, and
        ``record_count``: whole records, null where the buffers do not begin with the start of one.

    Raises
    ------
    NotFoundError
        If the operator does not exist.
    CorruptSnapshotError, MissingFileError
        The buffers can't be read.
    """
    snapshot = SnapshotAccess.of(**options).open(path)
    if uid is None:
        return channel_table(snapshot, snapshot.metadata.operators, raw=raw)
    identifier = OperatorIdentifier.of(uid)
    return channel_table(snapshot, [find_operator(snapshot, identifier.uid, identifier.uid_hash)], raw=raw)


@takes_options
def read_channel_records(
    path: Path,
    uid: str | OperatorIdentifier,
    type: TypeSerializer | str,
    *,
    direction: str | None = None,
    gate: int | None = None,
    nanos: Nanos = "check",
    **options: Unpack[OpeningOptions],
) -> Rows:
    """Read the in-flight data of an unaligned checkpoint as rows: records, watermarks and other events, in the order of sending.

    A record may be divided over buffers, which are put together. What the snapshot has only a part of is a row, too: its
    ``kind`` is ``incomplete`` for the begin of a record, ``continued`` for the rest of a record whose begin was sent before.

    Parameters
    ----------
    path
        As for :func:`~state_processor.arrow.read_state`.
    uid
        The operator.
    type
        The type of the records, of :class:`~state_processor.Types` or as text: snapshots do not have the types of edges.
    direction
        ``input`` (what the operator was going to process) or ``output`` (what it had written); ``None`` for both.
    gate
        One input gate or result partition; ``None`` for all. Gates of an operator with several inputs can have several types.
    nanos
        See :class:`~state_processor.options.groups.OperatorStateOptions`.
    **options
        See :class:`~state_processor.options.groups.OpeningOptions`.

    Returns
    -------
    Rows
        ``subtask``, ``direction``, ``gate``, ``channel``, ``index`` (the place in the channel), ``kind`` (``record``,
        ``watermark``, ``latency_marker``, ``watermark_status``, ``record_attributes``, ``internal_watermark``, ``incomplete``,
        ``continued``), ``timestamp`` in milliseconds, ``record``, and ``detail``: what other kinds say, in words.

    Raises
    ------
    NotFoundError
        If the operator does not exist.
    OptionError
        If the type, the direction or the gate is not one; a gate without data is an error.
    CorruptSnapshotError, MissingFileError
        The buffers can't be read, or hold records of another type.
    """
    type_ = parse_type(type) if isinstance(type, str) else type
    if not isinstance(type_, TypeSerializer):
        raise OptionError(f"{spelled('type', type)}: expected a type of Types, or the text of one")
    snapshot, identifier = SnapshotAccess.of(**options).open(path), OperatorIdentifier.of(uid)
    operator = find_operator(snapshot, identifier.uid, identifier.uid_hash)
    channels = wanted_channels(operator, direction, gate)
    records = ChannelRecords(snapshot, channels, type_, DecodeOptions(nanos=nanos))
    return Rows(records.schema, records.read)
