"""Repairs of a snapshot by the kind of a mismatch: commands, those that keep the state first. Dropping state is the last one."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import chain, product
from typing import Final

from state_processor import OperatorIdentifier
from state_processor.applications.jobs.contents import NO_CONTENTS, Contents
from state_processor.applications.jobs.matching import takes_all
from state_processor.applications.jobs.rules import RestoringJob, lost_values
from state_processor.applications.jobs.signature import (
    KEY,
    NAMESPACE,
    VALUE,
    OperatorSignature,
    StateSignature,
    has_kryo_collections,
    is_of_query,
)
from state_processor.applications.jobs.value_conversion import NO_EDITS, Edits, FieldChanges, Trial, field_changes
from state_processor.applications.jobs.verdicts import TARGET, Cause, Outcome, StateVerdict
from state_processor.errors import OptionError
from state_processor.serializers import (
    KryoSerializer,
    PojoSerializer,
    TupleSerializer,
    TypeSerializer,
    register_kryo_class,
    register_snapshot,
    registrations,
)
from state_processor.states import default_max_parallelism
from state_processor.types import (
    BOXES,
    EnumSerializer,
    JavaType,
    RowSerializer,
    java_type_of,
    walk,
)

Descriptions = Mapping[str, Mapping[str, str] | Sequence[str]]
"""Fields with their Java types, or constants, by class: the arguments of :func:`register_kryo_class`."""
_STRUCTURES: Final = (KryoSerializer, PojoSerializer, RowSerializer, TupleSerializer)
_BOXES: Final = {False: dict[str, str](), True: BOXES}


def undescribed(*states: StateSignature) -> list[str]:
    """Return the classes of states that Kryo writes, and that are neither built in nor described."""
    classes: dict[str, None] = {}
    for state in states:
        classes |= dict.fromkeys(kryo.type_class for kryo in state.parts(KryoSerializer) if not kryo.self_delimiting)
    return list(classes)


def has_structures(state: StateSignature) -> bool:
    """Return whether a state may have values with fields."""
    return bool(state.parts(_STRUCTURES))


def possible_descriptions(old: StateSignature, new: StateSignature) -> Iterator[Descriptions]:
    """Yield descriptions of all classes without one: with primitive numbers, then with boxed ones.

    Nothing is yielded if a class is not a POJO in the other state, or a field has a type without a name in Java.
    """
    pojos = {pojo.class_name: pojo for pojo in (*old.parts(PojoSerializer), *new.parts(PojoSerializer))}
    names = undescribed(old, new)
    if not names or not pojos.keys() >= set(names):
        return
    for is_boxed in (False, True):
        try:
            yield _kryo_descriptions([pojos[name] for name in names], _BOXES[is_boxed])
        except OptionError:
            return


def _kryo_descriptions(pojos: Sequence[PojoSerializer], boxes: Mapping[str, str]) -> Descriptions:
    descriptions: dict[str, Mapping[str, str] | Sequence[str]] = {}
    with registrations():
        for part in reversed(list(chain.from_iterable(map(walk, pojos)))):  # inner classes first
            if isinstance(part, EnumSerializer):
                descriptions[part.enum_class] = list(part.names)
            elif isinstance(part, PojoSerializer):
                descriptions[part.class_name] = {field.name: _java_name(field.serializer, boxes) for field in part.fields}
            else:
                continue
            register_kryo_class(*list(descriptions.items())[-1])
    return descriptions


def _java_name(serializer: TypeSerializer, boxes: Mapping[str, str]) -> str:
    type_ = java_type_of(serializer)
    return str(JavaType(boxes.get(type_.name, type_.name), type_.arguments))


_FORST: Final = "forst"
_FEW: Final = 4
"""The number of guesses about new names that are proposed at most."""


class Loss(IntEnum):
    """What a repair loses."""

    NOTHING = 0
    PART = 1
    STATE = 2
    OPERATOR = 3
    OTHER_OPERATOR = 4  # all state of an operator that restores


@dataclass(frozen=True, slots=True)
class Repair:
    """A command that repairs."""

    command: str  # empty if no command repairs: then the remark says why
    note: str = ""  # a remark, such as the loss
    loss: Loss = Loss.NOTHING  # the state that is lost

    def __str__(self) -> str:
        return f"{self.command}  # {self.note}" if self.note else self.command


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A verdict, and its two sides.

    ``old`` and ``new``: the operator of the snapshot, and of the new job. ``state`` and ``new_state``: the state of the snapshot,
    and of the new job.
    """

    verdict: StateVerdict
    old: OperatorSignature = field(default_factory=OperatorSignature)
    new: OperatorSignature | None = None
    state: StateSignature | None = None
    new_state: StateSignature | None = None
    takers: Sequence[OperatorSignature] = ()  # operators of the new job that can take all states of the operator
    # the new id of the operator by its old one, if the states decide it, and those of operators that have to change with it
    moves: Mapping[str, str] = field(default_factory=dict)
    living: frozenset[str] = frozenset()  # the ids of the operators of the snapshot that have state
    partners: Sequence[OperatorSignature] = ()  # operators of the snapshot that may have exchanged their ids with this one
    contents: Contents = NO_CONTENTS  # the values of the snapshot

    @property
    def uid(self) -> str:
        """The identifier of the operator for commands."""
        return self.old.uid or self.old.uid_hash or ""


@dataclass(frozen=True, slots=True)
class Repairs:
    """The repairs for a snapshot and a job."""

    source: str  # the path of the snapshot
    target: RestoringJob  # version and backend of the job that restores
    job: str = "NEW"  # the path of the description of this job
    access: Sequence[str] = ()  # flags that open the snapshot

    def of(self, mismatch: Mismatch) -> tuple[str, ...]:
        """Return the commands for a mismatch. Those that lose less come first."""
        cause, outcome = mismatch.verdict.cause, mismatch.verdict.outcome
        table = GUESSES if outcome is Outcome.UNKNOWN else REPAIRS if outcome.is_bad else {}
        rules = table.get(cause, ()) if cause is not None else ()
        repairs: list[Repair] = []
        reasons: dict[str, None] = {}
        for repair in chain.from_iterable(rule(self, mismatch) for rule in rules):
            if repair.command:
                repairs.append(repair)
            else:
                reasons[repair.note] = None
        repairs.sort(key=lambda repair: repair.loss)
        if reasons and repairs and repairs[0].loss >= Loss.STATE:
            repairs[-1] = replace(repairs[-1], note=f"{repairs[-1].note}; {'; '.join(reasons)}")
        if repairs and repairs[0].loss >= Loss.STATE:
            repairs = [*_exported(self, mismatch), *repairs]
        return tuple(dict.fromkeys(map(str, repairs)))

    def command(self, name: str, *arguments: str) -> str:
        """Return a command that writes a repaired copy, in a format that the backend of the job restores."""
        formats = () if name == "copy" or self.target.backend != _FORST else ("--format", "native", "--backend", _FORST)
        words = [name, self.source, TARGET, *arguments, *formats, *self.access]
        return " ".join(["state-processor", *map(shlex.quote, words)])

    def export(self, mismatch: Mismatch, state: str) -> str:
        """Return the command that writes the values of a state into a file."""
        file = re.sub(r"[^\w.-]", "-", state) + ".parquet"
        words = ["export", self.source, "--uid", mismatch.uid, "--state", state, "-o", file, *self.access]
        return " ".join(["state-processor", *map(shlex.quote, words)])

    def check(self, *arguments: str) -> str:
        """Return the command that checks the snapshot again."""
        return " ".join(
            ["state-processor", *map(shlex.quote, ["check", self.source, "--job", self.job, *arguments, *self.access])]
        )


Rule = Callable[[Repairs, Mismatch], Iterator[Repair]]

# Snapshots


def _copied(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    if repairs.target.backend == _FORST:
        yield Repair(repairs.command("convert"))
    else:
        yield Repair(repairs.command("copy"))


def _copied_with_plan(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    yield Repair(repairs.command("copy", "--plan", "OLD_PLAN"), "operators get the ids of the plan")


def _copied_with_claimed(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    yield Repair(repairs.command("copy", "--allow", "DIR"), "DIR is the directory of the savepoint that the job claimed")


def _copied_from_elsewhere(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    note = "if NEW has these files, complete and undamaged, and OLD is their recorded directory"
    yield Repair(repairs.command("copy", "--map", "OLD=NEW"), note)


def _older(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    directory = posixpath.dirname(repairs.source.rstrip("/").removesuffix("/_metadata")) or "."
    command = " ".join(["state-processor", "list", shlex.quote(directory)])
    yield Repair(command, "older snapshots of the job: loses what came after the one that you restore", Loss.PART)


def _migrated(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    version, state = repairs.target.flink or "2.x", mismatch.state
    if mismatch.verdict.cause is not Cause.TYPE or (
        repairs.target.changes_kryo and state is not None and has_kryo_collections(state)
    ):
        yield Repair(repairs.command("migrate", "--flink", version), "keeps all values, or names the states that can't be kept")


# Operators


def _renamed(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    if mismatch.moves:
        yield _with_ids(repairs, mismatch, mismatch.moves)
        return
    for taker in mismatch.takers[:_FEW]:
        identifier = taker.uid or taker.uid_hash
        if identifier is None:
            continue
        takes = takes_all(mismatch.old, taker)
        if not takes and any(map(is_of_query, (mismatch.old.states or {}).values())):
            continue  # the columns changed: no new id makes Flink restore them
        is_sure = takes and len(mismatch.takers) == 1 and mismatch.living.isdisjoint(taker.hashes)
        note = "" if is_sure else f"if the operator is {identifier} now"
        note += "" if takes else "; check the copy, because types of its states changed, too"
        yield _with_ids(repairs, mismatch, {mismatch.uid: identifier}, note)


def _with_ids(repairs: Repairs, mismatch: Mismatch, ids: Mapping[str, str], note: str = "") -> Repair:
    """Return the repair that gives operators other ids. An operator that has such an id, and keeps it, is left out."""
    old = {OperatorIdentifier.of(identifier).uid_hash for identifier in ids}
    new = {OperatorIdentifier.of(identifier).uid_hash for identifier in ids.values()}
    replaced = sorted((new - old) & mismatch.living)
    words = ["--from", *ids, "--to", *ids.values()]
    if len(ids) > 1:
        words = ["--mapping", json.dumps(ids, ensure_ascii=False, sort_keys=True)]
    if not replaced:
        return Repair(repairs.command("rename-uid", *words), note)
    notes = (note, f"loses the state of {', '.join(replaced)}, whose id it gets")
    loss = Loss.PART if mismatch.moves else Loss.OTHER_OPERATOR
    return Repair(repairs.command("rename-uid", *words, "--replace"), "; ".join(filter(None, notes)), loss)


def _exchanged(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    if mismatch.moves:
        return
    for partner in mismatch.partners[:_FEW]:
        pair = sorted((mismatch.uid, partner.uid or partner.uid_hash or ""))
        mapping = json.dumps(dict(zip(pair, reversed(pair), strict=True)), ensure_ascii=False)
        yield Repair(repairs.command("rename-uid", "--mapping", mapping), "if the two operators exchanged their ids")


def _without_operator(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    yield Repair(repairs.command("drop-state", "--uid", mismatch.uid), "loses all state of the operator", Loss.OPERATOR)


def _resized(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    new = mismatch.new or OperatorSignature()
    size = new.max_parallelism or default_max_parallelism(new.parallelism or 1)
    yield Repair(repairs.command("set-max-parallelism", str(size)))


def _in_format(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    if repairs.target.backend is not None:
        canonical = () if repairs.target.backend == _FORST else ("--format", "canonical")
        yield Repair(repairs.command("convert", *canonical))


def _with_api(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    asynchronous = mismatch.new is not None and mismatch.new.asynchronous
    yield Repair(repairs.command("convert", "--async-state" if asynchronous else "--sync-state", mismatch.uid))


def _with_timer_service(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    """Propose to declare the operator as unchanged, or to write timers where both timer services find them."""
    yield Repair(repairs.check("--unchanged", mismatch.uid), "if the job keeps timers in its backend, as by default")
    if repairs.target.backend != _FORST:
        yield Repair(repairs.command("convert", "--format", "canonical"), "if the job keeps timers on the heap")


def _under_new_name(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    before, after = mismatch.old.states or {}, (mismatch.new.states or {}) if mismatch.new is not None else {}
    gone = [state for name, state in before.items() if name not in after and not state.is_timer]
    added = [state for name, state in after.items() if name not in before and not state.is_timer]
    for state, new in product(gone, added):
        trial = mismatch.contents.misfit(mismatch.old, state, new, NO_EDITS)
        if not trial.problem:
            place = ("--uid", mismatch.uid, "--state", state.name, "--as", new.name, "--job", repairs.job)
            yield Repair(
                repairs.command("convert-state", *place), f"if {new.name!r} is the new name of {state.name!r}{trial.note}"
            )


# States


def _exported(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    """Propose to keep the values of a state, or of all states of an operator, in files."""
    of_operator = mismatch.state is None or mismatch.verdict.part in (KEY, NAMESPACE)
    states = (mismatch.old.states or {}).values() if of_operator else [mismatch.state]
    for state in states:
        if state is not None and not state.is_timer and not state.unread:
            yield Repair(repairs.export(mismatch, state.name), "keeps the values in a file")


def _with_time_to_live(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    state, new = mismatch.state, mismatch.new_state
    if state is None or new is None or not _differs_in_ttl_alone(state, new):
        return
    notes = ["values get the time of writing as their last access"] if new.ttl else []
    written, required = state.serializer(VALUE), new.serializer(VALUE)
    # Flink migrates the values afterwards
    lost = list(dict.fromkeys(lost_values(written, required))) if written is not None and required is not None else []
    command = repairs.command("with-ttl", "--uid", mismatch.uid, "--state", state.name, *(() if new.ttl else ("--off",)))
    yield Repair(command, "; ".join((*notes, *lost)), Loss.PART if lost else Loss.NOTHING)


def _differs_in_ttl_alone(state: StateSignature, new: StateSignature) -> bool:
    written, required = state.serializer(VALUE), new.serializer(VALUE)
    if state.ttl == new.ttl or written is None or required is None:
        return False
    return not written.snapshot().resolve_schema_compatibility(required).is_incompatible


def _converted(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    state, new = mismatch.state, mismatch.new_state
    if state is None or new is None or mismatch.verdict.part in (KEY, NAMESPACE) or is_of_query(state):
        return
    if mismatch.verdict.cause is Cause.TIME_TO_LIVE and _differs_in_ttl_alone(state, new):
        return
    changes = field_changes(state, new)
    for edits, note in _edits(changes, is_needed=mismatch.verdict.cause is Cause.FIELDS):
        trial = mismatch.contents.misfit(mismatch.old, state, new, edits)
        place = ("--uid", mismatch.uid, "--state", state.name, "--job", repairs.job)
        yield _conversion(repairs, place, edits, note, trial)


def _conversion(repairs: Repairs, place: Sequence[str], edits: Edits, note: str, trial: Trial) -> Repair:
    """Return a conversion, or the reason why it is impossible. Values are not shown."""
    if trial.problem:
        problem = "a value does not fit the new type" if trial.is_value else trial.problem.splitlines()[0]
        return Repair("", f"convert-state can't keep it: {problem}")
    flags: list[str] = []
    for path, name in edits.renames.items():
        flags += ("--rename", f"{path}={name}")
    for path, value in edits.defaults.items():
        flags += ("--default", f"{path}={json.dumps(value)}")
    for path in sorted(edits.dropped):
        flags += ("--drop-field", path)
    command = repairs.command("convert-state", *place, *flags)
    return Repair(command, f"{note}{trial.note}", Loss.PART if edits.dropped else Loss.NOTHING)


def _saved(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    for repair in _exported(repairs, mismatch):
        yield replace(repair, note=f"{repair.note}; Flink keeps them in the job if the operator registers keyed state again")


def _described(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    """Propose to convert values whose class Kryo writes or wrote: a module of the user describes its fields."""
    state, new = mismatch.state, mismatch.new_state
    if state is None or new is None or mismatch.verdict.part in (KEY, NAMESPACE) or not (names := undescribed(state, new)):
        return
    arguments = ("--uid", mismatch.uid, "--state", state.name, "--job", repairs.job, "--serializers", "MODULE")
    command = repairs.command("convert-state", *arguments)
    for descriptions in possible_descriptions(state, new):
        with registrations():
            for name, fields in descriptions.items():
                register_kryo_class(name, fields)
            trial = mismatch.contents.misfit(mismatch.old, state, new, NO_EDITS)
        if not trial.problem:
            calls = "; ".join(f"register_kryo_class({name!r}, {fields!r})" for name, fields in descriptions.items())
            condition = f"if these are exactly the fields of {' and '.join(names)}"
            yield Repair(command, f"keeps all values, {condition}{trial.note}; MODULE has {calls}")
            return
    if has_structures(state) and has_structures(new):
        yield Repair(command, f"if MODULE describes {' and '.join(names)} for Kryo: {register_kryo_class.__name__}")


def _edits(changes: FieldChanges, *, is_needed: bool) -> Iterator[tuple[Edits, str]]:
    """Yield the edits that a conversion may need, with notes: without guesses, with new names, without removed fields.

    ``changes``: the fields and constants that are gone or new. ``is_needed``: whether a conversion without guesses repairs
    nothing.
    """
    values = "; ".join(f"{path} is {json.dumps(value)}" for path, value in changes.defaults.items())
    keeps = f"keeps all values{'; ' if values else ''}{values}"
    as_is = [(Edits(defaults=changes.defaults), keeps)] if not is_needed and not changes.gone else []
    renamed = list(_renamed_fields(changes, keeps))
    yield from (*renamed, *as_is) if changes.moves else (*as_is, *renamed)
    if not is_needed and changes.gone:
        gone = ", ".join(path for path in changes.gone)
        yield Edits(defaults=changes.defaults, dropped=frozenset(changes.gone)), f"loses {gone}"


def _renamed_fields(changes: FieldChanges, note: str) -> Iterator[tuple[Edits, str]]:
    for renames in changes.renames[:_FEW]:
        words = ", ".join(f"{path.rpartition('.')[2]} is called {name} now" for path, name in renames.items())
        yield Edits(renames, changes.defaults), f"{note}, if {words}"


def _with_keys(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    if mismatch.verdict.part != KEY or mismatch.new is None or mismatch.state is None or mismatch.new_state is None:
        return
    note = "keeps all keyed states and timers; keys get the type of the new job"
    readings = list(_renamed_fields(field_changes(mismatch.state, mismatch.new_state, (KEY,)), note))
    for edits, condition in (*readings, (NO_EDITS, note)):
        trial = mismatch.contents.key_misfit(mismatch.old, mismatch.new, edits)
        yield _conversion(repairs, ("--uid", mismatch.uid, "--job", repairs.job), edits, condition, trial)


def _continued_query(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    states = [mismatch.state] if mismatch.state is not None else list((mismatch.old.states or {}).values())
    if any(map(is_of_query, states)):
        command = repairs.command("migrate-query", "OLD_PLAN", "NEW_PLAN")
        yield Repair(command, "keeps what both queries have; the plans are files of COMPILE PLAN or of compile-plan")


def _without_state(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    """Propose to drop a state; a key or a window of another type also concerns timers: the whole operator has to go."""
    state = mismatch.state
    if mismatch.verdict.part in (KEY, NAMESPACE) or (state is not None and state.unread and not state.name):
        yield from _without_operator(repairs, mismatch)
    elif state is not None and not state.is_timer:
        command = repairs.command("drop-state", "--uid", mismatch.uid, "--state", state.name)
        yield Repair(command, "loses all values of the state", Loss.STATE)


def _with_promise(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    """Propose to declare code as unchanged, and only then to drop the state that it reads."""
    subject = mismatch.verdict.subject or mismatch.uid
    if not subject:  # records in channels
        return
    if any(state is not None and state.unread for state in (mismatch.state, mismatch.new_state)):
        note = f"if MODULE registers the serializers of the job: {register_snapshot.__name__}"
        yield Repair(repairs.check("--serializers", "MODULE"), note)
    else:
        yield Repair(repairs.check("--unchanged", subject), f"if the code of {subject} is the same in both jobs")
    yield from _dropped(repairs, mismatch, "only if Flink fails on it")


def _unused(repairs: Repairs, mismatch: Mismatch) -> Iterator[Repair]:
    return _dropped(repairs, mismatch, "only if the new job goes on without it")


def _dropped(repairs: Repairs, mismatch: Mismatch, condition: str) -> Iterator[Repair]:
    rule = _without_operator if mismatch.state is None else _without_state
    for repair in rule(repairs, mismatch):
        yield replace(repair, note=f"{condition}: {repair.note}")


REPAIRS: Final[Mapping[Cause, tuple[Rule, ...]]] = {
    Cause.FILES: (_copied_from_elsewhere, _older),
    Cause.MOVED: (_copied,),
    Cause.CLAIMED: (_copied,),
    Cause.QUERY: (_continued_query,),
    Cause.QUERY_TEXT: (_copied_with_plan,),
    Cause.CLAIMED_MISSING: (_copied_with_claimed,),
    Cause.VERSION: (_migrated,),
    Cause.FORMAT: (_in_format,),
    Cause.ASYNCHRONOUS: (_with_api,),
    Cause.PARALLELISM: (_resized,),
    Cause.MAX_PARALLELISM: (_resized,),
    Cause.OPERATOR_MISSING: (_continued_query, _renamed, _without_operator),
    Cause.OPERATORS_SWAPPED: (_exchanged, _renamed),
    Cause.NOT_KEYED: (_renamed, _saved),
    Cause.WINDOWS: (_without_operator,),
    Cause.TIME_TO_LIVE: (_with_time_to_live, _converted, _without_state),
    Cause.TYPE: (_migrated, _continued_query, _with_keys, _converted, _described, _without_state),
    Cause.KIND: (_converted, _described, _without_state),
    Cause.FIELDS: (_converted,),
    Cause.KRYO_VERSION: (_migrated,),
    Cause.CODE: (_with_promise,),
}
"""The repairs of each kind of mismatch. They are sorted by their loss."""

GUESSES: Final[Mapping[Cause, tuple[Rule, ...]]] = {
    Cause.OPERATORS_SWAPPED: (_exchanged, _renamed),
    Cause.STATE_RENAMED: (_under_new_name,),
    Cause.FIELDS: (_converted,),
    Cause.QUERY: (_continued_query,),
    Cause.CODE: (_with_promise,),
    Cause.TIMER_SERVICE: (_with_timer_service,),
    Cause.WINDOWS: (_with_promise,),
    Cause.STATE_UNUSED: (_unused,),
}
"""The repairs of what could not be checked: each says when it applies."""
