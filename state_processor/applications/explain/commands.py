"""The command that explains a failed restore."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from state_processor.applications.explain.explaining import explain
from state_processor.command_line import JSON_LINES, Answer, argument, call, command, flags, print_report, switch
from state_processor.options import Kind


@command(
    "explain",
    "cause of a failed restore, and its repair",
    "Explain why a job did not restore a snapshot, or restored it wrongly: from the trace of Flink, the snapshot and the new "
    "job. Each cause says whether the snapshot confirms it. Repairs are commands; those that keep state come first. Without a "
    "trace, the mismatches of snapshot and job are the causes.",
    argument("--error", metavar="FILE", help="the trace, or a whole log; - is standard input"),
    argument(
        "--job", metavar="NEW", help="the new job, as for the command check; a savepoint of its start without state is enough"
    ),
    argument("--symptom", metavar="TEXT", help="what the job does wrong, in words, if it starts"),
    argument("--flink", metavar="VERSION", help="the Flink version of the job (default: as the trace or NEW says)"),
    argument("--backend", choices=("hashmap", "rocksdb", "forst"), help="the state backend of the job"),
    switch("--no-contents", "compare descriptions alone, without reading files and values", clears="contents"),
    JSON_LINES,
    flags(Kind.CHECKS),
    fails="no cause was found",
    unchecked="causes were found, and the snapshot does not confirm the first one",
    python=("sp.explain",),
)
def _explain(options: argparse.Namespace) -> Answer:
    error = sys.stdin.read() if options.error == "-" else None if options.error is None else Path(options.error)
    explanation = call(explain, options, error=error)
    print_report(explanation, options)
    return explanation.answer
