"""How often files are read while a read is planned: each time is a request to an object store."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from state_processor.backends.files import storage
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.catalog import states
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator, find_operator
from tests.corpus import FIXTURES

SAVEPOINT = FIXTURES / "2.3.0" / "orders-rocksdb-canonical" / "savepoint"


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Numbers of reads by file name."""
    counted: Counter[str] = Counter()

    class Watched(storage.OpenLocalFile):
        def __init__(self, path: str) -> None:
            super().__init__(path)
            self._name = Path(path).name

        def read(self, offset: int, length: int) -> memoryview:
            counted[self._name] += 1
            return super().read(offset, length)

    monkeypatch.setattr(storage, "OpenLocalFile", Watched)
    return counted


def test_a_plan_reads_each_header_once(requests: Counter[str]) -> None:
    snapshot = open_snapshot(SAVEPOINT)
    operator = find_operator(snapshot, "orders")
    assert requests == {"_metadata": 1}
    requests.clear()
    assert len(list(open_state(StoredOperator(snapshot, operator), "total").splits())) == len(requests) == len(operator.subtasks)
    assert set(requests.values()) == {1}


def test_the_table_of_states_reads_each_header_once(requests: Counter[str]) -> None:
    snapshot = open_snapshot(SAVEPOINT)
    table = states(snapshot)
    assert table.num_rows > len(snapshot.metadata.operators)
    assert set(requests.values()) == {1}
