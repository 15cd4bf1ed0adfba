"""Which tests of a module were selected: one JVM answers them all, and it is asked for no more than they want."""

from __future__ import annotations

from typing import Any

import pytest


def asking(request: pytest.FixtureRequest, fixture: str) -> list[Any]:
    """The selected tests of the module of ``request`` that use a fixture."""
    return [i for i in request.session.items if i.path == request.path and fixture in getattr(i, "fixturenames", ())]
