"""The check of the state of a query against another query; real Flink agrees in tests/interop/test_query_pairs.py."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.applications.jobs.verdicts import Cause, JobReport, Outcome
from state_processor.cli import main
from state_processor.types.answers import Answer
from tests.archives import unpacked

SQL = unpacked("sql") / "2.3.0"
SOURCE = "1_source"
Plan = dict[str, Any]


def check(path: Path, new: Path, **options: Any) -> JobReport:
    return sp.check_job(path, new, flink="2.3", backend="hashmap", unchanged=[SOURCE], **options)


def edited(name: str, edit: Callable[[Plan], None], target: Path) -> Path:
    """Write the plan of a query after a change, as the planner would compile it."""
    plan = json.loads((SQL / name / "plan.json").read_text("utf-8"))
    edit(
        {node["type"].removeprefix("stream-exec-").rpartition("_")[0]: node for node in plan["nodes"]} | {"edges": plan["edges"]}
    )
    target.write_text(json.dumps(plan), "utf-8")
    return target


def nothing(plan: Plan) -> None:
    """Leave the query as it is."""


def swapped(plan: Plan) -> None:
    """Exchange MIN and SUM, whose accumulators have the same type."""
    calls = plan["group-aggregate"]["aggCalls"]
    calls[1]["internalName"], calls[3]["internalName"] = calls[3]["internalName"], calls[1]["internalName"]


def replaced(plan: Plan) -> None:
    """Compute MAX instead of MIN."""
    plan["group-aggregate"]["aggCalls"][3]["internalName"] = "$MAX$1"


def dropped(plan: Plan) -> None:
    """Compute one call less."""
    del plan["group-aggregate"]["aggCalls"][3]


def filtered(plan: Plan) -> None:
    """Aggregate fewer rows."""
    column = {"kind": "INPUT_REF", "inputIndex": 1, "type": "BIGINT"}
    bound = {"kind": "LITERAL", "value": 5, "type": "BIGINT NOT NULL"}
    operands = [column, bound]
    plan["calc"]["condition"] = {"kind": "CALL", "internalName": "$>$1", "operands": operands, "type": "BOOLEAN"}


def batched(plan: Plan) -> None:
    """Switch batches on."""
    plan["group-aggregate"]["configuration"]["table.exec.mini-batch.enabled"] = "true"


def renumbered(plan: Plan) -> None:
    """Give the aggregate another number, and with it another uid."""
    plan["group-aggregate"]["id"] = 66
    for edge in plan["edges"]:
        for end in ("source", "target"):
            edge[end] = 66 if edge[end] == 6 else edge[end]


@pytest.mark.parametrize(
    ("edit", "outcome", "reason", "without_savepoint"),
    [
        (nothing, Outcome.RESTORES, "", Outcome.UNKNOWN),
        (swapped, Outcome.CHANGED, "the order of calls changes", Outcome.CHANGED),
        (replaced, Outcome.CHANGED, "is new", Outcome.CHANGED),
        (dropped, Outcome.REFUSED, "one of 5 is required", Outcome.CHANGED),
        (filtered, Outcome.CHANGED, "has other input rows", Outcome.CHANGED),
        (batched, Outcome.UNKNOWN, "other options: table.exec.mini-batch.enabled", Outcome.UNKNOWN),
        (renumbered, Outcome.LOST, "has this operator as '66_group-aggregate'", Outcome.LOST),
    ],
)
def test_plans_are_compared(
    edit: Callable[[Plan], None], outcome: Outcome, reason: str, without_savepoint: Outcome, tmp_path: Path
) -> None:
    """A plan alone is no evidence: which rows are in the state, and what they mean, only the old plan shows."""
    savepoint, old = SQL / "group-aggregate" / "savepoint", SQL / "group-aggregate" / "plan.json"
    new = edited("group-aggregate", edit, tmp_path / "new.json")
    report = check(savepoint, new, plan=old)
    (aggregate,) = (one for one in report.operators if one.operator == "6_group-aggregate")
    assert (aggregate.outcome, report.restores) == (outcome, outcome is Outcome.RESTORES), str(report)
    assert reason in "; ".join([aggregate.reason, *(state.reason for state in aggregate.states)])
    alone = check(savepoint, new)
    assert alone.answer is (Answer.NO if edit is renumbered else Answer.UNCHECKED)
    plans = check(old, new)
    (planned,) = (one for one in plans.operators if one.operator == "6_group-aggregate")
    assert (planned.outcome, plans.restores) == (without_savepoint, False)


def test_the_advice_migrates_the_query(tmp_path: Path) -> None:
    savepoint, old = SQL / "group-aggregate" / "savepoint", SQL / "group-aggregate" / "plan.json"
    report = check(savepoint, edited("group-aggregate", swapped, tmp_path / "new.json"), plan=old)
    assert shlex.split(report.repair[0])[1] == "migrate-query"


def test_a_plan_of_another_query_is_no_evidence(tmp_path: Path) -> None:
    """Its operators have the same uids, and its accumulators other types."""
    new = edited("group-aggregate", dropped, tmp_path / "new.json")
    report = check(SQL / "group-aggregate" / "savepoint", new, plan=new)
    assert report.answer is Answer.UNCHECKED
    assert "state 'accState', value is ROW" in " ".join(row["reason"] for row in report.rows())


def test_a_query_that_was_submitted_as_text_has_other_ids(tmp_path: Path) -> None:
    """A copy with the plan has the ids of the plan."""
    case = unpacked("sql-text") / "2.3.0" / "group-aggregate"
    plan = SQL / "group-aggregate" / "plan.json"
    report = check(case / "savepoint", plan, plan=plan)
    assert (Outcome.LOST, Cause.QUERY_TEXT) in {(one.outcome, one.cause) for one in report.operators}
    (command,) = report.repair
    names = {"OUT": str(tmp_path / "new"), "OLD_PLAN": str(plan)}
    words = [names.get(word, word) for word in shlex.split(command, comments=True)[1:]]
    assert main(words) == 0
    assert check(tmp_path / "new", plan, plan=plan).restores


def test_another_description_of_the_job_is_compared_by_recorded_ids() -> None:
    """A plan of the old query does not change the ids that Flink looks for."""
    savepoint = unpacked("sql-text") / "2.3.0" / "group-aggregate" / "savepoint"
    report = check(savepoint, savepoint, plan=SQL / "group-aggregate" / "plan.json")
    assert report.answer is Answer.UNCHECKED
    assert Outcome.LOST not in {one.outcome for one in report.operators}
