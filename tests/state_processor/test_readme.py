"""What the README shows is true."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import state_processor as sp
from state_processor import cli
from state_processor.backends.connectors.registry import OWN
from state_processor.serializers.format_versions import NEWEST_FLINK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def shown(output: str) -> list[list[str]]:
    """Words of lines without rules and spaces, whose numbers depend on the width of the terminal."""
    return [re.sub(r"[─+|-]+", " ", line).split() for line in output.splitlines() if re.search(r"\w", line)]


@pytest.mark.spark
def test_example_prints_its_output(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    ((example, output),) = re.findall(r"^```python\n(.*?)^```.*?^```\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    exec(compile(example, "README.md", "exec"), {"__name__": "__main__"})
    assert shown(capsys.readouterr().out) == shown(output)


def test_commands_print_their_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ((console,),) = [re.findall(r"^```\n(\$ .*?)^```", README, re.MULTILINE | re.DOTALL)]
    runs = re.findall(r"^\$ state-processor (.+)\n((?:(?!\$).*\n)*)", console, re.MULTILINE)
    assert len(runs) == 7
    monkeypatch.chdir(tmp_path)
    for command, output in runs:
        assert cli.main(shlex.split(command)) == 0
        printed = capsys.readouterr().out
        assert shown(printed) == shown(output) or output == ""
    assert {*sp.arrow.operators("both")["operator_uid"].to_pylist()} >= {"orders", "old-orders"}
    assert "84 of 128 key groups are empty" in (tmp_path / "report.html").read_text("utf-8")


def test_the_table_of_support_follows_the_code() -> None:
    rows = {name: text.lower() for name, text in re.findall(r"^\| (\w+) \| (.*) \|$", README, re.MULTILINE)}
    names = {connector.name for connector in OWN} - {"sequence"}  # named by what Flink calls it
    assert "data generator" in rows["Connectors"]
    assert all(any(part in rows["Connectors"] for part in name.split("-")) for name in names)
    tested = (ROOT / "docs" / "support.md").read_text("utf-8").partition("## Writing")[2]
    versions = [version.rpartition(".")[0] for version in re.findall(r"\d+\.\d+\.\d+", tested.partition("| ---")[0])]
    assert f"to {NEWEST_FLINK} are read; savepoints are restored by {versions[0]} to {versions[-1]} in" in rows["Flink"]
    assert all(backend.lower() in rows["Backends"] for backend in ("heap", "RocksDB", "ForSt"))


def test_readme_is_short() -> None:
    assert len(README) <= 6000
    for target in re.findall(r"\]\(([\w./-]+)\)", README):
        assert (ROOT / target).exists()


@pytest.mark.spark
def test_demo(spark_python: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "state_processor.applications.demo"],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "120", "PYSPARK_PYTHON": spark_python},
        check=True,
    )
    lines = done.stdout.splitlines()
    assert ">>> reader.states()" in lines
    assert "SILVER         13  125520" in lines
    assert max(map(len, (line for line in lines if not line.startswith((">>>", "what is in"))))) <= 120


def test_demo_without_a_savepoint(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "state_processor.applications.demo", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "does not contain _metadata" in done.stderr
    assert "Spark" not in done.stderr
