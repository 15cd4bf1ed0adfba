"""Processes import only the libraries that they use: planning a read does not need Numba, and reading does not need pandas.

Tasks of a write start without both.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.options.access import SnapshotAccess
from state_processor.spark.engine import InWorker
from state_processor.write.build import SavepointBuild
from state_processor.write.plan import keyed_changes
from state_processor.write.rows.arrow_rows import ArrowRows
from state_processor.write.rows.row_columns import KeyedRows
from state_processor.write.tasks import local_engine
from state_processor.write.tasks.local_engine import LocalEngine
from state_processor.write.tasks.passes import FirstPass, RunParts, SecondPass
from tests.state_processor.samples import ORDERS_PATH

_COMPILER = {"numba", "llvmlite"}
_LINKER = {"llvmlite"}
"""Loads compiled code."""
_PANDAS = {"pandas"}
_END = """
import json, sys
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
DRIVER = """
import state_processor as sp
class Session:
    createDataFrame = None
sp.SavepointReader.read(Session(), {path!r})
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
COMPILED = """
from state_processor.serializers.kernel.interpreter import interpreter
interpreter.stop()  # as after more work than that of a small state
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


def test_only_the_process_that_decodes_many_rows_imports_the_compiler(tmp_path: Path) -> None:
    assert not _imported(PLANNER, tmp_path / "plan") & (_COMPILER | _PANDAS)
    assert not _imported(READER, tmp_path / "plan") & (_COMPILER | _PANDAS)
    found = _imported(COMPILED + READER, tmp_path / "plan")
    assert found >= _LINKER
    assert not found & _PANDAS


TASK = """
import pickle, sys
def imported():
    return {name.partition(".")[0] for name in sys.modules}
task, batches = pickle.load(sys.stdin.buffer)
before = imported()
done = list(task(batches))
sys.stdout.buffer.write(pickle.dumps((done, before, imported())))
"""


def test_tasks_of_a_write_import_what_they_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, list[set[str]]] = {}

    def run_apart(task: Any, batches: Any) -> Iterator[pa.RecordBatch]:
        name = type(task).__name__
        if isinstance(task, FirstPass):
            name += f" of {type(task.encode).__name__}"
        if name in found:  # one task of each kind has a process
            yield from calls[type(task)](task, batches)
            return
        given = pickle.dumps((InWorker(task), list(batches)))
        done = subprocess.run([sys.executable, "-c", COMPILED + TASK], input=given, capture_output=True, check=False)
        assert not done.returncode, done.stderr.decode()
        result, *found[name] = pickle.loads(done.stdout)
        yield from result

    calls = {kind: kind.__call__ for kind in (RunParts, FirstPass, SecondPass)}
    for kind in calls:
        monkeypatch.setattr(kind, "__call__", run_apart)
    monkeypatch.setattr(local_engine, "_LOCAL_THREADS", 1)
    plan = SavepointBuild.from_existing(ORDERS_PATH, None, SnapshotAccess())
    with plan.change("orders", existing=True) as draft:
        rows = ArrowRows(pa.table({"key": ["amelia"], "value": pa.array([3], pa.int64())}))
        keyed_changes.update_keyed_state(draft, "total", KeyedRows(rows))
    plan.set_parallelism("orders", 1)
    plan.write_to(tmp_path / "written", LocalEngine())
    total = pa.Table.from_batches(sp.arrow.read_state(tmp_path / "written", "orders", "total"))
    assert {"key": "amelia", "value": 3} in total.to_pylist()
    copied, written = "RunParts", "SecondPass"
    passed, encoded = (f"FirstPass of {name}" for name in ("EncodeParts", "EncodeTables"))
    assert found.keys() == {copied, passed, encoded, written}
    assert not any(before & (_COMPILER | _PANDAS) for before, _ in found.values())
    imported = {name: after & _COMPILER for name, (_, after) in found.items()}
    assert imported[copied] == set()
    assert all(imported[name] >= _LINKER for name in (passed, encoded, written))
