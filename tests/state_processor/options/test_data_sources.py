from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from state_processor.backends.read.read_options import ReadOptions
from state_processor.errors import OptionError
from state_processor.options.data_sources import READ_OPTIONS, READING_OPTIONS, SinkOptions, SourceOptions, format_options
from state_processor.options.keywords import check_arguments
from state_processor.options.option import values_of
from state_processor.options.user_serializers import import_serializers

PATH = {"path": "/savepoints/1"}


def read_options(**arguments: Any) -> ReadOptions:
    return ReadOptions.of(**values_of(READ_OPTIONS, check_arguments(arguments)))


def option_strings(**arguments: Any) -> dict[str, str]:
    return format_options(READING_OPTIONS, check_arguments(arguments))


def test_options_are_parsed_whatever_their_case() -> None:
    options = SourceOptions.parse(
        PATH
        | {
            "UID": "orders",
            "state": "total",
            "kind": "keyed",
            "Flatten": "false",
            "metadata": "TRUE",
            "keys": '["a", 1]',
            "nanos": "String",
            "rowkind": "true",
            "ttl": "PT1H",
            "asof": "2024-01-31T12:00:00Z",
            "pathMapping": '{"/old": "/new"}',
            "splitSize": "64m",
            "serializers": "mine.one, mine.two",
            "pushdown": "serves-one-query",
        },
        allowed=["mine.*"],
    )
    assert options.path == "/savepoints/1"
    assert options.operator is not None
    assert options.operator.uid == "orders"
    assert (options.state, options.kind) == ("total", "KEYED")
    assert options.read.keys == ("a", 1)
    assert (options.read.flatten, options.read.metadata, options.read.values.row_kind) == (False, True, True)
    assert (options.read.values.nanos, options.read.ttl, options.read.as_of) == ("string", 3_600_000, 1_706_702_400_000)
    assert options.access.path_mapping == {"/old": "/new"}
    assert options.split_size == 64 << 20
    assert options.access.serializers == ("mine.one", "mine.two")
    assert options.pushdown == "serves-one-query"


def test_defaults() -> None:
    options = SourceOptions.parse(PATH)
    assert options.operator is None
    assert options.read == read_options()
    assert (options.split_size, options.access.serializers, options.pushdown, options.table) == (None, (), None, "operators")


def test_uid_hash() -> None:
    operator = SourceOptions.parse(PATH | {"uidHash": "BC4197A480C92C793190A9F8C0AFC54C"}).operator
    assert operator is not None
    assert (operator.uid, operator.uid_hash) == (None, "bc4197a480c92c793190a9f8c0afc54c")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stat": "total"}, "no option 'stat'; did you mean 'state'"),
        ({"uid_hash": "x"}, "did you mean 'uidHash'"),
        ({"flaten": "false"}, "did you mean 'flatten'"),
        ({"path-mapping": "{}"}, "did you mean 'pathMapping'"),
        ({"key": '["a"]'}, "did you mean 'keys'"),
        ({"flatten": "yes"}, "option flatten='yes': expected true or false"),
        ({"nanos": "round"}, "'error', 'check', 'truncate', 'string'"),
        ({"kind": "VALUE"}, "'KEYED', 'TIMER'"),
        ({"keys": "a"}, "expected a list of keys"),
        ({"keys": '{"a": 1}'}, "expected a list of keys"),
        ({"pathMapping": '["a"]'}, "expected a mapping"),
        ({"pathMapping": '{"a": 1}'}, "present prefixes"),
        ({"splitSize": "big"}, "expected a size"),
        ({"splitSize": "0"}, "expected a size"),
        ({"ttl": "1x", "asOf": "1706702400000"}, "ISO-8601"),
        ({"ttl": "PT1H"}, "asOf"),
        ({"ttl": "PT0S", "asOf": "1706702400000"}, "positive"),
        ({"uid": ""}, "option uid='': expected text"),
        ({"allowPaths": ""}, "option allowPaths='': expected a path"),
        ({"uidHash": "orders"}, "32 hexadecimal digits"),
        ({"uid": "orders", "uidHash": "bc4197a480c92c793190a9f8c0afc54c"}, "both uid and uidHash"),
    ],
)
def test_wrong_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SourceOptions.parse(PATH | options)


def test_path_is_needed() -> None:
    with pytest.raises(OptionError, match="no path"):
        SourceOptions.parse({"uid": "orders"})


@pytest.mark.parametrize(
    "given",
    [
        {"__partition_columns": "[]"},
        {"paths": "[]"},
        {"location": "file:/p", "option.uid": "orders", "owner": "me", "uid": "orders", "provider": "flink-savepoint"},
        {"external": "true", "option.path": "/p", "owner": "me", "provider": "flink-savepoint", "comment": "c", "collation": "x"},
        {"provider": "flink-savepoint", "option.path": "/p", "team": "mine", "is_managed_location": "true"},
    ],
    ids=["partitionBy", "load of several", "CREATE TABLE OPTIONS", "createTable", "TBLPROPERTIES"],
)
def test_options_that_spark_adds(given: dict[str, str]) -> None:
    wanted = PATH | {n: given[n] for n in given if n == "uid"}
    assert SourceOptions.parse(PATH | given) == SourceOptions.parse(wanted)


@pytest.mark.parametrize("name", ["limit", "foo", "header", "mergeSchema", "a.b"])
def test_options_that_nobody_knows(name: str) -> None:
    with pytest.raises(OptionError, match=f"reading flink-savepoint: there is no option '{name.lower()}'; there are allowPaths"):
        SourceOptions.parse(PATH | {name: "1"})
    with pytest.raises(OptionError, match=f"metadata: there is no option '{name.lower()}'; there are allowPaths, .*table"):
        SourceOptions.parse(PATH | {name: "1"}, "flink-savepoint-metadata")
    with pytest.raises(OptionError, match=f"writing flink-savepoint: there is no option '{name.lower()}'; there are allow"):
        SinkOptions.parse(PATH | {"uid": "orders", name: "1"})


def test_options_of_a_table_that_nobody_knows() -> None:
    with pytest.raises(OptionError, match="no option 'limit'"):
        SourceOptions.parse(PATH | {"provider": "flink-savepoint", "option.limit": "1", "limit": "1"})


def test_each_source_has_its_own_options() -> None:
    with pytest.raises(OptionError, match="reading flink-savepoint: there is no option 'table'"):
        SourceOptions.parse(PATH | {"table": "states"})
    with pytest.raises(OptionError, match="reading flink-savepoint-metadata: there is no option 'uid'"):
        SourceOptions.parse(PATH | {"uid": "orders"}, "flink-savepoint-metadata")
    with pytest.raises(OptionError, match="writing flink-savepoint: there is no option 'flatten'"):
        SinkOptions.parse(PATH | {"uid": "orders", "flatten": "true"})
    with pytest.raises(OptionError, match="did you mean 'keyType'"):
        SinkOptions.parse(PATH | {"uid": "orders", "key_type": "LONG"})
    assert SourceOptions.parse(PATH | {"table": "states"}, "flink-savepoint-metadata").table == "states"
    with pytest.raises(OptionError, match="'operators', 'states', 'handles'"):
        SourceOptions.parse(PATH | {"table": "tables"}, "flink-savepoint-metadata")


@pytest.mark.parametrize(
    "option",
    [{"replace": "true"}, {"plan": "/plan.json"}, {"uids": "/uids"}, {"pathMapping": '{"/a": "/b"}'}, {"allowPaths": "/a"}],
)
def test_options_about_the_source_savepoint_need_it(option: dict[str, str]) -> None:
    (name,) = option
    with pytest.raises(OptionError, match=f"{name} acts only with base: add that, or leave {name} out"):
        SinkOptions.parse(PATH | {"uid": "orders"} | option)
    assert SinkOptions.parse(PATH | {"uid": "orders", "base": "/old"} | option).base == "/old"


def test_keyword_arguments_become_options_and_come_back() -> None:
    strings = option_strings(
        kind=None,
        flatten=False,
        keys=["ä", 1, True],
        ttl=timedelta(hours=1),
        as_of=datetime(2024, 1, 31, 12, tzinfo=UTC),
        path_mapping={"s3://old": "/new"},
        serializers=["mine.one", "mine.two"],
    )
    assert "kind" not in strings
    parsed = SourceOptions.parse(PATH | strings, allowed=["mine.one", "mine.two"])
    assert parsed.read == read_options(flatten=False, keys=["ä", 1, True], ttl="PT1H", as_of=1_706_702_400_000)
    assert parsed.access.path_mapping == {"s3://old": "/new"}
    assert parsed.access.serializers == ("mine.one", "mine.two")


def test_keys_without_a_form_in_json() -> None:
    assert option_strings(keys=[date(2024, 1, 31)]) == {"keys": '["2024-01-31"]'}
    with pytest.raises(OptionError, match="can't be written as JSON"):
        option_strings(keys=[object()])


@pytest.mark.parametrize("keys", ["amelia", b"amelia", 1, 1.5, True, {"amelia": 1}, bytearray(b"a")])
def test_keys_are_a_list(keys: Any) -> None:
    with pytest.raises(OptionError, match=r"(?s)keys=.*expected a list of keys"):
        read_options(keys=keys)
    with pytest.raises(OptionError, match=r"(?s)keys=.*expected a list of keys"):
        option_strings(keys=keys)


@pytest.mark.parametrize("keys", [["a", "b"], ("a", "b"), {"a": 1, "b": 2}.keys(), iter(["a", "b"]), np.array(["a", "b"])])
def test_lists_of_keys(keys: Any) -> None:
    assert read_options(keys=keys).keys == ("a", "b")


@pytest.mark.parametrize(
    "keys",
    [pa.table({"key": ["a", "b"]}), pa.RecordBatch.from_pydict({"key": ["a", "b"]}), pa.array(["a", "b"])],
)
def test_tables_of_keys(keys: Any) -> None:
    assert read_options(keys=keys).keys.to_pydict() == {"key": ["a", "b"]}
    assert option_strings(keys=keys) == {"keys": '["a", "b"]'}


@pytest.mark.pandas
def test_frames_of_keys() -> None:
    import pandas as pd

    frame = pd.DataFrame({"key": ["a", "x", "b"]})
    test_tables_of_keys(frame[frame["key"] != "x"])


def test_tables_of_keys_with_fields() -> None:
    assert option_strings(keys=pa.table({"f0": ["a"], "f1": [1]})) == {"keys": '[{"f0": "a", "f1": 1}]'}


@pytest.mark.parametrize("text", ['"amelia"', "1", '{"amelia": 1}', "true"])
def test_keys_as_an_option_are_a_list(text: str) -> None:
    with pytest.raises(OptionError, match=r"option keys=.*expected a list of keys"):
        SourceOptions.parse(PATH | {"keys": text})


def test_modules_that_are_not_there() -> None:
    with pytest.raises(OptionError, match=r"serializers='no\.such\.module' can't be imported"):
        import_serializers(["no.such.module"])


def test_writes_without_a_path_say_that_tables_are_read_only() -> None:
    """Of ``INSERT INTO`` and ``CREATE TABLE … AS SELECT``, Spark hands over no path, even if the statement has one."""
    with pytest.raises(OptionError, match=r"Tables of this format are read-only.*mode\(\"append\"\)\.save\(path\)"):
        SinkOptions.parse({"uid": "orders"})
