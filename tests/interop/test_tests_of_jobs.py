"""Tests of users' jobs, as docs/how-to/test-a-job.md describes them: a Java job in Flink's MiniCluster, and a job of PyFlink."""

from __future__ import annotations

from pathlib import Path

import pytest

from state_processor.testing.savepoints import write_savepoint
from tests.archives import unpacked
from tests.interop import flink
from tests.state_processor.samples import expected_values
from tests.state_processor.testing.test_plugin import ran

VERSION = "2.3.0"
TEST_OF_JAVA = """
def test_the_bonus(state_schema):
    assert_state({path!r}, "orders", "total", {{"amelia": 4950, "anders": 10}})
    assert_state({path!r}, "orders", "tags", {{"amelia": ["new", "bonus"]}})
    state_schema({path!r})
"""
TEST_OF_PYFLINK = """
def test_states(state_schema):
    assert_state({path!r}, "py-keyed", "value-string", {values!r}, python_type=sp.Types.STRING())
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


def test_the_savepoint_of_a_job_of_pyflink_is_tested(tmp_path: Path) -> None:
    """PyFlink wrote the fixture, by ``pyflink_job.py``."""
    written = unpacked() / VERSION / "pyflink-hashmap-canonical"
    values = expected_values(written, "py-keyed", "value-string")
    test = TEST_OF_PYFLINK.format(path=str(written / "savepoint"), values=values)
    assert ran(tmp_path, test, "--update-state-schema")[0] == 0
    code, output = ran(tmp_path, test)
    assert code == 0, output
