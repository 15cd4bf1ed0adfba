"""Explanations from a trace, a snapshot and a job."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.applications.explain.kinds import Certainty, Kind
from state_processor.applications.explain.scene import kind_of
from state_processor.applications.jobs.rules import RestoringJob
from state_processor.applications.jobs.verdicts import Cause, Outcome, StateVerdict
from state_processor.cli import main
from state_processor.support.errors import OptionError
from state_processor.types.answers import Answer
from tests.state_processor.samples import ORDERS_PATH
from tests.unknown_serializers import STRING, with_unknown_class

T = sp.Types
UID_HASH = sp.OperatorIdentifier.for_uid("totals").uid_hash
_TASK = f"(1b2c3d4e5f60718293a4b5c6d7e8f901_{UID_HASH}_0_0)"


def written(path: Path, state: Any, value: Any = None, key_type: Any = None, uid: str = "totals") -> str:
    """Write a savepoint with one keyed state."""
    writer = sp.arrow.SavepointWriter.new(128, "1.20")
    key = 7 if key_type is not None else "a"
    writer.with_keyed_state(uid, [{"key": key, "total": value}], key_type=key_type or T.STRING(), states={"total": state})
    writer.write(path)
    return str(path)


def trace(message: str, backend: str = "heap.HeapKeyedStateBackend") -> str:
    """Return a log with an exception of Flink 1.20."""
    return (
        f"2026-01-02 03:04:05,678 WARN  org.apache.flink.runtime.taskmanager.Task [] - Totals (1/2)#0 {_TASK} switched from "
        "INITIALIZING to FAILED with failure cause:\njava.lang.RuntimeException: Error while getting state\n"
        f"\tat org.apache.flink.runtime.state.{backend}.open(A.java:1) ~[flink-dist-1.20.1.jar:1.20.1]\n"
        f"Caused by: {message}\n\t... 9 more\n"
    )


def migration(new: str, old: str) -> str:
    package = "org.apache.flink.api.common.typeutils.base"
    return trace(
        "org.apache.flink.util.StateMigrationException: For heap backends, the new state serializer "
        f"({package}.{new}@1f) must not be incompatible with the old state serializer ({package}.{old}@2f)."
    )


def contradicted(explanation: sp.Explanation) -> str:
    """Return why the snapshot contradicts all causes: the step that failed is left, and it is not stated as certain."""
    (cause,) = explanation.causes
    assert (cause.kind, cause.certainty, cause.repairs) == (Kind.STEP, Certainty.POSSIBLE, ())
    assert explanation.answer is Answer.NO
    assert f"not the cause: {cause.evidence[0]}" in explanation.checked
    return cause.evidence[0]


def test_a_mismatch_that_the_trace_and_the_snapshot_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.INT()), 5)
    job = written(tmp_path / "new", sp.ValueState(T.LONG()), 5)
    explanation = sp.explain(old, error=migration("LongSerializer", "IntSerializer"), job=job)
    (cause,) = explanation.causes
    assert (cause.kind, cause.certainty) == (Kind.VALUE_TYPE, Certainty.CONFIRMED)
    assert (cause.uid_hash, cause.state, cause.written, cause.required) == (UID_HASH, "total", "INT", "LONG")
    assert explanation.answer is Answer.YES
    first, *_, last = cause.repairs
    assert not first.loses_state
    assert last.loses_state
    assert "loses" in last.note
    monkeypatch.chdir(tmp_path)
    preview, command = first.commands
    assert main(shlex.split(preview)[1:]) == 0
    assert not (tmp_path / "OUT").exists()
    assert main(shlex.split(command)[1:]) == 0
    assert sp.check_job(tmp_path / "OUT", job, flink="1.20", backend="hashmap").restores


def test_without_the_job_the_only_state_that_fits_is_named(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.INT()), 5)
    (cause,) = sp.explain(old, error=migration("LongSerializer", "IntSerializer")).causes
    assert (cause.kind, cause.certainty, cause.state) == (Kind.VALUE_TYPE, Certainty.CONFIRMED, "total")
    assert (cause.written, cause.required) == ("INT", "LongSerializer")


def test_a_snapshot_that_contradicts_the_trace(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.STRING()), "x")
    explanation = sp.explain(old, error=migration("LongSerializer", "IntSerializer"))
    assert "no state of the snapshot fits" in contradicted(explanation)
    assert "StateMigrationException: For heap backends, the new state serializer" in explanation.causes[0].sentence


def test_a_trace_alone_is_not_certain() -> None:
    explanation = sp.explain(error=migration("LongSerializer", "IntSerializer"))
    (cause,) = explanation.causes
    assert (cause.kind, cause.certainty, cause.repairs) == (Kind.VALUE_TYPE, Certainty.TRACE, ())
    assert explanation.answer is Answer.UNCHECKED
    assert "pass it to compare types" in str(explanation)


def test_a_missing_operator_of_another_snapshot(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.INT()), 5)
    text = "java.lang.IllegalStateException: There is no operator for the state {}"
    (cause,) = sp.explain(old, error=text.format(UID_HASH)).causes
    assert (cause.kind, cause.certainty, cause.uid_hash) == (Kind.UNMAPPED_OPERATOR, Certainty.CONFIRMED, UID_HASH)
    assert "does not have operator" in contradicted(sp.explain(old, error=text.format("0" * 32)))


def test_unknown_exceptions_are_listed(tmp_path: Path) -> None:
    explanation = sp.explain(error="com.acme.OddException: 7\n\tat com.acme.Odd.run(Odd.java:1)\n")
    assert explanation.causes == ()
    assert explanation.unexplained == ("com.acme.OddException: 7",)
    assert "com.acme.OddException" in str(explanation)


_CODE = (
    "java.lang.NullPointerException: null\n\tat com.acme.Totals.processElement(Totals.java:7)\n"
    "\tat org.apache.flink.streaming.api.operators.KeyedProcessOperator.processElement(KeyedProcessOperator.java:83)\n"
)


def test_what_follows_from_an_exception_of_the_job_comes_after_it() -> None:
    suspended = (
        "org.apache.flink.runtime.checkpoint.CheckpointException: Checkpoint Coordinator is suspending.\n\tat a.B.c(B.java:1)\n"
    )
    causes = sp.explain(error=suspended + "2026-01-02 03:04:05,678 WARN x\n" + _CODE).causes
    assert [cause.kind for cause in causes] == [Kind.JOB_CODE, Kind.CHECKPOINT]
    assert "The code of the job threw NullPointerException in com.acme.Totals.processElement" in causes[0].sentence
    assert [cause.kind for cause in sp.explain(error=suspended).causes] == [Kind.CHECKPOINT]


def test_a_mismatch_comes_before_an_exception_of_the_job(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.POJO("a.Total", {"amount": T.INT()})), {"amount": 5})
    job = written(tmp_path / "new", sp.ValueState(T.POJO("a.Total", {"sum": T.INT()})), {"sum": 5})
    causes = sp.explain(old, error=_CODE, job=job).causes
    assert [(cause.kind, cause.certainty) for cause in causes] == [
        (Kind.FIELD_RENAMED, Certainty.BESIDE),
        (Kind.JOB_CODE, Certainty.LIKELY),
    ]
    (cause,) = sp.explain(old, error=_CODE, job=old).causes
    assert cause.kind is Kind.JOB_CODE


def test_a_file_is_not_a_snapshot(tmp_path: Path) -> None:
    archive = tmp_path / "savepoint-1.tar.gz"
    archive.write_bytes(b"\x1f\x8b" + bytes(60))
    message = "java.io.IOException: Unexpected magic number. This can have multiple reasons: (1) You are trying to load"
    (cause,) = sp.explain(archive, error=message).causes
    assert (cause.kind, cause.certainty) == (Kind.NOT_A_SNAPSHOT, Certainty.CONFIRMED)


def test_a_class_that_the_snapshot_does_not_name(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.INT()), 5)
    text = trace("java.lang.ClassNotFoundException: a.Missing", "StreamTaskStateInitializerImpl")
    (cause,) = sp.explain(old, error=text).causes
    assert (cause.kind, cause.certainty) == (Kind.LINKAGE, Certainty.TRACE)
    assert "a.Missing" in cause.sentence
    assert "--job" not in cause.advice


def test_operators_of_queries_are_known_by_their_methods() -> None:
    text = migration("MapSerializer", "MapSerializer").replace(
        "org.apache.flink.runtime.state.heap.HeapKeyedStateBackend.open",
        "org.apache.flink.table.runtime.operators.join.stream.StreamingJoinOperator.open",
    )
    (cause,) = sp.explain(error=text).causes
    assert cause.kind is Kind.QUERY


def test_an_operator_of_another_query_with_one_key_group(tmp_path: Path) -> None:
    row = sp.ValueState(T.ROW_DATA("ROW<`a` BIGINT>"))
    old = written(tmp_path / "old", row, {"a": 5})
    text = (
        "java.lang.IllegalStateException: Cannot map operator {} with max parallelism 128 to new program with max parallelism {}"
    )
    (cause,) = sp.explain(old, error=text.format(UID_HASH, 1)).causes
    assert (cause.kind, cause.certainty, cause.repairs) == (Kind.QUERY, Certainty.LIKELY, ())
    (cause,) = sp.explain(old, error=text.format(UID_HASH, 64)).causes
    assert (cause.kind, cause.certainty) == (Kind.MAX_PARALLELISM, Certainty.CONFIRMED)


def test_windows_of_equal_types_may_differ_in_code_alone() -> None:
    verdict = StateVerdict("", Outcome.UNKNOWN, "assigner and trigger are code", cause=Cause.WINDOWS)
    assert kind_of(verdict, None, None, None, RestoringJob()) is Kind.CODE
    assert kind_of(replace(verdict, outcome=Outcome.LOST), None, None, None, RestoringJob()) is Kind.WINDOW_TYPE


def test_a_snapshot_alone(tmp_path: Path) -> None:
    old = Path(written(tmp_path / "old", sp.ValueState(T.INT()), 5))
    assert sp.explain(old).causes == ()
    file = next(path for path in old.iterdir() if path.name != "_metadata")
    file.unlink()
    (cause,) = sp.explain(old).causes
    assert (cause.kind, cause.certainty) == (Kind.FILE_MISSING, Certainty.CONFIRMED)
    (old / "_metadata").write_bytes((old / "_metadata").read_bytes()[:-20])
    assert [cause.kind for cause in sp.explain(old).causes] == [Kind.METADATA_DAMAGED]
    (old / "_metadata").write_text('{"version": 1}', "utf-8")
    assert [cause.kind for cause in sp.explain(old).causes] == [Kind.NOT_A_SNAPSHOT]
    shutil.rmtree(old)
    assert [cause.kind for cause in sp.explain(old).causes] == [Kind.NOT_FOUND]


def test_the_format_of_a_newer_flink_is_a_cause_for_an_older_one_alone() -> None:
    explanation = sp.explain(ORDERS_PATH)
    assert explanation.causes == ()
    assert any("of _metadata is read by Flink" in line for line in explanation.checked)
    (cause,) = sp.explain(ORDERS_PATH, flink="1.20").causes
    assert (cause.kind, cause.certainty) == (Kind.NEWER_FORMAT, Certainty.CONFIRMED)
    assert "?" not in cause.sentence


def test_a_symptom_ranks_causes(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.POJO("m.P", {"a": T.INT(), "b": T.INT()})), {"a": 1, "b": 2})
    job = written(tmp_path / "new", sp.ValueState(T.POJO("m.P", {"a": T.INT(), "c": T.INT()})), {"a": 1, "c": 2})
    cause = sp.explain(old, job=job, symptom="c is null in all old objects").causes[0]
    assert (cause.kind, cause.field, cause.loses_state) == (Kind.FIELD_RENAMED, "b", False)
    assert "--rename value.b=c" in cause.repairs[0].command


def test_nothing_to_explain_and_names_of_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="nothing to explain"):
        sp.explain()
    file = tmp_path / "error.txt"
    file.write_text("java.io.IOException: x", "utf-8")
    with pytest.raises(OptionError, match="pass Path"):
        sp.explain(error=str(file))
    assert sp.explain(error=file).unexplained == ("java.io.IOException: x",)


def test_sizes_of_a_trace_are_in_the_repair(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.INT()), 5)
    text = (
        "java.lang.IllegalStateException: Cannot map operator {} with max parallelism {} to new program with max parallelism 300"
    )
    (cause,) = sp.explain(old, error=text.format(UID_HASH, 128)).causes
    assert (cause.kind, cause.certainty, cause.written, cause.required) == (
        Kind.MAX_PARALLELISM,
        Certainty.CONFIRMED,
        "128",
        "300",
    )
    assert cause.repairs[0].command.endswith("OUT 300")
    assert "has this max parallelism" in contradicted(sp.explain(old, error=text.format(UID_HASH, 64)))


def test_equal_serializers_of_a_state_with_time_to_live_have_two_readings(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ListState(T.INT(), ttl=True), [5])
    causes = sp.explain(old, error=migration("ListSerializer", "ListSerializer")).causes
    assert [(cause.kind, cause.certainty) for cause in causes] == [
        (Kind.TTL, Certainty.POSSIBLE),
        (Kind.VALUE_TYPE, Certainty.POSSIBLE),
    ]


def test_logs_of_releases_that_the_check_does_not_know(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.INT()), 5)
    job = written(tmp_path / "new", sp.ValueState(T.LONG()), 5)
    error = trace("org.apache.flink.util.StateMigrationException: The new state serializer cannot be incompatible.")
    (cause,) = sp.explain(old, error=error.replace("1.20.1", "1.9.3"), job=job).causes
    assert (cause.kind, cause.certainty, cause.state) == (Kind.VALUE_TYPE, Certainty.CONFIRMED, "total")


_KRYO_TRACE = (
    "java.lang.IndexOutOfBoundsException: Index 3 out of bounds for length 2\n"
    "\tat com.esotericsoftware.kryo.Kryo.readClassAndObject(Kryo.java:761)\n"
    "\tat org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializer.deserialize(KryoSerializer.java:402)"
)


def test_the_only_state_of_kryo_is_no_evidence_of_a_changed_class(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.KRYO("java.lang.String")), "x")
    explanation = sp.explain(old, error=trace(_KRYO_TRACE))
    (cause,) = explanation.causes
    assert (cause.kind, cause.certainty, cause.state) == (Kind.KRYO_CLASS, Certainty.PLACE, "total")
    assert explanation.answer is Answer.UNCHECKED


@pytest.mark.parametrize(("constant", "certainty"), [("B", Certainty.CONFIRMED), ("C", Certainty.PLACE)])
def test_a_constant_of_the_snapshot_confirms_that_it_is_gone(tmp_path: Path, constant: str, certainty: Certainty) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.ENUM("m.E", ["A", "B"])), "A")
    message = (
        f"java.lang.IllegalArgumentException: No enum constant m.E.{constant}\n"
        "\tat org.apache.flink.api.common.typeutils.base.EnumSerializer$EnumSerializerSnapshot.readSnapshot(A.java:1)"
    )
    (cause,) = sp.explain(old, error=trace(message)).causes
    assert (cause.kind, cause.certainty) == (Kind.ENUM_CONSTANT, certainty)


def _null_trace(name: str) -> str:
    package = "org.apache.flink.api.java.typeutils.runtime"
    return trace(
        f"java.lang.IllegalArgumentException: Can not set int field {name} to null value\n"
        "\tat java.base/jdk.internal.reflect.UnsafeFieldAccessorImpl.throwSetIllegalArgumentException(A.java:1)\n"
        "\tat java.base/java.lang.reflect.Field.set(Field.java:1)\n"
        f"\tat {package}.PojoSerializer.deserialize(PojoSerializer.java:1)"
    )


def test_a_null_in_a_primitive_field_is_at_the_field_of_the_snapshot(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.POJO("m.P", {"a": T.INT(), "b": T.INT()})), {"a": 1, "b": None})
    (cause,) = sp.explain(old, error=_null_trace("m.P.b")).causes
    assert (cause.kind, cause.state, cause.field) == (Kind.FIELD_NULL, "total", "b")
    assert cause.certainty is Certainty.CONFIRMED
    assert "field 'b' of m.P is null in 1 values" in cause.evidence[0]
    (cause,) = sp.explain(old, error=_null_trace("m.P.a")).causes
    assert (cause.field, cause.certainty) == ("a", Certainty.PLACE)
    assert "no state of the snapshot fits" in contradicted(sp.explain(old, error=_null_trace("m.P.c")))


@pytest.mark.parametrize(
    ("field", "value", "kinds"),
    [
        (T.ENUM("m.E", ["A"]), "A", [Kind.ENUM_CONSTANT, Kind.CLASS_MISSING]),
        (T.POJO("m.Inner", {"a": T.INT()}), {"a": 1}, [Kind.CLASS_MISSING]),
        (T.INT(), 1, [Kind.STEP]),
    ],
    ids=["enum", "class", "neither"],
)
def test_a_serializer_of_a_field_that_flink_can_not_read(tmp_path: Path, field: Any, value: Any, kinds: list[Kind]) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.POJO("m.P", {"f": field})), {"f": value})
    causes = sp.explain(old, error=trace("java.lang.IllegalStateException: field serializer snapshots should be present.")).causes
    assert [cause.kind for cause in causes] == kinds
    assert {cause.certainty for cause in causes} <= {Certainty.POSSIBLE}


def test_serializers_that_are_not_known_are_not_damage(tmp_path: Path) -> None:
    """The serializer of keys is not known, so that no state can be named: the operator goes as a whole, if Flink fails on it."""
    path = with_unknown_class("orders-rocksdb-canonical", STRING, tmp_path / "unknown")
    explanation = sp.explain(path)
    assert Kind.FILE_DAMAGED not in [cause.kind for cause in explanation.causes]
    assert any(re.match(r"not checked: operator 'orders', subtask 0, .* is unknown", line) for line in explanation.checked)
    text = str(explanation)
    assert "OUT --uid orders\n" in text
    assert "--state ''" not in text


def test_a_version_inside_of_files_that_the_snapshot_does_not_show_is_not_certain() -> None:
    error = trace("org.apache.flink.core.io.VersionMismatchException: Incompatible version: found 7, compatible versions are [6]")
    error = error.replace("heap.HeapKeyedStateBackend.open", "heap.HeapRestoreOperation.restore").replace(
        "flink-dist-1.20.1", "x"
    )
    (cause,) = sp.explain(ORDERS_PATH, error=error).causes
    assert (cause.kind, cause.certainty) == (Kind.NEWER_FORMAT, Certainty.LIKELY)


def test_a_file_of_zeros_is_not_of_a_newer_flink(tmp_path: Path) -> None:
    old = Path(written(tmp_path / "old", sp.ValueState(T.INT()), 5))
    (file,) = (path for path in old.iterdir() if path.name != "_metadata" and path.is_file())
    file.write_bytes(bytes(file.stat().st_size))
    error = trace("org.apache.flink.core.io.VersionMismatchException: Incompatible version: found 0, compatible versions are [6]")
    error = error.replace("heap.HeapKeyedStateBackend.open", "heap.HeapRestoreOperation.restore")
    cause = sp.explain(old, error=error).causes[0]
    assert cause.kind is Kind.FILE_DAMAGED
    assert any(file.name in fact for fact in cause.evidence)


def test_a_class_that_no_class_loader_knows_is_in_a_damaged_header(tmp_path: Path) -> None:
    path = written(tmp_path / "savepoint", sp.ValueState(sp.Types.LONG()))
    (file,) = (file for file in Path(path).iterdir() if file.name != "_metadata")
    content = file.read_bytes()
    damaged = content.replace(b"LongSerializer$LongSerializerSnapshot", b"LongSerializer;\x05ongSerializerSnapshot")
    assert damaged != content
    file.write_bytes(damaged)
    name = "org.apache.flink.api.common.typeutils.base.LongSerializer;\x05ongSerializerSnapshot"
    frame = "\n\tat org.apache.flink.runtime.state.heap.HeapRestoreOperation.restore(X)"
    for error in (f"java.lang.ClassNotFoundException: {text}{frame}" for text in (name, name.replace(".", "/"))):
        (cause, *_) = sp.explain(path, error=error).causes
        assert cause.kind is Kind.FILE_DAMAGED
        assert "class path" not in str(cause.sentence)
        assert not any(repair.loses_state for repair in cause.repairs)


def test_a_snapshot_of_another_job(tmp_path: Path) -> None:
    state = sp.ValueState(T.LONG())
    path = written(tmp_path / "orders", state, uid="orders")
    other = sp.arrow.SavepointWriter.new(128, "1.20")
    other.with_keyed_state("clicks", [{"key": "a", "users": 1}], key_type=T.STRING(), states={"users": state})
    other.write(tmp_path / "clicks")
    assert sp.explain(path, job=tmp_path / "clicks").causes[0].kind is Kind.OTHER_JOB
    renamed = written(tmp_path / "renamed", state, uid="purchases")
    assert sp.explain(path, job=renamed).causes[0].kind is Kind.UNMAPPED_OPERATOR


def test_storage_that_this_machine_can_not_read_is_not_a_missing_snapshot(tmp_path: Path) -> None:
    refused = "s3://bucket/savepoint"
    options = {"endpoint_override": "http://127.0.0.1:9", "access_key": "a", "secret_key": "b", "region": "x"}
    (cause,) = sp.explain(refused, storage_options=options).causes
    assert (cause.kind, cause.certainty) == (Kind.STORAGE, Certainty.POSSIBLE)


def test_a_log_in_the_place_of_the_snapshot_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "jobmanager.log"
    log.write_text(migration("LongSerializer", "IntSerializer"), "utf-8")
    with pytest.raises(OptionError, match="is a log, not a snapshot; pass it with --error"):
        sp.explain(log)


def test_the_newest_snapshot_below_the_directory_of_a_job(tmp_path: Path) -> None:
    path = written(tmp_path / "job" / "chk-3", sp.ValueState(T.INT()), 5)
    explanation = sp.explain(tmp_path / "job", error=migration("LongSerializer", "IntSerializer"))
    (cause,) = explanation.causes
    assert (cause.kind, cause.state, cause.certainty) == (Kind.VALUE_TYPE, "total", Certainty.CONFIRMED)
    assert f"{tmp_path / 'job'} is not a snapshot: the newest snapshot below it was taken" in explanation.checked
    assert all(path in remedy.command for remedy in cause.repairs)
    missing = f"java.io.FileNotFoundException: Cannot find meta data file '_metadata' in directory '{tmp_path / 'job'}'."
    (cause,) = sp.explain(tmp_path / "job", error=missing).causes
    assert cause.kind is Kind.NOT_FOUND  # Flink failed on this directory


def test_advice_that_keeps_state_comes_before_repairs_that_lose_it(tmp_path: Path) -> None:
    path = written(tmp_path / "savepoint", sp.ValueState(T.INT()), 5)
    lines = str(sp.explain(path, error=migration("LongSerializer", "IntSerializer"))).split("\n")
    places = [next(i for i, line in enumerate(lines) if line.startswith(f"  {name}:")) for name in ("advice", "repair")]
    assert places == sorted(places)


def test_the_operator_has_the_uid_of_the_new_job(tmp_path: Path) -> None:
    """Snapshots of Flink 1.x have hashes of uids alone."""
    path = written(tmp_path / "savepoint", sp.ValueState(T.INT()), 5)
    job = {
        "operators": [
            {"uid": "totals", "states": [{"name": "total", "kind": "VALUE", "key_type": "STRING", "value_type": "LONG"}]}
        ]
    }
    (tmp_path / "job.json").write_text(json.dumps({"version": 1, "flink": "1.20", **job}), "utf-8")
    (cause,) = sp.explain(path, error=migration("LongSerializer", "IntSerializer"), job=tmp_path / "job.json").causes
    assert (cause.operator, cause.uid_hash) == ("totals", UID_HASH)


def test_one_repair_of_several_operators_is_told_once(tmp_path: Path) -> None:
    writer = sp.arrow.SavepointWriter.new(128, "1.20")
    for uid in ("first", "second"):
        writer.with_keyed_state(uid, [{"key": "a", "total": 1}], key_type=T.STRING(), states={"total": sp.ValueState(T.INT())})
    path = str(tmp_path / "savepoint")
    writer.write(path)
    operators = [{"uid": uid, "max_parallelism": 64, "states": []} for uid in ("first", "second")]
    (tmp_path / "job.json").write_text(json.dumps({"version": 1, "flink": "1.20", "operators": operators}), "utf-8")
    causes = sp.explain(path, job=tmp_path / "job.json").causes
    assert [cause.kind for cause in causes].count(Kind.MAX_PARALLELISM) == 1


def test_records_in_flight_that_the_snapshot_does_not_have_are_not_the_cause(tmp_path: Path) -> None:
    path = written(tmp_path / "savepoint", sp.ValueState(T.INT()), 5)
    explanation = sp.explain(path, error=trace("java.io.IOException: Serializer consumed more bytes than the record had."))
    assert "does not have records in flight" in contradicted(explanation)
    assert "IOException: Serializer consumed more bytes than the record had" in explanation.causes[0].sentence


@pytest.mark.parametrize(
    ("new", "old", "kind"),
    [
        ("EnumSerializer{enumClass=class a.Level, values=[LOW, HIGH]}", "org.apache.flink.a.StringSerializer@1", Kind.VALUE_TYPE),
        ("org.apache.flink.a.RowDataSerializer@1", "org.apache.flink.a.RowDataSerializer@2", Kind.QUERY),
    ],
)
def test_serializers_by_their_text(new: str, old: str, kind: Kind) -> None:
    package = "org.apache.flink.util.StateMigrationException"
    error = f"{package}: The new state serializer ({new}) must not be incompatible with the old state serializer ({old})."
    assert [cause.kind for cause in sp.explain(error=trace(error)).causes] == [kind]
    row = "org.apache.flink.a.RowDataSerializer@1"
    error = f"{package}: The new key serializer ({row}) must be compatible with the previous key serializer ({row})."
    assert [cause.kind for cause in sp.explain(error=trace(error)).causes] == [Kind.QUERY]


def test_operators_that_exchanged_their_ids_come_first(tmp_path: Path) -> None:
    types = {"first": T.LONG(), "last": T.STRING()}
    for name, uids in (("old", ("totals", "notes")), ("new", ("notes", "totals"))):
        writer = sp.arrow.SavepointWriter.new(128, "1.20")
        for uid, (state, type_) in zip(uids, types.items(), strict=True):
            rows = [{"key": "a", "entry": 1 if state == "first" else "x"}]
            writer.with_keyed_state(uid, rows, key_type=T.STRING(), states={"entry": sp.ValueState(type_)})
        writer.write(tmp_path / name)
    error = migration("StringSerializer", "LongSerializer")
    cause, second, *_ = sp.explain(tmp_path / "old", error=error, job=tmp_path / "new").causes
    assert (cause.kind, second.kind) == (Kind.OPERATORS_SWAPPED, Kind.VALUE_TYPE)
    assert not cause.loses_state
    assert "rename-uid" in cause.repairs[0].command
    assert "LONG in the snapshot, STRING in the job" in second.sentence


def test_a_version_that_no_flink_writes_is_not_that_of_a_newer_one(tmp_path: Path) -> None:
    path = tmp_path / "old"
    written(path, sp.ValueState(T.INT()), 5)
    metadata = (path / "_metadata").read_bytes()
    (path / "_metadata").write_bytes(metadata[:4] + (1337).to_bytes(4, "big") + metadata[8:])
    error = trace("java.lang.IllegalArgumentException: Unrecognized checkpoint version number: 1337")
    cause = sp.explain(path, error=error).causes[0]
    assert (cause.kind, cause.certainty) == (Kind.METADATA_DAMAGED, Certainty.LIKELY)
    for text in (cause.sentence, sp.explain(path).causes[0].sentence):
        assert "the format version 1337, which no Flink writes" in text
