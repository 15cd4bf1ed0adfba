"""Rows of Arrow as tables."""

from __future__ import annotations

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.applications.explain.explanation import Explanation
from state_processor.applications.jobs.matching import OperatorMatches
from state_processor.applications.jobs.verdicts import JobReport
from state_processor.write.plan.reports import MigrationReport, QueryMigrationReport
from tests.state_processor.samples import ORDERS_PATH


def test_rows_are_shown_as_the_command_line_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    reader = sp.open(ORDERS_PATH)
    sp.show(reader.size_report(top=2))
    assert capsys.readouterr().out.splitlines() == [
        "operator  state_name  state_kind  entries     size",
        "────────  ──────────  ──────────  ───────  ───────",
        "orders    profile     VALUE            40  4.9 KiB",
        "orders    items       MAP             123  2.8 KiB",
    ]
    rows = reader.read_keyed_state("orders", "total", keys=["elif", "milan"])
    sp.show(rows, 1)
    sp.show(rows)
    shown = capsys.readouterr().out.splitlines()
    assert shown[2:4] == ["elif  11000", "… only the first 1 rows; limit shows more"]
    assert shown[6:] == ["elif   11000", "milan   1620"]


def test_tables_of_states_have_one_column_for_the_operator(capsys: pytest.CaptureFixture[str]) -> None:
    sp.show(sp.arrow.states(ORDERS_PATH))
    header, *_, discounts = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["operator", "state_name", "state_kind"]
    assert "namespace_type" not in header
    assert discounts.split() == ["catalog", "discounts", "BROADCAST", "STRING", "DOUBLE", "false", "operator", "318", "B"]
    sp.show(sp.arrow.operators(ORDERS_PATH), vertical=True)
    assert "max_parallelism" in capsys.readouterr().out


def test_names_of_a_snapshot_do_not_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    sp.show(pa.table({"a\x1b[2J": ["b\x1b[2J"]}))
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rows", "limit", "message"),
    [([{"a": 1}], 20, r"show\(list\): expected rows, a table"), (pa.table({"a": [1]}), 0, "limit=0: expected a positive number")],
)
def test_mistakes(rows: object, limit: int, message: str) -> None:
    with pytest.raises(sp.OptionError, match=message):
        sp.show(rows, limit)


@pytest.mark.parametrize(
    "result",
    [MigrationReport("2.3", ()), QueryMigrationReport(()), JobReport(()), OperatorMatches(()), Explanation()],
    ids=lambda result: type(result).__name__,
)
def test_results_are_shown_as_their_text(result: object) -> None:
    assert repr(result) == str(result)
