"""Registrations of users: serializer snapshots, classes serialized by Kryo, subclasses and primitive fields of POJOs.

All of it is one immutable object, :class:`Registrations`. The process has a default one, which the ``register_*`` functions
replace under a lock by one with the new entry. Inside of :func:`registrations` they replace that of the scope instead, which ends
with it. A scope belongs to a thread (precisely, to a :mod:`context <contextvars>`): other threads, those started inside included,
see the default. A task of another process begins with :func:`begin_task` and the registrations that came with it.

The scope is held by a context variable, since serializers look up classes while they read values, far below any call that could
pass it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import Lock
from typing import Any, Final, Protocol, TypeVar

from state_processor.serializers.errors import OptionError
from state_processor.serializers.java.types import KryoClass

K = TypeVar("K")
V = TypeVar("V")


class SnapshotReader(Protocol):
    """A snapshot class, or anything that reads like one."""

    def read(self, class_name: str, version: int, source: Any) -> Any:
        """Read the snapshot whose payload lies at ``source``."""


@dataclass(frozen=True, slots=True, eq=False)
class Registrations:
    """Descriptions by the name of the Java class that they are of.

    Parameters
    ----------
    snapshots
        Readers of serializer snapshots.
    kryo_classes
        Classes serialized by Kryo.
    pojo_subclasses
        Subclasses that snapshots of POJOs omit, by class and by their own name: the serializers of the fields that they add.
    primitive_fields
        The names of the fields of a POJO that are primitive.
    """

    snapshots: Mapping[str, SnapshotReader] = field(default_factory=dict)
    kryo_classes: Mapping[str, KryoClass] = field(default_factory=dict)
    pojo_subclasses: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    primitive_fields: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(self.content)

    @property
    def content(self) -> tuple[Mapping[str, Any], ...]:
        """All entries, by which registrations are compared."""
        return self.snapshots, self.kryo_classes, self.pojo_subclasses, self.primitive_fields

    def with_snapshot(self, class_name: str, reader: SnapshotReader) -> Registrations:
        """Return these with the reader of a snapshot class."""
        return replace(self, snapshots=_with(self.snapshots, class_name, reader))

    def with_kryo_class(self, described: KryoClass) -> Registrations:
        """Return these with a class serialized by Kryo."""
        return replace(self, kryo_classes=_with(self.kryo_classes, described.name, described))

    def with_pojo_subclass(self, parent: str, class_name: str, fields: Mapping[str, Any]) -> Registrations:
        """Return these with a subclass of a POJO.

        Raises
        ------
        OptionError
            If the parent is described as a subclass of the class.
        """
        if parent in self._below(class_name):
            raise OptionError(f"{parent} was described as a subclass of {class_name}, which can't be its subclass as well")
        subclasses = _with(self.pojo_subclasses.get(parent, {}), class_name, dict(fields))
        return replace(self, pojo_subclasses=_with(self.pojo_subclasses, parent, subclasses))

    def _below(self, class_name: str) -> set[str]:
        """Return the subclasses of a POJO, and theirs."""
        own = self.pojo_subclasses.get(class_name, {}).keys()
        return set(own).union(*(self._below(name) for name in own))

    def with_primitive_fields(self, class_name: str, fields: frozenset[str]) -> Registrations:
        """Return these with the primitive fields of a POJO."""
        return replace(self, primitive_fields=_with(self.primitive_fields, class_name, fields))

    def updated(self, other: Registrations) -> Registrations:
        """Return these with those of ``other``, which take precedence."""
        subclasses = {
            parent: {**self.pojo_subclasses.get(parent, {}), **other.pojo_subclasses.get(parent, {})}
            for parent in {**self.pojo_subclasses, **other.pojo_subclasses}
        }
        return Registrations(
            {**self.snapshots, **other.snapshots},
            {**self.kryo_classes, **other.kryo_classes},
            subclasses,
            {**self.primitive_fields, **other.primitive_fields},
        )


def _with(entries: Mapping[K, V], key: K, value: V) -> dict[K, V]:
    return {**entries, key: value}


@dataclass(slots=True)
class _Process:
    """State of the process outside of scopes: the registrations of users, of installed packages, and of unpickled serializers.

    Each takes precedence over the next.
    """

    users: Registrations = field(default_factory=Registrations)
    installed: Registrations = field(default_factory=Registrations)
    received: Registrations = field(default_factory=Registrations)


_PROCESS: Final = _Process()
_LOCK: Final = Lock()
_scope: Final[ContextVar[Registrations | None]] = ContextVar("registrations", default=None)


def user_registrations() -> Registrations:
    """Return what was registered by calls, which other processes do not know."""
    scoped = _scope.get()
    return _PROCESS.users if scoped is None else scoped


def current_registrations() -> Registrations:
    """Return all that is known here."""
    return _in_force(user_registrations(), _PROCESS.installed, _PROCESS.received)


@lru_cache(maxsize=16)
def _in_force(users: Registrations, installed: Registrations, received: Registrations) -> Registrations:
    return received.updated(installed).updated(users) if installed or received else users


def register(change: Callable[[Registrations], Registrations]) -> None:
    """Replace the registrations of the scope, or else the default ones of the process, by changed ones."""
    scoped = _scope.get()
    if scoped is not None:
        _scope.set(change(scoped))
        return
    with _LOCK:
        _PROCESS.users = change(_PROCESS.users)


@contextmanager
def registrations() -> Iterator[None]:
    """Undo at the end what is registered inside. Scopes can be nested.

    The scope begins with what is registered so far. What is registered inside is seen by this thread alone, and by the tasks of
    Spark jobs that it starts; other threads register and see the default of the process.
    """
    token = _scope.set(user_registrations())
    try:
        yield
    finally:
        _scope.reset(token)


def install(load: Callable[[], Callable[[], None]]) -> None:
    """Load and call a function of an installed package that registers; every process does so by itself."""
    token = _scope.set(Registrations())
    try:
        load()()
        found = user_registrations()
    finally:
        _scope.reset(token)
    with _LOCK:
        _PROCESS.installed = _PROCESS.installed.updated(found)


def receive(kryo_classes: Mapping[str, KryoClass]) -> None:
    """Take over the classes that came with a pickled serializer, until the next task of this process begins."""
    with _LOCK:
        if kryo_classes.keys() - _PROCESS.received.kryo_classes.keys():
            _PROCESS.received = Registrations(kryo_classes=kryo_classes).updated(_PROCESS.received)


@contextmanager
def for_process() -> Iterator[None]:
    """Register in the default of the process also inside of a scope, for modules that register on import: they do so once."""
    scoped = _scope.get()
    token = _scope.set(None)
    try:
        yield
    finally:
        _scope.reset(token)
        if scoped is not None:
            _scope.set(_PROCESS.users.updated(scoped))


def begin_task(received: Registrations) -> None:
    """Take over the registrations of the process that sent a task, until the next task of this process begins.

    A task that runs in the process that made it has them already.
    """
    if received is not user_registrations():
        _PROCESS.received = Registrations()
        _scope.set(_PROCESS.users.updated(received) if received else None)
