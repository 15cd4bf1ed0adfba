"""Apache Flink savepoints and checkpoints as Spark DataFrames, from Python.

Spark is imported when something that needs it is used; :mod:`state_processor.arrow` does not.
"""

from __future__ import annotations

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from state_processor import arrow, connectors, duckdb, errors, polars, pyflink
    from state_processor.backends.metadata.discovery import SnapshotInfo
    from state_processor.erasing.erasure import erase
    from state_processor.erasing.erasure_report import ErasureReport
    from state_processor.errors import (
        CorruptSnapshotError,
        ForbiddenPathError,
        ForeignCodeError,
        InvalidRowError,
        MissingFileError,
        NotASnapshotError,
        NotFoundError,
        OptionError,
        ScratchSpaceError,
        StateMigrationError,
        StateProcessorError,
        UndecodableValueError,
        UndescribedClassError,
        UnknownSerializerError,
        UnsupportedFormatError,
        WriteError,
    )
    from state_processor.job.check import check_job
    from state_processor.job.matching import match_operators
    from state_processor.job.opening import signature
    from state_processor.job.plan_compiler import plan_from_sql
    from state_processor.job.signature import JobSignature
    from state_processor.job.verdicts import JobReport
    from state_processor.lake.sync import SyncCommit, sync
    from state_processor.read.finding import Findings, find
    from state_processor.read.growth import growth
    from state_processor.read.history import history
    from state_processor.read.history_plot import plot_history
    from state_processor.read.key_contents import KeyContents
    from state_processor.read.snapshots import list_snapshots
    from state_processor.reader import SavepointReader
    from state_processor.serializers.compatibility import SchemaCompatibility
    from state_processor.spark.data_source_registration import register
    from state_processor.spark.difference import diff
    from state_processor.sql.spark_views import create_views
    from state_processor.types.flink_types import Types
    from state_processor.types.identifier import OperatorIdentifier
    from state_processor.types.state_specs import AggregatingState, ListState, MapState, ReducingState, ValueState
    from state_processor.write.migration_report import MigrationReport, QueryMigrationReport, StateReport
    from state_processor.write.retention import FileUse, RemovalSummary, dispose, files, orphans, retain
    from state_processor.write.write_summary import OperatorSummary, StateChanges, WriteSummary
    from state_processor.writer import SavepointWriter

__version__ = "0.1.0"

_MODULES: Final = ("arrow", "connectors", "duckdb", "errors", "polars", "pyflink")

__all__ = [
    "AggregatingState",
    "CorruptSnapshotError",
    "ErasureReport",
    "FileUse",
    "Findings",
    "ForbiddenPathError",
    "ForeignCodeError",
    "InvalidRowError",
    "JobReport",
    "JobSignature",
    "KeyContents",
    "ListState",
    "MapState",
    "MigrationReport",
    "MissingFileError",
    "NotASnapshotError",
    "NotFoundError",
    "OperatorIdentifier",
    "OperatorSummary",
    "OptionError",
    "QueryMigrationReport",
    "ReducingState",
    "RemovalSummary",
    "SavepointReader",
    "SavepointWriter",
    "SchemaCompatibility",
    "ScratchSpaceError",
    "SnapshotInfo",
    "StateChanges",
    "StateMigrationError",
    "StateProcessorError",
    "StateReport",
    "SyncCommit",
    "Types",
    "UndecodableValueError",
    "UndescribedClassError",
    "UnknownSerializerError",
    "UnsupportedFormatError",
    "ValueState",
    "WriteError",
    "WriteSummary",
    "arrow",
    "check_job",
    "connectors",
    "create_views",
    "diff",
    "dispose",
    "duckdb",
    "erase",
    "errors",
    "files",
    "find",
    "growth",
    "history",
    "list_snapshots",
    "match_operators",
    "orphans",
    "plan_from_sql",
    "plot_history",
    "polars",
    "pyflink",
    "register",
    "retain",
    "signature",
    "sync",
]

_NAMES: Final = {
    "errors": tuple(name for name in __all__ if name.endswith("Error")),
    "backends.metadata.discovery": ("SnapshotInfo",),
    "erasing.erasure": ("erase",),
    "erasing.erasure_report": ("ErasureReport",),
    "job.check": ("check_job",),
    "job.matching": ("match_operators",),
    "job.opening": ("signature",),
    "job.plan_compiler": ("plan_from_sql",),
    "job.signature": ("JobSignature",),
    "job.verdicts": ("JobReport",),
    "lake.sync": ("SyncCommit", "sync"),
    "read.finding": ("Findings", "find"),
    "read.growth": ("growth",),
    "read.history": ("history",),
    "read.history_plot": ("plot_history",),
    "read.key_contents": ("KeyContents",),
    "read.snapshots": ("list_snapshots",),
    "reader": ("SavepointReader",),
    "serializers.compatibility": ("SchemaCompatibility",),
    "spark.data_source_registration": ("register",),
    "spark.difference": ("diff",),
    "sql.spark_views": ("create_views",),
    "types.flink_types": ("Types",),
    "types.identifier": ("OperatorIdentifier",),
    "types.state_specs": ("AggregatingState", "ListState", "MapState", "ReducingState", "ValueState"),
    "write.migration_report": ("MigrationReport", "QueryMigrationReport", "StateReport"),
    "write.retention": ("FileUse", "RemovalSummary", "dispose", "files", "orphans", "retain"),
    "write.write_summary": ("OperatorSummary", "StateChanges", "WriteSummary"),
    "writer": ("SavepointWriter",),
}
"""The public names of each module."""
_HOMES: Final = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _imported(f"{__name__}.{name}")
    if name in _HOMES:
        value = getattr(_module_of(name), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _module_of(name: str) -> Any:
    try:
        return _imported(_HOMES[name])
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] not in ("py4j", "pyspark"):
            raise
        from state_processor.errors import OptionError

        without = "sp.arrow, sp.polars, sp.duckdb and the command line work without it"
        raise OptionError(f"{name} needs Spark, which is not installed: pip install pyspark; {without}") from None


def _imported(name: str) -> Any:
    """Import a module. The garbage collector waits: it would search the many new objects again and again, and find nothing.

    Afterwards the new objects are in the oldest generation, where ``gc.freeze`` and ``gc.unfreeze`` leave them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        if was_enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
