"""The commands ``find`` and ``erase``: a text, a number or a key in all state of snapshots."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from state_processor.applications.erasing.erased_rows import ACTIONS
from state_processor.applications.finding.finding import PLACE_COLUMNS, SHOWN_PLACES, STATE_COLUMNS, UNDECODED_COLUMNS, find
from state_processor.command_line import (
    ANY_OPERATOR,
    PRINTING,
    UNBOUNDED,
    Answer,
    argument,
    call,
    check_new,
    command,
    flags,
    group,
    not_negative,
    positive,
    print_json,
    print_table,
    repeated,
    say,
    say_json,
    switch,
    with_operator,
    write_text,
)
from state_processor.errors import OptionError
from state_processor.options import Kind, spelled
from state_processor.snapshots import DEPTH

if TYPE_CHECKING:
    from state_processor.applications.erasing.erasure_report import ErasureReport
    from state_processor.applications.fleet.erasing import FleetErasure

_TEXT: Final = repeated("--text", "this text, as a part of any value")
_KEY: Final = repeated("--key", "this key of keyed state, as JSON or plain text")
_OF_FLEET: Final = (
    switch("--fleet", "the paths are directories of jobs: the newest complete snapshot of each, as the command fleet finds it"),
    argument(
        "--depth", type=not_negative, metavar="N", help=f"with --fleet: levels below a directory to search (default: {DEPTH})"
    ),
)


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
    *_OF_FLEET,
    _TEXT,
    _KEY,
    repeated("--number", "this number, as a whole value", type=_number, metavar="N"),
    argument("--limit", type=positive, default=SHOWN_PLACES, metavar="N", help="places to show (default: %(default)s)"),
    PRINTING,
    flags(Kind.CHECKS),
    fails="nothing is found",
    unchecked="nothing is found, and state that can't be decoded was searched as bytes; with --fleet, if this is so for a job, "
    "or a job can't be read",
    python=("sp.find", "sp.find_in_fleet"),
)
def _find(options: argparse.Namespace) -> Answer:
    if not (options.text or options.number or options.key):
        raise OptionError("nothing to find: add --text, --number or --key")
    jobs: list[dict[str, Any]] = []
    depth = _depth(options)
    if depth is None:
        findings = call(find, options)
    else:
        from state_processor.applications.fleet.finding import JOB_COLUMNS, WHOLE, error_lines, find_in_fleet

        findings = of_fleet = call(find_in_fleet, options, directories=options.paths, depth=depth)
        jobs = of_fleet.jobs.to_pylist()
    if options.json:
        print_json(jobs)
        print_json(findings.table)
        print_json(findings.undecoded)
        return findings.answer
    snapshot = findings.snapshot_columns if jobs or len(options.paths) > 1 else ()
    if findings:
        places = findings.table.slice(0, options.limit).to_pylist()
        print_table((*snapshot, *PLACE_COLUMNS), list(map(_with_state, places)), options)
        if findings.table.num_rows > options.limit:
            say(f"\nThe first {options.limit} of {findings.table.num_rows} places; --limit shows more. All of them:")
            print_table(STATE_COLUMNS, findings.by_state(), options)
    else:
        say("Nothing found")
    if findings.undecoded.num_rows:
        say("\nSearched as bytes:")
        print_table((*snapshot, *UNDECODED_COLUMNS), list(map(_with_state, findings.undecoded.to_pylist())), options)
    if jobs:
        say("\nJobs:")
        print_table(JOB_COLUMNS, jobs, options, UNBOUNDED, WHOLE)
        for line in error_lines(jobs):
            say(line)
    return findings.answer


@command(
    "erase",
    "a copy without a person, with a proof",
    "Write a savepoint without a text, a key or rows, in all operators at once. Then read it again, search in all bytes of "
    "its files, and print a report. Of the chosen actions, the narrowest that applies is used for each value.",
    argument("path", metavar="IN", nargs="+", help="directory of a savepoint or checkpoint, or with --fleet of jobs; only read"),
    argument(
        "target", metavar="OUT", help="directory of the new savepoint; with --fleet, of a new savepoint for each job with it"
    ),
    *_OF_FLEET,
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
        switch("--dry-run", "write to a directory for temporary files instead of OUT, and remove it: only the report is shown"),
        switch("--overwrite", "replace a savepoint in OUT when the new one is complete, and the file of --report"),
        argument(
            "--format",
            choices=("canonical", "native"),
            help="the format of keyed state (default: %(default)s)",
        ),
        argument("--backend", help="the state backend that restores a native savepoint"),
    ),
    flags(Kind.COPIES),
    fails="something is left, or with --fleet the erasure is refused for a job; the report names it",
    unchecked="nothing is left, as far as state can be decoded, or jobs can be read; the report names state that was searched as "
    "bytes, and jobs",
    python=("sp.erase", "sp.erase_in_fleet"),
)
def _erase(options: argparse.Namespace) -> Answer:
    if options.report is not None and options.dry_run:
        raise OptionError("--report is for a savepoint that stays: leave out --dry-run")
    if options.report is not None and not options.overwrite:
        check_new(options.report)
    with TemporaryDirectory(prefix="dry-run-") if options.dry_run else nullcontext() as directory:
        report = _erased(options, str(Path(directory, "savepoint")) if directory else options.target)
    if options.report is not None:
        write_text(options.report, f"{report.to_json(reveal=options.reveal)}\n", replaced=options.overwrite)
    say_json(report.to_json(reveal=options.reveal)) if options.json else say(report.to_text(reveal=options.reveal))
    if options.dry_run and not options.json:
        say(f"{options.target} was not written (--dry-run)")
    return report.answer


def _erased(options: argparse.Namespace, target: str) -> ErasureReport | FleetErasure:
    from state_processor.applications.erasing.erasure import erase  # finding does not import what writes
    from state_processor.applications.fleet.erasing import erase_in_fleet

    depth = _depth(options)
    if depth is None:
        if len(options.path) > 1:
            raise OptionError("several directories IN are for --fleet: name one savepoint")
        return call(erase, options, path=options.path[0], target=target)
    unfit = [name for name in ("where", "uid", "uid_hash", "state", "overwrite") if getattr(options, name)]
    if unfit:
        raise OptionError(f"{', '.join(map(spelled, unfit))} is not for --fleet: erase from one savepoint")
    return call(erase_in_fleet, options, directories=options.path, target=target, depth=depth)


def _depth(options: argparse.Namespace) -> int | None:
    """Return the levels below directories to search; ``None`` if the paths are snapshots."""
    if options.fleet:
        return DEPTH if options.depth is None else options.depth
    if options.depth is not None:
        raise OptionError("--depth is for --fleet: add that")
    return None


def _with_state(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with one name for its state: its own, or the kind of bytes that don't have a name."""
    return with_operator(row) | {"state": row["state_name"] or row["state_kind"]}
