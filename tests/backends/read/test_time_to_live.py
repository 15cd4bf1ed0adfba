"""Values with time-to-live: times of the last access, and expiry."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.support.errors import (
    OptionError,
)
from tests.backends.keyed_files import FORMATS, listed, mapped, one, void
from tests.backends.state_files import (
    LONG,
    STRING,
    columns,
    keyed,
    long,
    read_rows,
    string,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ttl_of(form: str, kind: str, values: Sequence[tuple[int, str]]) -> Any:
    wrapped = [long(ms) + string(v) for ms, v in values]
    if kind == "LIST":
        return [void(long(1), listed(form, *wrapped))]
    if kind == "MAP":
        return mapped(form, long(1), b"\0", [(string(v), w) for (_, v), w in zip(values, wrapped, strict=True)])
    return [void(long(i), w) for i, w in enumerate(wrapped)]


TTL = TtlSerializer.of(STRING)
TTL_STATES = {
    "VALUE": keyed("t", TTL),
    "LIST": keyed("t", ListSerializer(TTL), "LIST"),
    "MAP": keyed("t", MapSerializer(STRING, TTL), "MAP"),
}
TIMES = [(1000, "old"), (2000, "edge"), (2001, "new")]


def ttl_operator(form: str, kind: str) -> OperatorState:
    return one(form, LONG, [TTL_STATES[kind]], {1: {0: ttl_of(form, kind, TIMES)}})


@FORMATS
@pytest.mark.parametrize(("kind", "column"), [("VALUE", "value"), ("LIST", "list_value"), ("MAP", "map_value")])
def test_ttl_flattened(form: str, kind: str, column: str) -> None:
    found = ttl_operator(form, kind)
    assert "_last_access" not in columns(found, "t")
    assert [r[column] for r in read_rows(found, "t")] == ["old", "edge", "new"]
    with_times = [(r[column], r["_last_access"]) for r in read_rows(found, "t", metadata=True)]
    assert with_times == [(v, EPOCH + timedelta(milliseconds=ms)) for ms, v in TIMES]
    for metadata in (False, True):  # at 3000, values with the last access at 2000 are 1000 milliseconds old
        assert [r[column] for r in read_rows(found, "t", ttl=1000, as_of=3000, metadata=metadata)] == ["new"]
    assert len(read_rows(found, "t", ttl=1000, as_of=2999)) == 2


@FORMATS
@pytest.mark.parametrize("kind", ["LIST", "MAP"])
def test_ttl_nested(form: str, kind: str) -> None:
    found = ttl_operator(form, kind)
    shown = [(v, v) if kind == "MAP" else v for _, v in TIMES]
    times = [EPOCH + timedelta(milliseconds=ms) for ms, _ in TIMES]
    assert read_rows(found, "t", flatten=False) == [{"key": 1, "value": shown}]
    assert columns(found, "t", flatten=False, metadata=True)["_last_access"].startswith("list<")
    (row,) = read_rows(found, "t", flatten=False, metadata=True)
    assert (row["value"], row["_last_access"]) == (shown, times)
    (row,) = read_rows(found, "t", flatten=False, metadata=True, ttl=1000, as_of=2500)
    assert (row["value"], row["_last_access"]) == (shown[1:], times[1:])
    assert read_rows(found, "t", flatten=False, ttl=1000, as_of=9000) == []
    assert read_rows(found, ttl=1000, as_of=3000) == [{"key": 1, "t": shown[2:]}]
    (row,) = read_rows(found, "t", flatten=False, metadata=True, ttl=1000, as_of=2500, expired="only")
    assert (row["value"], row["_last_access"]) == (shown[:1], times[:1])
    assert read_rows(found, "t", flatten=False, ttl=1000, as_of=1500, expired="only") == []
    assert len(read_rows(found, "t", flatten=False, ttl=1000, as_of=9000, expired="include")) == 1


@FORMATS
def test_only_expired_values(form: str) -> None:
    aged = TtlSerializer.of(LONG)
    entries = {1: {0: [void(long(k), aged.serialize((1000 * k, k))) for k in (1, 2, 3)], 1: [void(long(1), long(7))]}}
    found = one(form, LONG, [keyed("t", aged), keyed("v", LONG)], entries)
    asked = {"ttl": 1000, "as_of": 3500}
    assert [r["key"] for r in read_rows(found, "t", **asked)] == [3]
    assert [r["key"] for r in read_rows(found, "t", expired="only", **asked)] == [1, 2]
    assert [r["key"] for r in read_rows(found, "t", expired="include", **asked)] == [1, 2, 3]
    assert read_rows(found, "v", expired="only", **asked) == []
    assert [r["key"] for r in read_rows(found, expired="only", **asked)] == [1, 2]
    with pytest.raises(OptionError, match="needs ttl and as_of"):
        read_rows(found, "t", expired="only")
