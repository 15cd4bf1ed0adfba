"""The explanations of restores that failed, or were silently wrong, in real Flink."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
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
