"""Commands about the state of a job or a query: its description, checks of a snapshot against it, the match of operators.

For pipelines, the report of a check is also a file: JUnit XML, or SARIF for code scanning. State that could not be checked is an
error in JUnit, since servers of pipelines count a skipped test as a success.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from xml.etree import ElementTree

from state_processor import OperatorIdentifier, __version__
from state_processor.applications.jobs.check import check_job
from state_processor.applications.jobs.matching import match_operators
from state_processor.applications.jobs.opening import signature, signature_of, signature_of_snapshot
from state_processor.applications.jobs.plan_compiler import plan_from_sql
from state_processor.applications.jobs.verdicts import JobReport, OperatorVerdict, Outcome, StateVerdict
from state_processor.arrow import SavepointWriter
from state_processor.command_line import (
    JSON_LINES,
    SNAPSHOT,
    UID,
    Answer,
    Argument,
    argument,
    arguments_of,
    call,
    command,
    flag_values,
    flags,
    pairs,
    parameters_of,
    print_report,
    repeated,
    rewriting,
    say,
    several,
    switch,
    text_of,
    write_text,
)
from state_processor.errors import MissingFileError, NotFoundError, OptionError
from state_processor.options import Kind
from state_processor.snapshots import METADATA_FILE
from state_processor.states import parse_json
from state_processor.support import map_values
from state_processor.write import SavepointBuild

_VERSION: Final = "2.1.0"
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def junit_report(report: JobReport, suite: str) -> str:
    """Return a report as a test suite in JUnit XML: a test case for each state, and for each rule about a whole operator."""
    cases = list(_cases(report))
    root = ElementTree.Element("testsuites")
    bad = sum(verdict.outcome.is_bad for _, verdict in cases)
    unchecked = sum(verdict.outcome is Outcome.UNKNOWN for _, verdict in cases)
    counts = {"tests": str(len(cases)), "failures": str(bad), "errors": str(unchecked)}
    tests = ElementTree.SubElement(root, "testsuite", {"name": text_of(suite), **counts})
    for operator, verdict in cases:
        names = {"classname": text_of(operator.operator), "name": _name(verdict)}
        case = ElementTree.SubElement(tests, "testcase", names)
        if _level(verdict) == "note":
            ElementTree.SubElement(case, "system-out").text = _sentence(verdict)
        elif _level(verdict) is not None:
            kind = "failure" if verdict.outcome.is_bad else "error"
            problem = ElementTree.SubElement(case, kind, type=str(verdict.outcome), message=_sentence(verdict))
            problem.text = "\n".join((_sentence(verdict), *map(text_of, verdict.repair)))
    if report.notes:
        ElementTree.SubElement(tests, "system-out").text = "\n".join(map(text_of, report.notes))
    ElementTree.indent(root)
    return f"{ElementTree.tostring(root, encoding='unicode')}\n"


def sarif_report(report: JobReport, job: str, description: str | None, version: str) -> str:
    """Return a report in SARIF 2.1.0: a result for each verdict that is more than ``restores``.

    ``job``: the path of the file that describes the job. Results are at the lines of this file that name the operator and the
    state. ``description``: the text of this file; ``None`` if the job is not a text file, such as a snapshot. ``version``: the
    version of this package.
    """
    lines = (description or "").splitlines()
    results = []
    rules = set()
    for operator, verdict in _cases(report):
        if level := _level(verdict):
            rules.add(_rule(verdict))
            name = "/".join(part for part in (operator.operator, verdict.state) if part)
            place: dict[str, Any] = {"artifactLocation": {"uri": quote(job)}}
            if lines:
                place["region"] = {"startLine": _line_of(lines, operator, verdict)}
            results.append(
                {
                    "ruleId": _rule(verdict),
                    "level": level,
                    "message": {"text": "\n".join((f"{text_of(name)}: {_sentence(verdict)}", *map(text_of, verdict.repair)))},
                    "locations": [{"physicalLocation": place, "logicalLocations": [{"fullyQualifiedName": text_of(name)}]}],
                    "partialFingerprints": {"verdict/v1": _digest(operator.operator, verdict)},
                }
            )
    driver = {
        "name": "state-processor",
        "version": version,
        "rules": [{"id": rule} for rule in sorted(rules)],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True, "exitCode": report.answer.exit_code}],
        "results": results,
    }
    return json.dumps({"$schema": _SCHEMA, "version": _VERSION, "runs": [run]}, indent=2) + "\n"


def _cases(report: JobReport) -> Iterator[tuple[OperatorVerdict, StateVerdict]]:
    """Yield the verdicts on states and on whole operators. An operator without either has one of its own."""
    for operator in report.operators:
        verdicts = (*operator.rules, *operator.states)
        if operator.outcome not in {verdict.outcome for verdict in verdicts}:
            verdicts += (StateVerdict("", operator.outcome, operator.reason, operator.repair, operator.cause),)
        for verdict in verdicts:
            yield operator, verdict


def _level(verdict: StateVerdict) -> str | None:
    """Return the level of a verdict in SARIF; ``None`` without a finding."""
    if verdict.outcome.is_bad:
        return "error"
    if verdict.outcome is Outcome.UNKNOWN:
        return "warning"
    return None if verdict.outcome is Outcome.RESTORES and not verdict.reason else "note"


def _name(verdict: StateVerdict) -> str:
    """Return the name of a test case: several verdicts on an operator or a state have different names."""
    parts = (verdict.state or f"({verdict.cause or 'operator'})", verdict.part, verdict.subject)
    return text_of(" ".join(part for part in parts if part))


def _sentence(verdict: StateVerdict) -> str:
    return text_of(f"{verdict.outcome}: {verdict.reason}" if verdict.reason else str(verdict.outcome))


def _rule(verdict: StateVerdict) -> str:
    return verdict.cause or str(verdict.outcome).replace(" ", "-").replace("'", "")


def _digest(operator: str, verdict: StateVerdict) -> str:
    parts = (operator, verdict.state, verdict.part, verdict.subject, _rule(verdict))
    return sha256(json.dumps(parts).encode()).hexdigest()


def _line_of(lines: list[str], operator: OperatorVerdict, verdict: StateVerdict) -> int:
    """Return the number of the line that names a state, behind the line of its operator; 1 if the file names neither."""
    line = 0
    for name in (operator.operator, verdict.state):
        pattern = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])")
        line = next((number for number in range(line, len(lines)) if name and pattern.search(lines[number])), line)
    return line + 1


def _new_file(content: str) -> Argument:
    """Return the arguments that name a file for the output of a command."""
    output = argument("-o", "--output", metavar="FILE", help=f"write the {content} into a new file")
    return several(output, switch("--overwrite", "replace FILE"))


@command(
    "signature",
    "description of the state of a job",
    "Print the signature of a job as JSON: operators, states, kinds, types and time-to-live, in a stable order. Plans and "
    "graphs describe operators without their states.",
    _new_file("signature"),
    flags(Kind.CHECKS),
    python=("sp.signature",),
)
def _signature(options: argparse.Namespace) -> None:
    text = str(call(signature, options))
    _print_or_write(text, f"{text}\n", options)


def _print_or_write(text: str, content: str, options: argparse.Namespace) -> None:
    """Print a text or, if the options name a file, write the content of the file."""
    if options.output is None:
        say(text)
        return
    write_text(options.output, content, replaced=options.overwrite)
    say(f"{options.output} was written")


@command(
    "check",
    "whether a job restores a snapshot",
    "Show what becomes of a snapshot in another job: which operators and states restore, are migrated, are new, would be "
    "lost, or are refused, with Flink's reason and the commands that repair the snapshot.",
    argument("--job", metavar="NEW", required=True, help="the new job: a snapshot, or a file that the command signature reads"),
    argument("--flink", metavar="VERSION", help="the Flink version of the new job (default: as NEW says)"),
    argument("--backend", choices=("hashmap", "rocksdb", "forst"), help="the state backend of the new job"),
    repeated("--unchanged", "a Java class or an operator whose code is the same in both jobs", metavar="NAME"),
    switch(
        "--no-contents",
        "compare descriptions alone, without reading files and values; the answer is never yes",
        clears="contents",
    ),
    JSON_LINES,
    argument("--junit", metavar="FILE", help="also write the report as JUnit XML; replaces FILE"),
    argument("--sarif", metavar="FILE", help="also write the report as SARIF for code scanning; replaces FILE"),
    flags(Kind.CHECKS),
    fails="state is refused, would be lost, or would change",
    unchecked="nothing of this was found, and not everything could be checked",
    python=("sp.check_job",),
)
def _check(options: argparse.Namespace) -> Answer:
    report = call(check_job, options)
    print_report(report, options)
    if options.junit is not None:
        write_text(options.junit, junit_report(report, f"check of {options.path}"), replaced=True)
    if options.sarif is not None:
        write_text(options.sarif, sarif_report(report, options.job, _text_of_file(options.job), __version__), replaced=True)
    return report.answer


def _text_of_file(path: str) -> str | None:
    """Return the text of a local file; ``None`` for snapshots and remote files."""
    file = Path(path)
    return file.read_text("utf-8-sig") if file.is_file() and file.name != METADATA_FILE else None


@command(
    "match",
    "operators of a snapshot and of a new job, matched",
    "Match the operators of a snapshot with the operators of a new job: by ids, names and states. An ambiguous match is "
    "shown with its candidates, and is not part of the mapping that rename-uid --mapping applies.",
    argument("--graph", metavar="FILE", help="the graph of the job that wrote the snapshot, as Flink prints it"),
    argument("--new-graph", metavar="FILE", help="the graph of the new job, as Flink prints it: for names of its operators"),
    _new_file("mapping"),
    switch("--json", "print the mapping instead of a table"),
    flags(Kind.CHECKS),
    fails="an operator with state does not have a match",
    unchecked="each of them has a match, and a match is ambiguous",
    python=("sp.match_operators",),
)
def _match(options: argparse.Namespace) -> Answer:
    matches = call(match_operators, options)
    say(matches.to_json() if options.json else str(matches))
    if options.output is not None:
        write_text(options.output, f"{matches.to_json()}\n", replaced=options.overwrite)
    return matches.answer


@rewriting(
    "convert-state",
    "a copy in which a state has the type of another job",
    UID,
    argument("--state", help="name of the state; without it, the keys of all keyed states and timers get the type of NEW"),
    argument("--job", metavar="NEW", required=True, help="the job with the new type of the state, as for the command check"),
    argument("--as", dest="name", metavar="NAME", help="name of the state in NEW (default: the same name)"),
    repeated("--rename", "a field or enum constant and its new name, such as value.customer=client", metavar="PATH=NAME"),
    repeated("--default", "the value of a new field as JSON, such as value.f2=0", metavar="PATH=VALUE"),
    repeated("--drop-field", "a field to leave out, such as value.comment", metavar="PATH"),
    python=("SavepointWriter.evolve_state",),
)
def _convert_state(plan: SavepointBuild, options: argparse.Namespace) -> None:
    """Read the rows of a state and write them in another type; a value that does not fit it is refused."""
    from state_processor.applications.jobs import converting  # the other commands do not read values
    from state_processor.applications.jobs.value_conversion import Edits

    assert plan.snapshot is not None  # it is a copy
    identifier = plan.existing(OperatorIdentifier.of(options.uid)).identifier
    job = signature_of(options.job, replace(plan.access, plan=None, uids=None))
    new = job.by_hash.get(identifier.uid_hash)
    if new is None:
        raise NotFoundError(f"--job {options.job}: the job has no operator {identifier}")
    old = signature_of_snapshot(plan.snapshot).by_hash[identifier.uid_hash]
    defaults = map_values(_json, pairs("--default", "PATH=VALUE", options.default))
    edits = Edits(pairs("--rename", "PATH=NAME", options.rename), defaults, frozenset(options.drop_field))
    if options.state is None:
        if options.name is not None:
            raise OptionError("--as: expected --state, too")
        converting.convert_keys(plan, identifier, old, new, edits)
        return
    name = options.name or options.state
    states = [(old.states or {}).get(options.state), (new.states or {}).get(name)]
    if states[0] is None:
        raise NotFoundError.naming_nearest("state", options.state, list(old.states or {}), f"operator {identifier}")
    if states[1] is None:
        raise NotFoundError(f"--job {options.job}: the job has no state {name!r} of operator {identifier}")
    converting.convert_state(plan, identifier, converting.Conversion.of(states[0], states[1], edits))


def _json(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return text


@command(
    "compile-plan",
    "the compiled plan of a query of Flink SQL",
    "Compile a query of Flink SQL to a plan, as COMPILE PLAN does, by the planner of an installed Flink. No job starts. This "
    "is the only command that runs Java. The plan of a query that was submitted as text names its operators and columns.",
    argument("sql", metavar="FILE", help="statements that create tables, and one INSERT or one statement set"),
    argument(
        "--flink",
        metavar="DIRECTORY|VERSION",
        help="directory of a Flink distribution, or the version that has to be installed (default: FLINK_HOME, or the package "
        "apache-flink-libraries)",
    ),
    repeated("--jar", "jar of a connector", dest="jars", metavar="FILE"),
    repeated(
        "--set",
        "option of the job that is not in the text, such as table.exec.mini-batch.enabled=true",
        metavar="NAME=VALUE",
    ),
    _new_file("plan"),
    python=("sp.plan_from_sql",),
)
def _compile_plan(options: argparse.Namespace) -> None:
    try:
        sql = Path(options.sql).read_text("utf-8")
    except FileNotFoundError:
        raise MissingFileError(f"{options.sql} does not exist") from None
    plan = call(plan_from_sql, options, sql=sql, options=pairs("--set", "NAME=VALUE", options.set))
    _print_or_write(plan, plan, options)


@command(
    "check-query",
    "state that another query can continue with",
    "Show which state of a Flink SQL query another query can continue with, from the compiled plans of the query that "
    "wrote it and of the new query.",
    SNAPSHOT,
    repeated("--drop", "an operator whose state is left out, such as 'join[5]'", metavar="OPERATOR"),
    parameters_of(SavepointWriter.migrate_query),
    JSON_LINES,
    flags(Kind.CHECKS, without=("plan", "uids")),
    fails="state can't be kept and is not named by --drop",
    python=("SavepointWriter.check_query_migration",),
)
def _check_query(options: argparse.Namespace) -> bool:
    writer = SavepointWriter.from_existing(options.path, **flag_values(options))
    report = writer.check_query_migration(**arguments_of(writer.check_query_migration, options))
    print_report(report, options)
    return not report.impossible
