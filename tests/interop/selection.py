"""Selection of tests: samples, and the selected tests of a module; one JVM answers them together."""

from __future__ import annotations

import os
from typing import Any, Final

import pytest

EVERY_CASE: Final = bool(os.environ.get("STATE_PROCESSOR_EVERY_CASE"))
"""True to try all cases in place of a sample."""


def asking(request: pytest.FixtureRequest, fixture: str) -> list[Any]:
    """The selected tests of the module of ``request`` that use a fixture."""
    return [i for i in request.session.items if i.path == request.path and fixture in getattr(i, "fixturenames", ())]
