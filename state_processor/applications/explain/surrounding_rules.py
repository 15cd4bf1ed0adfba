"""The rules about what surrounds a restore: connectors, the running job, checkpoints, the machine, the cluster, libraries.

Rules whose messages name the cause in so many words come first, also below wrappers (``TOLD_RULES``). ``CHECKPOINT_RULES`` are
the reasons why checkpoints and savepoints were not completed (Flink: ``CheckpointFailureReason``).
"""

from __future__ import annotations

from typing import Final

from state_processor.applications.explain.kinds import Kind, rule

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


_COORDINATOR: Final = "runtime.checkpoint.CheckpointCoordinator"
_AGAIN: Final = "Take it again when all tasks run. The snapshot need not change."

CHECKPOINT_RULES: Final = (
    rule(
        Kind.CHECKPOINT,
        r"Checkpoint Coordinator is suspending|CheckpointCoordinator shutdown|Periodic checkpoint scheduler is shut down",
        _COORDINATOR,
        says="A checkpoint or savepoint was not completed ({what}): while it was taken, the job ended, was cancelled, stopped or "
        "failed, or its JobManager lost the leadership.",
        advice="If the job was cancelled or stopped, take the savepoint again and wait for it first, or stop once with a "
        "savepoint (flink stop). If it failed, look for the failure above. The snapshot need not change.",
        follows=True,
    ),
    rule(
        Kind.CHECKPOINT,
        r"FailoverRegion is restarting|The job has failed",
        _COORDINATOR,
        says="A checkpoint or savepoint was not completed ({what}): a task failed while it was taken.",
        advice="Look for the failure of the task in the log. The snapshot need not change.",
        follows=True,
    ),
    rule(
        Kind.CHECKPOINT,
        r"[Cc]heckpoint has been subsumed|barrier from newer checkpoint was received",
        _COORDINATOR,
        says="A checkpoint was dropped, because a later one overtook it ({what}).",
        advice="Nothing has to be done, unless no checkpoint is completed: a longer interval between checkpoints helps then.",
        follows=True,
    ),
    rule(
        Kind.CHECKPOINT,
        r"maximum number of queued checkpoint requests exceeded",
        _COORDINATOR,
        says="Flink refused a checkpoint or savepoint: too many of them wait to be taken.",
        advice="Ask for one savepoint at a time, and wait for it. The snapshot need not change.",
    ),
    rule(
        Kind.CHECKPOINT,
        r"Not all required tasks are currently running|declined \(task(?:s not ready| is closing)\)|"
        r"one input stream is finished|Unknown task for the checkpoint to notify",
        _COORDINATOR,
        says="A checkpoint or savepoint was not taken ({what}): a task did not run yet, or had ended.",
        advice=_AGAIN,
        wraps=True,
    ),
    rule(
        Kind.CHECKPOINT,
        r"Task received cancellation from one of its inputs|exception of other subtasks sharing the ChannelState file",
        _COORDINATOR,
        says="A checkpoint or savepoint was not completed ({what}): another task declined it.",
        advice="Look for the failure of the other task in the log. The snapshot need not change.",
        follows=True,
    ),
)
"""Rules, the specific ones first."""


SURROUNDING_RULES: Final = (
    # connectors
    rule(
        Kind.CONNECTOR,
        r"(?:bytes are serialized with|Unrecognized|Unknown|Unsupported|Invalid|not support\w*).{0,40}[vV]ersion|"
        r"[vV]ersion (?:mismatch|or corrupt)|Invalid magic number for|Corrupt data, "
        r"conflicting lengths|trailing bytes in enumerator|Version mismatch",
        "core.io.SimpleVersionedSerializer",
        frames=r"SimpleVersioned|SourceCoordinator|SourceOperator|SinkWriter|Committ|EnumState|SplitSerializer|CommittableSerializer|"
        r"StateSerializer\.deserialize|Enumerator",
    ),
    rule(
        Kind.SOURCE_POSITION,
        r"Undefined offset with no reset policy|(?:[Ff]etch|[Oo]ffset)s? .*out of range|Offsets out of range|"
        r"no longer available on the server|purged (?:required )?binary logs|binlog (?:position|file).*(?:not|no longer)|"
        r"replication slot .*(?:does not exist|invalid|can no longer)|[Ss]equence[ _][Nn]umber.*(?:expired|invalid|"
        r"not found)|"
        r"TrimmedDataAccess|ExpiredIterator|Iterator expired|requested WAL segment|Cannot read snapshot|"
        r"[Ss]napshot (?:with id )?\d+ (?:does not exist|"
        r".*expired|not found)|OutOfRange|"
        r"does not host this topic-partition|Failed to get topic metadata|[Cc]hange stream history lost|"
        r"resume of change stream|"
        r"[Rr]esume ?[Tt]oken (?:was )?not found|[Rr]esume of change stream was not possible",
        "connector.kafka.source.KafkaSource",
    ),
    rule(
        Kind.TRANSACTION,
        r"(?:TransactionNotFound|txdID).*not ?found|files in the snapshot that need to be resubmitted|Committing file failed|"
        r"Cannot clean commit|can ?not recover from the pendingFileRecoverable|XAER_NOTA|NoSuchUpload|"
        r"specified (?:multipart )?upload does not exist|prepared transaction .*does not exist",
        "core.fs.local.LocalRecoverableFsDataOutputStream",
    ),
    rule(
        Kind.TRANSACTION,
        r"transactional id|producer id|epoch|transaction(?:alId)?.*(?:expired|timeout|unknown|invalid|not exist)|"
        r"newer producer",
        "connector.kafka.sink.KafkaCommitter",
        classes=r"ProducerFenced|InvalidTxn|InvalidPidMapping|InvalidProducerEpoch|TransactionalId|UnknownProducerId|FlinkKafkaException",
    ),
    rule(
        Kind.NO_KEY,
        r"No key set\. This method should not be called outside of a keyed context|can only be used on a 'keyed stream'|"
        r"only supported on (?:a )?keyed streams|keyed state backend has not been set|"
        r"State key serializer has not been configured|"
        r"There is no current keyed context",
        "runtime.state.heap.StateTable",
        plain=True,
    ),
    rule(
        Kind.KEY_GROUPS,
        r"",
        "runtime.state.heap.StateTable",
        classes=r"NullPointerException|IndexOutOfBounds",
        thrown_in=r"heap\.StateTable\.|KeyGroupPartitionedPriorityQueue",
    ),
    rule(
        Kind.KEY_GROUPS,
        r"key group (?:-?\d+|from -?\d+ to -?\d+) does not contain|Key group index out of bounds|does not contain key group|"
        r"Key group -?\d+ is not in|Key Group -?\d+ does not belong to the local range|key group must belong to the backend",
        "runtime.state.KeyGroupRangeOffsets",
        plain=True,
    ),
    # the running job
    *CHECKPOINT_RULES,
    rule(
        Kind.CHECKPOINT,
        r"Size of the state is larger than the maximum permitted memory-backed state|"
        r"Trying to open gateway for unseen checkpoint|"
        r"Exceeded checkpoint tolerable failure threshold|Could not (?:complete|materialize|perform) (?:checkpoint|snapshot)|"
        r"Checkpoint was declined|Failed to trigger savepoint|(?:Asynchronous t|Task local |Trigger )ask checkpoint failed|"
        r"checkpoint failure|"
        r"Failure to finalize checkpoint|Could not finalize the pending checkpoint",
        "runtime.checkpoint.CheckpointFailureManager",
        wraps=True,
    ),
    # the program
    rule(
        Kind.PROGRAM,
        r"",
        "api.common.InvalidProgramException",
        classes=r"InvalidProgramException|InvalidTypesException|SqlValidatorException|SqlParse(?:r)?Exception|"
        r"SqlParserEOFException|CalciteContextException|NotSerializableException.*ClosureCleaner|"
        r"ProgramParametrizationException",
    ),
    rule(Kind.PROGRAM, r"^[\w.$]+", "java.io.ObjectOutputStream", classes=r"NotSerializableException"),
    rule(Kind.PROGRAM, r"", "table.api.ValidationException", classes=r"table\.api\.(?:Validation|Table)Exception"),
    rule(
        Kind.PROGRAM,
        r"Node hash must be a 32 character|cannot be used as (?:a )?key|(?:Assigned k|K)ey must not be null|"
        r"Record has Long\.MIN_VALUE timestamp|parallelism \(\d+\) is higher than the max parallelism|"
        r"No operators defined in streaming topology|has no mapped operator",
        "streaming.api.graph.StreamGraph",
    ),
    # the machine
    rule(
        Kind.STORAGE,
        r"",
        "runtime.state.filesystem.FsCheckpointStorageAccess",
        classes=r"IOException|FileAlreadyExists|AccessDenied|FileSystemException|ReadOnlyFileSystem",
        frames=r"initializeBaseLocationsForCheckpoint",
    ),
    rule(
        Kind.STORAGE,
        r"Could not find a file system implementation for scheme '(?P<scheme>[^']+)'|"
        r"Class org\.apache\.hadoop\.\S+ not found|No FileSystem for scheme|"
        r"Cannot access file system for checkpoint|"
        r"Access Denied|403 Forbidden|Status Code: 403|Permission denied|Unable to load (?:AWS )?credentials|SlowDown|"
        r"Status Code: 50[03]|"
        r"Timeout waiting for connection from pool|SafeMode|Name node is in safe mode|ExpiredToken|token .*expired|"
        r"not authorized to perform|AuthorizationPermissionMismatch|storage class|InvalidObjectState|PermanentRedirect|"
        r"Unable to execute HTTP request|GSSException|AccessControlException|InvalidAccessKeyId|"
        r"SignatureDoesNotMatch|NoSuchBucket|Failed to connect to service endpoint|No AWS Credentials provided|"
        r"Connection refused.*(?:hdfs|s3|:8020|:9000)|UnknownHostException.*(?:s3|hdfs)",
        "core.fs.FileSystem",
    ),
    rule(
        Kind.DISK,
        r"No space left on device|Disk quota exceeded|(?:No local storage|Local state base) director|"
        r"Could not create (?:RocksDB|ForSt|root|working|the checkpoint)[\w ]* ?director|"
        r"(?:[Ll]ocal|RocksDB).*does not exist and c(?:annot|ould not) be created|Read-only file system|"
        r"Mkdirs failed to create",
        "java.io.FileOutputStream",
    ),
    rule(
        Kind.RESTORE_MODE,
        r"[sS]avepoints in .{0,20}format are not supported|does not support (?:enforcing a full snapshot|"
        r".{0,20}savepoints)|savepoints are not supported by|"
        r"Triggering a full checkpoint .*not supported",
        "streaming.runtime.tasks.StreamTask",
    ),
    rule(
        Kind.MEMORY,
        r"",
        "java.lang.OutOfMemoryError",
        classes=r"OutOfMemoryError|MemoryAllocationException|MemoryReservationException",
    ),
    rule(Kind.MEMORY, r"OOMKilled|[Ee]xit code:? ?137|StackOverflowError", "Kubernetes"),
    rule(
        Kind.NATIVE_LIBRARY,
        r"Could not initialize class org\.(?:rocksdb|forstdb)|Could not load the native (?:RocksDB|ForSt) library|"
        r"no rocksdbjni|"
        r"librocksdbjni|libforstjni",
        "state.rocksdb.EmbeddedRocksDBStateBackend",
    ),
    # the cluster
    rule(
        Kind.RESOURCES,
        r"Could not acquire the minimum required resources|Could not allocate the required slot|"
        r"Slot request bulk is not fulfillable|"
        r"NoResourceAvailable|Insufficient (?:cpu|memory)|exceeded quota",
        "runtime.jobmanager.scheduler.NoResourceAvailableException",
    ),
    rule(
        Kind.CONFIGURATION,
        r"configuration does not specify the checkpoint directory|Auto generated UIDs have been disabled|"
        r"Generic types have been "
        r"disabled|No savepoint (?:location|directory)|maximum (?:akka|pekko) framesize|exceeds the maximum|"
        r"Cannot parse value for|Could not parse value for enum|larger than the maximum value allowed by the broker|"
        r"Could not parse value '|Cannot use the root directory|Cannot find configured options factory",
        "configuration.Configuration",
    ),
    rule(Kind.CONFIGURATION, r"", "configuration.IllegalConfigurationException", classes=r"IllegalConfigurationException"),
    rule(
        Kind.LINKAGE,
        r"^'?(?P<name>org\.apache\.flink\.(?!state\.|api\.common\.typeutils)[\w$.]+); local class incompatible",
        "java.io.ObjectStreamClass",
    ),
    rule(
        Kind.LINKAGE,
        r"(?P<name>[\w.$]+) cannot be cast to (?:class )?(?P=name)\b|cannot assign instance of (?P<name2>[\w.$]+) to field",
        "java.lang.ClassLoader",
        classes="ClassCastException",
    ),
    rule(
        Kind.LINKAGE,
        r'module (?P<module>\S+) does not "opens (?P<package>[\w.]+)"',
        "java.lang.reflect.AccessibleObject",
        says="Java does not let the job, or a library, look into package {package}: module {module} does not open it.",
        advice="Add --add-opens with this module and package to env.java.opts.all, or keep this class out of what is serialized. "
        "The snapshot need not change.",
    ),
    rule(
        Kind.LINKAGE,
        r"Could not initialize class (?P<name>(?!org\.(?:rocksdb|forstdb))[\w.$]+)",
        "java.lang.ClassLoader",
        classes="NoClassDefFoundError",
        says="The static code of class {name} failed when Java first loaded it: an earlier exception of the log says why.",
        advice="Look for ExceptionInInitializerError above this exception. The snapshot need not change.",
    ),
    rule(
        Kind.LINKAGE,
        r"loader constraint violation",
        "java.lang.ClassLoader",
        classes="LinkageError",
        says="A class is loaded twice, by Flink and from the jar of the job.",
        advice="Leave the library out of one of them: lib of Flink, or the jar of the job. The snapshot need not change.",
    ),
    rule(
        Kind.LINKAGE,
        r"^(?:'?(?:[\w.$\[\]]+ )?)?(?P<name>[\w./$]+(?:\.<init>)?)|",
        "java.lang.ClassLoader",
        classes=r"NoSuchMethodError|NoSuchFieldError|AbstractMethodError|IncompatibleClassChangeError|VerifyError|LinkageError|"
        r"UnsupportedClassVersionError|NoClassDefFoundError|InaccessibleObjectException|"
        r"ExceptionInInitializerError|IllegalAccessError",
    ),
    rule(
        Kind.PYTHON,
        r"(?:ModuleNotFoundError: No module named|ImportError: cannot import name|Can't get attribute) '(?P<name>[\w.]+)'",
        "python worker",
    ),
    rule(
        Kind.JOB_CODE,
        r"Traceback \(most recent call last\).*?^(?P<name>\w*(?:Error|Exception))\b",
        "python worker",
        frames=r"[pP]ython|beam|pemja|py4j",
    ),
    rule(
        Kind.EXTERNAL,
        r"Connection (?:refused|reset|timed out)|Timed out waiting for a node assignment|Failed to (?:construct kafka|"
        r"create new "
        r"KafkaAdminClient)|No resolvable bootstrap urls|Communications link failure|[Aa]uthentication (?:failed|error)|"
        r"SSL handshake failed|Access denied for user|Not authorized to access|Async function call has timed out|"
        r"replication slot .* is active for PID",
        "java.net.Socket",
    ),
    rule(
        Kind.LOST_PROCESS,
        r"Heartbeat of (?:Task|Job)Manager|[Tt]he connection to .*(?:closed|lost)|unexpectedly closed by remote|"
        r"TaskManager .* (?:is no "
        r"longer|lost)|Container released|Pod .*(?:terminated|deleted)|did not exit gracefully|TaskExecutor .*(?:shut|lost)|"
        r"no longer reachable|JobManager deployment is missing",
        "runtime.jobmaster.JobMaster",
    ),
)
"""Rules, the specific ones first."""
