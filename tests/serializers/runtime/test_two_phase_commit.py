"""The state of two-phase commit sinks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import read_serializer_snapshot
from state_processor.serializers.compatibility import Verdict
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.runtime.two_phase_commit import (
    OLD_TWO_PHASE_COMMIT_SNAPSHOT,
    Transaction,
    TwoPhaseCommitState,
    TwoPhaseCommitStateSerializer,
)
from tests.serializers.harness import Specimen, check_codec, specimens

INT, LONG, STRING = NumberSerializer("INT"), NumberSerializer("LONG"), StringSerializer()
longs, texts = st.integers(-(2**63), 2**63 - 1), st.text(max_size=5)
times = st.integers(-62_135_596_800_000, 253_402_300_799_999)
transactions = st.builds(Transaction, longs, times)


@pytest.mark.parametrize("nullable", [True, False])
@given(data=st.data())
def test_two_phase_commit(nullable: bool, data: st.DataObject) -> None:
    pending = st.builds(Transaction, st.none() | longs if nullable else longs, times)
    values = st.builds(TwoPhaseCommitState, pending, st.lists(transactions, max_size=3), st.none() | texts)
    serializer = TwoPhaseCommitStateSerializer(LONG, STRING, supports_null_transaction=nullable)
    check_codec(serializer, data.draw(st.lists(values, max_size=3)))


def test_two_phase_commit_compatibility() -> None:
    with_null, without = (
        TwoPhaseCommitStateSerializer(LONG, STRING, supports_null_transaction=b).snapshot() for b in (True, False)
    )
    assert with_null.resolve_schema_compatibility(with_null).verdict is Verdict.COMPATIBLE_AS_IS
    assert without.resolve_schema_compatibility(with_null).verdict is Verdict.COMPATIBLE_AFTER_MIGRATION


@pytest.mark.corpus(instead="tests/serializers/runtime/test_runtime_specimens.py::test_specimen")
@pytest.mark.parametrize("specimen", specimens("flink-streaming-java", "two-phase-*-1.1[13]"), ids=str)
def test_old_specimens_of_two_phase_commit_know_no_null(specimen: Specimen) -> None:
    serializer = read_serializer_snapshot(specimen.snapshot).restore_serializer()
    assert isinstance(serializer, TwoPhaseCommitStateSerializer)
    assert not serializer.supports_null_transaction
    assert serializer.snapshot_class == OLD_TWO_PHASE_COMMIT_SNAPSHOT
