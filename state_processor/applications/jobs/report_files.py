"""The report of a check as files for pipelines: JUnit XML, and SARIF for code scanning.

State that could not be checked is an error in JUnit, since servers of pipelines count a skipped test as a success.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote
from xml.etree import ElementTree

from state_processor.applications.jobs.verdicts import JobReport, OperatorVerdict, Outcome, StateVerdict
from state_processor.command_line import text_of

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
    for operator, verdict in _cases(report):
        if level := _level(verdict):
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
        "rules": [{"id": rule} for rule in sorted({_rule(verdict) for _, verdict in _cases(report) if _level(verdict)})],
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
