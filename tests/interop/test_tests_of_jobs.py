"""Tests of users' jobs, as docs/how-to/test-a-job.md describes them: a Java job in Flink's MiniCluster, and a job of PyFlink."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from state_processor.applications.testing import write_savepoint
from tests.interop import flink, pyflink_environment
from tests.state_processor.testing.test_plugin import ran

VERSION = "2.3.0"
TEST_OF_JAVA = """
def test_the_bonus(state_schema):
    assert_state({path!r}, "orders", "total", {{"amelia": 4950, "anders": 10}})
    assert_state({path!r}, "orders", "tags", {{"amelia": ["new", "bonus"]}})
    state_schema({path!r})
"""
TEST_OF_PYFLINK = """
def test_counts(state_schema):
    assert_state({path!r}, "counts", "total", {{"amelia": 3, "anders": 5}}, python_type=sp.Types.LONG())
    history = {{"amelia": [1, 2], "anders": [5]}}
    assert_state({path!r}, "counts", "history", history, python_type=sp.ListState(sp.Types.LONG()))
    state_schema({path!r})
"""


@pytest.mark.interop
def test_a_java_job_starts_from_a_savepoint_of_a_test_and_is_tested(tmp_path: Path) -> None:
    start = {"orders": {"total": {"amelia": 3950, "anders": 10}, "tags": {"amelia": ["new"]}}}
    write_savepoint(str(tmp_path / "start"), start, {}, {}, 128, "2.3")
    common = {"key_type": "STRING", "ttl": False, "entries": []}
    states = [
        {**common, "name": "total", "kind": "VALUE", "value_type": "LONG"},
        {**common, "name": "tags", "kind": "LIST", "value_type": "STRING"},
    ]
    job = [{"uid": "orders", "key_type": "STRING", "states": states}]
    bonus = [
        {"operator": "orders", "state": "total", "key": "amelia", "value": 4950},
        {"operator": "orders", "state": "tags", "key": "amelia", "value": "bonus"},
    ]
    (answer,) = flink.restore(VERSION, [flink.request(job, tmp_path / "start", steps=bonus, savepoint_to=tmp_path)])
    assert "error" not in answer, answer["error"][:2000]
    test = TEST_OF_JAVA.format(path=answer["savepoint"])
    assert ran(tmp_path, test, "--update-state-schema")[0] == 0
    code, output = ran(tmp_path, test)
    assert code == 0, output
    code, output = ran(tmp_path, test.replace("4950", "4951"))
    assert code == 1
    assert "'amelia': expected 4951, found 4950" in output


@pytest.mark.interop
@pytest.mark.skipif(sys.version_info[:2] > pyflink_environment.NEWEST_PYTHON, reason="PyFlink does not support this Python")
def test_a_job_of_pyflink_is_tested(tmp_path: Path) -> None:
    savepoint = pyflink_environment.run(Path(__file__).with_name("pyflink_tested_job.py"), tmp_path).removeprefix("file:")
    test = TEST_OF_PYFLINK.format(path=savepoint)
    assert ran(tmp_path, test, "--update-state-schema")[0] == 0
    code, output = ran(tmp_path, test)
    assert code == 0, output
    code, output = ran(tmp_path, test.replace("[1, 2]", "[2, 1]"))
    assert code == 1
    assert "'amelia': expected [2, 1], found [1, 2]" in output
