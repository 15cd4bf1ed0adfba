"""Wheel and sdist in empty environments: the oldest versions that are declared, the newest there are, and without Spark."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.packaging.environments import PYTHONS, ROOT, SAVEPOINT, Environment, interpreter, lower_bounds

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
        stubs = {p.relative_to(ROOT).as_posix() for p in (ROOT / "state_processor").rglob("*.pyi")}
        data = {"state_processor/py.typed", "state_processor/samples/shop/_metadata", *stubs}
        assert data - set(wheel.namelist()) == set()
    with tarfile.open(packages[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {m for m in installed if m not in names} == set()


@pytest.mark.spark
def test_oldest_versions_from_the_wheel(packages: tuple[Path, Path], tmp_path: Path) -> None:
    oldest = Environment("oldest", interpreter(PYTHONS[0]) or sys.executable, lower_bounds())
    oldest.install(packages[0])
    found = oldest.first_steps(ROOT, "arrow")
    assert ARROW.items() <= found.items()
    assert found["pyspark"].startswith("4.0.")
    assert SPARK.items() <= oldest.first_steps(tmp_path, "spark").items()


@pytest.mark.spark
def test_newest_versions_from_the_sdist(packages: tuple[Path, Path], tmp_path: Path) -> None:
    newest = Environment("newest", sys.executable, links=True)
    newest.install(packages[1])
    found = newest.first_steps(tmp_path, "arrow")
    assert ARROW.items() <= found.items()
    assert ".cache/environments/newest/" in found["module"]
    assert SPARK.items() <= newest.first_steps(ROOT, "spark").items()


def test_the_installation_without_spark_is_small(packages: tuple[Path, Path], tmp_path: Path) -> None:
    small = Environment("small", sys.executable, links=True, extra="")
    small.install(packages[0])
    installed = small.modules
    assert not [name for name in ("pyspark", "py4j", "pandas", "duckdb", "polars") if (installed / name).exists()]
    files = [path for path in installed.rglob("*") if path.is_file() and path.suffix != ".pyc"]  # pip compiled nothing
    assert sum(path.stat().st_size for path in files) < 500e6
    found = small.first_steps(tmp_path, "arrow")
    assert ARROW.items() <= found.items()
    assert found["pyspark"] is None
    count = ["-m", "state_processor.cli", "count", str(SAVEPOINT), "--uid", "orders", "--state", "total"]
    done = subprocess.run([small.interpreter, *count], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "50\n"


def test_the_matrix_has_the_declared_pythons() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["classifiers"]
    assert tuple(c.rpartition(" ")[2] for c in classifiers if re.search(r":: 3\.\d+$", c)) == PYTHONS
    assert f"| Python | {PYTHONS[0]} to {PYTHONS[-1]};" in (ROOT / "README.md").read_text("utf-8")


def test_every_extra_that_a_message_names_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    modules = [p for room in ("state_processor", "serializers", "backends") for p in (ROOT / room).rglob("*.py")]
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = {e for p in {*modules, *pages} for e in re.findall(r"state-processor\[([\w,-]+)\]", p.read_text("utf-8"))}
    call = re.compile(r"""(?:require\("[\w.]+", |requirement\()"([\w-]+)",""")
    required = {extra for path in modules for extra in call.findall(path.read_text("utf-8"))}
    assert {"spark", "pandas", "duckdb", "serve", "completion"} <= required
    assert {e for group in named | required for e in group.split(",")} <= extras.keys()
    for_users = extras.keys() - {"all", "all-without-spark", "dev", "docs", "tests", "s3", "planner", "pandas"}
    everything = {e for line in (*extras["all"], *extras["all-without-spark"]) for e in re.split(r"[\[\],]", line)[1:-1]}
    assert everything - {"all-without-spark"} == for_users
