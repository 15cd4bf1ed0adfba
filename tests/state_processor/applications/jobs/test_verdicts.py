"""Verdicts on what a snapshot does not show, or shows only in its values; real Flink agrees in tests/interop/test_verdicts.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.applications.jobs.matching import match_signatures
from state_processor.applications.jobs.opening import state_signature
from state_processor.applications.jobs.signature import JobSignature, OperatorSignature, parse_signature
from state_processor.applications.jobs.verdicts import Cause, JobReport, Outcome, command_name, drops
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.cli import main
from state_processor.serializers import register_primitive_fields, registrations
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.pojo_fields import PojoField
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.serializers.runtime.wrapping import AsynchronousTtlSerializer, TtlSerializer
from state_processor.support.errors import OptionError
from state_processor.types.answers import Answer
from tests.state_processor.samples import ORDERS

LONG, STRING, INT = sp.Types.LONG(), sp.Types.STRING(), sp.Types.INT()
A, B = "cbc357ccb763df2852fee8c4fc7d55f2", "7df19f87deec5680128845fd9a6ca18d"
TIMERS = {
    f"_timer_state/{kind}_user-timers": {"kind": f"{kind.upper()}_TIMER", "namespace_type": "VOID_NAMESPACE"}
    for kind in ("event", "processing")
}


def job(*operators: dict[str, Any], flink: str = "2.3") -> JobSignature:
    return parse_signature({"flink": flink, "operators": list(operators)}, "test")


def op(states: dict[str, Any], uid: str | None = "o", **more: Any) -> dict[str, Any]:
    return {**({} if uid is None else {"uid": uid}), "key_type": "STRING", "states": states, **more}


def causes(report: JobReport) -> set[tuple[Outcome, Cause | None]]:
    verdicts = [verdict for operator in report.operators for verdict in (*operator.states, operator)]
    return {(verdict.outcome, verdict.cause) for verdict in verdicts if verdict.cause is not None}  # type: ignore[attr-defined]


def check(old: JobSignature, new: JobSignature, **options: Any) -> JobReport:
    return sp.check_job(old, new, backend="rocksdb", **options)


@pytest.mark.parametrize(
    ("type_", "subject", "cause", "commands"),
    [
        ("KRYO<m.Money>", "m.Money", Cause.CODE, ["check", "drop-state"]),
        ("KRYO<java.util.ArrayList>", "java.util.ArrayList", Cause.CODE, ["check", "drop-state"]),
        ("LIST<KRYO<m.Money>>", "m.Money", Cause.CODE, ["check", "drop-state"]),
        ("ROW_DATA<`a` INT, `b` INT>", "o", Cause.QUERY, ["migrate-query"]),
        ("ROW<a INT, b INT>", "o", Cause.CODE, ["check", "drop-state"]),
        ("POJO<m.P>(a STRING)", "m.P", Cause.FIELDS, []),
    ],
)
def test_equal_types_are_no_evidence_where_code_decides(type_: str, subject: str, cause: Cause, commands: list[str]) -> None:
    """The user's word for a class, or for an operator, is: the advice names it first, and drops state only if Flink fails."""
    same = job(op({"s": type_}))
    report = check(same, same)
    assert report.answer is Answer.UNCHECKED
    assert causes(report) == {(Outcome.UNKNOWN, cause)}
    assert [command_name(command) for command in report.repair] == commands
    assert all(f"--unchanged {subject} " in command for command in report.repair if command_name(command) == "check")
    assert all("only if Flink fails on it" in command for command in report.repair if drops(command))
    assert report.steps == ()
    assert check(same, same, unchanged=[subject]).restores


def test_values_of_kryo_change_from_flink_1_to_2() -> None:
    for type_, outcome in (("java.util.BitSet", Outcome.CHANGED), ("java.lang.Long", Outcome.RESTORES), ("m.P", Outcome.UNKNOWN)):
        states = op({"s": f"KRYO<{type_}>"})
        report = check(job(states, flink="1.x"), job(states), unchanged=["m.P"])
        assert [operator.outcome for operator in report.operators] == [outcome], type_
        assert check(job(states, flink="2.x"), job(states), unchanged=["m.P"]).restores


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("POJO<m.P>(a INT, b STRING)", "POJO<m.P>(a INT)", "Flink drops field 'b' of m.P"),
        ("POJO<m.P>(a INT, b STRING)", "POJO<m.P>(a INT, c STRING)", "'c' is new and has this type: Flink does not rename"),
        ("LIST<POJO<m.P>(a INT, b STRING)>", "LIST<POJO<m.P>(a INT)>", "Flink drops field 'b' of m.P"),
        ("POJO<m.P>(q POJO<m.Q>(b STRING))", "POJO<m.P>(q POJO<m.Q>(c LONG))", "Flink drops field 'b' of m.Q"),
    ],
)
def test_a_migration_that_drops_fields_changes_values(old: str, new: str, text: str) -> None:
    report = check(job(op({"s": old})), job(op({"s": new})), unchanged=["m.P", "m.Q"])
    ((state,),) = (operator.states for operator in report.operators)
    assert (state.outcome, state.cause, text in state.reason) == (Outcome.CHANGED, Cause.FIELDS, True), state.reason
    assert report.answer is Answer.NO


def avro(*fields: str, name: str = "R") -> Any:
    return sp.Types.AVRO(f'{{"type": "record", "name": "{name}", "fields": [{", ".join(fields)}]}}')


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('{"name": "a", "type": "long"}', '{"name": "a", "type": "double"}', "long becomes double"),
        ('{"name": "a", "type": "long"}', '{"name": "b", "type": "long", "aliases": ["a"]}', ""),
        ('{"name": "a", "type": "int"}', '{"name": "a", "type": "long"}', ""),
        ('{"name": "a", "type": ["null", "int"]}', '{"name": "a", "type": ["null", "float"]}', "int becomes float"),
        ('{"name": "a", "type": "int"}', '{"name": "b", "type": "int", "default": 0}', "Flink drops field 'a' of R"),
    ],
)
def test_a_migration_of_avro_may_lose_digits_or_fields(old: str, new: str, text: str, tmp_path: Path) -> None:
    paths = [written(tmp_path / str(number), avro(field)) for number, field in enumerate((old, new))]
    report = sp.check_job(*paths, flink="2.3", backend="rocksdb")
    ((state,),) = (operator.states for operator in report.operators)
    assert (state.outcome is Outcome.CHANGED, text in state.reason) == (text != "", True), state.reason


def written(path: Path, type_: Any, *values: Any, flink: str = "2.3") -> Path:
    writer = sp.arrow.SavepointWriter.new(128, flink)
    rows = [{"key": f"k{number}", "s": value} for number, value in enumerate(values)] or [{"key": "k", "s": None}]
    writer.with_keyed_state("o", rows, key_type=STRING, states={"s": sp.ValueState(type_)})
    writer.write(path)
    return path


POJO = sp.Types.POJO("m.P", {"a": INT, "b": STRING})


@pytest.mark.parametrize("type_", [POJO, sp.Types.LIST(POJO), sp.Types.TUPLE([LONG, POJO])])
def test_a_null_in_a_field_that_may_be_primitive(type_: Any, tmp_path: Path) -> None:
    def value(a: int | None) -> Any:
        pojo = {"a": a, "b": None}
        return {"LIST": [pojo], "TUPLE": {"f0": 1, "f1": pojo}}.get(str(type_).partition("<")[0], pojo)

    full, null = written(tmp_path / "1", type_, value(1)), written(tmp_path / "2", type_, value(1), value(None))
    assert sp.check_job(full, full, flink="2.3", backend="rocksdb").restores
    report = sp.check_job(null, full, flink="2.3", backend="rocksdb")
    assert causes(report) == {(Outcome.UNKNOWN, Cause.FIELDS)}
    assert "field 'a' of m.P is null in 1 values" in str(report)
    for fields, outcome in ((["a"], Answer.NO), ([], Answer.YES)):
        with registrations():
            register_primitive_fields("m.P", fields)
            assert sp.check_job(null, full, flink="2.3", backend="rocksdb").answer is outcome


def test_without_contents_the_answer_is_never_yes(tmp_path: Path) -> None:
    path = written(tmp_path / "1", LONG, 1)
    assert sp.check_job(path, path, flink="2.3", backend="rocksdb").restores
    assert sp.check_job(path, path, flink="2.3", backend="rocksdb", contents=False).answer is Answer.UNCHECKED
    arguments = ["check", str(path), "--job", str(path), "--flink", "2.3", "--backend", "rocksdb"]
    assert [main(arguments), main([*arguments, "--no-contents"])] == [0, 3]


def test_the_version_of_the_job_has_to_read_the_snapshot(tmp_path: Path) -> None:
    path = written(tmp_path / "1", LONG, 1)
    assert causes(sp.check_job(path, path, flink="1.20")) == {(Outcome.REFUSED, Cause.VERSION)}
    assert sp.check_job(written(tmp_path / "2", LONG, 1, flink="1.20"), path, flink="2.3").restores


def test_files_have_to_be_there_and_undamaged(tmp_path: Path) -> None:
    job_of = sp.signature(written(tmp_path / "0", STRING, "x" * 3_000))
    for number in (1, 2):
        path = written(tmp_path / str(number), STRING, *("x" * 3_000 for _ in range(10)))
        (file,) = (file for file in path.iterdir() if file.name != "_metadata")
        if number == 1:
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[:-100])
        report = sp.check_job(path, job_of, flink="2.3")
        assert causes(report) == {(Outcome.REFUSED, Cause.FILES)}
        assert main(["check", str(path), "--job", str(path), "--flink", "2.3"]) != 0


def test_a_checkpoint_that_was_moved_is_refused_and_a_copy_restores(tmp_path: Path) -> None:
    path = str(next(ORDERS.parent.glob("orders-rocksdb-incremental/**/_metadata")).parent)
    report = sp.check_job(path, path, flink="2.3", backend="rocksdb")
    assert (Outcome.REFUSED, Cause.MOVED) in causes(report)
    command = report.repair[0].split()
    assert main([command[1], path, str(tmp_path / "1")]) == 0
    assert (Outcome.REFUSED, Cause.MOVED) not in causes(sp.check_job(tmp_path / "1", path, flink="2.3", backend="rocksdb"))


SUMS = {"total": "LONG"}


@pytest.mark.parametrize(
    ("old", "new", "outcome", "confidence"),
    [
        # without uids, an id is evidence only if the states agree, and no other operator has them
        ([op(SUMS, None, uid_hash=A)], [op(SUMS, None, uid_hash=A)], None, "certain"),
        ([op(SUMS, None, uid_hash=A)] * 1 + [op(SUMS, None, uid_hash=B)], None, Outcome.UNKNOWN, "ambiguous"),
        ([op(SUMS | TIMERS, None, uid_hash=A)], [op({"n": "STRING"} | TIMERS, None, uid_hash=A)], Outcome.UNKNOWN, "ambiguous"),
        ([op(TIMERS, None, uid_hash=A)], None, Outcome.UNKNOWN, "ambiguous"),
        ([op(SUMS, None, uid_hash=A)], [op({}, None, uid_hash=A)], Outcome.LOST, "ambiguous"),
        # uids and names are
        ([op(SUMS), op(SUMS, "p")], None, None, "certain"),
        ([op(SUMS, None, uid_hash=A, name="sums"), op(SUMS, None, uid_hash=B, name="counts")], None, None, "certain"),
        # names that contradict ids
        (
            [op(SUMS, name="sums"), op(SUMS, "p", name="counts")],
            [op(SUMS, name="counts"), op(SUMS, "p", name="sums")],
            Outcome.UNKNOWN,
            "high",
        ),
        ([op(SUMS, name="sums")], [op(SUMS, name="all sums")], None, "certain"),
    ],
)
def test_equal_ids(old: list[Any], new: list[Any] | None, outcome: Outcome | None, confidence: str) -> None:
    before, after = job(*old), job(*(old if new is None else new))
    report = check(before, after)
    assert {verdict.outcome for verdict in report.operators} == {outcome or Outcome.RESTORES}
    assert report.restores == (outcome is None)
    assert {str(match.confidence) for match in match_signatures(before, after).matches} == {confidence}


def test_operators_that_were_swapped_are_not_dropped() -> None:
    """Both have timers, as every process function."""
    a, b = op(SUMS | TIMERS, None), op({"names": "STRING"} | TIMERS, None)
    report = check(job(a | {"uid_hash": A}, b | {"uid_hash": B}), job(b | {"uid_hash": A}, a | {"uid_hash": B}))
    assert causes(report) >= {(Outcome.LOST, Cause.OPERATORS_SWAPPED)}
    assert not any("drop-state" in command for command in report.repair)
    matches = match_signatures(job(a | {"uid_hash": A}, b | {"uid_hash": B}), job(b | {"uid_hash": A}, a | {"uid_hash": B}))
    assert matches.mapping == {A: B, B: A}


@pytest.mark.parametrize("names", [{"names": "STRING"}, {"sums": "STRING"}])
def test_uids_that_were_exchanged_are_exchanged_again(names: dict[str, str]) -> None:
    """Values are not converted to the type of the state of another operator."""
    a, b = op({"sums": "LONG"} | TIMERS, None), op(names | TIMERS, None)
    report = check(job(a | {"uid": "o"}, b | {"uid": "p"}), job(b | {"uid": "o"}, a | {"uid": "p"}))
    assert report.answer is Answer.NO
    rules = {(rule.outcome, rule.cause) for operator in report.operators for rule in operator.rules}
    assert rules == {(Outcome.LOST, Cause.OPERATORS_SWAPPED)}
    assert {command_name(command) for command in report.repair} == {"rename-uid"}
    dropped = check(job(a | {"uid": "o"}, a | {"uid": "p"}), job(op({}, "o"), a | {"uid": "p"}))
    assert not any(cause is Cause.OPERATORS_SWAPPED for _, cause in causes(dropped))


WINDOWS = {"window-contents": {"value_type": "LONG", "namespace_type": "TIME_WINDOW"}}
GLOBAL = {"window-contents": {"value_type": "LONG", "namespace_type": "GLOBAL_WINDOW"}}
COUNTS = {"count": {"kind": "REDUCING", "value_type": "LONG", "namespace_type": "TIME_WINDOW"}}
TUMBLING = op(WINDOWS, name="TumblingEventTimeWindows")
MERGING = WINDOWS | {"merging-window-set": {"kind": "LIST", "value_type": "TUPLE<TIME_WINDOW,TIME_WINDOW>"}}


@pytest.mark.parametrize(
    ("old", "new", "outcome"),
    [
        (op(WINDOWS), op(MERGING), Outcome.LOST),
        (op(MERGING), op(WINDOWS), Outcome.LOST),
        (op(WINDOWS, name="TumblingEventTimeWindows"), op(WINDOWS, name="TumblingProcessingTimeWindows"), Outcome.LOST),
        (TUMBLING, op(WINDOWS, name="SlidingEventTimeWindows"), Outcome.UNKNOWN),
        (op(WINDOWS), op(WINDOWS), Outcome.UNKNOWN),
        (TUMBLING, TUMBLING, Outcome.UNKNOWN),
        (TUMBLING, TUMBLING | {"states": WINDOWS | COUNTS}, Outcome.UNKNOWN),
        (op(GLOBAL), op(GLOBAL), Outcome.UNKNOWN),
    ],
)
def test_windows(old: dict[str, Any], new: dict[str, Any], outcome: Outcome) -> None:
    """A trigger is code: one of processing time never fires windows that wait for event time."""
    report = check(job(old), job(new))
    assert [operator.outcome for operator in report.operators] == [outcome]
    assert report.operators[0].cause is Cause.WINDOWS
    is_promised = check(job(old), job(new), unchanged=["o"]).restores
    assert is_promised == (outcome is Outcome.UNKNOWN)
    assert any("check" in command and "--unchanged o" in command for command in report.repair) == is_promised


@pytest.mark.parametrize("replacing", [{"n": "STRING"}, {"n": "STRING", "m": "LONG"}])
def test_an_operator_that_reads_none_of_its_states_is_no_success(replacing: dict[str, str]) -> None:
    """The operator took the uid of another one: Flink starts, and what waits in the state is never dealt with."""
    old = op({"requests": {"kind": "OPERATOR_LIST", "value_type": "LONG"}})
    report = check(job(old), job(op(replacing)))
    assert report.answer is Answer.UNCHECKED
    assert causes(report) == {(Outcome.UNKNOWN, Cause.STATE_UNUSED), (Outcome.UNUSED, Cause.STATE_UNUSED)}
    assert [command_name(command) for command in report.repair] == ["export", "drop-state"]
    assert check(job(old), job(op(replacing | old["states"]))).restores


@pytest.mark.parametrize(
    ("others", "answer"),
    [
        ([op({"n": "STRING"}, "new")], Answer.UNCHECKED),
        ([op({"n": "LONG"}, "new")], Answer.YES),
        ([op({"n": "STRING", "m": "LONG"}, "p")], Answer.YES),
    ],
)
def test_a_state_that_moves_to_another_operator_is_no_success(others: list[dict[str, Any]], answer: Answer) -> None:
    """An operator was split: Flink starts, and the state is empty in the new part. An operator that had this state is no sign."""
    old = job(op({"s": "LONG", "n": "STRING"}), op({"n": "STRING", "m": "LONG"}, "p"))
    rest = [] if others[0]["uid"] == "p" else [op({"n": "STRING", "m": "LONG"}, "p")]
    report = check(old, job(op({"s": "LONG"}), *others, *rest))
    assert report.answer is answer
    assert [command_name(command) for command in report.repair] == ([] if answer is Answer.YES else ["export", "drop-state"])


@pytest.mark.parametrize(("written", "required"), [("m.Parent", "m.Child"), ("m.Child", "m.Parent"), ("m.Parent", "m.Parent")])
def test_a_field_that_moves_into_a_subclass_is_no_success(written: str, required: str) -> None:
    """Flink looks for a field in the class that declared it, and in the superclasses of this class."""

    def signature(declaring: str) -> JobSignature:
        pojo = PojoSerializer("m.Child", [PojoField("a", LONG, declaring)])
        keyed = KeyedDescription.of("s", "VALUE", key=STRING, namespace=VoidNamespaceSerializer(), value=pojo)
        return JobSignature((OperatorSignature("o", A, states={"s": state_signature([keyed])}),))

    report = check(signature(written), signature(required))
    text = "Flink drops field 'a' of m.Child unless m.Parent still declares it"
    assert (text in str(report)) == ((written, required) == ("m.Parent", "m.Child"))
    assert text not in str(check(signature(written), signature(required), unchanged=["m.Child"]))


SUM = {"value_type": "LONG", "kind": "REDUCING"}


@pytest.mark.parametrize(
    ("states", "label"),
    [({"s": SUM, "t": "LONG"}, "o (s)"), ({"_op_state": "LONG"}, "o (_op_state)"), ({"s": "LONG"}, ""), ({}, "")],
)
def test_functions_are_named_as_not_checked(states: dict[str, Any], label: str) -> None:
    """A sum restores, and the maximum goes on with it."""
    report = check(job(op(states)), job(op(states)))
    assert report.restores
    notes = [note.rpartition(": ")[2] for note in report.notes if "code of functions" in note]
    assert notes == ([label] if label else [])
    promised = check(job(op(states)), job(op(states)), unchanged=["o"])
    assert not any("code of functions" in note for note in promised.notes)


@pytest.mark.parametrize(
    ("old", "new", "outcome"),
    [
        (["source kafka"], ["source kafka"], Outcome.RESTORES),
        (["source kafka"], ["source file"], Outcome.REFUSED),
        (["source kafka (splits 0, enumerator 1)"], ["source file (splits 0, enumerator 1)"], Outcome.REFUSED),
        (["source kafka (splits 0, enumerator 1)"], ["source kafka (splits 0, enumerator 2)"], Outcome.UNKNOWN),
        (["source kafka (splits 0)"], ["source kafka"], Outcome.UNKNOWN),
        (["source kafka (enumerator 1)"], ["source kafka (splits 0, enumerator 1)"], Outcome.RESTORES),
        (["source unknown"], ["source unknown"], Outcome.UNKNOWN),
        (["raw keyed state unknown"], [], Outcome.UNKNOWN),
    ],
)
def test_bytes_are_compared_by_the_connectors_that_wrote_them(old: list[str], new: list[str], outcome: Outcome) -> None:
    report = check(job(op(SUMS, writers=old)), job(op(SUMS, writers=new)))
    assert [operator.outcome for operator in report.operators] == [outcome]
    assert check(job(op(SUMS, writers=old)), job(op(SUMS, writers=new)), unchanged=["o"]).restores


@pytest.mark.parametrize(
    ("states", "flink", "outcome"),
    [
        (({"s": "LONG"}, {"s": "LONG"}), "2.3", Outcome.RESTORES),
        (({"s": "LONG"}, {"s": "LONG"}), "2.0", Outcome.REFUSED),
        (({"s": "POJO<m.P>(a INT)"}, {"s": "POJO<m.P>(a INT, b INT)"}), "2.3", Outcome.REFUSED),
        (({"s": "LONG"}, {"s": {"value_type": "LONG", "ttl": True}}), "2.3", Outcome.REFUSED),
        (({"s": "LONG"} | TIMERS, {"s": "LONG"} | TIMERS), "2.3", Outcome.UNKNOWN),
    ],
)
def test_state_becomes_asynchronous_in_forst(states: tuple[dict[str, Any], dict[str, Any]], flink: str, outcome: Outcome) -> None:
    old, new = (op(s, backend="forst", asynchronous=a) for s, a in zip(states, (False, True), strict=True))
    report = sp.check_job(job(old), job(new), flink=flink, backend="forst", unchanged=["m.P"])
    assert [operator.outcome for operator in report.operators] == [outcome], str(report)
    back = sp.check_job(job(old), job(op(states[1], backend="rocksdb", asynchronous=True)), backend="rocksdb", unchanged=["m.P"])
    assert back.restores, str(back)  # files of RocksDB do not show the API


def test_asynchronous_state_of_forst_is_not_migrated() -> None:
    types = "POJO<m.P>(a INT)", "POJO<m.P>(a INT, b INT)"
    old, new = (job(op({"s": type_}, backend="forst", asynchronous=True)) for type_ in types)
    report = sp.check_job(old, new, backend="forst", unchanged=["m.P"])
    assert "ForSt does not migrate asynchronous state" in report.operators[0].states[0].reason
    assert report.answer is Answer.NO


def test_time_to_live_of_another_api_is_repaired_by_a_conversion() -> None:
    old, new = (job(op({"s": "LONG"}, backend="forst", asynchronous=is_new)) for is_new in (False, True))
    for one, kind in ((old, TtlSerializer), (new, AsynchronousTtlSerializer)):
        state = one.operators[0].states["s"]  # type: ignore[index]
        one.operators[0].states["s"] = replace(  # type: ignore[index]
            state, snapshots=state.snapshots | {"value": kind.of(LONG).snapshot()}, ttl=True
        )
    report = sp.check_job(old, new, backend="forst")
    assert [command_name(command) for command in report.steps] == ["convert"]
    assert "--async-state o" in report.steps[0]


def test_fields_that_a_migration_drops_are_named_for_values_with_time_to_live() -> None:
    old = job(op({"s": {"value_type": "POJO<m.P>(a INT, b STRING)", "ttl": True}}))
    for ttl in (True, False):
        report = check(old, job(op({"s": {"value_type": "POJO<m.P>(a INT)", "ttl": ttl}})), unchanged=["m.P"])
        (state,) = report.operators[0].states
        assert (state.outcome, state.cause) == (Outcome.CHANGED, Cause.FIELDS), state.reason


def test_subclasses_of_all_subtasks_are_in_the_signature() -> None:
    fields = (PojoField("a", INT, "m.P"),)
    types = [PojoSerializer("m.P", fields, unregistered=known) for known in ({}, {"m.Q": PojoSerializer("m.Q", fields)})]
    variants = [
        KeyedDescription.of("s", "VALUE", key=STRING, namespace=VoidNamespaceSerializer(), value=type_) for type_ in types
    ]
    value = state_signature(variants).serializer("value")
    assert isinstance(value, PojoSerializer)
    assert list(value.unregistered) == ["m.Q"]


def test_timers_that_nobody_registers_never_fire(tmp_path: Path) -> None:
    path = written(tmp_path / "1", LONG, 1)
    writer = sp.arrow.SavepointWriter.from_existing(path)
    writer.with_timers("o", [{"key": "k0", "timestamp": 5, "domain": "event_time", "service": "user-timers"}])
    writer.write(tmp_path / "2")
    report = sp.check_job(tmp_path / "2", path, flink="2.3", backend="rocksdb")
    assert "its 1 timers never fire" in " ".join(str(row["reason"]) for row in report.rows())
    assert report.answer is Answer.NO
    assert sp.check_job(path, tmp_path / "2", flink="2.3", backend="rocksdb").restores


def test_a_text_in_place_of_a_list_of_classes_is_refused() -> None:
    with pytest.raises(OptionError, match="expected a list of classes and operators"):
        check(job(op(SUMS)), job(op(SUMS)), unchanged="m.P")


@pytest.mark.parametrize(
    ("flink", "message"), [("2.9", "unknown; the newest known releases"), ("1.9", "Flink 1.13 or later"), ("2", "")]
)
def test_versions_whose_rules_are_not_known_are_refused(flink: str, message: str) -> None:
    same = job(op(SUMS))
    with pytest.raises(OptionError, match=f"flink='{flink}': .*{message}"):
        check(same, same, flink=flink)
    with pytest.raises(OptionError, match=f"flink of the new job='{flink}': .*{message}"):
        check(same, job(op(SUMS), flink=flink))


@pytest.mark.parametrize(
    ("type_", "flink", "outcome"),
    [
        ("SET<STRING>", "1.20", Outcome.REFUSED),
        ("SET<STRING>", "2.0", Outcome.RESTORES),
        ("ROW_DATA<`a` VARIANT>", "2.0", Outcome.REFUSED),
        ("KRYO<java.util.BitSet>", "1.20", Outcome.CHANGED),
        ("KRYO<java.util.BitSet>", "1.x", Outcome.CHANGED),
        ("KRYO<java.lang.Long>", "1.20", Outcome.RESTORES),
    ],
)
def test_serializers_are_compared_with_the_release(type_: str, flink: str, outcome: Outcome) -> None:
    """Writers refuse the same states for the same label."""
    old = job(op({"s": type_}), flink="2.x")
    report = check(old, job(op({"s": type_}), flink=flink), unchanged=["o"])
    assert [operator.outcome for operator in report.operators] == [outcome], str(report)


def test_a_state_that_is_not_used_needs_its_serializers_too() -> None:
    """Flink reads the serializers of all states."""
    report = check(job(op({"s": "SET<STRING>"}), flink="2.x"), job(op({}), flink="1.20"))
    assert (Outcome.REFUSED, Cause.VERSION) in causes(report)
