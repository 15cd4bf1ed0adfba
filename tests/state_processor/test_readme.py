"""What the README shows is true."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from state_processor import cli
from state_processor.serializers import registrations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
BUCKET = "s3://bucket/savepoints/"
SAMPLE = "tests/fixtures/2.3.0/orders-rocksdb-canonical/savepoint"


@pytest.mark.spark
def test_examples_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    text = README.replace(f"{BUCKET}savepoint-1", SAMPLE).replace(BUCKET, f"{tmp_path}/")
    examples = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(examples) == 5
    namespace: dict[str, object] = {"__name__": "__main__"}
    with registrations():
        for example in examples:
            exec(compile(example, "README.md", "exec"), namespace)
    out = capsys.readouterr().out
    assert "key string, map_key string, map_value bigint" in out
    assert "|BRONZE| 93130|" in out
    assert "|update|amelia|  3950| 4950|" in out


def test_commands_exist() -> None:
    (table,) = re.findall(r"^\| to \| commands \|\n(.*?)\n\n", README, re.MULTILINE | re.DOTALL)
    (commands,) = (a for a in cli.command_parser()._actions if isinstance(a, argparse._SubParsersAction))
    assert sorted(re.findall(r"`([\w-]+)`", table)) == sorted(commands.choices)
    for line in re.findall(r"^state-processor (.+)", README, re.MULTILINE):
        assert cli.command_parser().parse_args(shlex.split(line)).run


@pytest.mark.spark
def test_demo() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "state_processor.demo"],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "120"},
        check=True,
    )
    lines = done.stdout.splitlines()
    assert ">>> reader.states()" in lines
    assert "SILVER         13  125520" in lines
    assert max(map(len, (line for line in lines if not line.startswith((">>>", "what is in"))))) <= 120


def test_demo_without_a_savepoint(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "state_processor.demo", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "has no file _metadata" in done.stderr
    assert "Spark" not in done.stderr
