"""Registry: the readers of serializer snapshots by Java class, and what users register about their classes.

All registrations of users are in one immutable object, :class:`Registrations`. The process has a default object. The
``register_*`` functions replace it, under a lock, by an object with the new entry. Inside :func:`registrations` they replace the
scope's object instead, until the scope ends. A scope belongs to a thread (precisely, to a :mod:`context <contextvars>`). Other
threads, including threads started inside the scope, see the default. A task of another process begins with :func:`begin_task` and
the registrations that came with the task.

A context variable holds the scope, because serializers look up classes while they read values, and the calls in between do not
pass it on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib import import_module
from importlib.machinery import PathFinder
from logging import getLogger
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from state_processor.serializers.format_versions import ADAPTER_VERSION, SNAPSHOT_VERSIONS, FormatVersions
from state_processor.serializers.io import DataInput
from state_processor.serializers.java.types import KryoClass
from state_processor.support.doors import registering
from state_processor.support.errors import OptionError, UnknownSerializerError, describe
from state_processor.support.locks import process_lock
from state_processor.support.plugin_table import PLUGINS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Packages of Flink's serializers
BASE: Final = "org.apache.flink.api.common.typeutils.base."
RUNTIME: Final = "org.apache.flink.api.java.typeutils.runtime."
STATE: Final = "org.apache.flink.runtime.state."
STREAMING: Final = "org.apache.flink.streaming."
WINDOWS: Final = f"{STREAMING}api.windowing.windows."
TABLE_WINDOWS: Final = "org.apache.flink.table.runtime.operators.window."

K = TypeVar("K")
V = TypeVar("V")


# Registrations of users


class SnapshotReader(Protocol):
    """A snapshot class, or an object with its ``read``."""

    def read(self, class_name: str, version: int, source: Any) -> Any:
        """Read the snapshot whose payload begins at ``source``."""


@dataclass(frozen=True, slots=True, eq=False)
class Registrations:
    """Descriptions by Java class name."""

    snapshots: Mapping[str, SnapshotReader] = field(default_factory=dict)  # readers of serializer snapshots
    kryo_classes: Mapping[str, KryoClass] = field(default_factory=dict)  # classes serialized by Kryo
    # subclasses that snapshots of POJOs omit, by class and by their own name: the serializers of their additional fields
    pojo_subclasses: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    # the names of the fields of a POJO that are primitive
    primitive_fields: Mapping[str, frozenset[str]] = field(default_factory=dict)
    connectors: Mapping[str, Any] = field(default_factory=dict)  # connectors of sources and sinks, by kind and name
    value_classes: Mapping[str, Any] = field(default_factory=dict)  # serializers of classes that write themselves
    # what snapshots do not tell of classes of plug-ins, by a name for this kind of description and by class
    descriptions: Mapping[tuple[str, str], Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(self.content)

    @property
    def content(self) -> tuple[Mapping[Any, Any], ...]:
        """All entries, for the comparison of registrations."""
        return (
            *(self.snapshots, self.kryo_classes, self.pojo_subclasses),
            *(self.primitive_fields, self.connectors, self.value_classes, self.descriptions),
        )

    def with_snapshot(self, class_name: str, reader: SnapshotReader) -> Registrations:
        """Return a copy with the reader of a snapshot class."""
        return replace(self, snapshots=_with(self.snapshots, class_name, reader))

    def with_kryo_class(self, described: KryoClass) -> Registrations:
        """Return a copy with a class serialized by Kryo."""
        return replace(self, kryo_classes=_with(self.kryo_classes, described.name, described))

    def with_pojo_subclass(self, parent: str, class_name: str, fields: Mapping[str, Any]) -> Registrations:
        """Return a copy with a subclass of a POJO."""
        if parent in self._below(class_name):
            raise OptionError(f"{parent} was described as a subclass of {class_name}, so the reverse can't be true as well")
        subclasses = _with(self.pojo_subclasses.get(parent, {}), class_name, dict(fields))
        return replace(self, pojo_subclasses=_with(self.pojo_subclasses, parent, subclasses))

    def _below(self, class_name: str) -> set[str]:
        """Return the subclasses of a POJO, and their subclasses."""
        subclasses = self.pojo_subclasses.get(class_name, {}).keys()
        return set(subclasses).union(*map(self._below, subclasses))

    def with_primitive_fields(self, class_name: str, fields: frozenset[str]) -> Registrations:
        """Return a copy with the primitive fields of a POJO."""
        return replace(self, primitive_fields=_with(self.primitive_fields, class_name, fields))

    def with_connector(self, key: str, connector: Any) -> Registrations:
        """Return a copy with a connector."""
        return replace(self, connectors=_with(self.connectors, key, connector))

    def with_value_class(self, class_name: str, serializer: Any) -> Registrations:
        """Return a copy with a class that writes itself."""
        return replace(self, value_classes=_with(self.value_classes, class_name, serializer))

    def with_description(self, kind: str, class_name: str, content: Any) -> Registrations:
        """Return a copy with a description of a class."""
        return replace(self, descriptions=_with(self.descriptions, (kind, class_name), content))

    def updated(self, newer: Registrations) -> Registrations:
        """Return a copy with the entries of ``newer``; these take precedence."""
        subclasses = dict(self.pojo_subclasses)
        for parent, fields_by_class in newer.pojo_subclasses.items():
            subclasses[parent] = {**subclasses.get(parent, {}), **fields_by_class}
        return Registrations(
            {**self.snapshots, **newer.snapshots},
            {**self.kryo_classes, **newer.kryo_classes},
            subclasses,
            {**self.primitive_fields, **newer.primitive_fields},
            {**self.connectors, **newer.connectors},
            {**self.value_classes, **newer.value_classes},
            {**self.descriptions, **newer.descriptions},
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
_LOCK: Final = process_lock()
_scope: Final[ContextVar[Registrations | None]] = ContextVar("registrations", default=None)


def user_registrations() -> Registrations:
    """Return the registrations made by calls; other processes lack these."""
    scoped = _scope.get()
    return _PROCESS.users if scoped is None else scoped


def current_registrations() -> Registrations:
    """Return all current registrations."""
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


def register_description(kind: str, class_name: str, content: Any) -> None:
    """Register what the snapshots of a class do not tell.

    ``kind``: a name for this kind of description, such as ``case class``. ``content``: a value that can be pickled; Spark's
    tasks get it.
    """
    register(lambda registered: registered.with_description(kind, class_name, content))


def description(kind: str, class_name: str) -> Any:
    """Return what :func:`register_description` registered for a class, or ``None``."""
    return current_registrations().descriptions.get((kind, class_name))


@contextmanager
def registrations() -> Iterator[None]:
    """Undo the registrations made inside when the block ends. Scopes can be nested.

    The scope begins with the current registrations. Only this thread sees the registrations made inside, and the tasks of
    Spark jobs that it starts. Other threads register in the default of the process, and see this default.
    """
    token = _scope.set(user_registrations())
    try:
        yield
    finally:
        _scope.reset(token)


def install(load: Callable[[], Callable[[], None]]) -> None:
    """Load and call a registering function of an installed package or plug-in; every process does so itself, the first counts."""
    token = _scope.set(Registrations())
    try:
        load()()
        registrations = user_registrations()
    finally:
        _scope.reset(token)
    with _LOCK:
        _PROCESS.installed = registrations.updated(_PROCESS.installed)


def receive(kryo_classes: Mapping[str, KryoClass]) -> None:
    """Take over the classes from a pickled serializer, until the next task of this process begins."""
    with _LOCK:
        if kryo_classes.keys() - _PROCESS.received.kryo_classes.keys():
            _PROCESS.received = Registrations(kryo_classes=kryo_classes).updated(_PROCESS.received)


@contextmanager
def for_process() -> Iterator[None]:
    """Register in the default of the process even inside a scope, for modules that register on import: they do so only once."""
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

    A task that runs in the process that created it already has them.
    """
    if received is not user_registrations():
        _PROCESS.received = Registrations()
        _scope.set(_PROCESS.users.updated(received) if received else None)


# Entry points of installed packages

_METADATA: Final = ("dist-info", "egg-info")
"""Ends of names of directories with metadata. Inside of the directory of an egg the whole name is ``EGG-INFO``."""


def entry_points(group: str) -> Iterable[EntryPoint]:
    """Return the entry points of a group, as :func:`importlib.metadata.entry_points`."""
    if not _may_have(group.encode()):
        return ()
    from importlib import metadata

    return metadata.entry_points(group=group)


def _may_have(group: bytes) -> bool:
    """Return whether a package in a directory of the path names the group, or packages may be somewhere else."""
    if any(finder is not PathFinder and hasattr(finder, "find_distributions") for finder in sys.meta_path):
        return True
    return any(_names(place or ".", group) for place in sys.path)


def _names(place: str, group: bytes) -> bool:
    try:
        packages = [name for name in os.listdir(place) if name.lower().endswith(_METADATA)]
    except FileNotFoundError:
        return False
    except OSError:
        return True  # an archive, or a directory that only the library can judge
    return any(group in _entry_points_of(os.path.join(place, name)) for name in packages)


def _entry_points_of(package: str) -> bytes:
    try:
        with open(os.path.join(package, "entry_points.txt"), "rb") as file:
            return file.read()
    except OSError:
        return b""


# Readers of snapshots

ENTRY_POINT_GROUP: Final = "state_processor.serializers"

_SCALARS: Final = ("core.basic", "core.scalars")
"""Modules with scalar types. They have the versions of their snapshot classes, too."""

_FAMILIES: Final = (
    "core.basic",
    "core.collections",
    "core.arrays",
    "core.rows",
    "core.nullable",
    "core.enums",
    "core.self_written",
    "core.pojo",
    "runtime.namespaces",
    "runtime.wrapping",
    "runtime.stream_records",
    "runtime.beam",
    "runtime.cep",
    "kryo.serializer",
    "avro.records",
    "core.legacy",
    "table.rowdata",
    "runtime.scala",
    "table.operator_records",
    "table.python_rows",
)
"""Modules with the snapshot classes of Flink and Apache Beam, common ones first."""

_LOG: Final = getLogger("state_processor")
_FAILED: Final[list[str]] = []
"""Entry points that failed to register serializers, and the reasons."""

_FLINK: Final[dict[str, SnapshotReader]] = {}
"""Readers of Flink's own snapshot classes, of the families that are imported."""


def register_snapshot(class_name: str, snapshot: SnapshotReader) -> None:
    """Register a serializer snapshot class.

    Parameters
    ----------
    class_name
        The Java class in the savepoint, with ``$`` before nested classes: ``com.acme.MoneySerializerSnapshot``.
    snapshot
        A subclass of ``TypeSerializerSnapshot``, usually of ``SimpleTypeSerializerSnapshot`` or
        ``CompositeTypeSerializerSnapshot``. Bytes of a version that its ``versions`` and ``outer_versions`` lack are refused.

    Raises
    ------
    OptionError
        ``snapshot`` is not such a class.
    """
    if not callable(getattr(snapshot, "read", None)):
        raise OptionError(f"register_snapshot({class_name!r}): expected a subclass of TypeSerializerSnapshot, found {snapshot!r}")
    register(lambda registered: registered.with_snapshot(class_name, snapshot))


def provide_snapshots(names: Iterable[str], snapshot: SnapshotReader) -> None:
    """Add the reader of one of Flink's own snapshot classes, under all names that Flink has given it."""
    for name in names:
        if name not in SNAPSHOT_VERSIONS:
            raise LookupError(f"{name}: its versions are not declared; add them to serializers/format_versions.py")
        _FLINK[name] = snapshot


def find_snapshot_class(class_name: str, version: int, source: DataInput, offset: int) -> SnapshotReader:
    """Return the reader of a snapshot class."""
    _load_entry_points()
    users = current_registrations().snapshots.get(class_name)
    reader = users or _of_flink(class_name)
    if reader is None and version == ADAPTER_VERSION:
        raise UnknownSerializerError(
            f"{source.source}, offset {offset}: the serializer snapshot {class_name} has its serializer as a Java object, and "
            f"fields that are not known. Register a reader for it with {registering('register_snapshot()')}; if the class is "
            "from before Flink 1.7, you can restore the savepoint with Flink 1.7 to 1.16 instead, and take another one."
        )
    if reader is None:
        raise UnknownSerializerError(
            f"{source.source}, offset {offset}: the serializer snapshot {class_name} (version {version}) is unknown, and "
            "Flink gives it no length to step over. Register a reader for it with "
            f"{registering('register_snapshot()')}; a serializer without configuration "
            "needs a subclass of SimpleTypeSerializerSnapshot only."
            + "".join(f"\nThe entry point {problem}." for problem in _FAILED[:1])
        )
    versions = SNAPSHOT_VERSIONS[class_name].own if users is None else _declared(class_name, users, "versions")
    _check(versions, version, source, offset)
    return reader


@lru_cache(maxsize=256)
def plugin_of(class_name: str) -> Any:
    """Return the module of the plug-in that has the package of a class, and register its classes; ``None`` without a plug-in."""
    name = next((plugin.serializers for plugin in PLUGINS if class_name.startswith(plugin.classes)), None)
    module: Any = name and import_module(f"state_processor.plugins.{name}")
    if hasattr(module, "register"):
        install(lambda: module.register)
    return module


def check_outer_version(class_name: str, snapshot: SnapshotReader, version: int, source: DataInput, offset: int) -> None:
    """Refuse the outer part of a composite snapshot if its version is unknown."""
    row = None if class_name in current_registrations().snapshots else SNAPSHOT_VERSIONS.get(class_name)
    outer = row.outer if row else _declared(f"{class_name}, outer part", snapshot, "outer_versions")
    _check(outer, version, source, offset)


def _declared(title: str, snapshot: SnapshotReader, attribute: str) -> FormatVersions | None:
    """Return the versions that a user's snapshot class declares; ``None`` if it leaves the check to its ``read``."""
    versions = getattr(snapshot, attribute, ())
    return FormatVersions(title, dict.fromkeys(versions, "")) if versions else None


def _check(versions: FormatVersions | None, version: int, source: DataInput, offset: int) -> None:
    if versions is not None:
        versions.check(version, source.source, offset, source.flink_major, UnknownSerializerError)


def _of_flink(class_name: str) -> SnapshotReader | None:
    """Return the reader of one of Flink's own classes, and import families until one has it."""
    plugin = plugin_of(class_name)
    if hasattr(plugin, "SNAPSHOTS"):
        SNAPSHOT_VERSIONS.update(plugin.VERSIONS)
        _FLINK.update(plugin.SNAPSHOTS)
    families = iter(_FAMILIES if class_name in SNAPSHOT_VERSIONS else _SCALARS)
    while class_name not in _FLINK and (family := next(families, None)) is not None:
        import_module(f"state_processor.serializers.{family}")
    return _FLINK.get(class_name)


@cache
def _load_entry_points() -> None:
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            install(entry_point.load)
        except Exception as error:  # of another package; most snapshots can be read without it
            problem = f"{entry_point.name} ({entry_point.value}) failed with {describe(error)}"
            _FAILED.append(problem)
            _LOG.warning("serializers of the installed entry point %s: they are not known", problem)
