"""Files of signatures: JSON, or the same in YAML by hand.

Operators and states have a stable order, and each type is a line of text, so that two files can be compared line by line.
Serializer snapshots are in the file where the text of a type is not enough.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping
from typing import Any, Final

from state_processor import OperatorIdentifier
from state_processor import states as kinds
from state_processor.applications.jobs.signature import (
    KEY,
    MAP_KEY,
    NAMESPACE,
    ROLES,
    VALUE,
    VERSION,
    VOID_NAMESPACE,
    JobSignature,
    OperatorSignature,
    StateSignature,
    declared_snapshot,
)
from state_processor.errors import CorruptSnapshotError, OptionError, UnsupportedFormatError
from state_processor.serializers import TypeSerializerSnapshot, read_serializer_snapshot
from state_processor.types import TtlSerializer

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
        operators = [
            {"uid": uid, **(_object(operator, None, f"{place}, operator {uid!r}"))} for uid, operator in operators.items()
        ]
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
        states = [
            {
                "name": name,
                **({"kind": kinds.VALUE, "value_type": state} if isinstance(state, str) else _object(state, None, place)),
            }
            for name, state in states.items()
        ]
    if states is not None and not isinstance(states, list):
        raise OptionError(f"{place}: expected states as a list, or as an object of states by name")
    key = _text(fields, "key_type", place)
    parsed = None if states is None else {s.name: s for s in (_parsed_state(state, key, place) for state in states)}
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
        snapshots = {
            part: _snapshot(encoded.get(part), text, f"{place}, {part}_type", ttl=ttl and part == VALUE)
            for part, text in texts.items()
            if text is not None
        }
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
