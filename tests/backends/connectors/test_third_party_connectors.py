"""Connectors that are not of this package and raise anything: the others are recognized all the same."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from state_processor import connectors
from state_processor.backends.connectors.connector import Connector, Format, Formats, Versioned
from state_processor.backends.connectors.file_sink import FILE_SINK
from state_processor.backends.connectors.registry import layouts, sinks, sources
from state_processor.backends.connectors.sink_state import ListOfBytes, SinkState, read_sink_state
from state_processor.backends.connectors.sinks import SinkConnector
from state_processor.serializers import registrations
from state_processor.serializers.errors import ForeignCodeError, OptionError
from tests.backends import state_files as files
from tests.backends.connectors.test_connector import KAFKA_SPLIT
from tests.backends.connectors.test_source_splits import rows_of, source


@pytest.fixture(autouse=True)
def _scope() -> Iterator[None]:
    with registrations():
        yield


def _key_error(*_: Any) -> Any:
    raise KeyError("shard")


def _nothing(source: Any) -> Any:
    source.read_bytes(source.remaining)


FAILURES = pytest.mark.parametrize(("read", "error"), [(_key_error, "KeyError: 'shard'"), (_nothing, "TypeError")])


def _formats(what: str, read: Callable[..., Any]) -> Formats[Any]:
    return Formats(what, {version: (Format(read, _key_error),) for version in range(4)})


@FAILURES
def test_kafka_is_recognized_beside_a_source_that_fails(
    read: Callable[..., Any], error: str, caplog: pytest.LogCaptureFixture
) -> None:
    acme = Connector("acme", (), _formats("splits of acme", read), _formats("enumerator of acme", read))
    connectors.register(acme)
    operator = source([Versioned(0, KAFKA_SPLIT)], enumerator=None)
    with caplog.at_level(logging.WARNING, "state_processor"):
        assert [row["topic"] for row in rows_of(operator)] == ["orders"]
    assert "connector 'acme' is not tried: operator 'op'" in caplog.text
    blamed = rf"operator 'op'.*splits of acme: .*\.{read.__name__} failed with {error}"
    with pytest.raises(ForeignCodeError, match=blamed) as refused:
        rows_of(operator, "acme")
    assert isinstance(refused.value.__cause__, KeyError | TypeError)
    with pytest.raises(ForeignCodeError, match=r"splits of acme: .*_key_error failed"):
        acme.splits.write({})


@FAILURES
def test_a_sink_that_fails(read: Callable[..., Any], error: str) -> None:
    formats = _formats("writers of acme", read)
    acme = SinkConnector("acme", (), formats, formats, lambda row, number: number)
    connectors.register(acme)
    writer = ListOfBytes(files.operator(), "writer_raw_states", ((0, Versioned(0, b"?")),))
    state = SinkState("operator 'op'", writer, None)
    assert [row["raw"] for row in read_sink_state(state).to_pylist()] == [b"?"]
    with pytest.raises(ForeignCodeError, match=rf"operator 'op'.*writers of acme: .* failed with {error}"):
        read_sink_state(state, "acme")
    assert sinks()["file"] is FILE_SINK


def test_registrations_end_with_their_scope() -> None:
    acme = Connector("acme", (), _formats("splits of acme", _key_error), _formats("enumerator of acme", _key_error))
    with registrations():
        connectors.register(acme)
        assert sources()["acme"] is acme
        assert "acme" in connectors.names()["sources"]
    assert "acme" not in sources()


@pytest.mark.parametrize("connector", ["acme", Connector("raw", (), _formats("", _nothing), _formats("", _nothing))])
def test_connectors_that_are_refused(connector: Any) -> None:
    with pytest.raises(OptionError, match=r"expected a SourceConnector|is reserved"):
        connectors.register(connector)


class _Failing:
    min_size = 0

    def read(self, source: Any) -> Any:
        raise RuntimeError("no")

    def write(self, content: Any, target: Any) -> None:
        raise RuntimeError("no")


def test_layouts_of_others() -> None:
    own = {"com.acme.MoneySerializer": {1: connectors.Struct.of(("cents", connectors.LONG)), 2: _Failing()}}
    acme = Connector("acme", (), _formats("", _nothing), _formats("", _nothing), layouts=own)
    connectors.register(acme)
    assert connectors.serializers()["com.acme.MoneySerializer"] == (1, 2)
    assert connectors.decode("MoneySerializer", 1, bytes(8)) == {"cents": 0}
    assert connectors.encode("com.acme.MoneySerializer", 1, {"cents": 1}) == bytes(7) + b"\1"
    assert layouts()["com.acme.MoneySerializer"] is own["com.acme.MoneySerializer"]
    with pytest.raises(
        ForeignCodeError, match=r"com\.acme\.MoneySerializer version 2: the layout of .* failed with RuntimeError: no"
    ):
        connectors.decode("MoneySerializer", 2, b"")
    with pytest.raises(ForeignCodeError, match="failed with RuntimeError: no"):
        connectors.encode("MoneySerializer", 2, {})
