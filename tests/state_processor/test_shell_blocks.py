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
from tests.fenced_blocks import PAGES, ROOT, blocks_of
from tests.state_processor.test_docs import NOT_RUN
from tests.state_processor.test_docs import PAGES as EXAMPLES

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

OF_OTHER_LANGUAGES = {
    ("custom-connectors.md", "py"): "a part of the module of a plug-in",
    ("extending.md", "py"): "a field of a dataclass",
    ("kernel.md", "python"): "a fragment of a serializer",
    ("scaling.md", "py"): "a session of Spark Connect: tests/state_processor/spark",
    ("test-a-job.md", "py"): "tests/state_processor/testing/test_plugin.py and tests/interop/test_tests_of_jobs.py",
    ("06_state_of_pyflink.ipynb", "python"): "a job of PyFlink: tests/interop/pyflink_job.py",
    ("sql-text.md", "sql"): "statements for Flink: tests/interop/test_sql_plans.py",
    ("07_flink_sql.ipynb", "sql"): "statements for Flink: tests/interop/test_sql_plans.py",
}
"""Blocks of Python and SQL by page and language that no test of pages runs, with the reason."""
SHOWN = {"text", "json", "yaml", "toml", "dockerfile", "java", ""}
"""Languages of files and outputs."""
_CONTINUED = re.compile(r"\\\n\s*")


def lines_of(block: str) -> Iterator[str]:
    """The command lines of a shell block."""
    lines = _CONTINUED.sub("", block).splitlines()
    if block.startswith("set -eu"):
        yield block  # a script
    elif any(line.startswith("$ ") for line in lines):
        yield from (line.removeprefix("$ ") for line in lines if line.startswith("$ "))
    else:
        yield from (line for line in lines if line)


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
LINES = [(block.page, line) for block in BLOCKS if block.is_shell for line in lines_of(block.text)]
RUN = [
    (page, line)
    for page, line in LINES
    if page.name != "README.md"  # tests/state_processor/test_readme.py runs its session
    and "\n" not in line
    and not line.startswith(tuple(f"{e} " for e in ELSEWHERE))
    and line not in ELSEWHERE
]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with what pages name: snapshots, checkpoints of a job, rows, plans and a log."""
    sample = sp.sample_savepoint()
    checkpoints = (f"checkpoints/{JOB}/chk-7", f"checkpoints/{JOB}/chk-8")
    for name in ("savepoints/savepoint-1", "export/savepoint-1", "build/savepoint", *checkpoints):
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
    for name in ("job.state.json", "new-job.json"):
        assert cli.main(["signature", sample, "-o", name]) == 0
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


def test_every_block_of_another_language_runs_or_has_a_reason() -> None:
    languages = {(block.page.name, block.language) for block in BLOCKS if not block.is_shell}
    run = {(page.name, "python") for page in [ROOT / "README.md", *EXAMPLES] if page.name not in NOT_RUN}
    assert {names for names in languages if names[1] not in SHOWN} - run == OF_OTHER_LANGUAGES.keys()
    reasons = " ".join([*ELSEWHERE.values(), *OF_OTHER_LANGUAGES.values()])
    assert [path for path in re.findall(r"tests/[\w/.]*\w", reasons) if not (ROOT / path).exists()] == []
