"""The end of the JVMs that tests of this folder keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import jvms

FOLDER = Path(__file__).parent


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Give back the memory of kept JVMs when this process comes to other tests."""
    if nextitem is None or not nextitem.path.is_relative_to(FOLDER):
        jvms.end_all()
