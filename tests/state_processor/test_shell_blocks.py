"""Each command line in the shell blocks of the README and of pages runs here, or has a reason why it runs elsewhere."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor import cli
from tests.archives import unpacked
from tests.backends.connectors.test_sink_state import COMMITTABLES, KAFKA
from tests.claimed_checkpoints import SAVEPOINT, claimed_checkpoint

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
JOB = "51ac3548cdad4ba273a8b100855cfc7a"
PROGRAM = "state-processor "
ANONYMOUS = ROOT / "tests/fixtures/without-uids"
HIGH_AVAILABILITY = ROOT / "tests/fixtures/high-availability/2.3.0"

ELSEWHERE = {
    "./dev": "tests/packaging/test_installation.py makes environments; the rest are the tests themselves",
    "pip": "tests/packaging/test_installation.py installs the extras",
    "python": "tests/packaging/test_deployment.py makes environments in archives",
    "environment/bin/venv-pack": "tests/packaging/test_deployment.py",
    "PYSPARK_DRIVER_PYTHON=environment/bin/python": "tests/packaging/test_deployment.py",
    "spark-submit": "tests/packaging/test_deployment.py",
    "export": "paths of Java and Hadoop on the reader's machine",
    "curl": "requests to a server that runs until it is stopped: tests/state_processor/applications/serving",
    "openssl": "makes a token",
    "state-processor serve": "runs until it is stopped: tests/state_processor/applications/serving",
    "state-processor browse": "runs until it is stopped: tests/state_processor/applications/serving",
    "state-processor sync": "runs until it is stopped: tests/state_processor/commands",
    "state-processor compile-plan": "needs Flink: tests/interop/test_plan_compiler.py",
    "state-processor fleet s3://bucket/checkpoints --openmetrics :9400": "serves until it is stopped: tests of the fleet",
}
"""First words of lines that do not run here, with the reason."""

_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CONTINUED = re.compile(r"\\\n\s*")


def lines_of(text: str) -> Iterator[str]:
    """The command lines of the shell blocks of a page. Blocks without a language are sessions if they have prompts."""
    for language, block in _BLOCK.findall(text):
        lines = _CONTINUED.sub("", block).splitlines()
        if language not in ("sh", "bash", "") or (language == "" and not block.startswith(("$ ", PROGRAM))):
            continue
        if block.startswith("set -eu"):
            yield block  # a script
        elif any(line.startswith("$ ") for line in lines):
            yield from (line.removeprefix("$ ") for line in lines if line.startswith("$ "))
        else:
            yield from (line for line in lines if line)


LINES = [(page, line) for page in PAGES for line in lines_of(page.read_text("utf-8"))]
RUN = [
    (page, line)
    for page, line in LINES
    if "\n" not in line and not line.startswith(tuple(f"{e} " for e in ELSEWHERE)) and line not in ELSEWHERE
]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with what pages name: snapshots, checkpoints of a job, rows, plans and a log."""
    sample = sp.sample_savepoint()
    for name in ("savepoints/savepoint-1", "build/savepoint", f"checkpoints/{JOB}/chk-7", f"checkpoints/{JOB}/chk-8"):
        shutil.copytree(sample, tmp_path / name)
    shutil.copytree(sample, tmp_path / "checkpoints/JOB/chk-812")
    shutil.copytree(ROOT / "tests/fixtures/sinks/2.3.0", tmp_path / "rolling")
    kafka = sp.arrow.SavepointWriter.new()
    for uid, name, elements in (
        ("kafka-sink", "writer_raw_states", KAFKA),
        ("Sink Committer: kafka-sink", "streaming_committer_raw_states", COMMITTABLES),
    ):
        rows = pa.table({"value": pa.array([element.to_bytes() for element in elements], pa.binary())})
        kafka.with_list_state(uid, name, rows, sp.Types.PRIMITIVE_ARRAY(sp.Types.BYTE()), parallelism=2)
    kafka.write(tmp_path / "kafka-sink")
    (tmp_path / "totals.csv").write_text("key,value\namelia,7\n", "utf-8")
    (tmp_path / "uids.txt").write_text("orders\ncatalog\n", "utf-8")
    (tmp_path / "jobmanager.log").write_text(
        "Caused by: org.apache.flink.util.StateMigrationException: For heap backends, the new state serializer (a.B@1) must not "
        "be incompatible with the old state serializer (c.D@2).\n",
        "utf-8",
    )
    (tmp_path / "old-job.json").write_text(
        json.dumps({"plan": {"nodes": [{"id": "a" * 32, "description": "orders", "parallelism": 2}]}}), "utf-8"
    )
    monkeypatch.chdir(tmp_path)
    assert cli.main(["signature", sample, "-o", "job.state.json"]) == 0
    return tmp_path


def prepared(line: str, world: Path) -> str:
    """Return a command line with the directory's names for storage, and for what ``IN``, ``OUT`` and ``PATH`` stand for."""
    query = unpacked("sql") / "2.3.0" / "group-aggregate"
    if "--plan old-plan.json" in line:
        line = line.replace("s3://bucket/savepoints/savepoint-1", f"{query}/savepoint").replace(
            "new-plan.json", f"{query}/plan.json"
        )
    line = line.replace("old-plan.json", f"{query}/plan.json")
    if "022b…780a" in line:
        kind = "flink" if "/flink/" in line else "backup"
        checkpoint = claimed_checkpoint(world / kind, world / f"{kind}-savepoints" / SAVEPOINT)
        line = re.sub(r"/(flink/checkpoints|backup)/022b…780a/chk-4", str(checkpoint), line)
        line = line.replace(f"/{kind}/savepoints", f"{world}/{kind}-savepoints")
        line = line.replace("/backup/savepoint", f"{world}/backup-copy")
    uid = re.search(r"--uid (kafka-sink|rolling)", line)
    base = uid[1] if uid else "savepoints/savepoint-1"
    line = re.sub(r"\b(IN|PATH)\b", base, line).replace("--async-state baskets", "--async-state orders")
    if "rename-uid" in line:
        cli.main(["match", str(ANONYMOUS / "savepoint"), str(ANONYMOUS / "job.state.json"), "-o", "mapping.json"])
        line = line.replace("s3://bucket/savepoints/savepoint-1", str(ANONYMOUS / "savepoint"))
    if "--drop-file" in line:
        rows = sp.arrow.read_sink_state("rolling", "rolling").to_pylist()
        pending = next(row["path"] for row in rows if row["file_status"] == "PENDING")
        line = line.replace("file:/data/rolling/letter=b/part-0", pending)
    line = line.replace("/var/lib/node_exporter/", "")
    line = f"{line} --older-than 0s" if " dispose " in f" {line}" else line  # these files are new
    return line.replace("s3://bucket/", "").replace("ha/default", str(HIGH_AVAILABILITY))


@pytest.mark.parametrize(("page", "line"), RUN, ids=[f"{page.stem}:{number}" for number, (page, _) in enumerate(RUN)])
def test_lines_run(
    page: Path, line: str, world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if " shop" in line and not line.startswith(f"{PROGRAM}sample"):
        shutil.copytree(sp.sample_savepoint(), world / "shop")
    _, piped, command = line.rpartition("| ")
    monkeypatch.setattr(sys, "stdin", io.StringIO((world / "jobmanager.log").read_text("utf-8") if piped else ""))
    name, *arguments = shlex.split(prepared(command, world), comments=True)
    assert name == PROGRAM.strip()
    capsys.readouterr()
    assert cli.main(arguments) in (0, 1, 3), capsys.readouterr().err  # 1 and 3 are answers


def test_the_script_of_an_init_container_runs(world: Path) -> None:
    ((_, script),) = [(page, line) for page, line in LINES if "\n" in line]
    programs = world / "programs"
    programs.mkdir()
    stubs = {
        "kubectl": f"echo {world}/savepoints/savepoint-1",
        "state-processor": f'exec {sys.executable} -m state_processor.cli "$@"',
    }
    for name, text in stubs.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n", "utf-8")
        (programs / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "JOB": "orders", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_line_runs_here_or_elsewhere() -> None:
    elsewhere = [line for page, line in LINES if (page, line) not in RUN]
    assert {e for e in ELSEWHERE if any(line.startswith(e) for line in elsewhere)} == ELSEWHERE.keys()
    assert [line for _, line in RUN if PROGRAM not in line] == []
    assert len(RUN) > 45
