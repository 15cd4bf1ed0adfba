"""Registry of the readers of serializer snapshots, of Flink's own and of users; entry points of installed packages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cache, lru_cache
from importlib import import_module
from importlib.machinery import PathFinder
from logging import getLogger
from typing import TYPE_CHECKING, Any, Final

from state_processor.serializers.format_versions import FormatVersions
from state_processor.serializers.io import DataInput
from state_processor.serializers.snapshot_versions import ADAPTER_VERSION, SNAPSHOT_VERSIONS
from state_processor.serializers.user_registrations import SnapshotReader, current_registrations, install, register
from state_processor.support.doors import registering
from state_processor.support.errors import UnknownSerializerError, describe
from state_processor.support.plugin_table import PLUGINS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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


ENTRY_POINT_GROUP: Final = "state_processor.serializers"


_SCALARS: Final = ("core.basic", "core.scalars")
"""Modules with scalar types. They have the versions of their snapshot classes, too."""

_FAMILIES: Final = (
    "core.basic",
    "core.collections",
    "core.arrays",
    "core.tuples",
    "core.rows",
    "core.nullable",
    "core.enums",
    "core.self_written",
    "core.pojo",
    "runtime.namespaces",
    "runtime.wrapping",
    "runtime.ttl",
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
    """
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
    name = next((plugin.name for plugin in PLUGINS if class_name.startswith(plugin.classes)), None)
    module: Any = name and import_module(f"state_processor.plugins.{name}.serializers")
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
