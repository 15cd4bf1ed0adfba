"""The page of figures: one run, of one commit, on an idle machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"
READ = {"what": "read", "value": 2.0, "unit": "CPU s", "against": (1.0, "Parquet"), "target": 1.5}


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """Return the module with two benchmarks in a repository of its own. The second lacks figures."""
    monkeypatch.syspath_prepend(str(BENCH))
    import report
    from figures import Figure

    for name, figures in {"read": [Figure(**READ)], "flink": []}.items():
        module: Any = ModuleType(f"{name}_bench")
        module.main = lambda figures=figures: figures
        monkeypatch.setitem(sys.modules, f"{name}_bench", module)
    tables = {name: report.TABLES[name] for name in ("read", "flink")}
    monkeypatch.setattr(report, "TABLES", tables)
    monkeypatch.setattr(report, "ROOT", tmp_path)
    monkeypatch.setattr(report, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(report, "KEPT", tmp_path / ".cache")
    monkeypatch.setattr(report.os, "getloadavg", lambda: (0.1, 2.0, 2.0))
    (tmp_path / ".gitignore").write_text(".cache\n")
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    yield report
    for name in ("report", "figures"):
        del sys.modules[name]


def git(repository: Path, *arguments: str) -> str:
    """Run git as somebody."""
    identity = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")
    return subprocess.run(["git", *identity, *arguments], cwd=repository, check=True, capture_output=True, text=True).stdout


def commit(repository: Path) -> None:
    """Commit all files."""
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "Files")


def test_the_page_says_commit_and_load_once_and_leaves_out_what_was_not_measured(report: ModuleType, tmp_path: Path) -> None:
    page = report.make(resume=False).read_text()
    assert page.count(git(tmp_path, "rev-parse", "--short=12", "HEAD").strip()) == 1
    assert page.count("0.10") == 1
    assert "| read | 2.00 CPU s | 1.00 (Parquet) | 2.00 | **≤ 1.5** |" in page
    assert report.TABLES["read"].gain in page
    assert report.TABLES["flink"].title not in page


def test_a_busy_machine_is_refused(report: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report.os, "getloadavg", lambda: (40.0, 0.0, 0.0))
    with pytest.raises(SystemExit, match=r"busy: its load average is 40\.00"):
        report.make(resume=False)


def test_changes_that_are_in_no_commit_are_refused(report: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("")
    with pytest.raises(SystemExit, match=r"kernel\.py"):
        report.make(resume=False)


def test_a_run_goes_on_with_its_own_commit_and_packages_alone(
    report: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report.make(resume=False)
    (kept,) = tmp_path.glob(".cache/*/read.json")
    kept.write_text(json.dumps([READ | {"value": 3.0}]))
    assert "3.00 CPU s" in report.make(resume=True).read_text()
    assert "2.00 CPU s" in report.make(resume=False).read_text()
    monkeypatch.setattr(report, "_PACKAGES", ())
    with pytest.raises(SystemExit, match=r"other conditions \(packages pyspark .*, now \)"):
        report.make(resume=True)
    commit(tmp_path)
    with pytest.raises(SystemExit, match="was interrupted: leave out --resume"):
        report.make(resume=True)
