"""A search and an erasure in all jobs of a fleet."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.cli import main
from state_processor.types.answers import Answer
from tests.state_processor.applications.fleet.jobs import CLICKS, ORDERS, checkpoint
from tests.state_processor.samples import savepoint_with_mentions

PERSON, DAMAGED = "zoë@example.com", "0c" * 16
ALL = ("fields", "elements", "entries", "keys")


def job(path: Path, name: str = "anders", number: int = 1) -> Path:
    """Write a checkpoint whose key and value have a name; all of its state can be decoded."""
    writer = sp.arrow.SavepointWriter.new(flink_version="2.0")
    rows = [{"key": name, "email": f"{name}@x"}, {"key": "bob", "email": "b"}]
    writer.with_keyed_state("people", rows, states={"email": sp.ValueState(sp.Types.STRING())}).write(
        path / f"chk-{number}", checkpoint_id=number
    )
    return path / f"chk-{number}"


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """Three jobs: one with the person, one without, and one that can't be read."""
    job(tmp_path / "a" / ORDERS, number=1)
    newest = job(tmp_path / "a" / ORDERS, number=2)
    job(tmp_path / "a" / CLICKS, "carla")
    (job(tmp_path / "b" / DAMAGED) / "_metadata").write_bytes(b"\0" * 100)
    assert newest.name == "chk-2"
    return tmp_path


def rows_of(report: sp.FleetErasure) -> dict[str, dict[str, Any]]:
    return {job.job: job.as_row() for job in report.jobs}


def files(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def test_the_newest_snapshot_of_each_job_is_searched(jobs: Path) -> None:
    found = sp.find_in_fleet([jobs / "a", jobs / "b"], text="anders")
    rows = {row["job"]: row for row in found.jobs.to_pylist()}
    assert {name: row["answer"] for name, row in rows.items()} == {ORDERS: "yes", CLICKS: "no", DAMAGED: Answer.UNCHECKED}
    assert found.answer == Answer.UNCHECKED
    places = [(row["job"], Path(row["snapshot"]).name, row["field"]) for row in found.table.to_pylist()]
    assert sorted(places) == [(ORDERS, "chk-2", "key"), (ORDERS, "chk-2", "value")]
    assert (rows[ORDERS]["places"], rows[ORDERS]["count"], rows[CLICKS]["places"]) == (2, 2, 0)
    assert DAMAGED in rows[DAMAGED]["error"]
    assert rows[DAMAGED]["snapshot"] is None
    assert found.table.schema.names[:2] == ["job", "snapshot"]
    assert all(name in str(found) for name in (ORDERS, CLICKS, DAMAGED))
    assert sp.find_in_fleet(jobs / "a", text="anders").answer == Answer.YES
    assert sp.find_in_fleet(jobs / "a", text="nobody").answer == Answer.NO


def test_a_job_that_is_reached_twice_is_searched_once(jobs: Path) -> None:
    (jobs / "link").symlink_to(jobs / "a" / ORDERS)
    found = sp.find_in_fleet([jobs / "a", jobs, jobs / "a" / ORDERS, jobs / "link"], text="anders")
    assert [row["job"] for row in found.jobs.to_pylist()] == [ORDERS, CLICKS, DAMAGED]
    assert found.table.num_rows == 2


def test_a_newer_snapshot_without_files_and_directories_that_are_not_searched_are_rows(jobs: Path) -> None:
    for file in checkpoint(jobs / "a" / ORDERS, 3, -timedelta(hours=1), 5000).iterdir():
        if file.name != "_metadata":
            file.unlink()
    (jobs / "a" / CLICKS / "chk-2").mkdir()
    job(jobs / "a" / "far" / "away" / "0d0d")
    found = sp.find_in_fleet([jobs / "a", jobs / "none"], text="anders", depth=2)
    rows = {Path(row["directory"]).name: row for row in found.jobs.to_pylist()}
    assert Path(rows[ORDERS]["snapshot"]).name == "chk-2"
    assert rows[ORDERS]["places"] == 2
    assert "lacks files" in rows[ORDERS]["error"]
    assert "depth=3" in rows["0d0d"]["error"]
    assert "is not a directory" in rows["none"]["error"]
    answers = {name: row["answer"] for name, row in rows.items()}
    assert answers == {ORDERS: Answer.UNCHECKED, CLICKS: "no", "0d0d": Answer.UNCHECKED, "none": Answer.UNCHECKED}


def test_state_that_can_not_be_decoded_is_counted_by_job(jobs: Path) -> None:
    savepoint_with_mentions(jobs / "a" / "mixed" / "chk-1")
    found = sp.find_in_fleet(jobs / "a", text="carla")
    row = next(row for row in found.jobs.to_pylist() if row["job"].endswith("mixed"))
    assert (row["answer"], row["undecoded"]) == (Answer.UNCHECKED, 1)
    assert [row["job"] for row in found.undecoded.to_pylist()] == [str(jobs / "a" / "mixed")]
    assert found.answer == Answer.UNCHECKED


def test_what_is_found_before_an_error_counts(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from state_processor.applications.finding.state_search import StateSearch

    search = StateSearch.search

    def failing(self: StateSearch, operator: Any) -> None:
        search(self, operator)
        raise ZeroDivisionError("a library")

    monkeypatch.setattr(StateSearch, "search", failing)
    found = sp.find_in_fleet(jobs / "a", text="anders")
    rows = {row["job"]: row for row in found.jobs.to_pylist()}
    assert (rows[ORDERS]["places"], rows[ORDERS]["answer"]) == (2, Answer.UNCHECKED)
    assert "ZeroDivisionError: a library" in rows[CLICKS]["error"]


def test_a_key_of_some_jobs(jobs: Path) -> None:
    savepoint_with_mentions(jobs / "a" / "mixed" / "chk-1")
    found = sp.find_in_fleet(jobs / "a", key=["anders", 3])
    assert {row["job"] for row in found.table.to_pylist()} == {ORDERS, str(jobs / "a" / "mixed")}
    with pytest.raises(sp.OptionError, match=r"no operator has keys of the type of 2\.5"):
        sp.find_in_fleet(jobs / "a", key=[2.5])
    report = sp.erase_in_fleet(jobs / "a", jobs / "new", key=["anders", 3], remove="keys")
    rows = rows_of(report)
    assert (rows[ORDERS]["removed"], rows[ORDERS]["answer"]) == (1, Answer.YES)
    assert rows[str(jobs / "a" / "mixed")]["removed"] == 2
    assert not sp.find(jobs / "new" / "mixed", key=3)
    assert sp.arrow.read_state(jobs / "new" / ORDERS, "people", "email").read_all()["key"].to_pylist() == ["bob"]


def test_a_savepoint_is_written_for_each_job_with_the_person(jobs: Path) -> None:
    before = files(jobs)
    report = sp.erase_in_fleet([jobs / "a", jobs / "b"], jobs / "new", text="anders", remove=["keys"])
    rows = rows_of(report)
    assert [path.name for path in (jobs / "new").iterdir()] == [ORDERS]
    assert (rows[ORDERS]["target"], rows[ORDERS]["left"], rows[ORDERS]["removed"]) == (str(jobs / "new" / ORDERS), 0, 1)
    assert {name: row["answer"] for name, row in rows.items()} == {
        ORDERS: Answer.YES,
        CLICKS: Answer.YES,
        DAMAGED: Answer.UNCHECKED,
    }
    assert (report.answer, bool(report)) == (Answer.UNCHECKED, False)
    assert DAMAGED in (rows[DAMAGED]["error"] or "")
    assert not sp.find(jobs / "new" / ORDERS, text="anders")
    assert sp.find(jobs / "new" / ORDERS, text="bob")
    assert {path: data for path, data in files(jobs).items() if path in before} == before
    assert sp.erase_in_fleet(jobs / "a" / CLICKS, jobs / "other", text="anders", remove=["keys"])
    assert not (jobs / "other").exists()


def test_jobs_of_one_name_do_not_collide_and_nothing_is_replaced(tmp_path: Path) -> None:
    for cluster in ("blue", "green"):
        job(tmp_path / cluster / ORDERS)
    job(tmp_path / "red" / f"{ORDERS}-2")
    target = tmp_path / "new"
    report = sp.erase_in_fleet([tmp_path / name for name in ("blue", "green", "red")], target, text="anders", remove="keys")
    assert report.answer == Answer.YES
    targets = {Path(job.directory).parent.name: Path(job.as_row()["target"]).name for job in report.jobs}
    assert targets == {"blue": ORDERS, "green": f"{ORDERS}-2", "red": f"{ORDERS}-2-2"}
    shutil.rmtree(target / ORDERS)
    before = files(target)
    again = sp.erase_in_fleet([tmp_path / "blue", tmp_path / "green"], target, text="anders", remove="keys")
    assert [job.answer for job in again.jobs] == [Answer.YES, Answer.NO]
    assert "exists, and is not replaced" in (again.jobs[1].error or "")
    assert {path: data for path, data in files(target).items() if path in before} == before


def test_a_refusal_does_not_stop_the_others(jobs: Path) -> None:
    savepoint_with_mentions(jobs / "a" / "0a mixed" / "chk-1", "anders")
    report = sp.erase_in_fleet(jobs / "a", jobs / "new", text="anders", remove=["keys", "entries"])
    rows = rows_of(report)
    mixed = rows[str(jobs / "a" / "0a mixed")]
    assert (mixed["answer"], mixed["target"], mixed["left"]) == (Answer.NO, None, 7)
    assert "does not apply where the text is" in mixed["error"]
    assert rows[ORDERS]["answer"] == Answer.YES
    assert report.answer == Answer.NO
    assert [path.name for path in (jobs / "new").iterdir()] == [ORDERS]


def test_the_report_has_placeholders(jobs: Path) -> None:
    savepoint_with_mentions(jobs / "a" / "mixed" / "chk-1", PERSON)
    report = sp.erase_in_fleet(jobs, jobs / "new", text=PERSON, remove=["fields"])
    refused = sp.erase_in_fleet(jobs, jobs / "other", key=PERSON, text="zo", remove=["keys"])
    for text in (str(report), report.to_json(), str(refused), refused.to_json()):
        assert PERSON not in text
        assert "text 1" in text
    assert "does not apply" in str(report)
    assert PERSON in report.to_json(reveal=True)
    assert PERSON in report.to_text(reveal=True)
    content = json.loads(report.to_json())
    assert content["answer"] == "no"
    assert {row["job"]: row["answer"] for row in content["jobs"]}[DAMAGED] == Answer.UNCHECKED


def test_a_savepoint_that_could_not_be_checked_is_in_the_report(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from state_processor.applications.erasing.erasure import Erasure

    def failing(*_: object) -> None:
        raise OSError("a disk")

    monkeypatch.setattr(Erasure, "_search_files", failing)
    report = sp.erase_in_fleet(jobs / "a", jobs / "new", text="anders", remove=["keys"])
    (erased,) = (job for job in report.jobs if job.job == ORDERS)
    assert erased.answer == Answer.NO
    assert f"{jobs / 'new' / ORDERS} was written, and not checked" in (erased.error or "")


def test_options_are_refused_before_a_job_is_read(jobs: Path) -> None:
    for options, message in (
        ({"text": "a", "remove": "key"}, "expected some of keys"),
        ({"key": "a", "remove": "fields"}, "key needs remove='keys'"),
        ({"remove": "keys"}, "nothing to"),
        ({"text": "a", "remove": "keys", "depth": -1}, "depth"),
    ):
        with pytest.raises(sp.OptionError, match=message):
            sp.erase_in_fleet(jobs, jobs / "new", **options)
    (jobs / "empty").mkdir()
    with pytest.raises(sp.NotASnapshotError, match="no job is below"):
        sp.find_in_fleet(jobs / "empty", text="a")
    with pytest.raises(sp.OptionError, match="nothing to find"):
        sp.find_in_fleet(jobs)
    assert not (jobs / "new").exists()


def test_the_commands(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, new = str(jobs / "a"), str(jobs / "b"), str(jobs / "new")
    assert main(["find", "--fleet", a, "--text", "anders"]) == 0
    assert main(["find", "--fleet", a, "--text", "nobody"]) == 1
    assert main(["find", "--fleet", a, b, "--text", "anders", "--json"]) == 3
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [row["job"] for row in lines] == [ORDERS, CLICKS, DAMAGED, ORDERS, ORDERS]
    erase = ["--text", "anders", "--remove", "keys"]
    assert main(["erase", "--fleet", a, new, *erase, "--dry-run"]) == 0
    assert f"{new} was not written (--dry-run)" in capsys.readouterr().out
    assert not Path(new).exists()
    assert main(["erase", "--fleet", a, b, new, *erase, "--report", str(jobs / "report.json")]) == 3
    assert json.loads((jobs / "report.json").read_text())["answer"] == Answer.UNCHECKED
    assert ORDERS in capsys.readouterr().out
    assert main(["erase", "--fleet", a, new, *erase]) == 1
    for arguments, message in (
        (["erase", a, b, new, *erase], "--fleet"),
        (["erase", a, new, *erase, "--depth", "1"], "--depth is for --fleet"),
        (["find", a, "--text", "a", "--depth", "1"], "--depth is for --fleet"),
        (["erase", "--fleet", a, new, *erase, "--overwrite"], "--overwrite is not for --fleet"),
        (["erase", "--fleet", a, new, "--remove", "keys", "--where", "true", "--uid", "o"], "--where, --uid is not for --fleet"),
        (["erase", a, new, *erase, "--dry-run", "--report", str(jobs / "r")], "leave out --dry-run"),
    ):
        assert main(arguments) == 2
        assert message in capsys.readouterr().err
