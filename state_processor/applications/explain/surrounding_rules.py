"""The rules about what surrounds a restore: connectors, the running job, the machine, the cluster, libraries."""

from __future__ import annotations

from typing import Final

from state_processor.applications.explain.checkpoint_rules import CHECKPOINT_RULES
from state_processor.applications.explain.kinds import Kind
from state_processor.applications.explain.rule import rule

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
