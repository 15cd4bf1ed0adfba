"""The rules whose messages name the cause in so many words, below any wrapper: they come before other rules."""

from __future__ import annotations

from typing import Final

from state_processor.applications.explain.kinds import Kind
from state_processor.applications.explain.rule import rule

_WRITES: Final = (
    r"FsCheckpoint(?!StorageAccess\.resolve)|FsMerging|FileMerging|FileSystemBlob|"
    r"CheckpointCoordinator\.initializeCheckpointLocation"
)
"""Methods that write the files of checkpoints. Directories of task managers have others."""
_CHECKPOINTED: Final = r"AsyncCheckpointRunnable|SnapshotStrategyRunner|OperatorSnapshotFinalizer|CheckpointCoordinator"

TOLD_RULES: Final = (
    # the running job
    rule(
        Kind.STORAGE,
        r"No space left on device|Disk quota exceeded|There is not enough space",
        "runtime.state.filesystem.FsCheckpointStreamFactory",
        frames=r"FsCheckpoint|FsMerging|FileMerging",
        says="The storage of checkpoints is full: a checkpoint of the running job could not be written.",
        advice="Free space below the checkpoint directory, or choose another one. The snapshot need not change.",
    ),
    rule(
        Kind.STORAGE,
        r"(?:Mkdirs failed to create |^)(?P<path>(?:\w+:)?/\S*[^\s:])|Read-only file system|Permission denied|"
        r"Failed to create directory",
        "runtime.state.filesystem.FsCheckpointStorageAccess",
        classes=r"FileAlreadyExists|AccessDenied|ReadOnlyFileSystem|NoSuchFile|Mkdirs|Read-only|Permission denied|"
        r"create directory",
        frames=_WRITES,
        says="Flink can't write to the storage of checkpoints{at}: a directory was removed, is a file, or is not writable.",
        advice="Restore the checkpoint directory and its rights, or choose another one. The snapshot need not change.",
    ),
    rule(
        Kind.CHECKPOINT,
        r"Size of the state is larger than the maximum permitted memory-backed state\. "
        r"Size=(?P<size>\d+), maxSize=(?P<limit>\d+)",
        "runtime.state.memory.MemCheckpointStreamFactory",
        says="A checkpoint of the running job was not completed: a state has {size} bytes, and checkpoints in the memory of the "
        "JobManager have room for {limit}.",
        advice="Set a directory of checkpoints (execution.checkpointing.dir, or state.checkpoints.dir). The snapshot need not "
        "change.",
    ),
    rule(
        Kind.CHECKPOINT,
        r"Checkpoint expired before completing",
        "runtime.checkpoint.CheckpointCoordinator",
        says="A checkpoint of the running job expired: a task did not answer within execution.checkpointing.timeout.",
        advice="Find the task that is slow, or that is held up (backpressure), in the history of checkpoints. A longer timeout, "
        "or unaligned checkpoints, help. The snapshot need not change.",
    ),
    rule(
        Kind.CHECKPOINT,
        r"Checkpoint triggering task (?P<task>.+?) of job \w+ is not being executed",
        "runtime.checkpoint.DefaultCheckpointPlanCalculator",
        says="A checkpoint or savepoint was not taken, because not all tasks were running: task {task} was not.",
        advice="Wait until all tasks run: they may wait for slots, or restart. The snapshot need not change.",
    ),
    rule(
        Kind.PROGRAM,
        r"Serialization trace:\s*(?P<member>\S+) \((?P<holder>[\w.$]+)\)",
        "KryoSerializer.serialize",
        frames=_CHECKPOINTED,
        says="Kryo can't write a value of the job: field {member} of {holder} is of a class that can't be written.",
        advice="Make the field transient, or leave it out of the state. The snapshot need not change.",
    ),
    rule(
        Kind.PROGRAM,
        r"Field (?P<member>\d+|'\w+') is null, but expected to hold a value",
        "types.NullFieldException",
        says="A tuple or row that the job writes has null in field {member}, and its serializer can't write null.",
        advice="Set the field, or use a type with nulls, such as a Row or a POJO. The snapshot need not change.",
    ),
    # serializers of the job
    rule(
        Kind.SERIALIZER,
        r"The class '(?P<name>(?!org\.apache\.flink\.)[\w$.]+)' is not instantiable: (?P<why>[^\n]+?)\.?(?:\n|$)",
        "util.InstantiationUtil",
        frames=r"Snapshot",
        says="Flink can't create the serializer snapshot {name} of the job: {why}.",
        advice="Give the class a public constructor without arguments: nothing is lost then.",
    ),
    rule(
        Kind.SERIALIZER,
        r"serializer \((?P<name>(?!org\.apache\.flink\.)[\w$.]+)@\w+\) must not be incompatible with the old [\w ]*serializer "
        r"\((?P=name)@",
        "api.common.typeutils.TypeSerializerSnapshot",
        says="Serializer {name} of the job says that it is incompatible with the one that wrote {state}.",
        advice="Let resolveSchemaCompatibility of its snapshot answer that it is compatible, or that values are migrated: "
        "nothing is lost then.",
    ),
    # libraries, and files of the job
    rule(
        Kind.CONFIGURATION,
        r"Cannot find configured options factory class: (?P<name>[\w.$]+)",
        "state.rocksdb.EmbeddedRocksDBStateBackend",
        says="{Class}, which the configuration names as the options factory of RocksDB or ForSt, is not on the class path.",
        advice="Add the class to the jar of the job or to lib, or remove the option (state.backend.rocksdb.options-factory). The "
        "snapshot need not change.",
    ),
    rule(
        Kind.HIGH_AVAILABILITY,
        r"(?P<path>(?:\w+:)?/\S*[^\s:.,)])?",
        "runtime.blob.FileSystemBlobStore",
        classes=r"FileNotFound|NoSuchFile|NoSuchKey|IOException",
        frames=r"FileSystemBlobStore\.get",
        says="A jar or file of the job can't be read from the blob store of the high-availability storage{at}.",
        advice="Submit the job again with its jar, from its newest checkpoint (state-processor latest DIRECTORY), or put the "
        "file back. The snapshot need not change.",
    ),
    rule(
        Kind.NOT_FOUND,
        r"(?P<path>\S*/_metadata) \(Is a directory\)",
        "core.fs.local.LocalDataInputStream",
        says="{path} is a directory, not a file of Flink.",
    ),
    # the program
    rule(
        Kind.NO_KEY,
        r'getKeyedStateStore\(\)" is null|keyedStateStore" is null',
        "runtime.state.FunctionInitializationContext",
        says="The code of the job asks for keyed state, and its stream has no key (keyBy): there is no store of keyed state.",
    ),
    rule(  # Flink's messages name the two interfaces the wrong way round
        Kind.STATE_API,
        r"thus only supports? state v[12] APIs",
        "runtime.state.DefaultKeyedStateStore",
        plain=True,
        says="The code of the job asks for state of one API, and its operator has the other one: operators with enableAsyncState "
        "have the asynchronous API (v2), all others the synchronous one (v1).",
        advice="Use the descriptors of org.apache.flink.api.common.state.v2 with enableAsyncState, and those of "
        "org.apache.flink.api.common.state without it. The snapshot need not change.",
    ),
    rule(
        Kind.CHECKPOINT,
        r"not supported in (?:a )?single key state backend|is not a streaming job|not supported in (?:BATCH|batch)",
        "streaming.api.operators.sorted.state.BatchExecutionKeyedStateBackend",
        says="The job runs in batch mode, which takes neither checkpoints nor savepoints.",
        advice="Set execution.runtime-mode to STREAMING. The snapshot need not change.",
    ),
    rule(
        Kind.WINDOW_TYPE,
        r"Window (?P<window>.+?) is not in in-flight window set",
        "streaming.runtime.operators.windowing.MergingWindowSet",
        says="A window of {state} is not among the merged windows ({window}): the windows of the job merge (session windows), "
        "and those of the snapshot may not.",
    ),
    rule(
        Kind.PROGRAM,
        r"state\.\S*?\b(?:Heap|RocksDB|ForSt|Changelog|Ttl)(?P<first>Value|List|Map|Reducing|Aggregating)State cannot be cast to "
        r"(?:class |interface )?org\.apache\.flink\.api\.common\.state\.(?P<second>\w+)State\b",
        "runtime.state.DefaultKeyedStateStore",
        classes="ClassCastException",
        says="The job registers two states of one name in one operator: a {first}State and a {second}State.",
        advice="Give the state that the snapshot does not have another name: nothing is lost.",
    ),
    rule(
        Kind.CONFIGURATION,
        r"Auto generated UIDs have been disabled but no UID or hash has been assigned to operator (?P<label>[^\n]+)",
        "streaming.api.graph.StreamGraphHasherV2",
        says="Operator {label} has no uid, and generated ones are switched off (pipeline.auto-generate-uids).",
        advice="Set the uid of the snapshot at the operator. The snapshot need not change.",
    ),
    rule(
        Kind.CONFIGURATION,
        r"No savepoint directory configured",
        "runtime.scheduler.SchedulerBase",
        says="No directory for the savepoint was passed, and execution.checkpointing.savepoint-dir (before 1.20: "
        "state.savepoints.dir) is not set.",
        advice="Pass a directory, or set the option. The snapshot need not change.",
    ),
    rule(
        Kind.PROGRAM,
        r"(?:^|Object )(?P<name>[\w.$]+)(?:@\w+)? is not serializable",
        "api.java.ClosureCleaner",
        says="An object of {name}, which a function of the job holds, is not serializable: the job can't be submitted.",
        advice="Make its field transient, or make its class serializable. The snapshot need not change.",
    ),
    rule(
        Kind.LINKAGE,
        r"Cannot load user class: (?P<name>[\w.$]+)",
        "streaming.api.graph.StreamConfig",
        says="Class {name}, an operator or function of the job, is not in the jar of the job.",
        advice="Build and submit a jar that has the class. The snapshot need not change.",
    ),
)
"""Rules, the specific ones first."""
