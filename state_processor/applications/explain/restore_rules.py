"""The rules about snapshots: what Flink throws at a restore about operators, types, classes, formats and files.

Each rule names the class of Flink's source that has the message. Versions word some messages differently; a pattern covers all of
them.
"""

from __future__ import annotations

from typing import Final

from state_processor.applications.explain.kinds import Kind, rule

_ID: Final = r"(?P<operator>[0-9a-f]{32})"
_PAIR: Final = r"\((?P<new>[^()@]+)[^()]*\) {verb} the {old} {part} serializer ?\((?P<old>[^()@]+)"
_PATH: Final = r"(?P<path>(?:[a-z][a-z0-9+]*:/)?/[^\s'\"(),]+[^\s'\"(),.:])"
_RESTORE: Final = (
    r"RestoreOperation|RestoreProcedure|KeyedStateBackendBuilder|OperatorStateBackendBuilder|StreamTaskStateInitializer|"
    r"SerializationProxy|TypeSerializerSnapshot|SerializerSnapshot|RocksDBHandle|ChangelogBackendRestore|StateDownload|"
    r"StateDataTransfer|StateTransfer|BackendRestorer|restoreStateAndGates|initializeState"
)
_KRYO: Final = r"kryo\.|KryoSerializer"
_METADATA: Final = r"Checkpoints\.loadCheckpointMetadata|MetadataV\d+(V\d)?Serializer|CheckpointCoordinator\.restoreSavepoint"

UNKNOWN_VERSION: Final = (
    "_metadata has the format version {version}, which this Flink does not read: a later one may have written it."
)
OVERWRITTEN: Final = "_metadata names the format version {version}, which no Flink writes."

RESTORE_RULES: Final = (
    # operators
    rule(
        Kind.UNMAPPED_OPERATOR,
        rf"Cannot map (?:checkpoint/)?(?:savepoint )?(?:old )?state for operator {_ID} to the new program",
        "runtime.checkpoint.Checkpoints",
        plain=True,
    ),
    rule(
        Kind.UNMAPPED_OPERATOR,
        rf"There is no operator for the state {_ID}",
        "runtime.checkpoint.StateAssignmentOperation",
        plain=True,
    ),
    rule(
        Kind.MAX_PARALLELISM,
        rf"Cannot map operator {_ID} with max parallelism (?P<before>\d+) to new program with max parallelism (?P<after>\d+)",
        "runtime.checkpoint.Checkpoints",
        plain=True,
    ),
    rule(
        Kind.MAX_PARALLELISM,
        r"The maximum parallelism \((?P<before>\d+)\) with which the latest checkpoint .* and the current maximum parallelism "
        r"\((?P<after>\d+)\) changed",
        "runtime.checkpoint.StateAssignmentOperation",
        plain=True,
    ),
    rule(
        Kind.PARALLELISM,
        rf"The state for task {_ID} can ?not be restored\. The maximum parallelism \((?P<before>\d+)\) of the restored state is "
        r"lower than the configured parallelism \((?P<after>\d+)\)",
        "runtime.checkpoint.StateAssignmentOperation",
        plain=True,
    ),
    rule(
        Kind.DUPLICATE_UID,
        r"Hash collision on user-specified (?:ID|node hash)(?: \"(?P<uid>.*?)\")?",
        "streaming.api.graph.StreamGraphHasherV2",
        plain=True,
    ),
    rule(
        Kind.IN_FLIGHT,
        r"Cannot recover from unaligned checkpoint when topology changes|Cannot rescale the given pointwise partitioner|"
        r"No channel rescaler found|Incompatible subtask mappings|Invalid (?:input|output) channel state|"
        r"Cannot select .*; known channels are|Recovered a buffer from old|Cannot restore state to a non-(?:recovered|"
        r"checkpointable)|"
        r"Serializer consumed more bytes than the record had|No VirtualChannel found",
        "runtime.checkpoint.StateAssignmentOperation",
    ),
    rule(
        Kind.IN_FLIGHT,
        r"Corrupt stream, found tag: |",  # without methods, the message tells it
        "streaming.runtime.streamrecord.StreamElementSerializer",
        classes=r"Corrupt stream|EOFException|IndexOutOfBounds|UTFDataFormat",
        frames=r"(?:Spanning|Demultiplexing)\w*RecordDeserializer",
        says="A record of an edge of the job can't be read: records in flight have the types of the job that wrote them.",
    ),
    rule(
        Kind.FINISHED_TASKS,
        r"contain mixed operator finished state|both finished and unfinished operators|"
        r"Illegal JobGraph modification|mixed finished and unfinished operators",
        "runtime.checkpoint.VertexFinishedStateChecker",
        plain=True,
    ),
    # the state API
    rule(
        Kind.STATE_API,
        r"Unsupported state type to transform from|"
        r"only accept state V2 APIs|Batch operation is not supported when using async state|"
        r"Async state backend is not properly set",
        "runtime.state.DefaultKeyedStateStore",
        plain=True,
    ),
    # types of keyed state
    rule(
        Kind.KEY_TYPE,
        r"new key serializer(?: " + _PAIR.format(verb="must be compatible with", old="previous", part="key") + r")?",
        "runtime.state.restore.FullSnapshotRestoreOperation",
        classes="StateMigrationException",
        plain=True,
    ),
    rule(
        Kind.KEY_TYPE,
        r"TimerService with (?:new key serializer|different key serializers)|timers for the same service with different key|"
        r"TimerService with incompatible serializers|Timer Service tried to be initialized with different key",
        "streaming.api.operators.InternalTimerServiceImpl",
        plain=True,
    ),
    rule(
        Kind.WINDOW_TYPE,
        r"new namespace serializer(?: " + _PAIR.format(verb="must be compatible with", old="old", part="namespace") + r")?",
        "runtime.state.heap.HeapKeyedStateBackend",
        classes="StateMigrationException",
        plain=True,
    ),
    rule(
        Kind.WINDOW_TYPE,
        r"new priority queue serializer must not be incompatible",
        "runtime.state.heap.HeapPriorityQueueSnapshotRestoreWrapper",
    ),
    rule(
        Kind.WINDOW_TYPE,
        r"TimerService with new namespace serializer|timers for the same service with different namespace",
        "streaming.api.operators.InternalTimerServiceImpl",
        plain=True,
    ),
    rule(
        Kind.WINDOW_TYPE,
        r"class \S*(?P<old>\w*Window) cannot be cast to (?:class )?\S*(?P<new>\w*Window)",
        "streaming.runtime.operators.windowing.WindowOperator",
        classes="ClassCastException",
    ),
    rule(
        Kind.MAP_KEY_TYPE,
        r"MapState requires state migration .*key schema has changed",
        "state.rocksdb.RocksDBKeyedStateBackend",
        classes="StateMigrationException",
        plain=True,
    ),
    rule(
        Kind.VALUE_TYPE,
        r"new state (?:serializer|typeSerializer)(?: "
        + _PAIR.format(verb="(?:must not|cannot) be incompatible with", old="old", part="state")
        + r"| (?:must not|cannot) be incompatible)",
        "runtime.state.heap.HeapKeyedStateBackend",
        classes="StateMigrationException",
        plain=True,
    ),
    rule(
        Kind.VALUE_TYPE,
        r"restored state was registered with a new serializer that has incompatible schema|State migration not support yet|"
        r"[Rr]ow arity of .* (?:does not match|is incompatible with) this serializer",
        "runtime.state.StateSerializerProvider",
    ),
    rule(
        Kind.VALUE_TYPE,
        r"Found (?P<old>[\w.$]+), expecting (?P<new>[\w.$]+)|missing required field|Not a valid schema field|Not in union",
        "formats.avro.typeutils.AvroSerializer",
        classes=r"AvroTypeException|AvroRuntimeException|UnresolvedUnionException",
        frames=r"AvroSerializer(?!\.serialize)",
    ),
    rule(
        Kind.STATE_KIND,
        r"Incompatible key/value state types\. Was \[(?P<old>\w+)\], registered with \[(?P<new>\w+)\]",
        "runtime.state.RegisteredKeyValueStateBackendMetaInfo",
        plain=True,
    ),
    rule(
        Kind.STATE_KIND,
        r"(?:cannot be cast to|is not) .*(?:Internal|Heap|RocksDB|ForSt)?(?:Value|List|Map|Reducing|Aggregating)State\b",
        "runtime.state.AbstractKeyedStateBackend",
        classes="ClassCastException",
        frames=r"getPartitionedState|getOrCreateKeyedState|StateDescriptor",
    ),
    # operator state
    rule(
        Kind.STATE_MODE,
        r"Incompatible state assignment modes\. Was \[(?P<old>\w+)\], registered with \[(?P<new>\w+)\]",
        "runtime.state.DefaultOperatorStateBackend",
        plain=True,
    ),
    rule(
        Kind.BROADCAST_TYPE,
        r"new (?P<part>key|value) (?:typeS|s)erializer for broadcast state must not be incompatible",
        "runtime.state.DefaultOperatorStateBackend",
        plain=True,
    ),
    rule(
        Kind.OPERATOR_STATE_TYPE,
        r"new state (?:typeS|s)erializer for operator state must not be incompatible",
        "runtime.state.DefaultOperatorStateBackend",
        plain=True,
    ),
    rule(
        Kind.CLASS_MISSING,
        r"Unable to restore (?:operator|broadcast) state \[(?P<state>.*?)\]\. The previous",
        "runtime.state.OperatorStateRestoreOperation",
    ),
    rule(
        Kind.FIELD_TYPE,
        r"Can not set (?P<required>[\w.$]+) field (?P<name>[\w$.]+)\.(?P<field>\w+) to (?P<written>(?!null)[\w.$]+)",
        "java.lang.reflect.Field",
        frames=r"PojoSerializer",
        plain=True,
    ),
    rule(
        Kind.FIELD_TYPE,
        r"argument type mismatch|ClassCastException",
        "api.java.typeutils.runtime.JavaRecordBuilderFactory",
        classes=r"IllegalArgumentException|ClassCastException",
        frames=r"JavaRecordBuilderFactory",
    ),
    # classes
    rule(
        Kind.ENUM_CONSTANT,
        r"Could not create a restore serializer for enum (?:class )?(?P<name>[\w$.]+)\. Probably because an enum value",
        "api.common.typeutils.base.EnumSerializer",
        plain=True,
    ),
    rule(
        Kind.ENUM_CONSTANT,
        r"No enum constant (?P<name>[\w$.]+)\.(?P<field>\w+)",
        "java.lang.Enum",
        frames=r"EnumSerializer|SerializerSnapshot|readVersionedSnapshot",
        plain=True,
    ),
    rule(
        Kind.ENUM_CONSTANT,
        r"field serializer snapshots should be present",
        "api.java.typeutils.runtime.PojoSerializerSnapshot",
    ),
    rule(  # the graph of the job: functions, and classes of their fields
        Kind.LINKAGE,
        r"^(?P<name>[\w$.]+)(?:;|$)",
        "streaming.api.graph.StreamConfig",
        classes=r"InvalidClassException|ClassNotFoundException|NoClassDefFoundError",
        frames=r"graph\.StreamConfig\.|JobGraph\.|ExecutionPlan\b|SerializedValue\.deserializeValue",
    ),
    rule(
        Kind.SERIAL_VERSION,
        r"(?<![\w.$])(?!org\.apache\.flink\.(?!state\.|api\.common\.typeutils))"
        r"(?P<name>[\w$.]+); local class incompatible: stream classdesc serialVersionUID = (?P<before>-?\d+), local class "
        r"serialVersionUID = (?P<after>-?\d+)",
        "java.io.ObjectStreamClass",
        plain=True,
    ),
    rule(
        Kind.SERIAL_VERSION,
        r"(?P<name>[\w$.]+); (?:incompatible types for field (?P<field>\w+)|class invalid for deserialization|"
        r"no valid constructor|local class name incompatible|Class name mismatch)",
        "java.io.ObjectStreamClass",
        classes="InvalidClassException",
        says="{Class} of the job does not fit its objects that Java wrote{in_state} ({what}).",
    ),
    rule(
        Kind.FIELD_NULL,
        r"Can not set \w+ field (?P<name>[\w$.]+)\.(?P<field>\w+) to null value",
        "java.lang.reflect.Field",
        frames=r"PojoSerializer",
        plain=True,
    ),
    rule(
        Kind.POJO_TO_KRYO,
        r"(?P<name>[\w$.]+)\.<init>\(\)|Cannot instantiate class|Cannot initialize fields",
        "api.java.typeutils.runtime.PojoSerializer",
        frames=r"PojoSerializer\.(createInstance|deserialize)",
        says="Flink can't create an object of {library} when it reads {state} ({what}): the class may not be a POJO any more.",
    ),
    rule(
        Kind.CLASS_MISSING,
        r"Could not find class '(?P<name>[\w$./\[;-]+)' in classpath|Unable to find class: (?P<name2>[\w$.]{2,})",
        "util.InstantiationUtil",
        plain=True,
    ),
    rule(
        Kind.CLASS_MISSING,
        r"Missing value for the key '(?P<name>[\w.$]+)'",
        "util.LinkedOptionalMap",
        frames="LinkedOptionalMap",
        plain=True,
        says="The snapshot names a serializer that was registered with Kryo for {name} ({state}), and the job can't load it.",
        advice="Put the class of this serializer, and its registration, back into the job: nothing is lost then. A warning of "
        "the log, above the failure, names it.",
    ),
    rule(
        Kind.CLASS_MISSING,
        r"Missing key '(?P<name>[\w.$]+)'",
        "util.LinkedOptionalMap",
        frames="LinkedOptionalMap",
        plain=True,
        says="The snapshot names {name}, which was registered with Kryo ({state}), and the job can't load it.",
        advice="Put the class, and its registration, back into the job: nothing is lost then.",
    ),
    rule(
        Kind.CLASS_MISSING,
        r"^(?P<name>[\w$./]+)$|Cannot find registered class (?P<name2>[\w$.]+)",
        "java.lang.ClassLoader",
        classes=r"ClassNotFoundException|NoClassDefFoundError",
        frames=_RESTORE + r"|SourceCoordinator|Checkpoints|" + _KRYO + r"|typeutils\.|InstantiationUtil",
        plain=True,
    ),
    rule(
        Kind.NO_BACKEND,
        r"^(?P<name>[\w$.]+)$",
        "runtime.state.StateBackendLoader",
        classes=r"ClassNotFoundException",
        frames=r"(?:StateBackend|CheckpointStorage)Loader\.",
        plain=True,
    ),
    rule(
        Kind.NO_BACKEND,
        r"Cannot find (?:configured )?(?:state backend|checkpoint storage|DelegateStateBackend)(?: factory)?(?: class)?"
        r"(?:: (?P<name>[\w$.]+))?",
        "runtime.state.StateBackendLoader",
        plain=True,
    ),
    rule(Kind.FILE_DAMAGED, r"Could not find class '(?P<name>[^']*[^\w$./\[;'-][^']*)'", "util.InstantiationUtil"),
    rule(
        Kind.FILE_DAMAGED,  # no class has such a name
        r"^(?!Could not initialize class)(?P<name>.*[^\w$./\[;-].*)$",
        "java.lang.ClassLoader",
        classes=r"ClassNotFoundException|NoClassDefFoundError",
        frames=_RESTORE,
    ),
    rule(
        Kind.KRYO_VERSION,
        r"(?P<what>kryo)",
        "api.java.typeutils.runtime.kryo.KryoSerializer",
        classes=r"ClassNotFoundException|NoClassDefFoundError|NoSuchMethodError",
        frames=_RESTORE,
    ),
    rule(
        Kind.KRYO_CLASS,
        r"Buffer underflow|Encountered unregistered class ID: -?\d+|Class cannot be created|Class is not registered|"
        r"Serialization trace:\s+(?P<field>\w+) \((?P<name>[\w$.]+)\)|Unable to find class: |Index:? \d+|out of bounds|"
        r"Error creating|missing no-arg constructor|Negative|cannot be cast|String is not|Unknown",
        "api.java.typeutils.runtime.kryo.KryoSerializer",
        frames=_KRYO + r".*(?:read|deserialize)",
    ),
    rule(
        Kind.SERIALIZER,  # a serializer that reads other bytes than it wrote
        r"",
        "state.rocksdb.RocksDBValueState",
        classes=r"EOFException|UTFDataFormatException|IndexOutOfBounds|NegativeArraySize|StreamCorrupted",
        frames=r"(?:RocksDB|ForSt)(?:Value|List|Map|Reducing|Aggregating)State\.",
        thrown_in=r"core\.memory\.|[sS]erializer|\.deserialize$|types\.|(?:RocksDB|ForSt)\w+State\.",
    ),
    rule(
        Kind.SERIALIZER,
        r"The class '(?P<name>[\w$.]+)' is not (?:a subclass of|instantiable)|"
        r"Could not instantiate type '(?P<name2>[\w$.]+)'|"
        r"has no \(implicit\) public nullary constructor",
        "util.InstantiationUtil",
        frames=r"Snapshot",
    ),
    # queries and patterns
    rule(Kind.PATTERN, r"State (?P<stage>.+?) does not exist in the NFA", "cep.nfa.NFA", plain=True),
    rule(
        Kind.QUERY,
        r"Could not (?:restore|load|deserialize).*plan|Unsupported exec node|ExecNodeContext|"
        r"not supported by the current Flink",
        "table.planner.plan.nodes.exec.serde",
        classes=r"TableException|ValidationException|JsonMappingException",
    ),
    # the snapshot as a whole
    rule(
        Kind.NOT_FOUND,
        r"Cannot find meta data file '_metadata' in directory '(?P<path>[^']+)'|"
        r"Cannot find checkpoint or savepoint file/directory '(?P<path2>[^']+)'",
        "runtime.state.filesystem.AbstractFsCheckpointStorageAccess",
        plain=True,
    ),
    rule(
        Kind.NOT_A_SNAPSHOT,
        r"Unexpected magic number\. This can have multiple reasons",
        "runtime.checkpoint.Checkpoints",
        plain=True,
    ),
    rule(
        Kind.NOT_A_SNAPSHOT,
        r"Checkpoint/savepoint path '(?P<path>[^']+)' is not a valid file URI",
        "runtime.state.filesystem.AbstractFsCheckpointStorageAccess",
        plain=True,
    ),
    rule(  # Flink counts versions from 1, and has not come to 100
        Kind.METADATA_DAMAGED,
        r"Unrecognized checkpoint version number: (?P<version>-\d+|0|\d{3,})\b",
        "runtime.checkpoint.metadata.MetadataSerializers",
        says=OVERWRITTEN,
    ),
    rule(
        Kind.NEWER_FORMAT,
        r"Unrecognized checkpoint version number: (?P<version>\d+)",
        "runtime.checkpoint.metadata.MetadataSerializers",
        plain=True,
        says=UNKNOWN_VERSION,
    ),
    rule(  # Flink counts versions from 1
        Kind.FILE_DAMAGED,
        r"Incompatible version: found (?:0|-\d+|\d{3,})\b",
        "core.io.VersionedIOReadableWritable",
        frames=_RESTORE,
    ),
    rule(
        Kind.NEWER_FORMAT,
        r"Incompatible version: found (?P<version>\d+), compatible versions are|Unknown BackendStateType: |"
        r"Unrecognized version"
        r"(?: for TypeSerializerSnapshot format)?: |Unrecognized snapshot version|unrecognized read version|"
        r"Unsupported read ?[vV]ersion",
        "core.io.VersionedIOReadableWritable",
        frames=_RESTORE,
    ),
    rule(
        Kind.OLDER_FORMAT,
        r"Cannot determine corresponding meta info snapshot version|Serialization in v\d+ is no longer supported|"
        r"pre Flink 1\.8 savepoints|\(Flink 1\.1 / 1\.2\) is no longer supported|"
        r"TypeSerializerConfigSnapshot.*(?:no longer|not) "
        r"supported|Legacy state \(from Flink|please migrate using Flink 1\.16|upgrade first to Flink 1\.16|"
        r"InternalTimersSnapshot\w+ is no longer supported",
        "runtime.state.KeyedBackendSerializationProxy",
        plain=True,
    ),
    rule(  # the files of a native savepoint of the heap have other key groups
        Kind.BACKEND,
        r"",
        "runtime.state.FullSnapshotUtil",
        classes=r"IndexOutOfBounds|EOFException",
        thrown_in=r"FullSnapshotUtil",
    ),
    rule(
        Kind.BACKEND,
        r"Unexpected state handle type, expected(?: one of)?: (?P<new>.+?), but found:? (?P<old>[\w$. ]+)|"
        r"Not support restoring yet for ForSt",
        "runtime.state.StateUtil",
    ),
    rule(
        Kind.CHANGELOG,
        r"Cannot find a factory for changelog storage with name '(?P<name>\w+)'|Changelog storage is null when creating",
        "runtime.state.changelog.StateChangelogStorageLoader",
        plain=True,
    ),
    rule(
        Kind.METADATA_DAMAGED,
        r"incorrect magic number in master|length for master state|trailing bytes in master state|invalid checkpoint ID|"
        r"invalid number of master states|Unknown KeyedStateHandle type|Reading invalid \w+Handle|"
        r"Unknown implementation of StreamStateHandle|Cannot deserialize a RelativeFileStateHandle",
        "runtime.checkpoint.metadata.MetadataV2V3SerializerBase",
    ),
    rule(
        Kind.METADATA_DAMAGED,
        r"",
        "runtime.checkpoint.Checkpoints",
        classes=r"EOFException|UTFDataFormatException|StreamCorruptedException|NegativeArraySize|OutOfMemoryError|"
        r"ArrayIndexOutOfBounds",
        frames=_METADATA,
    ),
    rule(
        Kind.METADATA_DAMAGED,
        r"",
        "runtime.checkpoint.metadata.MetadataV2V3SerializerBase",
        classes=r"IllegalArgument|IllegalState",
        thrown_in=r"Metadata(?:V\d|Serializer)|Checkpoints\.loadCheckpointMetadata|ChannelStateHandleSerializer",
    ),
    rule(  # handles with impossible values
        Kind.METADATA_DAMAGED,
        r"",
        "runtime.state.KeyGroupsStateHandle",
        classes=r"NullPointerException|IllegalArgument|IllegalState|NumberFormat|ArithmeticException",
        frames=r"MetadataV\w+Serializer\w*\.deserialize",
    ),
    # files
    rule(
        Kind.SOURCE_POSITION,
        r"",
        "connector.file.src.impl.FileSourceSplitReader",
        classes=r"FileNotFound|NoSuchFile|NoSuchKey",
        frames=r"FileSourceSplitReader|StreamFormatAdapter|BulkFormat|ContinuousFileReaderOperator|FileEnumerator",
    ),
    rule(
        Kind.TRANSACTION,
        r"",
        "streaming.api.functions.sink.filesystem.Bucket",
        classes=r"FileNotFound|NoSuchFile|NotFoundException|NoSuchKey|NoSuchUpload|IOException|EOFException",
        frames=r"FileWriter\.|FileCommitter\.|RecoverableWriter\.|RecoverableFsDataOutputStream|sink\.filesystem\.Bucket|S3Committer|"
        r"FilesCommitter|CommittableStateManager|\.(?:recover|filter)AndCommit|\.readDataFiles",
    ),
    rule(
        Kind.HIGH_AVAILABILITY,
        r"HA (?:meta)?data is not available|HA metadata not available|Could not retrieve (?:checkpoint \d+|(?:submitted )?"
        r"(?:JobGraph|ExecutionPlan)) from state handle under|Could not retrieve checkpoint",
        "runtime.checkpoint.DefaultCompletedCheckpointStoreUtils",
    ),
    rule(
        Kind.HIGH_AVAILABILITY,
        r"",
        "runtime.state.RetrievableStreamStateHandle",
        frames=r"RetrievableStreamStateHandle\.|(?:ZooKeeper|Kubernetes)StateHandleStore\.|DefaultCompletedCheckpointStoreUtils\.",
    ),
    rule(
        Kind.HIGH_AVAILABILITY,
        r"/(?:completedCheckpoint|submittedJobGraph|submittedExecutionPlan|jobGraph|executionPlan)[0-9a-f]{8,}",
        "runtime.persistence.filesystem.FileSystemStateStorageHelper",
        classes=r"FileNotFound|NoSuchFile|NoSuchKey|IOException",
    ),
    rule(
        Kind.FILE_DAMAGED,
        r"block checksum mismatch|[Cc]orruption: |Bad table magic number|file is too short|truncated (?:block|record)|"
        r"Sst file size mismatch|FAILED_TO_UNCOMPRESS|failed to uncompress|invalid stream header|Corrupted stream|"
        r"Corrupt data|"
        r"magic number mismatch|Unexpected key-group in restore|corrupted compressed block|\bMANIFEST\b|bad block contents|"
        r"encountered EOF|"
        r"Unknown (?:backend )?state type|Unknown state id|Checksum error|BlockMissing|Could not obtain block|"
        r"Premature EOF from inputStream",
        "org.rocksdb.RocksDB",
    ),
    rule(
        Kind.FILE_MISSING,
        rf"{_PATH} \((?:No such file or directory|The system cannot find the (?:file|path) specified)\)",
        "java.io.FileInputStream",
    ),
    rule(
        Kind.FILE_MISSING,
        rf"(?:No such file or directory|does not exist|[Ff]ile not found|not found)[:.]? {_PATH}|"
        rf"^{_PATH.replace('<path>', '<path2>')}(?: does not exist)?\.?$|"
        r"NoSuchKey|specified key does not exist|BlobNotFound|404 Not Found",
        "org.apache.hadoop.fs",
        classes=r"FileNotFound|NoSuchFile|S3Exception|NoSuchKey|StorageException|BlobStorage|IOException",
    ),
    rule(
        Kind.FILE_MISSING,
        r"dbFile not found: (?P<path>\S+)|linking to a file that doesn't exist",
        "state.forst.fs.filemapping.FileMappingManager",
    ),
    rule(
        Kind.FILE_DAMAGED,
        r"",
        "runtime.state.heap.HeapRestoreOperation",
        classes=r"EOFException|UTFDataFormatException|StreamCorruptedException|SnappyError|SnappyIOException",
        frames=r"RestoreOperation|KeyGroupsIterator|StateTableByKeyGroupReader|KeyedStateBackendBuilder",
    ),
    rule(
        Kind.SERIALIZER,  # a snapshot of a serializer of the job that refuses what it reads
        r"",
        "api.common.typeutils.TypeSerializerSnapshot",
        frames=r"^(?!org\.apache\.flink\.|java\.|com\.esotericsoftware\.)[\w.$]+\.readSnapshot$",
    ),
)
"""Rules, the specific ones first."""
