"""The command ``state-processor``, which shows savepoints and checkpoints without Spark."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from typing import Any, Final, get_args

import pyarrow as pa

from state_processor import arrow
from state_processor.backends.files.location import Location
from state_processor.backends.read.state_access import TIMER_KIND
from state_processor.commands import exporting, rewriting, validating
from state_processor.display import json_text, render_records, size_text
from state_processor.identifier import OperatorIdentifier
from state_processor.options.flags import add_flags, flag_values
from state_processor.read.sizes import SizesBy
from state_processor.serializers.errors import OptionError, StateProcessorError
from state_processor.serializers.json_text import parse_json
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer

BAD_INPUT: Final = 2

_SIZES: Final = {
    "operator_coordinator_state_size_in_bytes": "coordinator_size",
    "operator_total_size_in_bytes": "size",
    "size_in_bytes": "size",
}
_STATE_COLUMNS: Final = (
    "state_name",
    "state_kind",
    "key_type",
    "namespace_type",
    "map_key_type",
    "value_type",
    "ttl",
    "backend",
    "size",
)
_UNBOUNDED: Final = 1 << 20
_NO_NAMESPACE: Final = str(VoidNamespaceSerializer())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0, 1 for a snapshot that ``validate`` finds incomplete, or 2 for invalid input."""
    options = _parser().parse_args(arguments)
    try:
        code = options.run(options)
        sys.stdout.flush()
    except StateProcessorError as error:
        print(f"state-processor: {' '.join(str(error).split())}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:  # the reader of a pipe, such as head, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="state-processor", description="Show Flink savepoints and checkpoints.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = partial(_command, commands)

    inspect = command("inspect", _inspect, "operators of a snapshot, with sizes")
    inspect.add_argument("--files", action="store_true", help="list the files and other pieces that it consists of instead")
    command("states", _states, "states of all operators, with types")
    show = command("show", _show, "rows of a state")
    operator = show.add_mutually_exclusive_group(required=True)
    operator.add_argument("--uid", help="the operator, by uid")
    operator.add_argument("--uid-hash", help="the operator, by the hash of its uid")
    what = show.add_mutually_exclusive_group()
    what.add_argument("--state", help="name of the state; without it all keyed states of the operator side by side")
    what.add_argument("--timers", action="store_true", help="the operator's timers")
    show.add_argument("--key", action="append", help="only this key, as JSON or plain text; may be repeated")
    show.add_argument("--limit", type=_positive, default=20, metavar="N", help="number of rows (default: 20)")
    show.add_argument("--no-flatten", dest="flatten", action="store_false", help="lists and maps in one row per key")
    show.add_argument("--metadata", action="store_true", help="add key group, subtask and time of last access")
    diff = commands.add_parser("diff", help="differences between two snapshots", description="Compare two snapshots.")
    diff.add_argument("old", metavar="OLD", help="directory of the older snapshot")
    diff.add_argument("new", metavar="NEW", help="directory of the newer snapshot")
    operator = diff.add_mutually_exclusive_group()
    operator.add_argument("--uid", help="one operator, by uid")
    operator.add_argument("--uid-hash", help="one operator, by the hash of its uid")
    diff.add_argument("--state", help="show the values of this state that differ; without it numbers of them for each state")
    diff.add_argument("--limit", type=_positive, default=20, metavar="N", help="number of values (default: 20)")
    diff.add_argument("--json", action="store_true", help="one JSON object per line instead of a table")
    add_flags(diff)
    diff.set_defaults(run=_diff)
    sizes = command("sizes", _sizes_of, "entries and bytes of keyed state, largest first")
    operator = sizes.add_mutually_exclusive_group()
    operator.add_argument("--uid", help="one operator, by uid")
    operator.add_argument("--uid-hash", help="one operator, by the hash of its uid")
    sizes.add_argument("--by", choices=get_args(SizesBy), default="state", help="what to measure (default: state)")
    sizes.add_argument("--top", type=_positive, default=20, metavar="N", help="number of rows (default: 20)")
    get = command("get", _get, "state and timers of one key")
    operator = get.add_mutually_exclusive_group(required=True)
    operator.add_argument("--uid", help="the operator, by uid")
    operator.add_argument("--uid-hash", help="the operator, by the hash of its uid")
    get.add_argument("--state", help="name of the state; without it all keyed states and the timers")
    get.add_argument("key", metavar="KEY", nargs=1, help="the key, as JSON or plain text")
    listing = commands.add_parser("list", help="snapshots below a directory", description="Show the snapshots below a directory.")
    listing.add_argument("path", metavar="DIR", help="a directory of savepoints, checkpoints or jobs: a path or URL")
    listing.add_argument("--json", action="store_true", help="one JSON object per line instead of a table")
    listing.set_defaults(run=_list)
    rewriting.add_commands(commands)
    exporting.add_commands(commands)
    validating.add_commands(commands)
    return parser


def _command(commands: Any, name: str, run: Any, text: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=f"Show the {text}.")
    command.add_argument("path", metavar="PATH", help="directory of the snapshot, or its _metadata: a path or URL")
    command.add_argument("--json", action="store_true", help="one JSON object per line instead of a table")
    add_flags(command)
    command.set_defaults(run=run)
    return command


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def _inspect(options: argparse.Namespace) -> None:
    read = arrow.handles if options.files else arrow.operators
    table = read(options.path, **flag_values(options))
    if options.json:
        _print_json(table.to_pylist())
        return
    rows = [_with_sizes(row) for row in table.to_pylist()]
    if options.files:
        rows = [row | {"operator": row["operator_uid"] or row["operator_uid_hash"]} for row in rows]
        columns = ["operator", "subtask", "slot", "handle_type", "part", "path", "size"]
        _print_table(columns, rows)
        return
    rows = [{k.removeprefix("operator_"): v for k, v in row.items()} for row in rows]
    columns = ["name", "uid", "uid_hash", "parallelism", "max_parallelism", "subtask_state_count", "coordinator_size", "size"]
    if table.num_rows:
        print(f"checkpoint {rows[0]['checkpoint_id']}, {len(rows)} operators")
    _print_table(_filled(columns, rows), rows)


def _states(options: argparse.Namespace) -> None:
    rows = arrow.states(options.path, **flag_values(options)).to_pylist()
    if options.json:
        _print_json(rows)
        return
    shown = [_with_sizes(row) | {"namespace_type": _namespace(row)} for row in rows]
    columns = _filled(_STATE_COLUMNS, shown)
    for number, (operator, of_operator) in enumerate(groupby(shown, key=lambda r: r["operator_uid"] or r["operator_uid_hash"])):
        print(f"{chr(10) * bool(number)}operator {operator}")
        _print_table(columns, list(of_operator))


def _namespace(row: Mapping[str, Any]) -> str | None:
    return None if row["namespace_type"] == _NO_NAMESPACE else row["namespace_type"]


def _list(options: argparse.Namespace) -> None:
    rows = arrow.snapshots(options.path).to_pylist()
    if options.json:
        _print_json(rows)
        return
    prefix = str(Location.given(options.path)).rstrip("/") + "/"
    shown = [
        _with_sizes(row) | {"path": row["path"].removeprefix(prefix), "time": row["time"] and f"{row['time']:%Y-%m-%d %H:%M:%S}"}
        for row in rows
    ]
    _print_table(
        ["kind", "job_id", "checkpoint_id", "time", "size", "is_complete", "path"], shown, _UNBOUNDED
    )  # paths are for copying


def _show(options: argparse.Namespace) -> None:
    batches = arrow.read_state(
        options.path,
        _operator(options),
        options.state,
        kind=TIMER_KIND if options.timers else None,
        flatten=options.flatten,
        metadata=options.metadata,
        keys=_keys(options),
        nanos="string",
        **flag_values(options),
    )
    first = next(batches)
    _print_rows(first.schema.names, _rows(first, batches), options)


def _print_rows(columns: Sequence[str], rows: Iterator[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print the first rows, as many as the limit allows."""
    if options.json:
        _print_json(islice(rows, options.limit))
        return
    _print_table(columns, list(islice(rows, options.limit)))
    if next(rows, None) is not None:
        print(f"… only the first {options.limit} rows; --limit shows more")


def _get(options: argparse.Namespace) -> None:
    keys = _keys(options) or []
    found = arrow.lookup(options.path, _operator(options), keys[0], options.state, nanos="string", **flag_values(options))
    if options.json:
        _print_json({"state_name": name, **row} for name, table in found.tables().items() for row in table.to_pylist())
        return
    print(found)


def _sizes_of(options: argparse.Namespace) -> None:
    operator = _operator(options) if options.uid or options.uid_hash else None
    rows = arrow.size_report(options.path, operator, options.by, options.top, **flag_values(options)).to_pylist()
    if options.json:
        _print_json(rows)
        return
    of_operator = {} if options.by == "key" else {"operator": None}
    shown = [of_operator | {"operator": r["operator_uid"] or r["operator_uid_hash"]} | r if of_operator else r for r in rows]
    columns = [n for n in (shown[0] if shown else ()) if n not in ("operator_uid", "operator_uid_hash")]
    _print_table([_SIZES.get(n, n) for n in columns], [_with_sizes(row) for row in shown])


def _diff(options: argparse.Namespace) -> None:
    operator = _operator(options) if options.uid or options.uid_hash else None
    if options.state is None or operator is None:
        if options.state is not None:
            raise OptionError(f"--state {options.state}: name its operator, too, by --uid or --uid-hash")
        rows = arrow.diff_summary(options.old, options.new, operator, nanos="string", **flag_values(options)).to_pylist()
        if options.json:
            _print_json(rows)
            return
        columns = ["operator", "state_name", "state_kind", "type_before", "type_after", "inserts", "deletes", "updates"]
        _print_table(columns, [row | {"operator": row["operator_uid"] or row["operator_uid_hash"]} for row in rows])
        return
    batches = arrow.diff(options.old, options.new, operator, options.state, nanos="string", **flag_values(options))
    first = next(batches)
    _print_rows(first.schema.names, _rows(first, batches), options)


def _operator(options: argparse.Namespace) -> OperatorIdentifier:
    return OperatorIdentifier.of(options.uid) if options.uid else OperatorIdentifier.for_uid_hash(options.uid_hash)


def _keys(options: argparse.Namespace) -> list[Any] | None:
    """Return the keys to read: as text if the operator's keys are text, else parsed as JSON."""
    if not options.key:
        return None
    table = arrow.states(options.path, **flag_values(options))
    wanted = _operator(options)
    types = {row["key_type"] for row in table.to_pylist() if row["operator_uid_hash"] == wanted.uid_hash and row["key_type"]}
    return [text if types == {"STRING"} else _json_or_text(text) for text in options.key]


def _json_or_text(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return text


def _rows(first: pa.RecordBatch, rest: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    yield from first.to_pylist()
    for batch in rest:
        yield from batch.to_pylist()


def _with_sizes(row: Mapping[str, Any]) -> dict[str, Any]:
    return {_SIZES.get(name, name): size_text(value) if name in _SIZES else value for name, value in row.items()}


def _filled(columns: Iterable[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns in which some row has a value."""
    return [c for c in columns if not rows or any(row.get(c) not in (None, "", False) for row in rows)]


def _print_table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], width: int | None = None) -> None:
    print(render_records(columns, rows, width=width, right=frozenset({"size", "coordinator_size"})))


def _print_json(rows: Iterable[Mapping[str, Any]]) -> None:
    for row in rows:
        print(json_text(row))


if __name__ == "__main__":
    raise SystemExit(main())
