"""The check of a snapshot against another job; real Flink's verdicts are in tests/interop/test_job_pairs.py."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.applications.jobs.verdicts import Outcome
from state_processor.cli import main
from state_processor.support.errors import OptionError
from state_processor.types.answers import Answer
from tests.state_processor.samples import ORDERS, ORDERS_PATH

NATIVE = str(next(ORDERS.parent.glob("orders-rocksdb-incremental/**/_metadata")).parent)


def snapshot(path: Path, uid: str = "orders", size: int = 128, **states: Any) -> str:
    writer = sp.arrow.SavepointWriter.new(size, "2.3")
    rows = [{"key": "a"} | dict.fromkeys(states)]
    writer.with_keyed_state(uid, rows, key_type=sp.Types.STRING(), states=states)
    writer.write(path)
    return str(path)


def outcomes(report: sp.JobReport) -> dict[str, str]:
    return {state.state: str(state.outcome) for operator in report.operators for state in operator.states}


POJO = sp.Types.POJO("a.Total", {"cents": sp.Types.LONG()})
MORE = sp.Types.POJO("a.Total", {"cents": sp.Types.LONG(), "currency": sp.Types.STRING()})
LONGS = sp.Types.LONG()


@pytest.mark.parametrize(
    ("old", "new", "backend", "outcome", "reason"),
    [
        (POJO, POJO, None, "restores", ""),
        (POJO, MORE, None, "restores after migration", "value POJO<a.Total> has changed"),
        (LONGS, sp.Types.STRING(), None, "is refused", "value was LONG and is STRING"),
        (sp.ValueState(LONGS), sp.ListState(LONGS), None, "is refused", "was VALUE and is LIST"),
        (sp.MapState(POJO, LONGS), sp.MapState(MORE, LONGS), "rocksdb", "is refused", "in RocksDB and ForSt"),
        (sp.MapState(POJO, LONGS), sp.MapState(MORE, LONGS), "hashmap", "restores after migration", "key of the map"),
    ],
)
def test_states_by_the_rules_of_flink(old: Any, new: Any, backend: Any, outcome: str, reason: str, tmp_path: Path) -> None:
    one, other = snapshot(tmp_path / "1", total=old), snapshot(tmp_path / "2", total=new)
    report = sp.check_job(one, other, flink="2.3", backend=backend)
    ((state,),) = (operator.states for operator in report.operators)
    assert (str(state.outcome), reason in state.reason) == (outcome, True), state.reason
    assert report.restores == (outcome != "is refused")
    assert bool(state.repair) == (outcome == "is refused")


@pytest.mark.parametrize(
    ("flink", "outcome"), [("1.20", "is refused"), ("2.3", "restores after migration"), (None, "is refused")]
)
def test_time_to_live_depends_on_the_version(flink: str | None, outcome: str, tmp_path: Path) -> None:
    one = snapshot(tmp_path / "1", total=sp.ValueState(LONGS))
    other = sp.signature(snapshot(tmp_path / "2", total=sp.ValueState(LONGS, ttl=True)))
    assert outcomes(sp.check_job(one, other, flink=flink)) == {"total": outcome}


def test_an_operator_that_is_gone_is_lost_and_the_repair_works(tmp_path: Path) -> None:
    """The new job has the same states under another uid: one command repairs it."""
    one, other = snapshot(tmp_path / "1", total=LONGS, name=POJO), snapshot(tmp_path / "2", "shop", total=LONGS, name=MORE)
    job = json.loads(str(sp.signature(other)))
    del job["operators"][0]["uid_hash"]
    job["operators"][0]["uid"] = "shop"
    (tmp_path / "job.json").write_text(json.dumps(job), "utf-8")
    report = sp.check_job(one, tmp_path / "job.json", flink="2.3")
    assert [str(o.outcome) for o in report.operators] == ["would be lost", "is new"]
    assert not report.restores
    rename, drop = (
        command.replace("OUT", str(tmp_path / name)).split() for name, command in zip("34", report.repair, strict=True)
    )
    assert (rename[1], drop[1]) == ("rename-uid", "drop-state")
    assert main(rename[1:]) == 0
    repaired = sp.check_job(tmp_path / "3", tmp_path / "job.json", flink="2.3")
    assert repaired.restores
    assert outcomes(repaired) == {"total": "restores", "name": "restores after migration"}


def test_states_without_a_match_are_new_or_unused(tmp_path: Path) -> None:
    one, other = snapshot(tmp_path / "1", total=LONGS), snapshot(tmp_path / "2", count=LONGS)
    report = sp.check_job(one, other, flink="2.3")
    assert outcomes(report) == {"total": "is not used", "count": "is new"}
    assert report.answer is Answer.UNCHECKED  # it may be the same state under another name
    report = sp.check_job(one, snapshot(tmp_path / "3", names=sp.Types.STRING()), flink="2.3")
    assert outcomes(report) == {"total": "is not used", "names": "is new"}
    assert report.answer is Answer.UNCHECKED  # the operator reads none of its states
    both = snapshot(tmp_path / "4", total=LONGS, names=sp.Types.STRING())
    report = sp.check_job(both, one, flink="2.3")
    assert outcomes(report) == {"total": "restores", "names": "is not used"}
    assert report.restores


def test_keyed_state_of_an_operator_that_has_none_is_lost(tmp_path: Path) -> None:
    one = snapshot(tmp_path / "1", total=LONGS)
    writer = sp.arrow.SavepointWriter.new(128, "2.3")
    writer.with_list_state("orders", "offsets", [{"value": 1}], LONGS).write(tmp_path / "2")
    report = sp.check_job(one, tmp_path / "2", flink="2.3")
    assert [(o.outcome, "registers no keyed state" in o.reason) for o in report.operators] == [(Outcome.LOST, True)]


def described(path: Path, **sizes: int) -> Path:
    sizes_text = "".join(f"    {name}: {value}\n" for name, value in sizes.items())
    path.write_text(f"operators:\n  orders:\n    key_type: STRING\n{sizes_text}    states: {{total: LONG}}\n", "utf-8")
    return path


@pytest.mark.parametrize(
    ("sizes", "restores", "text"),
    [
        ({"parallelism": 128}, True, ""),
        ({"parallelism": 200}, False, "parallelism 200 is more than the max parallelism 128 of the snapshot"),
        ({"max_parallelism": 256}, False, "the new job sets max parallelism 256, the snapshot has 128"),
        ({"parallelism": 100, "max_parallelism": 256}, True, "Flink takes over 128, unless the job sets 256"),
    ],
)
def test_sizes(sizes: dict[str, int], restores: bool, text: str, tmp_path: Path) -> None:
    path, job = snapshot(tmp_path / "1", total=LONGS), described(tmp_path / "job.yaml", **sizes)
    report = sp.check_job(path, job, flink="2.3")
    assert report.restores == restores
    assert text in str(report)
    if not restores:
        (command,) = report.repair
        assert main([*command.split()[1:3], str(tmp_path / "3"), *command.split()[4:]]) == 0
        assert sp.check_job(tmp_path / "3", job, flink="2.3").restores


@pytest.mark.parametrize(
    ("path", "backend", "restores"),
    [(ORDERS_PATH, "rocksdb", True), (ORDERS_PATH, "forst", False), (NATIVE, "hashmap", False), (NATIVE, "rocksdb", True)],
)
def test_the_format_has_to_fit_the_backend(path: str, backend: Any, restores: bool, tmp_path: Path) -> None:
    job = sp.signature(ORDERS_PATH)
    report = sp.check_job(sp.signature(path), job, flink="2.3", backend=backend)
    assert (report.answer is not Answer.NO) == restores
    if not restores:
        (command,) = report.repair
        assert main([command.split()[1], path, str(tmp_path / "3"), *command.split()[4:]]) == 0
        assert sp.check_job(tmp_path / "3", job, flink="2.3", backend=backend).answer is not Answer.NO


def test_timers_in_files_of_rocksdb_may_be_ignored(tmp_path: Path) -> None:
    """A job with timers on the heap needs the canonical format. Native files of the new job show where its timers are."""
    timer = pa.Table.from_pylist([{"key": "a", "timestamp": 5, "domain": "event_time", "service": "user-timers"}])
    paths = {}
    for name, timers in (("timers", timer), ("none", timer[:0])):
        for format_, backend in (("canonical", None), ("native", "rocksdb")):
            writer = sp.arrow.SavepointWriter.new(128, "2.3")
            rows = [{"key": "a", "total": 1}]
            writer.with_keyed_state("orders", rows, key_type=sp.Types.STRING(), states={"total": LONGS})
            writer.with_timers("orders", timers)
            paths[name, format_] = str(tmp_path / f"{name}-{format_}")
            writer.write(paths[name, format_], format=format_, backend=backend)
    native, canonical = paths["timers", "native"], paths["timers", "canonical"]
    report = sp.check_job(native, canonical, flink="2.3", backend="rocksdb")
    assert (report.answer, outcomes(report)["total"]) == (Answer.UNCHECKED, "restores")
    assert [command.split()[1] for command in report.repair] == ["check", "convert"]
    assert sp.check_job(native, canonical, flink="2.3", backend="rocksdb", unchanged=["orders"]).restores
    assert main(["convert", native, str(tmp_path / "converted"), "--format", "canonical"]) == 0
    for old, new in ((native, native), (tmp_path / "converted", native), (paths["none", "native"], canonical)):
        assert sp.check_job(old, new, flink="2.3", backend="rocksdb").restores


def test_the_command_has_exit_codes_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = snapshot(tmp_path / "1", total=LONGS), snapshot(tmp_path / "2", total=sp.Types.STRING())
    assert main(["check", one, "--job", one, "--flink", "2.3"]) == 0
    assert main(["check", one, "--job", other, "--flink", "2.3"]) == 1
    assert "To repair:" in capsys.readouterr().out
    assert main(["check", one, "--job", other, "--flink", "2.3", "--json"]) == 1
    (row,) = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (row["outcome"], row["states"][0]["outcome"]) == ("is refused", "is refused")


def test_what_can_not_be_checked_is_no_success(tmp_path: Path) -> None:
    """A job that is described without its states: no verdict on any state of the snapshot."""
    one, job = snapshot(tmp_path / "1", total=LONGS), tmp_path / "job.yaml"
    job.write_text("operators: {orders: {}}", "utf-8")
    report = sp.check_job(one, job, flink="2.3")
    assert (report.restores, str(report.answer)) == (False, "not everything could be checked")
    assert main(["check", one, "--job", str(job), "--flink", "2.3"]) == 3


def test_version_and_backend_of_the_command_decide(tmp_path: Path) -> None:
    ttl = [snapshot(tmp_path / str(has), total=sp.ValueState(LONGS, ttl=has)) for has in (False, True)]
    assert [main(["check", ttl[0], "--job", ttl[1], "--flink", version]) for version in ("1.20", "2.3")] == [1, 0]
    job = tmp_path / "job.json"
    job.write_text(str(sp.signature(ORDERS_PATH)), "utf-8")
    check = ["check", NATIVE, "--job", str(job), "--flink", "2.3", "--backend"]
    report = sp.check_job(NATIVE, job, flink="2.3", backend="rocksdb")
    assert ["was moved" in operator.reason for operator in report.operators[:1]] == [True]
    assert [main([*check, backend]) for backend in ("rocksdb", "hashmap")] == [1, 1]


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(OptionError, match="expected one of hashmap, rocksdb, forst"):
        sp.check_job(ORDERS_PATH, ORDERS_PATH, backend="memory")  # type: ignore[arg-type]


@pytest.mark.parametrize("ttl", [True, False])
def test_time_to_live_is_repaired_without_a_loss(ttl: bool, tmp_path: Path) -> None:
    """Every value is kept by the first line of the advice; dropping is the last one, and says what it loses."""
    paths = [str(tmp_path / name) for name in "12"]
    for path, has_ttl in zip(paths, (not ttl, ttl), strict=True):
        writer = sp.arrow.SavepointWriter.new(128, "1.20")
        rows, states = [{"key": "a", "total": 7}], {"total": sp.ValueState(LONGS, ttl=has_ttl)}
        writer.with_keyed_state("orders", rows, key_type=sp.Types.STRING(), states=states).write(path)
    one, job = paths[0], sp.signature(paths[1], uids=["orders"])
    with_ttl, drop = sp.check_job(one, job, flink="1.20", uids=["orders"]).repair
    assert drop.endswith(f"drop-state {one} OUT --uid orders --state total  # loses all values of the state")
    command = shlex.split(with_ttl.replace("OUT", str(tmp_path / "3")), comments=True)
    assert main(command[1:]) == 0
    assert sp.check_job(tmp_path / "3", job, flink="1.20").restores
    assert sp.arrow.read_state(tmp_path / "3", "orders", "total").read_all().to_pylist() == read(one) != []


def test_a_repair_of_time_to_live_names_what_the_new_type_drops(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in "12"]
    total = {"cents": 7, "currency": "EUR"}
    for path, type_, value, has_ttl in ((paths[0], MORE, total, True), (paths[1], POJO, {"cents": 7}, False)):
        writer = sp.arrow.SavepointWriter.new(128, "1.20")
        rows, states = [{"key": "a", "total": value}], {"total": sp.ValueState(type_, ttl=has_ttl)}
        writer.with_keyed_state("orders", rows, key_type=sp.Types.STRING(), states=states).write(path)
    with_ttl, *_ = sp.check_job(paths[0], paths[1], flink="1.20").repair
    assert " --off  # " in with_ttl
    assert "currency" in with_ttl.partition("  # ")[2]


def read(path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sp.arrow.read_state(path, "orders", "total").read_all().to_pylist()
    return found


def test_an_operator_that_lost_its_uid_gets_the_hash_of_the_new_job(tmp_path: Path) -> None:
    one, new = str(tmp_path / "1"), "0123456789abcdef0123456789abcdef"
    writer = sp.arrow.SavepointWriter.new(128, "2.3")
    writer.with_keyed_state("orders", [{"key": "a", "total": 7}], key_type=sp.Types.STRING(), states={"total": LONGS}).write(one)
    (state,) = json.loads(str(sp.signature(one)))["operators"]
    del state["uid"]
    (tmp_path / "job.json").write_text(json.dumps({"version": 1, "operators": [state | {"uid_hash": new}]}), "utf-8")
    rename, drop = sp.check_job(one, tmp_path / "job.json", flink="2.3").repair
    assert drop.endswith("# loses all state of the operator")
    assert main(shlex.split(rename.replace("OUT", str(tmp_path / "3")))[1:]) == 0
    assert sp.arrow.read_state(tmp_path / "3", new, "total").read_all().to_pylist() == read(one) != []


WIDER = sp.Types.POJO("b.Total", {"cents": sp.Types.LONG()})
NARROW = sp.Types.POJO("a.Total", {"cents": sp.Types.INT()})


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        (sp.Types.INT(), sp.Types.LONG(), 7),
        (sp.Types.LONG(), sp.Types.INT(), 7),
        (NARROW, WIDER, {"cents": 7}),
        (sp.ListState(sp.Types.INT()), sp.ListState(sp.Types.LONG()), [7, 8]),
        (sp.MapState(sp.Types.STRING(), sp.Types.INT()), sp.MapState(sp.Types.STRING(), sp.Types.DOUBLE()), [("a", 7)]),
        (sp.Types.LONG(), sp.Types.STRING(), 7),
    ],
)
def test_values_are_converted_before_they_are_dropped(old: Any, new: Any, value: Any, tmp_path: Path) -> None:
    """The advice names `convert-state` if rows of the state fit the new type, and executing it keeps all values."""
    one, other = str(tmp_path / "1"), snapshot(tmp_path / "2", total=new)
    column = pa.array([value], pa.map_(pa.string(), pa.int32()) if isinstance(old, sp.MapState) else None)
    rows = pa.table({"key": ["a"], "total": column})
    writer = sp.arrow.SavepointWriter.new(128, "2.3")
    writer.with_keyed_state("orders", rows, key_type=sp.Types.STRING(), states={"total": old}).write(one)
    *converts, drop = sp.check_job(one, other, flink="2.3").repair
    assert " drop-state " in drop
    command = shlex.split(converts[0].replace("OUT", str(tmp_path / "3")), comments=True)
    assert main(command[1:]) == 0
    assert sp.check_job(tmp_path / "3", other, flink="2.3").answer is not Answer.NO
    found = sp.arrow.read_state(tmp_path / "3", "orders", "total", flatten=False).read_all().to_pylist()
    assert found == [{"key": "a", "value": str(value) if new == sp.Types.STRING() else value}]
