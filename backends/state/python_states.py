"""States of PyFlink jobs: names, and kinds and types. Only the job's code contains the kinds and types.

In Java, a value, reducing or aggregating state is a list of one byte array. A list state is a list of byte arrays with one or
more elements each. A map state has byte arrays as keys and values (PyFlink: ``BeamBagStateHandler``, ``BeamMapStateHandler``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Literal, TypeVar

from state_processor.backends.state.descriptions import (
    LIST,
    MAP,
    VALUE,
    BroadcastDescription,
    KeyedDescription,
    ListDescription,
    MapDescription,
    StateDescription,
    ValueDescription,
)
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.arrays import BytesSerializer
from state_processor.serializers.core.collections import JoinedListCodec, ListSerializer, MapSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.serializers.shared_types import PortableType
from state_processor.serializers.table.python_state import (
    PYTHON_PREFIX,
    CountedPiecesSerializer,
    JoinedPiecesCodec,
    OneElementSerializer,
    framed,
)
from state_processor.support.doors import code_or_text, spelled
from state_processor.support.errors import CorruptSnapshotError, NotFoundError, OptionError
from state_processor.support.mappings import attributes, names_of

PythonKind = Literal["", "VALUE", "LIST", "MAP"]
"""The kind of state in the job; empty if only the type was given."""

Unpickled = bool | PortableType
"""Treatment of pickles: not loaded, loaded as JSON text, or as values of a type."""

_State = TypeVar("_State", bound=StateDescription)


def shown_name(name: str) -> str:
    """Return the name of a state in the job."""
    return name.removeprefix(PYTHON_PREFIX)


def stored_name(name: str, stored: Iterable[str | None]) -> str:
    """Return the name of a state in the snapshot from its name in a PyFlink job; unknown names are returned unchanged."""
    names = set(stored)
    return PYTHON_PREFIX + name if name not in names and PYTHON_PREFIX + name in names else name


def check_known(types: Iterable[tuple[str, PythonType]], stored: Iterable[str], context: str) -> None:
    """Refuse types of states that don't exist."""
    names = list(stored)
    for name, _ in types:
        if stored_name(name, names) not in names:
            raise NotFoundError.naming_nearest("state", name, map(shown_name, names), context)


def type_of_one_state() -> OptionError:
    """Return the error for the type of one state in a read of several states."""
    several = spelled("python_types", {"name": "LONG"})
    return OptionError(f"{spelled('python_type')} is the type of one state: name the state, or pass types by state: {several}")


@contextmanager
def blaming_declared_type(name: str, type_: PythonType | None) -> Iterator[None]:
    """Add the given type to errors about damaged bytes: snapshots can't confirm that it is the job's type."""
    try:
        yield
    except CorruptSnapshotError as error:
        if type_ is None:
            raise
        raise CorruptSnapshotError(
            f"{error}; state {shown_name(name)!r} was read as {type_}. Its bytes do not fit this type, or are damaged: pass "
            f"the type that the job declares, and {code_or_text('ListState(…)', 'ListState<…>')} for a list state"
        ) from None


def is_python_state(name: str) -> bool:
    """Return whether a state belongs to a PyFlink job."""
    return name.startswith(PYTHON_PREFIX)


@dataclass(frozen=True, slots=True)
class PythonType:
    """The kind and type that a PyFlink job declares for a state; it can be pickled."""

    kind: PythonKind
    value: PortableType  # type of the value, of a list's elements, or of a map's values
    map_key: PortableType | None = None  # type of a map's keys

    def __str__(self) -> str:
        inside = ",".join(str(t.restore()) for t in (self.map_key, self.value) if t is not None)
        name = {VALUE: "ValueState", LIST: "ListState", MAP: "MapState"}.get(self.kind)
        return f"{name}<{inside}>" if name else inside


@dataclass(frozen=True, slots=True)
class PythonValueDescription(ValueDescription):
    """A value, reducing or aggregating state of a PyFlink job."""

    @property
    def registered_serializer(self) -> TypeSerializer:
        """Serializer of the registered list of one element."""
        return OneElementSerializer(self.value)

    @property
    def registered_kind(self) -> str:
        """The registered kind in headers."""
        return LIST


@dataclass(frozen=True, slots=True)
class PythonListDescription(ListDescription):
    """A list state of a PyFlink job; ``value`` is the serializer of a byte array with one element."""

    @property
    def registered_serializer(self) -> TypeSerializer:
        """Serializer of the list, in pieces of one or more elements."""
        return CountedPiecesSerializer(self.value)

    @property
    def joined(self) -> JoinedListCodec:
        """Serializer of the list in framed entries."""
        return JoinedPiecesCodec(self.value)


def with_python_type(state: _State, type_: PythonType, unpickled: Unpickled = False) -> _State:
    """Return a state whose values are read and written like in the Python workers of a job.

    ``state``: the state from the header. ``type_``: kind and type of the state in the job. ``unpickled``: treatment of pickles.
    """
    if not is_python_state(state.name):
        raise OptionError(
            f"a Python type is given for state {state.name!r}; this is not a state of PyFlink (their names begin with "
            f"{PYTHON_PREFIX!r}): leave it out"
        )
    context = f"state {shown_name(state.name)!r}"
    portable = of_map(type_)
    match state:
        case MapDescription() | BroadcastDescription() if portable.map_key is not None:
            role = "map_key" if isinstance(state, MapDescription) else "key"
            keys, values = portable.map_key.restore(), portable.value.restore()
            written = state.serializers[role]
            parts = {role: _framed(keys, written, unpickled), "value": _framed(values, state.value, unpickled)}
            return state.with_serializers(**parts)  # type: ignore[return-value]
        case MapDescription() | BroadcastDescription():
            raise OptionError(f"{context} is a map, but {type_} is not: pass {code_or_text('Types.MAP(…)', 'MAP<STRING,LONG>')}")
        case ListDescription():
            return _of_list(state, type_, context, unpickled)  # type: ignore[return-value]
    raise OptionError(f"{context} is {state.kind}: Python types are for keyed state and broadcast state")


def in_byte_arrays(state: KeyedDescription) -> KeyedDescription:
    """Return the registered state of a declared state of a PyFlink job: values and keys of maps are byte arrays."""
    from state_processor.serializers.table.python_state import ByteArrayWrapperSerializer

    value: TypeSerializer = BytesSerializer()
    if isinstance(state.value, TtlSerializer):
        value = TtlSerializer.of(value)
    if isinstance(state, MapDescription):
        return state.with_serializers(map_key=ByteArrayWrapperSerializer(), value=value)
    return ListDescription(state.name, LIST, value, state.key, state.namespace)


def _of_list(state: ListDescription, type_: PythonType, context: str, unpickled: Unpickled) -> KeyedDescription:
    declared = type_.value.restore()
    if type_.kind == MAP:
        raise OptionError(f"{context} is not a map state, but {type_} is the type of a map")
    if not type_.kind and isinstance(declared, ListSerializer):
        element = declared.element
        raise OptionError(
            f"{context}: {declared} may be a list state, or a value state of lists; snapshots do not distinguish them: "
            f"pass {code_or_text('ListState(…)', f'ListState<{element}>')} or "
            f"{code_or_text('ValueState(…)', f'ValueState<{declared}>')}"
        )
    described = PythonListDescription if type_.kind == LIST else PythonValueDescription
    parts = attributes(state, names_of(fields(ListDescription)))
    value = _framed(declared, state.value, unpickled)
    return described(**parts | {"kind": LIST if type_.kind == LIST else VALUE, "value": value})


def of_map(type_: PythonType) -> PythonType:
    """Split the type of a map into the types of keys and values."""
    declared = type_.value.restore()
    if type_.kind == MAP or not isinstance(declared, MapSerializer) or type_.kind:
        return type_
    return PythonType(MAP, PortableType.of(declared.value.inner), PortableType.of(declared.key))


def _framed(declared: TypeSerializer, written: TypeSerializer, unpickled: Unpickled) -> TypeSerializer:
    from state_processor.serializers.table.python_state import (
        loading_pickles,  # few states belong to PyFlink
        python_coder,
    )

    coder = python_coder(declared)
    if unpickled is not False:
        coder = loading_pickles(coder, unpickled.restore() if isinstance(unpickled, PortableType) else None)
    return framed(coder, written)
