"""Commands that write rows of files into states, and offsets into sources."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from state_processor import arrow
from state_processor.backends.connectors import kafka
from state_processor.backends.connectors.registry import sources
from state_processor.backends.read.option import Kind
from state_processor.commands.command import PRINTING, SNAPSHOT, UID, argument, command, flags, pairs, positive, repeated, switch
from state_processor.commands.printing import print_json, print_table
from state_processor.commands.rewriting import rewriting
from state_processor.commands.row_files import read_rows
from state_processor.commands.row_formats import FORMATS
from state_processor.commands.terminal import say
from state_processor.display.showing import filled
from state_processor.options.flags import flag_values
from state_processor.serializers.errors import NotFoundError, OptionError
from state_processor.types.identifier import OperatorIdentifier
from state_processor.types.state_specs import ListState, MapState, StateSpec, ValueState
from state_processor.types.type_parser import parse_type
from state_processor.write.arrow_writer import SavepointWriter
from state_processor.write.build import DEFAULT_VERSION, SavepointBuild
from state_processor.write.draft import DEFAULT_MAX_PARALLELISM

_EARLIEST: Final = -2

_ROWS: Final = argument("--rows", required=True, metavar="FILE", help="a CSV, JSON, Parquet or Arrow file; - for standard input")
_FORM: Final = argument(
    "--rows-format", choices=tuple(FORMATS), help="the format, if the name of the file does not have its suffix"
)


@rewriting(
    "update",
    "a copy in which rows of a file change a state (update_keyed_state, delete_keys)",
    UID,
    argument("--state", required=True, help="name of the state"),
    _ROWS,
    _FORM,
    switch("--delete", "delete the keys of the rows from the state instead"),
    python=("SavepointWriter.update_keyed_state",),
)
def _update(plan: SavepointBuild, options: argparse.Namespace) -> None:
    types: dict[str, pa.DataType] = {}
    for flatten in (False, True):
        how: dict[str, Any] = {"flatten": flatten, "metadata": True, "nanos": "string", **flag_values(options)}
        schema = arrow.read_state(options.path, options.uid, options.state, **how).schema
        types = {**{field.name: field.type for field in schema}, **types}
    types[options.state] = types.get("value", types["key"])
    rows = read_rows(options.rows, options.rows_format, types)
    writer = SavepointWriter(plan)
    if options.delete:
        writer.delete_keys(options.uid, rows.select(["key"]) if "key" in rows.column_names else rows, options.state)
    else:
        writer.update_keyed_state(options.uid, options.state, rows)


@command(
    "new",
    "a new savepoint with keyed states from the rows of a file",
    "Write a new savepoint with keyed states from the rows of a file (with_keyed_state): one row per key, one column per state. "
    "Parquet and Arrow files from the command export have the types of the states that they were read from.",
    argument("path", metavar="OUT", help="directory of the new savepoint"),
    argument("--uid", required=True, help="the uid of the operator"),
    _ROWS,
    _FORM,
    argument("--key", default="key", metavar="COLUMN", help="the column of the key (default: %(default)s)"),
    argument("--key-type", metavar="TYPE", help="the type of the key (default: the type that the column suggests)"),
    repeated("--value", "a value state and its type, such as total=LONG", metavar="COLUMN=TYPE"),
    repeated("--list", "a list state and the type of its elements", metavar="COLUMN=TYPE"),
    repeated("--map", "a map state and its type, such as items=MAP<STRING,LONG>", metavar="COLUMN=TYPE"),
    argument("--types-from", metavar="SNAPSHOT", help="take the types of the operator with this uid in another snapshot"),
    argument("--max-parallelism", type=positive, default=DEFAULT_MAX_PARALLELISM, metavar="N", help="the number of key groups"),
    argument(
        "--flink-version", default=DEFAULT_VERSION, metavar="VERSION", help="the Flink that restores it (default: %(default)s)"
    ),
    switch("--overwrite", "replace a savepoint in OUT when the new one is complete"),
    python=("SavepointWriter.with_keyed_state",),
)
def _new(options: argparse.Namespace) -> None:
    from state_processor.opening import open

    states: dict[str, StateSpec] = {}
    key = None if options.key_type is None else parse_type(options.key_type)
    if options.types_from is not None:
        stored = open(options.types_from).types(options.uid)
        states, key = dict(stored), key or stored.key
    states |= {name: ValueState(parse_type(text)) for name, text in _declared("--value", options.value).items()}
    states |= {name: ListState(parse_type(text)) for name, text in _declared("--list", options.list).items()}
    for name, text in _declared("--map", options.map).items():
        type_: Any = parse_type(text)
        if not text.startswith("MAP<"):
            raise OptionError(f"--map {name}={text}: expected a type such as MAP<STRING,LONG>")
        states[name] = MapState(type_.key, type_.value.inner)
    types = _column_types(options.key, key, states)
    rows = read_rows(options.rows, options.rows_format, types)
    written_states = {name: spec for name, spec in states.items() if name in rows.column_names}
    writer = SavepointWriter.new(options.max_parallelism, options.flink_version)
    writer.with_keyed_state(options.uid, rows, options.key, key, written_states or None)
    say(str(writer.write(options.path, overwrite=options.overwrite)))


def _declared(flag: str, texts: list[str]) -> Mapping[str, str]:
    return pairs(flag, "COLUMN=TYPE", texts)


def _column_types(key_column: str, key: Any, states: Mapping[str, StateSpec]) -> dict[str, pa.DataType]:
    """Return the types of the columns that the states are written from."""
    from state_processor.serializers.decode_options import DecodeOptions

    options = DecodeOptions(nanos="string")
    types = {} if key is None else {key_column: key.arrow_type(options)}
    for name, spec in states.items():
        if isinstance(spec, MapState):
            types[name] = pa.map_(spec.key.arrow_type(options), spec.value.arrow_type(options))
        else:
            element = spec.type.arrow_type(options)
            types[name] = pa.list_(element) if isinstance(spec, ListState) else element
    return types


_SOURCE: Final = argument("--connector", choices=tuple(sources()), help="the connector; by default detected from the bytes")


@command(
    "offsets",
    "offsets of a source",
    "Show the splits of a source with their offsets (read_source_splits).",
    SNAPSHOT,
    PRINTING,
    flags(Kind.SPLITS),
    UID,
    _SOURCE,
    python=("SavepointReader.read_source_splits",),
)
def _offsets(options: argparse.Namespace) -> None:
    rows = _splits(options).to_pylist()
    if options.json:
        print_json(rows)
        return
    print_table([name for name in filled(rows[0] if rows else (), rows) if name not in ("raw", "version")], rows, options)


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
    if kafka.STARTING not in splits.column_names:
        raise OptionError(f"the source {options.uid} has no column {kafka.STARTING!r}: only offsets of Kafka can be set")
    rows = splits.to_pylist()
    names = {f"{row[kafka.TOPIC]}:{row[kafka.PARTITION]}" for row in rows if row[kafka.TOPIC] is not None}
    for name, offset in offsets.items():
        if name not in names:
            raise NotFoundError.naming_nearest("partition", name, sorted(names), f"source {options.uid}")
        if not offset.removeprefix("-").isdecimal():
            raise OptionError(f"--set {name}={offset}: expected a whole number")
    for row in rows:
        name = f"{row[kafka.TOPIC]}:{row[kafka.PARTITION]}"
        if name in offsets:
            row[kafka.STARTING] = int(offsets[name])
        elif options.earliest and name in names:
            row[kafka.STARTING] = _EARLIEST
    changed = pa.Table.from_pylist(rows, splits.schema)
    SavepointWriter(plan).with_source_splits(OperatorIdentifier.of(options.uid), changed, options.connector)


def _splits(options: argparse.Namespace) -> pa.Table:
    return arrow.read_source_splits(options.path, options.uid, options.connector, **flag_values(options))
