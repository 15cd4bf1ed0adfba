from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from state_processor.errors import OptionError
from state_processor.options.keywords import check_arguments
from state_processor.options.table import KEYWORD_OPTIONS, READING, TEXT_OPTIONS
from state_processor.options.text import parse_options
from state_processor.types.flink_types import Types
from state_processor.types.state_specs import ListState, MapState, ValueState

ROW = Types.ROW_NAMED(["name", "n"], [Types.STRING(), Types.LONG()])

SAME: list[tuple[str, Any, str]] = [
    ("flatten", False, "False"),
    ("metadata", np.True_, "true"),
    ("columns", ["key", "value.id"], "key, value.id"),
    ("columns", ("a,b",), '["a,b"]'),
    ("keys", ["a", 1], '["a", 1]'),
    ("nanos", "Truncate", "truncate"),
    ("row_kind", True, "TRUE"),
    ("ttl", timedelta(hours=1), "PT1H"),
    ("ttl", "PT1H", "1h"),
    ("ttl", timedelta(days=7), "7 days"),
    ("as_of", datetime(2024, 1, 31, 12, tzinfo=UTC), "2024-01-31T12:00:00Z"),
    ("as_of", 1_706_702_400_000, "1706702400000"),
    ("types", {"value.a": Types.LIST(Types.STRING())}, '{"value.a": "LIST<STRING>"}'),
    ("types", {"value.a": "LIST<STRING>"}, '{"value.a": "LIST<STRING>"}'),
    ("python_type", Types.LONG(), "LONG"),
    ("python_type", ListState(Types.LONG()), "ListState<LONG>"),
    ("python_type", MapState(Types.STRING(), ROW), " MapState< STRING, ROW<name:STRING,n:LONG> >"),
    ("python_type", ValueState(Types.LIST(Types.LONG())), "ReducingState<LIST<LONG>>"),
    ("python_types", {"total": Types.LONG(), "items": "ListState<STRING>"}, '{"total": "LONG", "items": "ListState<STRING>"}'),
    ("fields", {"key": ["id"], "accState": ("n", "m")}, '{"key": ["id"], "accState": ["n", "m"]}'),
    ("plan", Path("/plans/query.json"), "/plans/query.json"),
    ("plan", {"nodes": [], "edges": []}, '{"nodes": [], "edges": []}'),
    ("expired", "only", "ONLY"),
    ("undescribed", "bytes", "BYTES"),
    ("batch_memory", 64 << 20, "64m"),
    ("path_mapping", {"/old": Path("/new")}, '{"/old": "/new"}'),
    ("allow_paths", ["/a", Path("/b,c")], '["/a", "/b,c"]'),
    ("allow_paths", "s3://bucket/x", "s3://bucket/x"),
    ("serializers", ["one", "two"], "one, two"),
    ("serializers", "one,two", "one,two"),
    ("uids", Path("/lists/uids.txt"), "/lists/uids.txt"),
    ("uids", ["orders", "a,b"], '["orders", "a,b"]'),
    ("time_zone", "America/New_York", "America/New_York"),
    ("storage_options", {"region": "eu-1", "client_kwargs": {"a": 1}}, '{"region": "eu-1", "client_kwargs": "{\\"a\\": 1}"}'),
    ("kind", "keyed", "KEYED"),
]

REFUSED: list[tuple[str, Any, str]] = [
    ("flatten", "yes", "yes"),
    ("metadata", 1, "1"),
    ("columns", [], ""),
    ("columns", [1], "[1]"),
    ("keys", "a", '"a"'),
    ("nanos", "round", "round"),
    ("row_kind", [], "[]"),
    ("ttl", 3600, "3600"),
    ("ttl", "1x", "1x"),
    ("as_of", "yesterday", "yesterday"),
    ("types", ["value"], '["value"]'),
    ("types", {"value.a": "NOPE<"}, '{"value.a": "NOPE<"}'),
    ("python_type", "NOPE", "NOPE"),
    ("python_type", 3, '{"kind": "SET"}'),
    ("python_type", Types.EITHER(Types.LONG(), Types.LONG()), "EITHER<LONG,LONG>"),
    ("python_types", ["total"], '["total"]'),
    ("python_types", {"total": "ListState<>"}, '{"total": "ListState<>"}'),
    ("fields", ["id"], '["id"]'),
    ("fields", {"key": []}, '{"key": []}'),
    ("plan", "", ""),
    ("uids", [], "[]"),
    ("uids", ["orders", ""], '["orders", ""]'),
    ("expired", True, "true"),
    ("undescribed", "raw", "raw"),
    ("batch_memory", "much", "much"),
    ("path_mapping", {"/old": 1}, '{"/old": 1}'),
    ("path_mapping", "/old=/new", "/old=/new"),
    ("allow_paths", [1], "[1]"),
    ("allow_paths", {"/old": "/new"}, ""),
    ("serializers", ["os;evil"], "os;evil"),
    ("time_zone", "Mars", "Mars"),
    ("storage_options", "region=eu-1", "region=eu-1"),
    ("kind", "VALUE", "VALUE"),
]


def of_text(argument: str, text: str) -> Any:
    option = KEYWORD_OPTIONS[argument]
    given = {option.name: text}
    if option.prefix:  # each entry is an option
        entries = option.kind.of_text(option.name, text)
        given = {f"{option.prefix}{n}": value if isinstance(value, str) else json.dumps(value) for n, value in entries.items()}
    return parse_options(READING, TEXT_OPTIONS[READING], given, allowed=["one", "two"])[argument]


@pytest.mark.parametrize(("argument", "value", "text"), SAME)
def test_arguments_and_text_mean_the_same(argument: str, value: Any, text: str) -> None:
    checked = check_arguments({argument: value})[argument]
    assert checked == of_text(argument, text)
    assert of_text(argument, KEYWORD_OPTIONS[argument].kind.encode(checked)) == checked


@pytest.mark.parametrize(("argument", "value", "text"), REFUSED)
def test_arguments_and_text_are_refused_alike(argument: str, value: Any, text: str) -> None:
    messages = []
    for refused, given in ((check_arguments, {argument: value}), (lambda g: of_text(argument, text), {})):
        with pytest.raises(OptionError) as caught:
            refused(given)
        messages.append(str(caught.value))
    of_value, of_option = messages
    assert of_value.startswith((f"{argument}=", f"{argument}: expected", f"{argument} ", f"{argument}:"))
    assert of_value.split("expected ")[-1].split(" (")[0] == of_option.split("expected ")[-1].split(" (")[0]


def test_every_option_is_tried() -> None:
    spark_only = {"uid", "uid_hash", "state", "split_size", "pushdown"}
    assert {argument for argument, _, _ in SAME} == {o.argument for o in TEXT_OPTIONS[READING]} - spark_only
    assert {argument for argument, _, _ in REFUSED} == {argument for argument, _, _ in SAME}


def test_none_is_the_default() -> None:
    assert check_arguments(dict.fromkeys(KEYWORD_OPTIONS)) == {}
