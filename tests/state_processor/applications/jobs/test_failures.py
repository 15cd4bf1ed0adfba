"""The answers of the check to restores that failed, or were silently wrong, in real Flink."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import state_processor as sp
from state_processor.applications.jobs.verdicts import JobReport, drops
from state_processor.cli import main
from state_processor.support.errors import StateProcessorError
from state_processor.types.answers import Answer
from tests.corpus import CORPUS

CASES = CORPUS.parent / "failures"
_UNSEEN = {
    *("kryo-class-changed", "class-missing", "serializer-replaced", "serial-version-uid"),
    *("operators-swapped", "state-renamed", "sql-query-changed"),
}
"""Causes that neither the snapshot nor the description of the job shows, in some of the cases."""


def _report(case: Path) -> JobReport | None:
    """Return the report on a case; ``None`` if the path is not a snapshot that can be read."""
    answer = json.loads((case / "answer.json").read_text("utf-8"))
    flink = answer["flink_new"].rpartition(".")[0]
    try:
        return sp.check_job(case / answer["snapshot_path"], case / "new.state.json", flink=flink, backend=answer["backend"])
    except StateProcessorError:
        return None


@pytest.mark.corpus(
    instead="tests/state_processor/applications/jobs/test_verdicts.py::test_equal_types_are_no_evidence_where_code_decides"
)
@pytest.mark.parametrize("directory", [CASES] if CASES.is_dir() else [], ids=lambda directory: directory.name)
def test_no_failure_of_flink_is_a_success(directory: Path) -> None:
    cases = [case for case in sorted(directory.iterdir()) if (case / "new.state.json").is_file()]
    reports = {case.name: _report(case) for case in cases}
    kinds = {case.name: json.loads((case / "answer.json").read_text("utf-8"))["kind"] for case in cases}
    answers = {name: report.answer for name, report in reports.items() if report is not None}
    assert [name for name, answer in answers.items() if answer is Answer.YES] == []
    assert {kinds[name] for name, answer in answers.items() if answer is Answer.UNCHECKED} <= _UNSEEN
    unreadable = {kinds[name] for name, report in reports.items() if report is None}
    assert unreadable <= {"metadata-damaged", "not-a-snapshot", "newer-format-version", "snapshot-not-found"}


_KEPT = {
    "convert-state": ("01-pojo-field-retyped", "11-pojo-class-moved", "14-value-long-to-int", "20-list-element-type"),
    "rename-uid": ("41-uid-removed",),
    "with-ttl": ("49-ttl-removed", "51-ttl-removed-list"),
}
"""Failures whose state the first line of the advice keeps, by its command."""


@pytest.mark.corpus(
    instead="tests/state_processor/applications/jobs/test_check.py::test_values_are_converted_before_they_are_dropped"
)
@pytest.mark.parametrize("directory", [CASES] if CASES.is_dir() else [], ids=lambda directory: directory.name)
def test_the_first_line_of_the_advice_keeps_the_state(directory: Path, tmp_path: Path) -> None:
    for command, names in _KEPT.items():
        for name in names:
            case, target = directory / name, str(tmp_path / name)
            report = _report(case)
            assert report is not None
            words = [target if word == "OUT" else word for word in shlex.split(report.repair[0], comments=True)]
            assert (words[1], main(words[1:])) == (command, 0), name
            answer = json.loads((case / "answer.json").read_text("utf-8"))
            flink = answer["flink_new"].rpartition(".")[0]
            assert sp.check_job(target, case / "new.state.json", flink=flink, backend=answer["backend"]).restores, name


@pytest.mark.corpus(
    instead="tests/state_processor/applications/jobs/test_repairs.py::test_values_are_kept_in_a_file_before_they_are_dropped"
)
@pytest.mark.parametrize("directory", [CASES] if CASES.is_dir() else [], ids=lambda directory: directory.name)
def test_each_failure_has_advice_that_does_not_begin_with_a_loss(directory: Path) -> None:
    reports = {case.name: _report(case) for case in sorted(directory.iterdir()) if (case / "new.state.json").is_file()}
    advice = {name: report.repair for name, report in reports.items() if report is not None}
    assert [name for name, commands in advice.items() if not commands or drops(commands[0])] == []
