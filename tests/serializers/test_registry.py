"""Entry points are found wherever the standard library finds them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

from state_processor.serializers.registry import entry_points

GROUP = "state_processor.of_tests"
_FILES = {"METADATA": "Metadata-Version: 2.1\nName: acme\nVersion: 1\n", "entry_points.txt": f"[{GROUP}]\nacme = acme:load\n"}
_FILES["PKG-INFO"] = _FILES["METADATA"]


def _directory(name: str) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        (root / name).mkdir(parents=True)
        for file, text in _FILES.items():
            (root / name / file).write_text(text)
        return root

    return make


def _egg(root: Path) -> Path:
    return _directory("EGG-INFO")(root / "acme-1-py3.11.egg")


def _archive(root: Path) -> Path:
    with ZipFile(root / "acme.zip", "w") as archive:
        for file, text in _FILES.items():
            archive.writestr(f"acme-1.dist-info/{file}", text)
    return root / "acme.zip"


@pytest.mark.parametrize(
    "make",
    [_directory("acme-1.dist-info"), _directory("acme.egg-info"), _directory("ACME-1.DIST-INFO"), _egg, _archive],
    ids=["wheel", "develop", "upper case", "egg", "archive"],
)
def test_as_the_standard_library(make: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [*entry_points(GROUP)] == [*metadata.entry_points(group=GROUP)] == []
    monkeypatch.setattr(sys, "path", [str(make(tmp_path)), *sys.path])
    assert (
        [point.name for point in entry_points(GROUP)] == [point.name for point in metadata.entry_points(group=GROUP)] == ["acme"]
    )
