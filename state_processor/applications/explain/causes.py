"""Causes from mismatches and from traces: places, both types, and repairs.

Where no cause is known, the step that failed is left: its exception, and what was checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from state_processor.applications.explain.explanation import FailureCause, Remedy
from state_processor.applications.explain.kinds import CONSEQUENCES, Certainty, Kind
from state_processor.applications.explain.rules import Sighting
from state_processor.applications.explain.scene import Finding, Scene, changed_field
from state_processor.applications.jobs.contents import NO_CONTENTS
from state_processor.applications.jobs.signature import VALUE, OperatorSignature, StateSignature, kryo_classes
from state_processor.applications.jobs.verdicts import Cause, Outcome, StateVerdict, command_name
from state_processor.errors import CorruptSnapshotError, StateProcessorError, UndecodableValueError
from state_processor.options import ReadOptions
from state_processor.serializers import PojoSerializer
from state_processor.states import StoredOperator, open_state, read_all
from state_processor.types import EnumSerializer

STEP: Final = "{Subject} failed{doing}: {exception}{text}{thrower}."
"""The sentence of a failed step, whose cause is not known."""
_READ_IT: Final = "Start with what the exception says. Nothing shows that the snapshot has to change."

_SENTENCES: Final[Mapping[Kind, str]] = {
    Kind.UNMAPPED_OPERATOR: "The new job has no operator with the id of operator {operator}: its uid may have changed, or it may "
    "have been removed{generated}.",
    Kind.DUPLICATE_UID: "Two operators of the new job have the uid {uid}: Flink can't build the graph of the job.",
    Kind.OPERATORS_SWAPPED: "The states of operator {operator} do not fit the operator of the job with its id, but one with "
    "another id, as after an exchange of uids.",
    Kind.MAX_PARALLELISM: "The max parallelism of operator {operator} differs: {before} in the snapshot, {after} in the job.",
    Kind.PARALLELISM: "The parallelism {after} is higher than the max parallelism {before} of operator {operator}.",
    Kind.STATE_NOT_USED: "The new job does not register {state}: Flink keeps it unread, or drops it.",
    Kind.STATE_RENAMED: "The job does not register {state}, but one of another name and the same type: Flink starts that empty.",
    Kind.STATE_KIND: "The kind of {state} differs{change}.",
    Kind.STATE_MODE: "The redistribution of {state} differs{change}.",
    Kind.OPERATOR_STATE_TYPE: "The type of the elements of {state} differs{change}. Flink refuses it.",
    Kind.BROADCAST_TYPE: "The type of {state}, a broadcast state, differs{change}. Flink refuses it.",
    Kind.VALUE_TYPE: "The type of {state} differs{change}. Flink does not convert it.",
    Kind.MAP_KEY_TYPE: "The type of the map keys of {state} differs{change}. RocksDB and ForSt do not migrate keys of maps.",
    Kind.KEY_TYPE: "The type of the keys of operator {operator} differs{change}.",
    Kind.WINDOW_TYPE: "The type of the windows of operator {operator} differs{change}. Windows are the namespace of state and "
    "timers.",
    Kind.TTL: "Time-to-live of {state} differs{change}. Flink before 2.2 refuses this.",
    Kind.POJO_TO_KRYO: "{State} was written as a POJO{of_class}, and the job uses Kryo for it.",
    Kind.KRYO_TO_POJO: "{State} was written by Kryo{of_class}, and the job has a POJO for it.",
    Kind.KRYO_CLASS: "Values of {state} do not fit the class that reads them: Kryo's format has no names of fields.",
    Kind.KRYO_VERSION: "Kryo of Flink 1.x wrote {state}, and Flink 2.x writes and reads these values differently.",
    Kind.SERIALIZER: "The serializer of {state} differs{change}.",
    Kind.ENUM_CONSTANT: "The job does not have a constant of {enum} with which {state} was written.",
    Kind.FIELD_RENAMED: "The job does not have {the_field} of {state}: Flink drops it, and a new field starts with null.",
    Kind.FIELD_NULL: "{Field} of {state} is null in some values, and Flink can't read null into a primitive field.",
    Kind.CLASS_MISSING: "{Class} is not on the class path of the job, and {state} needs it.",
    Kind.SERIAL_VERSION: "{Class} has the serialVersionUID {after} in the job, and {before} where it was written{in_state}.",
    Kind.QUERY: "The query of the job does not fit operator {operator} of Flink SQL: the columns of its state differ, or no "
    "operator of the job has its id.",
    Kind.PATTERN: "Partial matches of operator {operator} are at a stage that the pattern of the job does not have.",
    Kind.NOT_FOUND: "{There_is} no snapshot at {path}.",
    Kind.NOT_A_SNAPSHOT: "The path does not lead to a file that begins like _metadata of Flink.",
    Kind.METADATA_DAMAGED: "The file _metadata is truncated or damaged.",
    Kind.NEWER_FORMAT: "The snapshot has a version of a format that this Flink does not read.",
    Kind.OLDER_FORMAT: "The snapshot has an old format, which this Flink does not read any more.",
    Kind.FILE_MISSING: "A file of the snapshot is missing: {path}.",
    Kind.FILE_DAMAGED: "A file of the snapshot is damaged.",
    Kind.MOVED: "The checkpoint is not where it was written: _metadata has absolute paths of its files at another place.",
    Kind.CLAIMED: "FLINK-39964: the checkpoint refers to files of the savepoint that its job claimed as if they were its own.",
    Kind.BACKEND: "The keyed state has the format {written}, and the state backend of the job reads {required}.",
    Kind.STATE_API: "The job uses the state API that does not fit: synchronous and asynchronous keyed state have different "
    "formats and stores.",
    Kind.CHANGELOG: "Flink does not have the storage of changelogs {name} that the job or its snapshot needs.",
    Kind.IN_FLIGHT: "The unaligned checkpoint has records in flight, which need the graph and the parallelism of the job that "
    "wrote them.",
    Kind.FINISHED_TASKS: "A chain of the new job has operators that had finished in the snapshot, and others: Flink refuses it.",
    Kind.CHECKPOINT: "A checkpoint of the running job was not completed{what_is_told}: the snapshot that the job restored is "
    "not the cause.",
    Kind.OTHER_JOB: "The new job has none of the ids of the operators that have state in the snapshot.",
    Kind.NO_BACKEND: "{Class} is not on the class path of this Flink, which needs it to load the state backend or the checkpoint "
    "storage that the configuration names.",
    Kind.FIELD_TYPE: "The type of {the_field} of {state} differs{change}. Flink does not convert fields of POJOs.",
    Kind.NO_KEY: "The code of the job uses keyed state or timers where no key is set: in a stream without keyBy, or outside of "
    "the methods that Flink calls for a key, such as in open.",
    Kind.KEY_GROUPS: "A key belongs to a key group that its subtask does not have: the key, or its hashCode, is not the one that "
    "records were partitioned by.",
    Kind.CONNECTOR: "A source or sink does not read the state of the former one: it was replaced, or its version changed"
    "{what_is_told}.",
    Kind.TRANSACTION: "A transaction or pending file of a sink, which the snapshot names, has expired, was aborted or is gone"
    "{what_is_told}.",
    Kind.STORAGE: "Flink has no access to the storage: a file system plug-in, credentials or rights are missing{what_is_told}.",
    Kind.DISK: "A task manager can't write to its local disk: it is full, or a directory is missing or read-only{what_is_told}.",
    Kind.MEMORY: "A process of Flink has too little memory for what the job does{what_is_told}.",
    Kind.NATIVE_LIBRARY: "The native library of the state backend can't be loaded on this machine{what_is_told}.",
    Kind.LOST_PROCESS: "A process of Flink stopped or lost its connection{what_is_told}: this follows from another failure.",
    Kind.RESOURCES: "The cluster has too few free slots for the job{what_is_told}.",
    Kind.HIGH_AVAILABILITY: "The high-availability store does not lead to a snapshot, or to a job, that can be read"
    "{what_is_told}.",
    Kind.RESTORE_MODE: "The state backend does not support the claim mode of the restore, or this format of savepoints"
    "{what_is_told}.",
    Kind.CONFIGURATION: "An option of Flink is missing, or its value is not valid{what_is_told}.",
    Kind.LINKAGE: "The jars do not fit together: {library} is missing, has another version, or is loaded twice{what_is_told}.",
    Kind.PYTHON: "The Python worker does not have {library}.",
    Kind.SOURCE_POSITION: "The position of a source in the snapshot is gone from the external system: it was deleted or has "
    "expired{what_is_told}.",
    Kind.EXTERNAL: "The job can't reach an external system, or has no access to it{what_is_told}.",
    Kind.PROGRAM: "The program of the job, or a record of it, is not valid{what_is_told}: Flink refuses it with any snapshot.",
    Kind.JOB_CODE: "The code of the job threw {name} in {method}: Flink itself did not refuse the snapshot.",
    Kind.STATE_GROWS: "The state grows: keys, windows or elements of lists are added and never removed.",
    Kind.SKEW: "The state is not evenly distributed: few keys, or few key groups, have most of it.",
    Kind.CODE: "Code that the snapshot does not describe decides whether {state} restores.",
    Kind.STEP: STEP,
    Kind.TASK: STEP,
}
_ADVICE: Final[Mapping[Kind, str]] = {
    Kind.OPERATORS_SWAPPED: "Two operators of the job may have exchanged their uids: exchange them again in the job.",
    Kind.DUPLICATE_UID: "Give one of the operators another uid. The snapshot is good.",
    Kind.NOT_FOUND: "The checkpoint was not completed, was removed, or the path is wrong or not visible to Flink. Restore the "
    "newest complete snapshot: state-processor latest DIRECTORY.",
    Kind.NOT_A_SNAPSHOT: "It is another file, or _metadata was overwritten. Pass the directory of a savepoint or checkpoint: "
    "state-processor list DIRECTORY finds them.",
    Kind.METADATA_DAMAGED: "It was cut off or overwritten. Copy _metadata from its origin again, or restore another snapshot.",
    Kind.NEWER_FORMAT: "Restore with the Flink that wrote the snapshot, or a later one. If no Flink writes this version, the "
    "file was overwritten: copy it from its origin again.",
    Kind.OLDER_FORMAT: "Restore with Flink 1.16, take a canonical savepoint, and restore that savepoint.",
    Kind.FILE_MISSING: "Move the file back to its recorded place, or restore an older snapshot.",
    Kind.FILE_DAMAGED: "Copy the file from its origin again, or restore an older snapshot.",
    Kind.CHANGELOG: "Add the jar of the changelog storage (flink-dstl-dfs) to lib, and set state.changelog.storage.",
    Kind.IN_FLIGHT: "Restore with the graph and the parallelism of the old job, take a savepoint, and restore that savepoint.",
    Kind.FINISHED_TASKS: "Put the new operators into a chain of their own (startNewChain), after the finished ones.",
    Kind.CHECKPOINT: "Large state needs a file system as checkpoint storage. A checkpoint that expires needs a longer "
    "execution.checkpointing.timeout, or unaligned checkpoints. The snapshot need not change.",
    Kind.OTHER_JOB: "It is the snapshot of another job, or all uids changed. Check the path: state-processor list shows "
    "snapshots, and inspect the operators of one.",
    Kind.NO_BACKEND: "Name a class that this Flink has, or add its jar to lib. The snapshot need not change.",
    Kind.NO_KEY: "Put keyBy before the operator, and use the state in processElement or onTimer. The snapshot need not change.",
    Kind.KEY_GROUPS: "Give the class of the keys hashCode and equals that depend on its values alone, as in the old job, and "
    "partition records by this key alone.",
    Kind.CONNECTOR: "Use the connector that wrote the state, or a later version. Give another connector another uid.",
    Kind.TRANSACTION: "state-processor sink-state shows the transactions; change-sink removes them. Their records are lost.",
    Kind.STORAGE: "Install the plug-in of the file system and check credentials and rights. The snapshot need not change.",
    Kind.DISK: "Free space in io.tmp.dirs, or in the directory that the message names, and check its rights. The snapshot need "
    "not change.",
    Kind.MEMORY: "Raise the memory of the process. The snapshot need not change.",
    Kind.NATIVE_LIBRARY: "Use an image with glibc for this processor. The snapshot need not change.",
    Kind.LOST_PROCESS: "Read the log of the process that stopped. The snapshot need not change.",
    Kind.RESOURCES: "Add task managers or slots, or lower the parallelism of the job. The snapshot need not change.",
    Kind.HIGH_AVAILABILITY: "Start the job from the newest complete snapshot (state-processor latest DIRECTORY), and remove the "
    "entries of the job from the high-availability store.",
    Kind.RESTORE_MODE: "Restore in CLAIM mode, or take a savepoint of a format that the backend supports. The snapshot need not "
    "change.",
    Kind.CONFIGURATION: "Correct the option that the message names. The snapshot need not change.",
    Kind.LINKAGE: "Build the job with the versions of Flink and its connectors that the cluster has. The snapshot need not "
    "change.",
    Kind.PYTHON: "Add the module to the Python environment of the job, under its former name. The snapshot need not change.",
    Kind.SOURCE_POSITION: "Restore a newer snapshot, or let the source start at another position (set-offsets): records "
    "are lost or read again.",
    Kind.EXTERNAL: "Check address, network, credentials and certificates. The snapshot need not change.",
    Kind.PROGRAM: "Correct the program as the message says. The snapshot need not change.",
    Kind.JOB_CODE: "Look at this method of the job, and at the values that it reads: state-processor lookup shows the state of a "
    "key. Nothing shows that the snapshot has to change.",
    Kind.STATE_GROWS: "state-processor history shows which states grow, and sizes the largest ones. Give these states a "
    "time-to-live, or clear them in a timer.",
    Kind.SKEW: "state-processor report shows sizes of keys and key groups. Add a part to the key that spreads them.",
    Kind.STEP: _READ_IT,
    Kind.TASK: _READ_IT,
    Kind.CODE: "If the code is the same, the cause is outside the snapshot. Windows fire when the watermarks of all inputs "
    "advance.",
    Kind.FIELD_NULL: "Keep the former type of the field, such as Integer instead of int.",
    Kind.CLASS_MISSING: "Add the class to the jar of the job, under its former name.",
    Kind.SERIAL_VERSION: "Declare the former serialVersionUID in the class: nothing is lost then.",
    Kind.KRYO_CLASS: "Restore with the former class, and take a savepoint with a type that evolves: a POJO or an Avro record.",
    Kind.POJO_TO_KRYO: "If the class is the same, it is not a POJO any more. Make it one again: public, with a public "
    "constructor without arguments, getters and setters.",
    Kind.KRYO_TO_POJO: "Force Kryo for this class (GenericTypeInfo in the state's descriptor), so that the state restores.",
    Kind.SERIALIZER: "Use the former serializer, or let the snapshot of the new one accept the former one.",
    Kind.ENUM_CONSTANT: "Keep the constants of the enum. New ones may be added at its end.",
    Kind.STATE_NOT_USED: "If it is not meant, register the state again: the snapshot still has it.",
    Kind.PATTERN: "The pattern changed: keep the names of its stages, or drop the state of the operator.",
    Kind.UNMAPPED_OPERATOR: "If the state is not needed, --allowNonRestoredState drops it.",
    Kind.WINDOW_TYPE: "Keep the windows of the job, or start the operator under another uid.",
    Kind.QUERY: "Compile the plans of both queries (compile-plan), then migrate-query keeps what both have.",
    Kind.PARALLELISM: "Or lower the parallelism of the job.",
    Kind.MAX_PARALLELISM: "Or set the max parallelism of the snapshot in the job.",
}
_PASS_JOB: Final = "Pass the new job with --job, such as a savepoint of its empty start: most of such changes keep the state."
_GENERATED: Final = (
    ". No uid is known that leads to this id: if the operator has none, Flink derives the id from the graph of the job"
)
_WITHOUT_UID: Final = (
    ". The snapshot has no uid of it: Flink derives such ids from the graph of the job, unless the job sets them (setUidHash)"
)
_HASH: Final = re.compile(r"[0-9a-f]{32}")
_UNKNOWN: Final = {
    **dict.fromkeys(("uid", "before", "after", "version", "written", "method"), "?"),
    "path": "the path",
    "name": "",
    "what": "",
    "exception": "an exception",
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
    written, required, detail = map(facts.get, ("written", "required", "detail"))
    is_told = written and required and written != required
    place = f"state {state!r} of operator {operator}" if state else f"state of operator {operator}" if operator else "the state"
    names = {
        **_UNKNOWN,
        **{key: value for key, value in facts.items() if value},
        "operator": operator or "of the trace",
        "state": place,
        "generated": _WITHOUT_UID if "without_uid" in facts else _GENERATED if _HASH.fullmatch(operator or "") else "",
        "State": f"{place[0].upper()}{place[1:]}",
        "Class": f"Class {name}" if name else "A class",
        "library": name or "a class or module",
        "enum": f"enum {name}" if name else "an enum",
        "Field": f"Field {field!r}" if field else "A field",
        "change": f": {written} in the snapshot, {required} in the job" if is_told else f" ({detail})" if detail else "",
        "of_class": f" of {name}" if name else "",
        "in_state": f" ({place})" if operator or state else "",
        "the_field": f"field {field!r}" if field else "a field",
        "Subject": f"Operator {operator}" if operator else "Flink",
        "There_is": "There is" if facts.get("is_gone") else "Flink found",
    }
    doing = facts.get("doing")
    names["doing"] = f" when Flink {doing}" if doing and operator else f" when it {doing}" if doing else ""
    path = facts.get("path")
    names["at"] = f" ({path})" if path else f" ({names['what']})" if names["what"] else ""
    names["thrower"] = f" (thrown by {facts['thrower']})" if facts.get("thrower") else ""
    names["what_is_told"] = f" ({names['what']})" if names["what"] else ""
    is_name = names["what"].endswith(names["exception"])
    names["text"] = f": {names['what']}" if names["what"] and not is_name else ""
    return (facts.get("says") or _SENTENCES[kind]).format_map(names)


def advice_of(kind: Kind) -> str:
    """Return the advice for a kind of causes."""
    return _ADVICE.get(kind, "")


_OF_OPERATOR: Final = (Kind.KEY_TYPE, Kind.OPERATORS_SWAPPED, Kind.UNMAPPED_OPERATOR, Kind.MAX_PARALLELISM, Kind.PARALLELISM)
_WITHOUT_FIELD: Final = (*_OF_OPERATOR, Kind.WINDOW_TYPE, Kind.QUERY, Kind.TTL)
_OF_KINDS: Final = (Kind.STATE_KIND, Kind.STATE_MODE)
_OF_BYTES: Final = (Kind.CLASS_MISSING, Kind.SERIAL_VERSION, Kind.CONNECTOR, Kind.PATTERN)
_OF_DESCRIPTION: Final = (
    *(Kind.UNMAPPED_OPERATOR, Kind.VALUE_TYPE, Kind.KEY_TYPE, Kind.MAP_KEY_TYPE, Kind.STATE_KIND, Kind.STATE_MODE, Kind.TTL),
    *(Kind.OPERATOR_STATE_TYPE, Kind.BROADCAST_TYPE, Kind.ENUM_CONSTANT, Kind.POJO_TO_KRYO, Kind.CLASS_MISSING),
)
"""Kinds whose repairs need the description of the job."""
_AMBIGUOUS: Final = frozenset(
    {
        *(Kind.UNMAPPED_OPERATOR, Kind.VALUE_TYPE, Kind.KEY_TYPE, Kind.WINDOW_TYPE, Kind.STATE_KIND, Kind.OPERATOR_STATE_TYPE),
        *(Kind.MAX_PARALLELISM, Kind.CLASS_MISSING, Kind.FINISHED_TASKS, Kind.QUERY),
    }
)
"""Kinds that may follow from another query, from another version of a connector or from parts of a type."""
_WINDOW_CONTENTS: Final = "window-contents"
"""The state of windows without an aggregate function."""
_LONGEST: Final = 600
_LONGEST_SENTENCE: Final = 200
_CAUSES: Final[Mapping[Kind, Cause]] = {
    Kind.STATE_KIND: Cause.KIND,
    Kind.STATE_MODE: Cause.KIND,
    Kind.TTL: Cause.TIME_TO_LIVE,
    Kind.WINDOW_TYPE: Cause.WINDOWS,
    Kind.UNMAPPED_OPERATOR: Cause.OPERATOR_MISSING,
    Kind.BACKEND: Cause.FORMAT,
    Kind.KRYO_VERSION: Cause.KRYO_VERSION,
    Kind.MAX_PARALLELISM: Cause.MAX_PARALLELISM,
    Kind.PARALLELISM: Cause.PARALLELISM,
}


def of_findings(
    findings: Sequence[Finding],
    certainty: Certainty,
    sighting: Sighting | None = None,
    *,
    kind: Kind | None = None,
    operator: OperatorSignature | None = None,
) -> FailureCause:
    """Return the cause that findings of one kind, about one operator, are.

    ``sighting``: the trace that shows it. ``kind`` and ``operator``: the kind and the operator, if the findings have others.
    """
    main = next((finding for finding in findings if finding.state is not None and not finding.state.is_timer), findings[0])
    kind = kind or main.kind
    facts = dict({} if sighting is None else sighting.told(kind))
    written, required = _sides(main, kind, facts)
    lines = dict.fromkeys(chain.from_iterable(finding.verdict.repair for finding in findings))
    if sighting is not None:  # Flink failed: the code is another one
        lines = dict.fromkeys(line for line in lines if command_name(line) != "check")
    return make(
        kind,
        certainty,
        facts | {"written": written, "required": required, "detail": _detail(main.verdict.reason)},
        operator=main.operator or operator,
        state=None if kind in _OF_OPERATOR else main.state,
        field=None if kind in _WITHOUT_FIELD else changed_field(main.state, main.new_state, main.verdict.reason),
        evidence=dict.fromkeys(finding.verdict.reason for finding in findings if finding.verdict.reason),
        lines=lines,
        message="" if sighting is None else sighting.message,
    )


def _detail(reason: str) -> str:
    """Return the part of a reason that is about a field."""
    _, separator, detail = reason.partition("field '")
    return f"{separator}{detail}".partition(";")[0]


def _sides(finding: Finding, kind: Kind, facts: Mapping[str, str]) -> tuple[str, str]:
    """Return the two sides of a mismatch: the snapshot and the job."""
    state, new = finding.state, finding.new_state
    old_operator, new_operator = finding.operator, finding.new_operator
    if kind in (Kind.MAX_PARALLELISM, Kind.PARALLELISM) and old_operator is not None and new_operator is not None:
        size = new_operator.max_parallelism if kind is Kind.MAX_PARALLELISM else new_operator.parallelism
        return str(old_operator.max_parallelism), facts.get("after") or str(size)
    if kind is Kind.BACKEND:
        return (old_operator.backend or "" if old_operator is not None else ""), facts.get("required", "")
    if state is None or new is None:
        return facts.get("written", ""), facts.get("required", "")
    if kind in _OF_KINDS:
        return state.kind, new.kind
    if kind is Kind.TTL:
        return tuple("time-to-live" if signature.ttl else "no time-to-live" for signature in (state, new))  # type: ignore[return-value]
    part = finding.verdict.part or VALUE
    return state.type_text(part) or "", new.type_text(part) or ""


def of_sighting(
    sighting: Sighting,
    scene: Scene,
    certainty: Certainty | None = None,
    *,
    kind: Kind | None = None,
    operator: OperatorSignature | None = None,
    state: StateSignature | None = None,
    evidence: Iterable[str] = (),
    part: str = "",
    advice: str | None = None,
    repairs: bool = True,
) -> FailureCause:
    """Return the cause that a trace shows.

    ``sighting`` and ``scene``: the trace, and the snapshot with the job. ``certainty``: the certainty, if something confirms it.
    ``kind``: the kind, if the rule has another one.
    ``operator``, ``state`` and ``part``: the place in the snapshot, if it is known. ``evidence``: facts of the snapshot.
    ``advice``: advice, if the kind suggests another one. ``repairs``: whether a repair of the snapshot may help.
    """
    kind = kind or sighting.kind
    lines: tuple[str, ...] = ()
    if operator is not None and repairs:
        cause = Cause.WINDOWS if kind in _OF_BYTES and state is None else _CAUSES.get(kind, Cause.TYPE)  # the whole operator
        verdict = StateVerdict("" if state is None else state.name, Outcome.REFUSED, cause=cause, part=part)
        lines = scene.remedies(verdict, operator, state, _sized(kind, sighting.facts.get("after", "")))
    written = "" if state is None else state.kind if kind in _OF_KINDS else state.type_text(part or VALUE) or ""
    facts = dict(sighting.told(kind))
    before = facts.get("old") or facts.get("before", "")
    written = before or written if kind is Kind.SERIAL_VERSION else written or before
    sides = (written, facts.get("new") or facts.get("after", ""))
    facts = {"written": sides[0], "required": sides[1]} | facts
    if facts.get("old") and facts.get("old") == facts.get("new") and sides[0] != sides[1]:
        inside = f"{_short(sides[0])} was written, and the {_short(sides[1]).rpartition('.')[2]} of the job has other parts"
        facts |= {"required": "", "detail": inside}
        if state is not None and state.name == _WINDOW_CONTENTS:
            evidence = [*evidence, "an evictor that was added or removed changes the elements of windows, too"]
    if operator is None and len(sighting.operators) == 1:
        operator = OperatorSignature(uid_hash=next(iter(sighting.operators)))
    if sighting.task and operator is None:
        evidence = [*evidence, f"task {sighting.task!r} of the trace"]
    if sighting.rule.doing:
        evidence = [f"{sighting.rule.thrown_by} threw it while Flink {sighting.rule.doing}", *evidence]
    return make(
        kind,
        certainty or _certainty(kind, sighting),
        facts,
        operator=operator,
        state=None if kind in _OF_OPERATOR else state,
        field=sighting.facts.get("field"),
        evidence=evidence,
        lines=lines,
        message=sighting.message,
        advice=_hint(kind, scene, sighting) if advice is None else advice,
        is_told=not sighting.rule.plain and not sighting.rule.says,
    )


def _certainty(kind: Kind, sighting: Sighting) -> Certainty:
    """Return the certainty of a cause that nothing confirms: some messages name what happened, and not why."""
    old, new = map(sighting.facts.get, ("old", "new"))
    is_told = kind is Kind.VALUE_TYPE and old != new
    return Certainty.LIKELY if kind in _AMBIGUOUS and not is_told else sighting.certainty


def _hint(kind: Kind, scene: Scene, sighting: Sighting) -> str:
    """Return the advice for a trace. The description of the job leads to repairs that keep state."""
    if sighting.rule.advice and kind is sighting.kind:
        return sighting.rule.advice
    if kind not in _OF_DESCRIPTION or scene.new is not None:
        return advice_of(kind)
    return " ".join(filter(None, (_PASS_JOB, advice_of(kind))))


def _sized(kind: Kind, size: str) -> OperatorSignature | None:
    """Return the operator of the job with the size that a trace names."""
    if kind is Kind.MAX_PARALLELISM and size:
        return OperatorSignature(max_parallelism=int(size))
    return OperatorSignature(parallelism=int(size)) if kind is Kind.PARALLELISM and size else None


def make(
    kind: Kind,
    certainty: Certainty,
    facts: Mapping[str, str],
    *,
    operator: OperatorSignature | None = None,
    state: StateSignature | None = None,
    field: str | None = None,
    evidence: Iterable[str] = (),
    lines: Iterable[str] = (),
    message: str = "",
    advice: str | None = None,
    is_told: bool = False,
) -> FailureCause:
    """Return a cause with its sentence, repairs and advice. ``is_told``: whether the sentence repeats the message."""
    label = None if operator is None else operator.label
    name = facts.get("name") or _class_name(kind, state)
    sides = {side: _short(facts.get(side, "")) for side in ("written", "required")}
    texts = dict(facts) | sides | ({"before": sides["written"], "after": sides["required"]} if kind in _CAUSES else {})
    texts |= {side: facts[side] for side in ("before", "after") if facts.get(side)}
    texts["what"] = _told_by(message)
    if operator is not None and operator.name and not operator.uid:
        texts["without_uid"] = "yes"
    state_name = facts.get("state") if state is None else state.name
    sentence = sentence_of(kind, texts, operator=label, state=state_name, name=name, field=field)
    is_new = texts["what"] not in sentence and not (facts.get("path") and facts["path"] in texts["what"])
    if is_told and texts["what"] and is_new:
        sentence = f"{sentence} The exception says: {texts['what']}."
    return FailureCause(
        kind,
        certainty,
        sentence,
        label,
        None if operator is None else operator.uid_hash,
        state_name,
        field,
        sides["written"],
        sides["required"],
        tuple(sorted(map(Remedy.of, lines), key=lambda remedy: remedy.loses_state)),
        advice_of(kind) if advice is None else advice,
        tuple(text[:_LONGEST] for text in evidence),
        message[:_LONGEST],
    )


def _told_by(message: str) -> str:
    """Return the first sentence of the message of an exception, without its class."""
    line = message.partition("\n")[0]
    head, separator, text = line.partition(": ")
    text = text if separator and " " not in head else line
    return text.partition(". ")[0].rstrip(".")[:_LONGEST_SENTENCE]


def _short(name: str) -> str:
    """Return the name of a Java class of Flink without its package; other texts are kept."""
    is_class = name.startswith(("org.apache.flink.", "class org.apache.flink."))
    return name.rpartition(".")[2].replace("TtlStateFactory$", "") if is_class else name


def _class_name(kind: Kind, state: StateSignature | None) -> str:
    return "" if state is None else next(_class_names(kind, state), "")


def _class_names(kind: Kind, state: StateSignature) -> Iterator[str]:
    if kind is Kind.KRYO_TO_POJO or kind is Kind.KRYO_CLASS:
        yield from kryo_classes(state)
    elif kind is Kind.POJO_TO_KRYO:
        for pojo in state.parts(PojoSerializer):
            yield pojo.class_name
    elif kind is Kind.ENUM_CONSTANT:
        for enum in state.parts(EnumSerializer):
            yield str(enum.enum_class)


_CHAINED: Final = " -> "
"""Between the operators of a task: the id of a task is the one of its first operator, and another one may have failed."""


def of_step(
    sighting: Sighting, scene: Scene, certainty: Certainty = Certainty.LIKELY, evidence: Sequence[str] = ()
) -> FailureCause:
    """Return the step that failed as the cause. ``evidence``: why no cause is known."""
    operator = named_operator(sighting, scene)
    name = sighting.message.partition(": ")[0]
    exception = "an exception" if " " in name else name.rpartition(".")[2]
    facts = {"doing": sighting.rule.doing, "exception": exception, "says": STEP, "thrower": sighting.trace.throwables[-1].thrower}
    kind = sighting.kind if sighting.rule.usual and sighting.kind in CONSEQUENCES else Kind.STEP
    lines = [*evidence, *_places(sighting, operator), *_checks(scene, operator)]
    advice = advice_of(Kind.STEP)
    return make(kind, certainty, facts, operator=operator, evidence=lines, message=sighting.message, advice=advice)


def named_operator(sighting: Sighting, scene: Scene) -> OperatorSignature | None:
    """Return the only operator of the snapshot that a trace names, by itself or by its task."""
    named = sighting.operators or (frozenset() if _CHAINED in sighting.task else sighting.tasks)
    operators = [operator for operator in scene.operators(sighting) if operator.uid_hash in named]
    return operators[0] if len(operators) == 1 else None


def _places(sighting: Sighting, operator: OperatorSignature | None) -> Iterator[str]:
    if sighting.rule.doing:
        yield f"{sighting.rule.thrown_by} threw it, or passed it on, while Flink {sighting.rule.doing}"
    if sighting.task:
        yield f"task {sighting.task!r} of the trace"
    if operator is not None and operator.states:
        yield f"states of this operator: {', '.join(map(repr, list(operator.states)[:9]))}"


def _checks(scene: Scene, operator: OperatorSignature | None) -> Iterator[str]:
    """Yield what was checked and is not the cause."""
    bad = [finding for finding in scene.findings if finding.is_bad]
    if scene.snapshot is not None and not any(finding.verdict.cause is Cause.FILES for finding in bad):
        files = ", and its files are complete" if scene.contents is not NO_CONTENTS else ""
        yield f"the snapshot can be opened{files}"
    if scene.new is not None and not any(finding.operator == operator for finding in bad):
        yield "the description of the new job fits the snapshot here"


_OPTIONS = ReadOptions.of(nanos="string")


def unreadable_states(
    scene: Scene, operators: Sequence[OperatorSignature]
) -> Iterator[tuple[OperatorSignature, StateSignature, str]]:
    """Yield the states whose bytes are not what their types say, with the problem. All values are read."""
    if scene.snapshot is None or scene.contents is NO_CONTENTS:
        return
    for stored in scene.snapshot.metadata.operators:
        operator = next((o for o in operators if o.uid_hash == stored.operator_id), None)
        for state in () if operator is None else (operator.states or {}).values():
            problem = "" if state.unread else _problem(StoredOperator(scene.snapshot, stored), state)
            if problem:
                assert operator is not None
                yield operator, state, problem


def _problem(stored: StoredOperator, state: StateSignature) -> str:
    """Return why the values of a state can't be read; empty if they can, or if their types are not known to the end."""
    try:
        reader = open_state(stored, state.name, options=_OPTIONS)
        for _ in read_all(reader.splits, reader.read, stored.snapshot.threads):
            pass
    except (CorruptSnapshotError, UndecodableValueError) as problem:
        return str(problem)
    except StateProcessorError:
        return ""
    return ""
