"""Commands about the state of a job: its description, the check of a snapshot against it, and the match of operators."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from state_processor.backends.read.option import Kind
from state_processor.commands.arguments import add_exit_code
from state_processor.commands.new_files import write_text
from state_processor.commands.printing import print_json
from state_processor.commands.terminal import say
from state_processor.job.check import check_job
from state_processor.job.matching import match_operators
from state_processor.job.opening import signature_of
from state_processor.job.plan_compiler import plan_from_sql
from state_processor.options.access import SnapshotAccess
from state_processor.options.flags import add_flags, flag_values
from state_processor.serializers.errors import MissingFileError, OptionError

NOT_RESTORED: Final = 1
"""Exit code if state is refused or would be lost."""

UNMATCHED: Final = 1
"""Exit code if an operator has no match, or several."""

JOB_HELP: Final = (
    "a snapshot, or a file: a signature, a compiled plan, the graph of a job from the REST paths /jobs/:id and /jobs/:id/plan or "
    "from getExecutionPlan(), or YAML with operators, states and types"
)


def add_commands(commands: Any) -> None:
    """Add the commands to the parsers of the command line."""
    text = (
        "Print the signature of a job as JSON: operators, states, kinds, types and time-to-live, in a stable order. Plans and "
        "graphs describe operators without their states."
    )
    signature = commands.add_parser("signature", help="description of the state of a job", description=text)
    signature.add_argument("path", metavar="PATH", help=JOB_HELP)
    signature.add_argument("-o", "--output", metavar="FILE", help="write the signature into a new file")
    signature.add_argument("--overwrite", action="store_true", help="replace FILE")
    add_flags(signature, {Kind.CHECKS})
    signature.set_defaults(run=_signature)
    text = (
        "Show what becomes of a snapshot in another job: which operators and states restore, are migrated, are new, would be "
        "lost, or are refused, with Flink's reason and the commands that repair the snapshot."
    )
    check = commands.add_parser("check", help="whether a job restores a snapshot", description=text)
    add_exit_code(check, "state is refused or would be lost")
    check.add_argument("path", metavar="PATH", help="directory of the snapshot, or its _metadata: a path or URL")
    check.add_argument("--job", metavar="NEW", required=True, help=f"the new job: {JOB_HELP}")
    check.add_argument("--flink", metavar="VERSION", help="the Flink version of the new job (default: as NEW says)")
    check.add_argument("--backend", choices=("hashmap", "rocksdb", "forst"), help="the state backend of the new job")
    check.add_argument("--json", action="store_true", help="one JSON object per operator instead of text")
    add_flags(check, {Kind.CHECKS})
    check.set_defaults(run=_check)
    text = (
        "Match the operators of a snapshot with the operators of a new job: by ids, names and states. An ambiguous match is "
        "shown with its candidates, and is not part of the mapping that rename-uid --mapping applies."
    )
    match = commands.add_parser("match", help="operators of a snapshot and of a new job, matched", description=text)
    add_exit_code(match, "an operator does not have a match, or several")
    match.add_argument("path", metavar="OLD", help="directory of the snapshot, or its _metadata; or its signature")
    match.add_argument("job", metavar="NEW", help=f"the new job: {JOB_HELP}")
    match.add_argument("--graph", metavar="FILE", help="the graph of the job that wrote the snapshot, as Flink prints it")
    match.add_argument(
        "--new-graph", metavar="FILE", help="the graph of the new job, as Flink prints it: for names of its operators"
    )
    match.add_argument("-o", "--output", metavar="FILE", help="write the mapping into a new file")
    match.add_argument("--overwrite", action="store_true", help="replace FILE")
    match.add_argument("--json", action="store_true", help="print the mapping instead of a table")
    add_flags(match, {Kind.CHECKS})
    match.set_defaults(run=_match)
    text = (
        "Compile a query of Flink SQL to a plan, as COMPILE PLAN does, by the planner of an installed Flink. No job starts. This "
        "is the only command that runs Java. The plan of a query that was submitted as text names its operators and columns."
    )
    compiling = commands.add_parser("compile-plan", help="the compiled plan of a query of Flink SQL", description=text)
    compiling.add_argument("sql", metavar="FILE", help="statements that create tables, and one INSERT or one statement set")
    compiling.add_argument(
        "--flink",
        metavar="DIRECTORY|VERSION",
        help="directory of a Flink distribution, or the version that has to be installed (default: FLINK_HOME, or the package "
        "apache-flink-libraries)",
    )
    compiling.add_argument("--jar", action="append", default=[], metavar="FILE", help="jar of a connector; may be repeated")
    setting = "option of the job that is not in the text, such as table.exec.mini-batch.enabled=true; may be repeated"
    compiling.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help=setting)
    compiling.add_argument("-o", "--output", metavar="FILE", help="write the plan into a new file")
    compiling.add_argument("--overwrite", action="store_true", help="replace FILE")
    compiling.set_defaults(run=_compile_plan)


def _signature(options: argparse.Namespace) -> None:
    text = str(signature_of(options.path, SnapshotAccess.of(**flag_values(options))))
    if options.output is None:
        say(text)
        return
    write_text(options.output, f"{text}\n", replaced=options.overwrite)
    say(f"{options.output} was written")


def _check(options: argparse.Namespace) -> int:
    report = check_job(options.path, options.job, flink=options.flink, backend=options.backend, **flag_values(options))
    if options.json:
        print_json(report.records())
    else:
        say(str(report))
    return 0 if report.restores else NOT_RESTORED


def _match(options: argparse.Namespace) -> int:
    found = match_operators(options.path, options.job, graph=options.graph, new_graph=options.new_graph, **flag_values(options))
    say(found.to_json() if options.json else str(found))
    if options.output is not None:
        write_text(options.output, f"{found.to_json()}\n", replaced=options.overwrite)
    return UNMATCHED if found.open else 0


def _compile_plan(options: argparse.Namespace) -> None:
    try:
        sql = Path(options.sql).read_text("utf-8")
    except FileNotFoundError:
        raise MissingFileError(f"{options.sql} does not exist") from None
    given = [text.partition("=") for text in options.set]
    if not all(name and equals for name, equals, _ in given):
        raise OptionError("--set: expected NAME=VALUE")
    settings = {name: value for name, _, value in given}
    plan = plan_from_sql(sql, flink=options.flink, jars=options.jar, options=settings)
    if options.output is None:
        say(plan)
        return
    write_text(options.output, plan, replaced=options.overwrite)
    say(f"{options.output} was written")
