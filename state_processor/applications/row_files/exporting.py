"""Commands that count and export the rows of a state."""

from __future__ import annotations

import argparse
import sys
from itertools import chain
from typing import Final

from state_processor import OperatorIdentifier
from state_processor.applications.row_files.formats import FORMATS, format_of, named_format, write_rows
from state_processor.arrow import SavepointReader
from state_processor.command_line import (
    COLUMNS,
    DISPLAY,
    KIND,
    ROWS,
    SNAPSHOT,
    UID,
    WHERE,
    UnclosedFile,
    argument,
    check_new,
    command,
    flag_values,
    flags,
    new_file,
    say,
    state_batches,
    switch,
)
from state_processor.errors import OptionError
from state_processor.options import SnapshotAccess, SnapshotOptions, check_given
from state_processor.support import without_keys

_STANDARD_OUTPUT: Final = "-"
_CSV: Final = "csv"
_EXPORT: Final = (
    "Write the rows of a state into a file. The suffix of the file is the format: .csv, .json (an array), .ndjson or .jsonl (an "
    "object per line), .parquet, .feather or .arrow. Add .gz or .zst to compress CSV and JSON. JSON has bytes as "
    "hexadecimal digits, dates and times as ISO text, decimals as text, NaN and infinities as the texts NaN, Infinity and "
    "-Infinity, and maps as lists of pairs. In CSV, lists, maps and structs are JSON text, and null is a cell without quotes."
)

_SHAPES: Final = ("metadata", "nanos", "row_kind")
"""Options that change only columns, not the number of rows."""


@command(
    "count",
    "number of rows of a state",
    "Write the number of rows of a state.",
    SNAPSHOT,
    UID,
    flags(*ROWS, without=_SHAPES),
    KIND,
    WHERE,
    argument("--state", help="name of the state; without it, the keys of all keyed states of the operator"),
    python=("SavepointReader.count",),
)
def _count(options: argparse.Namespace) -> None:
    operator, values = OperatorIdentifier.of(options.uid), flag_values(options)
    if options.where is not None:
        say(str(sum(batch.num_rows for batch in state_batches(options, operator, options.state))))
        return
    check_given(values, ("time_zone",), "with --where: add that")
    access = SnapshotAccess.among(values)
    reading = without_keys(values, SnapshotOptions.__annotations__)
    say(str(SavepointReader(access.open(options.path), access).count(operator, options.state, options.kind, **reading)))


@command(
    "export",
    "rows of a state as a file",
    _EXPORT,
    UID,
    flags(*ROWS),
    KIND,
    WHERE,
    argument("--state", help="name of the state; without it, all keyed states with a row per key"),
    argument("-o", "--output", required=True, metavar="FILE", help="a new file; - for standard output"),
    argument(
        "--format", type=named_format, choices=tuple(FORMATS), help="the format, if the name of the file does not have its suffix"
    ),
    switch(
        "--quote-formulas",
        "in CSV, put an apostrophe before text that a spreadsheet would execute: text that is not a number and begins with "
        "=, +, -, @, a tab or a line end",
    ),
    COLUMNS,
    python=("sp.arrow.read_state",),
)
def _export(options: argparse.Namespace) -> None:
    to_output = options.output == _STANDARD_OUTPUT
    if to_output and options.format is None:
        raise OptionError("-o -: standard output needs a format; choose the format with --format")
    form, compression = (options.format, None) if to_output else format_of(options.output, options.format)
    if options.quote_formulas and form != _CSV:
        raise OptionError(f"--quote-formulas applies to csv; the format is {form}")
    if not to_output:
        check_new(options.output)
    elif sys.stdout.isatty() and not FORMATS[form].is_for_terminals:
        raise OptionError(f"-o -: {form} may contain control characters of terminals; redirect the output, or name a file")
    reading = DISPLAY if FORMATS[form].is_text else {}
    batches = state_batches(options, OperatorIdentifier.of(options.uid), options.state, **reading)
    first = next(batches)
    rows, schema = chain([first], batches), getattr(batches, "schema", first.schema)  # with the types of the columns
    if to_output:
        file = UnclosedFile(sys.stdout.buffer)
        write_rows(file, form, None, schema, rows, quote_formulas=options.quote_formulas)
        file.flush()
        return
    with new_file(options.output) as file:
        number = write_rows(file, form, compression, schema, rows, quote_formulas=options.quote_formulas)
    say(f"{number} rows")
