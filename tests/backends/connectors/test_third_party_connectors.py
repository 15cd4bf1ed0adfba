"""Connectors that are not of this package and raise anything: the others are recognized all the same."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from state_processor import connectors
from state_processor.backends.connectors.connector import (
    Connector,
    Consumer,
    EnumeratorState,
    Format,
    Formats,
    SinkConnector,
    Versioned,
    Wrapping,
)
from state_processor.backends.connectors.flink import FILE_SINK
from state_processor.backends.connectors.registry import layouts, sinks, sources
from state_processor.backends.connectors.sink_state import ListOfBytes, SinkState, read_sink_state
from state_processor.backends.connectors.source_splits import source_state, written_source
from state_processor.serializers import DataInput, registrations
from state_processor.serializers.core.basic import NumberSerializer
from state_processor.support.errors import ForeignCodeError, InvalidRowError, OptionError, StateProcessorError
from tests.backends import state_files as files
from tests.backends.connectors.source_operators import list_state, rows_of, source
from tests.backends.connectors.test_connector import KAFKA_SPLIT


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


def _number(element: Any) -> dict[str, Any]:
    return {"split_id": f"box {element}", "mail": element}


def test_the_consumer_of_a_connector_of_others() -> None:
    column = (pa.field("mail", pa.int64()),)
    formats = _formats("splits of acme", _nothing)
    operator = files.operator(list_state("mails", NumberSerializer("LONG"), [7, 8], mode=1))
    connectors.register(Connector("acme", column, formats, formats, consumer=Consumer("AcmeConsumer", "mails", _number)))
    rows = rows_of(operator)
    assert rows == rows_of(operator, "acme-consumer")
    assert [(row["split_id"], row["mail"]) for row in rows] == [("box 7", 7), ("box 8", 8)]
    connectors.register(Connector("acme", column, formats, formats, consumer=Consumer("AcmeConsumer", "mails", _key_error)))
    with pytest.raises(ForeignCodeError, match=r"state 'mails'.*_key_error failed with KeyError"):
        rows_of(operator)


def test_wrapped_splits_of_a_connector_of_others() -> None:
    def shout(state: Any, rows: Any) -> Any:
        return [row | {"loud": row["word"].upper()} for row in rows], (pa.field("loud", pa.string()),)

    def whisper(rows: Any, base: Any) -> Any:
        return [(number, {n: v for n, v in row.items() if n != "loud"} | {"word": row["loud"].lower()}) for number, row in rows]

    word = connectors.Struct.of(("word", connectors.UTF))
    format_ = Format(lambda source: word.read(source) | {"split_id": "w"}, word.write)
    splits = Formats("splits of acme", {0: (format_,)})
    fields = (pa.field("word", pa.string()),)
    enumerator = _formats("enumerator of acme", _nothing)
    acme = Connector("acme", fields, splits, enumerator, wrapping=Wrapping(shout, whisper))
    connectors.register(acme)
    operator = source([Versioned(0, b"\0\2hi")], enumerator=None)
    rows = rows_of(operator, "acme")
    assert [(row["word"], row["loud"]) for row in rows] == [("hi", "HI")]
    changed = [rows[0] | {"loud": "HO"}]
    state = source_state(files.snapshot(operator), operator)
    assert [Versioned.read(DataInput(e)).data for e in written_source(changed, state, "acme").elements] == [b"\0\2ho"]
    for name in ("read", "write"):
        failing = replace(Wrapping(shout, whisper), **{name: _key_error})
        connectors.register(Connector("acme", fields, splits, enumerator, wrapping=failing))
        with pytest.raises(ForeignCodeError, match="_key_error failed with KeyError"):
            written_source(rows_of(operator, "acme"), state, "acme")


@pytest.mark.parametrize("name", ["consumer", "wrapping"])
def test_other_parts_of_connectors_are_refused(name: str) -> None:
    formats = _formats("splits of acme", _nothing)
    with pytest.raises(OptionError, match=rf"connector 'acme': {name} is 'mails'; expected a {name.title()}"):
        connectors.register(Connector("acme", (), formats, formats, **{name: "mails"}))  # type: ignore[arg-type]


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
    assert layouts().by_class["com.acme.MoneySerializer"] == own["com.acme.MoneySerializer"]
    with pytest.raises(
        ForeignCodeError, match=r"com\.acme\.MoneySerializer version 2: the layout of .* failed with RuntimeError: no"
    ):
        connectors.decode("MoneySerializer", 2, b"")
    with pytest.raises(ForeignCodeError, match="failed with RuntimeError: no"):
        connectors.encode("MoneySerializer", 2, {})


OLD = connectors.Struct.of(("queue", connectors.TEXT))
NEW = connectors.Struct.of(("queue", connectors.TEXT), ("paused", connectors.BOOL))


def _tide(**changes: Any) -> Connector:
    """A source whose enumerator keeps no splits. Its splits of version 1 lack a column."""

    def of(codec: Any) -> Format[Any]:
        def read(source: Any) -> dict[str, Any]:
            content = codec.read(source)
            return {"split_id": content["queue"], "paused": False} | content

        return Format(read, codec.write)

    def write_enumerator(state: Any, target: Any) -> None:
        target.write_long(state.details["last"])

    found = {
        "name": "tide",
        "fields": (pa.field("queue", pa.string()), pa.field("paused", pa.bool_())),
        "splits": Formats("splits of tide", {1: (of(OLD),), 2: (of(NEW),)}),
        "enumerator": Formats(
            "enumerator of tide",
            {
                1: (Format(lambda source: EnumeratorState((), {"last": source.read_long()}), write_enumerator),),
                2: (Format(lambda source: EnumeratorState(()), lambda state, target: None),),
            },
        ),
        "required": ("queue",),
        "complete": lambda row: {**row, "split_id": row["queue"]},
    }
    return Connector(**(found | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fields": (1,)}, r"connector 'tide': fields has 1; expected pyarrow\.Field"),
        (
            {"required": ("topic",)},
            "the required column 'topic' is not among its fields paused, queue, split_id",
        ),
        (
            {"splits": Formats("splits", {1: Format(print, print)})},
            "'tide', splits, version 1: expected a tuple of Format",
        ),
        ({"layouts": {"a.B": OLD}}, r"connector 'tide': layouts\['a\.B'\] is a Struct; expected codecs by version"),
    ],
)
def test_descriptions_that_would_fail_later(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        connectors.register(_tide(**changes))


def test_what_a_description_does_not_keep_is_not_lost_silently() -> None:
    connectors.register(_tide())
    row = {"subtask": 0, "queue": "a", "paused": True}
    assert written_source([row], None, "tide").elements == [Versioned(2, b"\0\0\0\1a\1").to_bytes()]
    with pytest.raises(InvalidRowError, match="'paused' is True, version 1 of the splits of tide has False; set 'version'"):
        written_source([row | {"version": 1}], None, "tide")
    assert written_source([row | {"version": 1, "paused": False}], None, "tide").elements == [
        Versioned(1, b"\0\0\0\1a").to_bytes()
    ]
    with pytest.raises(InvalidRowError, match="split 'a' has no 'subtask', and the enumerator of 'tide' does not keep splits"):
        written_source([row | {"subtask": None}], None, "tide")
    with pytest.raises(InvalidRowError, match=r"split 'a', raw, .*: the bytes in 'raw' are of another version; set 'raw'"):
        written_source([row | {"version": 2, "raw": b"\0\0\0\1a"}], None, "tide")


def test_a_column_that_no_version_has_is_not_lost_silently() -> None:
    fields = (*_tide().fields, pa.field("note", pa.string()))
    connectors.register(_tide(fields=fields))
    row = {"subtask": 0, "queue": "a", "paused": True}
    assert written_source([row | {"note": None}], None, "tide").elements == [Versioned(2, b"\0\0\0\1a\1").to_bytes()]
    with pytest.raises(InvalidRowError, match="'note' is 'x', version 2 of the splits of tide has None"):
        written_source([row | {"note": "x"}], None, "tide")


def test_an_error_about_the_enumerator_blames_no_split() -> None:
    def refuse(state: Any, target: Any) -> None:
        raise ValueError("the time of the last discovery is missing")

    enumerator = Formats("enumerator", {1: (Format(lambda source: EnumeratorState(()), refuse),)})
    connectors.register(_tide(enumerator=enumerator))
    with pytest.raises(StateProcessorError, match=r"the time of the last discovery is missing") as refused:
        written_source([{"subtask": 0, "queue": "a", "paused": True}], None, "tide")
    assert "split 'a'" not in str(refused.value)
