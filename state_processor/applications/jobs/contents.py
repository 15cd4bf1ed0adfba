"""The check of what only the files of a snapshot show: their presence and structure, and values where types do not decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from state_processor.applications.jobs.rules import RestoringJob
from state_processor.applications.jobs.signature import KEY, MAP_KEY, VALUE, OperatorSignature, StateSignature
from state_processor.applications.jobs.value_conversion import Edits, Trial
from state_processor.applications.jobs.verdicts import Cause, Outcome, StateVerdict
from state_processor.errors import StateProcessorError, UndescribedClassError
from state_processor.options import ReadOptions
from state_processor.serializers import CharSerializer, NumberSerializer, PojoSerializer, TypeSerializer
from state_processor.snapshots import OperatorState, Snapshot, StructureCheck, check_files, is_moved, oldest_flink_version
from state_processor.states import BROADCAST, LIST, MAP, StoredOperator, open_state, read_all, stored_name
from state_processor.support import index_by_name, pc
from state_processor.types import CLASS_FIELD, Codec, PojoCodec, parts_of

if TYPE_CHECKING:
    from state_processor.applications.jobs.converting import Conversion


_OPTIONS: Final = ReadOptions.of(nanos="string")
_SHOWN: Final = 3


def snapshot_verdicts(snapshot: Snapshot, target: RestoringJob, *, contents: bool) -> Iterator[StateVerdict]:
    """Yield verdicts on a snapshot as a whole: the version of its ``_metadata``, and its files.

    ``target``: the job that restores. ``contents``: whether the structure of all files is checked.
    """
    yield from _version(snapshot, target)
    files = check_files(snapshot)
    if files.claimed_missing:
        yield StateVerdict("", Outcome.REFUSED, files.claimed_missing, cause=Cause.CLAIMED_MISSING)
    problems = [problem for problem in files.problems if problem != files.claimed_missing]
    if problems:
        rest = f"; {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        yield StateVerdict("", Outcome.REFUSED, "; ".join(problems[:_SHOWN]) + rest, cause=Cause.FILES)
    if files.problems:
        return
    if files.claimed:
        text = f"the checkpoint refers to files of a claimed savepoint as its own: {', '.join(files.claimed)}"
        yield StateVerdict("", Outcome.REFUSED, text, cause=Cause.CLAIMED)
    elif is_moved(snapshot):
        text = "the checkpoint was moved: Flink looks for its files at their recorded paths"
        yield StateVerdict("", Outcome.REFUSED, text, cause=Cause.MOVED)
    if not contents:
        text = "contents=False: neither the files of the snapshot nor values were read"
        yield StateVerdict("", Outcome.UNKNOWN, text, cause=Cause.FILES)
        return
    structure = StructureCheck()
    structure.check(snapshot)
    for problem in structure.problems[:_SHOWN]:
        yield StateVerdict("", Outcome.REFUSED, problem, cause=Cause.FILES)
    for text in (*structure.unknown[:_SHOWN], *(f"{file} has no checksums" for file in structure.without_checksums[:_SHOWN])):
        yield StateVerdict("", Outcome.UNKNOWN, text, cause=Cause.FILES)
    yield from _in_flight(snapshot)


def _version(snapshot: Snapshot, target: RestoringJob) -> Iterator[StateVerdict]:
    """Yield a verdict on the version of ``_metadata`` (Flink: ``MetadataSerializers``)."""
    version = snapshot.metadata.version
    oldest = oldest_flink_version(version)
    if oldest is None:
        return
    needed = tuple(map(int, oldest.split(".")))
    text = f"version {version} of _metadata is read by Flink {oldest} and later"
    if target.version is None and needed > (2, 0):
        reason = f"{text}; name the Flink version of the new job"
        yield StateVerdict("", Outcome.UNKNOWN, reason, cause=Cause.VERSION)
    elif target.version is not None and target.version < needed:
        yield StateVerdict("", Outcome.REFUSED, f"{text}, and the new job has {target.flink}", cause=Cause.VERSION)


def _in_flight(snapshot: Snapshot) -> Iterator[StateVerdict]:
    """Yield a verdict on records in channels: the serializers of records are not in the snapshot."""
    labels = [operator.label for operator in snapshot.metadata.operators if _has_channels(operator)]
    if labels:
        text = f"the checkpoint has records in flight ({', '.join(labels[:_SHOWN])}), whose types it does not describe"
        yield StateVerdict("", Outcome.UNKNOWN, text, cause=Cause.CODE)


def _has_channels(operator: OperatorState) -> bool:
    return any(subtask.input_channels or subtask.result_subpartitions for subtask in operator.subtasks)


class Contents(Protocol):
    """The values of a snapshot."""

    def verdicts(
        self, operator: OperatorSignature, state: StateSignature, new: StateSignature, target: RestoringJob
    ) -> Iterator[StateVerdict]:
        """Yield verdicts on a state that depend on its values."""
        ...

    def timer_count(self, operator: OperatorSignature, queue: str) -> int | None:
        """Return the number of timers in a queue; ``None`` if values are not read."""
        ...

    def misfit(self, operator: OperatorSignature, state: StateSignature, new: StateSignature, edits: Edits) -> Trial:
        """Return whether a state can be converted to another one."""
        ...

    def key_misfit(self, operator: OperatorSignature, new: OperatorSignature, edits: Edits) -> Trial:
        """Return whether keyed states and timers can get the type of the keys of another job."""
        ...


class _NoContents:
    """The values of a snapshot that is not read."""

    def verdicts(
        self, operator: OperatorSignature, state: StateSignature, new: StateSignature, target: RestoringJob
    ) -> Iterator[StateVerdict]:
        classes = {pojo.class_name for _, pojo in _pojos(state)} - target.unchanged
        if classes and not state.is_timer:
            text = f"nulls and subclasses in values of {', '.join(sorted(classes))} decide, and values were not read"
            yield StateVerdict(state.name, Outcome.UNKNOWN, text, cause=Cause.FIELDS)

    def timer_count(self, operator: OperatorSignature, queue: str) -> int | None:
        return None

    def misfit(self, operator: OperatorSignature, state: StateSignature, new: StateSignature, edits: Edits) -> Trial:
        return _misfit(lambda converting: (converting.Conversion.of(state, new, edits),))

    def key_misfit(self, operator: OperatorSignature, new: OperatorSignature, edits: Edits) -> Trial:
        return _misfit(lambda converting: converting.key_conversions(operator, new, edits))


class _TypesAlone(_NoContents):
    """No values, where only changes of types matter."""

    def verdicts(
        self, operator: OperatorSignature, state: StateSignature, new: StateSignature, target: RestoringJob
    ) -> Iterator[StateVerdict]:
        return iter(())


NO_CONTENTS: Final[Contents] = _NoContents()
TYPES_ALONE: Final[Contents] = _TypesAlone()


class SnapshotValues:
    """The values of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._operators = snapshot.metadata.operators_by_id

    def _stored(self, operator: OperatorSignature) -> StoredOperator:
        return StoredOperator(self._snapshot, self._operators[operator.uid_hash or ""])

    def verdicts(
        self, operator: OperatorSignature, state: StateSignature, new: StateSignature, target: RestoringJob
    ) -> Iterator[StateVerdict]:
        """Yield verdicts on nulls in fields that may be primitive, and on values of subclasses that are not registered."""
        pojos = [(part, pojo) for part, pojo in _pojos(state) if pojo.class_name not in target.unchanged]
        if not pojos or state.is_timer:
            return
        serializers = {part: state.serializer(part) for part, _ in pojos}
        parts = {part: serializer for part, serializer in serializers.items() if serializer is not None}
        contents = PojoContents()
        try:
            self._scan(operator, state, parts, contents)
        except UndescribedClassError as error:
            if error.class_name not in target.unchanged:
                yield StateVerdict(state.name, Outcome.UNKNOWN, str(error), cause=Cause.CODE, subject=error.class_name)
            return
        except StateProcessorError as error:
            yield StateVerdict(state.name, Outcome.UNKNOWN, f"values can't be read: {error}", cause=Cause.CODE)
            return
        yield from _findings(state, new, contents, target)

    def _scan(
        self, operator: OperatorSignature, state: StateSignature, parts: dict[str, TypeSerializer], pojos: PojoContents
    ) -> None:
        stored = self._stored(operator)
        name = stored_name(state.name, stored.surveyed[0])
        reader = open_state(stored, name, options=_OPTIONS)
        for batch in read_all(reader.splits, reader.read, self._snapshot.threads):
            for part, serializer in parts.items():
                column = _COLUMNS.get((state.kind, part), part)
                pojos.scan(serializer, batch.column(column))

    def timer_count(self, operator: OperatorSignature, queue: str) -> int | None:
        """Return the number of timers in a queue."""
        reader = open_state(self._stored(operator), queue, options=_OPTIONS)
        counts: Iterator[int] = (batch.num_rows for batch in read_all(reader.splits, reader.read, self._snapshot.threads))
        return sum(counts)

    def misfit(self, operator: OperatorSignature, state: StateSignature, new: StateSignature, edits: Edits) -> Trial:
        """Return whether a state can be converted to another one, by its types and values."""
        return _misfit(lambda converting: (converting.Conversion.of(state, new, edits),), self._stored(operator))

    def key_misfit(self, operator: OperatorSignature, new: OperatorSignature, edits: Edits) -> Trial:
        """Return whether keys can be converted, by their types and values."""
        return _misfit(lambda converting: converting.key_conversions(operator, new, edits), self._stored(operator))


def _misfit(conversions: Callable[[ModuleType], Iterable[Conversion]], stored: StoredOperator | None = None) -> Trial:
    """Return whether conversions are possible: by their types and, if the operator is there, by its values."""
    from state_processor.applications.jobs import converting  # it imports what writes

    partly = Trial()
    try:
        for conversion in conversions(converting):
            trial = Trial() if stored is None else conversion.tried(stored)
            if trial.problem:
                return trial
            partly = trial if trial.rows is not None else partly
    except StateProcessorError as error:
        return Trial(str(error))
    return partly


_COLUMNS: Final = {
    (LIST, VALUE): "list_value",
    (MAP, VALUE): "map_value",
    (MAP, MAP_KEY): "map_key",
    (BROADCAST, MAP_KEY): "key",
    (BROADCAST, KEY): "key",
}
"""The columns of parts, where they do not have the name of the part."""


def _pojos(state: StateSignature) -> Iterator[tuple[str, PojoSerializer]]:
    for part in (KEY, MAP_KEY, VALUE):
        serializer = state.serializer(part)
        if serializer is not None:
            yield from zip(repeat(part), parts_of(PojoSerializer, serializer))


def _findings(state: StateSignature, new: StateSignature, pojos: PojoContents, target: RestoringJob) -> Iterator[StateVerdict]:
    required = [pojo for _, pojo in _pojos(new)]
    texts: Counter[str] = Counter()
    for (owner, name), count in pojos.nulls.items():
        fields = index_by_name(chain.from_iterable(pojo.fields for pojo in required if pojo.class_name == owner))
        is_primitive = fields[name].is_primitive(owner) if name in fields else False
        if owner in target.unchanged or is_primitive is False:
            continue
        text = f"field {name!r} of {owner} is null in {count} values"
        if is_primitive:
            yield StateVerdict(state.name, Outcome.REFUSED, f"{text}, and is primitive in the new job", cause=Cause.FIELDS)
        else:
            texts[f"{text}: Flink fails on them if the new class has a primitive field, which a registration can tell"] += 1
    registered = set(chain.from_iterable(pojo.registered for pojo in required))
    for parent, subclass in pojos.subclasses:
        if subclass not in registered | target.unchanged:
            texts[
                f"values of {subclass}, a subclass of {parent}, are not registered: the new job does not describe its fields"
            ] += 1
    if pojos.unscanned:
        texts[f"nulls and subclasses inside {', '.join(sorted(pojos.unscanned))} can't be found"] += 1
    for text in texts:
        yield StateVerdict(state.name, Outcome.UNKNOWN, text, cause=Cause.FIELDS)


@dataclass
class PojoContents:
    """What columns of POJOs contain."""

    # the number of nulls in fields that a class may declare as primitive, by class and field
    nulls: Counter[tuple[str, str]] = field(default_factory=Counter)
    subclasses: Counter[tuple[str, str]] = field(default_factory=Counter)  # the number of values by class and subclass
    unscanned: set[str] = field(default_factory=set)  # types with POJOs inside whose columns have another form

    def scan(self, type_: Codec, column: pa.Array) -> None:
        """Add the content of a column."""
        if isinstance(column, pa.ChunkedArray):
            for chunk in column.chunks:
                self.scan(type_, chunk)
            return
        if not parts_of(PojoCodec, type_):
            return
        column = column.drop_null()
        if isinstance(type_, PojoCodec) and _is_pojo_column(type_, column.type):
            self._scan_pojo(type_, column)
            return
        parts = _parts(column)
        children = type_.children
        if parts and len(parts) == len(children):
            for child, part in zip(children, parts, strict=True):
                self.scan(child, part)
        elif len(children) == 1 and not isinstance(type_, PojoCodec):  # a wrapper, such as Nullable
            self.scan(children[0], column)
        else:
            self.unscanned.add(str(type_))

    def _scan_pojo(self, pojo: PojoCodec[Any], column: pa.StructArray) -> None:
        classes = column.field(CLASS_FIELD) if pojo.has_subclasses else None
        for name, fields, places in pojo.class_columns:
            rows = column if classes is None else column.filter(pc.equal(classes, name))
            if name != pojo.class_name and len(rows):
                self.subclasses[pojo.class_name, name] += len(rows)
            for pojo_field in fields:
                values = rows.field(places.get(pojo_field.name, pojo_field.name))
                if type(pojo_field.serializer) in (NumberSerializer, CharSerializer):
                    if values.null_count:
                        self.nulls[name, pojo_field.name] += values.null_count
                else:
                    self.scan(pojo_field.serializer, values)


def _is_pojo_column(pojo: PojoCodec[Any], kind: pa.DataType) -> bool:
    """Return whether a column has the fields of a POJO: values inside of others, such as partial matches, have other columns."""
    if not pa.types.is_struct(kind):
        return False
    names: set[str] = set()
    for _, fields, places in pojo.class_columns:
        names |= {places.get(field.name, field.name) for field in fields}
    return names <= {kind.field(number).name for number in range(kind.num_fields)}


def _parts(column: pa.Array) -> list[pa.Array]:
    """Return the arrays inside a column: fields of structs, elements of lists, keys and values of maps."""
    kind = column.type
    if pa.types.is_struct(kind):
        return list(column.flatten())
    if pa.types.is_map(kind):
        entries = pa.ListArray.from_arrays(column.offsets, pa.StructArray.from_arrays([column.keys, column.items], ["k", "v"]))
        return list(entries.flatten().flatten())
    return [column.flatten()] if pa.types.is_list(kind) or pa.types.is_large_list(kind) else []
