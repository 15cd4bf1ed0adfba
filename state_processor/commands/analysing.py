"""Commands that measure state and compare snapshots."""

from __future__ import annotations

import argparse
from typing import Any, get_args

from state_processor import arrow
from state_processor.commands.arguments import add_operator, add_output, named_operator, positive, snapshot_command
from state_processor.commands.printing import SIZES, print_batches, print_json, print_table, with_operator, with_sizes
from state_processor.options.effects import DIFFERENCES, Kind, check_given
from state_processor.options.flags import add_flags, flag_values
from state_processor.options.groups import CountSnapshotOptions, DiffSnapshotOptions
from state_processor.read.sizes import SizesBy
from state_processor.serializers.errors import OptionError


def add_commands(commands: Any) -> None:
    """Add the commands to the parsers of the command line."""
    sizes = snapshot_command(commands, "sizes", _sizes, "entries and bytes of keyed state, largest first", {Kind.SIZES})
    add_operator(sizes, required=False)
    sizes.add_argument("--by", choices=get_args(SizesBy), default="state", help="what to measure (default: state)")
    sizes.add_argument("--top", type=positive, default=20, metavar="N", help="number of rows (default: 20)")
    diff = commands.add_parser("diff", help="differences between two snapshots", description="Compare two snapshots.")
    diff.add_argument("old", metavar="OLD", help="directory of the older snapshot")
    diff.add_argument("new", metavar="NEW", help="directory of the newer snapshot")
    add_operator(diff, required=False)
    diff.add_argument("--state", help="show the values of this state that differ; without it numbers of them for each state")
    diff.add_argument("--limit", type=positive, default=20, metavar="N", help="number of values (default: 20)")
    add_output(diff, _diff)
    add_flags(diff, DIFFERENCES)


def _sizes(options: argparse.Namespace) -> None:
    rows = arrow.size_report(options.path, named_operator(options), options.by, options.top, **flag_values(options)).to_pylist()
    if options.json:
        print_json(rows)
        return
    shown = rows if options.by == "key" else [with_operator(row) for row in rows]
    columns = [n for n in (shown[0] if shown else ()) if n not in ("operator_uid", "operator_uid_hash")]
    print_table([SIZES.get(n, n) for n in columns], [with_sizes(row) for row in shown], options)


def _diff(options: argparse.Namespace) -> None:
    operator = named_operator(options)
    values = {"nanos": "string", **flag_values(options)}
    if options.state is not None and operator is None:
        raise OptionError(f"--state {options.state}: name its operator, too, by --uid or --uid-hash")
    if options.state is not None and operator is not None:
        differing = arrow.diff(options.old, options.new, operator, options.state, **values)
        print_batches(differing, options)
        return
    of_values = DiffSnapshotOptions.__annotations__.keys() - CountSnapshotOptions.__annotations__
    check_given(values, sorted(of_values), "with --state: add that")
    rows = arrow.diff_summary(options.old, options.new, operator, **values).to_pylist()
    if options.json:
        print_json(rows)
        return
    columns = ["operator", "state_name", "state_kind", "type_before", "type_after", "inserts", "deletes", "updates"]
    print_table(columns, [with_operator(row) for row in rows], options)
