"""Sixty mistakes of new users: each message has at most three lines, and names the problem and the remedy."""

from __future__ import annotations

import datetime
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import state_processor as sp
from state_processor import cli
from state_processor.types.flink_types import Types
from tests.state_processor.samples import ORDERS_PATH, TYPES_PATH, WINDOWS_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINE = 130
LINES = 3
NOBODY = 65534
HASH = "bc4197a480c92c793190a9f8c0afc54c"

PATHS = {"ORDERS": ORDERS_PATH, "TYPES": TYPES_PATH, "WINDOWS": WINDOWS_PATH}
"""Words of commands that stand for paths; TMP is a directory of the test."""

COMMANDS: list[tuple[str, str, str]] = [
    ("typo in a path", "inspect TMP/savepiont-1", r"savepiont-1 does not exist; did you mean TMP/savepoint-1\?"),
    ("path that does not exist", "inspect TMP/a/b", "TMP/a/b does not exist, nor does TMP/a; pass the directory"),
    ("directory above snapshots", "inspect TMP", r"does not contain _metadata, .* Snapshots below it: TMP/.*savepoint-1"),
    ("file in place of a directory", "inspect TMP/notes.txt", "notes.txt is a file; a snapshot is a directory"),
    ("empty _metadata", "inspect TMP/empty", "the file is empty: .*; use another snapshot, or copy it again"),
    ("_metadata is JSON", "inspect TMP/json", "not a _metadata file of Flink: it is JSON. Pass the directory of a savepoint"),
    ("checkpoint of Spark", "inspect TMP/streaming", "looks like a checkpoint of Spark .* spark.read.format"),
    ("hdfs without Java", "inspect hdfs://namenode/s", "cannot be reached: .*; set JAVA_HOME to a JDK"),
    ("Azure without its package", "inspect abfss://c@a.dfs.core.windows.net/s", "install it: pip install adlfs"),
    ("misspelt setting of S3", "inspect s3://b/s --storage acces_key=k --storage region=eu", r"did you mean 'access_key'\?"),
    (
        "half of the keys of S3",
        "inspect s3://b/s --storage access_key=k --storage region=eu",
        "; set both in --storage, or neither",
    ),
    ("path without quotes", "inspect TMP/my savepoint", "unexpected argument: savepoint; quote a value with spaces"),
    ("typo in a command", "shwo ORDERS", r"'shwo' is unknown; did you mean show\?"),
    ("typo in a flag", "show ORDERS --uid orders --sate total", r"there is no flag --sate; did you mean --state\?"),
    ("the name in Python for a flag", "show ORDERS --path-mapping a=b", r"there is no flag --path-mapping; did you mean --map\?"),
    ("the name in Python", "copy-operator ORDERS OUT --as-uid x", r"there is no flag --as-uid; did you mean --as\?"),
    ("the flag of a command", "offsets ORDERS --uid x --set a:1=2", "no flag --set; the command set-offsets has it"),
    ("no uid", "show ORDERS", "one of the arguments --uid --uid-hash is required"),
    ("typo in a uid", "show ORDERS --uid ordres", "no operator 'ordres' in this snapshot. Did you mean 'orders'"),
    ("uid in place of a hash", "show ORDERS --uid-hash orders", "expected 32 hexadecimal digits; give a uid as --uid"),
    ("typo in a state", "show ORDERS --uid orders --state totl", r"no state 'totl' in operator 'orders'. Did you mean 'total'\?"),
    ("typo in a column", "show ORDERS --uid orders --state total --columns key,vlaue", r"did you mean 'value'\?"),
    ("text for a number", "show ORDERS --uid orders --limit ten", "argument --limit: expected a whole number, found 'ten'"),
    ("key of another type", "show TYPES --uid types --state long --key amelia", "keys of type INT, found 'amelia' of type str"),
    ("no timers", "show ORDERS --uid catalog --timers", "operator 'catalog' has no timers; its states are .*'pending'"),
    (
        "negative time-to-live",
        "show ORDERS --uid orders --state session --ttl -1h --as-of now",
        "there is no flag -1h; .*--flag=-1h",
    ),
    (
        "duration without a unit",
        "show ORDERS --uid orders --state session --ttl 3600 --as-of now",
        "add the unit: 3600s or 3600ms",
    ),
    (
        "seconds for milliseconds",
        "show ORDERS --uid orders --state session --ttl 1h --as-of 1706702400",
        "--as-of 1706702400: expected milliseconds, found seconds; multiply by 1000",
    ),
    ("time-to-live of another state", "count ORDERS --uid orders --state total --ttl 1h --as-of now", "Leave --ttl out"),
    (
        "plan that is text",
        "states ORDERS --plan TMP/notes.txt",
        "expected the JSON of COMPILE PLAN .* found 'buy milk'",
    ),
    ("plan of another job", "states ORDERS --plan PLAN", "the plan does not have the operators of the snapshot"),
    ("expression without quotes", "show ORDERS --uid orders --where value > 10", "unexpected argument: > 10; quote a value"),
    ("unknown suffix", "export ORDERS --uid orders -o TMP/rows.txt", "the suffix .txt is unknown; use one of .*, or --format"),
    ("existing file", "export ORDERS --uid orders -o TMP/rows.csv", "TMP/rows.csv exists; name a new file"),
    (
        "existing target",
        "copy ORDERS TMP/savepoint-1",
        "holds a savepoint already; write to another directory, or set --overwrite",
    ),
    ("file as target", "copy ORDERS TMP/notes.txt", "a file has this name; pass another directory"),
    (
        "target inside the source",
        "copy TMP/savepoint-1 TMP/savepoint-1/copy",
        "is inside the source savepoint .*; write to another",
    ),
    (
        "too many key groups",
        "set-max-parallelism ORDERS TMP/new 40000",
        "max parallelism 40000: expected a number from 1 to 32768",
    ),
    (
        "fewer key groups than subtasks",
        "set-max-parallelism ORDERS TMP/new 1",
        "has parallelism 2, more than 1; choose at least 2",
    ),
    (
        "uid of another operator",
        "rename-uid ORDERS TMP/new --from orders --to catalog",
        "would both be catalog; choose another uid",
    ),
    ("typo in a backend", "convert ORDERS TMP/new --format native --backend rockdb", "rocksdb, forst, hashmap"),
    ("backend without a format", "convert ORDERS TMP/new --backend rocksdb", "leave it out, or set --format native"),
    ("state without an operator", "diff ORDERS ORDERS --state total", "also name the operator with --uid or --uid-hash"),
    ("sizes of keys of all operators", "sizes ORDERS --by key", "--by key: name the operator, since operators have keys"),
    (
        "names for a state that is not read",
        "show ORDERS --uid orders --state total --fields x=a",
        "--fields: 'x' is not read; names",
    ),
    ("module that is not there", "show ORDERS --uid orders --serializers nope", r"'nope'\); add its directory to PYTHONPATH"),
    ("no sink", "sink-state ORDERS --uid orders", "operator 'orders' is not a sink with state; expected one of the states"),
]
"""What is wrong, a command, and a regular expression of the message."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a savepoint, and with other content."""
    directory = tmp_path_factory.mktemp("mistakes")
    shutil.copytree(ORDERS_PATH, directory / "savepoint-1")
    (directory / "streaming" / "offsets").mkdir(parents=True)
    (directory / "streaming" / "commits").mkdir()
    for name, content in {"empty/_metadata": "", "json/_metadata": '{"a": 1}', "notes.txt": "buy milk", "rows.csv": ""}.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(content)
    return directory


def plan_of_another_job() -> str:
    return '{"nodes": [{"id": 1, "type": "stream-exec-limit_1"}], "edges": []}'


def message_of_command(command: str, place: Path, capsys: pytest.CaptureFixture[str]) -> str:
    words = {**PATHS, "PLAN": plan_of_another_job()}
    arguments = [words.get(word, word.replace("TMP", str(place))) for word in command.split()]
    if "> 10" in command:
        arguments[-2:] = ["> 10"]
    try:
        code: object = cli.main(arguments)
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert captured.err.startswith("state-processor")
    return captured.err.strip()


def check_message(message: str, expected: str, place: Path) -> None:
    import re

    shown = message.replace(str(place), "TMP")
    assert re.search(expected, shown), shown
    assert len(shown) <= LINES * LINE, shown
    assert shown.count("\n") < LINES
    assert not re.search(r"Traceback|\bat org\.|<function|object at 0x", shown)


@pytest.mark.spark
@pytest.mark.parametrize(("command", "expected"), [pytest.param(c, m, id=what) for what, c, m in COMMANDS])
def test_commands(
    command: str, expected: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    check_message(message_of_command(command, place, capsys), expected, place)


@contextmanager
def another_user() -> Iterator[None]:
    """Access files as a user who does not own them."""
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can access files as another user")
def test_a_directory_that_can_not_be_read(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with another_user():
        message = message_of_command("inspect TMP/savepoint-1", place, capsys)
    check_message(message, "cannot be read: .*; ask for permission to read it", place)


WHERE = ["show", ORDERS_PATH, "--uid", "orders", "--where", "total > 10"]


def test_duckdb_is_not_installed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    absent: dict[str, Any] = {"duckdb": None}
    monkeypatch.setitem(sys.modules, "duckdb", absent["duckdb"])
    assert cli.main(WHERE) == cli.BAD_INPUT
    expected = r"queries of SQL need the package duckdb: pip install 'state-processor\[duckdb\]'"
    check_message(capsys.readouterr().err.strip(), expected, tmp_path)


class Trial:
    """What the calls of a new user have at hand."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self.spark = spark
        self.place = place
        self.reader = sp.SavepointReader.read(spark, ORDERS_PATH)

    def frame(self, schema: str, *rows: tuple[Any, ...]) -> Any:
        """A DataFrame."""
        return self.spark.createDataFrame(list(rows), schema)

    def update(self, state: str, rows: Any) -> sp.SavepointWriter:
        """Change a state of the sample."""
        return sp.SavepointWriter.from_existing(self.spark, ORDERS_PATH).update_keyed_state("orders", state, rows)

    def new(self, states: Any, schema: str = "key string, v bigint", row: tuple[Any, ...] = ("a", 1), **more: Any) -> Any:
        """Start a savepoint with a state ``v``."""
        writer = sp.SavepointWriter.new(self.spark)
        return writer.with_keyed_state("op", self.frame(schema, row), states=states, **more)

    def write(self, writer: sp.SavepointWriter, name: str = "new") -> Any:
        """Write the savepoint."""
        return writer.write(str(self.place / name))


def row_type(ddl: str) -> dict[str, Any]:
    return {"v": sp.ValueState(Types.ROW_DATA(ddl))}


def pandas_frame(columns: dict[str, list[Any]] | None = None) -> Any:
    import pandas as pd

    return pd.DataFrame(columns)


Call = Callable[[Trial], Any]
TOTALS = "key string, value bigint"
READ_SESSION = "session"

CALLS: list[tuple[str, Call, str]] = [
    ("no path", lambda t: sp.SavepointReader.read(t.spark, None), "path: expected the directory of a savepoint .*, found None"),  # type: ignore[arg-type]
    (
        "DataFrame as a path",
        lambda t: sp.arrow.operators(pandas_frame()),
        "path: expected the directory .*, found a DataFrame",
    ),  # type: ignore[arg-type]
    ("no session", lambda t: sp.open(ORDERS_PATH, object()), "expected a SparkSession, found an object of the class object"),  # type: ignore[call-overload]
    ("no session to register in", lambda t: sp.register(object()), "expected a SparkSession, found an object of the class"),  # type: ignore[arg-type]
    ("session and path exchanged", lambda t: sp.SavepointReader.read(ORDERS_PATH, t.spark), "the session comes before the path"),  # type: ignore[arg-type]
    ("typo in a uid", lambda t: t.reader.read_keyed_state("ordres"), "no operator 'ordres' .* Did you mean 'orders'"),
    ("typo in a state", lambda t: t.reader.read_keyed_state("orders", "totl"), r"Did you mean 'total'\?"),
    ("typo in an argument", lambda t: t.reader.read_keyed_state("orders", "total", flaten=False), r"did you mean 'flatten'\?"),  # type: ignore[call-arg]
    ("wrong kind of state", lambda t: t.reader.read_list_state("orders", "total"), "is VALUE; read it with read_keyed_state"),
    ("no windows", lambda t: t.reader.read_window_state("orders", "total"), "not in windows; read it with read_keyed_state"),
    (
        "only windows",
        lambda t: sp.SavepointReader.read(t.spark, WINDOWS_PATH).read_keyed_state("tumbling-reduce"),
        "name one of its states: .*'window-contents'",
    ),
    ("one name for a list", lambda t: t.reader.read_keyed_state("orders", columns="key"), r"expected names such as \[\"key\""),
    (
        "one key for a list",
        lambda t: t.reader.read_keyed_state("orders", keys="amelia"),
        r"expected a list of keys such as \[\"a\"",
    ),
    ("key of another type", lambda t: t.reader.lookup("orders", 5), "has keys of type STRING, found 5 of type int"),
    (
        "keys in another column",
        lambda t: t.reader.read_keyed_state("orders", "total", keys=pandas_frame({"user": ["a"]})),
        "expected the column 'key', found 'user'",
    ),
    (
        "negative time-to-live",
        lambda t: t.reader.read_keyed_state("orders", READ_SESSION, ttl=datetime.timedelta(hours=-1), as_of="now"),
        "ttl of -3600000 ms: expected a positive duration",
    ),
    (
        "microseconds for milliseconds",
        lambda t: t.reader.read_keyed_state("orders", READ_SESSION, ttl="1h", as_of=1_706_702_400_000_000),
        "expected milliseconds, found microseconds; divide by 1000",
    ),
    (
        "uid in place of a hash",
        lambda t: sp.OperatorIdentifier.for_uid_hash("orders"),
        "32 hexadecimal digits; give a uid as uid",
    ),
    (
        "no key column",
        lambda t: t.update("total", t.frame("user string, value bigint", ("a", 1))),
        "no column 'key'; the rows have",
    ),
    ("typo in a column", lambda t: t.update("total", t.frame("key string, vlaue bigint", ("a", 1))), r"Did you mean 'vlaue'\?"),
    ("value of another type", lambda t: t.update("total", t.frame("key string, value string", ("a", "1"))), "cast it: CAST"),
    (
        "column of another state",
        lambda t: t.update("total", t.frame(f"{TOTALS}, x int", ("a", 1, 1))),
        "would be ignored; .*drop or",
    ),
    (
        "list of dictionaries",
        lambda t: t.update("total", [{"key": "a", "value": 1}]),
        "expected rows as a DataFrame .* found a list",
    ),
    ("array of numpy", lambda t: t.update("total", np.zeros((2, 2))), "expected rows as a DataFrame .* found a ndarray"),
    ("name of a file", lambda t: t.update("total", "rows.csv"), "expected rows as a DataFrame of Spark, .* found a str"),
    ("empty frame of pandas", lambda t: t.update("total", pandas_frame()), "the rows have no columns"),
    (
        "null as a key",
        lambda t: t.write(t.update("total", t.frame(TOTALS, (None, 1)))),
        "column key of row 0 is null; a key can't be",
    ),
    (
        "the same key twice",
        lambda t: t.write(t.update("total", t.frame(TOTALS, ("a", 1), ("a", 2)))),
        "'a' occurs more than once",
    ),
    (
        "null in a column that is not null",
        lambda t: t.write(t.new(row_type("id BIGINT NOT NULL"), "key string, v struct<id:bigint>", ("a", (None,)))),
        "the type is BIGINT NOT NULL",
    ),
    (
        "text that is too long",
        lambda t: t.write(t.new(row_type("id VARCHAR(3)"), "key string, v struct<id:string>", ("a", ("abcdef",)))),
        r"'abcdef': a VARCHAR\(3\) has at most 3 code points",
    ),
    (
        "decimal that is too long",
        lambda t: t.write(t.new(row_type("d DECIMAL(4,2)"), "key string, v struct<d:decimal(10,3)>", ("a", (Decimal("1.234"),)))),
        "column value.d of row 0 does not fit",
    ),
    (
        "type without parentheses",
        lambda t: t.new({"v": Types.LONG}),
        r"found Types.LONG without parentheses; write Types.LONG\(\)",
    ),
    ("type as text", lambda t: t.new({"v": sp.ValueState("LONG")}), r"found the text 'LONG'; write Types.LONG\(\)"),  # type: ignore[arg-type]
    ("class of Python as a type", lambda t: t.new({"v": int}), "expected a state such as .*, found the class int"),
    ("states as a list", lambda t: t.new(["v"]), "expected a mapping by column, found a list"),
    ("time-to-live without a unit", lambda t: sp.ValueState(Types.LONG(), ttl=3600), "ttl 3600: .*add the unit: 3600s"),  # type: ignore[arg-type]
    (
        "key type of another operator",
        lambda t: sp.SavepointWriter.from_existing(t.spark, ORDERS_PATH).with_keyed_state(
            "orders", t.frame("key bigint, v bigint", (1, 1)), key_type=Types.LONG()
        ),
        "operator orders has keys of type STRING, not LONG",
    ),
    ("no subtasks", lambda t: t.new(None, parallelism=0), "parallelism 0: expected a number from 1 to the max parallelism, 128"),
    ("Flink of tomorrow", lambda t: sp.SavepointWriter.new(t.spark, flink_version="3.0"), "expected a version of Flink 1 or 2"),
    ("nothing to write", lambda t: t.write(sp.SavepointWriter.new(t.spark)), "there is no operator to write; add state first"),
    ("existing target", lambda t: t.write(t.new(None), "savepoint-1"), "another directory, or set overwrite=True"),
    ("backend for a format", lambda t: t.new(None).write(str(t.place / "new"), format="rocksdb"), "canonical, native"),  # type: ignore[arg-type]
    (
        "keys of an operator without any",
        lambda t: sp.SavepointWriter.from_existing(t.spark, ORDERS_PATH).delete_keys("catalog", t.frame("key string", ("a",))),
        r"no keyed state that keys could be deleted from; is the uid right\?",
    ),
    (
        "type without parentheses to evolve to",
        lambda t: sp.SavepointWriter.from_existing(t.spark, ORDERS_PATH).evolve_state("orders", "total", Types.STRING),  # type: ignore[arg-type]
        r"write Types.STRING\(\)",
    ),
]
"""What is wrong, a call, and a regular expression of the message."""


@pytest.fixture(scope="module")
def trial(spark: SparkSession, place: Path) -> Trial:
    return Trial(spark, place)


@pytest.mark.parametrize(("call", "expected"), [pytest.param(c, m, id=what) for what, c, m in CALLS])
def test_calls(call: Call, expected: str, trial: Trial) -> None:
    with pytest.raises((sp.StateProcessorError, TypeError)) as caught:
        call(trial)
    check_message(str(caught.value), expected, trial.place)
    assert not (trial.place / "new" / "_metadata").exists()


def test_there_are_sixty() -> None:
    assert len(COMMANDS) >= 30
    assert len(CALLS) >= 30
