"""The steps of pipelines in docs/how-to/pipelines.md: they run as shown, on snapshots of real Flink, which then restores them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

import state_processor as sp
from tests.interop import flink

pytestmark = pytest.mark.interop

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "pipelines.md").read_text("utf-8")
VERSION = "2.3.0"
TOTAL = {"name": "total", "kind": "VALUE", "key_type": "STRING", "value_type": "LONG", "ttl": False}
ORDERS = [
    {"uid": "orders", "key_type": "STRING", "states": [{**TOTAL, "entries": [{"key": k, "value": len(k)} for k in ("ä", "bc")]}]}
]


def yaml_blocks() -> list[Any]:
    return [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]


def steps(name: str) -> tuple[str, Mapping[str, str], str]:
    """The commands of a pipeline, its variables, and the shell that runs them."""
    github, gitlab, *_ = yaml_blocks()
    if name == "github":
        return "\n".join(step["run"] for step in github["jobs"]["check"]["steps"] if "run" in step), github["env"], "bash"
    if name == "gitlab":
        return "\n".join([*gitlab["state"]["before_script"], *gitlab["state"]["script"]]), gitlab["state"]["variables"], "bash"
    script = re.search(r"^```sh\n(set -eu\n.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert script
    (container,) = yaml_blocks()[2]["spec"]["jobManager"]["podTemplate"]["spec"]["initContainers"]
    return script[1], {variable["name"]: variable["value"] for variable in container["env"]}, container["command"][0]


def ran(name: str, where: Path, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the commands of a pipeline. pip is a program that does nothing, since the package is installed."""
    commands, needed, shell = steps(name)
    assert needed.keys() <= variables.keys()
    programs = where / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "pip").write_text("#!/bin/sh\n", "utf-8")
    (programs / "pip").chmod(0o755)
    path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"]))
    return subprocess.run(
        [shell, "-e", "-c", commands],
        cwd=where,
        env={**os.environ, "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def kubernetes(where: Path, status: Mapping[str, str]) -> None:
    """A program kubectl that knows one deployment: it prints the fields of its status, as jsonpath does."""
    programs = where / "programs"
    programs.mkdir(exist_ok=True)
    fields = "\n".join(f"'jsonpath={{.status.jobStatus.{name}}}') printf %s '{value}';;" for name, value in status.items())
    text = f'#!/bin/sh\n[ "$1 $2 $3 $4" = "get flinkdeployment orders -o" ] || exit 1\ncase "$5" in\n{fields}\nesac\n'
    (programs / "kubectl").write_text(text, "utf-8")
    (programs / "kubectl").chmod(0o755)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint of a job that counts, alone in its directory."""
    directory = tmp_path_factory.mktemp("snapshots")
    asked = flink.request(ORDERS, backend="rocksdb", filled=True, snapshots=["canonical"], snapshots_to=directory)
    (answer,) = flink.restore(VERSION, [asked])
    assert "error" not in answer, answer["error"][:2000]
    return Path(answer["snapshots"]["canonical"])


def described(checkpoint: Path, where: Path, value_type: str) -> None:
    """Write the golden file of a job whose state has another type."""
    signature = json.loads(str(sp.signature(checkpoint)))
    (state,) = (state for operator in signature["operators"] for state in operator["states"] if state["name"] == "total")
    state["value_type"] = value_type
    (where / "job.state.json").write_text(json.dumps(signature, indent=2), "utf-8")


@pytest.mark.parametrize("name", ["github", "gitlab", "operator"])
@pytest.mark.parametrize(("value_type", "code"), [("LONG", 0), ("STRING", 1)])
def test_a_pipeline_stops_what_flink_refuses(name: str, value_type: str, code: int, checkpoint: Path, tmp_path: Path) -> None:
    described(checkpoint, tmp_path, value_type)
    kubernetes(tmp_path, {"upgradeSavepointPath": str(checkpoint)})
    done = ran(name, tmp_path, {"CHECKPOINTS": str(checkpoint.parent), "JOB": "orders"})
    assert done.returncode == code, done.stderr
    if name != "operator":
        problems = [case.tag for case in ElementTree.parse(tmp_path / "state.xml").iterfind(".//testcase/*")]
        assert problems == ["failure"] * code
    new = [{**ORDERS[0], "states": [{**TOTAL, "value_type": value_type}]}]
    (answer,) = flink.restore(VERSION, [flink.request(new, checkpoint, backend="rocksdb")])
    assert ("error" in answer) == bool(code)
    assert code or flink.entries(answer["operators"]) == flink.entries(ORDERS)


@pytest.mark.parametrize("name", ["github", "gitlab"])
def test_a_directory_without_a_snapshot_stops_a_pipeline(name: str, checkpoint: Path, tmp_path: Path) -> None:
    described(checkpoint, tmp_path, "LONG")
    (tmp_path / "empty").mkdir()
    assert ran(name, tmp_path, {"CHECKPOINTS": str(tmp_path / "empty")}).returncode
    assert not (tmp_path / "state.xml").exists()


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        ({}, 0, "orders has no savepoint"),
        ({"savepointInfo.lastSavepoint.location": "{savepoint}"}, 1, "is refused"),
        ({"upgradeSavepointPath": "KUBERNETES_OPERATOR_LAST_STATE"}, 1, "is refused"),
        ({"upgradeSavepointPath": "/does/not/exist"}, 1, "/does/not/exist can't be read"),
    ],
)
def test_the_savepoint_of_an_upgrade(status: dict[str, str], code: int, text: str, checkpoint: Path, tmp_path: Path) -> None:
    described(checkpoint, tmp_path, "STRING")
    kubernetes(tmp_path, {name: value.format(savepoint=checkpoint) for name, value in status.items()})
    done = ran("operator", tmp_path, {"CHECKPOINTS": str(checkpoint.parent), "JOB": "orders"})
    assert (done.returncode, text in done.stdout) == (code, True)
