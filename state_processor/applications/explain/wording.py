"""The words of causes: a sentence for each kind, and advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from state_processor.applications.explain.kinds import Kind

_SENTENCES: Final[Mapping[Kind, str]] = {
    Kind.UNMAPPED_OPERATOR: "The new job lacks operator {operator}: its uid was changed or removed, or the operator was removed.",
    Kind.DUPLICATE_UID: "Two operators of the new job have the uid {uid}: Flink can't build the graph of the job.",
    Kind.OPERATORS_SWAPPED: "Operator {operator} may have exchanged its id with another operator of the job.",
    Kind.MAX_PARALLELISM: "The max parallelism of operator {operator} changed from {before} to {after}.",
    Kind.PARALLELISM: "The parallelism {after} is higher than the max parallelism {before} of operator {operator}.",
    Kind.STATE_NOT_USED: "The new job does not register {state}: Flink keeps it unread, or drops it.",
    Kind.STATE_RENAMED: "{State} has another name in the new job: Flink starts the new state empty.",
    Kind.STATE_KIND: "The kind of {state} changed{change}.",
    Kind.STATE_MODE: "The redistribution of {state} changed{change}.",
    Kind.OPERATOR_STATE_TYPE: "The type of the elements of {state} changed{change}: Flink refuses it.",
    Kind.BROADCAST_TYPE: "The type of the broadcast {state} changed{change}: Flink refuses it.",
    Kind.VALUE_TYPE: "The type of {state} changed{change}: Flink does not convert it.",
    Kind.MAP_KEY_TYPE: "The type of the keys of map {state} changed{change}: RocksDB and ForSt do not migrate keys of maps.",
    Kind.KEY_TYPE: "The type of the keys of operator {operator} changed{change}.",
    Kind.WINDOW_TYPE: "The windows of operator {operator} changed{change}: windows are the namespace of state and timers.",
    Kind.TTL: "Time-to-live of {state} was switched on or off: Flink before 2.2 refuses this.",
    Kind.POJO_TO_KRYO: "{Class} is not a POJO any more, so that Flink uses Kryo for {state}, which was written as a POJO.",
    Kind.KRYO_TO_POJO: "{Class} became a POJO, and {state} was written by Kryo.",
    Kind.KRYO_CLASS: "Values of {state} do not fit the class that reads them: Kryo's format has no names of fields.",
    Kind.KRYO_VERSION: "Kryo of Flink 1.x wrote {state}, and Flink 2.x writes and reads these values differently.",
    Kind.SERIALIZER: "The serializer of {state} is another one{change}.",
    Kind.ENUM_CONSTANT: "A constant of {enum} that {state} was written with is gone.",
    Kind.FIELD_RENAMED: "{Field} of {state} is gone or was renamed: Flink drops it, and a new field starts with null.",
    Kind.FIELD_NULL: "{Field} of {state} is null in some values, and Flink can't read null into a primitive field.",
    Kind.CLASS_MISSING: "{Class} is not on the class path of the job, and {state} needs it.",
    Kind.SERIAL_VERSION: "{Class} has another serialVersionUID than the objects of {state} were written with.",
    Kind.QUERY: "The query of Flink SQL changed: operator {operator} has state of other columns, or another id.",
    Kind.PATTERN: "The pattern of CEP changed: partial matches of operator {operator} name a stage that it lacks.",
    Kind.NOT_FOUND: "There is no snapshot at {path}: the checkpoint was not completed, was removed, or the path is wrong.",
    Kind.NOT_A_SNAPSHOT: "The path does not lead to a snapshot of Flink: the file is not a _metadata file.",
    Kind.METADATA_DAMAGED: "The file _metadata is truncated or damaged.",
    Kind.NEWER_FORMAT: "A newer Flink wrote the snapshot: this Flink does not know the version of its format.",
    Kind.OLDER_FORMAT: "An older Flink wrote the snapshot: this Flink does not read its format any more.",
    Kind.FILE_MISSING: "A file of the snapshot is missing: {path}.",
    Kind.FILE_DAMAGED: "A file of the snapshot is damaged.",
    Kind.MOVED: "The checkpoint was moved: _metadata has the absolute paths of its files at the former place.",
    Kind.CLAIMED: "FLINK-39964: the checkpoint refers to files of the savepoint that its job claimed as if they were its own.",
    Kind.BACKEND: "The state backend changed: the format of the keyed state is {written}, and the job restores {required}.",
    Kind.STATE_API: "The job uses the other state API: synchronous and asynchronous keyed state have other formats.",
    Kind.CHANGELOG: "The snapshot has a changelog, and the job lacks the storage of changelogs {name}.",
    Kind.IN_FLIGHT: "The unaligned checkpoint has records in flight, and the graph of the job or its parallelism changed.",
    Kind.KEY_GROUPS: "A key belongs to another key group than its records: the hashCode of the key is not stable, or it changed.",
    Kind.CONNECTOR: "The version of a connector changed: it does not read the state that another version wrote.",
    Kind.TRANSACTION: "A transaction of a sink, which the snapshot names, has expired or was aborted at the broker.",
    Kind.STORAGE: "Flink has no access to the storage: a file system plug-in, credentials or rights are missing.",
    Kind.DISK: "The disk of a task manager is full.",
    Kind.MEMORY: "A process of Flink has too little memory for the restore.",
    Kind.NATIVE_LIBRARY: "The native library of the state backend can't be loaded on this machine.",
    Kind.CODE: "Code that the snapshot does not describe decides whether {state} restores.",
}
_ADVICE: Final[Mapping[Kind, str]] = {
    Kind.DUPLICATE_UID: "Give one of the operators another uid. The snapshot is good.",
    Kind.NOT_FOUND: "Restore the newest complete snapshot: state-processor latest DIRECTORY.",
    Kind.NOT_A_SNAPSHOT: "Pass the directory of a savepoint or checkpoint. state-processor list DIRECTORY finds them.",
    Kind.METADATA_DAMAGED: "Copy _metadata from its origin again, or restore another snapshot.",
    Kind.NEWER_FORMAT: "Restore with the version of Flink that wrote the snapshot, or a later one.",
    Kind.OLDER_FORMAT: "Restore with Flink 1.16, take a canonical savepoint, and restore that savepoint.",
    Kind.FILE_MISSING: "Move the file back to its recorded place, or restore an older snapshot.",
    Kind.FILE_DAMAGED: "Copy the file from its origin again, or restore an older snapshot.",
    Kind.CHANGELOG: "Add the jar of the changelog storage (flink-dstl-dfs) to lib, and set state.changelog.storage.",
    Kind.IN_FLIGHT: "Restore with the graph and the parallelism of the old job, take a savepoint, and restore that savepoint.",
    Kind.KEY_GROUPS: "Give the class of the keys hashCode and equals that depend on its values alone, as in the old job.",
    Kind.CONNECTOR: "Use the version of the connector that wrote the state, or a later one.",
    Kind.TRANSACTION: "state-processor sink-state shows the transactions; change-sink removes them. Their records are lost.",
    Kind.STORAGE: "Install the plug-in of the file system and check credentials and rights. The snapshot need not change.",
    Kind.DISK: "Free space in io.tmp.dirs, or use larger disks. The snapshot need not change.",
    Kind.MEMORY: "Raise the memory of the process. The snapshot need not change.",
    Kind.NATIVE_LIBRARY: "Use an image with glibc for this processor. The snapshot need not change.",
    Kind.FIELD_NULL: "Keep the former type of the field, such as Integer instead of int.",
    Kind.CLASS_MISSING: "Add the class to the jar of the job, under its former name.",
    Kind.SERIAL_VERSION: "Declare the former serialVersionUID in the class: nothing is lost then.",
    Kind.KRYO_CLASS: "Restore with the former class, and take a savepoint with a type that evolves: a POJO or an Avro record.",
    Kind.POJO_TO_KRYO: "Make the class a POJO again: public, with a public constructor without arguments, getters and setters.",
    Kind.KRYO_TO_POJO: "Force Kryo for this class (GenericTypeInfo in the state's descriptor), so that the state restores.",
    Kind.SERIALIZER: "Use the former serializer, or let the snapshot of the new one accept the former one.",
    Kind.ENUM_CONSTANT: "Keep the constants of the enum. New ones may be added at its end.",
    Kind.STATE_NOT_USED: "If it is not meant, register the state again: the snapshot still has it.",
    Kind.PATTERN: "Keep the names of the stages of the pattern, or drop the state of the operator.",
    Kind.UNMAPPED_OPERATOR: "If the state is not needed, --allowNonRestoredState drops it.",
    Kind.WINDOW_TYPE: "Keep the windows of the job, or start the operator under another uid.",
    Kind.QUERY: "Compile the plans of both queries (compile-plan), then migrate-query keeps what both have.",
    Kind.PARALLELISM: "Or lower the parallelism of the job.",
    Kind.MAX_PARALLELISM: "Or set the max parallelism of the snapshot in the job.",
}
_UNKNOWN: Final = {
    **dict.fromkeys(("uid", "before", "after", "version", "written"), "?"),
    "path": "the path",
    "name": "",
    "required": "another one",
}
"""Words for facts that are not known."""


def sentence_of(
    kind: Kind, facts: Mapping[str, str], *, operator: str | None, state: str | None, name: str = "", field: str | None = None
) -> str:
    """Return a cause in a sentence.

    ``facts``: facts about it. ``operator``, ``state``, ``name`` and ``field``: the operator, the state, the Java class and the
    field, if they are known.
    """
    written, required, detail = (facts.get(name) for name in ("written", "required", "detail"))
    is_told = written and required and written != required
    place = f"state {state!r} of operator {operator}" if state else f"state of operator {operator}" if operator else "the state"
    names = {
        **_UNKNOWN,
        **{key: value for key, value in facts.items() if value},
        "operator": operator or "of the trace",
        "state": place,
        "State": f"{place[0].upper()}{place[1:]}",
        "Class": f"Class {name}" if name else "A class",
        "enum": f"enum {name}" if name else "an enum",
        "Field": f"Field {field!r}" if field else "A field",
        "change": f" from {written} to {required}" if is_told else f" ({detail})" if detail else "",
    }
    return _SENTENCES[kind].format_map(names)


def advice_of(kind: Kind) -> str:
    """Return the advice for a kind of causes."""
    return _ADVICE.get(kind, "")
