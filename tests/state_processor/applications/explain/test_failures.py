"""The explanations of restores that failed, or were silently wrong, in real Flink."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.applications.jobs.verdicts import TARGET, writes
from state_processor.cli import main
from state_processor.types.answers import Answer
from tests.corpus import CORPUS

CASES = CORPUS.parent / "failures"
_WITHOUT_UIDS = {"26-serial-version-uid-enumerator", "86-uids-swapped"}
"""Snapshots of Flink 1.x whose operators the answers name by uids."""
_OTHER_STATE = {"60-sql-join-column-added"}


def _explained(case: Path, answer: dict[str, Any]) -> sp.Explanation:
    error, job, symptom = (case / name for name in ("error.txt", "new.state.json", "symptom.txt"))
    return sp.explain(
        case / answer["snapshot_path"],
        error=error if error.is_file() else None,
        job=job if job.is_file() else None,
        symptom=symptom.read_text("utf-8") if symptom.is_file() else "",
    )


@pytest.mark.corpus(
    instead="tests/state_processor/applications/explain/test_explaining.py::test_a_mismatch_that_the_trace_and_the_snapshot_show"
)
@pytest.mark.parametrize("directory", [CASES] if CASES.is_dir() else [], ids=lambda directory: directory.name)
def test_the_first_cause_is_the_right_one(directory: Path) -> None:
    for case in sorted(path.parent for path in directory.glob("*/answer.json")):
        answer = json.loads((case / "answer.json").read_text("utf-8"))
        cause = _explained(case, answer).causes[0]
        assert cause.kind == answer["kind"], case.name
        if answer["operator"] is not None and case.name not in _WITHOUT_UIDS:
            assert answer["operator"] in (cause.operator, cause.uid_hash), case.name
        if case.name not in _OTHER_STATE:
            assert cause.state == answer["state"], case.name
        if not answer["loses_state"]:
            assert not cause.loses_state, case.name


_WITHOUT_REPAIR = {"duplicate-uid", "metadata-damaged", "not-a-snapshot", "newer-format-version", "snapshot-not-found"}
"""Kinds that no command repairs."""
_TO_COMPLETE = {"claimed-savepoint-flink-39964", "sql-query-changed"}
"""Kinds whose commands may all name a directory or a file of the user."""
_SHOWING = {"file-missing", "file-damaged", "state-not-used"}
"""Kinds whose complete commands write no savepoint."""


@pytest.mark.corpus(
    instead="tests/state_processor/applications/explain/test_explaining.py::test_a_mismatch_that_the_trace_and_the_snapshot_show"
)
@pytest.mark.parametrize("directory", [CASES] if CASES.is_dir() else [], ids=lambda directory: directory.name)
def test_the_first_repair_restores(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for original in sorted(path.parent for path in directory.glob("*/answer.json")):
        case = tmp_path / original.name
        shutil.copytree(original, case)
        monkeypatch.chdir(case)
        answer = json.loads((case / "answer.json").read_text("utf-8"))
        kind, repairs = answer["kind"], _explained(case, answer).causes[0].repairs
        complete = [remedy for remedy in repairs if not remedy.placeholders]
        assert bool(repairs) != (kind in _WITHOUT_REPAIR), case.name
        assert complete or kind in _WITHOUT_REPAIR | _TO_COMPLETE, case.name
        last = next((number for number, remedy in enumerate(complete) if writes(remedy.command)), None)
        for remedy in complete if last is None else complete[: last + 1]:
            for command in remedy.commands:
                assert main(shlex.split(command)[1:]) == 0, f"{case.name}: {command}"
        assert (case / TARGET).exists() == (last is not None), case.name
        if last is None:
            assert kind in _WITHOUT_REPAIR | _TO_COMPLETE | _SHOWING, case.name
            continue
        flink = answer["flink_new"].rpartition(".")[0]
        report = sp.check_job(case / TARGET, case / "new.state.json", flink=flink, backend=answer["backend"])
        assert report.answer is not Answer.NO, case.name
