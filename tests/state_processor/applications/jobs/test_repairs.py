"""Repairs by the kind of a mismatch: each is executed as the report prints it, and the job of the report restores the result."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import state_processor as sp
from state_processor.applications.jobs import converting
from state_processor.applications.jobs.verdicts import Outcome, command_name, drops
from state_processor.cli import BAD_INPUT, main
from state_processor.serializers import register_kryo_class, registrations
from state_processor.types.answers import Answer

T = sp.Types
LONG, INT, STRING = T.LONG(), T.INT(), T.STRING()
V = sp.ValueState


def row(**fields: Any) -> dict[str, Any]:
    return fields


def written(path: Path, state: Any, value: Any = None, key: Any = "a", uid: str = "o", key_type: Any = STRING) -> str:
    """Write a savepoint with one state; of an operator with timers."""
    rows = [{"key": key, "s": value}]
    if isinstance(value, pa.Array):
        rows = pa.table({"key": [key], "s": value})
    writer = sp.arrow.SavepointWriter.new(128, "1.20")
    writer.with_keyed_state(uid, rows, key_type=key_type, states={"s": state})
    writer.with_timers(uid, [{"key": key, "timestamp": 9}], key_type=key_type).write(path)
    return str(path)


def execute(commands: tuple[str, ...], directory: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Execute commands as they are printed; return the path of the last savepoint."""
    monkeypatch.chdir(directory)
    for command in commands:
        assert main(shlex.split(command, comments=True)[1:]) == 0, command
    return str(directory / "OUT")


def values(path: str, name: str = "s") -> list[Any]:
    return [list(r.values())[1:] for r in sp.arrow.read_state(path, "o", name, flatten=False).read_all().to_pylist()]


OLD_ENUM, NEW_ENUM = T.ENUM("m.E", ["NEW", "SENT"]), T.ENUM("m.E", ["NEW", "SHIPPED"])
ORDER = T.POJO("m.O", {"id": INT, "st": OLD_ENUM})
MAPS = pa.array([[("x", 1)]], pa.map_(pa.string(), pa.int64()))
GROWN = T.POJO("m.K", {"a": INT, "b": STRING})


@pytest.mark.parametrize(
    ("old", "value", "new", "flags", "after"),
    [
        (INT, 7, LONG, "", 7),
        (LONG, 7, STRING, "", "7"),
        (STRING, "7", LONG, "", 7),
        (T.POJO("a.P", {"a": INT}), row(a=1), T.POJO("b.P", {"a": LONG}), "", row(a=1)),
        (ORDER, row(id=1, st="NEW"), T.POJO("m.O", {"id": INT, "st": NEW_ENUM}), "", row(id=1, st="NEW")),
        (
            *(ORDER, row(id=1, st="SENT"), T.POJO("m.O", {"id": INT, "st": NEW_ENUM})),
            *("--rename value.st.SENT=SHIPPED", row(id=1, st="SHIPPED")),
        ),
        (T.TUPLE([LONG]), {"f0": 1}, T.TUPLE([LONG, LONG]), "--default value.f1=0", {"f0": 1, "f1": 0}),
        (
            T.POJO("m.R", {"a": INT, "b": STRING}),
            row(a=1, b="x"),
            T.POJO("m.R", {"a": INT, "bb": STRING}),
            "--rename value.b=bb",
            None,
        ),
        (T.LIST(T.POJO("m.R", {"a": INT})), [row(a=1)], T.LIST(T.POJO("m.R", {"a": LONG})), "", [row(a=1)]),
        (LONG, 7, sp.ListState(LONG), "", [7]),
        (sp.ListState(LONG), [7], V(LONG), "", 7),
        (sp.ListState(LONG), [7, 8], V(T.LIST(LONG)), "", [7, 8]),
        (V(T.MAP(STRING, LONG)), MAPS, sp.MapState(STRING, LONG), "", [("x", 1)]),
        (sp.MapState(STRING, LONG), MAPS, V(T.MAP(STRING, LONG)), "", [("x", 1)]),
        (sp.ReducingState(LONG), 7, V(LONG), "", 7),
        (V(LONG, ttl=True), 7, V(STRING), "", "7"),
    ],
    ids=str,
)
def test_a_state_is_converted(
    old: Any, value: Any, new: Any, flags: str, after: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, job = written(tmp_path / "1", old, value), written(tmp_path / "2", new)
    report = sp.check_job(one, job, flink="1.20")
    assert report.answer is Answer.NO
    (step,) = report.steps
    assert (command_name(step), flags in step, "loses" in step) == ("convert-state", True, False)
    assert [drops(command) for command in report.repair][:-1] == [False] * (len(report.repair) - 1)
    repaired = execute(report.steps, tmp_path, monkeypatch)
    assert sp.check_job(repaired, job, flink="1.20").answer is not Answer.NO
    assert values(repaired) == [[row(a=1, bb="x") if after is None else after]]
    assert sp.arrow.read_timers(repaired, "o").read_all().num_rows == 1


@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        (LONG, 1 << 40, INT),
        (STRING, "x", LONG),
        (sp.ListState(LONG), [7, 8], V(LONG)),
        (T.TUPLE([LONG]), {"f0": 1}, T.TUPLE([LONG, OLD_ENUM])),
        (T.KRYO("m.K"), None, LONG),
    ],
    ids=str,
)
def test_a_conversion_that_fails_is_not_proposed(old: Any, value: Any, new: Any, tmp_path: Path) -> None:
    one, job = written(tmp_path / "1", old, value), written(tmp_path / "2", new)
    commands = sp.check_job(one, job, flink="1.20").repair
    assert [command_name(command) for command in commands] == ["export", "drop-state"]


def test_values_are_kept_in_a_file_before_they_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, job = written(tmp_path / "1", STRING, "x"), written(tmp_path / "2", LONG)
    report = sp.check_job(one, job, flink="1.20")
    assert report.steps == report.repair
    assert sp.check_job(execute(report.steps, tmp_path, monkeypatch), job, flink="1.20").answer is not Answer.NO
    assert pq.read_table(tmp_path / "s.parquet").to_pylist() == [{"key": "a", "value": "x"}]


@pytest.mark.parametrize(("limit", "is_proposed"), [(1, True), (2, False), (4, False)])
def test_a_large_state_is_tried_in_part(limit: int, is_proposed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write refuses what the check has not tried."""
    monkeypatch.setattr(converting, "MOST_TRIED", limit)
    writer = sp.arrow.SavepointWriter.new(1, "1.20")
    rows = [{"key": "a", "s": 7}, {"key": "b", "s": 1 << 40}, {"key": "c", "s": 8}]
    writer.with_keyed_state("o", rows, key_type=STRING, states={"s": V(LONG)}).write(tmp_path / "1")
    job = written(tmp_path / "2", INT)
    first = sp.check_job(tmp_path / "1", job, flink="1.20").repair[0]
    assert (command_name(first) == "convert-state") == is_proposed
    assert first.endswith("not checked whole: the first 1 rows were tried") == is_proposed
    if is_proposed:
        words = shlex.split(first.replace(" OUT ", f" {tmp_path / '3'} "), comments=True)
        assert main(words[1:]) == BAD_INPUT
    assert not (tmp_path / "3" / "_metadata").exists()


INNER = T.POJO("m.Q", {"n": T.DOUBLE(), "e": OLD_ENUM})
OUTER = T.POJO("m.P", {"a": INT, "b": STRING, "q": INNER, "l": T.LIST(LONG)})
FULL = row(a=1, b="x", q=row(n=2.5, e="SENT"), l=[3])
KRYO_FIELDS = {"a": "int", "b": "java.lang.String", "q": "m.Q", "l": "java.util.List<java.lang.Long>"}


@pytest.mark.parametrize("value", [FULL, FULL | {"a": None}])
@pytest.mark.parametrize("is_kryo_now", [True, False])
def test_kryo_and_pojos_become_each_other(
    value: dict[str, Any], is_kryo_now: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The advice contains the module that describes the class; a null needs a boxed field."""
    with registrations():
        boxes = {"a": "java.lang.Integer"} if value["a"] is None else {}
        register_kryo_class("m.E", ["NEW", "SENT"])
        register_kryo_class("m.Q", {"n": "java.lang.Double" if boxes else "double", "e": "m.E"})
        register_kryo_class("m.P", KRYO_FIELDS | boxes)
        pojo, kryo = written(tmp_path / "1", OUTER, value), written(tmp_path / "2", T.KRYO("m.P"), value)
    one, job = (pojo, kryo) if is_kryo_now else (kryo, pojo)
    report = sp.check_job(one, job, flink="1.20")
    (step,) = report.steps
    assert (command_name(step), drops(report.repair[-1])) == ("convert-state", True)
    assert "keeps all values, if these are exactly the fields of m.P; MODULE has" in step
    calls = step.partition("MODULE has ")[2]
    with registrations():  # a module would register for the whole process
        exec(calls, {"register_kryo_class": register_kryo_class})
        repaired = execute((step.replace(" --serializers MODULE", ""),), tmp_path, monkeypatch)
        assert values(repaired) == [[value]]
        assert sp.check_job(repaired, job, flink="1.20", unchanged=["m.P"]).restores


def test_classes_of_other_names_are_described_by_the_user(tmp_path: Path) -> None:
    one, job = written(tmp_path / "1", T.KRYO("m.A")), written(tmp_path / "2", T.POJO("m.B", {"a": INT}))
    convert, drop = sp.check_job(one, job, flink="1.20").repair
    assert convert.endswith("--serializers MODULE  # if MODULE describes m.A for Kryo: register_kryo_class")
    assert drops(drop)


def test_keyed_state_that_the_new_operator_ignores_is_kept_in_a_file(tmp_path: Path) -> None:
    one = written(tmp_path / "1", LONG, 7)
    writer = sp.arrow.SavepointWriter.new(128, "1.20").with_list_state("o", "l", [{"value": 1}], LONG)
    writer.write(tmp_path / "2")
    report = sp.check_job(one, tmp_path / "2", flink="1.20")
    (save,) = report.repair
    assert (command_name(save), report.steps) == ("export", ())
    assert save.endswith("keeps the values in a file; Flink keeps them in the job if the operator registers keyed state again")


def test_a_field_without_a_place_is_named_with_its_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = written(tmp_path / "1", T.POJO("m.P", {"a": INT, "b": STRING, "c": STRING}), row(a=1, b="x", c="y"))
    job = written(tmp_path / "2", T.POJO("m.P", {"a": LONG}))
    lossy, drop = sp.check_job(one, job, flink="1.20").repair
    assert lossy.endswith("--drop-field value.b --drop-field value.c  # loses value.b, value.c")
    assert drops(drop)
    assert values(execute((lossy,), tmp_path, monkeypatch)) == [[row(a=1)]]


def test_a_map_gets_keys_with_another_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maps = pa.array([[({"a": 1}, 7)]], pa.map_(pa.struct([("a", pa.int32())]), pa.int64()))
    one = written(tmp_path / "1", sp.MapState(T.POJO("m.K", {"a": INT}), LONG), maps)
    job = written(tmp_path / "2", sp.MapState(GROWN, LONG))
    repaired = execute(sp.check_job(one, job, flink="1.20", backend="rocksdb").steps, tmp_path, monkeypatch)
    assert values(repaired) == [[[(row(a=1, b=None), 7)]]]


@pytest.mark.parametrize(
    ("old", "key", "new", "after"),
    [(LONG, 5, STRING, "5"), (LONG, 5, T.TUPLE([LONG]), {"f0": 5}), (T.TUPLE([INT]), {"f0": 5}, LONG, 5)],
)
def test_all_keys_of_an_operator_get_another_type(
    old: Any, key: Any, new: Any, after: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One command converts states and timers; a state that the job does not register any more keeps its values."""
    one, job = written(tmp_path / "1", LONG, 7, key, key_type=old), written(tmp_path / "2", INT, key=after, key_type=new)
    extended = sp.arrow.SavepointWriter.from_existing(one)
    extended.with_keyed_state("o", [{"key": key, "unused": "x"}], states={"unused": STRING}).write(tmp_path / "3")
    report = sp.check_job(tmp_path / "3", job, flink="1.20")
    assert len(report.steps) == 1
    assert "loses all state of the operator" in report.repair[-1]
    repaired = execute(report.steps, tmp_path, monkeypatch)
    assert {str(o.outcome) for o in sp.check_job(repaired, job, flink="1.20").operators} == {"restores"}
    read = sp.open(repaired)
    for state, value in (("s", 7), ("unused", "x")):
        assert read.read_keyed_state("o", state).read_all().to_pylist() == [{"key": after, "value": value}]
    assert [timer["key"] for timer in read.read_timers("o").read_all().to_pylist()] == [after]
    assert read.lookup("o", after).states["s"]["value"].to_pylist() == [7]


def operator_state(path: Path, kind: str, value: Any, type_: Any) -> str:
    writer = sp.arrow.SavepointWriter.new(128, "1.20")
    if kind == "broadcast":
        writer.with_broadcast_state("o", "s", [{"key": "k", "value": value}], STRING, type_)
    else:
        getattr(writer, f"with_{kind}_state")("o", "s", [{"value": value}], type_)
    writer.write(path)
    return str(path)


@pytest.mark.parametrize(
    ("old", "new", "type_", "after"),
    [("list", "union", LONG, 7), ("union", "list", INT, 7), ("list", "list", STRING, "7"), ("broadcast", "broadcast", INT, 7)],
)
def test_operator_state_is_converted(
    old: str, new: str, type_: Any, after: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, job = operator_state(tmp_path / "1", old, 7, LONG), operator_state(tmp_path / "2", new, after, type_)
    repaired = execute(sp.check_job(one, job, flink="1.20").steps, tmp_path, monkeypatch)
    assert sp.check_job(repaired, job, flink="1.20").restores
    found = getattr(sp.open(repaired), f"read_{new}_state")("o", "s").read_all().to_pylist()
    assert [r["value"] for r in found] == [after]


def test_a_state_gets_its_new_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = written(tmp_path / "1", LONG, 7)
    writer = sp.arrow.SavepointWriter.from_existing(one).remove_state("o", "s")
    writer.with_keyed_state("o", [{"key": "a", "t": 1}], states={"t": LONG}).write(tmp_path / "2")
    report = sp.check_job(one, tmp_path / "2", flink="1.20")
    (rename,) = report.repair
    assert rename.endswith("# if 't' is the new name of 's'")
    assert report.steps == ()
    repaired = execute((rename,), tmp_path, monkeypatch)
    assert (values(repaired, "t"), sp.arrow.states(repaired).column("state_name").to_pylist().count("s")) == ([[7]], 0)


def test_uids_are_exchanged_by_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = sp.arrow.SavepointWriter.new(128, "1.20")
    for uid, value in (("a", 1), ("b", 2)):
        writer.with_keyed_state(uid, [{"key": "k", "s": value}], key_type=STRING, states={"s": LONG})
    writer.write(tmp_path / "1")
    report = sp.check_job(tmp_path / "1", sp.signature(tmp_path / "1"), flink="1.20")
    (exchange,) = report.repair
    repaired = execute((exchange,), tmp_path, monkeypatch)
    assert [sp.arrow.read_state(repaired, uid, "s").read_all()["value"].to_pylist() for uid in "ab"] == [[2], [1]]


def with_ids(path: Path, **states: str) -> str:
    """Write a savepoint of operators without uids, whose ids and only states are given."""
    writer = sp.arrow.SavepointWriter.new(128, "1.20")
    for letter, state in states.items():
        rows = [{"key": "k", state: len(state)}]
        writer.with_keyed_state(letter * 32, rows, key_type=STRING, states={state: LONG})
    writer.write(path)
    return str(path)


A, B, C = "a" * 32, "b" * 32, "c" * 32


@pytest.mark.parametrize(
    ("old", "new", "flags"),
    [
        ({"a": "sum", "b": "name"}, {"a": "name"}, ["--from", B, "--to", A, "--replace"]),
        ({"a": "sum", "b": "name", "c": "total"}, {"a": "name", "b": "total"}, [json.dumps({B: A, C: B}), "--replace"]),
        ({"a": "sum", "b": "name", "c": "total"}, {"a": "total", "b": "sum", "c": "name"}, [json.dumps({A: B, B: C, C: A})]),
        ({"a": "sum", "b": "name"}, {"a": "name", "b": "sum"}, [json.dumps({A: B, B: A})]),
        ({"a": "sum", "b": "name"}, {"b": "sum", "c": "name"}, [json.dumps({A: B, B: C})]),
    ],
    ids=["removed in front", "moved up", "in a circle", "exchanged", "put in front"],
)
def test_ids_that_operators_got_from_others(
    old: dict[str, str], new: dict[str, str], flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, job = with_ids(tmp_path / "1", **old), with_ids(tmp_path / "2", **new)
    (step,) = sp.check_job(source, job, flink="1.20").steps
    words = shlex.split(step, comments=True)
    assert (words[1], [word for word in words[4:] if word != "--mapping"]) == ("rename-uid", flags)
    repaired = execute((step,), tmp_path, monkeypatch)
    assert sp.check_job(repaired, job, flink="1.20").answer is Answer.YES
    for letter, state in new.items():
        assert sp.arrow.read_state(repaired, letter * 32, state).read_all()["value"].to_pylist() == [len(state)]


def test_equal_operators_of_which_one_is_gone_are_not_told_apart(tmp_path: Path) -> None:
    source, job = with_ids(tmp_path / "1", a="sum", b="sum"), with_ids(tmp_path / "2", a="sum")
    report = sp.check_job(source, job, flink="1.20")
    assert [operator.outcome for operator in report.operators] == [Outcome.UNKNOWN, Outcome.LOST]
    assert [command_name(command) for command in report.steps] == ["export", "drop-state"]
    (guess,) = (command for command in report.repair if command_name(command) == "rename-uid")
    assert f"if the operator is {A} now; loses the state of {A}" in guess


def test_an_operator_that_is_not_replaced_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = with_ids(tmp_path / "1", a="sum", b="name")
    assert main(["rename-uid", source, str(tmp_path / "2"), "--from", A, "--to", C, "--replace"]) == BAD_INPUT
    assert "no operator with state is replaced" in capsys.readouterr().err
    assert main(["rename-uid", source, str(tmp_path / "2"), "--from", A, "--to", B]) == BAD_INPUT
    assert not (tmp_path / "2").exists()


PAIR_OF = T.TUPLE([STRING, LONG])


@pytest.mark.parametrize(
    ("old", "value", "new", "after"),
    [
        (PAIR_OF, row(f0="x", f1=1), T.TUPLE([LONG, STRING]), row(f0=1, f1="x")),
        (PAIR_OF, row(f0="5", f1=6), T.TUPLE([LONG, STRING]), row(f0=6, f1="5")),
        (T.LIST(PAIR_OF), [row(f0="x", f1=1)], T.LIST(T.TUPLE([LONG, STRING])), [row(f0=1, f1="x")]),
        (T.EITHER(LONG, STRING), row(left=1, right=None), T.EITHER(STRING, LONG), row(left=None, right=1)),
    ],
    ids=str,
)
def test_fields_without_names_change_places(
    old: Any, value: Any, new: Any, after: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, job = written(tmp_path / "1", old, value), written(tmp_path / "2", new)
    report = sp.check_job(one, job, flink="1.20")
    (step,) = report.steps
    assert "--rename" in step
    assert "is called" in step
    assert values(execute((step,), tmp_path, monkeypatch)) == [[after]]


@pytest.mark.parametrize(
    ("old", "key", "new", "after"),
    [
        (PAIR_OF, row(f0="x", f1=1), T.TUPLE([LONG, STRING]), row(f0=1, f1="x")),
        (PAIR_OF, row(f0="x", f1=1), T.ROW([STRING, LONG]), row(f0="x", f1=1)),
        (
            T.TUPLE([LONG, STRING, INT, T.BOOLEAN()]),
            row(f0=1, f1="x", f2=2, f3=True),
            T.TUPLE([T.BOOLEAN(), LONG, STRING, INT]),
            row(f0=True, f1=1, f2="x", f3=2),
        ),
    ],
    ids=str,
)
def test_fields_of_keys_change_places(
    old: Any, key: Any, new: Any, after: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = written(tmp_path / "1", LONG, 7, key=key, key_type=old)
    job = written(tmp_path / "2", LONG, key=after, key_type=new)
    (step,) = sp.check_job(one, job, flink="1.20").steps
    repaired = execute((step,), tmp_path, monkeypatch)
    rows = sp.arrow.read_state(repaired, "o", "s", keys=[after]).read_all().to_pylist()
    assert [(r["key"], r["value"]) for r in rows] == [(after, 7)]
    assert sp.check_job(repaired, job, flink="1.20").answer is not Answer.NO


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (T.TUPLE([STRING]), "key.f1 is not in the new type"),
        (T.POJO("m.P", {"a": STRING, "b": LONG}), "hashCode"),
    ],
    ids=str,
)
def test_advice_to_drop_says_why_keys_cant_be_converted(new: Any, reason: str, tmp_path: Path) -> None:
    one = written(tmp_path / "1", LONG, 7, key=row(f0="x", f1=1), key_type=PAIR_OF)
    job = json.loads(str(sp.signature(one)))
    for state in job["operators"][0]["states"]:
        state["key_type"] = str(new) if "POJO" not in str(new) else "POJO<m.P>(a STRING, b LONG)"
        state.pop("serializers", None)
    (tmp_path / "job.json").write_text(json.dumps(job), "utf-8")
    commands = sp.check_job(one, tmp_path / "job.json", flink="1.20").repair
    assert [command_name(command) for command in commands] == ["export", "drop-state"]
    assert "convert-state can't keep it: " in commands[-1]
    assert reason in commands[-1]


def test_steps_read_what_earlier_steps_have_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / name for name in "12"]
    for path, ttl, uid in zip(paths, (True, None), ("old", "o"), strict=True):
        writer = sp.arrow.SavepointWriter.new(128 if ttl else 64, "1.20")
        rows = [{"key": "a", "s": 7, "t": 8}]
        writer.with_keyed_state(uid, rows, key_type=STRING, states={"s": V(LONG, ttl=ttl), "t": V(INT if ttl else LONG, ttl=ttl)})
        writer.with_list_state("p", "l", [{"value": 1}], LONG).write(path)
    job = json.loads(str(sp.signature(paths[1])))
    for operator in job["operators"]:
        operator["max_parallelism"] = 64
    (tmp_path / "job.json").write_text(json.dumps(job), "utf-8")
    report = sp.check_job(paths[0], tmp_path / "job.json", flink="1.20")
    assert [command_name(command) for command in report.steps] == ["rename-uid", "set-max-parallelism"]
    sources = [shlex.split(command)[2:4] for command in report.steps]
    assert sources == [[str(paths[0]), "OUT.1"], ["OUT.1", "OUT"]]
    between = execute(report.steps, tmp_path, monkeypatch)
    report = sp.check_job(between, tmp_path / "job.json", flink="1.20")
    assert [command_name(command) for command in report.steps] == ["convert-state", "with-ttl"]
    (tmp_path / "again").mkdir()
    repaired = execute(report.steps, tmp_path / "again", monkeypatch)
    assert sp.check_job(repaired, tmp_path / "job.json", flink="1.20").restores
    assert [values(repaired, name) for name in "st"] == [[[7]], [[8]]]


def test_windows_of_another_type_are_dropped_with_their_timers(tmp_path: Path) -> None:
    moments = [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (1, 2)]
    window = {"window": dict(zip(("start", "end"), moments, strict=True))}
    writer = sp.arrow.SavepointWriter.new(128, "1.20")
    state = V(LONG, namespace=T.TIME_WINDOW())
    writer.with_keyed_state("o", [{"key": "a", "s": 7, **window}], key_type=STRING, states={"s": state}).write(tmp_path / "1")
    writer = sp.arrow.SavepointWriter.new(128, "1.20")
    state = V(LONG, namespace=T.GLOBAL_WINDOW())
    writer.with_keyed_state("o", [{"key": "a", "s": 7, "window": None}], key_type=STRING, states={"s": state})
    writer.write(tmp_path / "2")
    save, drop = sp.check_job(tmp_path / "1", tmp_path / "2", flink="1.20").repair
    assert command_name(save) == "export"
    assert drop.endswith("  # loses all state of the operator")


def test_commands_keep_the_backend_and_the_flags_of_the_check(tmp_path: Path) -> None:
    one, job = written(tmp_path / "1", INT, 7), written(tmp_path / "2", LONG)
    report = sp.check_job(one, job, flink="2.3", backend="forst", path_mapping={"/a": "/b c"}, allow_paths=["/d"])
    for command in report.repair:
        assert command.partition("  #")[0].endswith("--format native --backend forst --map '/a=/b c' --allow /d")


def test_files_that_are_damaged_are_not_copied(tmp_path: Path) -> None:
    one = Path(written(tmp_path / "1", T.STRING(), "x" * 100_000))
    (file,) = (path for path in one.iterdir() if path.name != "_metadata")
    file.write_bytes(file.read_bytes()[:500])
    report = sp.check_job(one, sp.signature(written(tmp_path / "2", LONG)), flink="1.20")
    assert report.answer is Answer.NO
    elsewhere, older = report.repair
    assert elsewhere.startswith(f"state-processor copy {one} OUT --map OLD=NEW  # if NEW has these files")
    assert older.startswith(f"state-processor list {tmp_path}  # older snapshots")


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        (V(INT, ttl=True), V(LONG, ttl=True), 7),
        (sp.ListState(INT, ttl=True), sp.ListState(LONG, ttl=True), [7, 8]),
        (
            sp.MapState(STRING, INT, ttl=True),
            sp.MapState(STRING, LONG, ttl=True),
            pa.array([[("x", 1)]], pa.map_(pa.string(), pa.int32())),
        ),
        (V(INT, ttl=True), sp.ListState(LONG, ttl=True), 7),
        (sp.ListState(INT, ttl=True), V(LONG, ttl=True), [7]),
    ],
    ids=str,
)
def test_a_conversion_keeps_the_times_of_last_access_and_streams(
    old: Any, new: Any, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are never collected: a state may be larger than memory."""
    one, job = written(tmp_path / "1", old, value), written(tmp_path / "2", new)
    sp.arrow.SavepointWriter.from_existing(one).touch("o", "s", "2020-01-01").write(tmp_path / "3")
    report = sp.check_job(tmp_path / "3", job, flink="1.20")
    with monkeypatch.context() as patched:
        patched.setattr("state_processor.read.rows.Rows.read_all", None)
        patched.setattr("state_processor.write.rows.arrow_rows._Stream.table", None)
        repaired = execute(report.steps, tmp_path, monkeypatch)
    read = (sp.arrow.read_state(path, "o", "s", metadata=True).read_all()["_last_access"] for path in (tmp_path / "3", repaired))
    before, after = (column.to_pylist() for column in read)
    assert [moment.year for moment in after] == [2020] * len(before)


def test_a_dry_run_shows_the_summary_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, job = written(tmp_path / "1", INT, 7), written(tmp_path / "2", LONG)
    (step,) = sp.check_job(one, job, flink="1.20").steps
    words = shlex.split(step.replace("OUT", str(tmp_path / "3")), comments=True)[1:]
    assert main([*words, "--dry-run"]) == 0
    assert "was not written (--dry-run)" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]
    misfit = written(tmp_path / "4", LONG, 1 << 40)
    words = ["convert-state", misfit, str(tmp_path / "5"), "--uid", "o", "--state", "s", "--job", written(tmp_path / "6", INT)]
    assert main([*words, "--dry-run"]) == 2


def test_values_that_kryo_wrote_are_migrated(tmp_path: Path) -> None:
    """The advice names `migrate` before it drops a state, if Flink 2.x reads other bytes than Flink 1.x wrote."""
    one = tmp_path / "1"
    writer = sp.arrow.SavepointWriter.new(128, "1.20")
    writer.with_keyed_state("o", [{"key": "a", "s": [3]}], key_type=STRING, states={"s": T.KRYO("java.util.BitSet")}).write(one)
    report = sp.check_job(one, sp.signature(one), flink="2.3")
    assert {state.outcome for operator in report.operators for state in operator.states} == {Outcome.CHANGED}
    (step,) = report.steps
    assert step == f"state-processor migrate {one} OUT --flink 2.3  # keeps all values, or names the states that can't be kept"
    words = shlex.split(step.replace("OUT", str(tmp_path / "3")), comments=True)
    assert main(words[1:]) == 0
    assert sp.open(tmp_path / "3").read_keyed_state("o", "s").read_all() == sp.open(one).read_keyed_state("o", "s").read_all()
