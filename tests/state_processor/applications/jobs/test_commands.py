"""Tests of the commands ``check-query`` and ``migrate-query``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import state_processor as sp
from state_processor import cli
from tests.archives import unpacked


def said(capsys: pytest.CaptureFixture[str], old: str, new: str, *more: str) -> tuple[int, list[str]]:
    directory = unpacked("sql") / "2.3.0"
    plans = [str(directory / name / "plan.json") for name in (old, new)]
    code = cli.main(["check-query", str(directory / old / "savepoint"), *plans, *more])
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, captured.out.splitlines()


def test_what_is_kept_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = said(capsys, "group-aggregate", "retracting")
    assert code == 0
    assert lines[0] == "for the new query: 3 unchanged, 1 converted, 1 new, 0 left out, 0 impossible"
    code, lines = said(capsys, "group-aggregate", "retracting", "--json")
    found = {(row["uid"].partition("_")[2], row["state"], row["outcome"]) for row in map(json.loads, lines)}
    assert code == 0
    assert ("group-aggregate", "accState", "converted") in found


def test_state_that_cannot_be_kept_is_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = said(capsys, "inner-join", "left-join")
    assert code == 1
    (refused,) = (line for line in lines if "impossible: " in line)
    assert "_join (all states): impossible: the type of join[" in refused
    code, lines = said(capsys, "inner-join", "left-join", "--drop", "join")
    assert code == 0
    assert any("_join (all states): left out: named by drop" in line for line in lines)


def test_a_query_is_migrated_by_a_command(tmp_path: Path) -> None:
    directory = unpacked("sql") / "2.3.0"
    source, *plans = (str(directory / name) for name in ("inner-join/savepoint", "inner-join/plan.json", "left-join/plan.json"))
    assert cli.main(["migrate-query", source, str(tmp_path / "1"), *plans]) == 2
    assert cli.main(["migrate-query", source, str(tmp_path / "1"), *plans, "--drop", "join"]) == 0
    names = sp.arrow.states(tmp_path / "1")["state_name"].to_pylist()
    assert "left-records" in sp.arrow.states(source)["state_name"].to_pylist()
    assert "left-records" not in names
