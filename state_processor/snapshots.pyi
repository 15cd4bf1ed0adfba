"""The names of :mod:`state_processor.snapshots`, and the module of each."""

from state_processor.backends.analysis.stored_sizes import (
    StoredSizes as StoredSizes,
    stored_as as stored_as,
)
from state_processor.backends.files.changes import (
    FileSink as FileSink,
    make_directory as make_directory,
    move_file as move_file,
    remove_file as remove_file,
)
from state_processor.backends.files.location import (
    Location as Location,
    refuse_undecodable as refuse_undecodable,
)
from state_processor.backends.files.recorded_paths import (
    BUG as BUG,
    recorded_location as recorded_location,
)
from state_processor.backends.files.storage import (
    OpenFile as OpenFile,
    Storage as Storage,
    storage_errors as storage_errors,
)
from state_processor.backends.metadata.checkpoint_order import (
    CheckpointPointer as CheckpointPointer,
    Doubt as Doubt,
    Mark as Mark,
    find_pointers as find_pointers,
    in_order as in_order,
    read_pointer as read_pointer,
)
from state_processor.backends.metadata.discovery import (
    DEPTH as DEPTH,
    JOB_DIGITS as JOB_DIGITS,
    POINTER_PREFIX as POINTER_PREFIX,
    find_snapshots as find_snapshots,
    is_checkpoint_name as is_checkpoint_name,
)
from state_processor.backends.metadata.handles import (
    IncrementalRemoteKeyedStateHandle as IncrementalRemoteKeyedStateHandle,
    KeyGroupRange as KeyGroupRange,
    RelativeFileStateHandle as RelativeFileStateHandle,
    StreamStateHandle as StreamStateHandle,
)
from state_processor.backends.metadata.operator_id import (
    HashedNode as HashedNode,
    graph_hashes as graph_hashes,
)
from state_processor.backends.metadata.properties import (
    CHECKPOINT as CHECKPOINT,
    NATIVE as NATIVE,
    SAVEPOINT as SAVEPOINT,
)
from state_processor.backends.metadata.queries import (
    QueryDescriptions as QueryDescriptions,
    kind_of_operator as kind_of_operator,
    operator_of_query as operator_of_query,
)
from state_processor.backends.metadata.snapshot import (
    Snapshot as Snapshot,
    locate_metadata as locate_metadata,
    open_snapshot as open_snapshot,
    some_of as some_of,
    uids_hint as uids_hint,
)
from state_processor.backends.metadata.snapshot_metadata import (
    LAYOUTS as LAYOUTS,
    METADATA_FILE as METADATA_FILE,
    OperatorState as OperatorState,
    stored_digest as stored_digest,
)
from state_processor.backends.metadata.streams import (
    StreamInFile as StreamInFile,
    recorded_files as recorded_files,
    stream_identity as stream_identity,
    streams_in_files as streams_in_files,
)
from state_processor.backends.read.catalog import (
    TABLES as TABLES,
    operators as operators,
    states as states,
)
from state_processor.backends.read.snapshot_checks import (
    FileCheck as FileCheck,
    StructureCheck as StructureCheck,
    ValueCheck as ValueCheck,
    check_files as check_files,
)
from state_processor.backends.write.assembly import (
    WIDEST_VERSION as WIDEST_VERSION,
    oldest_flink_version as oldest_flink_version,
    release_for as release_for,
)
from state_processor.backends.write.carried_files import (
    is_moved as is_moved,
    refer_to_claimed as refer_to_claimed,
)
from state_processor.backends.write.staging import (
    Staging as Staging,
    is_gone as is_gone,
    is_name_of_write as is_name_of_write,
    this_process as this_process,
)
from state_processor.read.snapshots import (
    FINDING as FINDING,
    checked as checked,
    discovered as discovered,
    searched as searched,
    snapshots_table as snapshots_table,
)
from state_processor.serializers.evolution.migration import (
    RELEASES as RELEASES,
)
from state_processor.serializers.format_versions import (
    Release as Release,
    release_of as release_of,
)
from state_processor.support.errors import (
    foreign_errors as foreign_errors,
    noted_errors as noted_errors,
)
from state_processor.write.plan.restorability import (
    Obstacle as Obstacle,
    RegisteredStates as RegisteredStates,
)
