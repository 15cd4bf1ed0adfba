"""Writes that are killed at requests to storage: nothing partial is visible, and the same write then succeeds at once."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from state_processor.backends.write.staging import Staging
from tests.faults.children import run_killed_after, run_killed_at, run_killed_at_afresh
from tests.faults.storage import faults, no_fault
from tests.faults.truth import COMPLETE, NOTHING, REPLACED, check_complete, check_repair, check_second_write, names, visible
from tests.faults.writes import STORE_PATH, Write, digests_of_base
from tests.state_processor.samples import ORDERS_PATH
from tests.waiting import status_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(("place", "step"), [("local", 14), ("remote", 40)])
def test_a_kill_before_and_after_requests(tmp_path: Path, place: str, step: int, overwrite: bool) -> None:
    (tmp_path / "host").mkdir()
    before_kills, outcomes = digests_of_base(), Counter[str]()
    with faults(no_fault, tmp_path):
        number, killed = 1, True
        while killed:
            for done in (False, True):
                name = f"{number}-{done}"
                write, before = Write(str(tmp_path / name) if place == "local" else f"faulty://host/{name}", end=20), None
                if overwrite:
                    before, write = replace(write, first=20, end=30), replace(write, overwrite=True)
                    before.run()
                killed = run_killed_at(write, number, done, tmp_path)
                found = visible(write, before)
                assert killed or found == COMPLETE
                check_second_write(write, found)
                outcomes[found] += 1
            number += step
    assert outcomes[REPLACED if overwrite else NOTHING] >= 8
    assert outcomes[COMPLETE] > 0
    assert digests_of_base() == before_kills


@pytest.mark.parametrize("api", ["arrow", "arrow, native"])
def test_a_repair_after_kills_of_the_writer_without_spark(tmp_path: Path, api: str) -> None:
    base, run = (STORE_PATH, run_killed_at_afresh) if api == "arrow, native" else (ORDERS_PATH, run_killed_at)
    outcomes = Counter[str]()
    with faults(no_fault, tmp_path):
        number, killed = 1, True
        while killed:
            write = Write(str(tmp_path / str(number)), end=20, base=base, api=api)
            killed = run(write, number, False, tmp_path)
            found = visible(write)
            check_repair(write, found)
            outcomes[found] += 1
            number += 6
    assert outcomes[NOTHING] >= 3
    assert outcomes[COMPLETE] >= 1


@pytest.mark.parametrize("last", [("move", "claim"), ("move", "_metadata"), ("create", "claim-part"), ("remove", "claim")])
def test_a_kill_in_the_commit(tmp_path: Path, last: tuple[str, str]) -> None:
    """At each request that changes the visible state of the write."""
    asked: list[tuple[str, str]] = []
    with faults(lambda request: asked.append((request.action, request.path)) if not request.done else None, tmp_path):
        Write(str(tmp_path / "whole"), end=20).run()
    [number] = [i for i, (action, path) in enumerate(asked, 1) if action == last[0] and path.endswith(last[1])]
    for done in (False, True):
        write = Write(str(tmp_path / f"{done}"), end=20)
        assert run_killed_at(write, number, done, tmp_path)
        is_complete = last == ("remove", "claim") or (last == ("move", "_metadata") and done)
        assert visible(write) == (COMPLETE if is_complete else NOTHING)
        check_second_write(write, visible(write))


def test_a_write_that_is_killed_again_and_again(tmp_path: Path) -> None:
    """The last of many writes to one directory leaves its own files only, and no process needs help."""
    write = Write(str(tmp_path / "new"), end=20)
    for turn in range(12):
        run_killed_after(write, turn * 0.01)
        if visible(write) == COMPLETE:
            break
    again = replace(write, overwrite=True)
    again.run()
    check_complete(again)


def test_a_write_of_a_data_source_goes_on_as_long_as_spark(tmp_path: Path) -> None:
    """The process that plans it ends before."""
    write = Write(str(tmp_path / "new"), end=20)
    planner = os.fork()
    if not planner:
        write.plan()
        os._exit(0)
    assert status_of(planner) == 0
    [mark] = names(write.target)
    assert Staging(write.target, "next").sweep() == []
    assert json.loads((tmp_path / "new" / mark).read_text())["pid"] == os.getpid()
