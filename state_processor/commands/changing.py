"""Commands that write rows of files into states, and offsets into sources."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping
from decimal import Decimal
from io import BytesIO
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from state_processor import arrow
from state_processor.backends.connectors import kafka
from state_processor.backends.connectors.registry import sources
from state_processor.backends.read.option import Kind
from state_processor.commands.command import (
    PRINTING,
    SNAPSHOT,
    UID,
    argument,
    command,
    flag,
    flag_values,
    flags,
    pairs,
    positive,
    print_json,
    print_table,
    repeated,
    switch,
)
from state_processor.commands.rewriting import rewriting
from state_processor.commands.row_files import FORMATS, STANDARD_OUTPUT, format_of, named_format
from state_processor.commands.terminal import say
from state_processor.display.showing import filled
from state_processor.options.keywords import KEYWORD_OPTIONS
from state_processor.read.read_types import read_type
from state_processor.support.errors import InvalidRowError, MissingFileError, NotFoundError, OptionError
from state_processor.types.declared_types import parse_type
from state_processor.types.identifier import OperatorIdentifier
from state_processor.types.state_specs import ListState, MapState, StateSpec, ValueState
from state_processor.write.build import DEFAULT_VERSION, SavepointBuild
from state_processor.write.plan.draft import DEFAULT_MAX_PARALLELISM
from state_processor.write.savepoint_writer import SavepointWriter

STANDARD_INPUT: Final = STANDARD_OUTPUT


FLAGS: Final = ("--rows", "--rows-format")
"""The flags of the file and of its format."""


def read_rows(path: str, form: str | None, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Read the rows of a CSV, JSON, Parquet or Arrow file.

    ``path``: the file; ``-`` for standard input. ``form``: the format, if the name of the file does not have its suffix.
    ``types``: types of columns, for formats that have text in place of them: times, bytes, and nested values as JSON.
    """
    if path == STANDARD_INPUT and form is None:
        raise OptionError(f"standard input needs a format; choose the format with {FLAGS[1]}")
    name, compression = (form or "", None) if path == STANDARD_INPUT else format_of(path, form, FLAGS)
    try:
        data = sys.stdin.buffer.read() if path == STANDARD_INPUT else _content(path, compression)
        if name == "parquet":
            return pyarrow.parquet.read_table(BytesIO(data))
        if name == "feather":
            return pyarrow.feather.read_table(BytesIO(data))
        return _csv(data, types) if name == "csv" else _json(data.decode(), name, types)
    except OSError as problem:
        raise MissingFileError(f"{path} can't be read: {problem.strerror or problem}") from None
    except (pa.ArrowException, ValueError) as problem:
        raise InvalidRowError(f"{path}: expected rows in the format {name}: {problem}") from None


def _content(path: str, compression: str | None) -> bytes:
    with pa.input_stream(os.fspath(path), compression=compression) as stream:
        return bytes(stream.read())


def _csv(data: bytes, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Read CSV. An empty field is null, quoted empty text is text."""
    names = pyarrow.csv.open_csv(BytesIO(data)).schema.names
    column_types = {name: pa.string() for name in names if name in types}
    options = pyarrow.csv.ConvertOptions(
        column_types=column_types, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
    )
    table = pyarrow.csv.read_csv(BytesIO(data), convert_options=options)
    columns = [_of_text(n, column, types[n]) if n in types else column for n, column in zip(names, table.columns, strict=True)]
    return pa.Table.from_arrays(columns, names=names)


def _of_text(name: str, column: pa.ChunkedArray, type_: pa.DataType) -> Any:
    """Return a column of text in another type: nested values are JSON."""
    if pa.types.is_string(type_):
        return column
    if pa.types.is_nested(type_):
        return _array(name, (None if text is None else json.loads(text) for text in column.to_pylist()), type_)
    if pa.types.is_binary(type_):
        return _array(name, column.to_pylist(), type_)
    try:
        return column.cast(type_)
    except pa.ArrowException as problem:
        raise ValueError(f"column {name!r} of type {type_}: {problem}") from None


def _json(text: str, name: str, types: Mapping[str, pa.DataType]) -> pa.Table:
    if name == "json" and text.lstrip()[:1] == "{":
        raise ValueError("expected a list of objects; an object on each line is the format ndjson")
    lines = (line for line in text.splitlines() if line.strip())
    rows = json.loads(text) if name == "json" else list(map(json.loads, lines))
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("expected a list of objects" if name == "json" else "expected an object in each line")
    names = list(dict.fromkeys(column for row in rows for column in row))
    columns = {n: [row.get(n) for row in rows] for n in names}
    return pa.table({n: _array(n, v, types[n]) if n in types else pa.array(v) for n, v in columns.items()})


def _array(name: str, values: Iterable[Any], type_: pa.DataType) -> pa.Array:
    try:
        return pa.array([_value(value, type_) for value in values], type_)
    except (pa.ArrowException, ValueError, TypeError, AttributeError) as problem:
        raise ValueError(f"column {name!r} of type {type_}: {problem}") from None


def _value(value: Any, type_: pa.DataType) -> Any:
    """Return a value of JSON as Arrow takes it; see :func:`~state_processor.display.text_tables.json_value`."""
    if value is None:
        return None
    if pa.types.is_struct(type_):
        names = [field.name for field in type_]
        unknown = [name for name in value if name not in names]
        if unknown:
            raise ValueError(f"there is no field {unknown[0]!r}; there are {', '.join(names)}")
        return {field.name: _value(value.get(field.name), field.type) for field in type_}
    if pa.types.is_map(type_):
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(_value(k, type_.key_type), _value(v, type_.item_type)) for k, v in pairs]
    if pa.types.is_list(type_):
        return [_value(element, type_.value_type) for element in value]
    return _scalar(value, type_)


def _scalar(value: Any, type_: pa.DataType) -> Any:
    if pa.types.is_binary(type_):
        return bytes.fromhex(value)
    if pa.types.is_decimal(type_):
        return Decimal(str(value))
    if pa.types.is_floating(type_):
        return float(value)
    return pa.scalar(value, pa.string()).cast(type_).as_py() if pa.types.is_temporal(type_) else value


_EARLIEST: Final = -2

_ROWS: Final = argument("--rows", required=True, metavar="FILE", help="a CSV, JSON, Parquet or Arrow file; - for standard input")
_TYPES: Final = ("types", "python_type")
"""Options that declare types which snapshots do not record, as for reading."""
_FORM: Final = argument(
    "--rows-format",
    type=named_format,
    choices=tuple(FORMATS),
    help="the format, if the name of the file does not have its suffix",
)


@rewriting(
    "update",
    "a copy in which rows of a file change a state (update_keyed_state, delete_keys)",
    UID,
    argument("--state", required=True, help="name of the state"),
    _ROWS,
    _FORM,
    switch("--delete", "delete the keys of the rows from the state instead"),
    *(flag(KEYWORD_OPTIONS[name]) for name in _TYPES),
    python=("SavepointWriter.update_keyed_state",),
)
def _update(plan: SavepointBuild, options: argparse.Namespace) -> None:
    declared = {name: value for name, value in flag_values(options).items() if name in _TYPES}
    types: dict[str, pa.DataType] = {}
    for flatten in (False, True):
        how: dict[str, Any] = {"flatten": flatten, "metadata": True, "nanos": "string", **flag_values(options)}
        schema = arrow.read_state(options.path, options.uid, options.state, **how).schema
        types = {**{field.name: field.type for field in schema}, **types}
    types[options.state] = types.get("value", types["key"])
    try:
        rows = read_rows(options.rows, options.rows_format, types)
    except InvalidRowError as error:
        if any(type_ is not None and type_.byte_arrays for type_ in map(read_type, schema)):
            raise InvalidRowError(f"{error}. The state is of PyFlink: declare its type by --python-type") from None
        raise
    writer = SavepointWriter(plan)
    if options.delete:
        writer.delete_keys(options.uid, rows.select(["key"]) if "key" in rows.column_names else rows, options.state)
    else:
        writer.update_keyed_state(options.uid, options.state, rows, **declared)


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

    stored: Mapping[str, StateSpec] = {}
    key = None if options.key_type is None else parse_type(options.key_type)
    if options.types_from is not None:
        stored = operator = open(options.types_from).types(options.uid)
        key = key or operator.key
    states: dict[str, StateSpec] = {}
    states |= {name: ValueState(parse_type(text)) for name, text in _declared("--value", options.value).items()}
    states |= {name: ListState(parse_type(text)) for name, text in _declared("--list", options.list).items()}
    for name, text in _declared("--map", options.map).items():
        type_: Any = parse_type(text)
        if not text.startswith("MAP<"):
            raise OptionError(f"--map {name}={text}: expected a type such as MAP<STRING,LONG>")
        states[name] = MapState(type_.key, type_.value.inner)
    types = _column_types(options.key, key, {**stored, **states})
    rows = read_rows(options.rows, options.rows_format, types)
    for name in rows.column_names if stored else ():
        if name not in (options.key, *stored, *states):
            raise NotFoundError.naming_nearest("state", name, sorted(stored), f"operator {options.uid!r} of {options.types_from}")
    states = {name: spec for name, spec in stored.items() if name in rows.column_names} | states
    writer = SavepointWriter.new(options.max_parallelism, options.flink_version)
    writer.with_keyed_state(options.uid, rows, options.key, key, states or None)
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
