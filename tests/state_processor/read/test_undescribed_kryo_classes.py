"""Classes that Kryo wrote and nobody described: the table of states and one warning name them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.write.assembly import commit_savepoint
from state_processor.backends.write.staging import Staging
from tests.backends.operator_files import SubtaskHandles, new_operator
from tests.interop.rewriting import write_keyed

NAME = "com.acme.undescribed.Basket"
CALL = f"register_kryo_class('{NAME}', {{'field': 'java.lang.String', …}})"


def test_they_are_named_with_the_call_that_describes_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    batch = pa.RecordBatch.from_pydict({"key": pa.array([1], pa.int64()), "value": pa.array([b"\1ab"], pa.binary())})
    states = [(sp.ValueState(sp.Types.KRYO(NAME)).describe(name, sp.Types.LONG()), [batch]) for name in ("a", "b")]
    staging = Staging(str(tmp_path / "savepoint"), "baskets")
    staging.prepare()
    handles = write_keyed(staging, operator_id("baskets"), states, 1, 128)
    subtasks = {subtask: SubtaskHandles(keyed=handle) for subtask, handle in handles.items()}
    commit_savepoint(staging, [new_operator("baskets", 1, 128, subtasks)])
    types = sp.arrow.states(tmp_path / "savepoint").column("value_type").to_pylist()
    assert types == [f"KRYO<{NAME}>, undescribed: {CALL}"] * 2
    (batch,) = sp.arrow.read_state(tmp_path / "savepoint", "baskets", "a")
    assert batch.to_pylist() == [{"key": 1, "value": b"\1ab"}]
    assert sum(CALL in record.getMessage() for record in caplog.records) == 1
