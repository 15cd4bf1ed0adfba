"""The classes of Flink that throw: ``explain`` has a place for each, also for those of a new version."""

from __future__ import annotations

import pytest

from tests.interop import flink_jars
from tests.interop.throw_sites import stored_classes, throwing_classes

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("version", flink_jars.VERSIONS)
def test_the_table_has_every_class_that_throws(version: str) -> None:
    """``python -m tests.interop.throw_sites`` writes the table; its test then shows the classes without a place."""
    classes = throwing_classes(version)
    assert "runtime.state.heap.HeapKeyedStateBackend" in classes
    assert classes - stored_classes() == set()
