"""Failed steps, whose cause is not known: what the answer says, and when it is left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import state_processor as sp
from state_processor.applications.explain.kinds import Certainty, Kind
from state_processor.types.answers import Answer
from tests.state_processor.applications.explain.test_explaining import UID_HASH, migration, trace, written

T = sp.Types
_RUNTIME = "org.apache.flink.runtime"
_COMMITTER = "org.apache.flink.streaming.runtime.operators.sink.CommitterOperator.notifyCheckpointComplete"
_HEAP = f"{_RUNTIME}.state.heap.HeapSavepointRestoreOperation.restore"
_LOG = "2026-01-02 03:04:05,678"


def _thrown(head: str, *frames: str, entry: str = "") -> str:
    return "\n".join((*filter(None, (entry,)), head, *(f"\tat {frame}(A.java:1)" for frame in frames), ""))


@pytest.mark.parametrize(
    ("head", "frame", "words"),
    [
        (
            "java.io.IOException: 409 conflict: stale",
            _COMMITTER,
            "when it restored or committed a sink: IOException: 409 conflict: stale (thrown by {frame}).",
        ),
        (
            "org.rocksdb.RocksDBException: While lock file: LOCK: Resource temporarily unavailable",
            "org.rocksdb.RocksDB.open",
            "when it opened or used the store of a state backend: RocksDBException: While lock file: LOCK: Resource temporarily",
        ),
        (
            "java.lang.IllegalStateException",
            f"{_RUNTIME}.jobmaster.JobMaster.start",
            "of Flink: IllegalStateException (thrown by {frame}).",
        ),
    ],
)
def test_the_usual_kind_of_a_place_is_not_a_cause(head: str, frame: str, words: str) -> None:
    explanation = sp.explain(error=_thrown(head, frame))
    (cause,) = explanation.causes
    assert words.format(frame=frame) in cause.sentence
    assert cause.certainty is Certainty.LIKELY
    assert cause.repairs == ()
    assert "threw it, or passed it on, while Flink" in cause.evidence[0]
    assert explanation.answer is Answer.UNCHECKED


def test_the_step_names_the_operator_and_what_was_checked(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.INT()), 5)
    error = trace(f"java.lang.IllegalStateException: odd\n\tat {_HEAP}(A.java:1)")
    (cause,) = sp.explain(old, error=error, job=old).causes
    assert (cause.kind, cause.uid_hash) == (Kind.STEP, UID_HASH)
    assert cause.sentence.startswith(
        f"Operator {UID_HASH} failed when Flink restored the keyed state of an operator: IllegalState"
    )
    assert "states of this operator: 'total'" in cause.evidence
    assert "the snapshot can be opened, and its files are complete" in cause.evidence
    assert "the description of the new job fits the snapshot here" in cause.evidence


def test_a_file_that_can_be_read_is_not_the_cause_of_an_early_end(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.STRING()), "text")
    error = trace(f"java.io.EOFException\n\tat java.base/java.io.DataInputStream.readFully(A.java:1)\n\tat {_HEAP}(A.java:1)")
    first, second = sp.explain(old, error=error).causes
    assert (first.kind, first.certainty, first.repairs) == (Kind.SERIALIZER, Certainty.LIKELY, ())
    assert "reads other bytes" in first.sentence
    assert "all values can be read" in first.evidence
    assert (second.kind, second.certainty) == (Kind.FILE_DAMAGED, Certainty.POSSIBLE)


def test_a_warning_beside_the_failure_of_a_task_is_not_certain(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.INT()), 5)
    aside = "java.lang.IllegalArgumentException: Cannot find a factory for changelog storage with name 'x'"
    warning = _thrown(aside, "a.B.c", entry=f"{_LOG} WARN  a.B [] - Metrics are not reported")
    first, second = sp.explain(old, error=warning + migration("LongSerializer", "IntSerializer")).causes
    assert (first.kind, first.certainty) == (Kind.VALUE_TYPE, Certainty.CONFIRMED)
    assert (second.kind, second.certainty) == (Kind.CHANGELOG, Certainty.POSSIBLE)
    (alone,) = sp.explain(old, error=warning).causes
    assert (alone.kind, alone.certainty) == (Kind.CHANGELOG, Certainty.TRACE)


def test_a_mismatch_that_the_trace_does_not_show_is_told_as_such(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.INT()), 5)
    job = written(tmp_path / "new", sp.ValueState(T.LONG()), 5)
    first, second = sp.explain(old, error=_thrown("java.io.IOException: 409", _COMMITTER), job=job).causes
    assert (first.kind, first.certainty) == (Kind.STEP, Certainty.LIKELY)
    assert (second.kind, second.certainty) == (Kind.VALUE_TYPE, Certainty.BESIDE)
    assert sp.explain(old, job=job).causes[0].certainty is Certainty.CONFIRMED


def test_a_description_without_the_change_of_the_trace_confirms_nothing(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.INT()), 5)
    error = migration("LongSerializer", "IntSerializer")
    (cause,) = sp.explain(old, error=error, job=old).causes
    assert (cause.kind, cause.certainty) == (Kind.VALUE_TYPE, Certainty.PLACE)
    assert "the description of the new job does not have this change" in cause.evidence[-1]


def test_the_task_of_the_trace_is_not_in_the_snapshot(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.INT()), 5)
    error = migration("LongSerializer", "IntSerializer").replace(UID_HASH, "0" * 32)
    (cause,) = sp.explain(old, error=error).causes
    assert (cause.kind, cause.certainty) == (Kind.VALUE_TYPE, Certainty.PLACE)
    assert "does not have the id of the task" in cause.evidence[-1]


def test_a_state_without_rows_of_a_query_is_not_of_a_query(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.INT()), 5)
    frame = "\tat org.apache.flink.table.runtime.operators.join.stream.state.JoinRecordStateViews.create(A.java:1)\n"
    (cause,) = sp.explain(old, error=migration("LongSerializer", "IntSerializer") + frame).causes
    assert (cause.kind, cause.certainty) == (Kind.STEP, Certainty.POSSIBLE)


def test_an_answer_of_the_rest_interface_is_one_long_line() -> None:
    error = json.dumps({"root-exception": _thrown(f"java.io.IOException: {'x' * 300}", _COMMITTER)})
    (cause,) = sp.explain(error=error).causes
    assert cause.kind is Kind.STEP


def test_the_path_of_the_trace_is_another_one(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.INT()), 5)
    message = "java.io.FileNotFoundException: Cannot find checkpoint or savepoint file/directory '{}' on file system 'file'."
    (cause,) = sp.explain(old, error=message.format("/data/chk-9")).causes
    assert (cause.kind, cause.certainty) == (Kind.NOT_FOUND, Certainty.LIKELY)
    assert "/data/chk-9" in cause.sentence
    (cause,) = sp.explain(old, error=message.format(f"file://{old}")).causes
    assert (cause.kind, cause.certainty) == (Kind.STEP, Certainty.POSSIBLE)
    assert "the snapshot can be opened" in cause.evidence[0]


@pytest.mark.parametrize(
    ("head", "frames", "kind", "words"),
    [
        (
            "org.apache.avro.UnresolvedUnionException: Not in union: 5",
            (
                "org.apache.avro.generic.GenericData.resolveUnion",
                "org.apache.flink.formats.avro.typeutils.AvroSerializer.serialize",
            ),
            Kind.PROGRAM,
            "(Not in union: 5)",
        ),
        (
            "java.lang.ClassCastException: class a.A cannot be cast to class b.B",
            (
                "org.apache.flink.api.common.typeutils.base.IntSerializer.copy",
                "org.apache.flink.streaming.runtime.tasks.Output.collect",
            ),
            Kind.PROGRAM,
            "cannot be cast",
        ),
        (
            "java.lang.ClassCastException: class a.A cannot be cast to class b.B",
            ("org.apache.flink.api.common.typeutils.base.IntSerializer.copy", f"{_RUNTIME}.state.heap.HeapValueState.value"),
            Kind.VALUE_TYPE,
            "The exception says: class a.A cannot be cast to class b.B.",
        ),
        (
            "java.nio.file.AccessDeniedException: s3://b/ck/_metadata: 403",
            ("org.a.S.open", f"{_RUNTIME}.state.filesystem.AbstractFsCheckpointStorageAccess.resolveCheckpointPointer"),
            Kind.STORAGE,
            "Flink has no access to the storage",
        ),
        (
            "java.lang.IllegalArgumentException: odd mode",
            (f"{_RUNTIME}.checkpoint.CheckpointCoordinator.restoreSavepoint",),
            Kind.STEP,
            "assigned the state of the snapshot to the new job",
        ),
        (
            "java.lang.IllegalStateException: Current operator does not integrate the async processing logic, thus only supports "
            "state v1 APIs.",
            (f"{_RUNTIME}.state.DefaultKeyedStateStore.getPartitionedState",),
            Kind.STATE_API,
            "asks for state of one API, and its operator has the other one",
        ),
        (
            "java.lang.OutOfMemoryError: Requested array size exceeds VM limit",
            ("org.apache.flink.core.memory.DataOutputSerializer.resize",),
            Kind.MEMORY,
            "(Requested array size exceeds VM limit)",
        ),
    ],
)
def test_what_was_done_with_a_value_tells_where_it_comes_from(head: str, frames: tuple[str, ...], kind: Kind, words: str) -> None:
    (cause,) = sp.explain(error=_thrown(head, *frames)).causes
    assert cause.kind is kind
    assert words in cause.sentence


_STREAMING = "org.apache.flink.streaming.api.operators"
_TASK = "org.apache.flink.streaming.runtime.tasks.StreamTask.invoke"
_RECORDS = f"{_RUNTIME}.io.network.api.serialization.SpillingAdaptiveSpanningRecordDeserializer.getNextRecord"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            _thrown("java.io.IOException: 503", f"{_STREAMING}.async.AsyncWaitOperator$ResultHandler.run"),
            "Flink failed when it waited for an asynchronous call of the job: IOException: 503",
        ),
        (
            _thrown(
                "java.lang.IllegalArgumentException: interval must be larger",
                "org.apache.flink.streaming.api.environment.CheckpointConfig.setCheckpointInterval",
            ),
            "The program of the job, or a record of it, is not valid (interval must be larger)",
        ),
        (
            _thrown("java.io.IOException: Corrupt stream, found tag: 9", f"{_RUNTIME}.Delegate.read", _RECORDS),
            "A record of an edge of the job can't be read",
        ),
        (
            _thrown("java.io.FileNotFoundException: /data/s/_metadata (Is a directory)", "java.io.FileInputStream.open"),
            "/data/s/_metadata is a directory, not a file of Flink.",
        ),
        (
            _thrown(
                "java.io.UTFDataFormatException: Encoded string is too long: 66000",
                "org.apache.flink.core.memory.DataOutputSerializer.writeUTF",
                "com.acme.MoneySerializer.serialize",
                f"{_RUNTIME}.state.heap.HeapListState.add",
            ),
            "com.acme.MoneySerializer.serialize, of a serializer of the job, threw UTFDataFormatException",
        ),
        (
            _thrown(
                "java.lang.NullPointerException: No key set. This method should not be called outside of a keyed context.",
                f"{_RUNTIME}.state.heap.StateTable.get",
                "com.acme.Job.open",
            ),
            "uses keyed state or timers where no key is set",
        ),
        (
            "Caused by: org.apache.flink.util.StateMigrationException: The new state \ntypeSerializer for operator state must "
            "not be incompatible.\n\tat org.apache.flink.runtime.state.DefaultOperatorState\nBackend.getListState(A.java:1)\n",
            "The type of the elements of the state differs.",
        ),
    ],
)
def test_the_step_is_told_by_the_innermost_place(error: str, words: str) -> None:
    assert words in sp.explain(error=error).causes[0].sentence


def test_the_last_attempt_counts_and_what_closes_resources_does_not() -> None:
    attempts = (("map", "connection reset"), ("open", "offset is too old"), ("close", "pool is null"))
    error = "".join(
        _thrown(f"java.lang.IllegalStateException: {text}", f"com.acme.Job.{method}", _TASK, entry=f"{_LOG} ERROR Task failed")
        for method, text in attempts
    )
    (cause,) = sp.explain(error=error).causes
    assert "com.acme.Job.open" in cause.sentence
    assert "offset is too old" in cause.sentence


def test_a_task_with_several_operators_does_not_name_the_first(tmp_path: Path) -> None:
    old = written(tmp_path / "old", sp.ValueState(T.INT()), 5)
    entry = f"{_LOG} WARN Task [] - {{}} (1/2)#0 ({'0' * 32}_{UID_HASH}_0_0) switched from RUNNING to FAILED with failure cause:"
    for task, uid_hash in (("count", UID_HASH), ("count -> sum", None)):
        error = _thrown("java.lang.IllegalStateException: odd", _COMMITTER, entry=entry.format(task))
        assert sp.explain(old, error=error).causes[0].uid_hash == uid_hash
