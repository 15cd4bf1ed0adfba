"""The wheel is sent once to each context of Spark. :mod:`tests.packaging.test_deployment` runs it on clusters."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile
from zipimport import zipimporter

import pytest

from state_processor.spark.sessions import send_package


class Context:
    """A context of Spark that notes what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def addPyFile(self, path: str) -> None:  # noqa: N802
        with ZipFile(path) as archive:
            self.sent.append(archive.read("module.py"))


def test_a_context_that_replaces_another_gets_the_wheel_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "state_processor-1-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        archive.writestr("module.py", "content")
    monkeypatch.setattr(sys.modules["state_processor"], "__loader__", zipimporter(str(wheel)))
    contexts = [Context(), Context()]
    for context in (*contexts, *contexts):
        session: Any = SimpleNamespace(sparkContext=context)
        send_package(session)
    assert [context.sent for context in contexts] == [[b"content"], [b"content"]]
