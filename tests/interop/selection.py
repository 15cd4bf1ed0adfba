"""Which tests there are, and which of a module were selected: one JVM answers them, and is asked for no more than they want."""

from __future__ import annotations

import os
from typing import Any, Final

import pytest

EVERY_CASE: Final = bool(os.environ.get("STATE_PROCESSOR_EVERY_CASE"))
"""Whether all cases are tried where a sample is usually."""


def asking(request: pytest.FixtureRequest, fixture: str) -> list[Any]:
    """The selected tests of the module of ``request`` that use a fixture."""
    return [i for i in request.session.items if i.path == request.path and fixture in getattr(i, "fixturenames", ())]
