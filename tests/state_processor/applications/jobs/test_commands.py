"""The commands ``check-query`` and ``migrate-query``, and reports of checks as JUnit XML and SARIF: every verdict is there."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import state_processor as sp
from state_processor import cli
from state_processor.applications.jobs.commands import junit_report, sarif_report
from state_processor.applications.jobs.verdicts import Cause, JobReport, OperatorVerdict, Outcome, StateVerdict
from state_processor.cli import main
from tests.archives import unpacked


def said(capsys: pytest.CaptureFixture[str], old: str, new: str, *more: str) -> tuple[int, list[str]]:
    directory = unpacked("sql") / "2.3.0"
    plans = [str(directory / name / "plan.json") for name in (old, new)]
    code = cli.main(["check-query", str(directory / old / "savepoint"), *plans, *more])
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, captured.out.splitlines()


def test_what_is_kept_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = said(capsys, "group-aggregate", "retracting")
    assert code == 0
    assert lines[0] == "for the new query: 3 unchanged, 1 converted, 1 new, 0 left out, 0 impossible"
    code, lines = said(capsys, "group-aggregate", "retracting", "--json")
    found = {(row["uid"].partition("_")[2], row["state"], row["outcome"]) for row in map(json.loads, lines)}
    assert code == 0
    assert ("group-aggregate", "accState", "converted") in found


def test_state_that_cannot_be_kept_is_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = said(capsys, "inner-join", "left-join")
    assert code == 1
    (refused,) = (line for line in lines if "impossible: " in line)
    assert "_join (all states): impossible: the type of join[" in refused
    code, lines = said(capsys, "inner-join", "left-join", "--drop", "join")
    assert code == 0
    assert any("_join (all states): left out: named by drop" in line for line in lines)


def test_a_query_is_migrated_by_a_command(tmp_path: Path) -> None:
    directory = unpacked("sql") / "2.3.0"
    source, *plans = (str(directory / name) for name in ("inner-join/savepoint", "inner-join/plan.json", "left-join/plan.json"))
    assert cli.main(["migrate-query", source, str(tmp_path / "1"), *plans]) == 2
    assert cli.main(["migrate-query", source, str(tmp_path / "1"), *plans, "--drop", "join"]) == 0
    names = sp.arrow.states(tmp_path / "1")["state_name"].to_pylist()
    assert "left-records" in sp.arrow.states(source)["state_name"].to_pylist()
    assert "left-records" not in names


NAMES = st.text(st.characters(exclude_categories=()), max_size=8)  # with control characters, lone surrogates and U+FFFF
STATES = st.builds(StateVerdict, NAMES, st.sampled_from(Outcome), NAMES, st.lists(NAMES, max_size=2).map(tuple))
OPERATORS = st.builds(
    OperatorVerdict, NAMES, st.none(), st.sampled_from(Outcome), NAMES, st.just(()), st.lists(STATES, max_size=4).map(tuple)
)
REPORTS = st.builds(JobReport, st.lists(OPERATORS, max_size=4).map(tuple), st.lists(NAMES, max_size=2).map(tuple))


def outcomes(report: JobReport) -> Counter[Outcome]:
    """The outcomes of states, and those of operators that none of their states has."""
    counts = Counter(state.outcome for operator in report.operators for state in operator.states)
    counts.update(o.outcome for o in report.operators if o.outcome not in {state.outcome for state in o.states})
    return counts


def results(text: str) -> list[dict[str, Any]]:
    (run,) = json.loads(text)["runs"]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {result["ruleId"] for result in run["results"]}
    return list(run["results"])


@given(REPORTS, NAMES)
def test_every_verdict_is_a_test_case(report: JobReport, suite: str) -> None:
    parsed = ElementTree.fromstring(junit_report(report, suite).encode())
    counts = outcomes(report)
    bad = sum(number for outcome, number in counts.items() if outcome.is_bad)
    assert len(parsed.findall(".//testcase")) == counts.total()
    assert len(parsed.findall(".//failure")) == bad == int(parsed[0].attrib["failures"])
    assert len(parsed.findall(".//error")) == counts[Outcome.UNKNOWN] == int(parsed[0].attrib["errors"])
    assert not parsed.findall(".//skipped")


@given(REPORTS)
def test_every_verdict_but_success_is_a_result(report: JobReport) -> None:
    text = sarif_report(report, "job.json", None, "1")
    counts = outcomes(report)
    levels = Counter(result["level"] for result in results(text))
    assert levels["error"] == sum(number for outcome, number in counts.items() if outcome.is_bad)
    assert levels["warning"] == counts[Outcome.UNKNOWN]
    assert json.loads(text.encode())["runs"][0]["invocations"] == [
        {"executionSuccessful": True, "exitCode": report.answer.exit_code}
    ]


def test_results_are_at_the_lines_of_the_description() -> None:
    states = tuple(StateVerdict(name, Outcome.REFUSED, "no", cause=Cause.TYPE) for name in ("total", "sub.total", "gone"))
    report = JobReport((OperatorVerdict("orders", None, Outcome.REFUSED, states=states),))
    description = 'total: 1\n"orders-2":\n"orders":\n  "sub.total": LONG\n  "total": LONG\n'
    found = results(sarif_report(report, "a b/job.yaml", description, "1"))
    places = [result["locations"][0]["physicalLocation"] for result in found]
    assert [place["region"]["startLine"] for place in places] == [5, 4, 3]
    assert {place["artifactLocation"]["uri"] for place in places} == {"a%20b/job.yaml"}
    assert len({result["partialFingerprints"]["verdict/v1"] for result in found}) == 3


def test_the_command_writes_both_files_whatever_the_answer(tmp_path: Path) -> None:
    snapshot = sp.sample_savepoint()
    job = tmp_path / "job.json"
    description = json.loads(str(sp.signature(snapshot)))
    description["operators"] = [operator for operator in description["operators"] if operator["uid"] != "catalog"]
    job.write_text(json.dumps(description, indent=2), "utf-8")
    junit, sarif = tmp_path / "state.xml", tmp_path / "state.sarif"
    command = ["check", snapshot, "--job", str(job), "--flink", "2.3", "--junit", str(junit), "--sarif", str(sarif)]
    for _ in range(2):  # the files are replaced
        assert main(command) == 1
    (failure,) = ElementTree.parse(junit).iterfind(".//failure")
    assert failure.attrib["message"].startswith("would be lost: not in the new job")
    assert "state-processor drop-state" in (failure.text or "")
    lost, *_ = results(sarif.read_text("utf-8"))
    assert (lost["ruleId"], lost["level"]) == ("operator-missing", "error")
