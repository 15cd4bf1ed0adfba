"""The commands ``find`` and ``erase``: a text, a number or a key in all state of snapshots."""

from __future__ import annotations

import argparse
from typing import Any, Final

from state_processor.applications.erasing.erased_rows import ACTIONS
from state_processor.backends.read.option import Kind
from state_processor.commands.command import (
    ANY_OPERATOR,
    PRINTING,
    argument,
    command,
    flags,
    group,
    named_operator,
    positive,
    repeated,
    switch,
)
from state_processor.commands.new_files import check_new, write_text
from state_processor.commands.printing import print_json, print_table
from state_processor.commands.terminal import say, say_json
from state_processor.display.showing import with_operator
from state_processor.options.flags import flag_values
from state_processor.read.finding import SHOWN_PLACES, STATE_COLUMNS, find
from state_processor.serializers.errors import OptionError
from state_processor.types.answers import Answer

_COLUMNS: Final = ("operator", "state", "key", "field", "sought", "count")

_UNDECODED: Final = ("operator", "state", "reason", "count")

_TEXT: Final = repeated("--text", "this text, as a part of any value")
_KEY: Final = repeated("--key", "this key of keyed state, as JSON or plain text")


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a number, found {text!r}") from None


@command(
    "find",
    "where a text, a number or a key is in snapshots",
    "Search in all state of snapshots: keys, values and nested fields of keyed state, windows, timers and operator state, "
    "and the bytes of raw state, in-flight data and coordinators. State that can't be decoded is searched as bytes and named.",
    argument("paths", metavar="PATH", nargs="+", help="directories of snapshots: paths or URLs"),
    _TEXT,
    _KEY,
    repeated("--number", "this number, as a whole value", type=_number, metavar="N"),
    argument("--limit", type=positive, default=SHOWN_PLACES, metavar="N", help="places to show (default: %(default)s)"),
    PRINTING,
    flags(Kind.CHECKS),
    fails="nothing is found",
    unchecked="nothing is found, and state that can't be decoded was searched as bytes",
    python=("sp.find",),
)
def _find(options: argparse.Namespace) -> Answer:
    if not (options.text or options.number or options.key):
        raise OptionError("nothing to find: add --text, --number or --key")
    found = find(options.paths, text=options.text, number=options.number, key=options.key, **flag_values(options))
    if options.json:
        print_json(found.table.to_pylist())
        print_json(found.undecoded.to_pylist())
        return found.answer
    snapshot = ("snapshot",) if len(options.paths) > 1 else ()
    if found:
        places = found.table.slice(0, options.limit).to_pylist()
        print_table((*snapshot, *_COLUMNS), [_with_state(row) for row in places], options)
        if found.table.num_rows > options.limit:
            say(f"\nThe first {options.limit} of {found.table.num_rows} places; --limit shows more. All of them:")
            print_table(STATE_COLUMNS, found.by_state(), options)
    else:
        say("Nothing found")
    if found.undecoded.num_rows:
        say("\nSearched as bytes:")
        print_table((*snapshot, *_UNDECODED), [_with_state(row) for row in found.undecoded.to_pylist()], options)
    return found.answer


@command(
    "erase",
    "a copy without a person, with a proof",
    "Write a savepoint without a text, a key or rows, in all operators at once. Then read it again, search in all bytes of "
    "its files, and print a report. Of the chosen actions, the narrowest that applies is used for each value.",
    argument("path", metavar="IN", help="directory of a savepoint or checkpoint; it is only read"),
    argument("target", metavar="OUT", help="directory of the new savepoint"),
    _TEXT,
    _KEY,
    argument("--where", metavar="CONDITION", help="rows of --state for which this condition of SQL (DuckDB) is true"),
    ANY_OPERATOR,
    argument("--state", help="the state of --where"),
    argument(
        "--remove",
        action="append",
        required=True,
        choices=ACTIONS,
        help="what may be removed: whole keys, entries of maps and values, elements of lists, or fields, which become null; may "
        "be repeated",
    ),
    argument("--report", metavar="FILE", help="also write the report to this new file, as JSON"),
    switch("--reveal", "print and write the erased texts, keys and the condition; by default, placeholders"),
    switch("--json", "print the report as JSON"),
    group(
        "options of writing a savepoint",
        switch("--overwrite", "replace a savepoint in OUT when the new one is complete, and the file of --report"),
        argument(
            "--format",
            choices=("canonical", "native"),
            default="canonical",
            help="the format of keyed state (default: %(default)s)",
        ),
        argument("--backend", help="the state backend that restores a native savepoint"),
    ),
    flags(Kind.COPIES),
    fails="something is left; the report names it",
    unchecked="nothing is left, as far as state can be decoded; the report names state that was searched as bytes",
    python=("sp.erase",),
)
def _erase(options: argparse.Namespace) -> Answer:
    from state_processor.applications.erasing.erasure import erase  # finding does not import what writes

    if options.report is not None and not options.overwrite:
        check_new(options.report)
    report = erase(
        options.path,
        options.target,
        remove=options.remove,
        text=options.text,
        key=options.key,
        where=options.where,
        uid=named_operator(options),
        state=options.state,
        format=options.format,
        backend=options.backend,
        overwrite=options.overwrite,
        **flag_values(options),
    )
    if options.report is not None:
        write_text(options.report, f"{report.to_json(reveal=options.reveal)}\n", replaced=options.overwrite)
    say_json(report.to_json(reveal=options.reveal)) if options.json else say(report.to_text(reveal=options.reveal))
    return report.answer


def _with_state(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with one name for its state: its own, or the kind of bytes that don't have a name."""
    return with_operator(row) | {"state": row["state_name"] or row["state_kind"]}
