"""Places of Flink: what the code that threw an exception was doing, and the kinds of causes that this leaves.

A place is known by the name of its class, so that relocated packages and moved classes are found too. The kind follows from
the place and from the family of the exception: a missing file means one thing at a restore, and another while a sink commits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Final

from state_processor.applications.explain.kinds import Kind, PatternTable


class Family(StrEnum):
    """A family of exceptions."""

    MISSING = auto()  # a file
    ACCESS = auto()  # no right, or no credentials
    NETWORK = auto()
    DAMAGED = auto()  # bytes that end too early or have another form
    CLASS = auto()  # a class that is not found
    LINKAGE = auto()  # a class of another version
    MEMORY = auto()
    STOPPED = auto()  # a task that was cancelled
    CAST = auto()  # an object of another class
    VERSION = auto()  # an operation, or a version, that is not supported
    FILES = auto()  # other exceptions of input and output
    CHECK = auto()  # a condition of Flink's code that does not hold


_FAMILIES: Final = PatternTable(
    (
        (Family.MEMORY, r"OutOfMemoryError|MemoryAllocationException|MemoryReservationException"),
        (Family.CLASS, r"ClassNotFoundException|NoClassDefFoundError"),
        (
            Family.LINKAGE,
            r"NoSuchMethod|NoSuchField|AbstractMethodError|IncompatibleClassChange|VerifyError|LinkageError|IllegalAccess|"
            r"UnsupportedClassVersion|InvalidClassException|InaccessibleObject|ExceptionInInitializer|"
            r"ServiceConfigurationError",
        ),
        (Family.MISSING, r"FileNotFound|NoSuchFile|NoSuchKey|PathNotFound|BlobNotFound|NotFoundException"),
        (
            Family.ACCESS,
            r"AccessDenied|AccessControl|Authenticat|Authoriz|Credential|GSSException|LoginException|SecurityException|"
            r"Kerberos",
        ),
        (
            Family.NETWORK,
            r"ConnectException|SocketException|UnknownHost|SocketTimeout|NoRouteToHost|ConnectTimeout|SSL|ClosedChannel|"
            r"NoHttpResponse|TransportException|RetriableException|SdkClientException|AmazonClientException|KubernetesClient|"
            r"TimeoutException|Disconnected|ConnectionLoss|ServiceUnavailable",
        ),
        (
            Family.DAMAGED,
            r"EOFException|UTFDataFormat|StreamCorrupted|OptionalDataException|Snappy|NegativeArraySize|IndexOutOfBounds|"
            r"BufferUnderflow|KryoException|ZipException|MalformedInput|AvroRuntime|ZstdIO|LZ4",
        ),
        (Family.STOPPED, r"CancelTask|Cancellation|Interrupted|ClosedByInterrupt|ExecutionCancelled"),
        (Family.CAST, r"ClassCastException|ArrayStoreException|ValidationException|StateMigrationException"),
        (Family.VERSION, r"UnsupportedOperation|VersionMismatch|UnsupportedVersion"),
        (Family.FILES, r"IOException|FileSystem|S3Exception|StorageException|RocksDBException|IOError|HttpException"),
    )
)


@dataclass(frozen=True, slots=True)
class Room:
    """An activity of Flink, and the kinds of causes of its exceptions."""

    doing: str  # what it does, after "while it"
    kind: Kind  # the usual kind
    kinds: Mapping[Family, Kind]  # other kinds by the family of the exception


def _room(doing: str, kind: Kind, **kinds: Kind) -> Room:
    return Room(doing, kind, {Family(name): kind_of_family for name, kind_of_family in kinds.items()})


_RESTORE: Final[Mapping[str, Kind]] = {
    "missing": Kind.FILE_MISSING,
    "access": Kind.STORAGE,
    "network": Kind.STORAGE,
    "damaged": Kind.FILE_DAMAGED,
    "class": Kind.CLASS_MISSING,
    "linkage": Kind.SERIAL_VERSION,
    "memory": Kind.MEMORY,
    "stopped": Kind.LOST_PROCESS,
}
_STORAGE: Final[Mapping[str, Kind]] = {
    "missing": Kind.STORAGE,
    "access": Kind.STORAGE,
    "network": Kind.STORAGE,
    "files": Kind.STORAGE,
    "memory": Kind.MEMORY,
    "class": Kind.LINKAGE,
    "linkage": Kind.LINKAGE,
}
_METADATA: Final = _room(
    "read _metadata of the snapshot",
    Kind.METADATA_DAMAGED,
    **{**_RESTORE, "missing": Kind.NOT_FOUND, "damaged": Kind.METADATA_DAMAGED},
)
_POINTER: Final = _room(
    "looked for the snapshot at its path",
    Kind.NOT_FOUND,
    access=Kind.STORAGE,
    network=Kind.STORAGE,
    version=Kind.STORAGE,
    linkage=Kind.STORAGE,
    **{"class": Kind.STORAGE},
)
_KEYED: Final = _room(
    "restored the keyed state of an operator",
    Kind.FILE_DAMAGED,
    **{**_RESTORE, "cast": Kind.BACKEND, "version": Kind.BACKEND},
)
_OPERATOR: Final = _room("restored the operator state of an operator", Kind.FILE_DAMAGED, **_RESTORE)
_REGISTERED: Final = _room(
    "registered a keyed state of the job", Kind.VALUE_TYPE, **{**_RESTORE, "version": Kind.STATE_API, "damaged": Kind.VALUE_TYPE}
)
_LISTS: Final = _room("registered an operator state of the job", Kind.OPERATOR_STATE_TYPE, **_RESTORE)
_BROADCAST: Final = _room("registered a broadcast state of the job", Kind.BROADCAST_TYPE, **_RESTORE)
_TTL: Final = _room("read or wrote a state with time-to-live", Kind.TTL, **_RESTORE)
_TIMERS: Final = _room(
    "restored or registered timers", Kind.KEY_TYPE, **{**_RESTORE, "version": Kind.OLDER_FORMAT, "cast": Kind.WINDOW_TYPE}
)
_SNAPSHOTS: Final = _room(
    "compared a serializer of the job with its snapshot",
    Kind.VALUE_TYPE,
    **{**_RESTORE, "version": Kind.OLDER_FORMAT},
)
_POJO: Final = _room(
    "read or wrote a POJO", Kind.FIELD_TYPE, **{**_RESTORE, "damaged": Kind.VALUE_TYPE, "linkage": Kind.POJO_TO_KRYO}
)
_KRYO: Final = _room(
    "read or wrote a value with Kryo", Kind.KRYO_CLASS, **{**_RESTORE, "damaged": Kind.KRYO_CLASS, "linkage": Kind.KRYO_CLASS}
)
_ENCODED: Final = _room(
    "read or wrote a value",
    Kind.VALUE_TYPE,
    **{**_RESTORE, "damaged": Kind.SERIALIZER, "linkage": Kind.LINKAGE, "class": Kind.CLASS_MISSING},
)
_COPIED: Final = _room("copied a value", Kind.PROGRAM, cast=Kind.VALUE_TYPE, linkage=Kind.LINKAGE, **{"class": Kind.LINKAGE})
_AVRO: Final = _room("read or wrote an Avro record", Kind.VALUE_TYPE, **{**_RESTORE, "damaged": Kind.VALUE_TYPE})
_ROWS: Final = _room("read or wrote a row of Flink SQL", Kind.QUERY, **{**_RESTORE, "damaged": Kind.QUERY})
_FORMATS: Final = _room(
    "decoded or encoded a record of a source or sink", Kind.PROGRAM, network=Kind.EXTERNAL, linkage=Kind.LINKAGE
)
_WRITES: Final = _room("wrote records to a sink", Kind.EXTERNAL, memory=Kind.MEMORY, linkage=Kind.LINKAGE)
_VALUES: Final = _room(
    "read or wrote a value of a keyed state",
    Kind.VALUE_TYPE,
    **{**_RESTORE, "damaged": Kind.SERIALIZER, "files": Kind.FILE_DAMAGED, "cast": Kind.VALUE_TYPE},
)
_HEAP: Final = _room(
    "looked up the current key in the heap", Kind.KEY_GROUPS, **{**_RESTORE, "damaged": Kind.KEY_GROUPS, "cast": Kind.VALUE_TYPE}
)
_KEY_GROUPS: Final = _room("assigned keys to key groups", Kind.KEY_GROUPS)
_CONTEXT: Final = _room("gave the job its keyed state", Kind.NO_KEY, cast=Kind.STATE_KIND, version=Kind.STATE_API)
_STORE: Final = _room(
    "opened or used the store of a state backend",
    Kind.FILE_DAMAGED,
    **{**_RESTORE, "linkage": Kind.NATIVE_LIBRARY, "class": Kind.NATIVE_LIBRARY},
)
_LOCAL: Final = _room("used a local directory", Kind.DISK, memory=Kind.MEMORY)
_CHANGELOG: Final = _room("restored or wrote a changelog", Kind.CHANGELOG, **_RESTORE)
_FLIGHT: Final = _room("restored or wrote records in flight", Kind.IN_FLIGHT, **{**_RESTORE, "damaged": Kind.IN_FLIGHT})
_ASSIGNED: Final = _room("assigned the state of the snapshot to the new job", Kind.UNMAPPED_OPERATOR)
_RESCALED: Final = _room("distributed the state of the snapshot to subtasks", Kind.IN_FLIGHT, version=Kind.IN_FLIGHT)
_SIZES: Final = _room("compared parallelism and max parallelism", Kind.PARALLELISM)
_FINISHED: Final = _room("checked which tasks had finished", Kind.FINISHED_TASKS)
_HOOKS: Final = _room("restored the state of a hook of the coordinator", Kind.CONNECTOR, **{"class": Kind.CLASS_MISSING})
_CHECKPOINTS: Final = _room("took a checkpoint or savepoint", Kind.CHECKPOINT, **_STORAGE)
_WRITTEN: Final = _room("wrote a file of a checkpoint", Kind.STORAGE, memory=Kind.MEMORY)
_STORED: Final = _room(
    "used the high-availability store", Kind.HIGH_AVAILABILITY, access=Kind.HIGH_AVAILABILITY, network=Kind.HIGH_AVAILABILITY
)
_SOURCE: Final = _room(
    "restored a source",
    Kind.CONNECTOR,
    **{"missing": Kind.SOURCE_POSITION, "access": Kind.EXTERNAL, "network": Kind.EXTERNAL, "class": Kind.CLASS_MISSING},
    linkage=Kind.LINKAGE,
)
_FETCH: Final = _room(
    "read records of a source", Kind.EXTERNAL, missing=Kind.SOURCE_POSITION, linkage=Kind.LINKAGE, **{"class": Kind.LINKAGE}
)
_SINK: Final = _room(
    "restored or committed a sink",
    Kind.TRANSACTION,
    **{"version": Kind.CONNECTOR, "cast": Kind.CONNECTOR, "class": Kind.CLASS_MISSING, "damaged": Kind.CONNECTOR},
    access=Kind.STORAGE,
    network=Kind.EXTERNAL,
    linkage=Kind.LINKAGE,
)
_VERSIONS: Final = _room(
    "read a value of a source or sink, with a version", Kind.CONNECTOR, **{"class": Kind.CLASS_MISSING, "linkage": Kind.LINKAGE}
)
_WINDOWS: Final = _room("fired or merged windows", Kind.WINDOW_TYPE, check=Kind.PROGRAM, version=Kind.PROGRAM)
_PATTERNS: Final = _room("matched a pattern of CEP", Kind.PATTERN)
_QUERIES: Final = _room(
    "ran a query of Flink SQL", Kind.QUERY, missing=Kind.EXTERNAL, linkage=Kind.LINKAGE, **{"class": Kind.LINKAGE}
)
_STATEMENT: Final = _room("planned a statement of Flink SQL", Kind.PROGRAM, linkage=Kind.LINKAGE, **{"class": Kind.LINKAGE})
_PYTHON: Final = _room("ran Python code", Kind.PYTHON, **{"class": Kind.LINKAGE, "linkage": Kind.LINKAGE})
_TYPES: Final = _room("derived the types of the job", Kind.PROGRAM, **{"class": Kind.LINKAGE, "linkage": Kind.LINKAGE})
_GRAPH: Final = _room("built the graph of the job", Kind.PROGRAM, **{"class": Kind.LINKAGE, "linkage": Kind.LINKAGE})
_LOADING: Final = _room("loaded classes of the job", Kind.LINKAGE)
_OPTIONS: Final = _room("read the configuration", Kind.CONFIGURATION)
_SLOTS: Final = _room("waited for slots", Kind.RESOURCES)
_SUBMITTED: Final = _room(
    "submitted or started the job", Kind.PROGRAM, missing=Kind.CONFIGURATION, network=Kind.LOST_PROCESS, **{"class": Kind.LINKAGE}
)
_PROCESSES: Final = _room("talked to another process of Flink", Kind.LOST_PROCESS, memory=Kind.MEMORY)
_ASYNC: Final = _room("waited for an asynchronous call of the job", Kind.STEP)
_TASKS: Final = _room("ran a task of the job", Kind.TASK, memory=Kind.MEMORY)
_SHUFFLE: Final = _room("exchanged records between tasks", Kind.LOST_PROCESS, memory=Kind.MEMORY, damaged=Kind.LINKAGE)
_BUFFERS: Final = _room("reserved memory", Kind.MEMORY)
_BLOBS: Final = _room("fetched a jar or another file of the job", Kind.LOST_PROCESS, missing=Kind.DISK, files=Kind.DISK)
_FILES: Final = _room("used a file system", Kind.STORAGE, memory=Kind.MEMORY)
_RIGHTS: Final = _room("logged in", Kind.STORAGE)
_OUTSIDE: Final = _room(
    "used an external system", Kind.EXTERNAL, memory=Kind.MEMORY, **{"class": Kind.LINKAGE, "linkage": Kind.LINKAGE}
)
_KUBERNETES: Final = _room("talked to Kubernetes", Kind.RESOURCES, access=Kind.CONFIGURATION)

_CLASSES: Final[Sequence[tuple[Room, str]]] = (
    # the snapshot and its assignment to the job
    (_POINTER, r"(?:resolveCheckpoint\w*|resolveCheckpointPointer)$"),
    (
        _METADATA,
        r"(?:MetadataV\w+Serializer\w*|MetadataSerializers|ChannelStateHandleSerializerV\d|MasterState|CheckpointMetadata)\b",
    ),
    (_METADATA, r"Checkpoints\.(?:loadCheckpointMetadata|storeCheckpointMetadata|disposeSavepoint)"),
    (
        _ASSIGNED,
        r"Checkpoints\b|CheckpointCoordinator\.restore\w*$|\bcheckStateMappingCompleteness$|\btryRestoreExecutionGraphFromSavepoint$",
    ),
    (_SIZES, r"\bcheckParallelismPreconditions$|\bOperatorState\b|KeyGroupRangeAssignment\b|VertexParallelism"),
    (_FINISHED, r"VertexFinishedStateChecker|FullyFinishedOperatorState|FinishedOperatorChain|FinishedOnRestore"),
    (
        _FLIGHT,
        r"ChannelState|InflightDataRescaling|RescaleMappings|RecoveredInputChannel|RecoveredChannel|SubtasksRescale|"
        r"ResultSubpartition(?:RecoveredState|Distributor)|SequentialChannelState|DemultiplexingRecordDeserializer|"
        r"RescalingStreamTaskNetworkInput|VirtualChannelSelector|RecordFilter|InputChannelRecovered|StateHandler\.recover$|"
        r"SubtaskStateMapper|readRecoveredState|UpstreamRecovery",
    ),
    (
        _RESCALED,
        r"StateAssignmentOperation|TaskStateAssignment|OperatorStateRepartitioner|(?:Prioritized)?OperatorSubtaskState\b",
    ),
    (_HOOKS, r"MasterHooks|WithMasterCheckpointHook"),
    (
        _STORED,
        r"ZooKeeper(?!.*Module)|Kubernetes(?:StateHandleStore|Leader|CheckpointI|CheckpointR|HaServices|StoreUtils)|"
        r"CompletedCheckpointStore|RetrievableStreamStateHandle|ExecutionPlanStore|JobGraphStore|JobResultStore|"
        r"JobResultEntry|"
        r"ApplicationResult|FileSystemStateStorageHelper|HighAvailability|HaServices|LeaderElection|LeaderRetrieval|Curator|"
        r"PersistenceComponentFactory|CheckpointRecoveryFactory|CheckpointIDCounter|ResourceVersion\b|StateHandleStore|"
        r"Throwing(?:ExecutionPlan|JobGraph)Writer|EmbeddedLeader",
    ),
    # checkpoints that are written
    (
        _CHECKPOINTS,
        r"\.runtime\.checkpoint\.|Checkpoint(?:Coordinator|Failure|Plan|Stats|Request|sCleaner|Exception|Properties|Options|"
        r"Metrics|Barrier|Runnable|Scheduling)|PendingCheckpoint|CompletedCheckpoint|StopWithSavepoint|"
        r"CollectingBarriers|CheckpointedInputGate|InputProcessorUtil|FullSnapshotUtil|StateTableSnapshot|"
        r"AsyncSnapshotCallable|Snapshot(?:Strategy|Resources|AsyncWriter|Result|Callable|Futures|Finalizer|Directory)|"
        r"FileMerging|PhysicalFile|SnapshotContextSynchronous|StateUploader|"
        r"PeriodicMaterialization|SnapshotManager|performCheckpoint|snapshotState$|SharedStateRegistry",
    ),
    (
        _WRITTEN,
        r"CheckpointStateOutputStream|CheckpointStreamFactory|CheckpointMetadataOutputStream|CheckpointStateToolset|"
        r"CheckpointOutputStream|CheckpointStorageLocation|CheckpointStorageAccess|FileBasedStateOutputStream|"
        r"MetadataOutputStream|"
        r"MemoryBackendCheckpoint|PersistentMetadata|CheckpointStorage\b|ExternalizedSnapshotLocation",
    ),
    # changelog
    (_CHANGELOG, r"[cC]hangelog|StateChange\w*\b|\.changelog\."),
    # keyed state: restore
    (
        _KEYED,
        r"RestoreOperation|RestoreProcedure|RestorerProcedure|BackendBuilder|KeyGroupsStateHandle|KeyGroupsIterator|"
        r"StateTableByKeyGroup|"
        r"KeyedBackendSerializationProxy|StateMetaInfoSnapshotReaders|StateMetaInfoSnapshot\b|RocksDBHandle|ForStHandle|"
        r"StateDownloader|StateDataTransfer|DataTransferStrategy|IncrementalCheckpointUtils|KeyGroupRangeOffsets|"
        r"(?:Incremental\w*|Placeholder\w*|ByteStream|File|Directory\w*|SegmentFile|\bStream)StateHandle|"
        r"FsSegmentDataInputStream|"
        r"CompressibleFSDataInputStream|CompressionDecorator|StreamTaskStateInitializer|StatePartitionStream|HeapMetaInfo|"
        r"KeyGroupPartitioner|StateUtil\b|ChainedStateHandle|restoreStateAndGates|FileMappingManager|MappingEntry|"
        r"restoreState$",
    ),
    (
        _OPERATOR,
        r"OperatorStateRestore|OperatorBackendSerializationProxy|OperatorStateBackendBuilder|OperatorStateHandle|"
        r"OperatorStreamStateHandle",
    ),
    (
        _TIMERS,
        r"InternalTime|TimerSerializer|TimersSnapshot|TimerService|PriorityQueue(?!Serializer)|TimerHeap|TimerRegistration",
    ),
    # keyed state: registration and use
    (_BROADCAST, r"BroadcastState"),
    (
        _LISTS,
        r"DefaultOperatorStateBackend|RegisteredOperatorState|PartitionableListState|SimpleVersionedListState|"
        r"OperatorListState",
    ),
    (_TTL, r"\bTtl\w+|\bAbstractTtl\w+|StateTtlConfig|TtlCompactFilter"),
    (
        _CONTEXT,
        r"StreamingRuntimeContext|RuntimeUDFContext|StateInitializationContext|DefaultKeyedStateStore\w*|"
        r"AbstractRichFunction|"
        r"KeyedStateCheckpointOutput|StreamOperatorStateHandler|SerializedCompositeKeyBuilder|getPartitionedState$|"
        r"BatchExecution|"
        r"BatchCoBroadcast|IterationRuntimeContext|setCurrentKey$",
    ),
    (
        _REGISTERED,
        r"tryRegister\w+|registerNewSerializer\w*|getOrCreateKeyedState|StateSerializerProvider|Registered\w*MetaInfo\w*|"
        r"KeyedStateFactory|createOrUpdateInternalState|StateDescriptor\w*|checkRequirements|migrate\w*State\w*|"
        r"KeyedStateBackend|StateFactory\b|StateAdaptor|StateSerializerReference|MetaInfoUtils",
    ),
    (_HEAP, r"StateTable\b|CopyOnWriteStateMap|StateMapSnapshot|HeapPriorityQueue|NestedStateMap|StateMap\b"),
    (_KEY_GROUPS, r"KeyGroupRange|KeyGroup"),
    (
        _VALUES,
        r"(?:RocksDB|ForSt|Heap|Abstract|Immutable|Merging|ForStSync|MetricsTracking|LatencyTracking)\w*"
        r"(?:Value|List|Map|Reducing|Aggregating|Appending|Sync|KeyValue|Heap|RocksDB)?State(?:Iterator|Factory|Config)?\b|"
        r"ListDelimitedSerializer|StateSnapshotTransformer|SyncIteratorWrapper|CompleteStateIterator|\.runtime\.state\.v2\.",
    ),
    (_LOCAL, r"LocalState|LocalRecovery\w*|LocalSnapshotDirectory|TaskLocalState|createAndCheck\w*Directory|lazyInitialize\w*"),
    (
        _STORE,
        r"RocksDB|ForSt|\bRocks\w+|rocksdb\.|forstdb\.|OpaqueMemoryResource|CachedDataInputStream|DoubleListLru|"
        r"ByteBuffer\w+FSData|"
        r"ColumnFamilyLookup|CompactionTask|ManualCompaction",
    ),
    (
        _OPTIONS,
        r"ConfigurableOptionsFactory|LegacyEnumBridge|StateBackendLoader|CheckpointStorageLoader|StateBackend\b|"
        r"StateBackendFactory|StateBackend\.",
    ),
    (_LOCAL, r"TaskExecutor(?:State|FileMerging|ChannelState)\w*Manager"),
    # serializers
    (_COPIED, r"(?:[sS]erializer\w*|[kK]ryo\b.*|KryoUtils|\$Ttl\w*)\.(?:copy|createInstance)$"),
    (_KRYO, r"[kK]ryo|NoFetchingInput|ChillSerializer|FlinkScalaKryo"),
    (_FORMATS, r"[sS]erializationSchema|\.formats\.(?!avro\.typeutils)"),
    (_AVRO, r"\bAvro\w*|\.avro\."),
    (_POJO, r"\bPojo(?:Serializer|Field|Comparator)\b|JavaRecordBuilder"),
    (
        _ROWS,
        r"RowData\w*|BinaryRow\w*|\bBinary(?:Array|Map|String|Segment)\w*|\.table\.runtime\.typeutils\.|\.table\.data\.",
    ),
    (_ENCODED, r"Serializer\w*\.(?:de)?serialize$"),
    (
        _SNAPSHOTS,
        r"Serializer\w*Snapshot\w*|SerializerSnapshot|TypeSerializer\w*|NestedSerializers\w*|CompositeType\w*|"
        r"UnloadableDummy\w*|EnumSerializer|Serializer\b|\.typeutils\.(?:base|runtime)\.|\bVersionedIOReadableWritable|"
        r"PostVersioned\w+|readVersionedSnapshot|resolveSchemaCompatibility|SerializationProxy|JavaSerializer",
    ),
    (_TYPES, r"\bType(?:Extract\w+|Information|Comparator)|\w+TypeInfo(?:Factory)?\b|\.typeutils\.|\.typeinfo\.|MigrationUtil"),
    # sources and sinks
    (
        _WRITES,
        r"(?:Sink|Writer|OutputFormat|Producer|Indexer)\w*\.(?:flush|write|writeRecord|invoke|send|checkErroneous|"
        r"checkAsyncException)$|"
        r"WriterCallback|\.onCompletion$",
    ),
    (
        _SINK,
        r"Committ\w+|CommitRequest|TwoPhaseCommit|SinkWriter\w*|\.sink\.filesystem\.|\.file\.sink\.|GenericWriteAheadSink|"
        r"Recoverable\w*|SinkV1\w+|FlinkKafkaProducer|KafkaWriter|KafkaSink|TransactionManager|StatefulSink|AsyncSinkWriter|"
        r"\bJdbcXa|XaSink|PartFileWriter|FileWriter|Compact(?:or|Coordinator|Service|Operator)\w*|\bBuckets?\b|"
        r"HadoopPathBased|\.sink2?\.",
    ),
    (
        _VERSIONS,
        r"SimpleVersioned\w*|SplitSerializer|EnumeratorState\w*|EnumState\w*|SourceCoordinatorSerde|CheckpointSerializer",
    ),
    (
        _SOURCE,
        r"SourceCoordinator\w*|OperatorCoordinator\w*|SourceOperator\w*|HybridSource\w*|SplitEnumerator\w*|\.coordination\.|"
        r"FlinkKafkaConsumer\w*\.initializeState|SubtaskGateway",
    ),
    (
        _FETCH,
        r"SplitFetcher\w*|FetchTask|SourceReader\w*|SplitReader|\.source\.|\.file\.src\.|\.connector\.base\.|KafkaConsumer|"
        r"FlinkKafkaConsumer|KafkaFetcher|SourceStreamTask|LegacySource|ContinuousFile\w+|FileInputFormat|\.connectors?\.",
    ),
    # operators
    (_PATTERNS, r"\.cep\.|\bNFA\w*|SharedBuffer\w*|CepOperator"),
    (_WINDOWS, r"WindowOperator|MergingWindowSet|\.windowing\."),
    (_PYTHON, r"[pP]ython|\bbeam\.|py4j|pemja|PyFlink"),
    (_QUERIES, r"\.table\.runtime\.|StreamExec\w+|\.exec\.|ExecNode|CompiledPlan|generated\."),
    (_STATEMENT, r"\.table\.|\.sql\.|calcite"),
    # other systems
    (
        _OUTSIDE,
        r"\.kafka\.|mysql|postgres|jdbc|mongodb|elasticsearch|opensearch|redis|pulsar|rabbitmq|kinesis|debezium|"
        r"schemaregistry",
    ),
    (
        _OUTSIDE,
        r"cassandra|hbase|\bhive|iceberg|hudi|paimon|oracle|sqlserver|influx|\.zookeeper\.|clickhouse|doris|starrocks|"
        r"snowflake|nats\.",
    ),
    (_ASYNC, r"AsyncWaitOperator"),
    # the program
    (
        _GRAPH,
        r"\.api\.environment\.|StreamGraph\w*|StreamingJobGraph\w*|JobGraph\w*|StreamConfig|StreamNode|Transformation\w*|ClosureCleaner|"
        r"ExecutionPlan|"
        r"ExecutionEnvironment|\.datastream\.|KeySelectorUtil|FieldAccessor\w*|JobVertex|ExecutionConfig|OperatorFactory|"
        r"StreamGraphHasher\w*|AdaptiveGraphManager|FunctionUtils|StreamingFunctionUtils|\.optimizer\.|\.api\.common\.|"
        r"\.api\.java\.|"
        r"\.api\.scala\.|\.datastream",
    ),
    (
        _LOADING,
        r"ClassLoader|InstantiationUtil|ClassLoading|PluginLoader|PluginManager|ServiceLoader|SerializedValue|"
        r"SerializedThrowable",
    ),
    (_OPTIONS, r"\.configuration\.|Configuration\w*\b|ConfigOption\w*|GlobalConfiguration|ConfigurationUtils|ParameterTool"),
    # the cluster
    (_BUFFERS, r"MemoryManager|MemoryPool|NetworkBufferPool|LocalBufferPool|UnsafeMemoryBudget|MemorySegment|SharedResources"),
    (_RIGHTS, r"\.security\.|Kerberos|DelegationToken"),
    (_KUBERNETES, r"kubernetes|fabric8|KubeClient|\.yarn\.|Yarn\w+"),
    (
        _SLOTS,
        r"SlotPool|SlotManager|SlotAllocator|SlotSharing|PhysicalSlot|SlotRequest|LogicalSlot|SharedSlot|NoResourceAvailable|"
        r"WaitingForResources|ResourceRequirement|\.slotpool\.|\.slotmanager\.|ResourceManager\w*|TaskSlotTable|CoLocation",
    ),
    (_BLOBS, r"Blob\w+|LibraryCacheManager|DistributedCache|FileCache|ArtifactFetch\w+|JarUpload\w*"),
    (
        _PROCESSES,
        r"Heartbeat|\bakka\.|\bpekko\.|JobMaster\w*|TaskExecutor\w*|\bTask\.|Rpc\w*|Akka\w*|Pekko\w*|ActorSystem|"
        r"Dispatcher\w*|MiniCluster|"
        r"Registration\w*|ExecutionGraph\w*|\bExecution\w*|Scheduler\w*|\.scheduler\.|"
        r"\.executiongraph\.|\.taskmanager\.|\.minicluster\.|\.entrypoint\.|\.jobmaster\.|"
        r"\.messages\.",
    ),
    (_SHUFFLE, r"\.io\.network\.|Netty\w+|\.shuffle\.|ResultPartition|InputChannel|netty"),
    (
        _SUBMITTED,
        r"CliFrontend|PackagedProgram\w*|RestClusterClient|ClusterClient|JobSubmi\w+|\.client\.|\.rest\.|\.webmonitor\.|"
        r"RestClient|"
        r"StandaloneJobCluster|ApplicationDispatcher\w*",
    ),
    # file systems
    (
        _FILES,
        r"\.core\.fs\.|FileSystem\w*|S3\w+|HadoopDataInputStream|\.fs\.|\.hdfs\.|amazonaws|\bawssdk|azurebfs|"
        r"GoogleCloudStorage|"
        r"oss\.|\bOSS\w+|\.s3a?\.",
    ),
    (_TASKS, r"\.runtime\.|\.streaming\."),
)
"""Rooms by the names of classes and methods, the specific ones first. The last one is for classes that no other names."""
_PASSING: Final = (_FILES, _OUTSIDE, _FETCH, _SHUFFLE, _LOADING, _PROCESSES, _TASKS, _ENCODED, _OPTIONS, _KUBERNETES, _GRAPH)
"""Rooms that others call: the caller tells more."""
_CALLING: Final = (
    _POINTER,
    _METADATA,
    _STORED,
    _CHANGELOG,
    _KEYED,
    _OPERATOR,
    _FLIGHT,
    _SINK,
    _SOURCE,
    _VALUES,
    _HOOKS,
    _VERSIONS,
)
_PLACES: Final = PatternTable(_CLASSES)
_PASSED_ON: Final = re.compile(
    r"[\w.]*\bnetty\w*\.|org\.apache\.http\.|[\w.]*\bokhttp\w*\.|[\w.]*\bgrpc\.|com\.amazonaws\.(?!services)|"
    r"software\.amazon\.awssdk\.(?!services)|java\.|javax\.|jdk\.|sun\.|scala\.|com\.sun\.|kotlin\.|groovy\.|"
    r"[\w.]*\bguava\w*\.|com\.google\.common\.|"
    r"[\w.]*\b(?:Preconditions|ExceptionUtils|FutureUtils|IOUtils|CloseableRegistry|AbstractCloseableRegistry|"
    r"AbstractAutoCloseableRegistry|RunnableWithException|FunctionWithException|LambdaUtil|CheckedSupplier|"
    r"WrappingRuntimeException|"
    r"StreamTaskActionExecutor\w*|FunctionUtils|Data(?:Input|Output)\w*|ClosingFSDataInputStream|FSDataInputStreamWrapper|"
    r"FutureTask|ReflectionUtil|StringUtils|TernaryBoolean|MathUtils|FatalExitExceptionHandler|"
    r"LongArrayList|CollectionUtil|OptionalUtils|TraversableOnceException|ResourceGuard|MdcUtils|SupplierWithException|"
    r"ThrowingRunnable|SerializedThrowable|CheckedThread|ClosureCleaner|NetUtils|FileUtils|TimeUtils)\b",
)
"""Frames that pass exceptions on: the code that called them was doing something."""
_READING: Final = (_KEYED, _OPERATOR, _REGISTERED, _LISTS, _BROADCAST, _VALUES, _SNAPSHOTS, _ENCODED, _HEAP, _TTL)
"""Rooms that call serializers of the job."""


def frames_of_places(frames: Sequence[str]) -> Iterator[str]:
    """Yield the methods that may be a place: without those of the JDK, and without utilities of Flink."""
    return (frame for frame in frames if not _PASSED_ON.match(frame))


def family_of(exception: str) -> Family:
    """Return the family of an exception by the name of its class, which its message may follow."""
    return _FAMILIES.first(exception) or Family.CHECK


def room_of(frames: Sequence[str]) -> tuple[Room, str] | None:
    """Return the room that threw an exception, and its method, from methods or exceptions, the innermost first."""
    rooms = [(room, frame) for frame in frames if (room := _PLACES.first(frame)) is not None]
    if not rooms:
        return None
    if rooms[0][0] in _PASSING:
        return next((pair for pair in rooms if pair[0] in _CALLING), rooms[0])
    return rooms[0]


_TELLING: Final = frozenset({Kind.CHECKPOINT, Kind.PROGRAM, Kind.CONFIGURATION})
"""Kinds whose sentences repeat the message: they are right for any exception of their rooms."""


def is_usual(room: Room, exception: str, kind: Kind) -> bool:
    """Return whether a kind is only the usual one of a room, which the family of the exception does not suggest."""
    return kind is room.kind and kind not in _TELLING and family_of(exception) not in room.kinds


def kind_at(room: Room, exception: str, *, is_foreign: bool = False) -> Kind:
    """Return the kind of the cause of an exception in a room.

    ``is_foreign``: whether code of the job threw it, which the room called.
    """
    family = family_of(exception)
    if family is Family.MEMORY:
        return room.kinds.get(family, Kind.MEMORY)
    if family is Family.LINKAGE:
        return room.kinds.get(family, Kind.LINKAGE)
    if is_foreign and room in _READING and family in (Family.CHECK, Family.CAST, Family.DAMAGED, Family.VERSION):
        return Kind.SERIALIZER
    return room.kinds.get(family, room.kind)
