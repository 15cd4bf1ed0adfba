"""Headers of operator state, which many subtasks have in common; ``test_source`` has the same for keyed state."""

from __future__ import annotations

import pytest

from state_processor.backends.state.header_cache import read_header
from state_processor.backends.state.state_headers import OperatorHeader
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.unread import UnreadSnapshot
from state_processor.serializers.errors import StateProcessorError
from tests.backends.state_files import broadcast, operator_header, operator_list


def test_the_same_bytes_are_parsed_once() -> None:
    data = operator_header([operator_list("numbers", NumberSerializer("LONG"))])
    first = read_header(OperatorHeader.read, data, "subtask 0", 2)
    assert read_header(OperatorHeader.read, memoryview(bytearray(data)), "subtask 1", 2) is first
    assert read_header(OperatorHeader.read, data, "subtask 0", 1) is not first
    of_texts = operator_header([operator_list("numbers", StringSerializer())])
    other = read_header(OperatorHeader.read, of_texts, "subtask 0", 2)
    assert [str(header.lists[0].restore("VALUE_SERIALIZER")) for header in (first, other)] == ["LONG", "STRING"]


def test_messages_name_the_file_that_they_are_about() -> None:
    data = operator_header([], [broadcast("rules", StringSerializer(), NumberSerializer("LONG"))])
    unread = data.replace(b"LongSerializerSnapshot", b"LungSerializerSnapshot")
    assert unread != data
    for where in ("subtask 0", "subtask 1"):
        (state,) = read_header(OperatorHeader.read, unread, where, 2).broadcasts
        found = [s for s in state.serializers.values() if isinstance(s, UnreadSnapshot)]
        assert [where in s.reason for s in found] == [True]
        with pytest.raises(StateProcessorError, match=where):
            read_header(OperatorHeader.read, data[:-3], where, 2)
