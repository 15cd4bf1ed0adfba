"""Processes of xdist tell all of failures, and little of tests that passed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests import reports
from tests.reports import Sender

LOCATION = ("tests/test_it.py", 7, "test_it")


def report(when: str = "call", outcome: str = "passed", duration: float = 0.001, **fields: Any) -> pytest.TestReport:
    keywords = {"test_it": 1, "tests": 1}
    return pytest.TestReport("tests/test_it.py::test_it", LOCATION, keywords, outcome, None, when, duration=duration, **fields)  # type: ignore[arg-type]


def sent(messages: list[tuple[str, dict[str, Any]]], all_phases: bool = False) -> list[tuple[str, dict[str, Any]]]:
    """What is sent of messages."""
    found: list[tuple[str, dict[str, Any]]] = []
    send = Sender(lambda name, **content: found.append((name, content)), all_phases)
    for name, content in messages:
        send(name, **content)
    return found


def message(shown: pytest.TestReport) -> tuple[str, dict[str, Any]]:
    return "testreport", {"data": reports.pytest_report_to_serializable(shown) or {"outcome": shown.outcome}}


def test_a_report_of_a_test_that_passed_has_what_is_shown() -> None:
    data = reports.pytest_report_to_serializable(report(start=1.5, stop=2.5))
    assert data is not None
    found = reports.pytest_report_from_serializable(data | {"worker_id": "gw1"})
    assert found is not None
    expected = report(start=1.5, stop=2.5)
    expected.keywords = {}
    assert vars(found) == vars(expected) | {"worker_id": "gw1"}


@pytest.mark.parametrize(
    "shown",
    [
        report(outcome="failed"),
        report(outcome="skipped"),
        report(sections=[("Captured stdout call", "text")]),
        report(user_properties=[("name", 1)]),
        report(wasxfail="the reason"),
        pytest.CollectReport("tests/test_it.py", "passed", None, []),
    ],
    ids=repr,
)
def test_reports_with_more_are_left_to_pytest(shown: pytest.TestReport | pytest.CollectReport) -> None:
    assert reports.pytest_report_to_serializable(shown) is None
    assert reports.pytest_report_from_serializable({"$report_type": "TestReport"}) is None


def test_a_test_that_passes_sends_two_messages_and_short_fixtures_none() -> None:
    first, last = ("logstart", {"nodeid": "a"}), ("runtest_protocol_complete", {"item_index": 3})
    setup, call, teardown = message(report("setup")), message(report()), message(report("teardown", duration=2.0))
    finish = ("logfinish", {"nodeid": "a"})
    every = [first, setup, call, teardown, finish, last]
    assert sent(every) == [first, ("together", {"messages": [call, teardown, finish, last]})]
    assert sent(every, all_phases=True) == [first, ("together", {"messages": [setup, call, teardown, finish, last]})]


def test_a_failure_is_sent_at_once_behind_what_was_before() -> None:
    call, failed = message(report()), message(report("teardown", "failed"))
    assert sent([call]) == []
    assert sent([call, failed]) == [("together", {"messages": [call, failed]})]
    assert sent([failed]) == [failed]


def test_messages_that_come_together_are_processed_in_their_order() -> None:
    found: list[Any] = []
    node: Any = SimpleNamespace(process_from_remote=found.append)
    reports.receive(node)
    first, second, end = ("logstart", {"nodeid": "a"}), ("logfinish", {"nodeid": "a"}), object()
    node.process_from_remote(first)
    node.process_from_remote(("together", {"messages": [first, second]}))
    node.process_from_remote(end)  # of the channel
    assert found == [first, first, second, end]
