"""What wrote state that is only bytes: connectors with the versions of their formats, and what no connector fits."""

from __future__ import annotations

import pytest

from state_processor.backends.connectors.sink_state import COMMITTER_STATE
from state_processor.backends.connectors.source_splits import READER_STATE
from state_processor.backends.connectors.writers import states_of_connectors, writers_of_bytes
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.stored_operator import find_operator, state_variants
from state_processor.serializers.core.arrays import BytesSerializer
from tests import corpus
from tests.backends import state_files as files
from tests.backends.connectors.source_operators import list_state


@pytest.mark.parametrize(("uid", "writer"), [("rolling", "sink file ()"), ("open", "sink file (writer 3)")])
def test_sinks_that_flink_wrote(uid: str, writer: str) -> None:
    """The writers of ``rolling`` have no files in progress, so that no bytes have a version."""
    snapshot = open_snapshot(str(corpus.FIXTURES / "sinks" / "2.3.0"))
    operator = find_operator(snapshot, uid)
    assert list(writers_of_bytes(snapshot, operator, state_variants(snapshot, operator))) == [writer]


def test_bytes_that_fit_no_connector() -> None:
    operator = files.operator(list_state(READER_STATE, BytesSerializer(), [b"\0\0\0\1\0\0\0\1x"]))
    assert list(writers_of_bytes(files.snapshot(operator), operator, [READER_STATE])) == ["source unknown"]


def test_states_without_connectors_have_no_writers() -> None:
    operator = files.operator(list_state("numbers", BytesSerializer(), [b"x"]))
    assert list(writers_of_bytes(files.snapshot(operator), operator, ["numbers"])) == []


def test_names_of_lists() -> None:
    assert {READER_STATE, COMMITTER_STATE, "writer_raw_states"} <= states_of_connectors()
