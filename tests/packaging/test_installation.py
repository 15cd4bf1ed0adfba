"""Wheel and sdist, each in an empty environment: the oldest versions that are declared, and the newest there are."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.packaging.environments import PYTHONS, ROOT, Environment, interpreter, lower_bounds

pytestmark = pytest.mark.slow

ARROW = {"totals": [["amelia", 3950], ["anders", 14430]], "operators": 5}
SPARK = {
    "operators": 5,
    "states": 10,
    "keys": 50,
    "items": 1,
    "patched": 4950,
    "untouched": 49,
    "new": 1000,
    "sink": 9900,
    "repeated": [50, 1, 50],
}


def test_wheel_and_sdist_hold_every_module(packages: tuple[Path, Path]) -> None:
    formats = ("pyspark_flink_savepoint", "pyspark_flink_savepoint_metadata", "pyspark_flink_savepoint_changes")
    folders = ("state_processor", "serializers", "backends", *formats)
    modules = {p.relative_to(ROOT).as_posix() for f in folders for p in (ROOT / f).rglob("*.py")}
    installed = {f"state_processor/{m}" if m.startswith(("serializers/", "backends/")) else m for m in modules}
    with zipfile.ZipFile(packages[0]) as wheel:
        assert {n for n in wheel.namelist() if n.endswith(".py")} == installed
        assert {"state_processor/py.typed", "state_processor/__init__.pyi"} <= set(wheel.namelist())
    with tarfile.open(packages[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {m for m in installed if m not in names} == set()


def test_oldest_versions_from_the_wheel(packages: tuple[Path, Path], tmp_path: Path) -> None:
    oldest = Environment("oldest", interpreter(PYTHONS[0]) or sys.executable, lower_bounds())
    oldest.install(packages[0])
    found = oldest.first_steps(ROOT, "arrow")
    assert ARROW.items() <= found.items()
    assert found["pyspark"].startswith("4.0.")
    assert SPARK.items() <= oldest.first_steps(tmp_path, "spark").items()


def test_newest_versions_from_the_sdist(packages: tuple[Path, Path], tmp_path: Path) -> None:
    newest = Environment("newest", sys.executable, links=True)
    newest.install(packages[1])
    found = newest.first_steps(tmp_path, "arrow")
    assert ARROW.items() <= found.items()
    assert ".cache/environments/newest/" in found["module"]
    assert SPARK.items() <= newest.first_steps(ROOT, "spark").items()
