"""The names of :mod:`state_processor.states`, and the module of each."""

from state_processor.backends.analysis.entry_bytes import (
    EntriesInMemory as EntriesInMemory,
    EntryBytes as EntryBytes,
    StateEntries as StateEntries,
)
from state_processor.backends.analysis.entry_sizes import (
    ENTRIES as ENTRIES,
    KeyedSizes as KeyedSizes,
    PLACES as PLACES,
    SIZE_IN_BYTES as SIZE_IN_BYTES,
    largest as largest,
)
from state_processor.backends.analysis.narrowing import (
    Narrowing as Narrowing,
)
from state_processor.backends.analysis.store_changes import (
    BytesRead as BytesRead,
    FULL as FULL,
)
from state_processor.backends.analysis.stored_bytes import (
    all_parts as all_parts,
    contents as contents,
    erased_keys as erased_keys,
    positions as positions,
    stored_tables as stored_tables,
    table_origins as table_origins,
)
from state_processor.backends.analysis.unequal_entries import (
    unequal_entries as unequal_entries,
)
from state_processor.backends.connectors.connector import (
    COMMITTABLE as COMMITTABLE,
    ROLE as ROLE,
)
from state_processor.backends.connectors.kafka import (
    TRANSACTION as TRANSACTION,
)
from state_processor.backends.connectors.sink_state import (
    COMMITTER_STATE as COMMITTER_STATE,
    read_sink_state as read_sink_state,
    sink_state as sink_state,
)
from state_processor.backends.connectors.writers import (
    UNKNOWN_WRITER as UNKNOWN_WRITER,
    states_of_connectors as states_of_connectors,
    writers_of_bytes as writers_of_bytes,
)
from state_processor.backends.files.ordered_threads import (
    in_order as in_order,
    parts_for as parts_for,
    read_all as read_all,
    threads_for as threads_for,
)
from state_processor.backends.formats.row_layout import (
    KEY_COLUMN as KEY_COLUMN,
    TIMESTAMP as TIMESTAMP,
)
from state_processor.backends.formats.row_shapes import (
    FIRES_AT as FIRES_AT,
    LAST_ACCESS as LAST_ACCESS,
    LIST_INDEX as LIST_INDEX,
)
from state_processor.backends.formats.source import (
    KeyedStateSource as KeyedStateSource,
)
from state_processor.backends.formats.sst.erased_table import (
    ErasedKeys as ErasedKeys,
)
from state_processor.backends.read.field_names import (
    with_names_of_plan as with_names_of_plan,
)
from state_processor.backends.read.key_rows import (
    RecentResults as RecentResults,
)
from state_processor.backends.read.keyed_reader import (
    DOMAIN as DOMAIN,
    KeyedStateReader as KeyedStateReader,
    SERVICE as SERVICE,
    plan_read as plan_read,
)
from state_processor.backends.read.keyed_splits import (
    KeyedHandle as KeyedHandle,
    SPLIT_BYTES as SPLIT_BYTES,
    cut_at_bounds as cut_at_bounds,
    handles_with as handles_with,
    is_asynchronous as is_asynchronous,
    key_group_chunks as key_group_chunks,
    keyed_handles as keyed_handles,
    managed_handles as managed_handles,
)
from state_processor.backends.read.operator_state import (
    OperatorStateReader as OperatorStateReader,
)
from state_processor.backends.read.raw_state import (
    RAW_KEYED as RAW_KEYED,
    RAW_OPERATOR as RAW_OPERATOR,
    channel_states as channel_states,
    raw_keyed_state as raw_keyed_state,
    raw_operator_state as raw_operator_state,
)
from state_processor.backends.read.schemas import (
    comments_of as comments_of,
    schema_text as schema_text,
    spark_ddl as spark_ddl,
    with_note as with_note,
)
from state_processor.backends.read.state_access import (
    KEYED_KIND as KEYED_KIND,
    StateReader as StateReader,
    StatesToRead as StatesToRead,
    TIMER_KIND as TIMER_KIND,
    open_state as open_state,
)
from state_processor.backends.read.stored_operator import (
    StoredOperator as StoredOperator,
    Survey as Survey,
    find_operator as find_operator,
    of_one_subtask as of_one_subtask,
    operator_label as operator_label,
    survey as survey,
    surveys as surveys,
)
from state_processor.backends.state.descriptions import (
    BROADCAST as BROADCAST,
    EVENT_TIMER as EVENT_TIMER,
    KeyedDescription as KeyedDescription,
    LIST as LIST,
    MAP as MAP,
    OPERATOR_KINDS as OPERATOR_KINDS,
    OPERATOR_LIST as OPERATOR_LIST,
    OperatorDescription as OperatorDescription,
    PROCESSING_TIMER as PROCESSING_TIMER,
    StateDescription as StateDescription,
    TIMERS as TIMERS,
    UNION_LIST as UNION_LIST,
    UnreadState as UnreadState,
    VALUE as VALUE,
)
from state_processor.backends.state.key_groups import (
    default_max_parallelism as default_max_parallelism,
    range_of_subtask as range_of_subtask,
)
from state_processor.backends.state.python_states import (
    check_known as check_known,
    is_python_state as is_python_state,
    shown_name as shown_name,
    stored_name as stored_name,
)
from state_processor.backends.write.entry_encoder import (
    NAMESPACES as NAMESPACES,
)
from state_processor.read.key_contents import (
    KeyLookUp as KeyLookUp,
)
from state_processor.read.projection import (
    Projection as Projection,
)
from state_processor.read.rows import (
    Rows as Rows,
    read_type as read_type,
    with_read_types as with_read_types,
)
from state_processor.read.scans import (
    ArrowSchema as ArrowSchema,
    StateRequest as StateRequest,
    StateScan as StateScan,
    columns_of as columns_of,
    takes_keys as takes_keys,
)
from state_processor.read.sizes import (
    SizePart as SizePart,
    SizeReport as SizeReport,
    SizesBy as SizesBy,
)
from state_processor.serializers.decode_options import (
    Nanos as Nanos,
)
from state_processor.serializers.kernel.decode.loop import (
    compile_reading as compile_reading,
)
from state_processor.serializers.text_grammar import (
    json_text_of as json_text_of,
    parse_json as parse_json,
)
from state_processor.serializers.traversal import (
    join_path as join_path,
)
from state_processor.types.declared_types import (
    PythonTypeArgument as PythonTypeArgument,
)
from state_processor.write.operator_state_changes import (
    edit_elements as edit_elements,
)
