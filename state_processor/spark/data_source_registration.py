"""Registration of the data sources in a Spark session.

The class of a data source is code. A session gets classes of its own: they have the serializers of its owner, and the modules
that options may name. Spark pickles a class as it does with functions of Python, also through Spark Connect.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from itertools import count
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from state_processor.options.user_serializers import ALLOWED_CONF, TaskSerializers, allowed_modules
from state_processor.spark.datasource import FlinkSavepointMetadataDataSource
from state_processor.spark.sessions import check_session, send_package, settings_of_spark
from state_processor.spark.task_errors import raise_errors_of_tasks
from state_processor.spark.versions import start_configuration
from state_processor.support.errors import OptionError
from state_processor.support.locks import process_lock
from state_processor.support.mappings import attributes

_SOURCES: Final = {
    "state_processor.spark.datasource": ("FlinkSavepointDataSource", "FlinkSavepointMetadataDataSource"),
    "state_processor.applications.changes.changes_source": ("FlinkSavepointChangesDataSource",),
}
"""The classes of data sources, by their modules."""
_ALREADY_THERE: Final = "DATA_SOURCE_ALREADY_EXISTS"
_NOT_THERE: Final = "DATA_SOURCE_NOT_FOUND"


@dataclass(frozen=True, slots=True)
class _FormatOfRead:
    name: str
    source: type[DataSource]
    label: str
    code: TaskSerializers
    storage_options: Mapping[str, Any] = field(repr=False)


@dataclass(slots=True)
class _Formats:
    """What is registered in a session: Spark logs a warning if a format is registered twice."""

    allowed: tuple[str, ...]
    settings: Mapping[str, Any] = field(repr=False)
    of_reads: list[_FormatOfRead] = field(default_factory=list)


_SESSIONS: Final[WeakKeyDictionary[SparkSession, _Formats]] = WeakKeyDictionary()
_LOCK: Final = process_lock()
_NUMBERS: Final = count()
"""For names of formats: a session that is made from another has those of it."""


def register(spark: SparkSession, *, allow_serializers: str | Iterable[str] | None = None) -> None:
    """Register the formats ``flink-savepoint`` and ``flink-savepoint-metadata`` in a session. Idempotent.

    Not needed if the package is installed for Spark's Python: Spark finds the formats by itself. The option ``serializers`` then
    imports nothing.

    Parameters
    ----------
    spark
        The session.
    allow_serializers
        Modules that the option ``serializers`` of the formats may import in this session: names of modules, or ``acme.*`` for
        all modules of a package. Modules in ``spark.stateProcessor.serializers.allowed`` of the configuration that Spark
        started with are allowed as well. With ``None``, the modules of an earlier call remain allowed.

    Raises
    ------
    OptionError
        If ``spark`` is not a session, or a name is not the name of a module. If Spark 4.0 has found the formats by itself: it
        can't replace them by formats that import modules.

    Warns
    -----
    UserWarning
        If Spark 4.0 has found the formats by itself, and its configuration has settings of storage: they do not get these.
    """
    check_session(spark)
    _register_formats(spark, allow_serializers, settings_of_spark(spark))


def register_for_reader(spark: SparkSession) -> None:
    """Register the formats, unless they are there: a reader brings its own settings of storage."""
    _register_formats(spark, None, {})


def _register_formats(spark: SparkSession, allow_serializers: str | Iterable[str] | None, settings: Mapping[str, Any]) -> None:
    with _LOCK:
        formats = _SESSIONS.get(spark)
        if formats is not None and allow_serializers is None and settings in ({}, formats.settings):
            return
        allowed = allowed_modules(
            (*allowed_modules(start_configuration(spark, ALLOWED_CONF)), *allowed_modules(allow_serializers or ()))
        )
        if formats is not None and allow_serializers is None:
            allowed = formats.allowed
        settings = settings or (formats.settings if formats else {})
        if formats is not None and (formats.allowed, formats.settings) == (allowed, settings):
            return
        raise_errors_of_tasks()
        send_package(spark)
        attributes = {n: v for n, v in (("allowed", allowed), ("spark_settings", settings)) if v}
        is_found = formats is None and not attributes and _are_found(spark)
        for source in () if is_found else _sources():
            _register(spark, _variant(source, source.name(), **attributes) if attributes else source)
        _SESSIONS[spark] = _Formats(allowed, settings, formats.of_reads if formats else [])


def _sources() -> list[type[DataSource]]:
    sources: list[type[DataSource]] = []
    for module, names in _SOURCES.items():
        sources += attributes(import_module(module), names).values()
    return sources


def _are_found(spark: SparkSession) -> bool:
    """Return True if Spark has found the formats by itself; replacing them would be a warning in its log."""
    name = FlinkSavepointMetadataDataSource.name()
    session: Any = getattr(spark, "_jsparkSession", None)
    if session is not None:
        return bool(session.sessionState().dataSourceManager().dataSourceExists(name))
    try:  # Spark Connect: the server knows, and has this schema without opening a snapshot
        return bool(spark.read.format(name).load("/").schema)
    except PySparkException as error:
        if error.getCondition() != _NOT_THERE:
            raise
        return False


def format_of_read(
    spark: SparkSession,
    source: type[DataSource],
    label: str,
    code: TaskSerializers,
    storage_options: Mapping[str, Any] | None = None,
) -> str:
    """Return the name of a format of the session for reads of one state.

    ``label``: what is read. It is part of the name: Spark shows nothing else of the read in plans and in its user interface.
    ``code``: serializers that the tasks of the format know, and their door. ``storage_options``: settings of storage. They are
    attributes of the class: Spark's user interface shows options, and does not show classes.
    """
    settings = dict(storage_options or {})
    with _LOCK:
        formats = _SESSIONS[spark].of_reads
        for format_ in formats:
            same = format_.source is source and format_.label == label and format_.code.content == code.content
            if same and format_.storage_options == settings:
                return format_.name
        name = f"{source.name()}-{next(_NUMBERS)} {label}"
        spark.dataSource.register(_variant(source, name, code=code, storage_options=settings))
        formats.append(_FormatOfRead(name, source, label, code, settings))
    return name


def _register(spark: SparkSession, source: type[DataSource]) -> None:
    try:
        spark.dataSource.register(source)
    except PySparkException as error:
        if error.getCondition() != _ALREADY_THERE:
            raise
        if getattr(source, "allowed", ()):
            raise OptionError(
                f"Spark has found the format {source.name()} by itself; Spark 4.0 can't replace it by one that imports modules. "
                f"Start Spark without {ALLOWED_CONF}, do not pass allow_serializers, and pass serializers to SavepointReader or "
                "SavepointWriter"
            ) from error
        if getattr(source, "spark_settings", {}):
            warnings.warn(
                f"Spark has found the format {source.name()} by itself; Spark 4.0 can't replace it by one with the settings of "
                "storage in Spark's configuration (spark.hadoop.fs.s3a.…). Use SavepointReader and SavepointWriter, which have "
                "them, or pass them as options of the format: storage.endpoint_override and the like",
                stacklevel=4,
            )


def _variant(source: type[DataSource], name_: str, **attributes: Any) -> type[DataSource]:
    """Return a class that Spark pickles with its attributes: one that can be imported would be pickled by its name."""

    class Variant(source):  # type: ignore[misc, valid-type]
        @classmethod
        def name(cls) -> str:
            return name_

    for attribute, value in attributes.items():
        setattr(Variant, attribute, value)
    return Variant
