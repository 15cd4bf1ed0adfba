"""The public names, and the module of each: :mod:`state_processor` imports a module when its name is first used."""

from state_processor import (
    arrow as arrow,
    connectors as connectors,
    duckdb as duckdb,
    errors as errors,
    polars as polars,
    pyflink as pyflink,
)
from state_processor.backends.metadata.discovery import SnapshotInfo as SnapshotInfo
from state_processor.applications.erasing.erasure import erase as erase
from state_processor.applications.erasing.erasure_report import ErasureReport as ErasureReport
from state_processor.errors import (
    CorruptSnapshotError as CorruptSnapshotError,
    ForbiddenPathError as ForbiddenPathError,
    ForeignCodeError as ForeignCodeError,
    InvalidRowError as InvalidRowError,
    MissingFileError as MissingFileError,
    NotASnapshotError as NotASnapshotError,
    NotFoundError as NotFoundError,
    OptionError as OptionError,
    ScratchSpaceError as ScratchSpaceError,
    StateMigrationError as StateMigrationError,
    StateProcessorError as StateProcessorError,
    UndecodableValueError as UndecodableValueError,
    UndescribedClassError as UndescribedClassError,
    UnknownSerializerError as UnknownSerializerError,
    UnsupportedFormatError as UnsupportedFormatError,
    WriteError as WriteError,
)
from state_processor.applications.explain.explaining import explain as explain
from state_processor.applications.explain.explanation import Explanation as Explanation
from state_processor.applications.fleet.erasing import (
    FleetErasure as FleetErasure,
    JobErasure as JobErasure,
    erase_in_fleet as erase_in_fleet,
)
from state_processor.applications.fleet.finding import (
    FleetFindings as FleetFindings,
    find_in_fleet as find_in_fleet,
)
from state_processor.applications.fleet.table import fleet as fleet
from state_processor.applications.jobs.check import check_job as check_job
from state_processor.applications.jobs.matching import match_operators as match_operators
from state_processor.applications.jobs.opening import signature as signature
from state_processor.applications.jobs.plan_compiler import plan_from_sql as plan_from_sql
from state_processor.applications.jobs.signature import JobSignature as JobSignature
from state_processor.applications.jobs.verdicts import JobReport as JobReport
from state_processor.applications.lake.sync import (
    SyncCommit as SyncCommit,
    sync as sync,
)
from state_processor.applications.point_in_time import history_of as history_of
from state_processor.applications.structured_streaming import StreamingCheckpoint as StreamingCheckpoint
from state_processor.applications.finding.finding import (
    Findings as Findings,
    find as find,
)
from state_processor.applications.history.growth import growth as growth
from state_processor.applications.history.history import (
    history as history,
    plot_history as plot_history,
)
from state_processor.read.key_contents import KeyContents as KeyContents
from state_processor.display.showing import show as show
from state_processor.opening import open as open
from state_processor.read.snapshots import list_snapshots as list_snapshots
from state_processor.reader import SavepointReader as SavepointReader
from state_processor.samples import sample_savepoint as sample_savepoint
from state_processor.serializers.base import SchemaCompatibility as SchemaCompatibility
from state_processor.spark.data_source_registration import register as register
from state_processor.applications.changes.spark_difference import diff as diff
from state_processor.applications.sql.spark_views import create_views as create_views
from state_processor.types.flink_types import Types as Types
from state_processor.types.identifier import OperatorIdentifier as OperatorIdentifier
from state_processor.types.state_specs import (
    AggregatingState as AggregatingState,
    ListState as ListState,
    MapState as MapState,
    ReducingState as ReducingState,
    ValueState as ValueState,
)
from state_processor.write.plan.reports import (
    MigrationReport as MigrationReport,
    QueryMigrationReport as QueryMigrationReport,
    StateReport as StateReport,
)
from state_processor.applications.retention.housekeeping import (
    FileUse as FileUse,
    RemovalSummary as RemovalSummary,
    dispose as dispose,
    files as files,
    orphans as orphans,
    retain as retain,
)
from state_processor.write.plan.reports import (
    OperatorSummary as OperatorSummary,
    StateChanges as StateChanges,
    WriteSummary as WriteSummary,
)
from state_processor.writer import SavepointWriter as SavepointWriter

__version__: str

def stub_names(module: str, stub: str = ...) -> dict[str, str]: ...
def lazy_names(room: str, stub: str) -> tuple[object, object]: ...
