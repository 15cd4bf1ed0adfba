"""The command ``diff``: differences between two snapshots."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import pyarrow as pa

from state_processor import arrow
from state_processor.command_line import (
    ANY_OPERATOR,
    DIFFERENCES,
    DISPLAY,
    PRINTING,
    Answer,
    argument,
    arguments_of,
    command,
    flag_values,
    flags,
    named_operator,
    positive,
    print_batches,
    print_json,
    print_table,
    say,
    size_text,
    switch,
    with_operator,
    with_sizes,
)
from state_processor.errors import OptionError
from state_processor.options import CountSnapshotOptions, DiffSnapshotOptions, check_given
from state_processor.states import FULL


@command(
    "diff",
    "differences between two snapshots",
    "Compare two snapshots.",
    ANY_OPERATOR,
    argument("--state", help="show the different values of this state; without it, count differences of every state"),
    argument("--limit", type=positive, default=20, metavar="N", help="number of values (default: 20)"),
    switch("--all", "without --state: show equal states too"),
    switch("--full", "also compare files that both snapshots have, and show sizes"),
    switch("--exit-code", "exit with 1 if the snapshots differ, otherwise with 0"),
    PRINTING,
    flags(*DIFFERENCES),
    fails="the snapshots differ and --exit-code is given",
    unchecked="states were not compared: they can't be read, or are of another kind or have other keys in the two snapshots",
    python=("sp.arrow.diff", "sp.arrow.diff_summary"),
)
def _diff(options: argparse.Namespace) -> Answer:
    values = {**DISPLAY, **flag_values(options)}
    if options.state is not None and named_operator(options) is None:
        raise OptionError(f"--state {options.state}: also name the operator with --uid or --uid-hash")
    if options.state is not None and options.all:
        raise OptionError("--all applies without --state: leave out one of them")
    if options.state is not None:
        rows = arrow.diff(**arguments_of(arrow.diff, options), **values)
        differs = _diff_of_values(iter(rows), options)
        is_whole = True
    else:
        differs, is_whole = _diff_of_states(values, options)
    return Answer.of(wrong=differs and options.exit_code, unchecked=not is_whole)


def _diff_of_values(batches: Iterator[pa.RecordBatch], options: argparse.Namespace) -> bool:
    """Print the different values of a state, and return whether the state differs."""
    first = next(batches)
    while not first.num_rows and (batch := next(batches, None)) is not None:
        first = batch
    if first.num_rows:
        print_batches(chain([first], batches), options)
    elif not options.json:
        say(f"No differences in state {options.state!r} of operator {str(named_operator(options))!r}")
    return bool(first.num_rows)


def _diff_of_states(values: dict[str, Any], options: argparse.Namespace) -> tuple[bool, bool]:
    """Print the number of differences of each state, and return whether the snapshots differ, and whether all were compared."""
    of_values = DiffSnapshotOptions.__annotations__.keys() - CountSnapshotOptions.__annotations__
    check_given(values, sorted(of_values), "with --state: add that")
    rows = arrow.diff_summary(**arguments_of(arrow.diff_summary, options), **values).to_pylist()
    uncompared = [row for row in rows if row["not_compared"] is not None]
    differing = [row for row in rows if _differs(row)]
    renamed = {row["operator_uid_hash"]: with_operator(row)["operator"] for row in rows if row["renamed_from"]}
    if options.json:
        chosen = [r for r in rows if r in uncompared or _differs(r) or r["operator_uid_hash"] in renamed]
        print_json(rows if options.all else chosen)
        return bool(differing or renamed), not uncompared
    lines = rows if options.all else differing
    if lines:
        columns = ("operator", "state_name", "state_kind", "type", "inserts", "deletes", "updates", "size_before", "size_after")
        print_table(columns, [with_sizes(with_operator(row)) | {"type": _types(row)} for row in lines], options)
    for uid_hash, name in renamed.items():
        before = next(row["renamed_from"] for row in rows if row["operator_uid_hash"] == uid_hash)
        say(f"Operator {name} was {before}: only these operators have these states")
    if not differing:
        say(f"No differences in {len(rows) - len(uncompared)} states")
    for row in uncompared:
        say(f"Not compared: {row['state_name'] or 'states'} of {with_operator(row)['operator']}: {row['not_compared']}")
    incremental = [row for row in rows if row["method"] not in (FULL, None)]
    if incremental:
        read = sum(row["bytes_read"] for row in incremental)
        stored = sum(row["bytes_stored"] for row in incremental)
        part = f" of {size_text(stored)}" if read <= stored else ""  # look-ups of keys may read a block several times
        say(f"{len(incremental)} of {len(rows)} states by files that only one snapshot has: {size_text(read)}{part} read")
    return bool(differing or renamed), not uncompared


def _differs(row: Mapping[str, Any]) -> bool:
    return any(row[n] for n in ("inserts", "deletes", "updates")) or row["type_before"] != row["type_after"]


def _types(row: Mapping[str, Any]) -> str:
    """Return the type of a state; both types if they differ."""
    before, after = row["type_before"], row["type_after"]
    return before if before == after else f"{before or 'absent'} → {after or 'absent'}"
