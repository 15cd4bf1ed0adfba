"""Commands that show the content of a snapshot, and its sizes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from typing import Any, Final, get_args

import pyarrow as pa

from state_processor import arrow
from state_processor.backends.metadata.snapshot import Snapshot, uids_hint
from state_processor.backends.read import catalog
from state_processor.backends.read.read_options import ROWS, Kind
from state_processor.backends.read.state_access import TIMER_KIND
from state_processor.backends.read.stored_operator import StoredOperator, find_operator
from state_processor.commands.command import (
    ANY_OPERATOR,
    OPERATOR,
    PRINTING,
    argument,
    by_argument,
    call,
    command,
    flag,
    flag_values,
    flags,
    named_operator,
    one_of,
    positive,
    print_batches,
    print_json,
    print_schema,
    print_table,
    required_operator,
    switch,
    with_sizes,
)
from state_processor.commands.terminal import say
from state_processor.display.showing import SIZES, filled, with_operator
from state_processor.display.text_tables import text_of
from state_processor.options.access import SnapshotAccess
from state_processor.options.groups import OpeningOptions
from state_processor.options.keywords import STATE_KIND
from state_processor.read.scans import StateRequest
from state_processor.read.sizes import SizesBy
from state_processor.serializers.text_grammar import parse_json
from state_processor.support.errors import OptionError
from state_processor.support.mappings import only_keys
from state_processor.types.identifier import OperatorIdentifier

_QUERIES: Final = "state_processor.applications.sql.session"
"""The module that evaluates conditions of SQL, with DuckDB. Only ``--where`` imports it."""
DISPLAY: Final[dict[str, Any]] = {"nanos": "string"}
"""How times become text, with all digits: on terminals, and in files of text. Typed data has the default of ``nanos``."""
WHERE: Final = argument(
    "--where",
    metavar="EXPRESSION",
    help='only rows for which this condition of SQL (DuckDB) is true, such as "value > 100"',
)
KIND: Final = flag(STATE_KIND, f" It is {STATE_KIND.kind.expected}.")
COLUMNS: Final = argument(
    "--columns",
    type=lambda names: list(map(str.strip, names.split(","))),
    help="only these columns and fields, separated by commas: key,value.id; --where can use only these",
)


def state_batches(
    options: argparse.Namespace, operator: OperatorIdentifier, state: str | None, **options_of_read: Any
) -> Iterator[pa.RecordBatch]:
    """Read the rows that the options name, as batches of one schema, at least one.

    ``options``: arguments of the command. ``operator`` and ``state``: as for :func:`state_processor.arrow.read_state`.
    ``**options_of_read``: more options of reading.
    """
    shape = {"columns": getattr(options, "columns", None), "kind": options.kind}
    values = {**shape, **options_of_read, **flag_values(options)}
    if options.where is None:
        return arrow.read_state(options.path, operator, state, **values)
    request = StateRequest(operator, state, values.pop("kind"), None, values)
    rows: Iterator[pa.RecordBatch] = import_module(_QUERIES).matching_rows(request.open_path(options.path), options.where)
    return rows


_STATE_COLUMNS: Final = (
    "state_name",
    "state_kind",
    "description",
    "key_type",
    "namespace_type",
    "map_key_type",
    "value_type",
    "ttl",
    "python",
    "backend",
    "size",
)


@command(
    "inspect",
    "operators of a snapshot, with sizes",
    "Show the operators of a snapshot, with sizes.",
    PRINTING,
    flags(Kind.TABLES),
    switch("--files", "list the files and other parts of the snapshot instead"),
    python=("sp.arrow.operators", "sp.arrow.handles", "SavepointReader.operators", "SavepointReader.handles"),
)
def _inspect(options: argparse.Namespace) -> None:
    snapshot = SnapshotAccess.of(**flag_values(options)).open(options.path)
    if options.files:
        table_rows = catalog.handles(snapshot).to_pylist()
    else:
        kinds = catalog.operator_kinds(snapshot)
        table_rows = [
            row | {"operator_kind": kinds.get(row["operator_uid_hash"])} for row in catalog.operators(snapshot).to_pylist()
        ]
    if options.json:
        print_json(table_rows)
        return
    rows = list(map(with_sizes, table_rows))
    if options.files:
        columns = ["operator", "subtask", "slot", "handle_type", "part", "path", "size"]
        print_table(columns, list(map(with_operator, rows)), options)
        return
    rows = [{k.removeprefix("operator_"): v for k, v in row.items()} for row in rows]
    columns = ["name", "kind", "uid", "uid_hash", "parallelism", "max_parallelism", "coordinator_size", "size"]
    if rows:
        say(f"checkpoint {rows[0]['checkpoint_id']}, {len(rows)} operators")
    print_table(filled(columns, rows), rows, options)
    _say_hint(snapshot)


def _say_hint(snapshot: Snapshot) -> None:
    hint = uids_hint(snapshot)
    if hint:
        say(f"\n{hint}")


@command(
    "states",
    "states of all operators, with types",
    "Show the states of all operators, or of one, with types.",
    ANY_OPERATOR,
    PRINTING,
    flags(Kind.TABLES),
    python=("sp.arrow.states", "SavepointReader.states"),
)
def _states(options: argparse.Namespace) -> None:
    snapshot = SnapshotAccess.of(**flag_values(options)).open(options.path)
    identifier = named_operator(options)
    operator = None if identifier is None else find_operator(snapshot, identifier.uid, identifier.uid_hash)
    rows = catalog.states(snapshot, operator, advise=True).to_pylist()
    if options.json:
        print_json(rows)
        return
    lines = [with_operator(with_sizes(row)) | {"python": row["python"] or None} for row in rows]
    columns = filled(_STATE_COLUMNS, lines)
    for number, (operator, rows_of_operator) in enumerate(groupby(lines, key=lambda row: row["operator"])):
        of_operator = list(rows_of_operator)
        kind = of_operator[0]["operator_kind"]
        say(f"{chr(10) * bool(number)}operator {text_of(operator)}{f', {kind}' if kind else ''}")
        print_table(columns, of_operator, options)
    if any(row["python"] for row in rows):
        say("\nA PyFlink job wrote these states: their values are bytes unless --python-type declares the type, such as LONG")
    _say_hint(snapshot)


@command(
    "show",
    "rows of a state",
    "Show the rows of a state.",
    PRINTING,
    flags(*ROWS),
    OPERATOR,
    one_of(
        argument("--state", help="name of the state; without it, all keyed states of the operator as columns"),
        switch("--timers", "the operator's timers"),
    ),
    KIND,
    argument("--key", action="append", help="only this key, as JSON or plain text; may be repeated"),
    argument("--limit", type=positive, default=20, metavar="N", help="number of rows (default: 20)"),
    switch("--schema", "the columns and their types instead of rows"),
    COLUMNS,
    WHERE,
    python=("sp.arrow.read_state", "SavepointReader.read_keyed_state"),
)
def _show(options: argparse.Namespace) -> None:
    if options.timers and options.kind not in (None, TIMER_KIND):
        raise OptionError(f"--timers --kind {options.kind}: use one of them")
    kind = TIMER_KIND if options.timers else options.kind
    keys = _keys(options.key, options) if options.key else None
    reading = {} if options.schema else DISPLAY
    batches = state_batches(options, required_operator(options), options.state, kind=kind, keys=keys, **reading)
    if options.schema:
        print_schema(next(batches).schema, options)
    else:
        print_batches(batches, options)


@command(
    "get",
    "states and timers of one key",
    "Show the states and timers of one key.",
    PRINTING,
    flags(Kind.LOOKUP),
    OPERATOR,
    argument("--state", help="name of the state; without it, all keyed states and the timers"),
    python=("sp.arrow.lookup", "SavepointReader.lookup"),
)
def _get(options: argparse.Namespace) -> None:
    (key,) = _keys([options.key], options)
    reading = {**DISPLAY, **flag_values(options)}
    contents = arrow.lookup(options.path, required_operator(options), key, options.state, **reading)
    if options.json:
        print_json({"state_name": name, **row} for name, table in contents.tables().items() for row in table.to_pylist())
        return
    if not options.vertical or not contents:
        say(str(contents))
        return
    print_table(*contents.rows(), options)


def _keys(texts: list[str], options: argparse.Namespace) -> list[Any]:
    """Return the keys to read: as text if the operator's keys are text, else parsed as JSON."""
    opening = only_keys(flag_values(options), OpeningOptions.__annotations__)
    operator = required_operator(options)
    stored = StoredOperator.find(SnapshotAccess.of(**opening).open(options.path), operator.uid, operator.uid_hash)
    keyed = (state for states in stored.surveyed[0].values() for state in states if state.is_keyed)
    are_texts = {str(state.serializers["key"]) for state in keyed} == {"STRING"}
    return [text if are_texts else _json_or_text(text) for text in texts]


def _json_or_text(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return text


@command(
    "sizes",
    "entries and bytes of keyed state, largest first",
    "Show the entries and bytes of keyed state, largest first.",
    PRINTING,
    flags(Kind.SIZES),
    ANY_OPERATOR,
    by_argument(get_args(SizesBy)),
    argument("--top", type=positive, metavar="N", help="number of rows (default: %(default)s)"),
    python=("sp.arrow.size_report", "SavepointReader.size_report"),
)
def _sizes(options: argparse.Namespace) -> None:
    rows = call(arrow.size_report, options).to_pylist()
    lines = rows if options.by == "key" else list(map(with_operator, rows))
    columns = [n for n in (lines[0] if lines else ()) if n not in ("operator_uid", "operator_uid_hash")]
    print_table([SIZES.get(n, n) for n in columns], list(map(with_sizes, lines)), options, value=rows)
