"""Processes import what they use: those that plan a read have no need of Numba, and those that read none of pandas."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.state_processor.samples import ORDERS_PATH

_COMPILER = {"numba", "llvmlite"}
_PANDAS = {"pandas"}
_END = """
import json, sys
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
DRIVER = """
import state_processor as sp
sp.SavepointReader.read(None, {path!r})
"""
CATALOG = """
import state_processor as sp
tables = sp.arrow.operators({path!r}), sp.arrow.states({path!r}), sp.arrow.handles({path!r})
assert all(table.num_rows for table in tables)
"""
PLANNER = """
import pickle
from state_processor.spark.datasource import FlinkSavepointDataSource
source = FlinkSavepointDataSource({{"path": {path!r}, "uid": "orders", "state": "total"}})
reader = source.reader(source.schema())
pickle.dump((reader, reader.partitions()), open({plan!r}, "wb"))
"""
TABLES = """
from state_processor.spark.datasource import FlinkSavepointMetadataDataSource
source = FlinkSavepointMetadataDataSource({{"path": {path!r}, "table": "states"}})
reader = source.reader(source.schema())
(partition,) = reader.partitions()
assert sum(batch.num_rows for batch in reader.read(partition))
"""
READER = """
import pickle
reader, partitions = pickle.load(open({plan!r}, "rb"))
assert sum(batch.num_rows for partition in partitions for batch in reader.read(partition)) == 50
"""


def _imported(program: str, plan: Path) -> set[str]:
    code = program.format(path=ORDERS_PATH, plan=str(plan)) + _END
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return set(json.loads(done.stdout))


def test_opening_a_snapshot_imports_neither_the_compiler_nor_pandas(tmp_path: Path) -> None:
    assert not _imported(DRIVER, tmp_path) & (_COMPILER | _PANDAS)


@pytest.mark.parametrize("program", [CATALOG, TABLES], ids=["driver", "worker"])
def test_tables_of_metadata_do_not_import_the_compiler(program: str, tmp_path: Path) -> None:
    assert not _imported(program, tmp_path) & _COMPILER


def test_only_the_process_that_decodes_imports_the_compiler(tmp_path: Path) -> None:
    assert not _imported(PLANNER, tmp_path / "plan") & (_COMPILER | _PANDAS)
    found = _imported(READER, tmp_path / "plan")
    assert found >= _COMPILER
    assert not found & _PANDAS
