"""Rules whose messages name the cause below a wrapper, reasons of checkpoints, and the words of their causes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import state_processor as sp
from state_processor.applications.explain.kinds import Certainty, Kind
from state_processor.backends.metadata.operator_id import operator_id

_CHECKPOINT = "org.apache.flink.runtime.checkpoint.CheckpointException: "
_DECLINED = f"{_CHECKPOINT}Could not complete snapshot 2 for operator A (1/1)#0. Failure reason: Checkpoint was declined."
_RUNNABLE = "org.apache.flink.streaming.runtime.tasks.AsyncCheckpointRunnable.run"
_STREAM = "org.apache.flink.runtime.state.filesystem.FsCheckpointStreamFactory$FsCheckpointStateOutputStream.flush"
_CALLER = "org.apache.flink.streaming.util.functions.StreamingFunctionUtils.snapshotFunctionState"
_VERSIONED = "org.apache.flink.core.io.SimpleVersionedSerialization"
_BLOBS = "org.apache.flink.runtime.blob.FileSystemBlobStore.get"
_OPTIONAL = "org.apache.flink.util.LinkedOptionalMap.unwrapOptionals"
_METADATA = "org.apache.flink.runtime.checkpoint.metadata.MetadataV3Serializer.deserialize"
_SINK = "org.apache.flink.streaming.runtime.operators.sink.SinkWriterOperator.prepareSnapshotPreBarrier"
_KEYED = "org.apache.flink.runtime.state.heap.HeapRestoreOperation.restore"
_SERIALIZERS = "org.apache.flink.api.common.typeutils.TypeSerializerSnapshotSerializationUtil.readAndInstantiateSnapshotClass"
_REFUSED = "org.apache.flink.util.StateMigrationException: The new state serializer"
_VERSIONED = "org.apache.flink.core.io.SimpleVersionedSerialization.readVersionAndDeSerialize"
_STORE = "org.apache.flink.runtime.state.DefaultKeyedStateStore.getListState"


def _text(*throwables: Sequence[str]) -> str:
    """Return a trace: each exception with its methods, the outermost first."""
    lines = []
    for number, (head, *methods) in enumerate(throwables):
        lines.append(f"{'Caused by: ' if number else ''}{head}")
        lines += [f"\tat {method}(A.java:1)" for method in methods]
    return "\n".join([*lines, ""])


@pytest.mark.parametrize(
    ("head", "frames", "kind", "words"),
    [
        (
            "java.lang.IllegalStateException: closed",
            ("com.acme.Export.snapshotState", _CALLER),
            Kind.JOB_CODE,
            "threw IllegalStateException in com.acme.Export.snapshotState, so that a checkpoint was not completed (closed)",
        ),
        (
            "org.apache.flink.util.SerializedThrowable: java.io.IOException: timed out",
            ("com.acme.Writer.flush", _SINK),
            Kind.JOB_CODE,
            "threw IOException in com.acme.Writer.flush",
        ),
        ("java.io.IOException: No space left on device", (_STREAM,), Kind.STORAGE, "The storage of checkpoints is full"),
        ("java.io.IOException: Mkdirs failed to create file:/ck/chk-4", (_STREAM,), Kind.STORAGE, "(file:/ck/chk-4)"),
        (
            "org.apache.flink.types.NullFieldException: Field 1 is null, but expected to hold a value.",
            (_RUNNABLE,),
            Kind.PROGRAM,
            "has null in field 1",
        ),
        (
            "com.esotericsoftware.kryo.KryoException: x\nSerialization trace:\nthread (com.acme.Work)",
            ("com.esotericsoftware.kryo.Kryo.writeObject", _RUNNABLE),
            Kind.PROGRAM,
            "field thread of com.acme.Work",
        ),
        (
            "java.io.IOException: Size of the state is larger than the maximum permitted memory-backed state. Size=9, maxSize=5.",
            (_RUNNABLE,),
            Kind.CHECKPOINT,
            "a state has 9 bytes",
        ),
        (f"{_CHECKPOINT}Checkpoint expired before completing.", (_RUNNABLE,), Kind.CHECKPOINT, "checkpointing.timeout"),
        (
            f"{_CHECKPOINT}Checkpoint triggering task A (1/4) of job 0a is not being executed at the moment.",
            (_RUNNABLE,),
            Kind.CHECKPOINT,
            "task A (1/4) was not",
        ),
        ("java.lang.IllegalStateException: odd", (_RUNNABLE,), Kind.CHECKPOINT, "was not completed (odd)"),
    ],
)
def test_what_is_below_a_checkpoint(head: str, frames: Sequence[str], kind: Kind, words: str) -> None:
    (cause,) = sp.explain(error=_text((_DECLINED, _RUNNABLE), (head, *frames))).causes
    assert (cause.kind, cause.certainty) == (kind, Certainty.LIKELY)
    assert words in cause.sentence


def test_a_wrapper_alone_follows_from_the_exception_that_another_trace_has() -> None:
    failed = _text((f"{_CHECKPOINT}Asynchronous task checkpoint failed.", _RUNNABLE))
    full = _text((_DECLINED, _RUNNABLE), ("java.io.IOException: No space left on device", _STREAM))
    (cause,) = sp.explain(error=f"{failed}2026-01-02 03:04:05,678 WARN x\n{full}").causes
    assert cause.kind is Kind.STORAGE
    (cause,) = sp.explain(error=failed).causes
    assert cause.kind is Kind.CHECKPOINT


def test_a_full_disk_of_a_task_manager_is_not_the_storage() -> None:
    local = "org.apache.flink.contrib.streaming.state.RocksDBKeyedStateBackend.put"
    (cause,) = sp.explain(error=_text((_DECLINED, _RUNNABLE), ("java.io.IOException: No space left on device", local))).causes
    assert cause.kind is Kind.DISK


@pytest.mark.parametrize(
    ("head", "frames", "words"),
    [
        (
            "java.io.IOException: Unrecognized snapshot version 3",
            ("com.acme.MoneySnapshot.readSnapshot", _SERIALIZERS, _KEYED),
            "com.acme.MoneySnapshot.readSnapshot, of a serializer of the job",
        ),
        (
            "java.lang.RuntimeException: The class 'com.acme.MoneySnapshot' is not instantiable: The class is not public.",
            ("org.apache.flink.util.InstantiationUtil.checkForInstantiation", _SERIALIZERS),
            "serializer snapshot com.acme.MoneySnapshot of the job: The class is not public.",
        ),
        (
            f"{_REFUSED} (a.Own@1) must not be incompatible with the old state serializer (a.Own@2).",
            (_KEYED,),
            "Serializer a.Own",
        ),
        (
            "java.io.IOException: no currency",
            (
                "com.acme.MoneySerializer.serialize",
                "org.apache.flink.contrib.streaming.state.AbstractRocksDBState.serializeValue",
            ),
            "com.acme.MoneySerializer.serialize, of a serializer of the job, threw IOException: no currency.",
        ),
    ],
)
def test_serializers_of_the_job(head: str, frames: Sequence[str], words: str) -> None:
    (cause,) = sp.explain(error=_text((head, *frames))).causes
    assert cause.kind is Kind.SERIALIZER
    assert words in cause.sentence
    assert "nothing is lost" in cause.advice


def test_versions_of_values_of_connectors_are_not_versions_of_flink() -> None:
    error = _text(("java.io.IOException: Unrecognized version: 5", "com.acme.Archive$2.deserialize", _VERSIONED))
    (cause,) = sp.explain(error=error).causes
    assert (cause.kind, cause.certainty) == (Kind.CONNECTOR, Certainty.LIKELY)


def test_operator_state_may_be_in_any_operator_of_the_task(tmp_path: Path) -> None:
    names = {"source": "splits", "buffer": "cursors"}
    writer = sp.arrow.SavepointWriter.new(128, "1.20")
    for uid, name in names.items():
        writer.with_list_state(uid, name, [{"value": 1}], sp.Types.LONG())
    writer.write(tmp_path / "s")
    refused = (
        "java.lang.IllegalStateException: Incompatible state assignment modes. Was [SPLIT_DISTRIBUTE], registered with [UNION]."
    )
    entry = f"2026-01-02 03:04:05,678 WARN  x [] - A -> B (1/1)#0 ({'a' * 32}_{operator_id('source')}_0_0) switched\n"
    (cause,) = sp.explain(tmp_path / "s", error=entry + _text((refused, "a.B.c"))).causes
    assert (cause.kind, cause.operator, cause.state) == (Kind.STATE_MODE, None, None)
    assert cause.certainty is not Certainty.CONFIRMED
    assert all(name in cause.evidence[0] for name in names.values())


@pytest.mark.parametrize(
    ("head", "kind", "words"),
    [
        (
            "java.lang.IllegalStateException: Auto generated UIDs have been disabled but no UID or hash has been assigned to "
            "operator Totals",
            Kind.CONFIGURATION,
            "Operator Totals has no uid",
        ),
        ("java.lang.IllegalStateException: No savepoint directory configured. You can", Kind.CONFIGURATION, "No directory for"),
        (
            "org.apache.flink.configuration.IllegalConfigurationException: taskmanager.cpu is 0. Set it",
            Kind.CONFIGURATION,
            "(taskmanager.cpu is 0)",
        ),
        (
            "org.apache.flink.api.common.InvalidProgramException: com.acme.Client@8fd is not serializable. The object",
            Kind.PROGRAM,
            "An object of com.acme.Client,",
        ),
        (
            "org.apache.flink.streaming.runtime.tasks.StreamTaskException: Cannot load user class: com.acme.Fn",
            Kind.LINKAGE,
            "Class com.acme.Fn, an operator or function",
        ),
        (
            "java.lang.ClassCastException: class org.apache.flink.runtime.state.heap.HeapValueState cannot be cast to class "
            "org.apache.flink.api.common.state.ListState (x)",
            Kind.PROGRAM,
            "a ValueState and a ListState",
        ),
    ],
)
def test_programs_and_options(head: str, kind: Kind, words: str) -> None:
    (cause,) = sp.explain(error=_text((head, _STORE))).causes
    assert cause.kind is kind
    assert words in cause.sentence


def test_the_newest_snapshot_of_a_directory_is_named(tmp_path: Path) -> None:
    writer = sp.arrow.SavepointWriter.new(128, "1.20")
    states = {"total": sp.ValueState(sp.Types.LONG())}
    writer.with_keyed_state("totals", [{"key": "a", "total": 1}], key_type=sp.Types.STRING(), states=states)
    writer.write(tmp_path / "job" / "chk-7")
    missing = f"java.io.FileNotFoundException: Cannot find meta data file '_metadata' in directory 'file:{tmp_path}/job'."
    (cause,) = sp.explain(tmp_path / "job", error=_text((missing, "a.B.c"))).causes
    assert (cause.kind, cause.certainty) == (Kind.NOT_FOUND, Certainty.CONFIRMED)
    assert "chk-7" in cause.sentence


_VERSIONED = "org.apache.flink.core.io.SimpleVersionedSerialization"
_BLOBS = "org.apache.flink.runtime.blob.FileSystemBlobStore.get"
_OPTIONAL = "org.apache.flink.util.LinkedOptionalMap.unwrapOptionals"
_METADATA = "org.apache.flink.runtime.checkpoint.metadata.MetadataV3Serializer.deserialize"
_SINK = "org.apache.flink.streaming.runtime.operators.sink.CommitterOperator.snapshotState"


@pytest.mark.parametrize(
    ("throwables", "kind", "words"),
    [
        (
            [
                (
                    "java.lang.IllegalStateException: too long",
                    "com.acme.Job$3.serialize",
                    f"{_VERSIONED}.writeVersionAndSerialize",
                    _SINK,
                )
            ],
            Kind.SERIALIZER,
            "com.acme.Job$3.serialize, of a serializer of the job, threw IllegalStateException when a checkpoint wrote",
        ),
        (
            [("java.lang.UnsupportedOperationException: not yet", "com.acme.Money$Snap.writeSnapshot", _SERIALIZERS)],
            Kind.SERIALIZER,
            "com.acme.Money$Snap.writeSnapshot, of a serializer of the job, threw UnsupportedOperationException",
        ),
        (
            [
                ("java.lang.ExceptionInInitializerError", _SERIALIZERS),
                ("java.lang.NullPointerException: no rates", "com.acme.Money.<clinit>", _SERIALIZERS),
            ],
            Kind.LINKAGE,
            "The static code of class com.acme.Money threw NullPointerException",
        ),
        (
            [
                (
                    "org.apache.flink.util.DynamicCodeLoadingException: Cannot find configured options factory class: a.Fast",
                    _KEYED,
                ),
                ("java.lang.ClassNotFoundException: a.Fast", "org.apache.flink.runtime.state.StateBackendLoader.load"),
            ],
            Kind.CONFIGURATION,
            "Class a.Fast, which the configuration names as the options factory",
        ),
        (
            [("java.io.FileNotFoundException: /ha/blob/job_1/blob_p-2 (No such file or directory)", _BLOBS)],
            Kind.HIGH_AVAILABILITY,
            "blob store of the high-availability storage (/ha/blob/job_1/blob_p-2)",
        ),
        (
            [("java.io.FileNotFoundException: /ha/x/completedCheckpoint1a2b3c4d5e (No such file or directory)", _KEYED)],
            Kind.HIGH_AVAILABILITY,
            "high-availability store",
        ),
        (
            [("java.lang.IllegalStateException: Missing value for the key 'a.Chord'", _OPTIONAL)],
            Kind.CLASS_MISSING,
            "a serializer that was registered with Kryo for a.Chord",
        ),
        (
            [("java.lang.NullPointerException", "org.apache.flink.runtime.state.KeyGroupsStateHandle.<init>", _METADATA)],
            Kind.METADATA_DAMAGED,
            "truncated or damaged",
        ),
        (
            [("java.lang.IllegalArgumentException: Unrecognized checkpoint version number: 1337", _METADATA)],
            Kind.METADATA_DAMAGED,
            "the format version 1337, which no Flink writes",
        ),
        (
            [("java.lang.ClassNotFoundException: a.Tiered", "org.apache.flink.runtime.state.StateBackendLoader.load")],
            Kind.NO_BACKEND,
            "Class a.Tiered is not on the class path of this Flink",
        ),
    ],
)
def test_places_and_messages(throwables: Sequence[Sequence[str]], kind: Kind, words: str) -> None:
    cause = sp.explain(error=_text(*throwables)).causes[0]
    assert cause.kind is kind
    assert words in cause.sentence


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Checkpoint Coordinator is suspending.", "the job ended, was cancelled, stopped or failed"),
        ("CheckpointCoordinator shutdown.", "the job ended, was cancelled, stopped or failed"),
        ("Periodic checkpoint scheduler is shut down.", "the job ended, was cancelled, stopped or failed"),
        ("FailoverRegion is restarting.", "a task failed while it was taken"),
        ("Checkpoint has been subsumed.", "a later one overtook it"),
        ("The maximum number of queued checkpoint requests exceeded", "too many of them wait"),
        ("Checkpoint was declined (tasks not ready)", "did not run yet, or had ended"),
        ("Checkpoint was declined (task is closing)", "did not run yet, or had ended"),
        ("Task received cancellation from one of its inputs", "another task declined it"),
    ],
)
def test_reasons_of_checkpoints(reason: str, words: str) -> None:
    error = f"org.apache.flink.runtime.checkpoint.CheckpointException: {reason}\n\tat a.B.c(B.java:1)\n"
    (cause,) = sp.explain(error=error).causes
    assert (cause.kind, cause.certainty) == (Kind.CHECKPOINT, Certainty.LIKELY)
    assert words in cause.sentence
