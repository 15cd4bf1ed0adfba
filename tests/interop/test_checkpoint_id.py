"""Real Flink restores a savepoint with another number of a checkpoint, and gives the next number to its next snapshot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import state_processor as sp
from state_processor.backends.metadata.snapshot import open_snapshot
from tests.interop import flink
from tests.state_processor.samples import FIXTURES

pytestmark = pytest.mark.interop

LAST = 2**63 - 4


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_flink_goes_on_with_the_next_number(version: str, tmp_path: Path) -> None:
    fixtures = FIXTURES / version
    native = next(fixtures.glob("orders-rocksdb-incremental/**/_metadata")).parent
    operators = json.loads((fixtures / "orders-rocksdb-incremental" / "expected.json").read_text("utf-8"))["operators"]
    requests = []
    for number, format in ((500, "canonical"), (2, "native"), (LAST, "native")):
        target = tmp_path / f"{format}-{number}"
        writer = sp.arrow.SavepointWriter.from_existing(native)
        more = {"format": "native", "backend": "rocksdb"} if format == "native" else {}
        writer.write(target, checkpoint_id=number, allow_lower_checkpoint_id=True, **more)  # type: ignore[arg-type]
        after = {"savepoint_to": tmp_path / f"after-{number}", "format": "native"}
        requests.append(flink.request(operators, target, backend="rocksdb", **after))  # type: ignore[arg-type]
    answers = flink.restore(version, requests)
    assert [answer.get("error") for answer in answers] == [None] * 3
    found = [open_snapshot(answer["savepoint"]).metadata.checkpoint_id for answer in answers]
    assert found == [501, 3, LAST + 1]
