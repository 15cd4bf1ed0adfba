"""Commands that show and change the state of connectors: offsets of sources, pending files and transactions of sinks."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from state_processor import OperatorIdentifier, arrow, connectors
from state_processor.arrow import SavepointWriter
from state_processor.command_line import (
    NAMES,
    PRINTING,
    UID,
    UID_HELP,
    argument,
    call,
    command,
    filled,
    flags,
    pairs,
    print_table,
    repeated,
    rewriting,
    several,
    switch,
)
from state_processor.connectors import RAW_BYTES, VERSION, WRITER
from state_processor.errors import NotFoundError, OptionError
from state_processor.options import Kind
from state_processor.states import ROLE, TRANSACTION
from state_processor.write import SavepointBuild

Row = Mapping[str, Any]

_RAW: Final = "raw"
"""The name for sinks of unknown connectors."""
_TOPIC, _PARTITION, _STARTING_OFFSET = "topic", "partition", "starting_offset"
_TRANSACTIONS, _PREFIX = "transactions", "transactional_id_prefix"
_PATHS: Final = ("path", "temporary_path")

_BYTES: Final = frozenset({RAW_BYTES, VERSION})
_BYTES_OF_SINK: Final = _BYTES | {"file", "file_version"}

_EARLIEST: Final = -2
"""The offset of Kafka for the start of a partition."""

_CONNECTOR: Final = "the connector; by default detected from the bytes"
_SOURCE: Final = argument("--connector", choices=connectors.names()["sources"], help=_CONNECTOR)
_SINK: Final = several(
    argument("--uid", required=True, help=f"the sink: {UID_HELP}"),
    argument("--connector", choices=(*connectors.names()["sinks"], _RAW), help=_CONNECTOR),
    argument(
        "--committer",
        metavar="UID",
        help="the operator of the committers, if its uid is not 'Sink Committer: ' and the uid of the sink",
    ),
)


@command(
    "offsets",
    "offsets of a source",
    "Show the splits of a source with their offsets (read_source_splits).",
    PRINTING,
    flags(Kind.SPLITS),
    UID,
    _SOURCE,
    python=("sp.arrow.read_source_splits", "SavepointReader.read_source_splits"),
)
def _offsets(options: argparse.Namespace) -> None:
    _print(_splits(options), options, _BYTES)


@rewriting(
    "set-offsets",
    "a copy with other offsets of a source of Kafka (with_source_splits)",
    UID,
    _SOURCE,
    repeated("--set", "the next offset to read of a partition", metavar="TOPIC:PARTITION=OFFSET"),
    switch("--earliest", "read all other partitions from their earliest offset"),
    python=("SavepointWriter.with_source_splits",),
)
def _set_offsets(plan: SavepointBuild, options: argparse.Namespace) -> None:
    offsets = pairs("--set", "TOPIC:PARTITION=OFFSET", options.set)
    if not offsets and not options.earliest:
        raise OptionError("nothing to change: pass --set or --earliest")
    splits = _splits(options)
    if _STARTING_OFFSET not in splits.column_names:
        raise OptionError(f"the source {options.uid} has no column {_STARTING_OFFSET!r}: only offsets of Kafka can be set")
    rows = splits.to_pylist()
    names = {f"{row[_TOPIC]}:{row[_PARTITION]}" for row in rows if row[_TOPIC] is not None}
    for name, offset in offsets.items():
        if name not in names:
            raise NotFoundError.naming_nearest("partition", name, sorted(names), f"source {options.uid}")
        if not offset.removeprefix("-").isdecimal():
            raise OptionError(f"--set {name}={offset}: expected a whole number")
    for row in rows:
        name = f"{row[_TOPIC]}:{row[_PARTITION]}"
        if name in offsets:
            row[_STARTING_OFFSET] = int(offsets[name])
        elif options.earliest and name in names:
            row[_STARTING_OFFSET] = _EARLIEST
    changed = pa.Table.from_pylist(rows, splits.schema)
    SavepointWriter(plan).with_source_splits(OperatorIdentifier.of(options.uid), changed, options.connector)


def _print(table: pa.Table, options: argparse.Namespace, hidden: frozenset[str], whole: frozenset[str] = NAMES) -> None:
    rows = table.to_pylist()
    columns = [name for name in filled(rows[0] if rows else (), rows) if name not in hidden]
    print_table(columns, rows, options, whole=whole)


def _splits(options: argparse.Namespace) -> pa.Table:
    return call(arrow.read_source_splits, options)


@command(
    "sink-state",
    "pending files or transactions of a sink",
    "Show the pending files or transactions of a sink.",
    PRINTING,
    flags(Kind.SINK),
    _SINK,
    python=("sp.arrow.read_sink_state", "SavepointReader.read_sink_state"),
)
def _show(options: argparse.Namespace) -> None:
    _print(_state(options), options, _BYTES_OF_SINK, NAMES.union(_PATHS))


def _state(options: argparse.Namespace) -> pa.Table:
    return call(arrow.read_sink_state, options)


@rewriting(
    "change-sink",
    "a copy with fewer pending files or transactions of a sink",
    _SINK,
    repeated("--drop-transaction", "do not commit this Kafka transaction; its records are lost", metavar="ID"),
    repeated(
        "--drop-file",
        "drop this file, by its path or temporary path: it is neither committed nor continued",
        metavar="PATH",
    ),
    argument("--prefix", help="the new prefix of the transactional ids of the writers"),
    python=("SavepointWriter.with_sink_state",),
)
def _change(plan: SavepointBuild, options: argparse.Namespace) -> None:
    steps: list[Callable[[Sequence[Row]], list[Row]]] = [partial(_without_transaction, id_) for id_ in options.drop_transaction]
    steps += [partial(_without_file, path) for path in options.drop_file]
    if options.prefix is not None:
        steps.append(partial(_with_prefix, options.prefix))
    if not steps:
        raise OptionError("nothing to change: pass --drop-transaction, --drop-file or --prefix")
    state = _state(options)
    rows: list[Row] = state.to_pylist()
    for step in steps:
        rows = step(rows)
    changed = pa.Table.from_pylist(rows, state.schema)
    SavepointWriter(plan).with_sink_state(OperatorIdentifier.of(options.uid), changed, options.connector, options.committer)


def _without_transaction(id_: str, rows: Sequence[Row]) -> list[Row]:
    """Drop a transaction: it is not committed, and the writer does not abort it."""
    column = _TRANSACTIONS
    remaining = []
    for row in rows:
        if row.get(TRANSACTION) != id_:
            other_transactions = [transaction for transaction in row.get(column) or () if transaction[TRANSACTION] != id_]
            remaining.append({**row, column: other_transactions} if row.get(column) else row)
    if remaining == rows:
        ids = {t[TRANSACTION] for row in rows for t in (row, *(row.get(column) or ())) if TRANSACTION in t}
        raise NotFoundError.naming_nearest("transaction", id_, filter(None, ids), "the sink")
    return remaining


def _without_file(path: str, rows: Sequence[Row]) -> list[Row]:
    remaining = [row for row in rows if path not in map(row.get, _PATHS)]
    if len(remaining) == len(rows):
        paths = {row.get(name) for row in rows for name in _PATHS}
        raise NotFoundError.naming_nearest("file", path, filter(None, paths), "the sink")
    return remaining


def _with_prefix(prefix: str, rows: Sequence[Row]) -> list[Row]:
    if not any(row.get(_PREFIX) for row in rows):
        raise OptionError(f"--prefix {prefix}: the sink does not have a writer with a prefix of transactional ids")
    return [{**row, _PREFIX: prefix} if row[ROLE] == WRITER else row for row in rows]
