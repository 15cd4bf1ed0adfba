"""Commands that look for snapshots."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import state_processor as sp
from state_processor import cli
from tests.state_processor.samples import ORDERS_PATH


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A complete savepoint, a newer one that lacks a file, and a checkpoint without ``_metadata``."""
    for seconds, name in enumerate(("one/savepoint-012345-0123456789ab", "lacking")):
        shutil.copytree(ORDERS_PATH, tmp_path / name)
        os.utime(tmp_path / name / "_metadata", (seconds + 1, seconds + 1))
    next(f for f in (tmp_path / "lacking").iterdir() if f.name != "_metadata").unlink()
    (tmp_path / "two" / "chk-7").mkdir(parents=True)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main(arguments)
    return code, *capsys.readouterr()


def test_list(capsys: pytest.CaptureFixture[str], directory: Path) -> None:
    code, out, err = run(capsys, "list", str(directory), "--json")
    assert (code, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(r["kind"], r["checkpoint_id"], r["job_id"], r["is_complete"]) for r in rows] == [
        ("savepoint", 1, None, False),
        ("savepoint", 1, "012345", True),
        ("checkpoint", 7, None, False),
    ]
    _, out, _ = run(capsys, "inspect", ORDERS_PATH, "--json")
    assert [row["is_complete"] for row in rows] == [info.is_complete for info in sp.list_snapshots(directory)]
    assert rows[0]["size_in_bytes"] == sum(json.loads(line)["operator_total_size_in_bytes"] for line in out.splitlines())
    for check, complete in (
        (("--no-check",), ["unknown", "unknown", "false"]),
        ((), ["false", "true", "false"]),
        (("--check",), ["false", "true", "false"]),
    ):
        first, _, *lines = run(capsys, "list", f"{directory}/", *check)[1].splitlines()
        assert first.split() == ["kind", "job_id", "checkpoint_id", "time", "size", "is_complete", "path"]
        assert [line.split()[-1] for line in lines] == ["lacking", "one/savepoint-012345-0123456789ab", "two/chk-7"]
        assert [line.split()[-2] for line in lines] == complete


def test_what_is_not_searched_is_reported(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, directory: Path
) -> None:
    code, out, err = run(capsys, "list", str(directory), "--depth", "1")
    assert (code, len(out.splitlines()), err) == (0, 3, "")
    assert "2 directories more than 1 level down were not searched" in caplog.text
    assert "--depth 2 searches deeper" in caplog.text
    for options in ([], ["--json"]):
        caplog.clear()
        code, out, err = run(capsys, "list", str(directory), "--depth", "0", *options)
        assert (code, out) == (cli.NO, "")
        assert "3 directories more than 0 levels down were not searched" in caplog.text
        assert f"no snapshot found in {directory}" in err
    caplog.clear()
    assert run(capsys, "list", str(directory), "--depth", "2")[2] == caplog.text == ""


def test_history_searches_down_to_a_depth(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, directory: Path
) -> None:
    found = {}
    for depth in ("0", "1", "2"):
        caplog.clear()
        code, out, _ = run(capsys, "history", str(directory), "--depth", depth, "--json")
        assert code == 0
        found[depth] = {str(Path(json.loads(line)["path"]).relative_to(directory)) for line in out.splitlines()}
        assert (f"--depth {int(depth) + 1} searches deeper" in caplog.text) == (depth != "2")
    assert found == {"0": set(), "1": {"lacking"}, "2": {"lacking", "one/savepoint-012345-0123456789ab"}}


def test_latest(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, directory: Path) -> None:
    complete = directory / "one" / "savepoint-012345-0123456789ab"
    code, out, err = run(capsys, "latest", str(directory))
    assert (code, out) == (0, f"{complete}\n")
    assert err == f"state-processor: {directory}/lacking is not complete; state-processor validate names what is missing\n"
    assert run(capsys, "latest", str(directory), "--no-check") == (0, f"{directory}/lacking\n", "")
    assert run(capsys, "latest", str(directory / "one"), "--kind", "savepoint") == (0, f"{complete}\n", "")
    code, out, err = run(capsys, "latest", str(directory), "--kind", "checkpoint")
    assert (code, out) == (cli.NO, "")
    assert "chk-7 is not complete" in err
    assert f"no complete checkpoint found in {directory}" in err
    code, out, err = run(capsys, "latest", str(directory / "one"), "--depth", "0")
    assert (code, out) == (cli.NO, "")
    assert "--depth 1 searches deeper" in caplog.text
