"""What tests of packages and of their deployment share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.flink_jars import made
from tests.packaging.environments import build, built


@pytest.fixture(scope="session")
def packages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist, which processes of a run build once."""
    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        folder = folder.parent
    return built(made(folder / "packages", build))
