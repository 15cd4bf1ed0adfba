"""States of Flink's own operators: a trace is about them if it has their classes."""

from __future__ import annotations

from state_processor.applications.explain.confirming import by_owner, is_of_other_owner
from state_processor.applications.jobs.signature import OperatorSignature, StateSignature

_STREAMING = "org.apache.flink.streaming.api.operators"


def test_a_state_belongs_to_the_class_that_registers_it() -> None:
    operator = OperatorSignature(uid="a")
    own, reader, queue = (
        (operator, StateSignature(name, "OPERATOR_LIST")) for name in ("mine", "SourceReaderState", "_async_wait_operator_state_")
    )
    states = [own, reader, queue]
    assert by_owner(states, [f"{_STREAMING}.SourceOperator.initializeState"]) == [reader]
    assert by_owner(states, [f"{_STREAMING}.async.AsyncWaitOperator.initializeState"]) == [queue]
    assert by_owner(states, ["com.acme.Fn.initializeState"]) == [own]
    assert by_owner(states, []) == states
    assert by_owner([reader, queue], ["com.acme.Fn.initializeState"]) == [reader, queue]
    assert is_of_other_owner(reader[1], ["com.acme.Fn.initializeState"])
    assert not is_of_other_owner(reader[1], [])
    assert not is_of_other_owner(own[1], ["com.acme.Fn.initializeState"])
