"""Garbage collection in Spark's Python workers."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from state_processor.spark import worker_process


@pytest.fixture(autouse=True)
def _process_as_before() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_objects_of_new_modules_are_left_out_of_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "_known_modules", 0)
    worker_process.freeze_imported_objects()
    assert gc.get_freeze_count() > 10_000
    held = [object(), {}]
    assert any(o is held for o in gc.get_objects())
    worker_process.freeze_imported_objects()
    assert any(o is held for o in gc.get_objects())  # nothing was imported: the objects of a task stay collectable
    monkeypatch.setitem(sys.modules, "another", ModuleType("another"))
    worker_process.freeze_imported_objects()
    assert not any(o is held for o in gc.get_objects())
