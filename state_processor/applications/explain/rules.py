"""The rules about traces: what Flink throws at a restore, and the kind of the cause.

Each rule names the class of Flink's source that has the message. Versions word some messages differently; a pattern covers all of
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from state_processor.applications.explain.kinds import Kind
from state_processor.applications.explain.traces import Trace

_SUBTASK: Final = re.compile(r"_([0-9a-f]{32})_\(\d+/\d+\)")
"""The identifier of a subtask in messages about its backends."""
_VERTEX: Final = re.compile(r"\([0-9a-f]{32}_([0-9a-f]{32})_\d+_\d+\)")
"""The execution attempt of a task, with the id of its first operator."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A message of Flink, and its meaning."""

    kind: Kind  # the kind of the cause
    # part of the message of an exception. Named groups are facts; a 2 at the end of a name stands for the same fact.
    message: re.Pattern[str]
    thrown_by: str  # the class of Flink, or of a library, that throws it
    classes: re.Pattern[str] | None = None  # part of the name of the exception
    frames: re.Pattern[str] | None = None  # part of a method of the trace
    releases: tuple[str | None, str | None] = (None, None)  # the releases of Flink that have it; ``None`` for no limit


@dataclass(frozen=True, slots=True)
class Sighting:
    """A rule that fits a trace."""

    rule: Rule
    trace: Trace
    message: str  # the exception that it fits, as text
    facts: Mapping[str, str] = field(default_factory=dict)  # the facts of the message
    operators: frozenset[str] = frozenset()  # hashes of operators that the trace names as the operator itself
    # hashes of the first operators of tasks: the failed operator is in the chain of one of them
    tasks: frozenset[str] = frozenset()

    @property
    def kind(self) -> Kind:
        """The kind of the cause."""
        return self.rule.kind


def _rule(kind: Kind, message: str, thrown_by: str, *, classes: str = "", frames: str = "", releases: str = "") -> Rule:
    since, _, until = releases.partition("-")
    limits = (since or None, until or None)
    return Rule(kind, re.compile(message, re.DOTALL), thrown_by, _pattern(classes), _pattern(frames), limits)


def _pattern(text: str) -> re.Pattern[str] | None:
    return re.compile(text) if text else None


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

RULES: Final = (
    # operators
    _rule(
        Kind.UNMAPPED_OPERATOR,
        rf"Cannot map (?:checkpoint/)?(?:savepoint )?(?:old )?state for operator {_ID} to the new program",
        "runtime.checkpoint.Checkpoints",
    ),
    _rule(Kind.UNMAPPED_OPERATOR, rf"There is no operator for the state {_ID}", "runtime.checkpoint.StateAssignmentOperation"),
    _rule(
        Kind.MAX_PARALLELISM,
        rf"Cannot map operator {_ID} with max parallelism (?P<before>\d+) to new program with max parallelism (?P<after>\d+)",
        "runtime.checkpoint.Checkpoints",
    ),
    _rule(
        Kind.MAX_PARALLELISM,
        r"The maximum parallelism \((?P<before>\d+)\) with which the latest checkpoint .* and the current maximum parallelism "
        r"\((?P<after>\d+)\) changed",
        "runtime.checkpoint.StateAssignmentOperation",
    ),
    _rule(
        Kind.PARALLELISM,
        rf"The state for task {_ID} can ?not be restored\. The maximum parallelism \((?P<before>\d+)\) of the restored state is "
        r"lower than the configured parallelism \((?P<after>\d+)\)",
        "runtime.checkpoint.StateAssignmentOperation",
    ),
    _rule(
        Kind.DUPLICATE_UID,
        r"Hash collision on user-specified (?:ID|node hash)(?: \"(?P<uid>.*?)\")?",
        "streaming.api.graph.StreamGraphHasherV2",
    ),
    _rule(
        Kind.IN_FLIGHT,
        r"Cannot recover from unaligned checkpoint when topology changes|Cannot rescale the given pointwise partitioner|"
        r"No channel rescaler found|Incompatible subtask mappings|Invalid (?:input|output) channel state",
        "runtime.checkpoint.StateAssignmentOperation",
    ),
    _rule(Kind.FINISHED_TASKS, r"contain mixed operator finished state", "runtime.checkpoint.VertexFinishedStateChecker"),
    # types of keyed state
    _rule(
        Kind.KEY_TYPE,
        r"new key serializer(?: " + _PAIR.format(verb="must be compatible with", old="previous", part="key") + r")?",
        "runtime.state.restore.FullSnapshotRestoreOperation",
        classes="StateMigrationException",
    ),
    _rule(
        Kind.KEY_TYPE,
        r"TimerService with (?:new key serializer|different key serializers)|timers for the same service with different key|"
        r"TimerService with incompatible serializers|Timer Service tried to be initialized with different key",
        "streaming.api.operators.InternalTimerServiceImpl",
    ),
    _rule(
        Kind.WINDOW_TYPE,
        r"new namespace serializer(?: " + _PAIR.format(verb="must be compatible with", old="old", part="namespace") + r")?",
        "runtime.state.heap.HeapKeyedStateBackend",
        classes="StateMigrationException",
    ),
    _rule(
        Kind.WINDOW_TYPE,
        r"new priority queue serializer must not be incompatible",
        "runtime.state.heap.HeapPriorityQueueSnapshotRestoreWrapper",
    ),
    _rule(
        Kind.WINDOW_TYPE,
        r"TimerService with new namespace serializer|timers for the same service with different namespace",
        "streaming.api.operators.InternalTimerServiceImpl",
    ),
    _rule(
        Kind.WINDOW_TYPE,
        r"class \S*(?P<old>\w*Window) cannot be cast to (?:class )?\S*(?P<new>\w*Window)",
        "streaming.runtime.operators.windowing.WindowOperator",
        classes="ClassCastException",
    ),
    _rule(
        Kind.MAP_KEY_TYPE,
        r"MapState requires state migration .*key schema has changed",
        "state.rocksdb.RocksDBKeyedStateBackend",
        classes="StateMigrationException",
    ),
    _rule(
        Kind.VALUE_TYPE,
        r"new state (?:serializer|typeSerializer)(?: "
        + _PAIR.format(verb="(?:must not|cannot) be incompatible with", old="old", part="state")
        + r"| (?:must not|cannot) be incompatible)",
        "runtime.state.heap.HeapKeyedStateBackend",
        classes="StateMigrationException",
    ),
    _rule(
        Kind.VALUE_TYPE,
        r"restored state was registered with a new serializer that has incompatible schema",
        "runtime.state.StateSerializerProvider",
    ),
    _rule(
        Kind.STATE_KIND,
        r"Incompatible key/value state types\. Was \[(?P<old>\w+)\], registered with \[(?P<new>\w+)\]",
        "runtime.state.RegisteredKeyValueStateBackendMetaInfo",
    ),
    _rule(
        Kind.STATE_KIND,
        r"(?:cannot be cast to|is not) .*(?:Internal|Heap|RocksDB|ForSt)?(?:Value|List|Map|Reducing|Aggregating)State\b",
        "runtime.state.AbstractKeyedStateBackend",
        classes="ClassCastException",
        frames=r"getPartitionedState|getOrCreateKeyedState|StateDescriptor",
    ),
    # operator state
    _rule(
        Kind.STATE_MODE,
        r"Incompatible state assignment modes\. Was \[(?P<old>\w+)\], registered with \[(?P<new>\w+)\]",
        "runtime.state.DefaultOperatorStateBackend",
    ),
    _rule(
        Kind.BROADCAST_TYPE,
        r"new (?P<part>key|value) (?:typeS|s)erializer for broadcast state must not be incompatible",
        "runtime.state.DefaultOperatorStateBackend",
    ),
    _rule(
        Kind.OPERATOR_STATE_TYPE,
        r"new state (?:typeS|s)erializer for operator state must not be incompatible",
        "runtime.state.DefaultOperatorStateBackend",
    ),
    _rule(
        Kind.CLASS_MISSING,
        r"Unable to restore (?:operator|broadcast) state \[(?P<state>.*?)\]\. The previous",
        "runtime.state.OperatorStateRestoreOperation",
    ),
    _rule(
        Kind.FIELD_TYPE,
        r"Can not set (?P<required>[\w.$]+) field (?P<name>[\w$.]+)\.(?P<field>\w+) to (?P<written>(?!null)[\w.$]+)",
        "java.lang.reflect.Field",
        frames=r"PojoSerializer",
    ),
    # classes
    _rule(
        Kind.ENUM_CONSTANT,
        r"Could not create a restore serializer for enum (?:class )?(?P<name>[\w$.]+)\. Probably because an enum value",
        "api.common.typeutils.base.EnumSerializer",
    ),
    _rule(
        Kind.ENUM_CONSTANT,
        r"No enum constant (?P<name>[\w$.]+)\.(?P<field>\w+)",
        "java.lang.Enum",
        frames=r"EnumSerializer|SerializerSnapshot|readVersionedSnapshot",
    ),
    _rule(
        Kind.ENUM_CONSTANT,
        r"field serializer snapshots should be present",
        "api.java.typeutils.runtime.PojoSerializerSnapshot",
    ),
    _rule(
        Kind.SERIAL_VERSION,
        r"(?P<name>[\w$.]+); local class incompatible: stream classdesc serialVersionUID = (?P<before>-?\d+), local class "
        r"serialVersionUID = (?P<after>-?\d+)",
        "java.io.ObjectStreamClass",
    ),
    _rule(
        Kind.SERIAL_VERSION,
        r"(?P<name>[\w$.]+); (?:incompatible types for field (?P<field>\w+)|class invalid for deserialization|"
        r"no valid constructor|local class name incompatible|Class name mismatch)",
        "java.io.ObjectStreamClass",
        classes="InvalidClassException",
    ),
    _rule(
        Kind.FIELD_NULL,
        r"Can not set \w+ field (?P<name>[\w$.]+)\.(?P<field>\w+) to null value",
        "java.lang.reflect.Field",
        frames=r"PojoSerializer",
    ),
    _rule(
        Kind.POJO_TO_KRYO,
        r"(?P<name>[\w$.]+)\.<init>\(\)|Cannot instantiate class|Cannot initialize fields",
        "api.java.typeutils.runtime.PojoSerializer",
        frames=r"PojoSerializer\.(createInstance|deserialize)",
    ),
    _rule(
        Kind.CLASS_MISSING,
        r"Could not find class '(?P<name>[\w$./\[;-]+)' in classpath|Unable to find class: (?P<name2>[\w$.]{2,})",
        "util.InstantiationUtil",
    ),
    _rule(
        Kind.CLASS_MISSING,
        r"^(?P<name>[\w$./]+)$|Cannot find registered class (?P<name2>[\w$.]+)",
        "java.lang.ClassLoader",
        classes=r"ClassNotFoundException|NoClassDefFoundError",
        frames=_RESTORE + r"|SourceCoordinator|Checkpoints|" + _KRYO + r"|typeutils\.|InstantiationUtil",
    ),
    _rule(
        Kind.NO_BACKEND,
        r"^(?P<name>[\w$.]+)$",
        "runtime.state.StateBackendLoader",
        classes=r"ClassNotFoundException",
        frames=r"StateBackendLoader\.",
    ),
    _rule(Kind.FILE_DAMAGED, r"Could not find class '(?P<name>[^']*[^\w$./\[;'-][^']*)'", "util.InstantiationUtil"),
    _rule(
        Kind.FILE_DAMAGED,  # no class has such a name
        r"^(?P<name>.*[^\w$./\[;-].*)$",
        "java.lang.ClassLoader",
        classes=r"ClassNotFoundException|NoClassDefFoundError",
        frames=_RESTORE,
    ),
    _rule(
        Kind.KRYO_VERSION,
        r"(?P<what>kryo)",
        "api.java.typeutils.runtime.kryo.KryoSerializer",
        classes=r"ClassNotFoundException|NoClassDefFoundError|NoSuchMethodError",
        frames=_RESTORE,
    ),
    _rule(
        Kind.KRYO_CLASS,
        r"Buffer underflow|Encountered unregistered class ID: -?\d+|Class cannot be created|Class is not registered|"
        r"Serialization trace:\s+(?P<field>\w+) \((?P<name>[\w$.]+)\)|Unable to find class: |Index:? \d+|out of bounds|"
        r"Error creating|missing no-arg constructor|Negative|cannot be cast|String is not|Unknown",
        "api.java.typeutils.runtime.kryo.KryoSerializer",
        frames=_KRYO + r".*(?:read|deserialize)",
    ),
    _rule(
        Kind.SERIALIZER,
        r"The class '(?P<name>[\w$.]+)' is not (?:a subclass of|instantiable)|Could not instantiate type '(?P<name2>[\w$.]+)'|"
        r"has no \(implicit\) public nullary constructor",
        "util.InstantiationUtil",
        frames=r"Snapshot",
    ),
    # queries and patterns
    _rule(Kind.PATTERN, r"State (?P<stage>.+?) does not exist in the NFA", "cep.nfa.NFA"),
    _rule(
        Kind.QUERY,
        r"Could not (?:restore|load|deserialize).*plan|Unsupported exec node|ExecNodeContext|not supported by the current Flink",
        "table.planner.plan.nodes.exec.serde",
        classes=r"TableException|ValidationException|JsonMappingException",
    ),
    # the snapshot as a whole
    _rule(
        Kind.NOT_FOUND,
        r"Cannot find meta data file '_metadata' in directory '(?P<path>[^']+)'|"
        r"Cannot find checkpoint or savepoint file/directory '(?P<path2>[^']+)'",
        "runtime.state.filesystem.AbstractFsCheckpointStorageAccess",
    ),
    _rule(Kind.NOT_A_SNAPSHOT, r"Unexpected magic number\. This can have multiple reasons", "runtime.checkpoint.Checkpoints"),
    _rule(
        Kind.NOT_A_SNAPSHOT,
        r"Checkpoint/savepoint path '(?P<path>[^']+)' is not a valid file URI",
        "runtime.state.filesystem.AbstractFsCheckpointStorageAccess",
    ),
    _rule(
        Kind.NEWER_FORMAT,
        r"Unrecognized checkpoint version number: (?P<version>\d+)",
        "runtime.checkpoint.metadata.MetadataSerializers",
    ),
    _rule(
        Kind.NEWER_FORMAT,
        r"Incompatible version: found (?P<version>\d+), compatible versions are|Unknown BackendStateType: |Unrecognized version"
        r"(?: for TypeSerializerSnapshot format)?: |Unrecognized snapshot version|unrecognized read version|"
        r"Unsupported read ?[vV]ersion",
        "core.io.VersionedIOReadableWritable",
        frames=_RESTORE,
    ),
    _rule(
        Kind.OLDER_FORMAT,
        r"pre Flink 1\.8 savepoints|\(Flink 1\.1 / 1\.2\) is no longer supported|TypeSerializerConfigSnapshot.*(?:no longer|not) "
        r"supported|Legacy state \(from Flink|please migrate using Flink 1\.16|upgrade first to Flink 1\.16|"
        r"InternalTimersSnapshot\w+ is no longer supported",
        "runtime.state.KeyedBackendSerializationProxy",
    ),
    _rule(
        Kind.BACKEND,
        r"Unexpected state handle type, expected(?: one of)?: (?P<new>.+?), but found:? (?P<old>[\w$. ]+)|"
        r"Not support restoring yet for ForSt",
        "runtime.state.StateUtil",
    ),
    _rule(
        Kind.CHANGELOG,
        r"Cannot find a factory for changelog storage with name '(?P<name>\w+)'",
        "runtime.state.changelog.StateChangelogStorageLoader",
    ),
    _rule(
        Kind.METADATA_DAMAGED,
        r"incorrect magic number in master|length for master state|trailing bytes in master state|invalid checkpoint ID|"
        r"invalid number of master states|Unknown KeyedStateHandle type|Reading invalid \w+Handle|"
        r"Unknown implementation of StreamStateHandle|Cannot deserialize a RelativeFileStateHandle",
        "runtime.checkpoint.metadata.MetadataV2V3SerializerBase",
    ),
    _rule(
        Kind.METADATA_DAMAGED,
        r"",
        "runtime.checkpoint.Checkpoints",
        classes=r"EOFException|UTFDataFormatException|StreamCorruptedException|NegativeArraySize|OutOfMemoryError|IllegalArgument|"
        r"IllegalState|ArrayIndexOutOfBounds",
        frames=_METADATA,
    ),
    # files
    _rule(
        Kind.FILE_DAMAGED,
        r"block checksum mismatch|[Cc]orruption: |Bad table magic number|file is too short|truncated (?:block|record)|"
        r"Sst file size mismatch|FAILED_TO_UNCOMPRESS|failed to uncompress|invalid stream header|Corrupted stream|Corrupt data|"
        r"magic number mismatch|Unexpected key-group in restore|corrupted compressed block|bad block contents|encountered EOF|"
        r"Premature EOF from inputStream",
        "org.rocksdb.RocksDB",
    ),
    _rule(
        Kind.FILE_MISSING,
        rf"{_PATH} \((?:No such file or directory|The system cannot find the (?:file|path) specified)\)",
        "java.io.FileInputStream",
    ),
    _rule(
        Kind.FILE_MISSING,
        rf"(?:No such file or directory|does not exist|[Ff]ile not found|not found)[:.]? {_PATH}|"
        rf"^{_PATH.replace('<path>', '<path2>')}(?: does not exist)?\.?$|"
        r"NoSuchKey|specified key does not exist|BlobNotFound|404 Not Found",
        "org.apache.hadoop.fs",
        classes=r"FileNotFound|NoSuchFile|S3Exception|NoSuchKey|StorageException|BlobStorage|IOException",
    ),
    _rule(
        Kind.FILE_DAMAGED,
        r"",
        "runtime.state.heap.HeapRestoreOperation",
        classes=r"EOFException|UTFDataFormatException|StreamCorruptedException|SnappyError|SnappyIOException",
        frames=r"RestoreOperation|KeyGroupsIterator|StateTableByKeyGroupReader|KeyedStateBackendBuilder",
    ),
    # connectors
    _rule(
        Kind.CONNECTOR,
        r"(?:bytes are serialized with|Unrecognized|Unknown|Unsupported|Invalid|not support\w*).{0,40}[vV]ersion|"
        r"[vV]ersion (?:mismatch|or corrupt)|Invalid magic number for|Corrupt data, "
        r"conflicting lengths|trailing bytes in enumerator|Version mismatch",
        "core.io.SimpleVersionedSerializer",
        frames=r"SimpleVersioned|SourceCoordinator|SourceOperator|SinkWriter|Committ|EnumState|SplitSerializer|CommittableSerializer|"
        r"StateSerializer\.deserialize|Enumerator",
    ),
    _rule(
        Kind.TRANSACTION,
        r"transactional id|producer id|epoch|transaction(?:alId)?.*(?:expired|timeout|unknown|invalid|not exist)|newer producer",
        "connector.kafka.sink.KafkaCommitter",
        classes=r"ProducerFenced|InvalidTxn|InvalidPidMapping|InvalidProducerEpoch|TransactionalId|UnknownProducerId|FlinkKafkaException",
    ),
    _rule(
        Kind.KEY_GROUPS,
        r"Key group -?\d+ is not in|Key Group -?\d+ does not belong to the local range|key group must belong to the backend",
        "runtime.state.KeyGroupRangeOffsets",
    ),
    # the running job
    _rule(
        Kind.CHECKPOINT,
        r"Size of the state is larger than the maximum permitted memory-backed state|Checkpoint expired before completing|"
        r"Exceeded checkpoint tolerable failure threshold",
        "runtime.checkpoint.CheckpointFailureManager",
    ),
    _rule(
        Kind.NO_KEY,
        r"No key set\. This method should not be called outside of a keyed context",
        "runtime.state.heap.StateTable",
    ),
    # the machine
    _rule(
        Kind.STORAGE,
        r"",
        "runtime.state.filesystem.FsCheckpointStorageAccess",
        classes=r"IOException|FileAlreadyExists|AccessDenied|FileSystemException|ReadOnlyFileSystem",
        frames=r"initializeBaseLocationsForCheckpoint",
    ),
    _rule(
        Kind.STORAGE,
        r"Could not find a file system implementation for scheme '(?P<scheme>[^']+)'|Cannot access file system for checkpoint|"
        r"Access Denied|403 Forbidden|Status Code: 403|Permission denied|Unable to load (?:AWS )?credentials|InvalidAccessKeyId|"
        r"SignatureDoesNotMatch|NoSuchBucket|Connection refused.*(?:hdfs|s3|:8020|:9000)|UnknownHostException.*(?:s3|hdfs)",
        "core.fs.FileSystem",
    ),
    _rule(Kind.DISK, r"No space left on device|Disk quota exceeded", "java.io.FileOutputStream"),
    _rule(
        Kind.MEMORY,
        r"Java heap space|GC overhead limit|Direct buffer memory|Metaspace|Could not allocate|Insufficient number of|unable to "
        r"create native thread",
        "java.lang.OutOfMemoryError",
        classes=r"OutOfMemoryError|MemoryAllocationException|MemoryReservationException",
    ),
    _rule(
        Kind.NATIVE_LIBRARY,
        r"Could not load the native (?:RocksDB|ForSt) library|no rocksdbjni|librocksdbjni|libforstjni",
        "state.rocksdb.EmbeddedRocksDBStateBackend",
    ),
)
"""Rules, the specific ones first."""


def sightings(traces: Iterable[Trace], flink: str | None = None) -> Iterator[Sighting]:
    """Yield the rules that fit traces: for each trace the first rule that fits its innermost exception, or one around it.

    ``flink``: the version of Flink, if it is known.
    """
    for trace in traces:
        yield from _of_trace(trace, flink)


def _of_trace(trace: Trace, flink: str | None) -> Iterator[Sighting]:
    for throwable in reversed(trace.throwables):
        text = f"{throwable.class_name}: {throwable.message}"
        for rule in RULES:
            match = rule.message.search(throwable.message)
            if match is None or not _is_in_release(rule, flink):
                continue
            if rule.classes is not None and not rule.classes.search(text):
                continue
            if rule.frames is not None and not any(map(rule.frames.search, trace.frames)):
                continue
            facts = {name.rstrip("2"): value.strip() for name, value in match.groupdict().items() if value}
            operators = frozenset({*_SUBTASK.findall(trace.text), *filter(None, (facts.get("operator"),))})
            yield Sighting(rule, trace, str(throwable), facts, operators, frozenset(_VERTEX.findall(trace.entry)))
            return


def _is_in_release(rule: Rule, flink: str | None) -> bool:
    if flink is None or flink.endswith("x"):
        return True
    version = tuple(map(int, flink.split(".")[:2]))
    since, until = (tuple(map(int, text.split("."))) if text else None for text in rule.releases)
    return (since is None or since <= version) and (until is None or version <= until)
