"""What tests of packages and of their deployment share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.environments import build


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    return build(tmp_path_factory.mktemp("packages"))
