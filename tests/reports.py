"""What processes of xdist tell of tests that passed: little, and once for each test.

pytest has three reports of a test, each with the names of its folders, of its module and of its marks. xdist sends each, and
three more messages: most tests are shorter than this takes. Reports of failures, and of tests that print something, remain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

_PASSED: Final = "passed"
_TOGETHER: Final = "together"
_SHORT_SECONDS: Final = 0.005
"""``--durations`` leaves out fixtures that are shorter."""
_FIELDS: Final = vars(pytest.TestReport("test", ("", None, ""), {}, "passed", None, "call")).keys()


def pytest_report_to_serializable(report: pytest.TestReport | pytest.CollectReport) -> dict[str, Any] | None:
    """Return the names, times and durations of a test that passed. ``None`` for other reports: pytest has its own way."""
    if not isinstance(report, pytest.TestReport) or not report.passed or report.sections or report.user_properties:
        return None
    if vars(report).keys() != _FIELDS:  # of a plugin, or of an expected failure
        return None
    return {_PASSED: (report.nodeid, report.location, report.when, report.duration, report.start, report.stop)}


def pytest_report_from_serializable(data: dict[str, Any]) -> pytest.TestReport | None:
    """Return the report of a test that passed, without the names of folders and marks."""
    if _PASSED not in data:
        return None
    nodeid, location, when, duration, start, stop = data.pop(_PASSED)
    return pytest.TestReport(nodeid, location, {}, "passed", None, when, (), duration, start, stop, **data)


class Sender:
    """Sends the messages of a process.

    The report of a test that passed is sent with the messages after it. Reports of short fixtures are not sent.

    Parameters
    ----------
    send
        xdist's function.
    all_phases
        Whether reports of short fixtures are sent, too.
    """

    def __init__(self, send: Callable[..., None], all_phases: bool) -> None:
        self._send = send
        self._all_phases = all_phases
        self._waiting: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, name: str, **content: Any) -> None:
        """Send a message, now or with the next ones."""
        passed = content["data"].get(_PASSED) if name == "testreport" else None
        if passed is not None and not self._all_phases:
            _, _, when, duration, *_ = passed
            if when != "call" and duration < _SHORT_SECONDS:
                return
        self._waiting.append((name, content))
        if passed is None and name != "logfinish":
            waiting, self._waiting = self._waiting, []
            if len(waiting) == 1:
                self._send(name, **content)
            else:
                self._send(_TOGETHER, messages=waiting)


def shorten(config: pytest.Config) -> None:
    """Send few messages, in a process of xdist."""
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            plugin.sendevent = Sender(plugin.sendevent, all_phases=config.getoption("xmlpath", None) is not None)


def receive(node: WorkerController) -> None:
    """Take messages that come together apart, in the process that reports."""
    process = node.process_from_remote

    def process_each(message: Any) -> None:
        messages = message[1]["messages"] if isinstance(message, tuple) and message[0] == _TOGETHER else [message]
        for each in messages:
            process(each)

    node.process_from_remote = process_each
