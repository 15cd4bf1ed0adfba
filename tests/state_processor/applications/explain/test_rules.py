"""The rules: messages of Flink's source, of its releases from 1.9 on, and the kinds of causes that they are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from state_processor.applications.explain.kinds import Kind
from state_processor.applications.explain.rules import sightings
from state_processor.applications.explain.traces import Log, read_log

_MIGRATION = "org.apache.flink.util.StateMigrationException: "
_ILLEGAL = "java.lang.IllegalStateException: "
_HASH = "0123456789abcdef0123456789abcdef"
_RESTORE = "org.apache.flink.runtime.state.heap.HeapRestoreOperation.restore"
_KRYO = "org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializer.deserialize"
_METADATA = "org.apache.flink.runtime.checkpoint.Checkpoints.loadCheckpointMetadata"
_COORDINATOR = "org.apache.flink.runtime.source.coordinator.SourceCoordinator.resetToCheckpoint"
_HEADER = "org.apache.flink.api.common.typeutils.TypeSerializerSnapshot.readVersionedSnapshot"
_STORAGE = "org.apache.flink.runtime.state.filesystem.FsCheckpointStorageAccess.initializeBaseLocationsForCheckpoint"
_LOADER = "org.apache.flink.runtime.state.StateBackendLoader.loadStateBackendFromConfig"
_POJO = "org.apache.flink.api.java.typeutils.runtime.PojoSerializer.createInstance"

_AVRO = "org.apache.flink.formats.avro.typeutils.AvroSerializer.deserialize"
_CHECKPOINT_LOADER = "org.apache.flink.runtime.state.CheckpointStorageLoader.load"
_FILE_READER = "org.apache.flink.connector.file.src.impl.FileSourceSplitReader.checkSplitOrStartNext"
_FILE_COMMITTER = "org.apache.flink.connector.file.sink.committer.FileCommitter.commit"
_GRAPH = "org.apache.flink.streaming.api.graph.StreamConfig.getStreamOperatorFactory"
_RECORD = "org.apache.flink.api.java.typeutils.runtime.JavaRecordBuilderFactory$JavaRecordBuilder.build"
_GONE, _OPTIONS = Kind.SOURCE_POSITION, Kind.CONFIGURATION

TOO_LARGE = "Size of the state is larger than the maximum permitted memory-backed state. Size=10004096, maxSize=5242880."
MAXIMUM = Kind.MAX_PARALLELISM
MESSAGES = (
    (
        "org.apache.flink.util.FlinkRuntimeException: Can not restore vertex Map(0a) which contain mixed operator finished "
        "state: [ALL_RUNNING, FULLY_FINISHED]",
        "",
        Kind.FINISHED_TASKS,
    ),
    (
        "java.lang.IllegalArgumentException: Can not set java.lang.String field a.Elem.at to java.lang.Integer",
        "org.apache.flink.api.java.typeutils.runtime.PojoSerializer.deserialize",
        Kind.FIELD_TYPE,
    ),
    ("java.lang.ClassNotFoundException: forst", _LOADER, Kind.NO_BACKEND),
    ("java.lang.ClassNotFoundException: a.Owner$Snap", _HEADER, Kind.CLASS_MISSING),
    ("java.lang.ClassNotFoundException: org.apache.fl;/?t53>;7?", _HEADER, Kind.FILE_DAMAGED),
    ("java.io.IOException: Could not find class 'a.tE_TYPE\x00\x05VALUE' in classpath.", _HEADER, Kind.FILE_DAMAGED),
    ("java.io.IOException: Premature EOF from inputStream", _RESTORE, Kind.FILE_DAMAGED),
    ("java.io.IOException: Invalid magic number for PendingSplitsCheckpoint. Expected: DEADBEEF", _COORDINATOR, Kind.CONNECTOR),
    (f"java.io.IOException: {TOO_LARGE}", "", Kind.CHECKPOINT),
    ("org.apache.flink.runtime.checkpoint.CheckpointException: Checkpoint expired before completing.", "", Kind.CHECKPOINT),
    (
        "java.lang.NullPointerException: No key set. This method should not be called outside of a keyed context.",
        "",
        Kind.NO_KEY,
    ),
    ("java.nio.file.FileAlreadyExistsException: /data/ck", _STORAGE, Kind.STORAGE),
    (f"{_ILLEGAL}There is no operator for the state {_HASH}", "", Kind.UNMAPPED_OPERATOR),
    (f"{_ILLEGAL}Cannot map savepoint state for operator {_HASH} to the new program, because", "", Kind.UNMAPPED_OPERATOR),
    (
        f"{_ILLEGAL}Cannot map operator {_HASH} with max parallelism 8 to new program with max parallelism 9",
        "",
        Kind.MAX_PARALLELISM,
    ),
    (
        f"{_ILLEGAL}The maximum parallelism (8) with which the latest checkpoint of the execution job vertex V has been taken "
        "and the current maximum parallelism (9) changed. This is currently not supported.",
        "",
        MAXIMUM,
    ),
    (
        f"{_ILLEGAL}The state for task {_HASH} can not be restored. The maximum parallelism (8) of the restored state is lower "
        "than the configured parallelism (9).",
        "",
        Kind.PARALLELISM,
    ),
    ('java.lang.IllegalArgumentException: Hash collision on user-specified ID "a".', "", Kind.DUPLICATE_UID),
    ("java.lang.IllegalArgumentException: Hash collision on user-specified ID. Most likely", "", Kind.DUPLICATE_UID),
    (f"{_MIGRATION}The new key serializer must be compatible.", "", Kind.KEY_TYPE),
    (
        f"{_MIGRATION}The new key serializer (a.B@1) must be compatible with the previous key serializer (a.C@2).",
        "",
        Kind.KEY_TYPE,
    ),
    (
        f"{_ILLEGAL}Tried to initialize restored TimerService with new key serializer that requires migration.",
        "",
        Kind.KEY_TYPE,
    ),
    (f"{_MIGRATION}The new namespace serializer must be compatible.", "", Kind.WINDOW_TYPE),
    (f"{_MIGRATION}For heap backends, the new priority queue serializer must not be incompatible.", "", Kind.WINDOW_TYPE),
    (
        f"{_MIGRATION}The new serializer for a MapState requires state migration in order for the job to proceed, since the key "
        "schema has changed.",
        "",
        Kind.MAP_KEY_TYPE,
    ),
    (f"{_MIGRATION}For heap backends, the new state serializer must not be incompatible.", "", Kind.VALUE_TYPE),
    (f"{_MIGRATION}The new state serializer cannot be incompatible.", "", Kind.VALUE_TYPE),
    (f"{_ILLEGAL}Incompatible key/value state types. Was [LIST], registered with [MAP].", "", Kind.STATE_KIND),
    (f"{_ILLEGAL}Incompatible state assignment modes. Was [UNION], registered with [SPLIT_DISTRIBUTE].", "", Kind.STATE_MODE),
    (f"{_MIGRATION}The new state serializer for operator state must not be incompatible.", "", Kind.OPERATOR_STATE_TYPE),
    (f"{_MIGRATION}The new key typeSerializer for broadcast state must not be incompatible.", "", Kind.BROADCAST_TYPE),
    ("java.io.IOException: Unable to restore operator state [l]. The previous typeSerializer", "", Kind.CLASS_MISSING),
    ("java.io.IOException: Could not find class 'a.B' in classpath.", _RESTORE, Kind.CLASS_MISSING),
    ("java.lang.ClassNotFoundException: a.B", _RESTORE, Kind.CLASS_MISSING),
    ("java.lang.NoClassDefFoundError: a/B", _RESTORE, Kind.CLASS_MISSING),
    ("com.esotericsoftware.kryo.kryo5.KryoException: Unable to find class: a.B", _KRYO, Kind.CLASS_MISSING),
    (
        "java.lang.RuntimeException: Could not create a restore serializer for enum a.E. Probably because an enum value",
        _RESTORE,
        Kind.ENUM_CONSTANT,
    ),
    (f"{_ILLEGAL}field serializer snapshots should be present.", _RESTORE, Kind.ENUM_CONSTANT),
    ("java.lang.IllegalArgumentException: Can not set int field a.B.c to null value", _POJO, Kind.FIELD_NULL),
    ("java.lang.RuntimeException: Cannot instantiate class.", _POJO, Kind.POJO_TO_KRYO),
    (
        "java.io.InvalidClassException: a.B; local class incompatible: stream classdesc serialVersionUID = -1, local class "
        "serialVersionUID = 2",
        _RESTORE,
        Kind.SERIAL_VERSION,
    ),
    ("java.io.EOFException: Buffer underflow.", _KRYO, Kind.KRYO_CLASS),
    ("com.esotericsoftware.kryo.KryoException: Encountered unregistered class ID: 99", _KRYO, Kind.KRYO_CLASS),
    ("org.apache.flink.util.FlinkRuntimeException: State b does not exist in the NFA. NFA has states [a]", "", Kind.PATTERN),
    ("java.io.FileNotFoundException: Cannot find meta data file '_metadata' in directory '/a/chk-3'.", "", Kind.NOT_FOUND),
    (
        "a.FileNotFoundException: Cannot find checkpoint or savepoint file/directory '/a' on file system 'file'.",
        "",
        Kind.NOT_FOUND,
    ),
    ("java.io.IOException: Unexpected magic number. This can have multiple reasons: (1)", _METADATA, Kind.NOT_A_SNAPSHOT),
    ("java.io.EOFException", _METADATA, Kind.METADATA_DAMAGED),
    (f"{_ILLEGAL}Reading invalid KeyedStateHandle, type: 77", _METADATA, Kind.METADATA_DAMAGED),
    ("java.lang.IllegalArgumentException: Unrecognized checkpoint version number: 9", "", Kind.NEWER_FORMAT),
    ("java.io.IOException: Incompatible version: found 9, compatible versions are [6, 5]", _RESTORE, Kind.NEWER_FORMAT),
    ("java.io.IOException: This savepoint / checkpoint version (Flink 1.1 / 1.2) is no longer supported.", "", Kind.OLDER_FORMAT),
    (f"{_ILLEGAL}Unexpected state handle type, expected: class a.A, but found: class a.B", "", Kind.BACKEND),
    ("java.lang.UnsupportedOperationException: Not support restoring yet for ForStStateBackend", "", Kind.BACKEND),
    ("java.io.FileNotFoundException: /a/shared/b (No such file or directory)", _RESTORE, Kind.FILE_MISSING),
    ("java.io.FileNotFoundException: File does not exist: /a/shared/b", _RESTORE, Kind.FILE_MISSING),
    ("java.io.FileNotFoundException: No such file or directory: s3a://a/shared/b", _RESTORE, Kind.FILE_MISSING),
    ("a.AmazonS3Exception: The specified key does not exist. (Error Code: NoSuchKey)", _RESTORE, Kind.FILE_MISSING),
    ("org.rocksdb.RocksDBException: block checksum mismatch: stored = 1, computed = 2 in /a/000018.sst", "", Kind.FILE_DAMAGED),
    ("org.rocksdb.RocksDBException: Bad table magic number: expected 1, found 2 in /a/1.sst", "", Kind.FILE_DAMAGED),
    ("java.io.IOException: FAILED_TO_UNCOMPRESS(5)", _RESTORE, Kind.FILE_DAMAGED),
    ("java.io.EOFException", _RESTORE, Kind.FILE_DAMAGED),
    (
        "org.apache.flink.util.FlinkRuntimeException: Cannot find a factory for changelog storage with name 'x' to restore",
        "",
        Kind.CHANGELOG,
    ),
    ("java.lang.UnsupportedOperationException: Cannot rescale the given pointwise partitioner.", "", Kind.IN_FLIGHT),
    (
        "java.io.IOException: The bytes are serialized with version 2, while this deserializer only supports version up to 1",
        _COORDINATOR,
        Kind.CONNECTOR,
    ),
    (
        "java.lang.IllegalArgumentException: Key group 4 is not in KeyGroupRange{startKeyGroup=0, endKeyGroup=1}.",
        "",
        Kind.KEY_GROUPS,
    ),
    (
        "a.UnsupportedFileSystemSchemeException: Could not find a file system implementation for scheme 's3'.",
        "",
        Kind.STORAGE,
    ),
    ("java.io.IOException: No space left on device", _RESTORE, Kind.DISK),
    ("java.io.IOException: Could not create RocksDB data directory at /tmp/a.", "", Kind.DISK),
    (f"{_ILLEGAL}Illegal JobGraph modification. Cannot run a program with fully finished vertices", "", Kind.FINISHED_TASKS),
    (f"{_ILLEGAL}Cannot select a.B; known channels are [c]", "", Kind.IN_FLIGHT),
    (
        "java.io.IOException: Serializer consumed more bytes than the record had. This indicates broken serialization.",
        "",
        Kind.IN_FLIGHT,
    ),
    (
        "java.lang.UnsupportedOperationException: Current operator does not integrate the async processing logic, thus only "
        "supports state v1 APIs. Please use StateDescriptor under 'org.apache.flink.runtime.state'.",
        "",
        Kind.STATE_API,
    ),
    ("java.lang.UnsupportedOperationException: State migration not support yet.", "", Kind.VALUE_TYPE),
    ("java.lang.RuntimeException: Row arity of from (3) does not match this serializer's field length (2).", "", Kind.VALUE_TYPE),
    ("org.apache.avro.AvroTypeException: Found string, expecting long", _AVRO, Kind.VALUE_TYPE),
    (
        "org.apache.flink.configuration.IllegalConfigurationException: Cannot find configured state backend factory",
        "",
        Kind.NO_BACKEND,
    ),
    ("java.lang.ClassNotFoundException: jobmanagers", _CHECKPOINT_LOADER, Kind.NO_BACKEND),
    ("java.io.EOFException", "org.apache.flink.state.rocksdb.RocksDBValueState.value", Kind.SERIALIZER),
    ("java.io.IOException: Can not read snapshot of version 3, latest known is 2", "a.Own$Snap.readSnapshot", Kind.SERIALIZER),
    (f"{_ILLEGAL}dbFile not found: /a/000012.sst", "", Kind.FILE_MISSING),
    ("org.rocksdb.RocksDBException: no log_file_number, next_file_number entry in MANIFEST", "", Kind.FILE_DAMAGED),
    ("java.io.FileNotFoundException: File file:/a/b does not exist or the user", _FILE_READER, Kind.SOURCE_POSITION),
    (
        "org.apache.kafka.clients.consumer.NoOffsetForPartitionException: Undefined offset with no reset policy for "
        "partitions: [a-0]",
        "",
        Kind.SOURCE_POSITION,
    ),
    ("a.DebeziumException: The connector is trying to read binlog b, but this is no longer available on the server.", "", _GONE),
    ("java.io.FileNotFoundException: /a/.part-0-0.inprogress.1", _FILE_COMMITTER, Kind.TRANSACTION),
    ("java.io.FileNotFoundException: File does not exist: /a/b.avro", "a.flink.IcebergFilesCommitter.commit", Kind.TRANSACTION),
    ("a.TransactionNotFoundException: The transaction with this txdID `(3,1)`not found", "", Kind.TRANSACTION),
    ("a.OutOfRangeException: The snapshot with id 120 has expired. You can: 1.", "", Kind.SOURCE_POSITION),
    (
        "org.apache.flink.runtime.checkpoint.CheckpointException: Failed to trigger savepoint. Failure reason: x",
        "",
        Kind.CHECKPOINT,
    ),
    ("java.io.IOException: Committing file failed. Target file already exists: a/b", "", Kind.TRANSACTION),
    (
        "a.UpgradeFailureException: HA metadata not available to restore from last state. It is possible that the job has "
        "finished or terminally failed",
        "",
        Kind.HIGH_AVAILABILITY,
    ),
    (
        "org.apache.flink.util.FlinkException: Could not retrieve checkpoint 7 from state handle under /0007. This indicates "
        "that the retrieved state handle is broken.",
        "",
        Kind.HIGH_AVAILABILITY,
    ),
    ("java.lang.NullPointerException: null", "org.apache.flink.runtime.state.heap.StateTable.put", Kind.KEY_GROUPS),
    ("java.lang.NullPointerException: Keyed state can only be used on a 'keyed stream', i.e., after", "", Kind.NO_KEY),
    ("java.lang.Exception: Could not materialize checkpoint 7 for operator a (1/1)#0.", "", Kind.CHECKPOINT),
    (
        "java.lang.UnsupportedOperationException: Canonical savepoints are not supported by ForSt State Backend.",
        "",
        Kind.RESTORE_MODE,
    ),
    ("java.lang.Exception: Pod a terminated with reason OOMKilled", "", Kind.MEMORY),
    ("a.NoResourceAvailableException: Could not acquire the minimum required resources.", "", Kind.RESOURCES),
    (f"{_ILLEGAL}Auto generated UIDs have been disabled but no UID or hash has been assigned to operator a", "", _OPTIONS),
    ("org.apache.flink.configuration.IllegalConfigurationException: x", "", _OPTIONS),
    ("java.lang.NoSuchMethodError: 'void a.B.c(int)'", "", Kind.LINKAGE),
    ("java.lang.ClassCastException: class a.B cannot be cast to class a.B (a.B is in unnamed module", "", Kind.LINKAGE),
    (
        "java.lang.RuntimeException: Error received from SDK harness for instruction 1: Traceback (most recent call last):\n"
        "ModuleNotFoundError: No module named 'pricing'",
        "",
        Kind.PYTHON,
    ),
    ("java.net.ConnectException: Connection refused", "", Kind.EXTERNAL),
    ("java.util.concurrent.TimeoutException: Heartbeat of TaskManager with id a timed out.", "", Kind.LOST_PROCESS),
    ("java.lang.OutOfMemoryError: Java heap space", _RESTORE, Kind.MEMORY),
    # the program
    ("org.apache.flink.api.common.InvalidProgramException: Object a.F@1 is not serializable", "", Kind.PROGRAM),
    (
        "org.apache.flink.api.common.functions.InvalidTypesException: The return type is unknown",
        "",
        Kind.PROGRAM,
    ),
    ("org.apache.calcite.sql.validate.SqlValidatorException: Column 'a' not found in any table", "", Kind.PROGRAM),
    ("java.lang.IllegalArgumentException: Node hash must be a 32 character String that describes a hex code", "", Kind.PROGRAM),
    ("java.lang.NullPointerException: Assigned key must not be null!", "", Kind.PROGRAM),
    ("java.lang.RuntimeException: Record has Long.MIN_VALUE timestamp (= no timestamp marker).", "", Kind.PROGRAM),
    # the graph of the job, and the classes of Flink itself
    ("java.io.InvalidClassException: a.Source; local class incompatible: stream classdesc x", _GRAPH, Kind.LINKAGE),
    ("java.lang.ClassNotFoundException: a.Function", _GRAPH, Kind.LINKAGE),
    (
        "java.io.InvalidClassException: org.apache.flink.runtime.jobgraph.JobGraph; local class incompatible: stream x",
        "",
        Kind.LINKAGE,
    ),
    ("java.lang.IllegalArgumentException: argument type mismatch", _RECORD, Kind.FIELD_TYPE),
    ("java.lang.IllegalArgumentException: Can not set int field a.B.n to null value", "", Kind.FIELD_NULL),
    ("com.amazonaws.SdkClientException: Failed to connect to service endpoint: ", "", Kind.STORAGE),
    (
        "org.apache.kafka.common.KafkaException: The transaction timeout is larger than the maximum value allowed by the broker",
        "",
        _OPTIONS,
    ),
    ("java.util.concurrent.TimeoutException: Async function call has timed out.", "", Kind.EXTERNAL),
    ("a.ConnectException: ResumeToken not found. Cannot create a change stream cursor", "", Kind.SOURCE_POSITION),
    ("a.CommandException: 'Resume of change stream was not possible, as the resume point may", "", Kind.SOURCE_POSITION),
    ("java.lang.ClassCastException: cannot assign instance of java.lang.invoke.SerializedLambda to field", "", Kind.LINKAGE),
    ("a.JobException: Vertex a's parallelism (3) is higher than the max parallelism (2).", "", Kind.PROGRAM),
    ("a.VersionMismatchException: Incompatible version: found 0, compatible versions are [6]", _RESTORE, Kind.FILE_DAMAGED),
    ("a.VersionMismatchException: Incompatible version: found 7, compatible versions are [6]", _RESTORE, Kind.NEWER_FORMAT),
    ('org.postgresql.util.PSQLException: ERROR: replication slot "a" is active for PID 7', "", Kind.EXTERNAL),
)


@pytest.mark.parametrize(
    ("message", "frame", "kind"), MESSAGES, ids=[f"{number}-{row[2]}" for number, row in enumerate(MESSAGES)]
)
def test_messages(message: str, frame: str, kind: Kind) -> None:
    text = f"org.apache.flink.util.FlinkException: Could not restore\nCaused by: {message}\n"
    text += f"\tat {frame}(A.java:1)\n" if frame else ""
    (sighting,) = sightings(read_log(text).traces)
    assert sighting.kind is kind


_CALLED = (
    "org.apache.flink.streaming.api.operators.KeyedProcessOperator.processElement",
    "org.apache.flink.runtime.state.heap.HeapReducingState$ReduceTransformation.apply",
    "org.apache.flink.client.program.PackagedProgram.callMainMethod",
)
"""Methods of Flink that call code of the job."""
_THROWN = (
    ("java.lang.NullPointerException: null", ()),
    ("java.io.EOFException", ("java.io.DataInputStream.readFully",)),
    ("java.io.IOException: Unknown version 3", ()),
    ("java.lang.IndexOutOfBoundsException: Index: 1, Size: 0", ("java.util.ArrayList.get",)),
    ("java.io.FileNotFoundException: /opt/conf/rules.json (No such file or directory)", ("java.io.FileInputStream.open",)),
    ("java.lang.IllegalStateException: Could not restore the order", ()),
)


def _log(message: str, *frames: str) -> Log:
    return read_log("\n".join((message, *(f"\tat {frame}(A.java:1)" for frame in frames))))


@pytest.mark.parametrize("caller", _CALLED)
@pytest.mark.parametrize(("message", "frames"), _THROWN)
def test_exceptions_of_the_code_of_the_job(message: str, frames: Sequence[str], caller: str) -> None:
    below = "org.apache.flink.runtime.state.heap.StateTable.transform"
    (sighting,) = sightings(_log(message, *frames, "com.acme.Function.call", caller, below).traces)
    assert sighting.kind is Kind.JOB_CODE
    assert sighting.facts["method"] == "com.acme.Function.call"


def test_methods_that_a_trace_leaves_out_are_those_of_the_exception_around() -> None:
    text = (
        "org.apache.flink.client.program.ProgramInvocationException: The main method caused an error\n"
        "\tat org.apache.flink.client.program.PackagedProgram.callMainMethod(PackagedProgram.java:372)\n"
        "Caused by: java.lang.IllegalArgumentException: Missing argument\n\tat com.acme.Job.main(Job.java:7)\n\t... 9 more\n"
    )
    (sighting,) = sightings(read_log(text).traces)
    assert (sighting.kind, sighting.facts["method"]) == (Kind.JOB_CODE, "com.acme.Job.main")
    restore = text.replace("org.apache.flink.client.program.PackagedProgram.callMainMethod", _RESTORE)
    (sighting,) = sightings(read_log(restore).traces)
    assert sighting.kind is Kind.SERIALIZER


@pytest.mark.parametrize(("message", "frames"), _THROWN[:4])
def test_code_whose_caller_is_not_known(message: str, frames: Sequence[str]) -> None:
    assert list(sightings(_log(message, *frames, "com.acme.Function.processElement").traces)) == []


def test_a_class_that_the_code_of_the_job_asks_for() -> None:
    frames = (
        "java.lang.Class.forName",
        "com.acme.Function.open",
        "org.apache.flink.api.common.functions.util.FunctionUtils.open",
    )
    restore = "org.apache.flink.streaming.runtime.tasks.StreamTask.restoreStateAndGates"
    (sighting,) = sightings(_log("java.lang.ClassNotFoundException: com.mysql.cj.jdbc.Driver", *frames, restore).traces)
    assert (sighting.kind, sighting.facts) == (Kind.LINKAGE, {"name": "com.mysql.cj.jdbc.Driver"})


def test_serializers_of_the_job_are_part_of_the_restore() -> None:
    frames = ("java.io.DataInputStream.readFully", "com.acme.OwnSerializer.deserialize")
    (sighting,) = sightings(_log("java.io.EOFException", *frames, _RESTORE).traces)
    assert sighting.kind is Kind.FILE_DAMAGED
    timers = "org.apache.flink.streaming.api.operators.TimerSerializer.deserialize"
    (sighting,) = sightings(_log("java.io.EOFException", *frames, timers, _RESTORE).traces)
    assert sighting.kind is Kind.FILE_DAMAGED


def test_a_null_that_a_serializer_meets_is_not_about_key_groups() -> None:
    copy = "com.esotericsoftware.kryo.serializers.CollectionSerializer.copy"
    table = "org.apache.flink.runtime.state.heap.StateTable.get"
    (sighting,) = sightings(_log("java.lang.NullPointerException: null", "java.util.ArrayDeque.addLast", copy, table).traces)
    assert (sighting.kind, sighting.rule.doing) == (Kind.PROGRAM, "copied a value")


def test_operators_tasks_and_facts_are_read() -> None:
    log = read_log(
        f"2026-01-02 03:04:05,678 WARN  x [] - A (1/1)#0 ({'a' * 32}_{_HASH}_0_0) switched\njava.lang.Exception: x\n"
        "\tat a.B.c(B.java:1)\n"
        "Caused by: org.apache.flink.util.FlinkException: Could not restore keyed state backend for KeyedProcessOperator_"
        f"{'b' * 32}_(1/1) from any of the 1 provided restore options.\n\tat a.B.c(B.java:1)\n"
        f"Caused by: {_MIGRATION}The new key serializer (a.B@1) must be compatible with the previous key serializer (a.C@2).\n"
    )
    (sighting,) = sightings(log.traces)
    assert (sighting.operators, sighting.tasks) == ({"b" * 32}, {_HASH})
    assert sighting.facts == {"new": "a.B", "old": "a.C"}
