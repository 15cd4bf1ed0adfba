"""Tables follow checkpoints: each commit has the changes, or all rows, and names its checkpoint."""

from __future__ import annotations

import datetime
import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog

import state_processor as sp
from state_processor import cli
from state_processor.applications.changes.checkpoint_changes import StepReader
from state_processor.applications.lake.delta import DeltaTarget
from state_processor.applications.lake.sync import TableSync
from state_processor.applications.lake.targets import CHECKPOINT_ID
from tests.claimed_checkpoints import SAVEPOINT, claimed_checkpoint
from tests.state_processor.samples import ORDERS_PATH
from tests.state_processor.written_checkpoints import JOB, UID, remove, rows, set_time, take, take_regional

Table = tuple[str, dict[str, Any], Callable[[], pa.Table], Callable[[], str]]


def table(kind: str, directory: Path) -> Table:
    """Return what ``sync`` takes for a table, and functions that read its rows and its checkpoint id with other libraries."""
    if kind == "delta":
        path = str(directory / "delta")
        return path, {}, lambda: DeltaTable(path).to_pyarrow_table(), lambda: DeltaTable(path).history(1)[0][CHECKPOINT_ID]
    if kind == "parquet":
        file = str(directory / "totals.parquet")
        metadata = lambda: (pq.read_schema(file).metadata or {})[CHECKPOINT_ID.encode()].decode()  # noqa: E731
        return file, {}, lambda: pq.read_table(file), metadata
    catalog = {"uri": f"sqlite:///{directory}/catalog.db", "warehouse": directory.as_uri()}
    loaded = load_catalog("default", type="sql", **catalog)

    def of_snapshot() -> str:
        snapshot = loaded.load_table("lake.totals").current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        return snapshot.summary.additional_properties[CHECKPOINT_ID]

    arguments = {"format": "iceberg", "to_options": catalog}
    return "lake.totals", arguments, lambda: loaded.load_table("lake.totals").scan().to_arrow(), of_snapshot


def content(rows: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in rows.to_pylist()), key=lambda row: row[:-1])


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints" / JOB


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
@pytest.mark.parametrize("state", ["total", "items"])  # one key column, and two
def test_a_table_follows(kind: str, state: str, job: Path, tmp_path: Path) -> None:
    to, arguments, read, checkpoint_id = table(kind, tmp_path)

    def synced() -> sp.SyncCommit | None:
        return sp.sync(job, UID, state, to, **arguments)

    first = take(job, 1)
    commit = synced()
    assert commit is not None
    assert (commit.checkpoint_id, commit.is_full, commit.deletes) == (1, True, 0)
    assert (content(read()), checkpoint_id()) == (rows(first, state), "1")
    assert synced() is None
    second = take(job, 2, {"amelia": 5, "newcomer": 6, "anders": None})
    commit = synced()
    assert commit is not None
    assert (commit.is_full, commit.upserts) == (False, 2)
    assert commit.deletes > 0
    assert (content(read()), checkpoint_id()) == (rows(second, state), "2")
    third = take(job, 3)  # without changes: the table records it all the same
    commit = synced()
    assert commit is not None
    assert (commit.is_full, commit.upserts, commit.deletes, checkpoint_id()) == (False, 0, 0, "3")
    for checkpoint in (first, second, third):  # a base that is gone
        remove(checkpoint)
    assert synced() is None
    commit = (take(job, 5, {"elif": 7}), synced())[1]
    assert commit is not None
    assert (commit.is_full, content(read()), checkpoint_id()) == (True, rows(job / "chk-5", state), "5")


def test_a_restored_job_goes_on_in_a_new_directory(job: Path, tmp_path: Path) -> None:
    to, _, read, _ = table("delta", tmp_path)
    last = take(job, 4, {"amelia": 1})
    sp.sync(job.parent, UID, "total", to)
    restored = job.parent / ("f" * 32)
    wide = tmp_path / "wide"
    sp.arrow.SavepointWriter.from_existing(last).with_max_parallelism(300).with_parallelism(UID, 3).write(wide)
    newest = take(restored, 5, {"amelia": 2}, start=wide)
    commit = sp.sync(job.parent, UID, "total", to)
    assert commit is not None
    assert (commit.checkpoint_id, commit.is_full, commit.upserts, commit.deletes) == (5, False, 1, 0)
    assert content(read()) == rows(newest)


def test_two_jobs_at_the_same_time_are_refused(job: Path, tmp_path: Path) -> None:
    for number in (1, 5):
        take(job, number)
    take(job.parent / ("f" * 32), 3)
    with pytest.raises(sp.UnsupportedFormatError, match=r"two jobs take checkpoints at the same time: checkpoint 5 in .*, and"):
        sp.sync(job.parent, UID, "total", tmp_path / "table")


def test_an_incomplete_checkpoint_is_not_taken(job: Path, tmp_path: Path) -> None:
    take(job, 1)
    (job / "chk-2").mkdir()
    damaged = take(job, 3, {"amelia": 5})
    next(p for p in damaged.iterdir() if p.name != "_metadata").unlink()
    commit = sp.sync(job, UID, "total", tmp_path / "table")
    assert commit is not None
    assert commit.checkpoint_id == 1
    for path in (job / "chk-1", damaged):
        shutil.rmtree(path)
    with pytest.raises(sp.NotFoundError, match="does not have a whole checkpoint: start after the first one is complete"):
        sp.sync(job, UID, "total", tmp_path / "other")


def test_a_checkpoint_with_files_in_a_claimed_savepoint_is_read(tmp_path: Path) -> None:
    """Flink can't restore it (FLINK-39964), but all of its files are there."""
    claimed_checkpoint(tmp_path / "checkpoints", tmp_path / SAVEPOINT)
    to, _, read, _ = table("parquet", tmp_path)
    assert sp.sync(tmp_path / "checkpoints", UID, "total", to) is not None
    assert content(read()) == rows(Path(ORDERS_PATH))


def test_a_checkpoint_of_a_job_that_starts_again_in_its_directory(job: Path, tmp_path: Path) -> None:
    """The path and the id are the same, the content of ``_metadata`` differs."""
    to, _, read, _ = table("delta", tmp_path)
    take(job, 1, {"amelia": 1})
    sp.sync(job, UID, "total", to)
    remove(job / "chk-1")
    take(job, 1, {"amelia": 2})
    os.utime(job / "chk-1" / "_metadata", (1_800_000_000, 1_800_000_000))
    commit = sp.sync(job, UID, "total", to)
    assert commit is not None
    assert commit.is_full
    assert content(read()) == rows(job / "chk-1")


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_tables_of_others_are_refused(kind: str, job: Path, tmp_path: Path) -> None:
    to, arguments, _, _ = table(kind, tmp_path)
    take(job, 1)
    foreign = pa.table({"key": ["a"], "value": [1]})
    if kind == "delta":
        write_deltalake(to, foreign)
    elif kind == "parquet":
        pq.write_table(foreign, to)
    else:
        catalog = load_catalog("default", type="sql", **arguments["to_options"])
        catalog.create_namespace("lake")
        catalog.create_table(to, schema=foreign.schema).append(foreign)
    with pytest.raises(sp.WriteError, match=r"(another program.*|)[Cc]hoose a new"):
        sp.sync(job, UID, "total", to, **arguments)


def test_a_table_that_another_program_changed_is_refused(job: Path, tmp_path: Path) -> None:
    to, _, read, _ = table("delta", tmp_path)
    take(job, 1)
    sp.sync(job, UID, "total", to)
    DeltaTable(to).optimize.compact()
    take(job, 2, {"amelia": 3})
    assert sp.sync(job, UID, "total", to) is not None
    write_deltalake(to, read().slice(0, 1), mode="append")
    take(job, 3)
    with pytest.raises(sp.WriteError, match=r"another program wrote version \d \(WRITE\)"):
        sp.sync(job, UID, "total", to)


@pytest.mark.parametrize(
    "change", [lambda rows: rows.slice(1), lambda rows: rows.set_column(1, "value", pa.nulls(len(rows), "int64"))]
)
@pytest.mark.parametrize("is_newest", [True, False])
def test_a_file_that_another_program_wrote_again_gets_all_rows(
    is_newest: bool, change: Callable[[pa.Table], pa.Table], job: Path, tmp_path: Path
) -> None:
    """A file that pyarrow reads, changes and writes has the position of the rows before."""
    file = tmp_path / "totals.parquet"
    newest = take(job, 1)
    sp.sync(job, UID, "total", file)
    pq.write_table(change(pq.read_table(file)), file)
    assert CHECKPOINT_ID.encode() in pq.read_schema(file).metadata
    if not is_newest:
        newest = take(job, 2, {"amelia": 4})
    commit = sp.sync(job, UID, "total", file)
    assert commit is not None
    assert (commit.is_full, commit.reason) == (True, "the options of its rows were not recorded")
    assert content(pq.read_table(file)) == rows(newest)
    assert sp.sync(job, UID, "total", file) is None


def test_other_states_and_lists_are_refused(job: Path, tmp_path: Path) -> None:
    take(job, 1)
    sp.sync(job, UID, "total", tmp_path / "table")
    with pytest.raises(sp.OptionError, match=r"the table has state 'total' of operator [0-9a-f]{32}, not state 'session'"):
        sp.sync(job, UID, "session", tmp_path / "table")
    with pytest.raises(sp.UnsupportedFormatError, match="elements of a list do not have a key"):
        sp.sync(job, "catalog", "pending", tmp_path / "list")
    with pytest.raises(sp.OptionError, match=r"format='orc': expected one of delta, iceberg, parquet"):
        sp.sync(job, UID, "total", tmp_path / "table", format="orc")
    with pytest.raises(sp.OptionError, match=r"the Iceberg table 'totals': expected a namespace and a name, such as lake"):
        sp.sync(job, UID, "total", "totals", format="iceberg")


@pytest.mark.parametrize("state", ["profile", "_timer_state/event_user-timers"])
def test_values_with_fields_and_timers(state: str, job: Path, tmp_path: Path) -> None:
    first = take(job, 1)
    sp.sync(job, UID, state, tmp_path / "table.parquet")
    sp.sync(job, UID, state, tmp_path / "delta")
    take(job, 2, {"anders": None})
    for to in ("table.parquet", "delta"):
        commit = sp.sync(job, UID, state, tmp_path / to)
        assert commit is not None
        assert not commit.is_full
    found = (pq.read_table(tmp_path / "table.parquet"), DeltaTable(tmp_path / "delta").to_pyarrow_table())
    wanted = sorted(repr(row) for row in sp.arrow.diff(first, first, UID, state).read_all().to_pylist())
    assert wanted == []
    kept = sorted(repr(row) for row in found[0].to_pylist())
    assert kept == sorted(repr(row) for row in found[1].to_pylist())
    assert kept
    assert not any("anders" in row for row in kept)


def test_the_command(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    take(job, 1)
    arguments = ["sync", str(job), "--uid", UID, "--state", "total", "--to", str(tmp_path / "totals.parquet")]
    assert cli.main(arguments) == 0
    assert capsys.readouterr().out.startswith("checkpoint 1: all ")
    assert cli.main(arguments) == 1
    assert "newest checkpoint" in capsys.readouterr().out
    take(job, 2, {"amelia": 1})
    assert cli.main([*arguments, "--json"]) == 0
    assert '"checkpoint_id": 2' in capsys.readouterr().out
    assert cli.main([*arguments, "--interval", "1s"]) == 2
    assert "--interval acts only with --follow" in capsys.readouterr().err
    assert cli.main([*arguments, "--to-option", "x"]) == 2


def test_the_command_gives_its_options_to_the_table(job: Path, tmp_path: Path) -> None:
    take(job, 1)
    to, arguments, read, _ = table("iceberg", tmp_path)
    options = [part for item in arguments["to_options"].items() for part in ("--to-option", "=".join(item))]
    where = ["--uid", UID, "--state", "total", "--to", to, "--format", "iceberg"]
    assert cli.main(["sync", str(job), *where, *options]) == 0
    assert content(read()) == rows(job / "chk-1")


def test_the_command_follows(
    job: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A commit for each checkpoint, with ``--interval`` between two looks, until Ctrl-C.

    It waits for the directory, for a checkpoint, and for a checkpoint with the state.
    """
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 5:
            raise KeyboardInterrupt
        if len(waits) == 1:
            job.parent.mkdir()
        elif len(waits) == 2:
            without = sp.arrow.SavepointWriter.from_existing(ORDERS_PATH).remove_state(UID, "total")
            without.write(job / "chk-2", checkpoint_id=2, allow_lower_checkpoint_id=True)
            set_time(job / "chk-2", 2)
        else:
            take(job, len(waits), {"amelia": len(waits)}, start=ORDERS_PATH)

    monkeypatch.setattr("state_processor.applications.lake.sync.sleep", wait)
    file = tmp_path / "totals.parquet"
    follow = ["--follow", "--interval", "1500ms", "--json"]
    code = cli.main(["sync", str(job.parent), "--uid", UID, "--state", "total", "--to", str(file), *follow])
    assert code == cli.INTERRUPTED
    assert waits == [1.5] * 5
    assert [json.loads(line)["checkpoint_id"] for line in capsys.readouterr().out.splitlines()] == [3, 4]
    assert content(pq.read_table(file)) == rows(job / "chk-4")
    said = [record.message for record in caplog.records if "Waiting" in record.message]
    assert [text.partition(" Waiting for ")[2] for text in said] == ["the first checkpoint"] * 2 + ["a checkpoint with the state"]
    assert "is not a directory" in said[0]
    assert "no state 'total' in operator 'orders'. It has" in said[2]


def test_another_operator_is_not_waited_for(job: Path, tmp_path: Path) -> None:
    take(job, 1)
    arguments = ["sync", str(job), "--uid", "order", "--state", "total", "--to", str(tmp_path / "table"), "--follow"]
    assert cli.main(arguments) == 2


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_a_state_that_is_gone_leaves_an_empty_table(kind: str, job: Path, tmp_path: Path) -> None:
    to, arguments, read, checkpoint_id = table(kind, tmp_path)
    first = take(job, 1)
    sp.sync(job, UID, "total", to, **arguments)
    columns = read().schema.names
    for number in (2, 3, 4):
        without = sp.arrow.SavepointWriter.from_existing(first).remove_state(UID, "total")
        without.write(job / f"chk-{number}", checkpoint_id=number)
        if number == 4:
            remove(job / "chk-3")
        assert sp.sync(job, UID, "total", to, **arguments) is not None
        assert (content(read()), checkpoint_id(), read().schema.names) == ([], str(number), columns)
    take(job, 5, {"amelia": 5}, start=first)
    (job / "chk-5" / "_metadata").touch()
    sp.sync(job, UID, "total", to, **arguments)
    assert content(read()) == rows(job / "chk-5")


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_a_type_that_changes(kind: str, job: Path, tmp_path: Path) -> None:
    """Fields that are added, fields that are gone, and another type: the table has what the state has."""
    to, arguments, read, _ = table(kind, tmp_path)
    text, number = sp.Types.STRING(), sp.Types.INT()
    account = partial(sp.Types.POJO, "com.teashop.Account")
    steps: tuple[tuple[Any, list[Any]], ...] = (
        (account({"name": text, "points": number}), [{"name": "A", "points": 1}, {"name": "B", "points": 2}]),
        (account({"email": text, "name": text, "points": number}), [{"email": "x", "name": "A", "points": 1}]),
        (account({"email": text, "name": text, "points": number}), [{"email": "y", "name": "A", "points": 1}]),
        (account({"name": text}), [{"name": "A"}, {"name": "C"}]),
        (sp.Types.LONG(), [1, 2, 3]),
        (text, ["x"]),
    )
    for at, (value_type, values) in enumerate(steps, 1):
        writer = sp.arrow.SavepointWriter.new(max_parallelism=4, flink_version="2.0")
        accounts = [{"key": f"k{i}", "account": value} for i, value in enumerate(values)]
        writer.with_keyed_state(UID, accounts, key="key", states={"account": sp.ValueState(value_type)})
        writer.write(job / f"chk-{at}", checkpoint_id=at)
        commit = sp.sync(job, UID, "account", to, **arguments)
        assert commit is not None
        assert (at, commit.is_full, content(read())) == (at, at != 3, rows(job / f"chk-{at}", "account"))


def test_a_compaction_during_a_commit(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is read again, and the changes are written once."""
    to, _, read, _ = table("delta", tmp_path)
    take(job, 1)
    sp.sync(job, UID, "total", to)
    take(job, 2, {"amelia": 5, "newcomer": 6})
    sp.sync(job, UID, "total", to)
    take(job, 3, {"amelia": 7, "another": 8})
    apply, calls = DeltaTarget.apply, list[str]()

    def late(target: DeltaTarget, *given: Any) -> None:
        calls.append("apply")
        if len(calls) == 1:
            DeltaTable(to).optimize.z_order(["key"])
        apply(target, *given)

    monkeypatch.setattr(DeltaTarget, "apply", late)
    commit = sp.sync(job, UID, "total", to)
    assert commit is not None
    assert (commit.upserts, len(calls)) == (2, 2)
    assert content(read()) == rows(job / "chk-3")


def test_leftovers_of_a_killed_write_are_removed(job: Path, tmp_path: Path) -> None:
    take(job, 1)
    left = tmp_path / ".totals.parquet.0123"
    left.write_bytes(b"PAR1")
    sp.sync(job, UID, "total", tmp_path / "totals.parquet")
    assert not left.exists()


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_a_checkpoint_that_is_removed_while_it_is_written(
    kind: str, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next newest checkpoint is taken."""
    to, arguments, read, checkpoint_id = table(kind, tmp_path)
    take(job, 1)
    read_step = StepReader.read

    def removed(reader: StepReader, split: Any) -> Iterator[pa.RecordBatch]:
        if reader.step.after.checkpoint_id == 1:
            take(job, 2, {"amelia": 5})
            remove(job / "chk-1")
        yield from read_step(reader, split)

    monkeypatch.setattr(StepReader, "read", removed)
    commit = sp.sync(job, UID, "total", to, **arguments)
    assert commit is not None
    assert (content(read()), checkpoint_id()) == (rows(job / "chk-2"), "2")


def dated(job: Path, number: int, days: dict[str, int]) -> Path:
    """Write a checkpoint with calendar days, as the clocks in the zone of the job show them."""
    path = job / f"chk-{number}"
    writer = sp.arrow.SavepointWriter.new(max_parallelism=4, flink_version="2.0")
    entries = [{"key": key, "day": datetime.date(2024, 1, day)} for key, day in days.items()]
    writer.with_keyed_state(UID, entries, key="key", states={"day": sp.ValueState(sp.Types.SQL_DATE())})
    writer.write(path, checkpoint_id=number)
    os.utime(path / "_metadata", (1_700_000_000 + number,) * 2)
    return path


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_another_option_writes_all_rows(kind: str, job: Path, tmp_path: Path) -> None:
    """A table never has days of two time zones, whether or not there is a newer checkpoint."""
    to, arguments, read, _ = table(kind, tmp_path)
    dated(job, 1, {"a": 1, "b": 1})
    sp.sync(job, UID, "day", to, **arguments)
    dated(job, 2, {"a": 1, "b": 2})
    zone = {"time_zone": "America/New_York"}
    commit = sp.sync(job, UID, "day", to, **arguments, **zone)
    assert commit is not None
    assert (commit.is_full, commit.upserts) == (True, 2)
    assert commit.reason == "time_zone was not set and is America/New_York"
    assert content(read()) == [("a", datetime.date(2023, 12, 31)), ("b", datetime.date(2024, 1, 1))]
    assert sp.sync(job, UID, "day", to, **arguments, **zone) is None
    commit = sp.sync(job, UID, "day", to, **arguments)  # the checkpoint is the same
    assert commit is not None
    assert commit.is_full
    assert content(read()) == [("a", datetime.date(2024, 1, 1)), ("b", datetime.date(2024, 1, 2))]


def test_a_table_of_an_earlier_version_is_written_again(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    to = str(tmp_path / "totals.parquet")
    take(job, 1)
    with monkeypatch.context() as patch:
        patch.setattr(sp, "__version__", "0.0.9")
        sp.sync(job, UID, "total", to)
    assert cli.main(["sync", str(job), "--uid", UID, "--state", "total", "--to", to]) == 0
    assert "rows written (the version of state-processor was 0.0.9 and is " in capsys.readouterr().out


def test_another_directory_with_older_checkpoints(job: Path, tmp_path: Path) -> None:
    """The checkpoint that the table has is still there, in the directory before."""
    to, elsewhere = str(tmp_path / "totals.parquet"), tmp_path / "backup" / JOB
    for directory, number, value in ((elsewhere, 3, 3), (job, 4, 4)):
        take(directory, number, {"amelia": value})
    assert sp.sync(job, UID, "total", to) is not None
    commit = sp.sync(elsewhere, UID, "total", to)
    assert commit is not None
    assert (commit.checkpoint_id, content(pq.read_table(to))) == (3, rows(elsewhere / "chk-3"))
    assert sp.sync(elsewhere, UID, "total", to) is None


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_a_directory_that_was_rolled_back(kind: str, job: Path, tmp_path: Path) -> None:
    """The table has rows that no checkpoint has any more: it is written again from the older checkpoint."""
    to, arguments, read, checkpoint_id = table(kind, tmp_path)
    first = take(job, 1, {"amelia": 1})
    backup = shutil.copytree(job, tmp_path / "backup")
    take(job, 2, {"amelia": 2})
    sp.sync(job, UID, "total", to, **arguments)
    shutil.rmtree(job)
    shutil.copytree(backup, job)
    commit = sp.sync(job, UID, "total", to, **arguments)
    assert commit is not None
    assert (commit.is_full, commit.checkpoint_id, checkpoint_id()) == (True, 1, "1")
    assert commit.reason.endswith(f"{job / 'chk-2'}, which the table has, is gone or was replaced")
    assert content(read()) == rows(first)


def test_a_checkpoint_that_was_replaced_with_the_same_time(job: Path, tmp_path: Path) -> None:
    """Also for a process that has seen the former checkpoint."""
    to, _, read, _ = table("delta", tmp_path)
    take(job, 1, {"amelia": 1})
    following = TableSync.of(job, UID, "total", to, None, None, {})
    assert following.advance() is not None
    times = os.stat(job / "chk-1" / "_metadata")
    for value in (2, 3):
        remove(job / "chk-1")
        take(job, 1, {"amelia": value})
        os.utime(job / "chk-1" / "_metadata", ns=(times.st_atime_ns, times.st_mtime_ns))
        commit = following.advance()
        assert commit is not None
        assert commit.is_full
        assert content(read()) == rows(job / "chk-1")
        assert following.advance() is None


def test_a_newest_checkpoint_that_lacks_files_keeps_the_table(job: Path, tmp_path: Path) -> None:
    """It is not gone: the table does not go back to an earlier checkpoint."""
    to, _, read, _ = table("parquet", tmp_path)
    take(job, 1)
    damaged = take(job, 2, {"amelia": 5})
    sp.sync(job, UID, "total", to)
    next(p for p in damaged.iterdir() if p.name != "_metadata").unlink()
    before = content(read())
    assert sp.sync(job, UID, "total", to) is None
    assert content(read()) == before


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_renamed_operator_is_not_an_empty_state(kind: str, is_gone: bool, job: Path, tmp_path: Path) -> None:
    to, arguments, read, checkpoint_id = table(kind, tmp_path)
    first = take(job, 1)
    sp.sync(job, UID, "total", to, **arguments)
    before = content(read())
    renamed = sp.arrow.SavepointWriter.from_existing(first).change_operator_identifier(UID, "orders-v2")
    renamed.write(job / "chk-2", checkpoint_id=2)
    if is_gone:
        remove(first)
    message = r"does not have the operator orders any more\. Its new name is likely 'orders-v2'"
    with pytest.raises(sp.NotFoundError, match=message):
        sp.sync(job, UID, "total", to, **arguments)
    assert (content(read()), checkpoint_id()) == (before, "1")
    command = ["sync", str(job), "--uid", UID, "--state", "total", "--to", to]
    if kind != "iceberg":
        assert cli.main(command) == 2
        assert cli.main([*command, "--allow-missing"]) == 0
    else:
        sp.sync(job, UID, "total", to, allow_missing=True, **arguments)
    assert (content(read()), checkpoint_id()) == ([], "2")


def test_a_renamed_state_is_not_an_empty_state(job: Path, tmp_path: Path) -> None:
    to, _, read, _ = table("parquet", tmp_path)
    first = take(job, 1)
    sp.sync(job, UID, "total", to)
    totals = sp.arrow.read_state(first, UID, "total").read_all().rename_columns(["key", "total-v2"])
    renamed = sp.arrow.SavepointWriter.from_existing(first).remove_state(UID, "total")
    renamed.with_keyed_state(UID, totals, key="key", states={"total-v2": sp.ValueState(sp.Types.LONG())})
    renamed.write(job / "chk-2", checkpoint_id=2)
    message = r"the state 'total' of operator orders any more\. Its new name is likely 'total-v2'"
    with pytest.raises(sp.NotFoundError, match=message):
        sp.sync(job, UID, "total", to)
    assert content(read()) == rows(first)
    commit = sp.sync(job, UID, "total", to, allow_missing=True)
    assert commit is not None
    assert content(read()) == []


def test_keys_of_another_type_write_all_rows(job: Path, tmp_path: Path) -> None:
    """A changelog of these would delete and insert the same key."""
    to, _, read, _ = table("delta", tmp_path)
    for at, key_type in enumerate((sp.Types.CHAR(), sp.Types.STRING()), 1):
        writer = sp.arrow.SavepointWriter.new(max_parallelism=4, flink_version="2.0")
        entries = [{"key": "S", "n": at}, {"key": "M", "n": at}]
        states = {"n": sp.ValueState(sp.Types.LONG())}
        writer.with_keyed_state(UID, entries, key="key", key_type=key_type, states=states)
        writer.write(job / f"chk-{at}", checkpoint_id=at)
        commit = sp.sync(job, UID, "n", to)
        assert commit is not None
        assert content(read()) == [("M", at), ("S", at)]
    assert "keys of another type" in commit.reason


@pytest.mark.parametrize("is_full", [True, False])
def test_a_regional_checkpoint_mixes_several_times(
    is_full: bool, job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "totals.parquet"
    take(job, 1)
    take(job, 2, {"amelia": 5, "elif": 6, "k": 7})
    if not is_full:
        commit = sp.sync(job, UID, "total", target)
        assert commit is not None
        assert commit.note == ""
    take(job, 3, {"amelia": 8, "elif": 9, "k": 10})
    mixed = take_regional(job, 3, earlier=1)
    assert cli.main(["sync", str(job), "--uid", UID, "--state", "total", "--to", str(target), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["is_full"] is is_full
    assert answer["note"] == (
        f"checkpoint 3 in {mixed} mixes several times: 1 of 2 subtasks of operator 'orders' have the state of checkpoint 1, "
        "since their region failed"
    )
    assert content(pq.read_table(target)) == rows(mixed)  # rows go back to checkpoint 1, too
    assert rows(mixed) != rows(job / "chk-2")
