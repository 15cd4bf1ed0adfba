"""Signatures: the operators and states of a job, without their values, and the files that contain them.

A file is JSON, or the same in YAML by hand. Operators and states have a stable order, and each type is a line of text, so that
two files can be compared line by line. Serializer snapshots are in the file where the text of a type is not enough.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar

from state_processor import OperatorIdentifier
from state_processor import states as kinds
from state_processor.errors import CorruptSnapshotError, OptionError, UnsupportedFormatError
from state_processor.serializers import (
    KryoSerializer,
    PojoSerializer,
    TypeSerializer,
    TypeSerializerSnapshot,
    read_serializer_snapshot,
)
from state_processor.states import OPERATOR_KINDS, TIMERS
from state_processor.support import attributes, index_by_name, without_none
from state_processor.types import (
    AvroSerializer,
    BinaryDataSerializer,
    EnumSerializer,
    TtlSerializer,
    VoidNamespaceSerializer,
    is_collection,
    is_map,
    parse_type,
    parts_of,
    walk,
)

P = TypeVar("P")

VERSION: Final = 1
"""The version of the format of signature files."""

KEY: Final = "key"
NAMESPACE: Final = "namespace"
MAP_KEY: Final = "map_key"
VALUE: Final = "value"
ROLES: Final[tuple[str, ...]] = (KEY, NAMESPACE, MAP_KEY, VALUE)
"""The parts of a state with a type, in their order in files."""
VOID_NAMESPACE: Final = str(VoidNamespaceSerializer())
"""The text of the namespace of states without windows."""


@dataclass(frozen=True, slots=True)
class StateSignature:
    """A state: kind, time-to-live, and the serializer snapshot of each part.

    ``name`` and ``kind``: as in the table of states.
    """

    name: str
    kind: str
    # serializer snapshots by part: ``key``, ``namespace``, ``map_key``, ``value``
    snapshots: Mapping[str, TypeSerializerSnapshot] = field(default_factory=dict)
    ttl: bool = False  # whether values have time-to-live
    unread: str = ""  # the reason why the types are unknown; empty if they are known

    @property
    def is_keyed(self) -> bool:
        """Whether the state belongs to keys."""
        return self.kind not in OPERATOR_KINDS

    @property
    def is_timer(self) -> bool:
        """Whether the state is a timer queue."""
        return self.kind in TIMERS

    def serializer(self, part: str) -> TypeSerializer | None:
        """Return the serializer of a part; of values with time-to-live, the serializer inside."""
        snapshot = self.snapshots.get(part)
        serializer = None if snapshot is None else snapshot.restore_serializer()
        return serializer.value if isinstance(serializer, TtlSerializer) else serializer

    def type_text(self, part: str) -> str | None:
        """Return the type of a part as text."""
        serializer = self.serializer(part)
        return None if serializer is None else str(serializer)

    @property
    def classes(self) -> dict[str, Any]:
        """The classes that type texts only name: fields of POJOs, constants of enums, schemas of Avro."""
        serializers = without_none(map(self.serializer, ROLES))
        return dict(chain.from_iterable(map(_classes, serializers)))

    def parts(self, kind: type[P] | tuple[type[P], ...]) -> list[P]:
        """Return the serializers of a class that the types of the state consist of, outer ones first."""
        serializers = without_none(map(self.serializer, ROLES))
        return list(chain.from_iterable(map(partial(parts_of, kind), serializers)))

    @property
    def content(self) -> dict[str, Any]:
        """The JSON of the state. Serializer snapshots that follow from the text of the type are left out."""
        type_texts: dict[str, str | None] = {}
        unsaid: dict[str, str] = {}
        for part in ROLES:
            text = self.type_text(part)
            type_texts[f"{part}_type"] = None if (part, text) == (NAMESPACE, VOID_NAMESPACE) else text
            if part in self.snapshots:
                encoded = encoded_snapshot(self.snapshots[part])
                if not follows_from_text(encoded, text, ttl=self.ttl and part == VALUE):
                    unsaid[part] = encoded
        optional = {"unread": self.unread or None, "classes": self.classes or None, "serializers": unsaid or None}
        return _present({"name": self.name, "kind": self.kind, **type_texts, "ttl": self.ttl, **optional})


@dataclass(frozen=True, slots=True)
class OperatorSignature:
    """An operator. Unknown values are ``None``.

    ``uid``, ``uid_hash`` and ``name``: the identifiers. A job graph does not contain uids.
    """

    uid: str | None = None
    uid_hash: str | None = None
    name: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    # the states by name; ``None`` if they are unknown, as in job graphs and plans
    states: Mapping[str, StateSignature] | None = None
    other_uids: tuple[str, ...] = ()  # uids that the operator has with another setting of ``table.exec.uid.format``
    # whether keyed state is registered for the asynchronous API. Only the files of ForSt show it.
    asynchronous: bool | None = None
    backend: str | None = None  # the backend or format of keyed state
    has_state: bool = True  # whether the snapshot has state of the operator, be it raw state or coordinator state
    # what wrote state that is only bytes, with the versions of its formats: ``source kafka (splits 0, enumerator 1)``, ``sink
    # file (writer 2)``, or ``raw keyed state unknown``
    writers: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The uid, or else the name, or else the hash."""
        return self.uid or self.name or self.uid_hash or "?"

    @property
    def hashes(self) -> tuple[str, ...]:
        """The possible hashes of the operator in snapshots."""
        by_uid_hash = () if self.uid_hash is None else (self.uid_hash,)
        return (*by_uid_hash, *(OperatorIdentifier.for_uid(uid).uid_hash for uid in self.other_uids))

    @property
    def keyed(self) -> tuple[StateSignature, ...]:
        """The keyed states and timers."""
        return tuple(state for state in (self.states or {}).values() if state.is_keyed)

    @property
    def content(self) -> dict[str, Any]:
        """The JSON of the operator."""
        names = ("uid", "uid_hash", "name", "parallelism", "max_parallelism", "asynchronous", "backend")
        states = None if self.states is None else [self.states[name].content for name in sorted(self.states)]
        optional = {"has_state": None if self.has_state else False, "other_uids": list(self.other_uids) or None}
        optional |= {"writers": list(self.writers) or None}
        return _present(attributes(self, names) | optional | {"states": states})

    @property
    def order(self) -> tuple[str, str, str]:
        """The place of the operator in files."""
        return self.uid or "\uffff", self.name or "", self.uid_hash or ""


@dataclass(frozen=True, slots=True)
class JobSignature:
    """The operators and states of a job.

    Attributes
    ----------
    operators
        The operators, by uid; then operators without a uid, by name and hash.
    flink
        The Flink version of the job as text, such as ``2.3`` or ``2.x``; ``None`` if it is unknown.
    backend
        The state backend of the job: ``hashmap``, ``rocksdb``, ``forst``; ``None`` if it is unknown.
    """

    operators: tuple[OperatorSignature, ...]
    flink: str | None = None
    backend: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "operators", tuple(sorted(self.operators, key=lambda o: o.order)))

    @property
    def by_hash(self) -> dict[str, OperatorSignature]:
        """The operators by their hashes in snapshots; an operator may have several."""
        operators = {}
        for operator in self.operators:
            operators.update(dict.fromkeys(operator.hashes, operator))
        return operators

    @property
    def content(self) -> dict[str, Any]:
        """The JSON of the signature."""
        job = _present({"flink": self.flink, "backend": self.backend})
        return {"version": VERSION, **job, "operators": [operator.content for operator in self.operators]}

    def __str__(self) -> str:
        return json.dumps(self.content, indent=2, ensure_ascii=False)


def states_in(operators: Iterable[OperatorSignature]) -> Iterator[tuple[OperatorSignature, StateSignature]]:
    """Yield the states of operators, each with its operator."""
    for operator in operators:
        for state in (operator.states or {}).values():
            yield operator, state


def is_of_query(state: StateSignature) -> bool:
    """Return whether a state has rows of Flink SQL."""
    return bool(state.parts(BinaryDataSerializer))


def kryo_classes(state: StateSignature) -> list[str]:
    """Return the classes of a state that Kryo writes."""
    return [serializer.type_class for serializer in state.parts(KryoSerializer)]


def has_kryo_collections(state: StateSignature) -> bool:
    """Return whether Kryo wrote collections of a state. Flink 2.x has serializers for them."""
    return any(is_collection(name) or is_map(name) for name in kryo_classes(state))


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _classes(serializer: TypeSerializer) -> Iterator[tuple[str, Any]]:
    for part in walk(serializer):
        if isinstance(part, PojoSerializer):
            yield part.class_name, {field.name: str(field.serializer) for field in part.fields}
        elif isinstance(part, EnumSerializer):
            yield part.enum_class, list(part.names)
        elif isinstance(part, AvroSerializer):
            yield part.class_name, json.loads(part.schema.text)


def declared_snapshot(text: str, *, ttl: bool = False) -> TypeSerializerSnapshot:
    """Return the serializer snapshot of a type that a text declares."""
    serializer = VoidNamespaceSerializer() if text == VOID_NAMESPACE else parse_type(text)
    return (TtlSerializer.of(serializer) if ttl else serializer).snapshot()


def follows_from_text(encoded: str, text: str | None, *, ttl: bool) -> bool:
    """Return whether the text of a type is enough to make an encoded serializer snapshot."""
    try:
        return text is not None and encoded_snapshot(declared_snapshot(text, ttl=ttl)) == encoded
    except OptionError:
        return False


def encoded_snapshot(snapshot: TypeSerializerSnapshot) -> str:
    """Return a serializer snapshot with class name and version, in Base64."""
    return b64encode(snapshot.to_bytes()).decode()


_SNAPSHOTS: Final = "serializers"
_CLASSES: Final = "classes"
_OF_JOB: Final = ("version", "flink", "backend", "operators")
_OF_OPERATOR: Final = (
    *("uid", "uid_hash", "name", "parallelism", "max_parallelism", "asynchronous", "backend", "has_state", "other_uids"),
    *("writers", "key_type", "states"),
)
_OF_STATE: Final = ("name", "kind", *(f"{part}_type" for part in ROLES), "ttl", "unread", _CLASSES, _SNAPSHOTS)
_KINDS: Final = (
    *(kinds.VALUE, kinds.LIST, kinds.MAP, "REDUCING", "AGGREGATING", "FOLDING"),
    *(kinds.OPERATOR_LIST, kinds.UNION_LIST, kinds.BROADCAST, kinds.EVENT_TIMER, kinds.PROCESSING_TIMER),
)

_NEEDED: Final = {
    kinds.MAP: (KEY, MAP_KEY, VALUE),
    **dict.fromkeys(kinds.TIMERS, (KEY,)),
    **dict.fromkeys((kinds.OPERATOR_LIST, kinds.UNION_LIST), (VALUE,)),
}
"""The parts that need a type, by kind; other kinds need key and value."""


def parse_signature(content: Any, place: str) -> JobSignature:
    """Return the signature that a file describes.

    ``content``: the content of the file, as JSON values. ``place``: the name of the file, for messages.
    """
    fields = _object(content, _OF_JOB, place)
    version = fields.get("version", VERSION)
    if version != VERSION:
        raise OptionError(f"{place}: expected version {VERSION} of the format of signatures, found {version!r}")
    operators = fields.get("operators")
    if isinstance(operators, Mapping):  # by uid
        operators = [{"uid": uid, **_object(operator, None, f"{place}, operator {uid!r}")} for uid, operator in operators.items()]
    if not isinstance(operators, list):
        raise OptionError(f"{place}: expected operators as a list, or as an object of operators by uid")
    parsed = tuple(_parsed_operator(operator, place) for operator in operators)
    return JobSignature(parsed, _text(fields, "flink", place), _text(fields, "backend", place))


def _parsed_operator(operator: Any, place: str) -> OperatorSignature:
    fields = _object(operator, _OF_OPERATOR, place)
    place = f"{place}, operator {fields.get('uid') or fields.get('name') or fields.get('uid_hash')!r}"
    uid, uid_hash = _text(fields, "uid", place), _text(fields, "uid_hash", place)
    if uid is not None:
        by_uid = OperatorIdentifier.for_uid(uid).uid_hash
        if uid_hash not in (None, by_uid):
            raise OptionError(f"{place}: expected the uid_hash {by_uid} of the uid, found {uid_hash}; leave out one of them")
        uid_hash = by_uid
    elif uid_hash is not None:
        uid_hash = OperatorIdentifier.for_uid_hash(uid_hash).uid_hash
    elif fields.get("name") is None:
        raise OptionError(f"{place}: expected a uid, a uid_hash or a name")
    states = fields.get("states")
    if isinstance(states, Mapping):  # by name; the text of a type is a value state
        states_by_name, states = states, []
        for name, state in states_by_name.items():
            is_type = isinstance(state, str)
            description = {"kind": kinds.VALUE, "value_type": state} if is_type else _object(state, None, place)
            states.append({"name": name, **description})
    if states is not None and not isinstance(states, list):
        raise OptionError(f"{place}: expected states as a list, or as an object of states by name")
    key = _text(fields, "key_type", place)
    parsed = None if states is None else index_by_name(_parsed_state(state, key, place) for state in states)
    if states is not None and parsed is not None and len(parsed) < len(states):
        raise OptionError(f"{place}: two states have the same name")
    return OperatorSignature(
        uid,
        uid_hash,
        _text(fields, "name", place),
        _number(fields, "parallelism", place),
        _number(fields, "max_parallelism", place),
        parsed,
        tuple(map(str, fields.get("other_uids", ()))),
        _boolean(fields, "asynchronous", place),
        _text(fields, "backend", place),
        _boolean(fields, "has_state", place) is not False,
        tuple(map(str, fields.get("writers", ()))),
    )


def _parsed_state(description: Any, key_type: str | None, place: str) -> StateSignature:
    fields = _object(description, _OF_STATE, place)
    place = f"{place}, state {fields.get('name')!r}"
    name, kind = _text(fields, "name", place), _text(fields, "kind", place) or kinds.VALUE
    if not name and not fields.get("unread"):
        raise OptionError(f"{place}: expected a name")
    if kind not in _KINDS and not fields.get("unread"):
        raise OptionError(f"{place}: expected a kind among {', '.join(_KINDS)}, found {kind!r}")
    ttl = _boolean(fields, "ttl", place) is True
    unread = _text(fields, "unread", place) or ""
    encoded = _object(fields.get(_SNAPSHOTS, {}), ROLES, place)
    texts = {part: _text(fields, f"{part}_type", place) for part in ROLES}
    if kind not in kinds.OPERATOR_KINDS:
        texts[KEY] = texts[KEY] or key_type
        texts[NAMESPACE] = texts[NAMESPACE] or VOID_NAMESPACE
    try:
        snapshots = {}
        for part, text in texts.items():
            if text is not None:
                has_ttl = ttl and part == VALUE
                snapshots[part] = _snapshot(encoded.get(part), text, f"{place}, {part}_type", ttl=has_ttl)
    except UnsupportedFormatError as error:
        return StateSignature(name or "", kind, {}, ttl, str(error))
    missing = [part for part in _NEEDED.get(kind, (KEY, VALUE)) if part not in snapshots]
    if missing and not unread and not encoded:
        raise OptionError(f"{place}: expected {missing[0]}_type, a type such as LONG or MAP<STRING,LONG>")
    state = StateSignature(name or "", kind, snapshots, ttl, unread)
    if fields.get(_CLASSES, state.classes) != state.classes:
        raise OptionError(
            f"{place}: {_CLASSES} differ from the classes of the types; after a change by hand, remove {_CLASSES!r} and the "
            f"snapshot from {_SNAPSHOTS!r}, and write the type with its fields, such as POJO<com.acme.Order>(id LONG)"
        )
    return state


def _snapshot(encoded: Any, text: str, place: str, *, ttl: bool) -> TypeSerializerSnapshot:
    if encoded is None:
        try:
            return declared_snapshot(text, ttl=ttl)
        except OptionError as error:
            raise OptionError(f"{place}: {error}") from None
    try:
        snapshot = read_serializer_snapshot(b64decode(encoded, validate=True), place)
    except (NotBase64, CorruptSnapshotError, TypeError) as error:
        raise OptionError(f"{place}: expected a serializer snapshot in Base64: {error}") from None
    serializer = snapshot.restore_serializer()
    inner = serializer.value if isinstance(serializer, TtlSerializer) else serializer
    if str(inner) != text or isinstance(serializer, TtlSerializer) != ttl:
        raise OptionError(
            f"{place}: the type is {'TTL of ' if ttl else ''}{text}, and the serializer snapshot belongs to {serializer}; "
            f"after a change by hand, remove the snapshot from {_SNAPSHOTS!r}"
        )
    return snapshot


def _object(content: Any, names: tuple[str, ...] | None, place: str) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        raise OptionError(f"{place}: expected an object, found {str(content)[:60]!r}")
    unknown = [] if names is None else [str(name) for name in content if name not in names]
    if unknown:
        raise OptionError(f"{place}: unknown field {unknown[0]!r}; expected {', '.join(names or ())}")
    return content


def _text(fields: Mapping[str, Any], name: str, place: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise OptionError(f"{place}: expected text for {name}, found {value!r}")
    return value


def _boolean(fields: Mapping[str, Any], name: str, place: str) -> bool | None:
    if name not in fields:
        return None
    value = fields[name]
    if not isinstance(value, bool):
        raise OptionError(f"{place}: expected true or false for {name}, found {value!r}")
    return value


def _number(fields: Mapping[str, Any], name: str, place: str) -> int | None:
    value = fields.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise OptionError(f"{place}: expected a positive number for {name}, found {value!r}")
    return value
