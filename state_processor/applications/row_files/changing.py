"""Commands that write rows of files into states."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from state_processor import ListState, MapState, ValueState, arrow
from state_processor.applications.row_files.formats import FORMATS, named_format, read_rows
from state_processor.command_line import (
    UID,
    argument,
    command,
    flag,
    flag_values,
    pairs,
    positive,
    repeated,
    rewriting,
    say,
    switch,
)
from state_processor.errors import InvalidRowError, NotFoundError, OptionError
from state_processor.options import KEYWORD_OPTIONS
from state_processor.states import read_type
from state_processor.support import only_keys
from state_processor.types import StateSpec, parse_type
from state_processor.write import DEFAULT_MAX_PARALLELISM, DEFAULT_VERSION, SavepointBuild

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
    declared = only_keys(flag_values(options), _TYPES)
    types: dict[str, pa.DataType] = {}
    for flatten in (False, True):
        read_options: dict[str, Any] = {"flatten": flatten, "metadata": True, "nanos": "string", **flag_values(options)}
        schema = arrow.read_state(options.path, options.uid, options.state, **read_options).schema
        types = {**dict(zip(schema.names, schema.types, strict=True)), **types}
    types[options.state] = types.get("value", types["key"])
    try:
        rows = read_rows(options.rows, options.rows_format, types)
    except InvalidRowError as error:
        if any(type_ is not None and type_.byte_arrays for type_ in map(read_type, schema)):
            raise InvalidRowError(f"{error}. The state is of PyFlink: declare its type by --python-type") from None
        raise
    writer = arrow.SavepointWriter(plan)
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
    from state_processor import open

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
    states = only_keys(stored, rows.column_names) | states
    writer = arrow.SavepointWriter.new(options.max_parallelism, options.flink_version)
    writer.with_keyed_state(options.uid, rows, options.key, key, states or None)
    say(str(writer.write(options.path, overwrite=options.overwrite)))


def _declared(flag: str, texts: list[str]) -> Mapping[str, str]:
    return pairs(flag, "COLUMN=TYPE", texts)


def _column_types(key_column: str, key: Any, states: Mapping[str, StateSpec]) -> dict[str, pa.DataType]:
    """Return the types of the columns that the states are written from."""
    from state_processor.serializers import DecodeOptions

    options = DecodeOptions(nanos="string")
    types = {} if key is None else {key_column: key.arrow_type(options)}
    for name, spec in states.items():
        if isinstance(spec, MapState):
            types[name] = pa.map_(spec.key.arrow_type(options), spec.value.arrow_type(options))
        else:
            element = spec.type.arrow_type(options)
            types[name] = pa.list_(element) if isinstance(spec, ListState) else element
    return types
