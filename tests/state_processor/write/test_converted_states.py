"""States of a source savepoint that are written as others, and rows that are tried without being written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.backends.state.descriptions import StateDescription
from state_processor.errors import InvalidRowError
from state_processor.read.rows import Rows
from state_processor.write.build import SavepointBuild
from state_processor.write.plan.converted_states import check_rows, write_as
from state_processor.write.tasks.local_engine import LocalEngine
from tests.state_processor.samples import ORDERS_PATH


def test_a_state_gets_another_name_and_type(tmp_path: Path) -> None:
    build = SavepointBuild.from_existing(ORDERS_PATH)
    totals = sp.arrow.read_state(ORDERS_PATH, "orders", "total").read_all()
    texts = totals.set_column(totals.schema.get_field_index("value"), "value", totals["value"].cast(pa.string()))
    with build.change("orders", existing=True) as draft:
        old = draft.keyed("total")
        new = StateDescription.of("sum", "VALUE", key=old.key, namespace=old.namespace, value=sp.Types.STRING())
        write_as(draft, old, new, Rows(texts.schema, lambda: iter(texts.to_batches())))
    build.write_to(tmp_path / "new", LocalEngine(None, None))
    written = sp.arrow.read_state(tmp_path / "new", "orders", "sum").read_all()
    assert dict(zip(*written.to_pydict().values(), strict=True)) == dict(zip(*texts.to_pydict().values(), strict=True))
    assert "total" not in sp.arrow.states(tmp_path / "new")["state_name"].to_pylist()


@pytest.mark.parametrize(("values", "fits"), [([1, 2], True), ([1, 1 << 40], False)])
def test_rows_are_tried_without_a_savepoint(values: list[int], fits: bool) -> None:
    draft = SavepointBuild.from_existing(ORDERS_PATH).existing("orders")
    old = draft.keyed("total")
    state = StateDescription.of("total", "VALUE", key=old.key, namespace=old.namespace, value=sp.Types.INT())
    rows = pa.RecordBatch.from_pydict({"key": pa.array(["amelia", "aoife"]), "value": pa.array(values, pa.int64())})
    if fits:
        check_rows(state, rows, 2)
        return
    with pytest.raises(InvalidRowError):
        check_rows(state, rows, 2)
