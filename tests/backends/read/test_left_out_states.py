"""A row for each key does not have states of windows: a read of all keyed states names them."""

from __future__ import annotations

import logging
from html import escape
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import state_processor as sp
from state_processor.backends.read.schemas import comments_of, with_note
from state_processor.backends.read.state_access import StatesToRead
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.cli import main
from state_processor.serializers.runtime.namespaces import TimeWindowSerializer
from tests.backends import state_files as f
from tests.state_processor.samples import WINDOWS_PATH

HEADER = f.keyed_header(f.LONG, [f.keyed("total", f.LONG), f.keyed("per-window", f.LONG, namespace=TimeWindowSerializer())])


def operator(states: tuple[int, ...] = (0, 1)) -> StoredOperator:
    found = f.operator(f.canonical(HEADER, (0, 127), {}).handle())
    return StoredOperator(f.snapshot(found), found)


def test_states_of_windows_are_named() -> None:
    read = StatesToRead.find(operator())
    assert (tuple(read.variants), read.left_out) == (("total",), ("per-window",))
    assert "does not have the states of windows and other namespaces: 'per-window'. Read them by name" in read.note
    assert not StatesToRead.find(operator(), "total").note
    assert not StatesToRead.find(operator(), "per-window").note


NOTE = (
    "operator 'session-process': a row for each key does not have the states of windows and other namespaces: 'window-contents'"
)


@pytest.fixture
def noted(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(logging.getLogger("state_processor"), "propagate", True)
    caplog.set_level(logging.WARNING, "state_processor")
    return caplog


def test_reads_without_spark(noted: pytest.LogCaptureFixture) -> None:
    sp.arrow.read_state(WINDOWS_PATH, "session-process").read_all()
    assert NOTE in noted.text
    noted.clear()
    sp.arrow.read_state(WINDOWS_PATH, "session-process", "window-contents").read_all()
    sp.arrow.read_timers(WINDOWS_PATH, "session-process").read_all()
    assert "a row for each key" not in noted.text


@pytest.mark.parametrize("command", ["show", "export", "count", "sql"])
def test_commands(command: str, noted: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    arguments = {
        "export": ["--uid", "session-process", "-o", str(tmp_path / "rows.json")],
        "sql": ['SELECT * FROM "session-process"'],
    }.get(command, ["--uid", "session-process"])
    assert main([command, WINDOWS_PATH, *arguments]) == 0
    assert NOTE in noted.text


def test_rows_have_a_note() -> None:
    rows = sp.arrow.read_state(WINDOWS_PATH, "session-process")
    (note,) = rows.notes
    assert note.startswith(NOTE)
    assert repr(rows).endswith(f"\n{note}")
    assert rows._repr_html_().endswith(f"<p>{escape(note)}</p>")
    assert sp.arrow.read_state(WINDOWS_PATH, "session-process", "window-contents").notes == ()
    assert sp.arrow.read_state(WINDOWS_PATH, "session-process", schema={"key": pa.string()}).notes == (note,)


def test_tables_and_files_have_the_note_in_a_comment(tmp_path: Path) -> None:
    table = sp.arrow.read_state(WINDOWS_PATH, "session-process").read_all()
    assert comments_of(table.schema)["key"].startswith(NOTE)
    for file in ("rows.parquet", "rows.feather"):
        assert main(["export", WINDOWS_PATH, "--uid", "session-process", "-o", str(tmp_path / file)]) == 0
    written = (pq.read_schema(tmp_path / "rows.parquet"), pa.ipc.open_file(tmp_path / "rows.feather").schema)
    assert all(comments_of(schema)["key"].startswith(NOTE) for schema in written)


def test_the_comment_of_a_column_stays_before_the_note() -> None:
    field = with_note(pa.field("key", pa.date32(), metadata={"comment": "of a zone"}), "without windows")
    assert comments_of(pa.schema([field])) == {"key": "of a zone. without windows"}


def test_views_of_duckdb_have_the_note_in_a_comment() -> None:
    views = sp.duckdb.connect(WINDOWS_PATH).sql("SELECT comment FROM duckdb_views() WHERE view_name = 'session-process'")
    assert [comment.startswith(NOTE) for (comment,) in views.fetchall()] == [True]


def test_frames_of_spark_have_the_note_in_a_comment(spark: SparkSession) -> None:
    source = spark.read.format("flink-savepoint").option("uid", "session-process").load(WINDOWS_PATH)
    frame = sp.SavepointReader.read(spark, WINDOWS_PATH).read_keyed_state("session-process")
    typed = sp.SavepointReader.read(spark, WINDOWS_PATH).read_keyed_state("session-process", schema="key STRING")
    (view,) = (name for name in sp.create_views(spark, WINDOWS_PATH) if name == "`session-process`")
    for each in (source, frame, typed, spark.table(view)):
        assert each.schema["key"].metadata["comment"].startswith(NOTE)
    rows = spark.sql(f"DESCRIBE {view}").where("col_name = 'key'").collect()
    assert [row.comment.startswith(NOTE) for row in rows] == [True]


def test_searches_and_deletions_reach_them(tmp_path: Path) -> None:
    key = sp.arrow.read_state(WINDOWS_PATH, "session-process", "window-contents").read_all()["key"][0].as_py()
    assert "window-contents" in sp.find(WINDOWS_PATH, text=key).table["state_name"].to_pylist()
    writer = sp.arrow.SavepointWriter.from_existing(WINDOWS_PATH)
    writer.delete_keys("session-process", [{"key": key}])
    writer.write(str(tmp_path / "deleted"))
    sp.erase(WINDOWS_PATH, str(tmp_path / "erased"), key=key, remove="keys")
    for path in ("deleted", "erased"):
        rows = sp.arrow.read_state(tmp_path / path, "session-process", "window-contents").read_all()
        assert key not in rows["key"].to_pylist()


def test_reads_of_spark(noted: pytest.LogCaptureFixture, spark: SparkSession) -> None:
    sp.SavepointReader.read(spark, WINDOWS_PATH).read_keyed_state("session-process").collect()
    assert NOTE in noted.text


def test_frames_of_polars_have_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    sp.polars.scan_state(WINDOWS_PATH, "session-process").collect()
    sp.polars.scan_state(WINDOWS_PATH, "session-process", "window-contents").collect()
    assert [warning.filename for warning in recwarn if str(warning.message).startswith(NOTE)] == [__file__]


def test_results_of_queries_have_the_notes_of_their_views() -> None:
    (note,) = sp.duckdb.query(WINDOWS_PATH, 'SELECT count(*) FROM "session-process" AS named').notes
    assert note.startswith(NOTE)
    assert sp.duckdb.query(WINDOWS_PATH, 'SELECT * FROM "session-process"."window-contents"').notes == ()
    assert sp.duckdb.query(WINDOWS_PATH, "SELECT uid FROM (SELECT operator_uid AS uid FROM operators)").notes == ()


def test_rows_without_the_key_have_the_note() -> None:
    column = sp.arrow.read_state(WINDOWS_PATH, "session-process").schema.names[1]
    (note,) = sp.arrow.read_state(WINDOWS_PATH, "session-process", columns=[column]).notes
    assert note.startswith(NOTE)


def test_look_ups_sizes_and_differences_have_them() -> None:
    (key,) = {
        r["key"] for r in sp.arrow.read_state(WINDOWS_PATH, "session-process", "window-contents").read_all().to_pylist()[:1]
    }
    assert sp.arrow.lookup(WINDOWS_PATH, "session-process", key).states["window-contents"].num_rows
    assert "window-contents" in sp.arrow.size_report(WINDOWS_PATH, "session-process")["state_name"].to_pylist()
    summary = sp.arrow.diff_summary(WINDOWS_PATH, WINDOWS_PATH, "session-process")
    assert "window-contents" in summary["state_name"].to_pylist()
